package coredns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

const kubeadmCorefile = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       endpoint http://192.168.122.12:6443
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

// output is what a program prints, for tests that read it while the program runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

type lab struct {
	*testing.T
	w     *kernel.World
	h     *kernel.Host
	m     *network.Namespace
	files kernel.Files
	api   *kernel.Process
	out   output
}

func inLab(t *testing.T, serve bool, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		fabric := network.NewFabric(w)
		fabric.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
		l := &lab{T: t, w: w, h: w.NewHost("cka-w1"), m: fabric.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))}
		l.m.Attach(l.h)
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		l.files = v.Files(kernel.Root)
		l.files.MkdirAll("/etc/coredns", 0o755)
		l.files.WriteFile("/etc/resolv.conf", []byte("nameserver 192.168.122.1\n"), 0o644)
		l.files.WriteFile("/etc/coredns/Corefile", []byte(kubeadmCorefile), 0o644)
		l.api = l.h.Processes.Start(kernel.Spec{Argv: []string{"kube-apiserver"}, Net: l.m, Files: l.files}, func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		if serve {
			l.serveAPI()
		}
		f(l)
		l.api.Signal(kernel.SIGKILL)
		l.api.Wait()
		time.Sleep(20 * time.Minute)
	})
}

func (l *lab) serveAPI() {
	meta := func(ns, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, ResourceVersion: "1"}
	}
	service := func(ns, name, ip string, port int32) v1.Service {
		return v1.Service{ObjectMeta: meta(ns, name), Spec: v1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []v1.ServicePort{{Name: "http", Port: port, Protocol: v1.ProtocolTCP}}}}
	}
	ext := service("default", "ext", "", 80)
	ext.Spec = v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: "web.default.svc.cluster.local"}
	name, port, proto, host := "http", int32(80), v1.ProtocolTCP, "db-0"
	slice := discovery.EndpointSlice{ObjectMeta: meta("default", "db-x"), AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{{Name: &name, Port: &port, Protocol: &proto}},
		Endpoints: []discovery.Endpoint{{Addresses: []string{"10.244.1.5"}, Hostname: &host}, {Addresses: []string{"10.244.2.6"}}}}
	slice.Labels = map[string]string{discovery.LabelServiceName: "db"}
	lists := map[string]any{
		"services": v1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []v1.Service{service("default", "web", "10.96.7.7", 8080), service("default", "db", "None", 80), service("default", "none", "None", 80), ext}},
		"namespaces":     v1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.Namespace{{ObjectMeta: meta("", "default")}}},
		"endpointslices": discovery.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []discovery.EndpointSlice{slice}},
	}
	k, err := l.api.Listen("tcp", ":6443")
	if err != nil {
		l.Fatal(err)
	}
	l.api.Go(func() {
		network.Serve(k, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Query().Get("sendInitialEvents") == "true":
				w.WriteHeader(http.StatusUnprocessableEntity)
				json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
			case r.URL.Query().Get("watch") != "":
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			default:
				json.NewEncoder(w).Encode(lists[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]])
			}
		}))
	})
}

func (l *lab) start() *kernel.Process {
	return l.h.Processes.Start(kernel.Spec{Argv: []string{"/coredns", "-conf", "/etc/coredns/Corefile"}, Net: l.m, Files: l.files, Stdout: &l.out, Stderr: &l.out, NamespacePID: 1}, Main)
}

