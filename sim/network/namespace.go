package network

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"ckadrill/sim/kernel"
)

// Namespace is one network namespace: a machine's own, or a Pod's. It implements [kernel.Network].
//
// Its exported fields are plain data that a freeze keeps; they are read and changed through its methods only.
type Namespace struct {
	f    *Fabric
	name string
	spaceData

	// Derived from the links.
	order     []string
	links     map[string]*Link
	connected []Route
	// ports maps the addresses behind a bridge to the namespaces plugged into it; nil means stale.
	ports map[bridgePort]*Namespace

	up       bool // a machine is switched on; a Pod's namespace exists
	gateway  bool
	outside  bool   // a host of the internet
	version  uint64 // of links, routes, filters
	services serviceTable

	listeners map[uint16][]*Listener
	packets   map[uint16][]*packetSocket
	taken     map[uint16]int // local ports of connections
	affinity  map[affinityKey]affinityEntry
	machine   *kernel.Host // set for a machine's own namespace
	request   func(module string) error
}

// spaceData is the part of a namespace that a freeze keeps, but for its links and services.
type spaceData struct {
	Machine, Handle string
	// Base is what the machine's network configuration says, applied at each boot.
	Base         []netip.Prefix
	HardwareAddr string
	Static       []Route
	Filters      map[string][]Rule
	Masquerades  map[string][]Masquerade
	HostPorts    map[string][]HostPort
	NextIndex    int
	// NoForwarding is set when net.ipv4.ip_forward is 0.
	NoForwarding bool
	// NoBridgeNetfilter is set when net.bridge.bridge-nf-call-iptables is 0.
	NoBridgeNetfilter bool
}

type bridgePort struct {
	bridge string
	addr   netip.Addr
}

// clear sets the namespace to what a kernel starts with.
func (n *Namespace) clear() {
	n.links = map[string]*Link{}
	n.Static, n.order, n.connected = nil, nil, nil
	n.Filters, n.Masquerades, n.HostPorts = map[string][]Rule{}, map[string][]Masquerade{}, map[string][]HostPort{}
	n.NextIndex = 0
	n.services.set(nil)
	n.services.version = n.f.w.Version()
	n.listeners, n.packets, n.taken = map[uint16][]*Listener{}, map[uint16][]*packetSocket{}, map[uint16]int{}
	n.affinity = map[affinityKey]affinityEntry{}
}

// Attach makes n the network namespace of the machine, see [Of].
func (n *Namespace) Attach(h *kernel.Host) {
	n.f.mu.Lock()
	n.machine = h
	n.f.mu.Unlock()
	h.Attach(attachKey{}, n)
}

// Fabric is the network that the namespace belongs to.
func (n *Namespace) Fabric() *Fabric { return n.f }

// Name is the machine's name, for a Pod's namespace followed by a colon and its handle.
func (n *Namespace) Name() string { return n.name }

// Path is a Pod namespace's handle as CNI_NETNS names it ("/var/run/netns/cni-<uuid>"), "" for a machine's own.
func (n *Namespace) Path() string { return n.Handle }

// MachineName is the name of the machine that the namespace is on.
func (n *Namespace) MachineName() string { return n.Machine }

// MachineSpace is the namespace of the machine that n is on: n itself if it is a machine's.
func (n *Namespace) MachineSpace() *Namespace {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return n.host()
}

func (n *Namespace) host() *Namespace { return n.f.spaces[n.Machine] }

// AddNamespace makes a new network namespace on the machine, as "ip netns add" or a container runtime does. It has only lo,
// which is down. A handle that exists is an error in the words of ip-netns(8).
func (n *Namespace) AddNamespace(handle string) (*Namespace, error) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.Handle != "" || handle == "" {
		return nil, fmt.Errorf("network: %q is no machine, or %q no handle", n.name, handle)
	}
	if n.f.spaces[fullName(n.Machine, handle)] != nil {
		return nil, fmt.Errorf("Cannot create namespace file %q: File exists", handle)
	}
	c := n.f.newNamespace(n.Machine, handle)
	c.up = true
	c.addLink(&Link{Name: "lo", Kind: Loopback, MAC: "00:00:00:00:00:00", MTU: 65536})
	c.changed(false)
	return c, nil
}

// Namespace finds a Pod's namespace on the machine by its handle, nil if there is none.
func (n *Namespace) Namespace(handle string) *Namespace {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if handle == "" {
		return nil
	}
	return n.f.spaces[fullName(n.Machine, handle)]
}

// Namespaces lists the Pod namespaces of the machine by handle.
func (n *Namespace) Namespaces() []*Namespace {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return n.children()
}

