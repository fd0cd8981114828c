package network

import (
	"net/netip"
	"syscall"
	"time"
)

// packet is the header that routes, rules and NAT look at.
type packet struct {
	proto       string
	src, dst    netip.AddrPort
	established bool
	pinned      bool // destination NAT has been decided before
}

// path is what becomes of a packet.
type path struct {
	to       *Namespace // where it is delivered, nil if nowhere
	src, dst netip.AddrPort
	out      string // the link that it left its first namespace by
	// errno is what the sender learns, after wait; with to nil and no errno the packet is lost silently.
	errno syscall.Errno
	wait  time.Duration
	// masqueraded is the namespace that put its own address in the place of the sender's.
	masqueraded *Namespace
	hops        int
}

// neighbourTimeout is how long Linux asks for a neighbour that does not answer before it gives up (3 solicitations, 1 s
// apart).
const neighbourTimeout = 3 * time.Second

const maxHops = 16

// send follows a packet from a local process of n. A source that is not valid is chosen. The fabric's lock is held.
func (f *Fabric) send(n *Namespace, p packet) path {
	if !n.up {
		return path{errno: syscall.ENETUNREACH}
	}
	if p.dst.Addr().Is4In6() {
		p.dst = netip.AddrPortFrom(p.dst.Addr().Unmap(), p.dst.Port())
	}
	if !p.src.Addr().IsValid() || p.src.Addr().IsUnspecified() {
		src := p.dst.Addr()
		if !n.isLocal(src) {
			r, ok := n.lookup(src)
			if !ok {
				return path{errno: syscall.ENETUNREACH}
			}
			if src = n.source(r, p.dst.Addr()); !src.IsValid() {
				return path{errno: syscall.EADDRNOTAVAIL}
			}
		}
		p.src = netip.AddrPortFrom(src, p.src.Port())
	} else if !n.isLocal(p.dst.Addr()) {
		if _, ok := n.lookup(p.dst.Addr()); !ok {
			return path{errno: syscall.ENETUNREACH}
		}
	}
	return f.follow(n, p)
}

// follow takes a packet from namespace to namespace.
func (f *Fabric) follow(n *Namespace, p packet) path {
	res := path{}
	masquerade := false
	in := ""
	nat := func(local bool) bool {
		if p.pinned {
			return true
		}
		d := n.translate(p, local)
		if d.errno != 0 || d.drop {
			res.errno = d.errno
			return false
		}
		if d.done {
			p.dst, masquerade, p.pinned = d.dst, masquerade || d.masquerade, true
		}
		return true
	}
	if !nat(true) {
		return res
	}
	for ; res.hops < maxHops; res.hops++ {
		first := res.hops == 0
		if n.isLocal(p.dst.Addr()) {
			ok, errno := true, syscall.Errno(0)
			if first {
				ok, errno = n.filter("OUTPUT", "", "lo", p)
				in = "lo"
				if res.out == "" {
					res.out = "lo"
				}
			}
			if ok {
				ok, errno = n.filter("INPUT", in, "", p)
			}
			if !ok {
				res.errno = errno
				return res
			}
			res.to, res.src, res.dst = n, p.src, p.dst
			return res
		}
		if n.gateway && !first && !n.leadsOn(p.dst.Addr()) {
			return res // the internet
		}
		r, ok := n.lookup(p.dst.Addr())
		if !ok {
			res.errno = syscall.ENETUNREACH
			return res
		}
		out := n.links[r.Dev]
		if first {
			res.out = r.Dev
			ok, errno := n.filter("OUTPUT", "", r.Dev, p)
			if !ok {
				// A local process gets EPERM for a dropped datagram; a connection attempt waits.
				res.errno = errno
				return res
			}
		} else {
			if n.NoForwarding {
				return res
			}
			if ok, errno := n.filter("FORWARD", in, r.Dev, p); !ok {
				res.errno = errno
				return res
			}
		}
		if !p.established && (masquerade || n.masquerades(p)) && !p.src.Addr().IsUnspecified() {
			if a := n.source(Route{Dev: r.Dev}, p.dst.Addr()); a.IsValid() && a != p.src.Addr() {
				p.src = netip.AddrPortFrom(a, p.src.Port())
				res.masqueraded = n
			}
			masquerade = false
		}
		if p.src.Addr().IsLoopback() {
			return res // a martian: dropped by the next hop
		}
		hop := p.dst.Addr()
		if r.Via.IsValid() {
			hop = r.Via
		}
		next, dev := f.neighbour(n, out, hop)
		if next == nil {
			if out.Kind == VXLAN {
				return res // no ARP on an overlay: flanneld programs its neighbours
			}
			res.errno, res.wait = syscall.EHOSTUNREACH, neighbourTimeout
			return res
		}
		// What one Pod sends another over the bridge passes the machine's rules if br_netfilter is on.
		if bridge := f.bridgeOf(n, out); bridge != nil && next != bridge {
			h := bridge
			if !h.NoBridgeNetfilter {
				if ok, errno := h.filter("FORWARD", out.Peer.Link, "", p); !ok {
					res.errno = errno
					return res
				}
			}
		}
		if !f.carried(n, out, next, p) {
			return res
		}
		n, in = next, dev
		if !nat(false) {
			return res
		}
	}
	return res
}

