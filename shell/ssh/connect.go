package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strconv"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// How long an exchange of keys and a login take on a lab's network, and how long either end waits for the other in them.
const (
	loginTime  = 180 * time.Millisecond
	loginGrace = 2 * time.Minute
)

// link is a client's connection to a server.
type link struct {
	*wire
	host string // as the user called it
	addr netip.AddrPort
}

// dial connects to a server and exchanges banners. The error is what ssh prints.
func dial(c *libc.Prog, s *settings) (*link, error) {
	if err := s.configure(c); err != nil {
		return nil, err
	}
	if s.hostName == "" {
		s.hostName = s.host
	}
	if s.port == 0 {
		s.port = 22
	}
	if s.user == "" {
		s.user = userName(c.Process)
	}
	if s.verbose {
		c.Errorf("%s\n", fullName)
	}
	conn, addr, err := s.connect(c)
	if err != nil {
		return nil, err
	}
	if s.verbose {
		c.Errorf("debug1: Connection established.\n")
	}
	w, err := greet(conn, loginGrace)
	if err != nil {
		conn.Close()
		why := "Connection closed by remote host"
		switch {
		case errors.Is(err, errNotSSH):
			return nil, fmt.Errorf("kex_exchange_identification: banner line contains invalid characters\nbanner exchange: Connection to %s port %d: invalid format", addr.Addr(), s.port)
		case errors.Is(err, syscall.ECONNRESET):
			why = "read: Connection reset by peer"
			return nil, fmt.Errorf("kex_exchange_identification: %s\nConnection reset by %s port %d", why, addr.Addr(), s.port)
		}
		return nil, fmt.Errorf("kex_exchange_identification: %s\nConnection closed by %s port %d", why, addr.Addr(), s.port)
	}
	c.Wait(loginTime)
	return &link{wire: w, host: s.host, addr: addr}, nil
}

// connect finds the server's addresses and connects to the first that answers.
func (s *settings) connect(c *libc.Prog) (net.Conn, netip.AddrPort, error) {
	addrs, err := network.ResolveLibc(c.Context(), c.Process, s.hostName)
	if err != nil || len(addrs) == 0 {
		text := "Name or service not known"
		var de *net.DNSError
		if errors.As(err, &de) && !de.IsNotFound {
			text = "Temporary failure in name resolution"
		}
		return nil, netip.AddrPort{}, fmt.Errorf("ssh: Could not resolve hostname %s: %s", s.hostName, text)
	}
	ctx := context.Context(c.Context())
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	var last error
	for _, a := range addrs {
		if s.family == "4" && !a.Is4() || s.family == "6" && a.Is4() {
			continue
		}
		to := netip.AddrPortFrom(a, uint16(s.port))
		if s.verbose {
			c.Errorf("debug1: Connecting to %s [%s] port %d.\n", s.hostName, a, s.port)
		}
		conn, err := c.Dial(ctx, "tcp", to.String())
		if err == nil {
			return conn, to, nil
		}
		last = err
		if s.verbose {
			c.Errorf("debug1: connect to address %s port %d: %s\n", a, s.port, libc.Strerror(err))
		}
	}
	if last == nil {
		return nil, netip.AddrPort{}, fmt.Errorf("ssh: Could not resolve hostname %s: Address family for hostname not supported", s.hostName)
	}
	return nil, netip.AddrPort{}, fmt.Errorf("ssh: connect to host %s port %d: %s", s.hostName, s.port, libc.Strerror(last))
}

// open asks the server for something. The error is what ssh prints.
func (l *link) open(q request) error {
	if err := l.sendJSON(msgOpen, q); err != nil {
		return l.lost(err)
	}
	l.SetReadDeadline(time.Now().Add(loginGrace))
	defer l.SetReadDeadline(time.Time{})
	kind, body, err := l.receive()
	switch {
	case err != nil:
		return l.lost(err)
	case kind == msgRefused:
		return fmt.Errorf("%s@%s: %s", q.User, l.host, body)
	case kind != msgOpened:
		return fmt.Errorf("Protocol error: unexpected message %q", kind)
	}
	return nil
}

// lost is what ssh says when a connection breaks.
func (l *link) lost(err error) error {
	if errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("Read from remote host %s: Connection reset by peer", l.host)
	}
	return fmt.Errorf("Connection to %s closed by remote host.", l.host)
}

// environment is what a client sends of its own: what Ubuntu's ssh_config lists as SendEnv.
func environment(p *kernel.Process) []string {
	var env []string
	for _, kv := range p.Environ() {
		if ok, _ := path.Match("LC_*=*", kv); ok || len(kv) > 5 && kv[:5] == "LANG=" {
			env = append(env, kv)
		}
	}
	return env
}

// userName is the name of the user that a process runs as.
func userName(p *kernel.Process) string {
	if m := machine.Of(p.Host()); m != nil {
		if u, ok := m.LookupUID(p.Cred.UID); ok {
			return u.Name
		}
	}
	return strconv.Itoa(p.Cred.UID)
}
