package network

import (
	"net/netip"

	"ckadrill/sim/kernel"
)

// Host is the machine whose network namespace n is, nil for a Pod's.
func (n *Namespace) Host() *kernel.Host {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return n.machine
}

// Establish makes a TCP connection that was there before a thaw, between a process in n and one in another namespace: a
// connection outlives its server's listener, and no packet needs to get through for it to exist. local and remote are the
// addresses as p sees them. ok is false if one of the processes has ended.
func (n *Namespace) Establish(p *kernel.Process, local, remote netip.AddrPort, to *Namespace, q *kernel.Process) (a, b *Conn, ok bool) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	pr := f.newPair("tcp", nil)
	a, b = &pr.side[0], &pr.side[1]
	a.space, b.space = n, to
	a.local, a.remote, b.local, b.remote = local, remote, remote, local
	if a.fd, ok = f.own(p, a); !ok {
		return nil, nil, false
	}
	if b.fd, ok = f.own(q, b); !ok {
		f.disown(p, a)
		return nil, nil, false
	}
	a.owner, b.owner = p, q
	f.pairs[pr] = true
	n.taken[local.Port()]++
	a.holds = true
	pr.setCut(!f.connected(a, b))
	return a, b, true
}
