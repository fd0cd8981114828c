package kubeproxy

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

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

// api is as much of an API server as kube-proxy needs: lists and watches of what it holds.
type api struct {
	mu      sync.Mutex
	objects map[string][]any // by resource
	version int
	watches map[string][]chan any
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	w.Header().Set("Content-Type", "application/json")
	kinds := map[string][2]string{"services": {"v1", "ServiceList"}, "nodes": {"v1", "NodeList"}, "endpointslices": {"discovery.k8s.io/v1", "EndpointSliceList"}, "servicecidrs": {"networking.k8s.io/v1", "ServiceCIDRList"}}
	k, ok := kinds[resource]
	if r.Method != http.MethodGet || !ok {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "{}")
		return
	}
	if r.URL.Query().Get("watch") == "" {
		a.mu.Lock()
		items := append([]any{}, a.objects[resource]...)
		a.mu.Unlock()
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": k[0], "kind": k[1], "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
		return
	}
	c := make(chan any, 10)
	a.mu.Lock()
	a.watches[resource] = append(a.watches[resource], c)
	a.mu.Unlock()
	if r.URL.Query().Get("sendInitialEvents") == "true" { // a streamed list is answered as a server without the feature does
		w.WriteHeader(http.StatusUnprocessableEntity)
		json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422, Message: "sendInitialEvents is forbidden"})
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case e := <-c:
			json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (a *api) send(resource, kind string, o any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.watches[resource] {
		c <- map[string]any{"type": kind, "object": o}
	}
}

const configText = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
clusterCIDR: 10.244.0.0/16
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
configSyncPeriod: 0s
mode: ""
`

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: default, cluster: {server: "http://192.168.122.12:6443"}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
current-context: default
users: [{name: default, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]
`

func TestProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		Register(w.Programs)
		fabric := network.NewFabric(w)
		m := fabric.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))
		h := w.NewHost("cka-w1")
		m.Attach(h)
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		files := v.Files(kernel.Root)
		for name, text := range map[string]string{"/var/lib/kube-proxy/config.conf": configText, "/var/lib/kube-proxy/kubeconfig.conf": kubeconfig, "/var/run/secrets/kubernetes.io/serviceaccount/token": "t"} {
			files.MkdirAll(name[:strings.LastIndexByte(name, '/')], 0o755)
			files.WriteFile(name, []byte(text), 0o644)
		}
		idle := func(p *kernel.Process) int { <-p.Context().Done(); return 0 }
		server := h.Processes.Start(kernel.Spec{Argv: []string{"kube-apiserver"}, Net: m, Files: files}, idle)
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1"}
		}
		svc := v1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta("web"), Spec: v1.ServiceSpec{ClusterIP: "10.96.7.7", ClusterIPs: []string{"10.96.7.7"}, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP, NodePort: 30080}}, Type: v1.ServiceTypeNodePort, ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicyCluster}}
		ready, port, proto, name := true, int32(8080), v1.ProtocolTCP, ""
		slice := discovery.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, ObjectMeta: meta("web-1"), AddressType: discovery.AddressTypeIPv4,
			Endpoints: []discovery.Endpoint{{Addresses: []string{"10.244.1.5"}, Conditions: discovery.EndpointConditions{Ready: &ready}}}, Ports: []discovery.EndpointPort{{Name: &name, Port: &port, Protocol: &proto}}}
		slice.Labels = map[string]string{discovery.LabelServiceName: "web"}
		node := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cka-w1", ResourceVersion: "1"}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.168.122.12"}}}}
		a := &api{objects: map[string][]any{"services": {svc}, "endpointslices": {slice}, "nodes": {node}}, watches: map[string][]chan any{}}
		k, err := server.Listen("tcp", ":6443")
		if err != nil {
			t.Fatal(err)
		}
		server.Go(func() { network.Serve(k, nil, a) })
		var log bytes.Buffer
		start := func(args ...string) *kernel.Process {
			return h.Processes.Start(kernel.Spec{Argv: append([]string{"/usr/local/bin/kube-proxy"}, args...), Net: m, Files: files, Log: &log, NamespacePID: 1}, Main)
		}
		if s := start("--config=/var/lib/kube-proxy/nosuch.conf").Wait(); s.Code != 1 || !regexp.MustCompile(`^E\d{4} \d\d:\d\d:\d\d\.\d{6}       1 run.go:72\] "command failed" err="failed complete: open /var/lib/kube-proxy/nosuch.conf: no such file or directory"\n$`).MatchString(log.String()) {
			t.Errorf("%+v %s", s, log.String())
		}
		log.Reset()
		if s := start("--nosuch").Wait(); s.Code != 1 || !strings.Contains(log.String(), `"command failed" err="unknown flag: --nosuch"`) {
			t.Errorf("%+v %s", s, log.String())
		}
		log.Reset()
		p := start("--config=/var/lib/kube-proxy/config.conf", "--hostname-override=cka-w1")
		time.Sleep(3 * time.Second)
		ports := m.Services().Ports
		if len(ports) != 1 || fmt.Sprint(ports[0].Endpoints) != "[10.244.1.5:8080]" || ports[0].NodePort != 30080 || ports[0].Name != "default/web" || m.Services().ClusterCIDR.String() != "10.244.0.0/16" {
			t.Errorf("%+v\n%s", m.Services(), log.String())
		}
		for _, want := range []string{`server_linux.go:53] "Using iptables proxy"`, `server.go:218] "Successfully retrieved NodeIPs" NodeIPs=["192.168.122.12"]`, `server_linux.go:136] "Using iptables Proxier"`, `server.go:529] "Version info" version="v1.35.4"`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no line %s in\n%s", want, log.String())
			}
		}
		slice.Endpoints[0].Addresses, slice.ResourceVersion = []string{"10.244.1.6"}, "2"
		a.send("endpointslices", "MODIFIED", slice)
		time.Sleep(2 * time.Second)
		if ports := m.Services().Ports; fmt.Sprint(ports[0].Endpoints) != "[10.244.1.6:8080]" {
			t.Errorf("%+v", ports)
		}
		for url, want := range map[string]string{"http://127.0.0.1:10256/healthz": `"nodeEligible":true`, "http://127.0.0.1:10249/proxyMode": "iptables"} {
			r, _ := http.NewRequestWithContext(context.Background(), "GET", url, nil)
			res, err := network.NewTransport(server, nil).RoundTrip(r)
			if err != nil {
				t.Error(err)
				continue
			}
			b, _ := io.ReadAll(res.Body)
			if res.StatusCode != 200 || !strings.Contains(string(b), want) {
				t.Errorf("%s: %s %s", url, res.Status, b)
			}
		}
		p.Signal(kernel.SIGTERM)
		p.Signal(kernel.SIGKILL)
		p.Wait()
		time.Sleep(time.Minute)
		if len(m.Services().Ports) != 1 {
			t.Error("the rules went with the process")
		}
		server.Signal(kernel.SIGKILL)
		server.Wait()
		time.Sleep(10 * time.Minute)
	})
}
