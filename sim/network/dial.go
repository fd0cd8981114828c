package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// connectTimeout is when Linux gives up to connect to somebody who does not answer: 6 SYN retries, doubling from 1 s.
const connectTimeout = 127 * time.Second

// parse reads "host:port" whose host is numeric. An empty host gives an address that is not valid.
func (n *Namespace) parse(op, network, address string, listen bool) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, &net.OpError{Op: op, Net: network, Err: err}
	}
	port, err := portNumber(network, service)
	if err != nil {
		return netip.AddrPort{}, &net.OpError{Op: op, Net: network, Err: err}
	}
	if host == "" {
		return netip.AddrPortFrom(netip.Addr{}, port), nil
	}
	a, err := netip.ParseAddr(host)
	if err != nil && listen && host == "localhost" {
		a, err = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	if err != nil {
		return netip.AddrPort{}, &net.OpError{Op: op, Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return netip.AddrPortFrom(a.Unmap(), port), nil
}

// wellKnown are the service names that appear in addresses of the world's programs.
var wellKnown = map[string]uint16{"http": 80, "https": 443, "domain": 53, "ssh": 22}

func portNumber(network, service string) (uint16, error) {
	if service == "" {
		return 0, nil
	}
	if p, ok := wellKnown[service]; ok {
		return p, nil
	}
	i, err := strconv.Atoi(service)
	if err != nil {
		return 0, &net.DNSError{Err: "unknown port", Name: network + "/" + service, IsNotFound: true}
	}
	if i < 0 || i > 65535 {
		return 0, &net.AddrError{Err: "invalid port", Addr: service}
	}
	return uint16(i), nil
}

// Dial implements [kernel.Network]. Names are looked up as Go's resolver does, and their addresses tried in turn.
func (n *Namespace) Dial(ctx context.Context, p *kernel.Process, network, address string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6":
	case "unix":
		return n.dialUnix(ctx, p, address)
	default:
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.UnknownNetworkError(network)}
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	port, err := portNumber(network, service)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var addrs []netip.Addr
	if host == "" {
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	} else if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = Resolve(ctx, p, host); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var first error
	for i, a := range addrs {
		a = a.Unmap()
		if a.IsUnspecified() {
			if a = netip.AddrFrom4([4]byte{127, 0, 0, 1}); strings.HasSuffix(network, "6") {
				a = netip.IPv6Loopback()
			}
		}
		if strings.HasSuffix(network, "4") && !a.Is4() || strings.HasSuffix(network, "6") && a.Is4() {
			continue
		}
		to := netip.AddrPortFrom(a, port)
		var c net.Conn
		if strings.HasPrefix(network, "udp") {
			c, err = n.dialPacket(p, network, to)
		} else {
			one, cancel := partOfDeadline(ctx, len(addrs)-i)
			c, err = n.dialStream(one, p, network, to)
			cancel()
		}
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first == nil {
		first = &net.OpError{Op: "dial", Net: network, Err: &net.AddrError{Err: "no suitable address found", Addr: host}}
	}
	return nil, first
}

// partOfDeadline shares what is left of a deadline among the addresses that are left, as package net does.
func partOfDeadline(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	d, ok := ctx.Deadline()
	if !ok || left <= 1 {
		return ctx, func() {}
	}
	part := time.Until(d) / time.Duration(left)
	part = max(part, min(2*time.Second, time.Until(d)))
	return context.WithTimeout(ctx, part)
}

// dialStream connects to one address.
func (n *Namespace) dialStream(ctx context.Context, p *kernel.Process, network string, to netip.AddrPort) (net.Conn, error) {
	remote := tcpAddr(to)
	start := time.Now()
	fail := func(errno syscall.Errno) (net.Conn, error) {
		return nil, opError("dial", "connect", network, nil, remote, errno)
	}
	for wait := time.Second; ; wait *= 2 {
		if err := ctx.Err(); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Addr: remote, Err: contextError(err)}
		}
		c, errno, pause := n.connect(ctx, p, to)
		if c != nil {
			return c, nil
		}
		if errors.Is(errno, errDead) {
			return nil, kernel.ErrDead
		}
		if errno != nil && pause == 0 {
			return fail(errno.(syscall.Errno))
		}
		// Nobody answered. A neighbour is asked for 3 s; a SYN is sent again after 1, 2, 4 ... s.
		d := wait
		if errno != nil {
			d = pause
		} else if left := connectTimeout - time.Since(start); left <= 0 {
			return fail(syscall.ETIMEDOUT)
		} else {
			d = min(d, left)
		}
		sleep, cancel := mergeDone(ctx, p)
		err := kernel.SleepContext(sleep, d)
		cancel()
		if err != nil && ctx.Err() == nil {
			return nil, kernel.ErrDead
		}
		if err == nil && errno != nil {
			if _, again, _ := n.probe(to); again != nil {
				return fail(errno.(syscall.Errno))
			}
		}
	}
}

var errDead = errors.New("dead")

// mergeDone is a context that ends with ctx or with the process.
func mergeDone(ctx context.Context, p *kernel.Process) (context.Context, context.CancelFunc) {
	c, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.Context(), cancel)
	return c, func() { stop(); cancel() }
}

// probe follows a SYN without making a connection.
func (n *Namespace) probe(to netip.AddrPort) (path, error, time.Duration) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	r := n.f.roundTrip(n, packet{proto: "tcp", dst: to})
	if r.errno != 0 {
		return r, r.errno, r.wait
	}
	return r, nil, 0
}

// connect tries once. Without connection, error and pause the SYN was lost.
func (n *Namespace) connect(ctx context.Context, p *kernel.Process, to netip.AddrPort) (*Conn, error, time.Duration) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.Alive() {
		return nil, errDead, 0
	}
	port := n.ephemeral()
	if port == 0 {
		return nil, syscall.EADDRNOTAVAIL, 0
	}
	r := f.roundTrip(n, packet{proto: "tcp", src: netip.AddrPortFrom(netip.Addr{}, port), dst: to})
	if r.to == nil {
		if r.errno != 0 {
			return nil, r.errno, r.wait
		}
		return nil, nil, 0
	}
	l := r.to.listener(r.dst)
	if l == nil {
		if r.to.gateway {
			return nil, nil, 0
		}
		return nil, syscall.ECONNREFUSED, 0
	}
	pr := f.newPair("tcp", hintOf(ctx))
	a, b := &pr.side[0], &pr.side[1]
	a.space, b.space = n, r.to
	src := netip.AddrPortFrom(r.src.Addr(), port)
	own := src.Addr()
	if r.masqueraded != nil || !n.isLocal(own) { // what the process itself sees is its own address
		own = n.ownAddress(to.Addr())
	}
	a.local, a.remote = netip.AddrPortFrom(own, port), to
	b.local, b.remote = r.dst, src
	fd, ok := f.own(p, a)
	if !ok {
		return nil, errDead, 0
	}
	a.owner, a.fd = p, fd
	// The pair must be known before the accepting end can close it again.
	f.pairs[pr] = true
	n.taken[port]++
	a.holds = true
	if ok, full := l.put(b); !ok {
		delete(f.pairs, pr)
		f.disown(p, a)
		delete(n.taken, port)
		if full {
			return nil, nil, 0
		}
		return nil, syscall.ECONNREFUSED, 0
	}
	return a, nil, 0
}

func (n *Namespace) ownAddress(to netip.Addr) netip.Addr {
	if n.isLocal(to) {
		return to
	}
	if r, ok := n.lookup(to); ok {
		return n.source(r, to)
	}
	return netip.Addr{}
}