// bridgeOf is the machine whose bridge a Pod's link is plugged into.
func (f *Fabric) bridgeOf(n *Namespace, out *Link) *Namespace {
	if out.Kind != Veth {
		return nil
	}
	m := f.spaces[out.Peer.Namespace]
	if m == nil {
		return nil
	}
	if l := m.links[out.Peer.Link]; l == nil || l.Master == "" {
		return nil
	}
	return m
}

// neighbour finds who answers for an address on a link, and the link by which it gets the packet.
func (f *Fabric) neighbour(n *Namespace, out *Link, hop netip.Addr) (*Namespace, string) {
	switch out.Kind {
	case Ethernet:
		if m := f.onLAN(hop); m != nil && m != n {
			return m, MachineLink
		}
	case Bridge:
		if c := n.onBridge(out.Name, hop); c != nil {
			return c, "eth0"
		}
	case Veth:
		m := f.spaces[out.Peer.Namespace]
		if m == nil || !m.up {
			return nil, ""
		}
		peer := m.links[out.Peer.Link]
		if peer == nil || !peer.Up {
			return nil, ""
		}
		if peer.Master == "" {
			return m, peer.Name
		}
		b := m.links[peer.Master]
		if b == nil || !b.Up {
			return nil, ""
		}
		if b.has(hop) {
			return m, b.Name
		}
		if c := m.onBridge(b.Name, hop); c != nil && c != n {
			return c, "eth0"
		}
	case VXLAN:
		under, ok := out.Forward[hop]
		if !ok {
			return nil, ""
		}
		if m := f.onLAN(under); m != nil {
			for _, name := range m.order {
				if l := m.links[name]; l.Kind == VXLAN && l.Up && l.VNI == out.VNI {
					return m, name
				}
			}
		}
	}
	return nil, ""
}

// carried says whether the packet that a VXLAN link wraps around another gets through the LAN.
func (f *Fabric) carried(n *Namespace, out *Link, next *Namespace, p packet) bool {
	if out.Kind != VXLAN {
		return true
	}
	hop := p.dst.Addr()
	if r, ok := n.lookup(hop); ok && r.Via.IsValid() {
		hop = r.Via
	}
	outer := f.send(n, packet{proto: "udp", dst: netip.AddrPortFrom(out.Forward[hop], vxlanPort), pinned: true, established: p.established})
	return outer.to == next
}

const vxlanPort = 8472

// onBridge finds the namespace behind a bridge that has an address.
func (n *Namespace) onBridge(bridge string, a netip.Addr) *Namespace {
	if n.ports == nil {
		n.ports = map[bridgePort]*Namespace{}
		for _, l := range n.links {
			if l.Kind != Veth || l.Master == "" || !l.Up {
				continue
			}
			c := n.f.spaces[l.Peer.Namespace]
			if c == nil || !c.up {
				continue
			}
			k := c.links[l.Peer.Link]
			if k == nil || !k.Up {
				continue
			}
			for _, p := range k.Addresses {
				n.ports[bridgePort{l.Master, p.Addr()}] = c
			}
		}
	}
	return n.ports[bridgePort{bridge, a}]
}

// roundTrip follows a packet and its answer: a packet whose answer does not find back is as good as lost.
func (f *Fabric) roundTrip(n *Namespace, p packet) path {
	there := f.send(n, p)
	if there.to == nil || there.to == n && there.hops == 0 {
		return there
	}
	// The answer goes to whoever changed the sender's address last, and from there to the sender.
	back := n
	if there.masqueraded != nil {
		back = there.masqueraded
	}
	if there.to != back {
		r := f.send(there.to, packet{proto: p.proto, src: there.dst, dst: there.src, established: true, pinned: true})
		if r.to != back {
			return path{src: there.src, dst: there.dst, out: there.out}
		}
	}
	if back != n {
		src := p.src.Addr()
		if !src.IsValid() || src.IsUnspecified() {
			if r, ok := n.lookup(p.dst.Addr()); ok {
				src = n.source(r, p.dst.Addr())
			}
		}
		if src.IsValid() && !src.IsLoopback() {
			r := f.send(back, packet{proto: p.proto, src: p.dst, dst: netip.AddrPortFrom(src, p.src.Port()), established: true, pinned: true})
			if r.to != n {
				return path{src: there.src, dst: there.dst, out: there.out}
			}
		}
	}
	return there
}
