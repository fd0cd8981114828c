package network

import (
	"net/netip"
)

// LinkKind is what sort of interface a link is, in the words of "ip link add type".
type LinkKind string

// The kinds of links.
const (
	Loopback LinkKind = "loopback"
	Ethernet LinkKind = "ether"  // a machine's card, on the one LAN
	Bridge   LinkKind = "bridge" // connects the links whose Master it is
	Veth     LinkKind = "veth"   // one end of a pair, see Peer
	VXLAN    LinkKind = "vxlan"  // an overlay between machines, see Forward
)

// Link is a network interface. It is plain data.
type Link struct {
	Name      string
	Index     int
	Kind      LinkKind
	MAC       string
	MTU       int
	Up        bool
	Addresses []netip.Prefix
	// Master is the bridge that the link is plugged into.
	Master string
	// Peer is the other end of a veth pair: its namespace's name and its link's.
	Peer LinkRef
	// Forward tells a VXLAN link which machine (underlay address) holds which neighbour, as its ARP and FDB tables do.
	Forward map[netip.Addr]netip.Addr
	// VNI is a VXLAN link's network identifier.
	VNI int
}

// LinkRef names a link of some namespace.
type LinkRef struct{ Namespace, Link string }

func (l *Link) clone() *Link {
	c := *l
	c.Addresses = append([]netip.Prefix(nil), l.Addresses...)
	if l.Forward != nil {
		c.Forward = make(map[netip.Addr]netip.Addr, len(l.Forward))
		for k, v := range l.Forward {
			c.Forward[k] = v
		}
	}
	return &c
}

func (l *Link) has(a netip.Addr) bool {
	for _, p := range l.Addresses {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

// Route is one entry of a namespace's routing table. It is plain data.
type Route struct {
	Dst    netip.Prefix // 0.0.0.0/0 is the default route
	Via    netip.Addr   // the next hop; not valid if the destination is on the link
	Dev    string
	Src    netip.Addr // preferred source address; not valid if there is none
	Proto  string     // "kernel", "static", "dhcp"; "" prints as boot
	OnLink bool
	Metric int
}

// lookup finds the route to an address: the longest prefix, then the lowest metric, over links that are up.
func (n *Namespace) lookup(a netip.Addr) (Route, bool) {
	var best Route
	found := false
	consider := func(r Route) {
		if !r.Dst.Contains(a) {
			return
		}
		if l := n.links[r.Dev]; l == nil || !l.Up {
			return
		}
		if !found || r.Dst.Bits() > best.Dst.Bits() || r.Dst.Bits() == best.Dst.Bits() && r.Metric < best.Metric {
			best, found = r, true
		}
	}
	for _, r := range n.connected {
		consider(r)
	}
	for _, r := range n.Static {
		consider(r)
	}
	return best, found
}

// source is the address that a packet to dst leaves with when its sender did not choose one.
func (n *Namespace) source(r Route, dst netip.Addr) netip.Addr {
	if r.Src.IsValid() {
		return r.Src
	}
	l := n.links[r.Dev]
	if l == nil {
		return netip.Addr{}
	}
	for _, p := range l.Addresses {
		if p.Addr().Is4() == dst.Is4() {
			return p.Addr()
		}
	}
	for _, name := range n.order { // Linux falls back to an address of another interface
		for _, p := range n.links[name].Addresses {
			if p.Addr().Is4() == dst.Is4() && !p.Addr().IsLoopback() {
				return p.Addr()
			}
		}
	}
	return netip.Addr{}
}

// isLocal says whether an address is the namespace's own.
func (n *Namespace) isLocal(a netip.Addr) bool {
	if a.IsLoopback() {
		lo := n.links["lo"]
		return lo != nil && lo.Up && (a.Is4() || lo.has(a))
	}
	for _, l := range n.links {
		if l.has(a) {
			return true
		}
	}
	return false
}

// reindex derives what follows from the links: their order and the routes to their own networks.
func (n *Namespace) reindex() {
	n.order = n.order[:0]
	for name := range n.links {
		n.order = append(n.order, name)
	}
	sortBy(n.order, func(a, b string) bool { return n.links[a].Index < n.links[b].Index })
	n.connected = n.connected[:0]
	for _, name := range n.order {
		l := n.links[name]
		if l.Kind == Loopback {
			continue
		}
		for _, p := range l.Addresses {
			if p.Bits() == p.Addr().BitLen() {
				continue
			}
			n.connected = append(n.connected, Route{Dst: p.Masked(), Dev: name, Src: p.Addr(), Proto: "kernel"})
		}
	}
}
