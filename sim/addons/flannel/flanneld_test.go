package flannel

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

func TestDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		fabric := network.NewFabric(w)
		m := fabric.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))
		h := w.NewHost("cka-w1")
		m.Attach(h)
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		files := v.Files(kernel.Root)
		for name, text := range map[string]string{"/etc/kube-flannel/net-conf.json": `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}`,
			bridgeNetfilter: "1\n",
			"/kubeconfig":   "apiVersion: v1\nkind: Config\nclusters: [{name: d, cluster: {server: \"http://192.168.122.12:6443\"}}]\ncontexts: [{name: d, context: {cluster: d}}]\ncurrent-context: d\n"} {
			files.MkdirAll(name[:strings.LastIndexByte(name, '/')+1], 0o755)
			files.WriteFile(name, []byte(text), 0o644)
		}
		node := func(name, cidr, public string) v1.Node {
			n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: v1.NodeSpec{PodCIDR: cidr}}
			if public != "" {
				n.Annotations = map[string]string{annotation + "kube-subnet-manager": "true", annotation + "backend-type": "vxlan", annotation + "public-ip": public}
			}
			return n
		}
		nodes := []v1.Node{node("cka-w1", "", ""), node("cka-w2", "10.244.2.0/24", "192.168.122.13")}
		patched := ""
		server := h.Processes.Start(kernel.Spec{Argv: []string{"kube-apiserver"}, Net: m, Files: files}, func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		k, err := server.Listen("tcp", ":6443")
		if err != nil {
			t.Fatal(err)
		}
		server.Go(func() {
			network.Serve(k, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.Method == http.MethodPatch:
					var b bytes.Buffer
					b.ReadFrom(r.Body)
					patched = r.URL.Path + " " + b.String()
					json.NewEncoder(w).Encode(nodes[0])
				case r.URL.Query().Get("sendInitialEvents") == "true":
					w.WriteHeader(http.StatusUnprocessableEntity)
					json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
				case r.URL.Query().Get("watch") != "":
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				default:
					json.NewEncoder(w).Encode(v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: nodes})
				}
			}))
		})
		var log bytes.Buffer
		start := func() *kernel.Process {
			log.Reset()
			return h.Processes.Start(kernel.Spec{Argv: []string{"/opt/bin/flanneld", "--ip-masq", "--kube-subnet-mgr", "--kubeconfig-file=/kubeconfig"}, Env: []string{"NODE_NAME=cka-w1"}, Net: m, Files: files, Log: &log, Stderr: &log, NamespacePID: 1}, Main)
		}
		if s := start().Wait(); s.Code != 1 || !strings.Contains(log.String(), `main.go:359] Error registering network: failed to acquire lease: node "cka-w1" pod cidr not assigned`) {
			t.Errorf("%+v\n%s", s, log.String())
		}
		nodes[0].Spec.PodCIDR = "10.244.1.0/24"
		p := start()
		time.Sleep(2 * time.Second)
		if b, err := files.ReadFile("/run/flannel/subnet.env"); string(b) != "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n" {
			t.Errorf("%s %v\n%s", b, err, log.String())
		}
		if !strings.HasPrefix(patched, "/api/v1/nodes/cka-w1/status ") || !strings.Contains(patched, `"flannel.alpha.coreos.com/public-ip":"192.168.122.12"`) {
			t.Error(patched)
		}
		found := false
		for _, r := range m.Routes() {
			found = found || r.Dst.String() == "10.244.2.0/24" && r.Via.String() == "10.244.2.0" && r.Dev == linkName && r.OnLink
		}
		if l, _ := m.Link(linkName); !found || l.Forward[netip.MustParseAddr("10.244.2.0")].String() != "192.168.122.13" {
			t.Errorf("%+v %+v", m.Routes(), l)
		}
		p.Signal(kernel.SIGTERM)
		if s := p.Wait(); s.Code != 0 || !strings.HasSuffix(log.String(), "main.go:440] Exiting cleanly...\n") {
			t.Errorf("%+v\n%s", s, log.String())
		}
		server.Signal(kernel.SIGKILL)
		server.Wait()
		time.Sleep(20 * time.Minute)
	})
}
