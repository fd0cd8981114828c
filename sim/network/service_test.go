package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckadrill/sim/kernel"

	"github.com/miekg/dns"
)

var podCIDR = netip.MustParsePrefix("10.244.0.0/16")

func addrPorts(s ...string) []netip.AddrPort {
	var l []netip.AddrPort
	for _, a := range s {
		l = append(l, netip.MustParseAddrPort(a))
	}
	return l
}

func (l *lab) services(machine string, ports ...ServicePort) {
	l.f.Machine(machine).SetServices(&Services{ClusterCIDR: podCIDR, Ports: ports})
}

func TestPodsAndServices(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b, c := l.pod("cka-w1", "10.244.1.5/24"), l.pod("cka-w1", "10.244.1.6/24"), l.pod("cka-w2", "10.244.2.7/24")
		pa, pb, pc := l.process(a), l.process(b), l.process(c)
		w1 := l.on("cka-w1")
		go greet(l.listen(pb, "tcp", ":80"))
		go greet(l.listen(pc, "tcp", ":80"))
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		expect(dial(pa, 0, "10.244.1.6:80"), "hello 10.244.1.5")
		expect(dial(w1, 0, "10.244.1.6:80"), "hello 10.244.1.1")
		expect(dial(pa, 0, "10.244.1.99:80"), "dial tcp 10.244.1.99:80: connect: no route to host")
		// Without a CNI's routes Pods of other nodes are unreachable; the router does not know them.
		expect(dial(pa, 5*time.Second, "10.244.2.7:80"), "dial tcp 10.244.2.7:80: i/o timeout")
		l.podRoutes()
		expect(dial(pa, 0, "10.244.2.7:80"), "hello 10.244.1.5")
		expect(dial(w1, 0, "10.244.2.7:80"), "hello 192.168.122.12")
		// No kube-proxy, no Service.
		expect(dial(pa, 5*time.Second, "10.96.7.7:8080"), "dial tcp 10.96.7.7:8080: i/o timeout")
		svc := ServicePort{Name: "default/web:", Proto: "tcp", ClusterIP: netip.MustParseAddr("10.96.7.7"), Port: 8080, NodePort: 30080, Endpoints: addrPorts("10.244.2.7:80")}
		empty := ServicePort{Name: "default/empty:", Proto: "tcp", ClusterIP: netip.MustParseAddr("10.96.7.8"), Port: 8080}
		for _, m := range l.f.Machines() {
			l.services(m.Name(), svc, empty)
		}
		expect(dial(pa, 0, "10.96.7.7:8080"), "hello 10.244.1.5")
		expect(dial(w1, 0, "10.96.7.7:8080"), "hello 192.168.122.12")
		expect(dial(pa, 0, "10.96.7.8:8080"), "dial tcp 10.96.7.8:8080: connect: connection refused")
		expect(dial(pc, 0, "10.96.7.7:8080"), "hello 10.244.2.1") // a Pod that reaches itself is masqueraded
		cp := l.on("cka-cp1")
		expect(dial(cp, 0, "192.168.122.12:30080"), "hello 192.168.122.12")
		expect(dial(w1, 0, "127.0.0.1:30080"), "hello 192.168.122.12")
		expect(dial(cp, 0, "192.168.122.12:30081"), "dial tcp 192.168.122.12:30081: connect: connection refused")
		local := svc
		local.ExternalLocal, local.Local = true, nil
		l.services("cka-w1", local)
		expect(dial(cp, 5*time.Second, "192.168.122.12:30080"), "dial tcp 192.168.122.12:30080: i/o timeout")
		local.Local = local.Endpoints
		l.services("cka-w2", local)
		expect(dial(cp, 0, "192.168.122.13:30080"), "hello 192.168.122.11") // the client's address is kept
		// hostPort, as the plugin portmap programs it.
		l.f.Machine("cka-w1").SetHostPorts("ctr", []HostPort{{Proto: "tcp", Port: 8088, To: netip.MustParseAddrPort("10.244.1.6:80")}})
		expect(dial(cp, 0, "192.168.122.12:8088"), "hello 192.168.122.11")
		// Services outlive connections' rules: an established connection stays when its endpoint leaves the Service.
		b.Remove()
		expect(dial(pa, 0, "10.244.1.6:80"), "dial tcp 10.244.1.6:80: connect: no route to host")
		l.f.Machine("cka-w1").SetForwarding(false)
		expect(dial(pa, 5*time.Second, "10.244.2.7:80"), "dial tcp 10.244.2.7:80: i/o timeout")
	})
}

