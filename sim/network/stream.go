package network

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// window is how many bytes one direction of a connection holds before its writer waits.
const window = 256 << 10

// pair is one connection with its two ends. One lock guards both: whatever happens at one end happens to the other too.
type pair struct {
	f    *Fabric
	mu   sync.Mutex
	side [2]Conn // the one that dialled, the one that was dialled

	cut      bool // nothing gets through at the moment
	cutTimer *time.Timer
	h2Timer  *time.Timer

	// How the two ends serve HTTP, see serve.go.
	hint    *httpHint
	mode    chan struct{} // closed when it is decided how the accepting end serves the connection
	session *session      // set before mode is closed if requests may be handed over directly
	hooks   map[*exchange]bool
}

// half is one direction: what has been sent and not been read yet.
type half struct {
	cond *sync.Cond
	buf  []byte
	off  int
	late int  // how many bytes at the end of buf have not arrived, because the connection is cut
	fin  bool // the writer sends no more
	// finLate: the end has not arrived either.
	finLate               bool
	readDead, writeDead   time.Time
	readTimer, writeTimer *time.Timer
}

func (h *half) arrived() int { return len(h.buf) - h.off - h.late }

// Conn is one end of a stream connection. Its methods return the errors that package net returns on Linux.
type Conn struct {
	p        *pair
	me       int
	in       half
	network  string // tcp, unix
	space    *Namespace
	local    netip.AddrPort
	remote   netip.AddrPort
	path     string // unix
	owner    *kernel.Process
	fd       int
	closed   bool
	shut     bool // no more writes
	reset    syscall.Errno
	told     bool // the reset was reported once
	linger0  bool
	holds    bool          // it holds a local port
	ended    chan struct{} // closed when nothing more can be read, or the end was closed
	endedErr error
}

func (f *Fabric) newPair(network string, hint *httpHint) *pair {
	p := &pair{f: f, hint: hint, mode: make(chan struct{}), hooks: map[*exchange]bool{}}
	for i := range p.side {
		c := &p.side[i]
		c.p, c.me, c.network, c.ended = p, i, network, make(chan struct{})
		c.in.cond = sync.NewCond(&p.mu)
	}
	return p
}

func (c *Conn) peer() *Conn { return &c.p.side[1-c.me] }

func (c *Conn) out() *half { return &c.peer().in }

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr {
	if c.network == "unix" {
		if c.me == 1 {
			return &net.UnixAddr{Name: c.path, Net: "unix"}
		}
		return &net.UnixAddr{Net: "unix"}
	}
	return tcpAddr(c.local)
}

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr {
	if c.network == "unix" {
		if c.me == 0 {
			return &net.UnixAddr{Name: c.path, Net: "unix"}
		}
		return &net.UnixAddr{Net: "unix"}
	}
	return tcpAddr(c.remote)
}

func (c *Conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: c.network, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *Conn) failCall(op string, errno syscall.Errno) error {
	return c.fail(op, os.NewSyscallError(op, errno))
}

