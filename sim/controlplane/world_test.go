package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
	"ckadrill/sim/network/apiclient"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// A test of a world runs in a worker: the test binary again, with the test's name in the environment. Upstream leaves
// goroutines behind, so the bubble cannot be ended inside "go test", and one bubble is all that a process can have.
const workerEnv = "CKADRILL_TEST_WORLD"

type worldTest func(w *kernel.World) error

var worldTests = map[string]worldTest{}

func TestMain(m *testing.M) {
	if name := os.Getenv(workerEnv); name != "" {
		f, ok := worldTests[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such world test:", name)
			os.Exit(2)
		}
		kernel.Run(1, time.Date(2026, 12, 1, 16, 0, 0, 0, time.UTC), func(w *kernel.World) int {
			Register(w)
			if err := f(w); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		})
	}
	os.Exit(m.Run())
}

// inWorker runs a world test in a process of its own and returns what it printed.
func inWorker(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// testMachine is cka-cp1, with kubeadm's files and the programs of the control plane.
type testMachine struct {
	host  *kernel.Host
	files kernel.Files
	net   *network.Namespace
	etcd  *kernel.Process
}

const flagsEtcd = `--advertise-client-urls=https://192.168.122.11:2379 --cert-file=/etc/kubernetes/pki/etcd/server.crt --client-cert-auth=true --data-dir=/var/lib/etcd --feature-gates=InitialCorruptCheck=true --initial-advertise-peer-urls=https://192.168.122.11:2380 --initial-cluster=cka-cp1=https://192.168.122.11:2380 --key-file=/etc/kubernetes/pki/etcd/server.key --listen-client-urls=https://127.0.0.1:2379,https://192.168.122.11:2379 --listen-metrics-urls=http://127.0.0.1:2381 --listen-peer-urls=https://192.168.122.11:2380 --name=cka-cp1 --peer-cert-file=/etc/kubernetes/pki/etcd/peer.crt --peer-client-cert-auth=true --peer-key-file=/etc/kubernetes/pki/etcd/peer.key --peer-trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt --snapshot-count=10000 --trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt --watch-progress-notify-interval=5s`

const flagsAPIServer = `--advertise-address=192.168.122.11 --allow-privileged=true --authorization-mode=Node,RBAC --client-ca-file=/etc/kubernetes/pki/ca.crt --enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true --etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt --etcd-certfile=/etc/kubernetes/pki/apiserver-etcd-client.crt --etcd-keyfile=/etc/kubernetes/pki/apiserver-etcd-client.key --etcd-servers=https://127.0.0.1:2379 --kubelet-client-certificate=/etc/kubernetes/pki/apiserver-kubelet-client.crt --kubelet-client-key=/etc/kubernetes/pki/apiserver-kubelet-client.key --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --proxy-client-cert-file=/etc/kubernetes/pki/front-proxy-client.crt --proxy-client-key-file=/etc/kubernetes/pki/front-proxy-client.key --requestheader-allowed-names=front-proxy-client --requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User --secure-port=6443 --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file=/etc/kubernetes/pki/sa.pub --service-account-signing-key-file=/etc/kubernetes/pki/sa.key --service-cluster-ip-range=10.96.0.0/12 --tls-cert-file=/etc/kubernetes/pki/apiserver.crt --tls-private-key-file=/etc/kubernetes/pki/apiserver.key`

const flagsControllerManager = `--allocate-node-cidrs=true --authentication-kubeconfig=/etc/kubernetes/controller-manager.conf --authorization-kubeconfig=/etc/kubernetes/controller-manager.conf --bind-address=127.0.0.1 --client-ca-file=/etc/kubernetes/pki/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt --cluster-signing-key-file=/etc/kubernetes/pki/ca.key --controllers=*,bootstrapsigner,tokencleaner --kubeconfig=/etc/kubernetes/controller-manager.conf --leader-elect=true --requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt --root-ca-file=/etc/kubernetes/pki/ca.crt --service-account-private-key-file=/etc/kubernetes/pki/sa.key --service-cluster-ip-range=10.96.0.0/12 --use-service-account-credentials=true`

const flagsScheduler = `--authentication-kubeconfig=/etc/kubernetes/scheduler.conf --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=true`

func newTestMachine(w *kernel.World) *testMachine {
	etcd.Register(w)
	h := w.NewHost("cka-cp1")
	ns := network.NewFabric(w).AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24"))
	ns.Attach(h)
	view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
	if err != nil {
		panic(err)
	}
	m := &testMachine{host: h, files: view.Files(kernel.Root), net: ns}
	for _, n := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		m.put("/usr/local/bin/"+n, string(Executable(n, "v1.35.4")), 0o755)
	}
	m.put("/usr/local/bin/etcd", string(kernel.Executable("etcd")), 0o755)
	m.writePKI()
	return m
}