func (n *Namespace) children() []*Namespace {
	var l []*Namespace
	for _, m := range n.f.spaces {
		if m.Machine == n.Machine && m.Handle != "" {
			l = append(l, m)
		}
	}
	sortBy(l, func(a, b *Namespace) bool { return a.name < b.name })
	return l
}

// Remove ends a Pod's namespace: its links (with the other ends of veth pairs) and its connections are gone.
func (n *Namespace) Remove() {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.remove()
}

func (n *Namespace) remove() {
	if n.f.spaces[n.name] != n || n.Handle == "" {
		return
	}
	for _, l := range n.links {
		n.unpair(l)
	}
	n.up = false
	delete(n.f.spaces, n.name)
	n.changed(true)
}

// unpair removes the other end of a veth pair.
func (n *Namespace) unpair(l *Link) {
	if l.Kind != Veth {
		return
	}
	if o := n.f.spaces[l.Peer.Namespace]; o != nil && o.links[l.Peer.Link] != nil {
		delete(o.links, l.Peer.Link)
		o.dropRoutes(l.Peer.Link)
		o.reindex()
		o.version = n.f.w.Version()
	}
}

// PowerOff takes a machine off the network at once, as a power cut does: nobody is told. What its kernel held is gone: Pod
// namespaces, bridges, routes, rules. A machine that shuts down ends its processes first, which closes their connections.
func (n *Namespace) PowerOff() {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.Handle != "" || !n.up {
		return
	}
	n.up = false
	for _, c := range n.children() {
		c.up = false
		delete(n.f.spaces, c.name)
	}
	n.clear()
	n.changed(true)
}

// PowerOn brings a machine's network up from its configuration.
func (n *Namespace) PowerOn() {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.Handle != "" || n.up {
		return
	}
	n.up = true
	n.configure()
}

// Up says whether the machine is on the network.
func (n *Namespace) Up() bool {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return n.up
}

// SetBase changes the addresses that the next boot configures.
func (n *Namespace) SetBase(addrs ...netip.Prefix) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.Base = slices.Clone(addrs)
	n.version = n.f.w.Version()
}

// SetForwarding is the sysctl net.ipv4.ip_forward.
func (n *Namespace) SetForwarding(on bool) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.NoForwarding = !on
	n.changed(!on)
}

// SetBridgeNetfilter is the sysctl net.bridge.bridge-nf-call-iptables.
func (n *Namespace) SetBridgeNetfilter(on bool) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.NoBridgeNetfilter = !on
	n.changed(false)
}

// Interfaces implements [kernel.Network].
func (n *Namespace) Interfaces() []kernel.Interface {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	var l []kernel.Interface
	for _, name := range n.order {
		k := n.links[name]
		l = append(l, kernel.Interface{Name: name, MAC: k.MAC, MTU: k.MTU, Addresses: slices.Clone(k.Addresses)})
	}
	return l
}

// Links lists the interfaces in order of their indices. What it returns is a copy.
func (n *Namespace) Links() []Link {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	var l []Link
	for _, name := range n.order {
		l = append(l, *n.links[name].clone())
	}
	return l
}

// Link returns a copy of an interface.
func (n *Namespace) Link(name string) (Link, bool) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if l := n.links[name]; l != nil {
		return *l.clone(), true
	}
	return Link{}, false
}

func (n *Namespace) addLink(l *Link) {
	if l.Index == 0 {
		n.NextIndex++
		l.Index = n.NextIndex
	}
	if l.MAC == "" {
		l.MAC = n.f.newMAC("")
	}
	if l.MTU == 0 {
		l.MTU = 1500
	}
	n.links[l.Name] = l
}