// ask returns the answer in short: the code, then each record's type and data.
func (l *lab) ask(name, qtype string) string {
	q := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	m, err := network.Exchange(context.Background(), l.api, netip.MustParseAddrPort("127.0.0.1:53"), q, 5*time.Second)
	if err != nil {
		return err.Error()
	}
	s := dns.RcodeToString[m.Rcode]
	var records []string
	for _, rr := range m.Answer {
		records = append(records, dns.TypeToString[rr.Header().Rrtype]+" "+strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	for i := range records {
		for j := i + 1; j < len(records); j++ {
			if records[j] < records[i] {
				records[i], records[j] = records[j], records[i]
			}
		}
	}
	return strings.Join(append([]string{s}, records...), ", ")
}

func (l *lab) get(url string) string {
	r, _ := http.NewRequest("GET", url, nil)
	res, err := network.NewTransport(l.api, nil).RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	b, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(b))
}

func TestServing(t *testing.T) {
	inLab(t, true, func(l *lab) {
		p := l.start()
		time.Sleep(2 * time.Second)
		want := regexp.MustCompile(`^\.:53\n\[INFO\] plugin/reload: Running configuration SHA512 = [0-9a-f]{128}\nCoreDNS-1\.13\.1\nlinux/amd64, go1\.\d+\.\d+, [0-9a-f]+\n$`)
		if !want.MatchString(l.out.String()) {
			t.Errorf("%s", l.out.String())
		}
		for _, c := range []struct{ name, qtype, want string }{
			{"web.default.svc.cluster.local.", "A", "NOERROR, A 10.96.7.7"},
			{"WEB.default.svc.cluster.local.", "A", "NOERROR, A 10.96.7.7"},
			{"web.default.svc.cluster.local.", "AAAA", "NOERROR"},
			{"web.default.svc.cluster.local.", "SRV", "NOERROR, SRV 0 100 8080 web.default.svc.cluster.local."},
			{"_http._tcp.web.default.svc.cluster.local.", "SRV", "NOERROR, SRV 0 100 8080 web.default.svc.cluster.local."},
			{"_nosuch._tcp.web.default.svc.cluster.local.", "SRV", "NXDOMAIN"},
			{"web.nosuch.svc.cluster.local.", "A", "NXDOMAIN"},
			{"nosuch.default.svc.cluster.local.", "A", "NXDOMAIN"},
			{"default.svc.cluster.local.", "A", "NOERROR"},
			{"cluster.local.", "A", "NOERROR"},
			{"db.default.svc.cluster.local.", "A", "NOERROR, A 10.244.1.5, A 10.244.2.6"},
			{"db-0.db.default.svc.cluster.local.", "A", "NOERROR, A 10.244.1.5"},
			{"10-244-2-6.db.default.svc.cluster.local.", "A", "NOERROR, A 10.244.2.6"},
			{"db.default.svc.cluster.local.", "SRV", "NOERROR, SRV 0 50 80 10-244-2-6.db.default.svc.cluster.local., SRV 0 50 80 db-0.db.default.svc.cluster.local."},
			{"none.default.svc.cluster.local.", "A", "NXDOMAIN"},
			{"ext.default.svc.cluster.local.", "A", "NOERROR, A 10.96.7.7, CNAME web.default.svc.cluster.local."},
			{"10-244-9-9.default.pod.cluster.local.", "A", "NOERROR, A 10.244.9.9"},
			{"7.7.96.10.in-addr.arpa.", "PTR", "NOERROR, PTR web.default.svc.cluster.local."},
			{"5.1.244.10.in-addr.arpa.", "PTR", "NOERROR, PTR db-0.db.default.svc.cluster.local."},
			{"8.8.8.8.in-addr.arpa.", "PTR", "NXDOMAIN"},
			{"dns-version.cluster.local.", "TXT", `NOERROR, TXT "1.1.0"`},
			{"example.com.", "A", "NXDOMAIN"},
		} {
			if got := l.ask(c.name, c.qtype); got != c.want {
				t.Errorf("%s %s: %s, want %s", c.name, c.qtype, got, c.want)
			}
		}
		for url, want := range map[string]string{"http://127.0.0.1:8080/health": "200 OK", "http://127.0.0.1:8181/ready": "200 OK"} {
			if got := l.get(url); got != want {
				t.Errorf("%s: %s", url, got)
			}
		}
		// Without its upstream a name outside the cluster is SERVFAIL, and the plugin errors says why.
		l.m.ChangeLink(network.MachineLink, func(k *network.Link) { k.Up = false })
		if got := l.ask("example.org.", "A"); got != "SERVFAIL" || !strings.Contains(l.out.String(), "[ERROR] plugin/errors: 2 example.org. A: dial udp 192.168.122.1:53: connect: network is unreachable\n") {
			t.Error(got, l.out.String())
		}
		l.m.ChangeLink(network.MachineLink, func(k *network.Link) { k.Up = true })
		// A broken Corefile is reported, and the old one stays.
		broken := strings.Replace(kubeadmCorefile, "forward", "forwrd", 1)
		l.files.WriteFile("/etc/coredns/Corefile", []byte(broken), 0o644)
		time.Sleep(time.Minute)
		for _, want := range []string{"[INFO] Reloading\n", "[ERROR] Restart failed: /etc/coredns/Corefile:14 - Error during parsing: Unknown directive 'forwrd'\n"} {
			if !strings.Contains(l.out.String(), want) {
				t.Errorf("no %q in\n%s", want, l.out.String())
			}
		}
		if got := l.ask("web.default.svc.cluster.local.", "A"); got != "NOERROR, A 10.96.7.7" {
			t.Error(got)
		}
		l.files.WriteFile("/etc/coredns/Corefile", []byte(strings.Replace(kubeadmCorefile, "    loop\n", "    hosts {\n      10.0.0.9 db.example.com\n      fallthrough\n    }\n", 1)), 0o644)
		time.Sleep(time.Minute)
		if got := l.ask("db.example.com.", "A"); got != "NOERROR, A 10.0.0.9" || !strings.Contains(l.out.String(), "[INFO] Reloading complete\n") {
			t.Error(got, l.out.String())
		}
		if got := l.get("http://127.0.0.1:8181/ready"); got != "200 OK" {
			t.Error(got)
		}
		start := time.Now()
		p.Signal(kernel.SIGTERM)
		if s := p.Wait(); s.Code != 0 || time.Since(start) != 5*time.Second || !strings.HasSuffix(l.out.String(), "[INFO] SIGTERM: Shutting down servers then terminating\n[INFO] plugin/health: Going into lameduck mode for 5s\n") {
			t.Error(s, time.Since(start), l.out.String())
		}
	})
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown directive", "forward", "forwrd", "/etc/coredns/Corefile:14 - Error during parsing: Unknown directive 'forwrd'\n"},
		{"brace", "loadbalance\n}", "loadbalance\n", "/etc/coredns/Corefile:23 - Syntax error: Unexpected token 'loadbalance', expecting '}'\n"},
		{"bad option", "pods insecure", "pods foo", "plugin/kubernetes: wrong value for pods: foo,  pods must be one of: disabled, verified, insecure\n"},
		{"bad upstream", "/etc/resolv.conf", "/etc/nosuch.conf", "plugin/forward: not an IP address or file: \"/etc/nosuch.conf\"\n"},
		{"other plugin", "loop\n", "template IN A\n", "plugin/template: ckadrill does not simulate this plugin of CoreDNS yet\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, true, func(l *lab) {
				l.files.WriteFile("/etc/coredns/Corefile", []byte(strings.Replace(kubeadmCorefile, c.old, c.new, 1)), 0o644)
				if s := l.start().Wait(); s.Code != 1 || l.out.String() != c.want {
					t.Errorf("%+v %q, want %q", s, l.out.String(), c.want)
				}
			})
		})
	}
}

