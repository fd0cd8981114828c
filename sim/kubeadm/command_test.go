package kubeadm

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckadrill/sim/kernel"
)

// treeFiles shows a Tree as a machine's files, as far as kubeadm's commands use them.
type treeFiles struct {
	kernel.Files
	t *Tree
}

type info struct {
	fs.FileInfo
	f File
}

func (i info) Name() string               { return path.Base(i.f.Path) }
func (i info) Mode() fs.FileMode          { return i.f.Mode }
func (i info) IsDir() bool                { return i.f.Mode.IsDir() }
func (i info) Type() fs.FileMode          { return i.f.Mode.Type() }
func (i info) Info() (fs.FileInfo, error) { return i, nil }

func (x treeFiles) find(op, name string) (File, error) {
	f, ok := x.t.File(name)
	if !ok {
		return f, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	if f.Target != "" {
		return x.find(op, f.Target)
	}
	return f, nil
}

func (x treeFiles) Stat(name string) (fs.FileInfo, error) {
	f, err := x.find("stat", name)
	return info{f: f}, err
}

func (x treeFiles) ReadFile(name string) ([]byte, error) {
	f, err := x.find("open", name)
	return f.Content, err
}

func (x treeFiles) ReadDir(name string) (l []fs.DirEntry, err error) {
	for _, f := range x.t.Files() {
		if path.Dir(f.Path) == name {
			l = append(l, info{f: f})
		}
	}
	return l, nil
}

func (x treeFiles) MkdirAll(string, fs.FileMode) error { return nil }
func (x treeFiles) Chmod(string, fs.FileMode) error    { return nil }
func (x treeFiles) Chown(string, int, int) error       { return nil }
func (x treeFiles) WriteFile(name string, b []byte, mode fs.FileMode) error {
	x.t.Write(name, mode, bytes.Clone(b))
	return nil
}

// deafNetwork refuses every connection.
type deafNetwork struct{ kernel.Network }

func (deafNetwork) Dial(_ context.Context, _ *kernel.Process, network, address string) (net.Conn, error) {
	if network == "unix" {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: &net.UnixAddr{Net: network, Name: address}, Err: &os.SyscallError{Syscall: "connect", Err: syscall.ENOENT}}
	}
	a := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
	return nil, &net.OpError{Op: "dial", Net: network, Addr: a, Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}
}

func (deafNetwork) Interfaces() []kernel.Interface {
	return []kernel.Interface{{Name: "ens3", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.122.11/24")}}}
}

// runKubeadm runs the program on a machine with the files of t.
func runKubeadm(w *kernel.World, t *Tree, args ...string) (stdout, stderr string, code int) {
	prog, _ := w.Programs.Find("kubeadm")
	var out, errs strings.Builder
	p := w.NewHost("cka-cp1").Processes.Start(kernel.Spec{
		Argv: append([]string{"kubeadm"}, args...), Env: []string{"PATH=/usr/bin", "HOME=/root"}, Files: treeFiles{t: t},
		Net: deafNetwork{}, Stdout: &out, Stderr: &errs,
	}, prog)
	code = p.Wait().ExitCode()
	return out.String(), errs.String(), code
}

func withCommand(t *testing.T, f func(w *kernel.World, cp *Tree)) {
	at(t, func(w *kernel.World) {
		Register(w)
		f(w, build(t, w, recorded()).Trees["cka-cp1"])
	})
}

func TestVersionIsThatOfTheExecutable(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		if out, _, code := runKubeadm(w, cp, "version", "-o", "short"); out != "v1.35.4\n" || code != 0 {
			t.Errorf("%q, exit %d", out, code)
		}
		out, _, _ := runKubeadm(w, cp, "version")
		if !strings.HasPrefix(out, `kubeadm version: &version.Info{Major:"1", Minor:"35", EmulationMajor:"", EmulationMinor:"", MinCompatibilityMajor:"", MinCompatibilityMinor:"", GitVersion:"v1.35.4", `) {
			t.Error(out)
		}
		cp.Write("/usr/bin/kubeadm", 0o755, kernel.VersionedExecutable("kubeadm", "v1.35.9"))
		if out, _, _ := runKubeadm(w, cp, "version", "-o", "short"); out != "v1.35.9\n" {
			t.Errorf("after an upgrade of the package: %q", out)
		}
	})
}

func TestImagesAreThoseOfTheVersion(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		want := "registry.k8s.io/kube-apiserver:v1.35.4\nregistry.k8s.io/kube-controller-manager:v1.35.4\nregistry.k8s.io/kube-scheduler:v1.35.4\n" +
			"registry.k8s.io/kube-proxy:v1.35.4\nregistry.k8s.io/coredns/coredns:v1.13.1\nregistry.k8s.io/pause:3.10.1\nregistry.k8s.io/etcd:3.6.6-0\n"
		if out, errs, _ := runKubeadm(w, cp, "config", "images", "list", "--kubernetes-version", "v1.35.4"); out != want || errs != "" {
			t.Errorf("%s%s", out, errs)
		}
	})
}

