package network

import (
	"net"
	"net/netip"
	"sync"
	"syscall"

	"ckadrill/sim/kernel"
)

// backlog is how many connections wait to be accepted (net.core.somaxconn).
const backlog = 4096

// queue holds connections that wait to be accepted.
type queue struct {
	mu     sync.Mutex
	cond   *sync.Cond
	conns  []*Conn
	closed bool
	// server is set while a [Server] accepts from it.
	server *Server
}

func (q *queue) init() { q.cond = sync.NewCond(&q.mu) }

// put adds a connection, false if the queue is full or closed.
func (q *queue) put(c *Conn) (ok, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, false
	}
	if len(q.conns) >= backlog {
		return false, true
	}
	q.conns = append(q.conns, c)
	q.cond.Signal()
	return true, false
}

func (q *queue) take() (*Conn, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.conns) == 0 && !q.closed {
		q.cond.Wait()
	}
	if q.closed {
		return nil, false
	}
	c := q.conns[0]
	q.conns = q.conns[1:]
	return c, true
}

// close ends the queue and returns what was still waiting.
func (q *queue) close() (waiting []*Conn, was bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, true
	}
	q.closed = true
	q.cond.Broadcast()
	waiting, q.conns = q.conns, nil
	return waiting, false
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.conns)
}

// Listener is a listening TCP socket.
type Listener struct {
	queue
	space *Namespace
	addr  netip.AddrPort
	dual  bool
	owner *kernel.Process
	fd    int
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return tcpAddr(l.addr) }

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.accept()
	if err != nil {
		return nil, err
	}
	c.p.decide(nil)
	return c, nil
}

// accept takes a connection whose way of serving is not decided yet.
func (l *Listener) accept() (*Conn, error) {
	for {
		c, ok := l.take()
		if !ok {
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
		}
		if l.space.f.adopt(c, l.owner) {
			return c, nil
		}
	}
}

// adopt gives an accepted connection to a process; false if it ended meanwhile.
func (f *Fabric) adopt(c *Conn, p *kernel.Process) bool {
	f.mu.Lock()
	fd, ok := f.own(p, c)
	if ok {
		c.owner, c.fd = p, fd
	}
	f.mu.Unlock()
	if !ok {
		c.Close()
	}
	return ok
}

// Pass gives the connection to another process of the machine, as a child inherits it of a server that forks. It returns
// false, and closes the connection, if that process has ended.
func (c *Conn) Pass(p *kernel.Process) bool {
	c.p.f.mu.Lock()
	c.p.f.disown(c.owner, c)
	c.p.f.mu.Unlock()
	return c.p.f.adopt(c, p)
}

// Close implements [net.Listener]. Connections that wait to be accepted are reset.
func (l *Listener) Close() error {
	waiting, was := l.close()
	if was {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
	f := l.space.f
	f.mu.Lock()
	l.space.listeners[l.addr.Port()] = without(l.space.listeners[l.addr.Port()], l)
	if len(l.space.listeners[l.addr.Port()]) == 0 {
		delete(l.space.listeners, l.addr.Port())
	}
	f.disown(l.owner, l)
	f.mu.Unlock()
	for _, c := range waiting {
		c.SetLinger(0)
		c.Close()
	}
	return nil
}

func (l *Listener) die() { l.Close() }

func without[T comparable](l []T, x T) []T {
	for i := range l {
		if l[i] == x {
			return append(append([]T(nil), l[:i]...), l[i+1:]...)
		}
	}
	return l
}

// covers says whether the listener takes connections to an address of its namespace.
func covers(bound netip.Addr, dual bool, to netip.Addr) bool {
	if bound.IsUnspecified() {
		return dual || bound.Is4() == to.Is4()
	}
	return bound == to
}

func (n *Namespace) listener(to netip.AddrPort) *Listener {
	var wild *Listener
	for _, l := range n.listeners[to.Port()] {
		if l.addr.Addr() == to.Addr() {
			return l
		}
		if covers(l.addr.Addr(), l.dual, to.Addr()) {
			wild = l
		}
	}
	return wild
}

// bindTo parses the address that a socket is to be bound to. A wildcard of the networks "tcp" and "udp" is bound to [::]
// and takes IPv4 too, as Go does on Linux.
func (n *Namespace) bindTo(p *kernel.Process, op, network, address string) (a netip.AddrPort, dual bool, show netip.AddrPort, err error) {
	show, err = n.parse(op, network, address, true)
	if err != nil {
		return
	}
	a = show
	if !a.Addr().IsValid() {
		a = netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port())
	}
	if a.Addr().IsUnspecified() {
		switch network {
		case "tcp", "udp":
			a, dual = netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port()), true
		case "tcp4", "udp4":
			a = netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port())
		}
	}
	return
}

// Listen implements [kernel.Network].
func (n *Namespace) Listen(p *kernel.Process, network, address string) (net.Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	case "unix":
		return n.listenUnix(p, address)
	default:
		return nil, &net.OpError{Op: "listen", Net: network, Err: net.UnknownNetworkError(network)}
	}
	a, dual, show, err := n.bindTo(p, "listen", network, address)
	if err != nil {
		return nil, err
	}
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(errno syscall.Errno) (net.Listener, error) {
		addr := &net.TCPAddr{Port: int(show.Port())}
		if show.Addr().IsValid() {
			addr = tcpAddr(show)
		}
		return nil, opError("listen", "bind", network, nil, addr, errno)
	}
	if errno := n.mayBind(p, a); errno != 0 {
		return fail(errno)
	}
	if a.Port() == 0 {
		port := n.ephemeral()
		if port == 0 {
			return fail(syscall.EADDRINUSE)
		}
		a = netip.AddrPortFrom(a.Addr(), port)
	}
	for _, o := range n.listeners[a.Port()] {
		if o.addr.Addr() == a.Addr() || covers(a.Addr(), dual, o.addr.Addr()) || covers(o.addr.Addr(), o.dual, a.Addr()) {
			return fail(syscall.EADDRINUSE)
		}
	}
	l := &Listener{space: n, addr: a, dual: dual, owner: p}
	l.init()
	fd, ok := f.own(p, l)
	if !ok {
		return nil, kernel.ErrDead
	}
	l.fd = fd
	n.listeners[a.Port()] = append(n.listeners[a.Port()], l)
	return l, nil
}

// mayBind checks an address that is to be bound. The lock is held.
func (n *Namespace) mayBind(p *kernel.Process, a netip.AddrPort) syscall.Errno {
	switch {
	case !n.up:
		return syscall.EADDRNOTAVAIL
	case !a.Addr().IsUnspecified() && !n.isLocal(a.Addr()):
		return syscall.EADDRNOTAVAIL
	case a.Port() != 0 && a.Port() < 1024 && p.Cred.UID != 0 && n.Handle == "":
		return syscall.EACCES // Pods may: containerd sets net.ipv4.ip_unprivileged_port_start=0
	}
	return 0
}
