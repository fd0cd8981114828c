package network

import (
	"net/netip"
	"syscall"
	"time"
)

// Echo is what becomes of an ICMP echo request.
type Echo struct {
	// Answered says that a reply came from From, which TTL hops were left of.
	Answered bool
	From     netip.Addr
	TTL      int
	// Err is the refusal that came back after Wait instead (EHOSTUNREACH, ENETUNREACH); 0 without Answered is silence.
	Err  syscall.Errno
	Wait time.Duration
}

// Echo sends an ICMP echo request from the namespace.
func (n *Namespace) Echo(dst netip.Addr) Echo {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	r := n.f.roundTrip(n, packet{proto: "icmp", dst: netip.AddrPortFrom(dst, 0)})
	if r.to == nil {
		return Echo{Err: r.errno, Wait: r.wait, From: n.ownAddress(dst)}
	}
	return Echo{Answered: true, From: dst, TTL: 64 - max(0, r.hops-1)}
}

// Neighbours lists what the namespace's ARP table would hold: the next hops on its links, and whether they answer.
func (n *Namespace) Neighbours() []Neighbour {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	var l []Neighbour
	seen := map[netip.Addr]bool{}
	add := func(dev *Link, a netip.Addr) {
		if seen[a] || n.isLocal(a) {
			return
		}
		seen[a] = true
		m, by := n.f.neighbour(n, dev, a)
		if m == nil {
			return
		}
		if k := m.links[by]; k != nil {
			l = append(l, Neighbour{a, dev.Name, k.MAC})
		}
	}
	for _, r := range n.Static {
		if r.Via.IsValid() {
			if d := n.links[r.Dev]; d != nil {
				add(d, r.Via)
			}
		}
	}
	for p := range n.f.pairs {
		for i := range p.side {
			c := &p.side[i]
			if c.network != "tcp" || c.space != n {
				continue
			}
			if r, ok := n.lookup(c.remote.Addr()); ok && !r.Via.IsValid() {
				add(n.links[r.Dev], c.remote.Addr())
			}
		}
	}
	sortBy(l, func(a, b Neighbour) bool { return a.Addr.Less(b.Addr) })
	return l
}

// Neighbour is an entry of the ARP table.
type Neighbour struct {
	Addr netip.Addr
	Dev  string
	MAC  string
}

// PeerIndex is the index of the other end of a veth link in its own namespace, 0 if there is none.
func (n *Namespace) PeerIndex(link string) int {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if l := n.links[link]; l != nil && l.Kind == Veth {
		if o := n.f.spaces[l.Peer.Namespace]; o != nil && o.links[l.Peer.Link] != nil {
			return o.links[l.Peer.Link].Index
		}
	}
	return 0
}

// PeerNetns is the number by which the namespace knows the one that holds the other end of a veth link (link-netnsid), -1
// if it is its own.
func (n *Namespace) PeerNetns(link string) int {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	l := n.links[link]
	if l == nil || l.Kind != Veth || l.Peer.Namespace == n.name {
		return -1
	}
	for i, c := range n.children() {
		if c.name == l.Peer.Namespace {
			return i
		}
	}
	return 0
}