func past(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// Read implements [net.Conn].
func (c *Conn) Read(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	h := &c.in
	for {
		switch n := h.arrived(); {
		case c.closed:
			return 0, c.fail("read", net.ErrClosed)
		case past(h.readDead):
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		case n > 0:
			if len(b) == 0 {
				return 0, nil
			}
			n = copy(b, h.buf[h.off:h.off+n])
			h.off += n
			if h.off == len(h.buf) {
				h.buf, h.off = h.buf[:0], 0
			}
			h.cond.Broadcast()
			return n, nil
		case c.reset != 0 && c.reset != syscall.EPIPE:
			c.told = true
			return 0, c.failCall("read", c.reset)
		case h.fin && !h.finLate || c.reset == syscall.EPIPE:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		h.cond.Wait()
	}
}

// Write implements [net.Conn].
func (c *Conn) Write(b []byte) (n int, err error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	h, peer := c.out(), c.peer()
	for {
		switch {
		case c.closed:
			return n, c.fail("write", net.ErrClosed)
		case c.reset != 0:
			errno := syscall.EPIPE
			if c.reset != syscall.EPIPE && !c.told {
				errno, c.told = c.reset, true
			}
			return n, c.failCall("write", errno)
		case c.shut:
			return n, c.failCall("write", syscall.EPIPE)
		case past(h.writeDead):
			return n, c.fail("write", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return n, nil
		case peer.closed && !c.p.cut:
			// The other end is gone: it answers this segment with a reset, which the next call sees.
			c.resetBy(syscall.EPIPE)
			return n + len(b), nil
		}
		if k := min(len(b), window-(len(h.buf)-h.off)); k > 0 {
			if h.off > 0 && len(h.buf)+k > cap(h.buf) {
				h.buf = append(h.buf[:0], h.buf[h.off:]...)
				h.off = 0
			}
			h.buf = append(h.buf, b[:k]...)
			if c.p.cut {
				h.late += k
			}
			b = b[k:]
			n += k
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

// resetBy ends the connection for c as a reset by the other end does. The lock is held.
func (c *Conn) resetBy(errno syscall.Errno) {
	if c.closed || c.reset != 0 {
		return
	}
	c.reset = errno
	c.end(c.failCall("read", errno))
	c.in.cond.Broadcast()
	c.out().cond.Broadcast()
}

// end notes that nothing more comes. The lock is held.
func (c *Conn) end(err error) {
	if c.endedErr != nil {
		return
	}
	c.endedErr = err
	close(c.ended)
	for x := range c.p.hooks {
		x.connEnded(c.me == 0, err)
	}
}

// finish delivers the end of c's sending. The lock is held.
func (c *Conn) finish() {
	h := c.out()
	if h.fin {
		return
	}
	h.fin = true
	h.finLate = c.p.cut
	if !h.finLate {
		c.peer().end(io.EOF)
	}
	h.cond.Broadcast()
}

// CloseWrite shuts down the sending side, as shutdown(2) with SHUT_WR does.
func (c *Conn) CloseWrite() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	if c.shut || c.reset != 0 {
		return c.fail("close", os.NewSyscallError("shutdown", syscall.ENOTCONN))
	}
	c.shut = true
	c.finish()
	return nil
}

// CloseRead shuts down the receiving side: reads return the end of the stream.
func (c *Conn) CloseRead() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.in.fin, c.in.finLate = true, false
	c.in.cond.Broadcast()
	return nil
}

// Close implements [net.Conn]. With unread data the other end sees a reset.
func (c *Conn) Close() error {
	c.p.mu.Lock()
	if c.closed {
		c.p.mu.Unlock()
		return c.fail("close", net.ErrClosed)
	}
	c.shutdown()
	c.p.mu.Unlock()
	c.leave()
	return nil
}

// die closes the end for a process that has ended.
func (c *Conn) die() { c.Close() }

// shutdown closes this end. The pair's lock is held.
func (c *Conn) shutdown() {
	c.closed = true
	c.end(c.fail("read", net.ErrClosed))
	for _, h := range []*half{&c.in, c.out()} {
		h.cond.Broadcast()
	}
	stop(&c.in.readTimer)
	stop(&c.out().writeTimer)
	unread := len(c.in.buf) > c.in.off
	peer := c.peer()
	switch {
	case c.p.cut:
		c.finish()
	case c.reset == 0 && (unread || c.linger0):
		if !peer.closed {
			peer.resetBy(syscall.ECONNRESET)
		}
	default:
		c.finish()
	}
	if peer.closed {
		stop(&c.p.cutTimer)
		stop(&c.p.h2Timer)
	}
}

func stop(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// leave gives back what a closed end held.
func (c *Conn) leave() {
	f := c.p.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.owner != nil {
		f.disown(c.owner, c)
	}
	if c.holds {
		c.holds = false
		if c.space.taken[c.local.Port()]--; c.space.taken[c.local.Port()] <= 0 {
			delete(c.space.taken, c.local.Port())
		}
	}
	c.p.mu.Lock()
	done := c.p.side[0].closed && c.p.side[1].closed
	cut := c.p.cut
	c.p.mu.Unlock()
	if done && f.pairs[c.p] {
		delete(f.pairs, c.p)
		if cut {
			f.cuts--
		}
	}
}

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	c.p.deadline(&c.in, &c.in.readDead, &c.in.readTimer, t)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	h := c.out()
	c.p.deadline(h, &h.writeDead, &h.writeTimer, t)
	return nil
}

func (p *pair) deadline(h *half, at *time.Time, timer **time.Timer, t time.Time) {
	*at = t
	stop(timer)
	if !t.IsZero() {
		if d := time.Until(t); d > 0 {
			*timer = time.AfterFunc(d, func() { p.mu.Lock(); h.cond.Broadcast(); p.mu.Unlock() })
		}
	}
	h.cond.Broadcast()
}

// SetLinger with 0 makes Close reset the connection.
func (c *Conn) SetLinger(sec int) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.linger0 = sec == 0
	return nil
}

// SetKeepAlive does nothing: every connection of the world is kept alive, as Go's are.
func (c *Conn) SetKeepAlive(bool) error { return nil }

// SetKeepAlivePeriod does nothing, see [Conn.SetKeepAlive].
func (c *Conn) SetKeepAlivePeriod(time.Duration) error { return nil }

// SetNoDelay does nothing: the world's segments do not wait.
func (c *Conn) SetNoDelay(bool) error { return nil }

// How long a connection over which nothing gets through lives: Go's keep-alive gives up after 15 s and 9 probes 15 s apart,
// and client-go's HTTP/2 after a ping that was sent after 30 s of silence has not been answered for 15 s.
const (
	keepAliveTimeout = 150 * time.Second
	h2PingTimeout    = 45 * time.Second
)

// setCut says whether anything gets through. The fabric's lock is held.
func (p *pair) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == cut {
		return
	}
	p.cut = cut
	stop(&p.cutTimer)
	stop(&p.h2Timer)
	if cut {
		p.f.cuts++
		p.cutTimer = time.AfterFunc(keepAliveTimeout, p.timeOut)
		if p.session != nil {
			p.h2Timer = time.AfterFunc(h2PingTimeout, p.lost)
		}
	} else {
		p.f.cuts--
		for i := range p.side {
			c := &p.side[i]
			c.in.late = 0
			if c.in.fin && c.in.finLate {
				c.in.finLate = false
				c.end(io.EOF)
			}
			if peer := c.peer(); peer.closed && len(peer.in.buf) > peer.in.off {
				c.resetBy(syscall.ECONNRESET)
			}
			c.in.cond.Broadcast()
		}
	}
	for x := range p.hooks {
		x.wake()
	}
}

// timeOut ends both ends of a connection that was cut for too long.
func (p *pair) timeOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		return
	}
	for i := range p.side {
		p.side[i].resetBy(syscall.ETIMEDOUT)
	}
}

// lost ends the dialling end as HTTP/2's health check does.
func (p *pair) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut || p.side[0].closed || p.session == nil || !p.session.http2 {
		return
	}
	p.side[0].reset = syscall.ETIMEDOUT
	p.side[0].end(errClientConnectionLost)
}

// recheck follows every connection anew after something has changed. The lock is held.
func (f *Fabric) recheck() {
	for p := range f.pairs {
		a, b := &p.side[0], &p.side[1]
		if a.network != "tcp" {
			continue
		}
		p.setCut(!f.connected(a, b))
	}
}

// connected says whether packets of an established connection get through both ways. Destination and source NAT have been
// decided when it was made.
func (f *Fabric) connected(a, b *Conn) bool {
	if f.spaces[a.space.name] != a.space || f.spaces[b.space.name] != b.space || !a.space.up || !b.space.up {
		return false
	}
	if a.space == b.space {
		return true
	}
	there := f.send(a.space, packet{proto: "tcp", src: a.local, dst: b.local, established: true, pinned: true})
	if there.to != b.space {
		return false
	}
	back := f.send(b.space, packet{proto: "tcp", src: b.local, dst: a.local, established: true, pinned: true})
	return back.to == a.space
}
