package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
)

// lab is a world of three machines on a LAN with a router, and processes to use them.
type lab struct {
	*testing.T
	w     *kernel.World
	f     *Fabric
	hosts map[string]*kernel.Host
	procs []*kernel.Process
}

func inLab(t *testing.T, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		l := &lab{T: t, w: w, f: NewFabric(w), hosts: map[string]*kernel.Host{}}
		l.f.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
		for i, name := range []string{"cka-cp1", "cka-w1", "cka-w2"} {
			n := l.f.AddMachine(name, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 122, byte(11 + i)}), 24))
			l.hosts[name] = w.NewHost(name)
			n.Attach(l.hosts[name])
		}
		defer func() {
			for _, p := range l.procs {
				p.Signal(kernel.SIGKILL)
				p.Wait()
			}
			synctest.Wait()
		}()
		f(l)
	})
}

// process starts an idle process in a namespace, whose seams the test uses.
func (l *lab) process(n *Namespace) *kernel.Process {
	p := l.hosts[n.MachineName()].Processes.Start(kernel.Spec{Argv: []string{"/usr/bin/test"}, Net: n, NamespacePID: 0},
		func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
	l.procs = append(l.procs, p)
	return p
}

func (l *lab) on(machine string) *kernel.Process { return l.process(l.f.Machine(machine)) }

// pod makes a Pod's namespace as the plugins bridge and host-local do.
func (l *lab) pod(machine, addr string) *Namespace {
	l.Helper()
	m := l.f.Machine(machine)
	a := netip.MustParsePrefix(addr)
	gw := a.Masked().Addr().Next()
	m.AddLink(Link{Name: "cni0", Kind: Bridge, Up: true, Addresses: []netip.Prefix{netip.PrefixFrom(gw, a.Bits())}})
	n, err := m.AddNamespace("/var/run/netns/cni-" + a.Addr().String())
	if err != nil {
		l.Fatal(err)
	}
	if err := m.AddVeth("veth"+a.Addr().String(), "cni0", 1500, n, "eth0"); err != nil {
		l.Fatal(err)
	}
	n.ChangeLink("lo", func(k *Link) { k.Up = true; k.Addresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")} })
	n.ChangeLink("eth0", func(k *Link) { k.Addresses = []netip.Prefix{a} })
	if err := n.AddRoute(Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: gw, Dev: "eth0"}, false); err != nil {
		l.Fatal(err)
	}
	return n
}

// podRoutes lets machines reach each other's Pods, as a CNI's host-gw mode does.
func (l *lab) podRoutes() {
	for _, m := range l.f.Machines() {
		for i := range 3 {
			dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24)
			via := netip.AddrFrom4([4]byte{192, 168, 122, byte(11 + i)})
			if !m.isLocal(via) {
				if err := m.AddRoute(Route{Dst: dst, Via: via, Dev: MachineLink}, true); err != nil {
					l.Fatal(err)
				}
			}
		}
	}
}

func (l *lab) listen(p *kernel.Process, network, address string) net.Listener {
	l.Helper()
	k, err := p.Listen(network, address)
	if err != nil {
		l.Fatal(err)
	}
	return k
}

// greet answers each connection with the remote address that it sees.
func greet(k net.Listener) {
	for {
		c, err := k.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(c, "%s", c.RemoteAddr().(*net.TCPAddr).IP)
		c.Close()
	}
}

// dial returns the text of the error, or what the other end greets with.
func dial(p *kernel.Process, timeout time.Duration, address string) string {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	c, err := p.Dial(ctx, "tcp", address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return "hello " + string(b)
}

func TestDialOutcomes(t *testing.T) {
	inLab(t, func(l *lab) {
		cp, w1 := l.on("cka-cp1"), l.on("cka-w1")
		go greet(l.listen(cp, "tcp", ":6443"))
		go greet(l.listen(cp, "tcp", "127.0.0.1:2381"))
		l.f.Machine("cka-w2").PowerOff()
		for _, c := range []struct {
			from    *kernel.Process
			address string
			timeout time.Duration
			want    string
			took    time.Duration
		}{
			{w1, "192.168.122.11:6443", 0, "hello 192.168.122.12", 0},
			{cp, "127.0.0.1:6443", 0, "hello 127.0.0.1", 0},
			{cp, "[::1]:6443", 0, "hello ::1", 0},
			{cp, "192.168.122.11:6443", 0, "hello 192.168.122.11", 0},
			{cp, "127.0.0.1:2381", 0, "hello 127.0.0.1", 0},
			{cp, "192.168.122.11:2381", 0, "dial tcp 192.168.122.11:2381: connect: connection refused", 0},
			{w1, "192.168.122.11:2381", 0, "dial tcp 192.168.122.11:2381: connect: connection refused", 0},
			{w1, "192.168.122.13:22", 0, "dial tcp 192.168.122.13:22: connect: no route to host", 3 * time.Second},
			{w1, "192.168.122.13:22", time.Second, "dial tcp 192.168.122.13:22: i/o timeout", time.Second},
			{w1, "10.96.0.1:443", 0, "dial tcp 10.96.0.1:443: connect: connection timed out", 127 * time.Second},
			{w1, "10.96.0.1:443", 30 * time.Second, "dial tcp 10.96.0.1:443: i/o timeout", 30 * time.Second},
			{w1, "192.168.122.11:70000", 0, "dial tcp: address 70000: invalid port", 0},
		} {
			start := time.Now()
			if got := dial(c.from, c.timeout, c.address); got != c.want {
				t.Errorf("%s from %s: %q, want %q", c.address, c.from.HostName(), got, c.want)
			}
			if d := time.Since(start); d != c.took {
				t.Errorf("%s took %v, want %v", c.address, d, c.took)
			}
		}
		l.f.Machine("cka-w1").DeleteRoute(netip.MustParsePrefix("0.0.0.0/0"), "")
		if got := dial(w1, 0, "10.96.0.1:443"); got != "dial tcp 10.96.0.1:443: connect: network is unreachable" {
			t.Error(got)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		if _, err := w1.Dial(ctx, "tcp", "192.168.122.13:22"); err == nil || err.Error() != "dial tcp 192.168.122.13:22: operation was canceled" || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestListenErrors(t *testing.T) {
	inLab(t, func(l *lab) {
		p, q := l.on("cka-cp1"), l.on("cka-cp1")
		k := l.listen(p, "tcp", ":8080")
		if s := k.Addr().String(); s != "[::]:8080" {
			t.Error(s)
		}
		for address, want := range map[string]string{
			":8080":           "listen tcp :8080: bind: address already in use",
			"0.0.0.0:8080":    "listen tcp 0.0.0.0:8080: bind: address already in use",
			"127.0.0.1:8080":  "listen tcp 127.0.0.1:8080: bind: address already in use",
			"10.9.9.9:80":     "listen tcp 10.9.9.9:80: bind: cannot assign requested address",
			"192.168.122.12:": "listen tcp 192.168.122.12:0: bind: cannot assign requested address",
		} {
			if _, err := q.Listen("tcp", address); err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", address, err, want)
			}
		}
		l.listen(q, "tcp", "127.0.0.1:2379")
		l.listen(q, "tcp", "192.168.122.11:2379")
		if s := l.f.Machine("cka-cp1").Listeners(); len(s) != 3 || s[0].Process != q || s[2].Process != p || !s[2].Dual {
			t.Errorf("%+v", s)
		}
		p.Signal(kernel.SIGKILL)
		p.Wait()
		synctest.Wait()
		l.listen(q, "tcp", ":8080")
	})
}

func connection(l *lab) (a, b *Conn) {
	p, q := l.on("cka-cp1"), l.on("cka-w1")
	k := l.listen(p, "tcp", ":80")
	c, err := q.Dial(context.Background(), "tcp", "192.168.122.11:80")
	if err != nil {
		l.Fatal(err)
	}
	s, err := k.Accept()
	if err != nil {
		l.Fatal(err)
	}
	return c.(*Conn), s.(*Conn)
}

func TestStreamEnds(t *testing.T) {
	read := func(c net.Conn) string {
		b := make([]byte, 100)
		n, err := c.Read(b)
		return fmt.Sprintf("%s %v", b[:n], err)
	}
	write := func(c net.Conn) string { _, err := c.Write([]byte("x")); return fmt.Sprint(err) }
	inLab(t, func(l *lab) {
		c, s := connection(l)
		at := func(op string) string {
			return fmt.Sprintf("%s tcp 192.168.122.12:%d->192.168.122.11:80: ", op, c.local.Port())
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		write(s)
		s.Close()
		expect(read(c), "x <nil>")
		expect(read(c), " EOF")
		expect(write(c), "<nil>") // answered by a reset
		expect(write(c), at("write")+"write: broken pipe")
		c.Close()
		expect(read(c), " "+at("read")+"use of closed network connection")

		c, s = connection2(l, c, s)
		write(c)
		s.Close() // with unread data
		expect(read(c), " "+at("read")+"read: connection reset by peer")
		expect(write(c), at("write")+"write: broken pipe")

		c, s = connection2(l, c, s)
		c.CloseWrite()
		expect(read(s), " EOF")
		expect(write(s), "<nil>")
		expect(read(c), "x <nil>")
		expect(write(c), at("write")+"write: broken pipe")

		c, s = connection2(l, c, s)
		c.SetReadDeadline(time.Now().Add(time.Second))
		start := time.Now()
		_, err := c.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Error(err, time.Since(start))
		}
		expect(err.Error(), at("read")+"i/o timeout")
		c.SetReadDeadline(time.Time{})
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := c.Write(make([]byte, 2*window)); n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(n, err)
		}
		s.owner.Signal(kernel.SIGKILL) // with unread data
		s.owner.Wait()
		synctest.Wait()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

func connection2(l *lab, c, s *Conn) (*Conn, *Conn) {
	c.Close()
	s.Close()
	for _, p := range []*kernel.Process{c.owner, s.owner} {
		p.Signal(kernel.SIGKILL)
		p.Wait()
	}
	synctest.Wait()
	return connection(l)
}

func TestPowerCutIsSilent(t *testing.T) {
	inLab(t, func(l *lab) {
		c, s := connection(l)
		l.f.Machine("cka-cp1").PowerOff()
		s.owner.Signal(kernel.SIGKILL)
		start := time.Now()
		_, err := c.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ETIMEDOUT) || time.Since(start) != keepAliveTimeout {
			t.Error(err, time.Since(start))
		}
		l.f.Machine("cka-cp1").PowerOn()
		if got := dial(l.on("cka-w1"), 0, "192.168.122.11:80"); got != "dial tcp 192.168.122.11:80: connect: connection refused" {
			t.Error(got)
		}
	})
}

func TestFilterCutsAndMends(t *testing.T) {
	inLab(t, func(l *lab) {
		c, s := connection(l)
		cp := l.f.Machine("cka-cp1")
		cp.SetRules("iptables", []Rule{{Chain: "INPUT", Proto: "tcp", Ports: []PortRange{{80, 80}}, Verdict: Drop}})
		c.Write([]byte("late"))
		s.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := s.Read(make([]byte, 9)); err == nil {
			t.Errorf("read %d bytes over a cut connection", n)
		}
		s.SetReadDeadline(time.Time{})
		if got := dial(c.owner, 5*time.Second, "192.168.122.11:80"); got != "dial tcp 192.168.122.11:80: i/o timeout" {
			t.Error(got)
		}
		cp.SetRules("iptables", []Rule{{Chain: "INPUT", Proto: "tcp", New: true, Ports: []PortRange{{80, 80}}, Verdict: Reject}})
		b := make([]byte, 9)
		if n, err := s.Read(b); string(b[:n]) != "late" {
			t.Error(n, err)
		}
		if got := dial(c.owner, 5*time.Second, "192.168.122.11:80"); got != "dial tcp 192.168.122.11:80: connect: connection refused" {
			t.Error(got)
		}
	})
}