func (m *testMachine) put(name, data string, mode fs.FileMode) {
	if err := m.files.MkdirAll(path.Dir(name), 0o755); err != nil {
		panic(err)
	}
	if err := m.files.WriteFile(name, []byte(data), mode); err != nil {
		panic(err)
	}
}

func (m *testMachine) get(name string) []byte {
	b, err := m.files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return b
}

// start starts a component as the container runtime would.
func (m *testMachine) start(log *logBuffer, argv ...string) *kernel.Process {
	return m.startIn(log, "/", argv...)
}

func (m *testMachine) startIn(log *logBuffer, dir string, argv ...string) *kernel.Process {
	return m.startSpec(log, kernel.Spec{Dir: dir}, argv...)
}

// startAt starts a process that has run since then already.
func (m *testMachine) startAt(log *logBuffer, since time.Time, argv ...string) *kernel.Process {
	return m.startSpec(log, kernel.Spec{Started: since}, argv...)
}

func (m *testMachine) startSpec(log *logBuffer, given kernel.Spec, argv ...string) *kernel.Process {
	spec := kernel.Spec{Argv: argv, Dir: given.Dir, Started: given.Started, Container: "c-" + argv[0], Env: []string{"PATH=/usr/local/bin"}, Files: m.files, Net: m.net, Stdout: log, Stderr: log, NamespacePID: 1}
	name, err := kernel.LookPath(m.files, "/", "/usr/local/bin", argv[0])
	if err != nil {
		panic(err)
	}
	main, argv, err := m.host.World.Load(m.files, name, argv)
	if err != nil {
		panic(err)
	}
	spec.Argv = argv
	return m.host.Processes.Start(spec, main)
}

// startEtcd starts etcd with kubeadm's flags.
func (m *testMachine) startEtcd() *logBuffer {
	log := &logBuffer{}
	m.etcd = m.start(log, append([]string{"etcd"}, strings.Fields(flagsEtcd)...)...)
	return log
}

// admin is a client with the rights of admin.conf, in a process of its own.
func (m *testMachine) admin() (*kernel.Process, *kubernetes.Clientset) {
	ready := make(chan *kernel.Process)
	p := m.host.Processes.Start(kernel.Spec{Argv: []string{"kubectl"}, Files: m.files, Net: m.net}, func(p *kernel.Process) int {
		ready <- p
		<-p.Context().Done()
		return 0
	})
	<-ready
	c, err := m.config(p, "admin")
	if err != nil {
		panic(err)
	}
	return p, kubernetes.NewForConfigOrDie(c)
}

// config is what a process makes of a kubeconfig in /etc/kubernetes.
func (m *testMachine) config(p *kernel.Process, name string) (*rest.Config, error) {
	c, err := apiclient.Kubeconfig(p, "/etc/kubernetes/"+name+".conf")
	if err == nil {
		c.QPS = -1
	}
	return c, err
}

func waitReady(c *kubernetes.Clientset, limit time.Duration) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		b, err := c.CoreV1().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").Timeout(2 * time.Second).DoRaw(context.Background())
		if last = err; err == nil {
			return nil
		}
		last = fmt.Errorf("%w\n%s", err, b)
	}
	return fmt.Errorf("not ready after %v: %w", limit, last)
}

// logBuffer is a container's log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
	pem  []byte
}

// keys are shared by all certificates of a kind: making RSA keys is slow.
var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// otherKey is a key that belongs to none of the certificates.
func otherKey() []byte {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	b, err := keyutil.MarshalPrivateKeyToPEM(k)
	if err != nil {
		panic(err)
	}
	return b
}

