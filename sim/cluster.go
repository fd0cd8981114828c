package sim

import (
	"fmt"
	"net/netip"

	"ckadrill/sim/addons/calico"
	"ckadrill/sim/addons/cni"
	"ckadrill/sim/addons/coredns"
	"ckadrill/sim/addons/flannel"
	"ckadrill/sim/addons/kubeproxy"
	"ckadrill/sim/addons/localpath"
	"ckadrill/sim/addons/metricsserver"
	"ckadrill/sim/controlplane"
	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm"
	"ckadrill/sim/kubelet"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	"ckadrill/sim/packages"
	"ckadrill/sim/runtime"
	"ckadrill/sim/runtime/registry"
	"ckadrill/sim/userland"
	"ckadrill/sim/userland/haproxy"
)

// Cluster is a simulated cluster in a world.
type Cluster struct {
	w        *kernel.World
	spec     kubeadm.Cluster
	fabric   *network.Fabric
	machines []*machine.Machine
	shells   *Shells
	queries  map[string]func([]byte) ([]byte, error)
	layout   *kubeadm.Layout
}

// gateway is the router of the lab's network.
var gateway = netip.MustParsePrefix("192.168.122.1/24")

// New makes a cluster's machines, switched off and with a fresh operating system, and registers the programs of all rooms
// below. Rooms above register theirs in the world before the machines are switched on.
func New(w *kernel.World, spec kubeadm.Cluster) (*Cluster, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{w: w, spec: spec, queries: map[string]func([]byte) ([]byte, error){}}
	userland.Register(w.Programs)
	etcd.Register(w)
	controlplane.Register(w)
	kubelet.Register(w)
	kubeadm.Register(w)
	runtime.Register(w)
	cni.Register(w.Programs)
	calico.Register(w.Programs)
	flannel.Register(w.Programs)
	kubeproxy.Register(w.Programs)
	coredns.Register(w.Programs)
	metricsserver.Register(w)
	localpath.Register(w)
	haproxy.Register(w.Programs)
	w.Programs.Weigh(footprints)

	c.fabric = network.NewFabric(w)
	c.fabric.AddGateway(gateway)
	packages.AddInternet(w, c.fabric)
	var hosts []string
	for _, m := range spec.Machines {
		hosts = append(hosts, m.Address.String()+" "+m.Name)
	}
	for _, m := range spec.Machines {
		x := machine.New(w, m.Name, machine.Options{CPUs: m.CPUs, Memory: m.Memory, Disk: m.Disk, Hosts: hosts})
		if err := userland.Install(x.Files(kernel.Root), "ubuntu"); err != nil {
			return nil, fmt.Errorf("machine %s: %w", m.Name, err)
		}
		c.connect(x, netip.PrefixFrom(m.Address, gateway.Bits()))
		o := containerd(spec)
		o.RequestModule = x.RequestModule
		x.Modules().OnCount(runtime.New(x, o).CountModule)
		kubelet.Install(x.Host())
		c.machines = append(c.machines, x)
	}
	c.shells = newShells(c)
	return c, nil
}

// containerd is what a cluster's machines run, and the registries that they pull from.
func containerd(spec kubeadm.Cluster) runtime.Options {
	if spec.Version == "v1.35.4" { // as the recordings were made
		return runtime.Options{Version: "v2.2.9", RuncVersion: "1.1.5", Registries: registry.StandIns()}
	}
	return runtime.Options{Version: "v2.4.1"}
}

// connect plugs a machine into the network.
func (c *Cluster) connect(m *machine.Machine, addr netip.Prefix) {
	ns := c.fabric.AddMachine(m.Name(), addr)
	ns.Attach(m.Host())
	m.SetNetwork(ns)
	m.OnPower(func(on bool) {
		if on {
			ns.PowerOn()
			c.podRoutes(m.Name(), ns)
		} else {
			ns.PowerOff()
		}
	})
	m.Sysctl().OnChange(func(name, value string) {
		switch name {
		case "net.ipv4.ip_forward":
			ns.SetForwarding(value != "0")
		case "net.bridge.bridge-nf-call-iptables": // "" without the module
			ns.SetBridgeNetfilter(value != "0" && value != "")
		}
	})
	ns.SetModules(m.RequestModule)
	m.Modules().OnUnload(ns.RemoveModule)
	m.Modules().OnCount(ns.CountModule)
}

// podRoutes are the routes to the other nodes' Pods in a machine's network configuration, where no agent of a CNI makes them.
func (c *Cluster) podRoutes(name string, ns *network.Namespace) {
	if c.spec.CNI != kubeadm.Bridge {
		return
	}
	for _, m := range c.spec.Machines {
		if m.Name == name || !m.PodCIDR.IsValid() {
			continue
		}
		r := network.Route{Dst: m.PodCIDR, Via: m.Address, Dev: network.MachineLink, Proto: "static"}
		if err := ns.AddRoute(r, true); err != nil {
			panic(fmt.Sprintf("machine %s: the route to the Pods of %s: %v", name, m.Name, err)) // all machines are on one link
		}
	}
}

// World is the world that the cluster lives in.
func (c *Cluster) World() *kernel.World { return c.w }

// Spec describes the cluster as it was built.
func (c *Cluster) Spec() kubeadm.Cluster { return c.spec }

// Machines lists the machines, control planes first.
func (c *Cluster) Machines() []*machine.Machine { return c.machines }

// Machine finds a machine by its name in the lab.
func (c *Cluster) Machine(name string) (*machine.Machine, error) {
	for _, m := range c.machines {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no machine %q", name)
}

// ControlPlane is the name of the machine that a candidate works on.
func (c *Cluster) ControlPlane() string {
	m, err := c.spec.FirstControlPlane()
	if err != nil {
		return c.spec.Machines[0].Name
	}
	return m.Name
}

// Fabric is the cluster's network.
func (c *Cluster) Fabric() *network.Fabric { return c.fabric }
