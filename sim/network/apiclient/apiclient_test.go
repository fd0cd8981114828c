package apiclient

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

// TestInCluster has a Pod's process talk to an API server with its ServiceAccount's files, over real TLS.
func TestInCluster(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(192, 168, 122, 11)}}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		f := network.NewFabric(w)
		m := f.AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24"))
		h := w.NewHost("cka-cp1")
		m.Attach(h)
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		files := v.Files(kernel.Root)
		files.MkdirAll(serviceAccountDir, 0o755)
		files.WriteFile(serviceAccountDir+"/ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
		files.WriteFile(serviceAccountDir+"/token", []byte("first"), 0o644)
		idle := func(p *kernel.Process) int { <-p.Context().Done(); return 0 }
		server := h.Processes.Start(kernel.Spec{Argv: []string{"kube-apiserver"}, Net: m, Files: files}, idle)
		pod := h.Processes.Start(kernel.Spec{Argv: []string{"pod"}, Net: m, Files: files, Env: []string{"KUBERNETES_SERVICE_HOST=192.168.122.11", "KUBERNETES_SERVICE_PORT=6443"}}, idle)
		seen := map[string]bool{}
		from := map[string]bool{}
		l, err := server.Listen("tcp", ":6443")
		if err != nil {
			t.Fatal(err)
		}
		server.Go(func() {
			network.Serve(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen[r.Header.Get("Authorization")], from[r.RemoteAddr] = true, true
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"major":"1","minor":"35","gitVersion":"v1.35.4"}`)
			}))
		})
		ask := func() {
			t.Helper()
			c, err := InCluster(pod)
			if err != nil {
				t.Fatal(err)
			}
			k, err := kubernetes.NewForConfig(c)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := k.Discovery().ServerVersion(); err != nil || v.GitVersion != "v1.35.4" {
				t.Errorf("%v %v", v, err)
			}
		}
		ask()
		files.WriteFile(serviceAccountDir+"/token", []byte("second"), 0o644)
		time.Sleep(2 * time.Minute)
		ask()
		if !seen["Bearer first"] || !seen["Bearer second"] || len(from) != 1 {
			t.Errorf("tokens %v over connections %v", seen, from)
		}
		files.WriteFile("/kubeconfig", []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://x:1\", certificate-authority: pki/ca.crt}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {client-certificate: /nosuch.crt, client-key: /nosuch.key}}]\n"), 0o600)
		_, err = Kubeconfig(pod, "/kubeconfig")
		want := "invalid configuration: [unable to read certificate-authority /pki/ca.crt for c due to open /pki/ca.crt: no such file or directory, unable to read client-cert /nosuch.crt for u due to open /nosuch.crt: no such file or directory, unable to read client-key /nosuch.key for u due to open /nosuch.key: no such file or directory]"
		if fmt.Sprint(err) != want {
			t.Errorf("%v", err)
		}
		c, _ := LoadKubeconfig(pod, "/kubeconfig")
		c.CurrentContext = "nosuch"
		if _, err := FromConfig(pod, c, &clientcmd.ConfigOverrides{}); err == nil || !strings.Contains(err.Error(), `context was not found for specified context: nosuch`) {
			t.Error(err)
		}
		for _, p := range []*kernel.Process{pod, server} {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
	})
}
