package kubelet

import (
	"bytes"
	"context"
	"path"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"ckadrill/sim/kernel"
)

// environment is what surrounds a container: upstream's kubecontainer.RuntimeHelper, with the files that belong to it
// written to the machine's tree.
type environment struct {
	*kubelet.Kubelet
	p        *kernel.Process
	root     *roots
	volumes  volumemanager.VolumeManager
	utils    hostUtils
	subpaths subPaths
}

// GenerateRunContainerOptions implements kubecontainer.RuntimeHelper in the steps of upstream's method: environment
// variables, mounts, /etc/hosts, the directory of the termination message.
func (e *environment) GenerateRunContainerOptions(ctx context.Context, pod *v1.Pod, c *v1.Container, podIP string, podIPs []string, images kubecontainer.ImageVolumes) (*kubecontainer.RunContainerOptions, func(), error) {
	opts := &kubecontainer.RunContainerOptions{}
	host, domain, err := e.GeneratePodHostNameAndDomain(pod)
	if err != nil {
		return nil, nil, err
	}
	volumes := e.volumes.GetMountedVolumesForPod(volumeutil.GetUniquePodName(pod))
	if opts.Envs, err = makeEnvironmentVariables(e.Kubelet, pod, c, podIP, podIPs, volumes); err != nil {
		return nil, nil, err
	}
	// Upstream's makeMounts writes /etc/hosts to the host's disk, unless the Pod has no address yet: so it is asked
	// without one.
	bare := pod.DeepCopy()
	bare.Spec.HostNetwork = false
	dir := e.podDir(pod.UID)
	supportsRRO := runtimeClassSupportsRecursiveReadOnlyMounts(e.Kubelet, pod)
	mounts, cleanUp, err := makeMounts(bare, dir, c, host, domain, nil, volumes, e.utils, e.subpaths, opts.Envs, supportsRRO, images)
	if err != nil {
		return nil, cleanUp, err
	}
	for i := range mounts {
		if mounts[i].HostPath != "" {
			mounts[i].HostPath = e.root.machinePath(mounts[i].HostPath)
		}
	}
	if (len(podIPs) > 0 || pod.Spec.HostNetwork) && !mountsAt(c, "/etc/hosts") {
		m, err := e.hosts(dir, pod, host, domain, podIPs)
		if err != nil {
			return nil, cleanUp, err
		}
		mounts = append(mounts, m)
	}
	opts.Mounts = mounts
	if c.TerminationMessagePath != "" {
		d := path.Join(dir, "containers", c.Name)
		if err := e.p.Files.MkdirAll(d, 0o750); err != nil {
			klog.ErrorS(err, "Error on creating dir", "path", d)
		} else {
			opts.PodContainerDir = d
		}
	}
	return opts, cleanUp, nil
}

func mountsAt(c *v1.Container, target string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == target {
			return true
		}
	}
	return false
}

func (e *environment) podDir(uid types.UID) string {
	return path.Join(e.root.machine, "pods", string(uid))
}

// hostNetworkHosts is upstream's managedHostsHeaderWithHostNetwork.
const hostNetworkHosts = "# Kubernetes-managed hosts file (host network).\n"

// hosts writes the Pod's /etc/hosts.
func (e *environment) hosts(dir string, pod *v1.Pod, host, domain string, ips []string) (kubecontainer.Mount, error) {
	content := managedHostsFileContent(ips, host, domain, pod.Spec.HostAliases)
	if pod.Spec.HostNetwork {
		b, err := e.p.Files.ReadFile("/etc/hosts")
		if err != nil {
			return kubecontainer.Mount{}, err
		}
		content = append(append([]byte(hostNetworkHosts), b...), hostsEntriesFromHostAliases(pod.Spec.HostAliases)...)
	}
	file := path.Join(dir, "etc-hosts")
	if err := e.p.Files.MkdirAll(dir, 0o750); err != nil {
		return kubecontainer.Mount{}, err
	}
	if err := e.p.Files.WriteFile(file, content, 0o644); err != nil {
		return kubecontainer.Mount{}, err
	}
	if err := e.p.Files.Chmod(file, 0o644); err != nil {
		return kubecontainer.Mount{}, err
	}
	return kubecontainer.Mount{Name: "k8s-managed-etc-hosts", ContainerPath: "/etc/hosts", HostPath: file, SELinuxRelabel: true}, nil
}

// GetPodDir implements kubecontainer.RuntimeHelper.
func (e *environment) GetPodDir(uid types.UID) string { return e.podDir(uid) }

// resolveFromMachine lets upstream's DNS configurer read the machine's resolv.conf.
func resolveFromMachine(p *kernel.Process, c *dns.Configurer) {
	setField(c, "getHostDNSConfig", func(_ klog.Logger, name string) (*runtimeapi.DNSConfig, error) {
		if name == "" {
			return &runtimeapi.DNSConfig{Servers: []string{}, Searches: []string{}}, nil
		}
		b, err := p.Files.ReadFile(name)
		if err != nil {
			logAt(p, "dns.go", 286).Error(err, "Could not open resolv conf file.")
			return nil, err
		}
		servers, searches, options, err := parseResolvConf(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return &runtimeapi.DNSConfig{Servers: servers, Searches: searches, Options: options}, nil
	})
}
