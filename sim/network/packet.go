package network

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// packetBuffer is how many datagrams wait to be read before more are dropped.
const packetBuffer = 1024

type datagram struct {
	data []byte
	from netip.AddrPort
	err  syscall.Errno // an ICMP error in the place of a datagram
}

// packetSocket is a UDP socket. Dialled, it is a net.Conn; bound, a net.PacketConn. It is both, as *net.UDPConn is.
type packetSocket struct {
	space   *Namespace
	network string
	local   netip.AddrPort
	remote  netip.AddrPort // of a connected socket
	dual    bool
	owner   *kernel.Process
	fd      int

	mu     sync.Mutex
	cond   *sync.Cond
	queue  []datagram
	closed bool
	dead   time.Time
	timer  *time.Timer
}

// track names a flow of datagrams as its sender sees it.
type track struct {
	space    *Namespace
	src, dst netip.AddrPort
}

// tracked is what the network remembers about a flow: where NAT has sent it, and, for the answers, what its sender called
// the other end.
type tracked struct {
	to       netip.AddrPort // the destination after NAT
	answerTo *packetSocket  // on entries for answers
	answerAs netip.AddrPort
	until    time.Time
	nat      bool
}

const (
	trackTimeout = 30 * time.Second // nf_conntrack_udp_timeout
	trackLimit   = 8192
)

// forgetTracks drops what was remembered about NATed flows of a machine and its Pods. The lock is held.
func (f *Fabric) forgetTracks(n *Namespace) {
	for k, t := range f.tracks {
		if t.nat && k.space.Machine == n.Machine {
			delete(f.tracks, k)
		}
	}
}

func (f *Fabric) pruneTracks() {
	if len(f.tracks) < trackLimit {
		return
	}
	now := time.Now()
	for k, t := range f.tracks {
		if now.After(t.until) {
			delete(f.tracks, k)
		}
	}
	if len(f.tracks) >= trackLimit {
		clear(f.tracks) // a full table loses flows, as a real one does
	}
}

