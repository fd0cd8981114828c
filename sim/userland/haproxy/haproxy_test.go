package haproxy

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

const sample = `global
    log /dev/log local0
defaults
    mode tcp
    timeout connect 5s
    timeout client 4h
    timeout server 4h
    retries 1
    option redispatch
frontend api
    bind *:6443
    default_backend servers
backend servers
    balance roundrobin
    option httpchk GET /healthz
    http-check expect status 200
    default-server inter 10s fall 2 rise 2 on-marked-down shutdown-sessions
    server one 192.168.122.11:80 check
    server two 192.168.122.12:80 check
`

type lab struct {
	w     *kernel.World
	f     *network.Fabric
	files kernel.Files
	hosts map[string]*kernel.Host
}

type output struct {
	mu sync.Mutex
	strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Builder.Write(b)
}

func inLab(t *testing.T, f func(l *lab)) {
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		l := &lab{w: w, f: network.NewFabric(w), hosts: map[string]*kernel.Host{}}
		Register(w.Programs)
		for i, name := range []string{"lb", "one", "two"} {
			l.f.AddMachine(name, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 122, byte(10 + i)}), 24))
			l.hosts[name] = w.NewHost(name)
			l.f.Machine(name).Attach(l.hosts[name])
		}
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		l.files = v.Files(kernel.Root)
		f(l)
		synctest.Wait()
	})
}

// haproxy starts the program with a configuration.
func (l *lab) haproxy(text string, args ...string) (*kernel.Process, *output) {
	l.files.WriteFile("/h.cfg", []byte(text), 0o644)
	out := &output{}
	p := l.hosts["lb"].Processes.Start(kernel.Spec{Argv: append([]string{"/usr/sbin/haproxy", "-f", "/h.cfg"}, args...), Files: l.files, Net: l.f.Machine("lb"), Stdout: out, Stderr: out}, haproxy)
	return p, out
}

// web serves the name of a machine, and its health.
func (l *lab) web(name string, status *int) *kernel.Process {
	p := l.hosts[name].Processes.Start(kernel.Spec{Argv: []string{"web"}, Net: l.f.Machine(name)}, func(p *kernel.Process) int {
		x, err := p.Listen("tcp4", "0.0.0.0:80")
		if err != nil {
			return 1
		}
		network.Serve(x, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				w.WriteHeader(*status)
				return
			}
			fmt.Fprint(w, name)
		}))
		return 0
	})
	return p
}

func TestBalancing(t *testing.T) {
	inLab(t, func(l *lab) {
		one, two := 200, 200
		webs := []*kernel.Process{l.web("one", &one), l.web("two", &two)}
		p, out := l.haproxy(sample)
		client := l.hosts["lb"].Processes.Start(kernel.Spec{Argv: []string{"client"}, Net: l.f.Machine("lb")}, func(p *kernel.Process) int { <-p.Done(); return 0 })
		get := func() string {
			tr := network.NewTransport(client, nil)
			defer tr.Close()
			r, _ := http.NewRequest("GET", "http://192.168.122.10:6443/", nil)
			res, err := tr.RoundTrip(r)
			if err != nil {
				return "error"
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			return string(b)
		}
		some := func() string { return strings.Join([]string{get(), get(), get(), get()}, " ") }
		expect := func(want, said string) {
			t.Helper()
			if got := some(); got != want {
				t.Errorf("%s, want %s; haproxy says\n%s", got, want, out)
			}
			if !strings.Contains(out.String(), said) {
				t.Errorf("haproxy does not say %q:\n%s", said, out)
			}
		}
		time.Sleep(time.Second)
		expect("one two one two", "[NOTICE]   (1) : Loading success.\n")
		two = 500
		time.Sleep(30 * time.Second)
		expect("one one one one", "[WARNING]  (1) : Server servers/two is DOWN, reason: Layer7 wrong status, code: 500, info: \"Internal Server Error\", check duration: 0ms. 1 active and 0 backup servers left.")
		webs[0].Signal(kernel.SIGKILL)
		time.Sleep(30 * time.Second)
		expect("error error error error", "Server servers/one is DOWN, reason: Layer4 connection problem, info: \"Connection refused\", check duration: 0ms. 0 active")
		expect("error error error error", "[ALERT]    (1) : backend 'servers' has no server available!")
		two = 200
		time.Sleep(30 * time.Second)
		expect("two two two two", "Server servers/two is UP, reason: Layer7 check passed, code: 200, check duration: 0ms. 1 active and 0 backup servers online.")
		for _, p := range append(webs, p, client) {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
	})
}

func TestConfiguration(t *testing.T) {
	inLab(t, func(l *lab) {
		for _, c := range []struct{ old, new, want string }{
			{"", "", "Configuration file is valid\n"},
			{"balance roundrobin", "blance roundrobin", "[ALERT]    (%d) : config : parsing [/h.cfg:14] : unknown keyword 'blance' in 'backend' section\n[ALERT]    (%[1]d) : config : Error(s) found in configuration file : /h.cfg\n[ALERT]    (%[1]d) : config : Fatal errors found in configuration.\n"},
			{"default_backend servers", "default_backend others", "Proxy 'api': unable to find required default_backend: 'others'."},
			{"192.168.122.11:80 check", "nowhere:80 check", "'server servers/one' : could not resolve address 'nowhere'."},
			{"mode tcp", "mode udp", "unknown proxy mode 'udp'."},
			{"mode tcp", "mode http", "ckadrill does not simulate haproxy's mode http yet"},
			{"balance roundrobin", "use-server one if TRUE", "ckadrill does not simulate haproxy's keyword use-server yet"},
			{"    timeout server 4h\n", "", "config : missing timeouts for backend 'servers'."},
			{"*:6443", "*", "'bind' : missing port number: '*'"},
			{"inter 10s", "inter 10x", "unexpected character in 'inter' argument."},
			{"inter 10s", "inter 0", "invalid value 0 for argument 'inter'."},
			{"inter 10s", "inter -5s", "unexpected character in 'inter' argument."},
			{"inter 10s", "inter 10s fall 0", "'fall' has to be > 0."},
			{"timeout server 4h", "timeout server 99999999999999999999", "timer overflow in argument '99999999999999999999' to 'timeout server'"},
			{"\nbackend servers\n", "\nbackend\n", "'backend' expects an <id> argument."},
			{"global\n", "golbal\n", "unknown keyword 'golbal' out of section."},
		} {
			p, out := l.haproxy(strings.Replace(sample, c.old, c.new, 1), "-c")
			p.Wait()
			want := c.want
			if strings.Contains(want, "%d") {
				want = fmt.Sprintf(want, p.ID())
			}
			if !strings.Contains(out.String(), want) {
				t.Errorf("with %q:\n%swant %s", c.new, out, want)
			}
		}
	})
}
