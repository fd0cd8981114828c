package nettools

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"

	"github.com/miekg/dns"
)

// lab is two machines: cka-cp1, which serves, and cka-w1, on which commands are run.
type lab struct {
	*testing.T
	w      *kernel.World
	f      *network.Fabric
	hosts  map[string]*kernel.Host
	files  kernel.Files
	server *kernel.Process
}

func inLab(t *testing.T, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		Register(w.Programs)
		l := &lab{T: t, w: w, f: network.NewFabric(w), hosts: map[string]*kernel.Host{}}
		l.f.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
		for name, a := range map[string]string{"cka-cp1": "192.168.122.11/24", "cka-w1": "192.168.122.12/24"} {
			l.hosts[name] = w.NewHost(name)
			l.f.AddMachine(name, netip.MustParsePrefix(a)).Attach(l.hosts[name])
		}
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		l.files = v.Files(kernel.Root)
		l.files.MkdirAll("/etc", 0o755)
		l.files.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n192.168.122.11 cka-cp1\n"), 0o644)
		l.files.WriteFile("/etc/resolv.conf", []byte("search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 192.168.122.11\noptions ndots:5\n"), 0o644)
		l.server = l.hosts["cka-cp1"].Processes.Start(kernel.Spec{Argv: []string{"server"}, Net: l.f.Machine("cka-cp1"), Files: l.files},
			func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		defer func() {
			l.server.Signal(kernel.SIGKILL)
			l.server.Wait()
			synctest.Wait()
		}()
		f(l)
	})
}

// serve serves HTTP on a port of cka-cp1.
func (l *lab) serve(address string, h http.HandlerFunc) {
	k, err := l.server.Listen("tcp", address)
	if err != nil {
		l.Fatal(err)
	}
	l.server.Go(func() { network.Serve(k, nil, h) })
}

// run runs a command on cka-w1 and returns what it printed, standard error last, and its exit status.
func (l *lab) run(program string, args ...string) (string, int) {
	main, _ := l.w.Programs.Find(program)
	var out, errs bytes.Buffer
	p := l.hosts["cka-w1"].Processes.Start(kernel.Spec{Argv: append([]string{strings.TrimPrefix(program, "busybox-")}, args...), Net: l.f.Machine("cka-w1"), Files: l.files, Stdout: &out, Stderr: &errs}, main)
	code := p.Wait().ExitCode()
	synctest.Wait()
	return out.String() + errs.String(), code
}

func (l *lab) expect(code int, want string, program string, args ...string) {
	l.Helper()
	got, c := l.run(program, args...)
	if c != code || got != want {
		l.Errorf("%s %q: exit %d, want %d\n got %q\nwant %q", program, args, c, code, got, want)
	}
}

func TestCurl(t *testing.T) {
	inLab(t, func(l *lab) {
		l.serve(":80", func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				io.WriteString(w, "hello "+r.Host+"\n")
			case "/post":
				b, _ := io.ReadAll(r.Body)
				io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+string(b))
			case "/moved":
				http.Redirect(w, r, "/", http.StatusFound)
			case "/slow":
				<-r.Context().Done()
			default:
				http.NotFound(w, r)
			}
		})
		l.f.Machine("cka-w1").SetRules("iptables", []network.Rule{{Chain: "OUTPUT", Proto: "tcp", Ports: []network.PortRange{{First: 81, Last: 81}}, Verdict: network.Drop}})
		l.expect(0, "hello cka-cp1\n", "curl", "-s", "http://cka-cp1")
		l.expect(0, "hello web.example.com\n", "curl", "-sH", "Host: web.example.com", "192.168.122.11")
		l.expect(0, "hello web:80\n", "curl", "-s", "--resolve", "web:80:192.168.122.11", "http://web:80/")
		l.expect(0, "POST application/x-www-form-urlencoded a=1&b=2", "curl", "-s", "-d", "a=1", "-d", "b=2", "cka-cp1/post")
		l.expect(0, "404", "curl", "-s", "-o", "/dev.null", "-w", "%{http_code}", "cka-cp1/nosuch")
		l.expect(0, "hello cka-cp1\n200 1\n", "curl", "-sL", "-w", `%{http_code} %{num_redirects}\n`, "cka-cp1/moved")
		l.expect(22, "curl: (22) The requested URL returned error: 404\n", "curl", "-sSf", "cka-cp1/nosuch")
		l.expect(6, "curl: (6) Could not resolve host: nosuch\n", "curl", "-sS", "http://nosuch")
		l.expect(7, "curl: (7) Failed to connect to cka-cp1 port 8080 after 0 ms: Couldn't connect to server\n", "curl", "-sS", "cka-cp1:8080")
		l.expect(7, "", "curl", "-s", "cka-cp1:8080")
		l.expect(28, "curl: (28) Failed to connect to cka-cp1 port 81 after 2000 ms: Timeout was reached\n", "curl", "-sS", "--connect-timeout", "2", "cka-cp1:81")
		l.expect(28, "curl: (28) Operation timed out after 3000 milliseconds with 0 bytes received\n", "curl", "-sS", "-m", "3", "cka-cp1/slow")
		l.expect(35, "curl: (35) OpenSSL/3.0.13: error:0A00010B:SSL routines::wrong version number\n", "curl", "-sSk", "https://cka-cp1:80")
		l.expect(2, "curl: option --nosuch: is unknown\ncurl: try 'curl --help' or 'curl --manual' for more information\n", "curl", "--nosuch")
		got, _ := l.run("curl", "-sI", "cka-cp1")
		if !regexp.MustCompile(`^HTTP/1.1 200 OK\r\n(.*\r\n)+\r\n$`).MatchString(got) {
			t.Errorf("%q", got)
		}
		got, _ = l.run("curl", "-v", "-s", "cka-cp1")
		for _, want := range []string{"*   Trying 192.168.122.11:80...\n* Connected to cka-cp1 (192.168.122.11) port 80\n> GET / HTTP/1.1\r\n> Host: cka-cp1\r\n> User-Agent: curl/8.5.0\r\n> Accept: */*\r\n> \r\n< HTTP/1.1 200 OK\r\n",
			"* Connection #0 to host cka-cp1 left intact\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
	})
}

