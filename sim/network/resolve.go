package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/kernel"

	"github.com/miekg/dns"
)

// Resolve looks a host name up for a process, as Go's own resolver does: /etc/hosts and DNS in the order of nsswitch.conf,
// with the servers, search domains and options of resolv.conf. A failure is a *net.DNSError in Go's words.
func Resolve(ctx context.Context, p *kernel.Process, name string) ([]netip.Addr, error) {
	return lookup(ctx, p, name, false)
}

// DialHost connects a process to a host by name or address, "host:port", as Go's own dialler does.
func DialHost(ctx context.Context, p *kernel.Process, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := Resolve(ctx, p, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	for _, a := range addrs {
		var c net.Conn
		if c, err = p.Dial(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// ResolveLibc is [Resolve] as getaddrinfo(3) does it: it gives up at the first server's silence, where Go tries the other
// search domains. Callers word the failure from IsNotFound ("Name or service not known") and IsTemporary ("Temporary
// failure in name resolution").
func ResolveLibc(ctx context.Context, p *kernel.Process, name string) ([]netip.Addr, error) {
	return lookup(ctx, p, name, true)
}

func lookup(ctx context.Context, p *kernel.Process, name string, libc bool) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a}, nil
	}
	failure := &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	if name == "" || len(name) > 254 {
		return nil, failure
	}
	for _, source := range hostSources(p) {
		switch source {
		case "files":
			if l := hostsEntries(p, name); len(l) > 0 {
				return order(p, l), nil
			}
		case "dns":
			l, err := lookupDNS(ctx, p, name, libc)
			if err == nil {
				return order(p, l), nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			errors.As(err, &failure)
		}
	}
	if l := hostsEntries(p, name); name == "localhost" && len(l) == 0 {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil // RFC 6761, as every libc
	}
	return nil, failure
}

// order puts the addresses that a socket can be connected to first, and among them IPv6 before IPv4 (RFC 6724).
func order(p *kernel.Process, l []netip.Addr) []netip.Addr {
	rank := func(a netip.Addr) int {
		r := 0
		if n, ok := p.Net.(*Namespace); ok {
			if _, _, err := n.Route(a); err != nil {
				r += 2
			}
		}
		if a.Is4() {
			r++
		}
		return r
	}
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	return l
}

func lookupDNS(ctx context.Context, p *kernel.Process, name string, libc bool) ([]netip.Addr, error) {
	c := ReadResolvConf(p)
	var last error
	for _, fqdn := range c.Names(name) {
		type answer struct {
			types uint16
			l     []netip.Addr
			err   error
		}
		answers := make(chan answer, 2)
		for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
			go func() {
				m, err := c.Query(ctx, p, fqdn, t)
				answers <- answer{t, addresses(m), err}
			}()
		}
		var found []netip.Addr
		var failed error
		var got [2]answer
		for i := range got {
			select {
			case got[i] = <-answers:
			case <-p.Done():
				return nil, kernel.ErrDead
			}
		}
		if got[0].types != dns.TypeA {
			got[0], got[1] = got[1], got[0]
		}
		for _, a := range got {
			found = append(found, a.l...)
			if a.err != nil && (failed == nil || !isNotFound(a.err)) {
				failed = a.err
			}
		}
		if len(found) > 0 {
			return found, nil
		}
		if failed == nil {
			failed = &net.DNSError{Err: "no such host", Name: fqdn, Server: c.Servers[0].String(), IsNotFound: true}
		}
		if last == nil || fqdn == rooted(name) {
			last = failed
		}
		var de *net.DNSError
		if ctx.Err() != nil || libc && errors.As(failed, &de) && de.IsTimeout {
			last = failed
			break
		}
	}
	var de *net.DNSError
	if errors.As(last, &de) {
		e := *de
		e.Name = name
		return nil, &e
	}
	return nil, last
}

func isNotFound(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}

// addresses are those that a response holds, whatever aliases lead to them.
func addresses(m *dns.Msg) []netip.Addr {
	if m == nil {
		return nil
	}
	var l []netip.Addr
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			if a, ok := netip.AddrFromSlice(rr.A.To4()); ok {
				l = append(l, a)
			}
		case *dns.AAAA:
			if a, ok := netip.AddrFromSlice(rr.AAAA); ok {
				l = append(l, a)
			}
		}
	}
	return l
}

// Query asks the configured servers for the records of an absolute name, each server as often as configured. A name that
// does not exist, or has no such records, is a *net.DNSError with IsNotFound.
func (c ResolvConf) Query(ctx context.Context, p *kernel.Process, fqdn string, qtype uint16) (*dns.Msg, error) {
	var last error
	for range c.Attempts {
		for _, server := range c.Servers {
			q := new(dns.Msg).SetQuestion(fqdn, qtype)
			q.Id = uint16(p.World().Random("network/dns").Uint64())
			m, err := Exchange(ctx, p, server, q, c.Timeout)
			fail := &net.DNSError{Name: fqdn, Server: server.String()}
			if err != nil {
				var ne net.Error
				fail.Err, fail.IsTemporary = err.Error(), true
				fail.IsTimeout = errors.As(err, &ne) && ne.Timeout()
				last = fail
				if ctx.Err() != nil {
					return nil, fail
				}
				continue
			}
			switch {
			case m.Rcode == dns.RcodeNameError:
				fail.Err, fail.IsNotFound = "no such host", true
				return m, fail
			case m.Rcode != dns.RcodeSuccess:
				fail.Err, fail.IsTemporary = "server misbehaving", m.Rcode == dns.RcodeServerFailure
				last = fail
				continue
			}
			has := slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == qtype })
			if !has {
				fail.Err, fail.IsNotFound = "no such host", true
				return m, fail
			}
			return m, nil
		}
	}
	return nil, last
}

// Exchange sends one query to one server over UDP, and over TCP if the answer was cut off, and waits for the answer.
func Exchange(ctx context.Context, p *kernel.Process, server netip.AddrPort, q *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	m, err := ExchangeOver(ctx, p, "udp", server, q, timeout)
	if err == nil && m.Truncated {
		return ExchangeOver(ctx, p, "tcp", server, q, timeout)
	}
	return m, err
}

// ExchangeOver is [Exchange] over one protocol, "udp" or "tcp".
func ExchangeOver(ctx context.Context, p *kernel.Process, protocol string, server netip.AddrPort, q *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	one, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := p.Dial(one, protocol, server.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(one, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.SetDeadline(deadline)
	conn := &dns.Conn{Conn: c, UDPSize: 1232}
	if err := conn.WriteMsg(q); err != nil {
		return nil, err
	}
	for {
		m, err := conn.ReadMsg()
		if err != nil {
			return nil, err
		}
		if m.Id == q.Id && len(m.Question) == len(q.Question) && (len(q.Question) == 0 || strings.EqualFold(m.Question[0].Name, q.Question[0].Name)) {
			return m, nil
		}
	}
}
