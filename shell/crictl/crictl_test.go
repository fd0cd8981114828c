package crictl

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	"ckadrill/sim/runtime"
)

type node struct {
	t *testing.T
	w *kernel.World
	m *machine.Machine
	c *runtime.Containerd
}

// inNode runs f on a machine with containerd, a Pod "kube-scheduler-cka-cp1" whose container says two lines, and one that
// has exited. Both are on the host's network, so no CNI is needed.
func inNode(t *testing.T, f func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		fabric := network.NewFabric(w)
		fabric.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
		m := machine.New(w, "cka-cp1", machine.Options{})
		space := fabric.AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24"))
		space.Attach(m.Host())
		m.SetNetwork(space)
		runtime.Register(w)
		Register(w)
		w.Programs.Register("ash", func(p *kernel.Process) int {
			switch p.Argv[len(p.Argv)-1] {
			case "two":
				p.Printf("one\n")
				time.Sleep(10 * time.Second)
				p.Errorf("two\n")
				<-p.Context().Done()
			case "hostname":
				p.Printf("%s\n", p.HostName())
			case "fail":
				return 3
			}
			return 0
		})
		n := &node{t, w, m, runtime.New(m, runtime.Options{})}
		files := m.Files(kernel.Root)
		files.WriteFile("/usr/bin/containerd", kernel.Executable("containerd"), 0o755)
		files.WriteFile("/usr/bin/crictl", kernel.Executable("crictl"), 0o755)
		files.WriteFile("/etc/crictl.yaml", []byte("runtime-endpoint: unix:///run/containerd/containerd.sock\n"), 0o644)
		files.WriteFile("/usr/lib/systemd/system/containerd.service", []byte("[Service]\nExecStart=/usr/bin/containerd\nType=notify\nKillMode=process\n"), 0o644)
		for _, i := range []string{"registry.k8s.io/pause:3.10.1", "busybox:1.36", "nginx:1.27", "registry.k8s.io/kube-scheduler:v1.35.4", "registry.k8s.io/etcd:3.6.6-0"} {
			n.c.AddImage(i)
		}
		m.Boot()
		if err := m.Systemd().Start("containerd.service"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			m.Crash()
			time.Sleep(time.Minute)
		}()
		n.pod("kube-scheduler-cka-cp1", "kube-scheduler", "kube-system", "two")
		n.pod("ended", "c", "default", "fail")
		time.Sleep(20 * time.Second)
		f(n)
	})
}

func (n *node) pod(pod, name, namespace, script string) {
	n.t.Helper()
	p, err := n.m.Start(kernel.Spec{Argv: []string{"containerd", "--version"}})
	if err != nil {
		n.t.Fatal(err)
	}
	p.Wait()
	client := n.m.Host().Processes.Start(kernel.Spec{Argv: []string{"client"}, Files: n.m.Files(kernel.Root), Net: network.Of(n.m.Host())}, func(p *kernel.Process) int {
		r, _, err := runtime.Connect(p, "unix:///run/containerd/containerd.sock")
		if err != nil {
			n.t.Error(err)
			return 1
		}
		ctx := context.Background()
		labels := map[string]string{"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": namespace, "io.kubernetes.container.name": name}
		sc := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: pod, Namespace: namespace, Uid: "u-" + pod}, LogDirectory: "/var/log/pods/" + pod, Labels: labels,
			Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}}}
		sb, err := r.RunPodSandbox(ctx, sc, "")
		if err != nil {
			n.t.Error(err)
			return 1
		}
		i := n.image("busybox:1.36")
		id, err := r.CreateContainer(ctx, sb, &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: 2}, Image: &runtimeapi.ImageSpec{Image: i, UserSpecifiedImage: "busybox:1.36"},
			Command: []string{"sh", "-c", script}, LogPath: name + "/2.log", Labels: labels}, sc)
		if err == nil {
			err = r.StartContainer(ctx, id)
		}
		if err != nil {
			n.t.Error(err)
		}
		return 0
	})
	client.Wait()
}

func (n *node) image(name string) string {
	out, _ := n.run("crictl inspecti -o go-template --template {{.status.id}} " + name)
	return strings.TrimSpace(out)
}

// run runs a command line as root and returns what it printed, and its exit code.
func (n *node) run(line string) (string, int) { return n.runAs(kernel.Root, line) }

