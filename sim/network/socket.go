package network

import (
	"net"
	"net/netip"
	"slices"

	"ckadrill/sim/kernel"
)

// sockets are the open sockets of one process, by file descriptor. They close when it ends.
type sockets struct {
	open map[closer]int
	next int
}

// closer is a socket of some kind. die closes it as the kernel does for a process that has ended.
type closer interface{ die() }

// own notes that a process has opened a socket, and returns its file descriptor. The lock is held. It fails when the
// process has ended.
func (f *Fabric) own(p *kernel.Process, c closer) (fd int, ok bool) {
	if !p.Alive() {
		return 0, false
	}
	s := f.owners[p]
	if s == nil {
		s = &sockets{open: map[closer]int{}, next: 3}
		f.owners[p] = s
		// The process may end at any moment, so this must not run under the lock.
		go p.OnExit(func() { f.bury(p, s) })
	}
	fd = s.next
	if len(s.open) == 0 {
		fd, s.next = 3, 3
	}
	s.next++
	s.open[c] = fd
	return fd, true
}

// disown forgets a socket. The lock is held.
func (f *Fabric) disown(p *kernel.Process, c closer) {
	if s := f.owners[p]; s != nil {
		delete(s.open, c)
	}
}

// bury closes what a process has left open.
func (f *Fabric) bury(p *kernel.Process, s *sockets) {
	f.mu.Lock()
	if f.owners[p] == s {
		delete(f.owners, p)
	}
	type entry struct {
		c  closer
		fd int
	}
	var l []entry
	for c, fd := range s.open {
		l = append(l, entry{c, fd})
	}
	s.open = map[closer]int{}
	f.mu.Unlock()
	sortBy(l, func(a, b entry) bool { return a.fd < b.fd })
	for _, e := range l {
		e.c.die()
	}
}

// Socket describes an open socket, as ss(8) lists it.
type Socket struct {
	Proto string // tcp, udp, unix
	State string // LISTEN, ESTAB, UNCONN
	// Local and Remote are addresses; the remote of a listener is not valid.
	Local, Remote netip.AddrPort
	// Dual marks a socket bound to [::] that takes IPv4 too: ss prints its address as "*".
	Dual bool
	// Path is a unix socket's.
	Path string
	// Process owns the socket; it is nil for a connection that waits to be accepted.
	Process      *kernel.Process
	FD           int
	RecvQ, SendQ int
}

// Sockets lists the sockets of the namespace: listeners first, then datagram sockets and connections.
func (n *Namespace) Sockets() []Socket {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	var l []Socket
	for _, ls := range n.listeners {
		for _, s := range ls {
			l = append(l, Socket{Proto: "tcp", State: "LISTEN", Local: s.addr, Dual: s.dual, Process: s.owner, FD: s.fd, RecvQ: s.waiting(), SendQ: backlog})
		}
	}
	for _, ps := range n.packets {
		for _, s := range ps {
			k := Socket{Proto: "udp", State: "UNCONN", Local: s.local, Remote: s.remote, Dual: s.dual, Process: s.owner, FD: s.fd}
			if s.remote.IsValid() {
				k.State = "ESTAB"
			}
			l = append(l, k)
		}
	}
	for p := range n.f.pairs {
		for i := range p.side {
			c := &p.side[i]
			if c.space != n || c.network != "tcp" {
				continue
			}
			l = append(l, Socket{Proto: "tcp", State: "ESTAB", Local: c.local, Remote: c.remote, Process: c.owner, FD: c.fd})
		}
	}
	rank := map[string]int{"LISTEN": 0, "UNCONN": 1, "ESTAB": 2}
	slices.SortFunc(l, func(a, b Socket) int {
		if c := rank[a.State] - rank[b.State]; c != 0 {
			return c
		}
		if c := int(a.Local.Port()) - int(b.Local.Port()); c != 0 {
			return c
		}
		if c := a.Local.Compare(b.Local); c != 0 {
			return c
		}
		return a.Remote.Compare(b.Remote)
	})
	return l
}

// Listeners lists the listening stream sockets of the namespace by port.
func (n *Namespace) Listeners() []Socket {
	return slices.DeleteFunc(n.Sockets(), func(s Socket) bool { return s.State != "LISTEN" })
}

// The range of ephemeral ports, net.ipv4.ip_local_port_range.
const firstEphemeral, lastEphemeral = 32768, 60999

// ephemeral finds a free local port, 0 if there is none. The lock is held.
func (n *Namespace) ephemeral() uint16 {
	const size = lastEphemeral - firstEphemeral + 1
	at := n.f.ports.IntN(size)
	for i := range size {
		p := uint16(firstEphemeral + (at+i)%size)
		if n.taken[p] == 0 && len(n.listeners[p]) == 0 && len(n.packets[p]) == 0 {
			return p
		}
	}
	return 0
}

func tcpAddr(a netip.AddrPort) *net.TCPAddr { return net.TCPAddrFromAddrPort(a) }
func udpAddr(a netip.AddrPort) *net.UDPAddr { return net.UDPAddrFromAddrPort(a) }
