package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"ckadrill/sim/runtime/registry"
)

// reachRegistry finds out whether the machine can speak to a registry. The internet is not simulated: a registry that exists
// answers when the machine has a name server that answers and a route that leads out. Errors are those of Go's HTTP client
// in containerd's docker resolver.
func (s *service) reachRegistry(ctx context.Context, ref registry.Reference) error {
	host := registry.Host(ref.Repository)
	name := host
	if host == "docker.io" {
		name = "registry-1.docker.io"
	}
	what := ref.Tag
	if ref.Digest != "" {
		what = ref.Digest
	}
	fail := func(err error) error {
		return fmt.Errorf("failed to do request: Head \"https://%s/v2/%s/manifests/%s\": %w", name, strings.TrimPrefix(ref.Repository, host+"/"), what, err)
	}
	bare, port := name, "443"
	if h, p, err := net.SplitHostPort(name); err == nil {
		bare, port = h, p
	}
	if a, ok := s.hostsFile(bare); ok {
		return fail(s.dialRegistry(ctx, netip.AddrPortFrom(a, portNumber(port))))
	}
	if err := s.lookupRegistry(ctx, bare, s.options.Registries.HasHost(host)); err != nil {
		return fail(fmt.Errorf("dial tcp: %w", err))
	}
	if _, _, err := s.network().Route(netip.AddrFrom4([4]byte{1, 1, 1, 1})); err != nil {
		return fail(fmt.Errorf("dial tcp: connect: %w", err))
	}
	return nil
}

// hostsFile looks a name up as the resolver does before it asks the DNS.
func (s *service) hostsFile(name string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(name); err == nil {
		return a, true
	}
	b, err := s.files().ReadFile("/etc/hosts")
	if err != nil {
		return netip.Addr{}, false
	}
	for _, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		for i := 1; i < len(f); i++ {
			if f[i] == name {
				a, err := netip.ParseAddr(f[0])
				return a, err == nil
			}
		}
	}
	return netip.Addr{}, false
}

// dialRegistry connects to a registry inside the simulated network, of which there is none.
func (s *service) dialRegistry(ctx context.Context, a netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := s.d.p.Dial(ctx, "tcp", a.String())
	if err != nil {
		return err
	}
	conn.Close()
	return errors.New("http: server gave HTTP response to HTTPS client")
}

func portNumber(s string) (n uint16) {
	fmt.Sscan(s, &n)
	return n
}

// lookupRegistry asks the machine's first name server, and gives up as Go's resolver does. Whether the name exists is known:
// what matters is whether anybody answers.
func (s *service) lookupRegistry(ctx context.Context, name string, exists bool) error {
	server := netip.MustParseAddr("127.0.0.1")
	b, _ := s.files().ReadFile("/etc/resolv.conf")
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			if a, err := netip.ParseAddr(f[1]); err == nil {
				server = a
				break
			}
		}
	}
	at := netip.AddrPortFrom(server, 53).String()
	// The stub of systemd-resolved is no process of the simulation.
	if server != netip.MustParseAddr("127.0.0.53") {
		if err := s.askNameServer(ctx, at, name); err != nil {
			return fmt.Errorf("lookup %s on %s: %w", name, at, err)
		}
	}
	if !exists {
		return fmt.Errorf("lookup %s on %s: no such host", name, at)
	}
	return nil
}

func (s *service) askNameServer(ctx context.Context, at, name string) error {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), dns.TypeA)
	q.Id = uint16(s.w.Random(s.ids + "/dns").Uint64())
	packed, err := q.Pack()
	if err != nil {
		return err
	}
	for range 2 {
		var conn net.Conn
		if conn, err = s.d.p.Dial(ctx, "udp", at); err != nil {
			return err
		}
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Write(packed)
		if err == nil {
			_, err = conn.Read(make([]byte, 1500))
		}
		conn.Close()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}