// ListenPacket implements [kernel.Network].
func (n *Namespace) ListenPacket(p *kernel.Process, network, address string) (net.PacketConn, error) {
	switch network {
	case "udp", "udp4", "udp6":
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
	fail := func(errno syscall.Errno) (net.PacketConn, error) {
		addr := &net.UDPAddr{Port: int(show.Port())}
		if show.Addr().IsValid() {
			addr = udpAddr(show)
		}
		return nil, opError("listen", "bind", network, nil, addr, errno)
	}
	if errno := n.mayBind(p, a); errno != 0 {
		return fail(errno)
	}
	for _, o := range n.packets[a.Port()] {
		if a.Port() != 0 && (o.local.Addr() == a.Addr() || covers(a.Addr(), dual, o.local.Addr()) || covers(o.local.Addr(), o.dual, a.Addr())) {
			return fail(syscall.EADDRINUSE)
		}
	}
	s, err := n.openPacket(p, network, a, netip.AddrPort{}, dual)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openPacket makes a UDP socket. The lock is held.
func (n *Namespace) openPacket(p *kernel.Process, network string, local, remote netip.AddrPort, dual bool) (*packetSocket, error) {
	if local.Port() == 0 {
		port := n.ephemeral()
		if port == 0 {
			return nil, opError("listen", "bind", network, nil, udpAddr(local), syscall.EADDRINUSE)
		}
		local = netip.AddrPortFrom(local.Addr(), port)
	}
	s := &packetSocket{space: n, network: network, local: local, remote: remote, dual: dual, owner: p}
	s.cond = sync.NewCond(&s.mu)
	fd, ok := n.f.own(p, s)
	if !ok {
		return nil, kernel.ErrDead
	}
	s.fd = fd
	n.packets[local.Port()] = append(n.packets[local.Port()], s)
	return s, nil
}

// dialPacket makes a connected UDP socket. It fails only for want of a route.
func (n *Namespace) dialPacket(p *kernel.Process, network string, to netip.AddrPort) (net.Conn, error) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	src := n.ownAddress(to.Addr())
	if !n.up || !src.IsValid() {
		return nil, opError("dial", "connect", network, nil, udpAddr(to), syscall.ENETUNREACH)
	}
	s, err := n.openPacket(p, network, netip.AddrPortFrom(src, 0), to, false)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (n *Namespace) packetSocket(to netip.AddrPort, from netip.AddrPort) *packetSocket {
	var wild *packetSocket
	for _, s := range n.packets[to.Port()] {
		if s.remote.IsValid() {
			if s.remote == from && s.local.Addr() == to.Addr() {
				return s
			}
			continue
		}
		if s.local.Addr() == to.Addr() {
			return s
		}
		if covers(s.local.Addr(), s.dual, to.Addr()) {
			wild = s
		}
	}
	return wild
}

// sendTo delivers one datagram.
func (s *packetSocket) sendTo(b []byte, to netip.AddrPort) syscall.Errno {
	n, f := s.space, s.space.f
	f.mu.Lock()
	defer f.mu.Unlock()
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if !n.up {
		return syscall.ENETUNREACH
	}
	now := time.Now()
	data := append([]byte(nil), b...)
	src := s.local
	if src.Addr().IsUnspecified() {
		src = netip.AddrPortFrom(netip.Addr{}, src.Port())
	}
	// An answer to a flow that came in goes back the way it came.
	if t := f.tracks[track{n, netip.AddrPortFrom(netip.Addr{}, s.local.Port()), to}]; t != nil && t.answerTo != nil && now.Before(t.until) {
		q := t.answerTo
		back := f.send(n, packet{proto: "udp", src: t.to, dst: to, established: true, pinned: true})
		if back.to != nil {
			q.deliver(datagram{data: data, from: t.answerAs})
		}
		return 0
	}
	p := packet{proto: "udp", src: src, dst: to}
	key := track{n, s.local, to}
	old := f.tracks[key]
	if old != nil && now.Before(old.until) && old.nat {
		p.dst, p.pinned = old.to, true
	}
	r := f.roundTrip(n, p)
	if r.to == nil {
		switch r.errno {
		case syscall.ECONNREFUSED, syscall.EHOSTUNREACH:
			if s.remote.IsValid() { // by ICMP, so a connected socket hears of it with its next call
				errno, wait := r.errno, r.wait
				if wait == 0 {
					s.deliver(datagram{err: errno})
				} else {
					time.AfterFunc(wait, func() { s.deliver(datagram{err: errno}) })
				}
			}
			return 0
		}
		return r.errno
	}
	f.pruneTracks()
	f.tracks[key] = &tracked{to: r.dst, until: now.Add(trackTimeout), nat: r.dst != to}
	from := netip.AddrPortFrom(r.src.Addr(), s.local.Port())
	if r.to.gateway {
		if answer := r.to.answer(r.dst, data); answer != nil {
			s.deliver(datagram{data: answer, from: to})
		}
		return 0
	}
	q := r.to.packetSocket(r.dst, from)
	if q == nil {
		if s.remote.IsValid() {
			s.deliver(datagram{err: syscall.ECONNREFUSED})
		}
		return 0
	}
	f.tracks[track{r.to, netip.AddrPortFrom(netip.Addr{}, r.dst.Port()), from}] = &tracked{to: r.dst, answerTo: s, answerAs: to, until: now.Add(trackTimeout), nat: false}
	q.deliver(datagram{data: data, from: from})
	return 0
}

func (s *packetSocket) deliver(d datagram) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) >= packetBuffer {
		return
	}
	s.queue = append(s.queue, d)
	s.cond.Broadcast()
}