func TestWhatIsNotSimulatedSaysSo(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		out, errs, code := runKubeadm(w, cp, "version", "--rootfs", "/mnt")
		if code != 1 || out != "" || errs != "error: ckadrill does not simulate kubeadm --rootfs yet\n" {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		if out, _, code := runKubeadm(w, cp, "upgrade", "plan", "--help"); code != 0 || !strings.Contains(out, "kubeadm upgrade plan [version] [flags]") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
}

func TestErrorsAreKubeadms(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		_, errs, code := runKubeadm(w, cp, "certs", "renew", "nosuch")
		if code != 1 || errs != "error: unknown command \"nosuch\" for \"kubeadm certs renew\"\nTo see the stack trace of this error execute with --v=5 or higher\n" {
			t.Errorf("exit %d: %s", code, errs)
		}
		_, errs, _ = runKubeadm(w, cp, "token", "list")
		if want := `dial tcp 192.168.122.11:6443: connect: connection refused`; !strings.Contains(errs, want) {
			t.Errorf("no %q in %s", want, errs)
		}
		_, errs, _ = runKubeadm(w, cp, "token", "list", "--kubeconfig", "/nosuch")
		if want := "error: failed to load admin kubeconfig: open /nosuch: no such file or directory\n"; !strings.HasPrefix(errs, want) {
			t.Errorf("%s, want %s", errs, want)
		}
	})
}

func TestCertificatesWithoutACluster(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		out, errs, code := runKubeadm(w, cp, "certs", "check-expiration")
		want := `[check-expiration] Reading configuration from the "kubeadm-config" ConfigMap in namespace "kube-system"...
[check-expiration] Use 'kubeadm init phase upload-config kubeadm --config your-config-file' to re-upload it.
[check-expiration] Error reading configuration from the Cluster. Falling back to default configuration

CERTIFICATE                EXPIRES                  RESIDUAL TIME   CERTIFICATE AUTHORITY   EXTERNALLY MANAGED
admin.conf                 Dec 01, 2027 16:04 UTC   364d            ca                      no      
apiserver                  Dec 01, 2027 16:04 UTC   364d            ca                      no      
apiserver-etcd-client      Dec 01, 2027 16:04 UTC   364d            etcd-ca                 no      
apiserver-kubelet-client   Dec 01, 2027 16:04 UTC   364d            ca                      no      
controller-manager.conf    Dec 01, 2027 16:04 UTC   364d            ca                      no      
etcd-healthcheck-client    Dec 01, 2027 16:04 UTC   364d            etcd-ca                 no      
etcd-peer                  Dec 01, 2027 16:04 UTC   364d            etcd-ca                 no      
etcd-server                Dec 01, 2027 16:04 UTC   364d            etcd-ca                 no      
front-proxy-client         Dec 01, 2027 16:04 UTC   364d            front-proxy-ca          no      
scheduler.conf             Dec 01, 2027 16:04 UTC   364d            ca                      no      
super-admin.conf           Dec 01, 2027 16:04 UTC   364d            ca                      no      

CERTIFICATE AUTHORITY   EXPIRES                  RESIDUAL TIME   EXTERNALLY MANAGED
ca                      Nov 28, 2036 16:04 UTC   9y              no      
etcd-ca                 Nov 28, 2036 16:04 UTC   9y              no      
front-proxy-ca          Nov 28, 2036 16:04 UTC   9y              no      
`
		if out != want || errs != "" || code != 0 {
			t.Errorf("exit %d: %s\n%s", code, errs, out)
		}
	})
}

func TestRenewReplacesCertificates(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		time.Sleep(30 * 24 * time.Hour)
		old := map[string]string{}
		for _, f := range cp.Files() {
			old[f.Path] = string(f.Content)
		}
		out, errs, code := runKubeadm(w, cp, "certs", "renew", "apiserver")
		if code != 0 || !strings.HasSuffix(out, "\n\ncertificate for serving the Kubernetes API renewed\n") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		var changed []string
		for _, f := range cp.Files() {
			if old[f.Path] != string(f.Content) {
				changed = append(changed, f.Path)
			}
		}
		if got, want := strings.Join(changed, " "), certificatesDir+"/apiserver.crt "+certificatesDir+"/apiserver.key"; got != want {
			t.Errorf("changed %s, want %s", got, want)
		}
		c := parseCert(t, content(t, cp, certificatesDir+"/apiserver.crt"))
		if want := time.Now().Add(365 * 24 * time.Hour); c.NotAfter.Sub(want).Abs() > time.Minute {
			t.Errorf("valid until %s, want %s", c.NotAfter, want)
		}
		if c.Subject.CommonName != "kube-apiserver" || len(c.DNSNames) != 5 || len(c.IPAddresses) != 2 {
			t.Errorf("%v for %v and %v", c.Subject, c.DNSNames, c.IPAddresses)
		}

		out, _, _ = runKubeadm(w, cp, "certs", "renew", "all")
		if !strings.Contains(out, "certificate embedded in the kubeconfig file for the admin to use and for kubeadm itself renewed\n") ||
			!strings.HasSuffix(out, "\nDone renewing certificates. You must restart the kube-apiserver, kube-controller-manager, kube-scheduler and etcd, so that they can use the new certificates.\n") {
			t.Error(out)
		}
		if conf := content(t, cp, kubernetesDir+"/admin.conf"); conf == old[kubernetesDir+"/admin.conf"] || strings.Contains(conf, authProvider) {
			t.Errorf("admin.conf:\n%s", conf)
		}
	})
}

func TestGeneratedTokens(t *testing.T) {
	withCommand(t, func(w *kernel.World, cp *Tree) {
		out, errs, code := runKubeadm(w, cp, "token", "generate")
		if code != 0 || !regexp.MustCompile(`\A[a-z0-9]{6}\.[a-z0-9]{16}\n\z`).MatchString(out) {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	})
}
