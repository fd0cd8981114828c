package kubelet

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubelet/pkg/types"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// NewPodContainerManager implements cm.ContainerManager.
func (m *containerManager) NewPodContainerManager() cm.PodContainerManager {
	return podCgroups{m.ContainerManager.NewPodContainerManager(), m.config, m.runtime}
}

// podCgroups names the cgroup of each Pod, which the runtime is told. Making and removing them is the stub's, that is
// nobody's: a Pod's containers are confined, each for itself, and its cgroup has what they have together.
type podCgroups struct {
	cm.PodContainerManager
	config  cm.NodeConfig
	runtime internalapi.RuntimeService
}

// GetPodCgroupConfig is upstream's podContainerManagerImpl.GetPodCgroupConfig: the values of one resource.
func (c podCgroups) GetPodCgroupConfig(pod *v1.Pod, name v1.ResourceName) (*cm.ResourceConfig, error) {
	ctx := context.Background()
	l, err := c.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{types.KubernetesPodUIDLabel: string(pod.UID)},
	})
	if err != nil {
		return nil, err
	}
	running := map[string]*runtimeapi.LinuxContainerResources{}
	for _, k := range l {
		s, err := c.runtime.ContainerStatus(ctx, k.Id, false)
		if err != nil {
			return nil, err
		}
		running[k.Labels[types.KubernetesContainerNameLabel]] = s.GetStatus().GetResources().GetLinux()
	}
	now := pod.DeepCopy()
	for i := range now.Spec.InitContainers {
		takeOver(&now.Spec.InitContainers[i], running)
	}
	for i := range now.Spec.Containers {
		takeOver(&now.Spec.Containers[i], running)
	}
	all := cm.ResourceConfigForPod(now, c.config.EnforceCPULimits, uint64(c.config.CPUCFSQuotaPeriod.Microseconds()), false)
	if name == v1.ResourceMemory {
		return &cm.ResourceConfig{Memory: all.Memory}, nil
	}
	return &cm.ResourceConfig{CPUShares: all.CPUShares, CPUQuota: all.CPUQuota, CPUPeriod: all.CPUPeriod}, nil
}

// takeOver sets a container's resources to those that it runs with. A container that does not run keeps what it asks for.
func takeOver(k *v1.Container, running map[string]*runtimeapi.LinuxContainerResources) {
	r := running[k.Name]
	if r == nil {
		return
	}
	shares, period := uint64(r.CpuShares), uint64(r.CpuPeriod)
	c := &cm.ResourceConfig{CPUShares: &shares, CPUQuota: &r.CpuQuota, CPUPeriod: &period, Memory: &r.MemoryLimitInBytes}
	set := func(l *v1.ResourceList, name v1.ResourceName, q *resource.Quantity) {
		delete(*l, name)
		if q == nil {
			return
		}
		if *l == nil {
			*l = v1.ResourceList{}
		}
		(*l)[name] = *q
	}
	set(&k.Resources.Requests, v1.ResourceCPU, cm.CPURequestsFromConfig(c))
	set(&k.Resources.Limits, v1.ResourceCPU, cm.CPULimitsFromConfig(c))
	set(&k.Resources.Limits, v1.ResourceMemory, cm.MemoryLimitsFromConfig(c))
}

// SetPodCgroupConfig implements cm.PodContainerManager; the containers get their shares from the runtime.
func (podCgroups) SetPodCgroupConfig(klog.Logger, *v1.Pod, *cm.ResourceConfig) error { return nil }

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