func TestWget(t *testing.T) {
	inLab(t, func(l *lab) {
		l.serve(":80", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.Error(w, "no", http.StatusServiceUnavailable)
				return
			}
			io.WriteString(w, "hello\n")
		})
		l.f.Machine("cka-w1").SetRules("iptables", []network.Rule{{Chain: "OUTPUT", Proto: "tcp", Ports: []network.PortRange{{First: 81, Last: 81}}, Verdict: network.Drop}})
		l.expect(0, "hello\n", "busybox-wget", "-qO-", "http://cka-cp1")
		l.expect(1, "wget: can't connect to remote host (192.168.122.11): Connection refused\n", "busybox-wget", "-qO-", "http://cka-cp1:8080")
		l.expect(1, "wget: bad address 'nosuch:8080'\n", "busybox-wget", "-qO-", "http://nosuch:8080")
		l.expect(1, "wget: download timed out\n", "busybox-wget", "-qO-", "-T", "2", "http://cka-cp1:81")
		l.expect(1, "wget: server returned error: HTTP/1.1 503 Service Unavailable\n", "busybox-wget", "-qO-", "cka-cp1/x")
		l.expect(0, "Connecting to cka-cp1 (192.168.122.11:80)\nremote file exists\n", "busybox-wget", "--spider", "http://cka-cp1")
		l.expect(0, "hello\n", "wget", "-qO-", "http://cka-cp1")
		l.expect(4, "", "wget", "-qO-", "http://cka-cp1:8080")
		l.expect(8, "", "wget", "-qO-", "http://cka-cp1/x")
	})
}

