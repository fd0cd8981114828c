package kubelet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

// A kubelet leaves goroutines behind, so its bubble can not end inside "go test": each scenario runs in a process of its
// own, the test binary started once more, and says by its exit code how it went.
const scenarioVariable = "CKADRILL_KUBELET_SCENARIO"

var scenarios = map[string]func(*testbed) error{}

func TestMain(m *testing.M) {
	name := os.Getenv(scenarioVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	kernel.Run(1, time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), func(w *kernel.World) int {
		b := newTestbed(w)
		err := scenarios[name](b)
		if err != nil || os.Getenv("CKADRILL_KUBELET_LOG") != "" {
			fmt.Printf("--- log of the kubelet\n%s--- stray lines\n%s\n--- events\n%s", b.log.String(), strings.Join(kernel.StrayLines(), "\n"), b.events())
		}
		if err != nil {
			fmt.Println("FAIL:", err)
			return 1
		}
		return 0
	})
}

func runScenario(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), scenarioVariable+"="+name)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(out) > 0 {
		t.Logf("%s", out)
	}
}

// testbed is a machine with a kubelet's files, a fake API and a fake CRI.
type testbed struct {
	w     *kernel.World
	host  *kernel.Host
	files kernel.Files
	net   kernel.Network
	api   *fake.Clientset
	cri   *critest.FakeRuntimeService
	image *critest.FakeImageService
	log   lockedBuffer
	argv  []string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const testConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true, cacheTTL: 0s}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///var/run/containerd/containerd.sock
healthzBindAddress: 127.0.0.1
healthzPort: 10248
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
`

func newTestbed(w *kernel.World) *testbed {
	b := &testbed{w: w, host: w.NewHost("cka-w1"), api: fake.NewClientset(), cri: critest.NewFakeRuntimeService(), image: critest.NewFakeImageService()}
	b.cri.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}}}
	b.api.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if m, err := meta.Accessor(a.(clienttesting.CreateAction).GetObject()); err == nil {
			if m.GetUID() == "" {
				m.SetUID(types.UID(w.UUID("api")))
			}
			if t := m.GetCreationTimestamp(); t.IsZero() {
				m.SetCreationTimestamp(metav1.Now())
			}
		}
		return false, nil, nil
	})
	tree := filesystem.NewTree(w, "/dev/vda1", 20<<30)
	view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: tree}})
	if err != nil {
		panic(err)
	}
	b.files = view.Files(kernel.Root)
	ns := network.NewFabric(w).AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))
	b.net = ns
	ca, key := selfSigned()
	for name, content := range map[string]string{
		"/var/lib/kubelet/config.yaml": testConfig, "/etc/kubernetes/pki/ca.crt": ca, "/etc/hosts": "127.0.0.1 localhost\n192.168.122.12 cka-w1\n",
		"/etc/resolv.conf": "nameserver 192.168.122.1\nsearch lab\n", "/proc/meminfo": "MemTotal:        2097152 kB\n", "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
		"/var/lib/kubelet/pki/kubelet-client-current.pem": ca + key,
		"/etc/kubernetes/kubelet.conf":                    "apiVersion: v1\nkind: Config\nclusters: [{name: k, cluster: {server: 'https://192.168.122.11:6443'}}]\nusers: [{name: u, user: {client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem, client-key: /var/lib/kubelet/pki/kubelet-client-current.pem}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n",
	} {
		b.write(name, content)
	}
	b.files.MkdirAll("/etc/kubernetes/manifests", 0o755)
	b.argv = []string{"/usr/bin/kubelet", "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/kubelet/config.yaml"}
	return b
}

func (b *testbed) write(name, content string) {
	b.files.MkdirAll(name[:strings.LastIndex(name, "/")], 0o755)
	if err := b.files.WriteFile(name, []byte(content), 0o644); err != nil {
		panic(err)
	}
}

func selfSigned() (cert, key string) {
	k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &k.PublicKey, k)
	if err != nil {
		panic(err)
	}
	kd, _ := x509.MarshalECPrivateKey(k)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kd}))
}

// start starts the kubelet as systemd would.
func (b *testbed) start() *kernel.Process {
	seams := Seams{
		API: func(*kernel.Process, *rest.Config, *options.KubeletServer) (*Clients, error) {
			return &Clients{Kube: b.api, Heartbeat: b.api, Events: b.api.CoreV1()}, nil
		},
		CRI: func(*kernel.Process, string, time.Duration) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
			return b.cri, b.image, nil
		},
	}
	return b.host.Processes.Start(kernel.Spec{Argv: b.argv, Files: b.files, Net: b.net, Stdout: &b.log, Stderr: &b.log, Dir: "/", Unit: "kubelet.service"},
		func(p *kernel.Process) int { return Main(p, seams) })
}

func (b *testbed) events() string {
	var s strings.Builder
	l, _ := b.api.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	for _, e := range l.Items {
		fmt.Fprintf(&s, "%s %s %s %s/%s %s (x%d)\n", e.Name, e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message, e.Count)
	}
	return s.String()
}

func testPod(name, image string) *v1.Pod {
	yes := true
	grace := int64(30)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{NodeName: "cka-w1", RestartPolicy: v1.RestartPolicyAlways, EnableServiceLinks: &yes, TerminationGracePeriodSeconds: &grace, DNSPolicy: v1.DNSClusterFirst,
			Containers: []v1.Container{{Name: "c", Image: image, ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile}}}}
}
