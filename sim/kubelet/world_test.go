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
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
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
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	criruntime "ckadrill/sim/runtime"
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
	if name := os.Getenv("CKADRILL_PROFILE"); name != "" {
		f, err := os.Create(name)
		if err != nil {
			panic(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil { // outside of the bubble, whose time it would hold
			panic(err)
		}
	}
	kernel.Run(1, time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), func(w *kernel.World) int {
		if v := os.Getenv("CKADRILL_V"); v != "" {
			var l klog.Level
			l.Set(v)
		}
		b := newTestbed(w)
		err := scenarios[name](b)
		pprof.StopCPUProfile()
		if err != nil || os.Getenv("CKADRILL_KUBELET_LOG") != "" {
			fmt.Printf("--- log of containerd\n%s--- log of the kubelet\n%s--- stray lines\n%s\n--- events\n%s", b.daemonLog.String(), b.log.String(), strings.Join(kernel.StrayLines(), "\n"), b.events())
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

// testbed is a machine with containerd and a kubelet's files, and a fake API.
type testbed struct {
	w         *kernel.World
	m         *machine.Machine
	c         *criruntime.Containerd
	files     kernel.Files
	api       *fake.Clientset
	daemon    *kernel.Process
	log       lockedBuffer
	daemonLog lockedBuffer
	argv      []string
	realAPI   bool // the kubelet dials the server of its kubeconfig
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
	b := &testbed{w: w, api: fake.NewClientset()}
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
	f := network.NewFabric(w)
	f.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
	b.m = machine.New(w, "cka-w1", machine.Options{})
	f.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24")).Attach(b.m.Host())
	b.files = b.m.Files(kernel.Root)
	b.c = criruntime.New(b.m, criruntime.Options{})
	for _, i := range []string{"busybox:1.36", "nginx:1.27", "registry.k8s.io/pause:3.10.1"} {
		b.c.AddImage(i)
	}
	testPrograms(w)
	ca, key := selfSigned()
	for name, content := range map[string]string{
		"/var/lib/kubelet/config.yaml": testConfig, "/etc/kubernetes/pki/ca.crt": ca, "/etc/cni/net.d/10-bridge.conflist": `{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"bridge","bridge":"cni0"}]}`,
		"/var/lib/kubelet/pki/kubelet-client-current.pem": ca + key,
		"/etc/kubernetes/kubelet.conf":                    "apiVersion: v1\nkind: Config\nclusters: [{name: k, cluster: {server: 'https://192.168.122.11:6443'}}]\nusers: [{name: u, user: {client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem, client-key: /var/lib/kubelet/pki/kubelet-client-current.pem}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n",
	} {
		b.write(name, content)
	}
	b.files.MkdirAll("/etc/kubernetes/manifests", 0o755)
	b.files.MkdirAll("/opt/cni/bin", 0o755)
	for file, program := range map[string]string{"/opt/cni/bin/bridge": "cni-bridge", "/opt/cni/bin/loopback": "cni-loopback", "/usr/bin/kubelet": "kubelet", "/usr/bin/containerd": "containerd"} {
		if err := b.files.WriteFile(file, kernel.Executable(program), 0o755); err != nil {
			panic(err)
		}
	}
	b.startContainerd()
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

func (b *testbed) spec(argv ...string) kernel.Spec {
	return kernel.Spec{Argv: argv, Files: b.files, Net: network.Of(b.m.Host()), Unit: argv[0] + ".service", Dir: "/"}
}

func (b *testbed) startContainerd() {
	main, _ := b.w.Programs.Find("containerd")
	s := b.spec("/usr/bin/containerd")
	s.Stdout, s.Stderr = &b.daemonLog, &b.daemonLog
	b.daemon = b.m.Host().Processes.Start(s, main)
	time.Sleep(time.Second)
}

// start starts the kubelet as systemd would.
func (b *testbed) start() *kernel.Process { return b.startAt(time.Time{}) }

// startAt starts the kubelet as a thaw would, if started is set.
func (b *testbed) startAt(started time.Time) *kernel.Process {
	seams := Seams{
		API: Connect,
		CRI: ConnectRuntime,
	}
	if !b.realAPI {
		seams.API = func(*kernel.Process, *rest.Config, *options.KubeletServer) (*Clients, error) {
			return &Clients{Kube: b.api, Heartbeat: b.api, Events: b.api.CoreV1()}, nil
		}
	}
	s := b.spec(b.argv...)
	s.Stdout, s.Stderr, s.Started = &b.log, &b.log, started
	return b.m.Host().Processes.Start(s, func(p *kernel.Process) int { return Main(p, seams) })
}

// testPrograms are what containers and the CNI run.
func testPrograms(w *kernel.World) {
	criruntime.Register(w)
	w.Programs.Register("ash", testShell)
	w.Programs.Register("dash", testShell)
	w.Programs.Register("cni-loopback", func(p *kernel.Process) int {
		if p.Getenv("CNI_COMMAND") == "ADD" {
			network.Of(p.Host()).Namespace(p.Getenv("CNI_NETNS")).ChangeLink("lo", func(l *network.Link) {
				l.Up, l.Addresses = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}
			})
			p.Printf(`{"cniVersion":"0.3.1","interfaces":[{"name":"lo","sandbox":%q}],"ips":[{"version":"4","interface":0,"address":"127.0.0.1/8"}],"dns":{}}`, p.Getenv("CNI_NETNS"))
		}
		return 0
	})
	next := 1
	w.Programs.Register("cni-bridge", func(p *kernel.Process) int {
		if p.Getenv("CNI_COMMAND") != "ADD" {
			return 0
		}
		next++
		addr := fmt.Sprintf("10.244.1.%d/24", next)
		host := network.Of(p.Host())
		n := host.Namespace(p.Getenv("CNI_NETNS"))
		host.AddLink(network.Link{Name: "cni0", Kind: network.Bridge, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.1/24")}})
		host.AddVeth("veth"+p.Getenv("CNI_CONTAINERID")[:8], "cni0", 1500, n, "eth0")
		n.ChangeLink("eth0", func(l *network.Link) { l.Addresses = []netip.Prefix{netip.MustParsePrefix(addr)} })
		p.Printf(`{"cniVersion":"1.0.0","interfaces":[{"name":"cni0"},{"name":"eth0","sandbox":%q}],"ips":[{"interface":1,"address":%q,"gateway":"10.244.1.1"}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{}}`, p.Getenv("CNI_NETNS"), addr)
		return 0
	})
}

// testShell understands a few words: say, exit, sleep, wait, serve, cat, env, write, trap.
func testShell(p *kernel.Process) int {
	for _, c := range strings.Split(p.Argv[len(p.Argv)-1], ";") {
		f := strings.Fields(c)
		switch f[0] {
		case "say":
			p.Printf("%s\n", strings.Join(f[1:], " "))
		case "exit":
			n, _ := strconv.Atoi(f[1])
			return n
		case "sleep":
			d, _ := time.ParseDuration(f[1])
			p.Sleep(d)
		case "wait":
			<-p.Done()
		case "trap":
			p.Notify(kernel.SIGTERM, func() { p.Exit(0) })
		case "cat":
			b, err := p.ReadFile(f[1])
			if err != nil {
				p.Errorf("cat: %v\n", err)
				return 1
			}
			p.Stdout.Write(b)
		case "write":
			if err := p.Files.WriteFile(f[1], []byte(strings.Join(f[2:], " ")), 0o644); err != nil {
				return 1
			}
		case "env":
			p.Printf("%s\n", strings.Join(p.Environ(), "\n"))
		case "serve": // HTTP on a port: what /answer holds, or 200
			l, err := p.Listen("tcp", ":"+f[1])
			if err != nil {
				return 1
			}
			network.Serve(l, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if b, err := p.ReadFile("/answer"); err == nil {
					n, _ := strconv.Atoi(string(b))
					w.WriteHeader(n)
				}
				fmt.Fprintln(w, "hello")
			}))
		}
	}
	return 0
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
			Containers: []v1.Container{{Name: "c", Image: image, Command: []string{"sh", "-c", "trap;wait"}, ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile}}}}
}