func TestEndpointChoice(t *testing.T) {
	inLab(t, func(l *lab) {
		pods := []*Namespace{l.pod("cka-w1", "10.244.1.5/24"), l.pod("cka-w1", "10.244.1.6/24"), l.pod("cka-w1", "10.244.1.7/24")}
		for _, n := range pods[1:] {
			p := l.process(n)
			k := l.listen(p, "tcp", ":80")
			go func() {
				for {
					c, err := k.Accept()
					if err != nil {
						return
					}
					fmt.Fprint(c, n.Path())
					c.Close()
				}
			}()
		}
		p := l.process(pods[0])
		svc := ServicePort{Name: "default/web:", Proto: "tcp", ClusterIP: netip.MustParseAddr("10.96.7.7"), Port: 80, Endpoints: addrPorts("10.244.1.6:80", "10.244.1.7:80")}
		count := func() int {
			l.services("cka-w1", svc)
			seen := map[string]int{}
			for range 20 {
				seen[dial(p, 0, "10.96.7.7:80")]++
			}
			return len(seen)
		}
		if n := count(); n != 2 {
			t.Errorf("20 connections found %d of 2 endpoints", n)
		}
		svc.Affinity = 3 * time.Hour
		if n := count(); n != 1 {
			t.Errorf("with session affinity 20 connections found %d endpoints", n)
		}
	})
}

func TestVXLAN(t *testing.T) {
	inLab(t, func(l *lab) {
		a, c := l.pod("cka-w1", "10.244.1.5/24"), l.pod("cka-w2", "10.244.2.7/24")
		pa, pc := l.process(a), l.process(c)
		go greet(l.listen(pc, "tcp", ":80"))
		for i, name := range []string{"cka-w1", "cka-w2"} {
			own, other := byte(i+1), byte(2-i)
			m := l.f.Machine(name)
			vtep := netip.AddrFrom4([4]byte{10, 244, other, 0})
			m.AddLink(Link{Name: "flannel.1", Kind: VXLAN, VNI: 1, MTU: 1450, Up: true, Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, own, 0}), 32)},
				Forward: map[netip.Addr]netip.Addr{vtep: netip.AddrFrom4([4]byte{192, 168, 122, 11 + other})}})
			if err := m.AddRoute(Route{Dst: netip.PrefixFrom(vtep, 24), Via: vtep, Dev: "flannel.1", OnLink: true}, false); err != nil {
				t.Fatal(err)
			}
		}
		if got := dial(pa, 0, "10.244.2.7:80"); got != "hello 10.244.1.5" {
			t.Error(got)
		}
		l.f.Machine("cka-w2").SetRules("iptables", []Rule{{Chain: "INPUT", Proto: "udp", Ports: []PortRange{{vxlanPort, vxlanPort}}, Verdict: Drop}})
		if got := dial(pa, 5*time.Second, "10.244.2.7:80"); got != "dial tcp 10.244.2.7:80: i/o timeout" {
			t.Error(got)
		}
	})
}

// serveDNS answers A queries for the given names, and NXDOMAIN for others.
func serveDNS(p *kernel.Process, names map[string]string) error {
	k, err := p.ListenPacket("udp", ":53")
	if err != nil {
		return err
	}
	p.Go(func() {
		s := &dns.Server{PacketConn: k, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			m := new(dns.Msg).SetReply(q)
			a, ok := names[q.Question[0].Name]
			if !ok {
				m.Rcode = dns.RcodeNameError
			} else if q.Question[0].Qtype == dns.TypeA {
				rr, _ := dns.NewRR(q.Question[0].Name + " 30 IN A " + a)
				m.Answer = append(m.Answer, rr)
			}
			w.WriteMsg(m)
		})}
		s.ActivateAndServe()
	})
	return nil
}

