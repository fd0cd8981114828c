package kubeadm

import (
	"fmt"
	"net/netip"

	"ckadrill/sim/packages"
)

// CNI is the kind of Pod network of a cluster.
type CNI string

const (
	// NoCNI leaves the nodes without a Pod network, as kubeadm alone does: they stay NotReady.
	NoCNI CNI = ""
	// Flannel is the DaemonSet kube-flannel-ds, whose init containers install the plugin and its configuration.
	Flannel CNI = "flannel"
	// Bridge is a configuration file for the bridge plugin on each node, written by hand: no DaemonSet, no policies.
	Bridge CNI = "bridge"
)

// Role is what a machine is to the cluster.
type Role string

const (
	// ControlPlane machines run etcd, the API server and the controllers as static Pods.
	ControlPlane Role = "control-plane"
	// Worker machines have joined the cluster.
	Worker Role = "worker"
	// Spare machines have the packages, but are not part of the cluster: "kubeadm init" or "join" can be run there.
	Spare Role = "spare"
	// Balancer machines run haproxy, which leads to the control planes, and have no Kubernetes package.
	Balancer Role = "load-balancer"
	// Plain machines have no Kubernetes package but kubectl: a place to work from.
	Plain Role = "plain"
)

// Cluster describes a cluster and its machines. It is plain data.
type Cluster struct {
	// Version is Kubernetes' own, "v1.35.9": of the control plane, and of the machines that name no other.
	Version string
	// PodCIDR and ServiceCIDR are kubeadm's podSubnet and serviceSubnet.
	PodCIDR, ServiceCIDR netip.Prefix
	// Endpoint is kubeadm's controlPlaneEndpoint, host:port of a load balancer; "" is the first control plane's address.
	Endpoint string
	CNI      CNI
	// CgroupDriver is the kubelet's, "systemd" if empty.
	CgroupDriver string
	// AllowCgroupV1 sets the kubelet's failCgroupV1 to false.
	AllowCgroupV1 bool
	// Token is the bootstrap token of kubeadm init, "" draws one from the world's randomness.
	Token string
	// Unpackaged says that the programs were copied, not installed from the deb packages: those would also bring an empty
	// directory for static Pods to every node.
	Unpackaged bool
	// CRITools is the release of crictl, that of the packages if empty.
	CRITools string
	Machines []Machine
}

// criTools is the release of crictl on a machine of a version.
func (c Cluster) criTools(version string) string {
	if c.CRITools != "" {
		return c.CRITools
	}
	return packages.CRITools(version)
}

// Machine describes one machine of a cluster.
type Machine struct {
	Name    string
	Address netip.Addr
	Role    Role
	// PodCIDR is the part of the cluster's that the node is expected to get from the controller manager. Only [Bridge] needs
	// it before the node exists.
	PodCIDR netip.Prefix
	// Version is that of the machine's packages, "" is the cluster's.
	Version string
	// KubeletArgs are kubeadm's kubeletExtraArgs, "node-ip=192.168.122.11".
	KubeletArgs []string
	// Resolved says that systemd-resolved is active: kubeadm then points the kubelet at the file it keeps.
	Resolved bool
	// CPUs, Memory and Disk are the machine's size; the last two are in bytes.
	CPUs         int
	Memory, Disk int64
	// Images are preloaded into containerd.
	Images []string
}

// version is the version of the machine's packages.
func (m Machine) version(c Cluster) string {
	if m.Version != "" {
		return m.Version
	}
	return c.Version
}

// byFile says whether the cluster cannot have been made by kubeadm's flags alone, but by a configuration file.
func (c Cluster) byFile() bool { return c.CgroupDriver != "" || c.AllowCgroupV1 }

// FirstControlPlane is the machine on which "kubeadm init" is thought to have run.
func (c Cluster) FirstControlPlane() (Machine, error) {
	for _, m := range c.Machines {
		if m.Role == ControlPlane {
			return m, nil
		}
	}
	return Machine{}, fmt.Errorf("cluster %s has no control plane machine", c.Version)
}

// Validate says what is wrong with the description.
func (c Cluster) Validate() error {
	if c.Version == "" || c.Version[0] != 'v' {
		return fmt.Errorf("version %q must look like v1.35.9", c.Version)
	}
	if !c.PodCIDR.IsValid() || !c.ServiceCIDR.IsValid() {
		return fmt.Errorf("cluster %s needs a Pod and a Service CIDR", c.Version)
	}
	controlPlanes := 0
	names, addresses := map[string]bool{}, map[netip.Addr]bool{}
	for _, m := range c.Machines {
		switch {
		case m.Name == "":
			return fmt.Errorf("a machine has no name")
		case names[m.Name]:
			return fmt.Errorf("two machines are named %s", m.Name)
		case !m.Address.IsValid():
			return fmt.Errorf("machine %s has no address", m.Name)
		case addresses[m.Address]:
			return fmt.Errorf("machine %s: another one has the address %s", m.Name, m.Address)
		case c.CNI == Bridge && (m.Role == ControlPlane || m.Role == Worker) && !m.PodCIDR.IsValid():
			return fmt.Errorf("machine %s needs a Pod CIDR for its bridge", m.Name)
		}
		switch m.Role {
		case ControlPlane, Worker, Spare, Balancer, Plain:
		default:
			return fmt.Errorf("machine %s has the unknown role %q", m.Name, m.Role)
		}
		names[m.Name], addresses[m.Address] = true, true
		if m.Role == ControlPlane {
			controlPlanes++
		}
	}
	if controlPlanes > 1 && c.Endpoint == "" {
		return fmt.Errorf("several control planes need an endpoint that leads to them")
	}
	return nil
}