func (n *node) runAs(c kernel.Credential, line string) (string, int) {
	n.t.Helper()
	var out bytes.Buffer
	p, err := n.m.Start(kernel.Spec{Argv: strings.Fields(line), Cred: c, Stdout: &out, Stderr: &out, Log: discard{}})
	if err != nil {
		n.t.Fatal(err)
	}
	code := p.Wait().ExitCode()
	return out.String(), code
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// ids and dates differ from run to run.
var volatile = regexp.MustCompile(`[0-9a-f]{64}|[0-9a-f]{13}|time="[^"]*"`)

func TestOutput(t *testing.T) {
	inNode(t, func(n *node) {
		for _, c := range []struct {
			line string
			code int
			want string
		}{
			{"crictl version", 0, "Version:  0.1.0\nRuntimeName:  containerd\nRuntimeVersion:  v2.4.1\nRuntimeApiVersion:  v1\n"},
			{"crictl ps", 0, "CONTAINER           IMAGE               CREATED             STATE               NAME                ATTEMPT             POD ID              POD                      NAMESPACE\nID       ID       20 seconds ago      Running             kube-scheduler      2                   ID       kube-scheduler-cka-cp1   kube-system\n"},
			{"crictl ps -a --name ^c$", 0, "CONTAINER           IMAGE               CREATED             STATE               NAME                ATTEMPT             POD ID              POD                 NAMESPACE\nID       ID       20 seconds ago      Exited              c                   2                   ID       ended               default\n"},
			{"crictl pods --name ended", 0, "POD ID              CREATED             STATE               NAME                NAMESPACE           ATTEMPT             RUNTIME\nID       20 seconds ago      Ready               ended               default             0                   (default)\n"},
			{"crictl images", 0, "IMAGE                            TAG                 IMAGE ID            SIZE\ndocker.io/library/busybox        1.36                ID       2.16MB\ndocker.io/library/nginx          1.27                ID       72.4MB\nregistry.k8s.io/etcd             3.6.6-0             ID       74.5MB\nregistry.k8s.io/kube-scheduler   v1.35.4             ID       17.2MB\nregistry.k8s.io/pause            3.10.1              ID       320kB\n"},
			{"crictl logs --tail=1 nosuch", 1, "TIME level=fatal msg=\"rpc error: code = NotFound desc = an error occurred when try to find container \\\"nosuch\\\": not found\"\n"},
			{"crictl inspect nosuch", 1, "TIME level=fatal msg=\"get the status of containers: get container status: rpc error: code = NotFound desc = an error occurred when try to find container \\\"nosuch\\\": not found\"\n"},
			{"crictl rm nosuch", 1, "getting container status \"nosuch\": rpc error: code = NotFound desc = an error occurred when try to find container \"nosuch\": not found\n"},
			{"crictl rmi nosuch", 1, "no such image nosuch\n"},
			{"crictl stop nosuch", 0, "nosuch\n"},
			{"crictl stop", 1, "you must specify at least one CONTAINER-ID or use --all\n"},
			{"crictl foo", 3, "No help topic for 'foo'\n"},
			{"crictl --runtime-endpoint unix:///nosuch.sock ps", 1, "TIME level=fatal msg=\"validate service connection: validate CRI v1 runtime API for endpoint \\\"unix:///nosuch.sock\\\": rpc error: code = Unavailable desc = connection error: desc = \\\"transport: Error while dialing: dial unix /nosuch.sock: connect: no such file or directory\\\"\"\n"},
			{"crictl pull nginx:nosuch", 1, "TIME level=fatal msg=\"pulling image: rpc error: code = NotFound desc = failed to pull and unpack image \\\"docker.io/library/nginx:nosuch\\\": failed to resolve image: docker.io/library/nginx:nosuch: not found\"\n"},
			{"crictl pull nosuchrepo/app:1", 1, "TIME level=fatal msg=\"pulling image: failed to pull and unpack image \\\"docker.io/nosuchrepo/app:1\\\": failed to resolve image: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed\"\n"},
			{"crictl pull nginx:1.28", 0, "Image is up to date for sha256:ID\n"},
			{"crictl rmi nginx:1.28", 0, "Deleted: docker.io/library/nginx:1.28\n"},
			{"crictl exec --name kube-scheduler -q sh -c hostname", 0, "cka-cp1\n"},
			{"crictl completion bash", 1, "TIME level=fatal msg=\"ckadrill does not simulate crictl completion yet\"\n"},
		} {
			out, code := n.run(c.line)
			out = volatile.ReplaceAllStringFunc(out, func(s string) string {
				if strings.HasPrefix(s, "time=") {
					return "TIME"
				}
				return "ID"
			})
			if diff := cmp.Diff(c.want, out); diff != "" || code != c.code {
				t.Errorf("%s: exit %d\n%s", c.line, code, diff)
			}
		}
	})
}

func TestLogs(t *testing.T) {
	inNode(t, func(n *node) {
		out, _ := n.run("crictl ps -q")
		id := strings.TrimSpace(out)
		for line, want := range map[string]string{
			"crictl logs ":                        "one\ntwo\n",
			"crictl logs --tail=1 ":               "two\n",
			"crictl logs --tail 0 ":               "",
			"crictl logs --since=15s ":            "two\n",
			"crictl logs -s stdout ":              "one\n",
			"crictl logs --limit-bytes 5 ":        "one\nt",
			"crictl logs -t --tail=1 --since=1s ": "",
		} {
			if out, code := n.run(line + id); out != want || code != 0 {
				t.Errorf("%s: %q, exit %d", line, out, code)
			}
		}
		out, _ = n.run("crictl logs -t " + id)
		if !regexp.MustCompile(`^2000-01-01T00:\d\d:\d\d\.\d{9}Z one\n2000-01-01T00:\d\d:\d\d\.\d{9}Z two\n$`).MatchString(out) {
			t.Errorf("timestamps %q", out)
		}
		var follow bytes.Buffer
		p, err := n.m.Start(kernel.Spec{Argv: []string{"crictl", "logs", "-f", id}, Stdout: &follow, Stderr: &follow})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !p.Alive() {
			t.Errorf("logs -f ended: %s", follow.String())
		}
		p.Signal(kernel.SIGINT)
		if code := p.Wait().ExitCode(); code != 0 || follow.String() != "one\ntwo\n" {
			t.Errorf("logs -f: exit %d, %q", code, follow.String())
		}
	})
}

func TestInspect(t *testing.T) {
	inNode(t, func(n *node) {
		out, _ := n.run("crictl ps -q")
		out, code := n.run("crictl inspect " + strings.TrimSpace(out))
		var v struct {
			Info struct {
				Pid         int
				RuntimeSpec struct {
					Process struct{ Args []string }
					Linux   struct{ Namespaces []struct{ Type string } }
				}
				Config map[string]any
			}
			Status struct {
				State, StartedAt, FinishedAt, LogPath, ImageRef string
				Image                                           struct{ Image string }
			}
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
			t.Fatalf("%v, exit %d: %s", err, code, out)
		}
		if v.Status.State != "CONTAINER_RUNNING" || v.Status.FinishedAt != "0001-01-01T00:00:00Z" || v.Status.Image.Image != "docker.io/library/busybox:1.36" ||
			v.Status.LogPath != "/var/log/pods/kube-scheduler-cka-cp1/kube-scheduler/2.log" || v.Info.Pid == 0 || strings.Join(v.Info.RuntimeSpec.Process.Args, " ") != "sh -c two" || v.Info.Config["log_path"] != "kube-scheduler/2.log" {
			t.Errorf("%+v", v)
		}
		if !strings.HasPrefix(out, "{\n  \"info\": {\n    \"config\": {\n") {
			t.Errorf("%s", out[:100])
		}
		out, _ = n.run("crictl info")
		if !strings.Contains(out, `"lastCNILoadStatus": "cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config"`) || !strings.Contains(out, `"reason": "NetworkPluginNotReady"`) {
			t.Error(out)
		}
		out, _ = n.run("crictl inspectp -o yaml")
		if !strings.Contains(out, "status:\n    annotations: {}\n") {
			t.Error(out)
		}
	})
}

func TestWhoMayAndWhoListens(t *testing.T) {
	inNode(t, func(n *node) {
		out, code := n.runAs(kernel.Credential{UID: 1000, GID: 1000}, "crictl ps")
		if code != 1 || !strings.Contains(out, `dial unix /run/containerd/containerd.sock: connect: permission denied`) {
			t.Errorf("as a user: %d %s", code, out)
		}
		n.m.Files(kernel.Root).Remove("/etc/crictl.yaml")
		out, code = n.run("crictl ps -q")
		for _, want := range []string{`level=warning msg="Config \"/etc/crictl.yaml\" does not exist, trying next: \"/usr/bin/crictl.yaml\""`,
			`level=warning msg="runtime connect using default endpoints: [unix:///run/containerd/containerd.sock unix:///run/crio/crio.sock unix:///var/run/cri-dockerd.sock]. As the default settings are now deprecated, you should set the endpoint instead."`,
			`level=warning msg="Image connect using default endpoints: [`} {
			if !strings.Contains(out, want) || code != 0 {
				t.Errorf("exit %d, %s not in %s", code, want, out)
			}
		}
		if err := n.m.Systemd().Stop("containerd.service"); err != nil {
			t.Fatal(err)
		}
		out, code = n.run("crictl pods")
		if code != 1 || !strings.Contains(out, `level=error msg="validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable`) ||
			!strings.Contains(out, `level=fatal msg="validate service connection: validate CRI v1 runtime API for endpoint \"unix:///var/run/cri-dockerd.sock\"`) {
			t.Errorf("exit %d %s", code, out)
		}
	})
}

func TestHelp(t *testing.T) {
	inNode(t, func(n *node) {
		out, code := n.run("crictl")
		for _, want := range []string{"NAME:\n   crictl - client for CRI\n\nUSAGE:\n   crictl [global options] command [command options]\n\nVERSION:\n   1.35.0\n\nCOMMANDS:\n   attach                 Attach to a running container\n",
			"   images, image, img     List images\n", `(default: "/etc/crictl.yaml") [$CRI_CONFIG_FILE]`, "   --version, -v                              print the version\n"} {
			if !strings.Contains(out, want) || code != 0 {
				t.Errorf("exit %d, no %q in %s", code, want, out)
			}
		}
		out, code = n.run("crictl stats --name x")
		if code != 1 || !strings.HasPrefix(out, "Incorrect Usage: flag provided but not defined: -name\n\nNAME:\n   crictl stats - List container(s) resource usage statistics\n\nUSAGE:\n   crictl stats [command options] [ID]\n") ||
			!strings.HasSuffix(out, "level=fatal msg=\"flag provided but not defined: -name\"\n") {
			t.Errorf("exit %d %s", code, out)
		}
	})
}