func TestWithoutAPI(t *testing.T) {
	inLab(t, false, func(l *lab) {
		p := l.start()
		time.Sleep(6 * time.Second)
		for _, want := range []string{"[INFO] plugin/kubernetes: waiting for Kubernetes API before starting server\n", "[WARNING] plugin/kubernetes: starting server with unsynced Kubernetes API\n.:53\n"} {
			if !strings.Contains(l.out.String(), want) {
				t.Errorf("no %q in\n%s", want, l.out.String())
			}
		}
		if got := l.ask("web.default.svc.cluster.local.", "A"); got != "SERVFAIL" {
			t.Error(got)
		}
		if got := l.get("http://127.0.0.1:8181/ready"); got != "503 kubernetes" || !strings.Contains(l.out.String(), "[INFO] plugin/ready: Still waiting on: \"kubernetes\"\n") {
			t.Error(got)
		}
		p.Signal(kernel.SIGKILL)
		p.Wait()
	})
}

func TestLoop(t *testing.T) {
	inLab(t, true, func(l *lab) {
		l.files.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.1\n"), 0o644)
		p := l.start()
		if s := p.Wait(); s.Code != 1 || !regexp.MustCompile(`\[FATAL\] plugin/loop: Loop \(127\.0\.0\.1:\d+ -> :53\) detected for zone "\.", see https://coredns\.io/plugins/loop#troubleshooting\. Query: "HINFO \d+\.\d+\."\n`).MatchString(l.out.String()) {
			t.Error(s, l.out.String())
		}
	})
}
