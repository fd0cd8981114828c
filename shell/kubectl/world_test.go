package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"ckadrill/sim/controlplane"
	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/bash"
)

// A test of a world runs in a worker: the test binary again, with the test's name in the environment. Upstream leaves
// goroutines behind, so the bubble cannot be ended inside "go test", and one bubble is all that a process can have.
const workerEnv = "CKADRILL_TEST_WORLD"

// profile is where a world test may write what it costs, nil if nobody asked.
var profile io.Writer

var worldTests = map[string]func(l *lab) error{}

func TestMain(m *testing.M) {
	name := os.Getenv(workerEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	f, ok := worldTests[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such world test:", name)
		os.Exit(2)
	}
	if file := os.Getenv("CKADRILL_TEST_PROFILE"); file != "" { // for go tool pprof
		f, err := os.Create(file)
		if err != nil {
			panic(err)
		}
		profile = f
	}
	kernel.Run(1, time.Date(2026, 12, 1, 16, 4, 30, 0, time.UTC), func(w *kernel.World) int {
		l, err := newLab(w)
		if err == nil {
			err = f(l)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	})
}

// inWorker runs a world test in a process of its own and returns what it printed.
func inWorker(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// lab is cka-cp1 with kubeadm's files, a shell and the few commands that the recordings use.
type lab struct {
	w     *kernel.World
	host  *kernel.Host
	files kernel.Files
	net   *network.Namespace
}

func newLab(w *kernel.World) (*lab, error) {
	etcd.Register(w)
	controlplane.Register(w)
	bash.Register(w.Programs)
	Register(w)
	h := w.NewHost("cka-cp1")
	ns := network.NewFabric(w).AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24"))
	ns.Attach(h)
	view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
	if err != nil {
		return nil, err
	}
	l := &lab{w: w, host: h, files: view.Files(kernel.Root), net: ns}
	layout, err := kubeadm.Build(w, kubeadm.Cluster{
		Version: "v1.35.4", PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/12"), CNI: kubeadm.Bridge,
		Machines: []kubeadm.Machine{{Name: "cka-cp1", Address: netip.MustParseAddr("192.168.122.11"), Role: kubeadm.ControlPlane, PodCIDR: netip.MustParsePrefix("10.244.0.0/24")}},
	})
	if err != nil {
		return nil, err
	}
	if err := layout.Trees["cka-cp1"].Install(l.files); err != nil {
		return nil, err
	}
	for _, n := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		l.put("/usr/local/bin/"+n, string(controlplane.Executable(n, "v1.35.4")), 0o755)
	}
	l.put("/usr/local/bin/etcd", string(kernel.Executable("etcd")), 0o755)
	l.put("/usr/bin/kubectl", string(Executable("v1.35.4")), 0o755)
	for _, n := range []string{"bash", "sh"} {
		l.put("/usr/bin/"+n, string(kernel.Executable("bash")), 0o755)
	}
	l.put("/usr/bin/stdbuf-missing", "", 0o644)
	l.commands()
	l.files.MkdirAll("/tmp", 0o777)
	l.files.MkdirAll("/root", 0o700)
	b, err := l.files.ReadFile("/etc/kubernetes/admin.conf")
	if err != nil {
		return nil, err
	}
	l.put("/root/.kube/config", string(b), 0o600)
	return l, nil
}

func (l *lab) put(name, data string, mode fs.FileMode) {
	if err := l.files.MkdirAll(path.Dir(name), 0o755); err != nil {
		panic(err)
	}
	if err := l.files.WriteFile(name, []byte(data), mode); err != nil {
		panic(err)
	}
}

// commands are stand-ins for the few programs of other rooms that the recordings use.
func (l *lab) commands() {
	for name, f := range map[string]func(p *kernel.Process) error{
		"cat": func(p *kernel.Process) error {
			if len(p.Argv) == 1 {
				_, err := io.Copy(p.Stdout, p.Stdin)
				return err
			}
			for _, a := range p.Argv[1:] {
				b, err := p.ReadFile(a)
				if err != nil {
					return err
				}
				p.Stdout.Write(b)
			}
			return nil
		},
		"mkdir": func(p *kernel.Process) error {
			for _, a := range p.Argv[1:] {
				if a != "-p" {
					p.Files.MkdirAll(p.Path(a), 0o755)
				}
			}
			return nil
		},
		"cp": func(p *kernel.Process) error {
			b, err := p.ReadFile(p.Argv[1])
			if err != nil {
				return err
			}
			return p.Files.WriteFile(p.Path(p.Argv[2]), b, 0o644)
		},
		"chmod": func(p *kernel.Process) error { return p.Files.Chmod(p.Path(p.Argv[2]), 0o755) },
		"head": func(p *kernel.Process) error {
			n := 10
			for _, a := range p.Argv[1:] {
				fmt.Sscanf(strings.TrimPrefix(strings.TrimPrefix(a, "-n"), "-"), "%d", &n)
			}
			b, err := io.ReadAll(p.Stdin)
			lines := strings.SplitAfter(string(b), "\n")
			p.Printf("%s", strings.Join(lines[:min(n, len(lines))], ""))
			return err
		},
		"tail": func(p *kernel.Process) error {
			n := 10
			for _, a := range p.Argv[1:] {
				fmt.Sscanf(strings.TrimPrefix(strings.TrimPrefix(a, "-n"), "-"), "%d", &n)
			}
			b, err := io.ReadAll(p.Stdin)
			lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
			p.Printf("%s\n", strings.Join(lines[max(0, len(lines)-n):], ""))
			return err
		},
	} {
		l.w.Programs.Register("test-"+name, func(p *kernel.Process) int {
			if err := f(p); err != nil {
				p.Errorf("%s: %v\n", name, err)
				return 1
			}
			return 0
		})
		l.put("/usr/bin/"+name, string(kernel.Executable("test-"+name)), 0o755)
	}
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *buffer) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *buffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (l *lab) start(spec kernel.Spec) *kernel.Process {
	if spec.Env == nil {
		spec.Env = []string{"PATH=/usr/local/bin:/usr/bin", "HOME=/root"}
	}
	if spec.Dir == "" {
		spec.Dir = "/root"
	}
	spec.Files, spec.Net = l.files, l.net
	name, err := kernel.LookPath(l.files, "/", "/usr/local/bin:/usr/bin", spec.Argv[0])
	if err != nil {
		panic(err)
	}
	main, argv, err := l.w.Load(l.files, name, spec.Argv)
	if err != nil {
		panic(err)
	}
	spec.Argv = argv
	return l.host.Processes.Start(spec, main)
}

// run runs one program and returns what it printed and its exit code.
func (l *lab) run(stdin string, argv ...string) (string, int) {
	o := &buffer{}
	p := l.start(kernel.Spec{Argv: argv, Stdin: strings.NewReader(stdin), Stdout: o, Stderr: o})
	s := p.Wait()
	return o.String(), s.ExitCode()
}

// controlPlane starts etcd and the given components of the control plane with the flags of their manifests, and waits
// until the API serves.
func (l *lab) controlPlane(names ...string) error {
	logs := map[string]*buffer{}
	for _, n := range append([]string{"etcd", "kube-apiserver"}, names...) {
		b, err := l.files.ReadFile("/etc/kubernetes/manifests/" + n + ".yaml")
		if err != nil {
			return err
		}
		var argv []string
		in := false
		for _, line := range strings.Split(string(b), "\n") {
			line = strings.TrimSpace(line)
			a, ok := strings.CutPrefix(line, "- ")
			switch {
			case line == "- command:" || line == "command:":
				in = true
			case in && ok:
				argv = append(argv, a)
			case in:
				in = false
			}
		}
		logs[n] = &buffer{}
		l.start(kernel.Spec{Argv: argv, Stdout: logs[n], Stderr: logs[n], NamespacePID: 1, Dir: "/"})
	}
	for range 300 {
		if _, code := l.run("", "kubectl", "get", "--raw", "/readyz"); code == 0 {
			l.run("", "kubectl", "--kubeconfig=/etc/kubernetes/super-admin.conf", "create", "clusterrolebinding", "kubeadm:cluster-admins", "--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins")
			if len(names) == 0 {
				return nil
			}
			if _, code := l.run("", "kubectl", "get", "sa", "default"); code == 0 {
				return nil
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	out, _ := l.run("", "kubectl", "get", "sa", "default")
	raw, _ := l.run("", "kubectl", "get", "--raw", "/readyz?verbose")
	out += raw
	for n, b := range logs {
		s := b.String()
		out += fmt.Sprintf("== %s\n%s", n, s[max(0, len(s)-3000):])
	}
	return fmt.Errorf("the API is not ready:\n%s", out)
}
