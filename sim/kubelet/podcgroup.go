package kubelet

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// NewPodContainerManager implements cm.ContainerManager.
func (m *containerManager) NewPodContainerManager() cm.PodContainerManager {
	return podCgroups{m.ContainerManager.NewPodContainerManager(), m.config}
}

// podCgroups names the cgroup of each Pod, which the runtime is told. Making and removing them is the stub's, that is
// nobody's.
type podCgroups struct {
	cm.PodContainerManager
	config cm.NodeConfig
}

// GetPodContainerName is upstream's podContainerManagerImpl.GetPodContainerName.
func (c podCgroups) GetPodContainerName(pod *v1.Pod) (cm.CgroupName, string) {
	if !c.config.CgroupsPerQOS {
		return nil, ""
	}
	name := cm.CgroupName{"kubepods"}
	switch v1qos.GetPodQOS(pod) {
	case v1.PodQOSBurstable:
		name = append(name, "burstable")
	case v1.PodQOSBestEffort:
		name = append(name, "besteffort")
	}
	name = append(name, "pod"+string(pod.UID))
	if c.config.CgroupDriver != "systemd" {
		return name, "/" + strings.Join(name, "/")
	}
	path, slice := "", ""
	for _, part := range name {
		if slice != "" {
			slice += "-"
		}
		slice += strings.ReplaceAll(part, "-", "_") // in a slice's name a dash means a level
		path += "/" + slice + ".slice"
	}
	return name, path
}

// GetPodCgroupRoot implements cm.ContainerManager: the cgroup that holds all Pods.
func (m *containerManager) GetPodCgroupRoot() string {
	switch {
	case !m.config.CgroupsPerQOS:
		return "/"
	case m.config.CgroupDriver == "systemd":
		return "/kubepods.slice"
	}
	return "/kubepods"
}