func TestDatagramsAndNames(t *testing.T) {
	inLab(t, func(l *lab) {
		server, v := l.process(l.pod("cka-w2", "10.244.2.7/24")), l.files()
		root := v.Files(kernel.Root)
		n := l.pod("cka-w1", "10.244.1.5/24")
		p := l.processIn(n, v, kernel.Root)
		l.podRoutes()
		if err := serveDNS(server, map[string]string{"web.default.svc.cluster.local.": "10.96.7.7"}); err != nil {
			t.Fatal(err)
		}
		l.services("cka-w1", ServicePort{Name: "kube-system/kube-dns:dns", Proto: "udp", ClusterIP: netip.MustParseAddr("10.96.0.10"), Port: 53, Endpoints: addrPorts("10.244.2.7:53")})
		root.WriteFile("/etc/hosts", []byte("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n10.0.0.9 db # a comment\n"), 0o644)
		root.WriteFile("/etc/resolv.conf", []byte("search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"), 0o644)
		look := func(name string) string {
			a, err := Resolve(context.Background(), p, name)
			if err != nil {
				s := err.Error()
				if i := strings.Index(s, "read udp 10.244.1.5:"); i >= 0 {
					s = s[:i] + "read udp" + s[strings.Index(s, "->"):]
				}
				return s
			}
			return fmt.Sprint(a)
		}
		for name, want := range map[string]string{
			"web":                            "[10.96.7.7]",
			"web.default":                    "[10.96.7.7]",
			"nosuch":                         "lookup nosuch on 10.96.0.10:53: no such host",
			"db":                             "[10.0.0.9]",
			"localhost":                      "[127.0.0.1 ::1]", // the Pod's lo has no ::1
			"192.168.1.1":                    "[192.168.1.1]",
			"web.default.svc.cluster.local.": "[10.96.7.7]",
		} {
			if got := look(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := dial(p, time.Second, "nosuch:80"); got != "dial tcp: lookup nosuch on 10.96.0.10:53: no such host" {
			t.Error(got)
		}
		// Nobody listens: ICMP tells a connected socket. Nobody answers: a time-out.
		root.WriteFile("/etc/resolv.conf", []byte("nameserver 192.168.122.12\n"), 0o644)
		if got := look("web"); got != "lookup web on 192.168.122.12:53: read udp->192.168.122.12:53: read: connection refused" {
			t.Error(got)
		}
		l.services("cka-w1")
		root.WriteFile("/etc/resolv.conf", []byte("nameserver 10.96.0.10\n"), 0o644)
		start := time.Now()
		if got := look("web"); got != "lookup web on 10.96.0.10:53: read udp->10.96.0.10:53: i/o timeout" || time.Since(start) != 10*time.Second {
			t.Error(got, time.Since(start))
		}
		// The router's DNS knows no name.
		w1 := l.processIn(l.f.Machine("cka-w1"), v, kernel.Root)
		root.WriteFile("/etc/resolv.conf", []byte("nameserver 192.168.122.1\n"), 0o644)
		if _, err := Resolve(context.Background(), w1, "registry.k8s.io"); fmt.Sprint(err) != "lookup registry.k8s.io on 192.168.122.1:53: no such host" {
			t.Error(err)
		}
		k, err := w1.ListenPacket("udp", "127.0.0.1:53")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w1.ListenPacket("udp", ":53"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
		k.SetReadDeadline(time.Now().Add(time.Second))
		var ne net.Error
		if _, _, err := k.ReadFrom(nil); !errors.As(err, &ne) || !ne.Timeout() || err.Error() != "read udp 127.0.0.1:53: i/o timeout" {
			t.Error(err)
		}
	})
}

func TestThawKeepsAddressesRoutesAndRules(t *testing.T) {
	inLab(t, func(l *lab) {
		l.pod("cka-w1", "10.244.1.5/24")
		l.podRoutes()
		svc := ServicePort{Name: "default/web:", Proto: "tcp", ClusterIP: netip.MustParseAddr("10.96.7.7"), Port: 80, Endpoints: addrPorts("10.244.1.5:80")}
		l.services("cka-w1", svc)
		l.f.Machine("cka-w1").SetRules("iptables", []Rule{{Chain: "INPUT", Proto: "tcp", Ports: []PortRange{{22, 22}}, Verdict: Drop}})
		l.f.Machine("cka-w2").PowerOff()
		r := kernel.NewRecorder(nil)
		parts := kernel.Parts{}
		l.w.Freeze(r).Apply(parts)
		for name := range l.w.Freeze(r).Changed {
			if strings.HasPrefix(name, "network/") {
				t.Errorf("a second freeze reports a change of %s", name)
			}
		}
		w := kernel.NewWorld(1)
		f := NewFabric(w)
		f.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
		before := f.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))
		if err := w.Thaw(parts); err != nil {
			t.Fatal(err)
		}
		old := l.f
		if f.Machine("cka-w1") != before || f.Machine("cka-w2").Up() {
			t.Error("machines were not taken over")
		}
		l.f = f
		for _, n := range []*Namespace{f.Machine("cka-w1"), f.Machine("cka-w1").Namespace("/var/run/netns/cni-10.244.1.5")} {
			o := old.spaces[n.Name()]
			if fmt.Sprint(n.Links()) != fmt.Sprint(o.Links()) || fmt.Sprint(n.Routes()) != fmt.Sprint(o.Routes()) || fmt.Sprint(n.Rules("iptables")) != fmt.Sprint(o.Rules("iptables")) || fmt.Sprint(n.Services()) != fmt.Sprint(o.Services()) {
				t.Errorf("%s:\n%v\n%v\nwas\n%v\n%v", n.Name(), n.Links(), n.Routes(), o.Links(), o.Routes())
			}
		}
		n := f.Machine("cka-w1").Namespace("/var/run/netns/cni-10.244.1.5")
		go greet(l.listen(l.process(n), "tcp", ":80"))
		if got := dial(l.on("cka-w1"), time.Second, "10.96.7.7:80"); got != "hello 10.244.1.1" {
			t.Error(got)
		}
	})
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("search a b\nnameserver 10.96.0.10\noptions ndots:5 timeout:1 attempts:9\n")
	f.Fuzz(func(t *testing.T, s string) {
		c := ParseResolvConf(s)
		if c.Ndots < 0 || c.Ndots > maxNdots || c.Attempts < 1 || c.Attempts > 5 || c.Timeout <= 0 || len(c.Servers) > maxServers {
			t.Errorf("%+v", c)
		}
		for _, n := range c.Names("web") {
			if n[len(n)-1] != '.' {
				t.Errorf("%q", n)
			}
		}
	})
}
