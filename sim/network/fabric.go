package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	"ckadrill/sim/kernel"
)

// Fabric is the network between all machines: one LAN, and what hangs off it.
type Fabric struct {
	w *kernel.World

	mu sync.Mutex
	// spaces holds every namespace by its full name: "cka-w1", or "cka-w1:/var/run/netns/cni-<uuid>".
	spaces map[string]*Namespace
	pairs  map[*pair]bool
	cuts   int // how many pairs are cut
	unix   map[inode]*UnixListener
	tracks map[track]*tracked
	owners map[*kernel.Process]*sockets
	// lan maps the addresses of Ethernet links to their namespaces; nil means stale.
	lan map[netip.Addr]*Namespace
	// names are those of hosts behind the router, rooted.
	names    map[string][]netip.Addr
	services *rand.Rand
	ports    *rand.Rand
}

// NewFabric makes the network of a world, without machines, and makes it the holder "network".
func NewFabric(w *kernel.World) *Fabric {
	f := &Fabric{w: w, spaces: map[string]*Namespace{}, pairs: map[*pair]bool{}, unix: map[inode]*UnixListener{}, tracks: map[track]*tracked{},
		owners: map[*kernel.Process]*sockets{}, services: w.Rand("network/services"), ports: w.Rand("network/ports")}
	w.Hold("network", f)
	return f
}

type attachKey struct{}

// Of is the network namespace of a machine, nil if none was attached.
func Of(h *kernel.Host) *Namespace {
	n, _ := h.Attached(attachKey{}).(*Namespace)
	return n
}

// FabricOf is the network that a machine is plugged into, nil if none.
func FabricOf(h *kernel.Host) *Fabric {
	if n := Of(h); n != nil {
		return n.f
	}
	return nil
}

// MachineLink is the name of a machine's network card.
const MachineLink = "enp1s0"

// AddMachine gives a machine its network namespace, with lo, one card on the LAN that has the given addresses, and a default
// route to the first address of its first network. A machine that exists is returned as it is.
func (f *Fabric) AddMachine(name string, addrs ...netip.Prefix) *Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.spaces[name]; n != nil {
		return n
	}
	n := f.newNamespace(name, "")
	n.Base = append([]netip.Prefix(nil), addrs...)
	n.up = true
	n.configure()
	return n
}

// Machine returns a machine's namespace, nil if there is none of that name.
func (f *Fabric) Machine(name string) *Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.spaces[name]; n != nil && n.Handle == "" {
		return n
	}
	return nil
}

// Machines lists the namespaces of all machines, by name.
func (f *Fabric) Machines() []*Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	var l []*Namespace
	for _, n := range f.spaces {
		if n.Handle == "" {
			l = append(l, n)
		}
	}
	sortBy(l, func(a, b *Namespace) bool { return a.name < b.name })
	return l
}

func (f *Fabric) newNamespace(machine, handle string) *Namespace {
	n := &Namespace{f: f, spaceData: spaceData{Machine: machine, Handle: handle}}
	n.name = fullName(machine, handle)
	n.clear()
	f.spaces[n.name] = n
	return n
}

func fullName(machine, handle string) string {
	if handle == "" {
		return machine
	}
	return machine + ":" + handle
}

// configure sets a machine's links and routes to what its network configuration brings up at boot.
func (n *Namespace) configure() {
	n.addLink(&Link{Name: "lo", Kind: Loopback, MAC: "00:00:00:00:00:00", MTU: 65536, Up: true,
		Addresses: loopbackAddresses()})
	if len(n.Base) > 0 {
		if n.HardwareAddr == "" {
			n.HardwareAddr = n.f.newMAC("52:54:00")
		}
		n.addLink(&Link{Name: MachineLink, Kind: Ethernet, MAC: n.HardwareAddr, MTU: 1500, Up: true, Addresses: slices.Clone(n.Base)})
		gw := n.Base[0].Masked().Addr().Next()
		n.Static = append(n.Static, Route{Dst: netip.PrefixFrom(zeroOf(gw), 0), Via: gw, Dev: MachineLink, Proto: "static"})
	}
	n.changed(false)
}

func loopbackAddresses() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}
}

func zeroOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (f *Fabric) newMAC(prefix string) string {
	r := f.w.Random("network/mac")
	v := r.Uint64()
	if prefix == "" {
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(v)&0xfe|0x02, byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40))
	}
	return fmt.Sprintf("%s:%02x:%02x:%02x", prefix, byte(v), byte(v>>8), byte(v>>16))
}

// changed is called with the lock held after links, addresses, routes or filters have changed. worse says that something may
// have become unreachable by it.
func (n *Namespace) changed(worse bool) {
	n.reindex()
	n.version = n.f.w.Version()
	n.f.lan = nil
	for _, m := range n.f.spaces {
		if m.Machine == n.Machine {
			m.ports = nil
		}
	}
	if worse || n.f.cuts > 0 {
		n.f.recheck()
	}
}

// onLAN finds who answers ARP for an address on the LAN.
func (f *Fabric) onLAN(a netip.Addr) *Namespace {
	if f.lan == nil {
		f.lan = map[netip.Addr]*Namespace{}
		for _, n := range f.spaces {
			if !n.up {
				continue
			}
			for _, l := range n.links {
				if l.Kind != Ethernet || !l.Up {
					continue
				}
				for _, p := range l.Addresses {
					// Of two machines with one address the first by name answers first.
					if o := f.lan[p.Addr()]; o == nil || n.name < o.name {
						f.lan[p.Addr()] = n
					}
				}
			}
		}
	}
	return f.lan[a]
}

func sortBy[T any](l []T, less func(a, b T) bool) {
	slices.SortFunc(l, func(a, b T) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
}
