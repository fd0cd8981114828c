// Package presets describes the clusters that come with the program. It is data alone.
package presets

import (
	"fmt"
	"net/netip"
	"sort"

	"ckadrill/sim/kubeadm"
)

const gibibyte = 1 << 30

// Names lists the presets.
func Names() []string {
	l := []string{}
	for n := range presets {
		l = append(l, n)
	}
	sort.Strings(l)
	return l
}

// Get returns a preset.
func Get(name string) (kubeadm.Cluster, error) {
	f, ok := presets[name]
	if !ok {
		return kubeadm.Cluster{}, fmt.Errorf("there is no cluster %q; there are %v", name, Names())
	}
	return f(), nil
}

var presets = map[string]func() kubeadm.Cluster{
	"reference": Reference,
	"recorded":  Recorded,
	"ha":        HighlyAvailable,
}

// machine is one of the machines that all presets share: a control plane with 2 CPUs and 4 GiB, workers with 2 GiB.
func machine(i int, role kubeadm.Role, name string, images []string) kubeadm.Machine {
	m := kubeadm.Machine{
		Name: name, Role: role, Images: images,
		Address: netip.AddrFrom4([4]byte{192, 168, 122, byte(11 + i)}),
		PodCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24),
		CPUs:    2, Memory: 2 * gibibyte, Disk: 20 * gibibyte,
	}
	if role == kubeadm.ControlPlane {
		m.Memory = 4 * gibibyte
	}
	return m
}

// systemImages are what runs on every node of a cluster of a version.
func systemImages(version string) []string {
	return []string{"registry.k8s.io/pause:3.10.1", "registry.k8s.io/kube-proxy:" + version, "registry.k8s.io/coredns/coredns:v1.13.1"}
}

// controlPlaneImages are what "kubeadm config images pull" brings to a control plane.
func controlPlaneImages(version string) []string {
	return append(systemImages(version),
		"registry.k8s.io/etcd:3.6.6-0", "registry.k8s.io/kube-apiserver:"+version,
		"registry.k8s.io/kube-controller-manager:"+version, "registry.k8s.io/kube-scheduler:"+version)
}

var flannelImages = []string{"ghcr.io/flannel-io/flannel:v0.27.4", "ghcr.io/flannel-io/flannel-cni-plugin:v1.8.0-flannel1"}

// Reference is the cluster that drills run on: kubeadm v1.35.9 by flags alone, containerd, flannel.
func Reference() kubeadm.Cluster {
	const version = "v1.35.9"
	c := kubeadm.Cluster{
		Version: version, CNI: kubeadm.Flannel,
		PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/12"),
		Machines: []kubeadm.Machine{
			machine(0, kubeadm.ControlPlane, "cka-cp1", append(controlPlaneImages(version), flannelImages...)),
			machine(1, kubeadm.Worker, "cka-w1", append(systemImages(version), flannelImages...)),
			machine(2, kubeadm.Worker, "cka-w2", append(systemImages(version), flannelImages...)),
		},
	}
	return c
}

// Recorded is the cluster that the ground truth was recorded from: kubeadm v1.35.4 from a configuration file with the
// cgroupfs driver on cgroup v1, a bridge on each node, the kubelet of cka-cp1 with --node-ip.
func Recorded() kubeadm.Cluster {
	const version = "v1.35.4"
	work := []string{"docker.io/library/busybox:1.36", "docker.io/library/nginx:1.27"}
	c := kubeadm.Cluster{
		Version: version, CNI: kubeadm.Bridge, CgroupDriver: "cgroupfs", AllowCgroupV1: true, Unpackaged: true, CRITools: "v1.34.0",
		PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/12"),
		Machines: []kubeadm.Machine{
			machine(0, kubeadm.ControlPlane, "cka-cp1", append(controlPlaneImages(version), work...)),
			machine(1, kubeadm.Worker, "cka-w1", append(systemImages(version), work...)),
			machine(2, kubeadm.Worker, "cka-w2", append(systemImages(version), work...)),
		},
	}
	c.Machines[0].KubeletArgs = []string{"node-ip=192.168.122.11"}
	return c
}

// HighlyAvailable is a cluster like the reference with three control planes, each with a member of etcd, behind haproxy on a
// machine of its own.
func HighlyAvailable() kubeadm.Cluster {
	c := Reference()
	c.Endpoint = "cka-lb:6443"
	cp, w := c.Machines[0].Images, c.Machines[1].Images
	c.Machines = []kubeadm.Machine{
		machine(0, kubeadm.ControlPlane, "cka-cp1", cp),
		machine(1, kubeadm.ControlPlane, "cka-cp2", cp),
		machine(2, kubeadm.ControlPlane, "cka-cp3", cp),
		machine(3, kubeadm.Worker, "cka-w1", w),
		machine(4, kubeadm.Worker, "cka-w2", w),
		{Name: "cka-lb", Role: kubeadm.Balancer, Address: netip.AddrFrom4([4]byte{192, 168, 122, 10}), CPUs: 1, Memory: gibibyte, Disk: 10 * gibibyte},
	}
	for i := range c.Machines {
		c.Machines[i].PodCIDR = netip.Prefix{} // whichever the controller manager gives it
	}
	return c
}