func newAuthority(name string) *authority {
	k := testKey()
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{name}, SubjectKeyId: []byte(name)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &k.PublicKey, k)
	if err != nil {
		panic(err)
	}
	c, _ := x509.ParseCertificate(der)
	return &authority{c, k, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(name string, org []string, ips ...string) []byte {
	t := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: org}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, DNSNames: []string{name, "localhost", "kubernetes"}}
	for _, ip := range ips {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &testKey().PublicKey, a.key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// writePKI writes /etc/kubernetes as kubeadm would.
func (m *testMachine) writePKI() {
	key, err := keyutil.MarshalPrivateKeyToPEM(testKey())
	if err != nil {
		panic(err)
	}
	pub, _ := x509.MarshalPKIXPublicKey(&testKey().PublicKey)
	put := func(name string, b []byte) { m.put("/etc/kubernetes/"+name, string(b), 0o600) }
	pair := func(name string, cert []byte) { put(name+".crt", cert); put(name+".key", key) }
	ca, front, etcdCA := newAuthority("kubernetes"), newAuthority("front-proxy-ca"), newAuthority("etcd-ca")
	pair("pki/ca", ca.pem)
	pair("pki/front-proxy-ca", front.pem)
	pair("pki/etcd/ca", etcdCA.pem)
	pair("pki/etcd/server", etcdCA.issue("cka-cp1", nil, "127.0.0.1", "192.168.122.11"))
	pair("pki/etcd/peer", etcdCA.issue("cka-cp1", nil, "127.0.0.1", "192.168.122.11"))
	pair("pki/apiserver", ca.issue("kube-apiserver", nil, "192.168.122.11", "10.96.0.1", "127.0.0.1"))
	pair("pki/apiserver-kubelet-client", ca.issue("kube-apiserver-kubelet-client", []string{"kubeadm:cluster-admins"}))
	pair("pki/apiserver-etcd-client", etcdCA.issue("kube-apiserver-etcd-client", nil))
	pair("pki/front-proxy-client", front.issue("front-proxy-client", nil))
	put("pki/sa.key", key)
	put("pki/sa.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}))
	for file, id := range map[string]pkix.Name{"admin": {CommonName: "kubernetes-admin", Organization: []string{"system:masters"}}, "controller-manager": {CommonName: "system:kube-controller-manager"}, "scheduler": {CommonName: "system:kube-scheduler"}} {
		c := clientcmdapi.NewConfig()
		c.Clusters["kubernetes"] = &clientcmdapi.Cluster{Server: "https://192.168.122.11:6443", CertificateAuthorityData: ca.pem}
		c.AuthInfos["user"] = &clientcmdapi.AuthInfo{ClientCertificateData: ca.issue(id.CommonName, id.Organization), ClientKeyData: key}
		c.Contexts["x"] = &clientcmdapi.Context{Cluster: "kubernetes", AuthInfo: "user"}
		c.CurrentContext = "x"
		b, err := clientcmd.Write(*c)
		if err != nil {
			panic(err)
		}
		put(file+".conf", b)
	}
}

// lap reports what has been used since the last one.
type lap struct {
	wall int64
	cpu  time.Duration
	sim  time.Time
}

func newLap() *lap { return &lap{kernel.Wall(), cpuTime(), time.Now()} }

// cpuTime is what the host process has used, where /proc says so.
func cpuTime() time.Duration {
	b, _ := os.ReadFile("/proc/self/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func (l *lap) String() string {
	wall := kernel.WallSince(l.wall)
	runtime.GC()
	cpu := cpuTime() - l.cpu
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	s := fmt.Sprintf("simulated %v, wall %v, cpu %v, goroutines %d, heap %d MiB, %s", time.Since(l.sim).Round(time.Millisecond), wall.Round(time.Millisecond), cpu.Round(time.Millisecond), runtime.NumGoroutine(), ms.HeapAlloc>>20, anonymous())
	*l = *newLap()
	return s
}

// anonymous is the host process's anonymous memory, where /proc says so.
func anonymous() string {
	b, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "RssAnon:") {
			return strings.Join(strings.Fields(l), " ")
		}
	}
	return ""
}