func TestNames(t *testing.T) {
	inLab(t, func(l *lab) {
		k, err := l.server.ListenPacket("udp", ":53")
		if err != nil {
			t.Fatal(err)
		}
		s := &dns.Server{PacketConn: k, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			m := new(dns.Msg).SetReply(q)
			m.Authoritative = true
			switch n, t := q.Question[0].Name, q.Question[0].Qtype; {
			case n == "web.default.svc.cluster.local." && t == dns.TypeA:
				rr, _ := dns.NewRR(n + " 30 IN A 10.96.7.7")
				m.Answer = append(m.Answer, rr)
			case n == "11.122.168.192.in-addr.arpa.":
				rr, _ := dns.NewRR(n + " 30 IN PTR cp.")
				m.Answer = append(m.Answer, rr)
			case n != "web.default.svc.cluster.local.":
				m.Rcode = dns.RcodeNameError
			}
			w.WriteMsg(m)
		})}
		l.server.Go(func() { s.ActivateAndServe() })
		const head = "Server:\t\t192.168.122.11\nAddress:\t192.168.122.11:53\n\n"
		l.expect(0, head+"Name:\tweb.default.svc.cluster.local\nAddress: 10.96.7.7\n\n\n", "busybox-nslookup", "web.default.svc.cluster.local")
		l.expect(1, head+"** server can't find kubernetes.default: NXDOMAIN\n\n** server can't find kubernetes.default: NXDOMAIN\n\n", "busybox-nslookup", "kubernetes.default")
		l.expect(0, "Server:\t\t192.168.122.11\nAddress:\t192.168.122.11#53\n\nName:\tweb.default.svc.cluster.local\nAddress: 10.96.7.7\n\n", "nslookup", "web")
		l.expect(1, "Server:\t\t192.168.122.11\nAddress:\t192.168.122.11#53\n\n** server can't find nosuch: NXDOMAIN\n\n", "nslookup", "nosuch")
		l.expect(0, "10.96.7.7\n", "dig", "+short", "web.default.svc.cluster.local")
		l.expect(0, "cp.\n", "dig", "+short", "-x", "192.168.122.11", "@cka-cp1")
		l.expect(0, "web.default.svc.cluster.local has address 10.96.7.7\n", "host", "web")
		l.expect(1, "Host nosuch not found: 3(NXDOMAIN)\n", "host", "nosuch")
		l.expect(0, "192.168.122.11  cka-cp1\n", "getent", "hosts", "cka-cp1")
		l.expect(2, "", "getent", "hosts", "nosuch")
		l.files.WriteFile("/etc/resolv.conf", []byte("nameserver 10.96.0.10\n"), 0o644)
		l.expect(1, ";; connection timed out; no servers could be reached\n\n", "busybox-nslookup", "web")
		l.expect(6, "curl: (6) Could not resolve host: web\n", "curl", "-sS", "web")
	})
}

func TestSocketsAndLinks(t *testing.T) {
	inLab(t, func(l *lab) {
		main, _ := l.w.Programs.Find("ss")
		on := func(args ...string) string {
			var out bytes.Buffer
			l.hosts["cka-cp1"].Processes.Start(kernel.Spec{Argv: append([]string{"ss"}, args...), Net: l.f.Machine("cka-cp1"), Files: l.files, Stdout: &out, Stderr: &out}, main).Wait()
			return out.String()
		}
		l.serve(":6443", func(http.ResponseWriter, *http.Request) {})
		l.serve("127.0.0.1:10248", func(http.ResponseWriter, *http.Request) {})
		want := `State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess                       
LISTEN 0      4096               *:6443             *:*    users:(("server",pid=1,fd=3))
LISTEN 0      4096       127.0.0.1:10248      0.0.0.0:*    users:(("server",pid=1,fd=4))
`
		if got := on("-tlnp"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		l.expect(0, "default via 192.168.122.1 dev enp1s0 proto static \n192.168.122.0/24 dev enp1s0 proto kernel scope link src 192.168.122.12 \n", "ip", "r")
		l.expect(0, "lo               UNKNOWN        127.0.0.1/8 ::1/128 \nenp1s0           UP             192.168.122.12/24 \n", "ip", "-br", "a")
		l.expect(0, "10.96.0.1 via 192.168.122.1 dev enp1s0 src 192.168.122.12 uid 0 \n    cache \n", "ip", "route", "get", "10.96.0.1")
		l.expect(1, "Device \"cni0\" does not exist.\n", "ip", "a", "show", "cni0")
		l.expect(0, "Connection to cka-cp1 (192.168.122.11) 6443 port [tcp/*] succeeded!\n", "nc", "-zv", "cka-cp1", "6443")
		l.expect(1, "nc: connect to 192.168.122.11 port 1 (tcp) failed: Connection refused\n", "nc", "-zv", "192.168.122.11", "1")
		l.expect(0, "cka-cp1 (192.168.122.11:6443) open\n", "busybox-nc", "-zv", "cka-cp1", "6443")
		got, code := l.run("ping", "-c", "2", "cka-cp1")
		if code != 0 || !regexp.MustCompile(`^PING cka-cp1 \(192.168.122.11\) 56\(84\) bytes of data.\n64 bytes from cka-cp1 \(192.168.122.11\): icmp_seq=1 ttl=64 time=0.\d+ ms\n64 bytes .*icmp_seq=2.*\n\n--- cka-cp1 ping statistics ---\n2 packets transmitted, 2 received, 0% packet loss, time 10\d\dms\nrtt `).MatchString(got) {
			t.Error(got, code)
		}
		got, code = l.run("ping", "-c", "1", "192.168.122.99")
		if code != 1 || !strings.Contains(got, "From 192.168.122.12 icmp_seq=1 Destination Host Unreachable\n") || !strings.Contains(got, "1 packets transmitted, 0 received, +1 errors, 100% packet loss, time ") {
			t.Error(got, code)
		}
	})
}