// ReadFrom implements [net.PacketConn].
func (s *packetSocket) ReadFrom(b []byte) (int, net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, nil, s.fail("read", net.ErrClosed)
		case past(s.dead):
			return 0, nil, s.fail("read", os.ErrDeadlineExceeded)
		case len(s.queue) > 0:
			d := s.queue[0]
			s.queue = s.queue[1:]
			if d.err != 0 {
				return 0, nil, s.fail("read", os.NewSyscallError(s.call("read", "recvfrom"), d.err))
			}
			return copy(b, d.data), udpAddr(d.from), nil
		}
		s.cond.Wait()
	}
}

func (s *packetSocket) call(connected, unconnected string) string {
	if s.remote.IsValid() {
		return connected
	}
	return unconnected
}

// Read implements [net.Conn].
func (s *packetSocket) Read(b []byte) (int, error) {
	n, _, err := s.ReadFrom(b)
	return n, err
}

// pendingError is what an ICMP message has left behind.
func (s *packetSocket) pendingError() (syscall.Errno, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, true
	}
	for i, d := range s.queue {
		if d.err != 0 {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			return d.err, false
		}
	}
	return 0, false
}

// WriteTo implements [net.PacketConn].
func (s *packetSocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	u, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, &net.OpError{Op: "write", Net: s.network, Source: s.LocalAddr(), Addr: addr, Err: syscall.EINVAL}
	}
	if s.remote.IsValid() {
		return 0, &net.OpError{Op: "write", Net: s.network, Source: s.LocalAddr(), Addr: addr, Err: net.ErrWriteToConnected}
	}
	if _, closed := s.pendingError(); closed {
		return 0, &net.OpError{Op: "write", Net: s.network, Source: s.LocalAddr(), Addr: addr, Err: net.ErrClosed}
	}
	if errno := s.sendTo(b, u.AddrPort()); errno != 0 {
		return 0, opError("write", "sendto", s.network, s.LocalAddr(), addr, errno)
	}
	return len(b), nil
}

// Write implements [net.Conn].
func (s *packetSocket) Write(b []byte) (int, error) {
	if !s.remote.IsValid() {
		return 0, s.fail("write", os.NewSyscallError("write", syscall.EDESTADDRREQ))
	}
	errno, closed := s.pendingError()
	if closed {
		return 0, s.fail("write", net.ErrClosed)
	}
	if errno == 0 {
		errno = s.sendTo(b, s.remote)
	}
	if errno != 0 {
		return 0, s.fail("write", os.NewSyscallError("write", errno))
	}
	return len(b), nil
}

func (s *packetSocket) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: s.network, Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

// LocalAddr implements [net.PacketConn] and [net.Conn].
func (s *packetSocket) LocalAddr() net.Addr { return udpAddr(s.local) }

// RemoteAddr implements [net.Conn]; it is nil for a socket that is not connected.
func (s *packetSocket) RemoteAddr() net.Addr {
	if !s.remote.IsValid() {
		return nil
	}
	return udpAddr(s.remote)
}

// Close implements [net.PacketConn] and [net.Conn].
func (s *packetSocket) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.fail("close", net.ErrClosed)
	}
	s.closed = true
	stop(&s.timer)
	s.cond.Broadcast()
	s.mu.Unlock()
	f := s.space.f
	f.mu.Lock()
	defer f.mu.Unlock()
	port := s.local.Port()
	if s.space.packets[port] = without(s.space.packets[port], s); len(s.space.packets[port]) == 0 {
		delete(s.space.packets, port)
	}
	f.disown(s.owner, s)
	return nil
}

func (s *packetSocket) die() { s.Close() }

// SetDeadline implements [net.Conn].
func (s *packetSocket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (s *packetSocket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = t
	stop(&s.timer)
	if !t.IsZero() {
		if d := time.Until(t); d > 0 {
			s.timer = time.AfterFunc(d, func() { s.mu.Lock(); s.cond.Broadcast(); s.mu.Unlock() })
		}
	}
	s.cond.Broadcast()
	return nil
}

// SetWriteDeadline implements [net.Conn]. Datagrams are sent at once.
func (s *packetSocket) SetWriteDeadline(time.Time) error { return nil }