// AddLink adds a bridge or VXLAN interface (a zero MTU is 1500, an empty MAC a random one). The error is EEXIST, or EOPNOTSUPP
// without the kernel's module for it.
func (n *Namespace) AddLink(l Link) error {
	if err := n.needModule(linkModules[l.Kind]); err != nil {
		return err
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.links[l.Name] != nil {
		return syscall.EEXIST
	}
	l.Index = 0
	n.addLink(l.clone())
	n.changed(false)
	return nil
}

// AddVeth adds a veth pair whose ends are in n and in peer, plugged into bridge on n's side unless that is "". Both ends are
// up. The error is EEXIST, or ENODEV for a bridge that is not there.
func (n *Namespace) AddVeth(name, bridge string, mtu int, peer *Namespace, peerName string) error {
	if err := n.needModule(linkModules[Veth]); err != nil {
		return err
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.links[name] != nil || peer.links[peerName] != nil {
		return syscall.EEXIST
	}
	if bridge != "" && (n.links[bridge] == nil || n.links[bridge].Kind != Bridge) {
		return syscall.ENODEV
	}
	n.addLink(&Link{Name: name, Kind: Veth, Up: true, MTU: mtu, Master: bridge, Peer: LinkRef{peer.name, peerName}})
	peer.addLink(&Link{Name: peerName, Kind: Veth, Up: true, MTU: mtu, Peer: LinkRef{n.name, name}})
	peer.changed(false)
	n.changed(false)
	return nil
}

// DeleteLink removes an interface, with its addresses and routes, and the other end of a veth pair. The error is ENODEV.
func (n *Namespace) DeleteLink(name string) error {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	l := n.links[name]
	if l == nil {
		return syscall.ENODEV
	}
	n.unpair(l)
	delete(n.links, name)
	n.dropRoutes(name)
	n.changed(true)
	return nil
}

func (n *Namespace) dropRoutes(dev string) {
	n.Static = slices.DeleteFunc(n.Static, func(r Route) bool { return r.Dev == dev })
}

// ChangeLink calls f on an interface, which may change its state, addresses, MTU and forwarding table. The error is ENODEV.
// A link that goes down loses its routes, as in Linux.
func (n *Namespace) ChangeLink(name string, f func(*Link)) error {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	l := n.links[name]
	if l == nil {
		return syscall.ENODEV
	}
	was := l.Up
	f(l)
	l.Name = name
	switch {
	case was && !l.Up:
		n.dropRoutes(name)
	case !was && l.Up && l.Kind == Loopback && len(l.Addresses) == 0:
		l.Addresses = loopbackAddresses() // the kernel assigns them itself
	}
	n.changed(true)
	return nil
}

// Routes is the routing table in the order in which "ip route" prints it. What it returns is a copy.
func (n *Namespace) Routes() []Route {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	var l []Route
	for _, r := range append(slices.Clone(n.connected), n.Static...) {
		if d := n.links[r.Dev]; d != nil && d.Up {
			l = append(l, r)
		}
	}
	slices.SortStableFunc(l, func(a, b Route) int {
		if c := a.Dst.Addr().Compare(b.Dst.Addr()); c != 0 {
			return c
		}
		return a.Dst.Bits() - b.Dst.Bits()
	})
	return l
}

// AddRoute adds or, with replace, changes a route. Errors: ENODEV, EEXIST, ENETUNREACH for a next hop that no link reaches.
func (n *Namespace) AddRoute(r Route, replace bool) error {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if r.Dev == "" && r.Via.IsValid() {
		if c, ok := n.lookup(r.Via); ok && !c.Via.IsValid() {
			r.Dev = c.Dev
		} else {
			return syscall.ENETUNREACH
		}
	}
	l := n.links[r.Dev]
	if l == nil {
		return syscall.ENODEV
	}
	if !l.Up {
		return syscall.ENETDOWN
	}
	r.Dst = r.Dst.Masked()
	if r.Via.IsValid() && !r.OnLink {
		on := slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Contains(r.Via) })
		on = on || slices.ContainsFunc(n.Static, func(o Route) bool { return o.Dev == r.Dev && !o.Via.IsValid() && o.Dst.Contains(r.Via) })
		if !on {
			return syscall.ENETUNREACH
		}
	}
	for i, o := range n.Static {
		if o.Dst == r.Dst && o.Metric == r.Metric {
			if !replace {
				return syscall.EEXIST
			}
			if o == r {
				return nil
			}
			n.Static[i] = r
			n.changed(true)
			return nil
		}
	}
	n.Static = append(n.Static, r)
	n.changed(true)
	return nil
}

// DeleteRoute removes the route to a destination (of one device unless dev is ""). The error is ESRCH.
func (n *Namespace) DeleteRoute(dst netip.Prefix, dev string) error {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	before := len(n.Static)
	n.Static = slices.DeleteFunc(n.Static, func(r Route) bool { return r.Dst == dst.Masked() && (dev == "" || r.Dev == dev) })
	if len(n.Static) == before {
		return syscall.ESRCH
	}
	n.changed(true)
	return nil
}

// Route says how a packet to an address would leave: its route and its source address. The error is ENETUNREACH.
func (n *Namespace) Route(dst netip.Addr) (Route, netip.Addr, error) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.isLocal(dst) {
		return Route{Dst: netip.PrefixFrom(dst, dst.BitLen()), Dev: "lo", Src: dst}, dst, nil
	}
	r, ok := n.lookup(dst)
	if !ok {
		return r, netip.Addr{}, syscall.ENETUNREACH
	}
	return r, n.source(r, dst), nil
}
