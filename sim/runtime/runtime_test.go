package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
)

const endpoint = "unix:///var/run/containerd/containerd.sock"

// node is a machine with a containerd, a CNI of two plugins and a client.
type node struct {
	t      *testing.T
	w      *kernel.World
	m      *machine.Machine
	c      *Containerd
	fabric *network.Fabric
	log    bytes.Buffer
	daemon *kernel.Process
	client *kernel.Process
}

const bridgeConf = `{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"bridge","bridge":"cni0","ipam":{"type":"host-local"}},{"type":"portmap","capabilities":{"portMappings":true}}]}`

// testPrograms are the programs of the world that containers of these tests run.
func testPrograms(w *kernel.World) {
	Register(w)
	idle := func(p *kernel.Process) int { <-p.Context().Done(); return 0 }
	w.Programs.Register("sleep", idle)
	w.Programs.Register("ash", testShell)
	w.Programs.Register("dash", testShell)
	w.Programs.Register("cni-loopback", func(p *kernel.Process) int {
		if p.Getenv("CNI_COMMAND") == "ADD" {
			n := network.Of(p.Host()).Namespace(p.Getenv("CNI_NETNS"))
			n.ChangeLink("lo", func(l *network.Link) {
				l.Up, l.Addresses = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}
			})
			p.Printf(`{"cniVersion":"0.3.1","interfaces":[{"name":"lo","mac":"00:00:00:00:00:00","sandbox":%q}],"ips":[{"version":"4","interface":0,"address":"127.0.0.1/8"}],"dns":{}}`, p.Getenv("CNI_NETNS"))
		}
		return 0
	})
	w.Programs.Register("cni-bridge", func(p *kernel.Process) int {
		host := network.Of(p.Host())
		if p.Getenv("CNI_COMMAND") != "ADD" {
			return 0
		}
		if strings.Contains(p.Getenv("CNI_ARGS"), "K8S_POD_NAME=refused") {
			p.Printf(`{"code":11,"msg":"no IP addresses available in range set"}`)
			return 1
		}
		addr := fmt.Sprintf("10.244.1.%d/24", len(host.Namespaces())+1)
		n := host.Namespace(p.Getenv("CNI_NETNS"))
		host.AddLink(network.Link{Name: "cni0", Kind: network.Bridge, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.1/24")}})
		host.AddVeth("veth"+p.Getenv("CNI_CONTAINERID")[:8], "cni0", 1500, n, "eth0")
		n.ChangeLink("eth0", func(l *network.Link) { l.Addresses = []netip.Prefix{netip.MustParsePrefix(addr)} })
		p.Printf(`{"cniVersion":"1.0.0","interfaces":[{"name":"cni0"},{"name":"eth0","sandbox":%q}],"ips":[{"interface":1,"address":%q,"gateway":"10.244.1.1"}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{}}`, p.Getenv("CNI_NETNS"), addr)
		return 0
	})
	w.Programs.Register("cni-portmap", func(p *kernel.Process) int {
		var in struct{ PrevResult json.RawMessage }
		json.NewDecoder(p.Stdin).Decode(&in)
		p.Stdout.Write(in.PrevResult)
		return 0
	})
}

// testShell understands a few words: say, fail, loop, sleep.
func testShell(p *kernel.Process) int {
	for _, c := range strings.Split(p.Argv[len(p.Argv)-1], ";") {
		f := strings.Fields(c)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "say":
			p.Printf("%s\n", strings.Join(f[1:], " "))
		case "part":
			p.Printf("%s", strings.Join(f[1:], " "))
		case "err":
			p.Errorf("%s\n", strings.Join(f[1:], " "))
		case "exit":
			var n int
			fmt.Sscan(f[1], &n)
			return n
		case "trap":
			p.Notify(kernel.SIGTERM, func() { p.Exit(0) })
		case "env":
			p.Printf("%s\n", strings.Join(p.Environ(), " "))
		case "id":
			p.Printf("%d %d %v %d\n", p.Cred.UID, p.Cred.GID, p.Cred.Groups, p.OwnPID())
		case "cat":
			b, err := p.ReadFile(f[1])
			if err != nil {
				p.Errorf("cat: %v\n", err)
				return 1
			}
			p.Stdout.Write(b)
		case "write":
			if err := p.Files.WriteFile(p.Path(f[1]), []byte(strings.Join(f[2:], " ")+"\n"), 0o644); err != nil {
				p.Errorf("%v\n", err)
				return 1
			}
		case "copy":
			b, err := p.ReadFile(f[1])
			if err == nil {
				err = p.Files.WriteFile(p.Path(f[2]), b, 0o644)
			}
			if err != nil {
				p.Errorf("%v\n", err)
				return 1
			}
		case "eat":
			p.SetMemory(1 << 30)
		case "hostname":
			p.Printf("%s\n", p.HostName())
		case "ticks": // a line every ten seconds, as a script would
			p.Files.Mkdir("/ticks", 0o755)
			for i := 1; ; i++ {
				p.Printf("tick %d\n", i)
				if o, err := p.Files.OpenFile("/ticks/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err == nil {
					fmt.Fprintf(o, "%d\n", i)
					o.Close()
				}
				if p.Sleep(p.ConsumeLag(10*time.Second)) != nil {
					return 0
				}
			}
		case "wait":
			<-p.Context().Done()
		case "readline":
			line, err := p.TTY.ReadLine("$ ", nil)
			p.Printf("got %q %v\n", line, err)
		}
	}
	return 0
}

func inNode(t *testing.T, f func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, kernel.NewWorld(1))
		files := n.m.Files(kernel.Root)
		files.MkdirAll("/etc/cni/net.d", 0o755)
		files.WriteFile("/etc/cni/net.d/10-bridge.conflist", []byte(bridgeConf), 0o644)
		files.MkdirAll("/opt/cni/bin", 0o755)
		files.MkdirAll("/usr/bin", 0o755)
		files.WriteFile("/usr/bin/containerd", kernel.Executable("containerd"), 0o755)
		files.WriteFile("/usr/lib/systemd/system/containerd.service", []byte("[Unit]\nDescription=containerd container runtime\n[Service]\nExecStart=/usr/bin/containerd\nType=notify\nKillMode=process\n"), 0o644)
		for _, p := range []string{"loopback", "bridge", "portmap"} {
			files.WriteFile("/opt/cni/bin/"+p, kernel.Executable("cni-"+p), 0o755)
		}
		n.c.AddImage("registry.k8s.io/pause:3.10.1")
		n.c.AddImage("busybox:1.36")
		n.m.Boot()
		n.start()
		defer n.kill()
		f(n)
	})
}

func newNode(t *testing.T, w *kernel.World) *node {
	n := &node{t: t, w: w}
	n.fabric = network.NewFabric(w)
	n.fabric.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
	n.m = machine.New(w, "cka-w1", machine.Options{})
	space := n.fabric.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))
	space.Attach(n.m.Host())
	n.m.SetNetwork(space)
	n.m.OnPower(func(on bool) {
		if on {
			space.PowerOn()
		} else {
			space.PowerOff()
		}
	})
	n.c = New(n.m, Options{})
	testPrograms(w)
	return n
}

// start starts containerd by systemd, and a client.
func (n *node) start() {
	n.t.Helper()
	if err := n.m.Systemd().Start("containerd.service"); err != nil {
		n.t.Fatalf("%v\n%s", err, n.journal())
	}
	n.enter()
}

// enter finds the running containerd and starts a client.
func (n *node) enter() {
	n.t.Helper()
	n.daemon = nil
	for _, p := range n.m.Host().Processes.List() {
		if p.Name() == "containerd" {
			n.daemon = p
		}
	}
	if n.daemon == nil {
		n.t.Fatalf("no containerd runs:\n%s", n.journal())
	}
	n.client = n.m.Host().Processes.Start(kernel.Spec{Argv: []string{"client"}, Files: n.m.Files(kernel.Root), Net: network.Of(n.m.Host()), Log: &n.log}, func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
}

// kill ends every process, so that the bubble can end.
func (n *node) kill() {
	n.m.Crash()
	time.Sleep(time.Minute)
}

// journal is what containerd has logged.
func (n *node) journal() string {
	var b strings.Builder
	for _, e := range n.m.Journal().After(0) {
		fmt.Fprintf(&b, "%s: %s\n", e.Identifier, e.Message)
	}
	return b.String()
}

// connect gives the services to f, called as the client process.
func (n *node) as(f func(ctx context.Context, r *RuntimeClient, i internalapi.ImageManagerService)) {
	n.t.Helper()
	n.client.Call(context.Background(), func() {
		r, i, err := Connect(n.client, endpoint)
		if err != nil {
			n.t.Error(err)
			return
		}
		f(n.client.Context(), r.(*RuntimeClient), i)
		r.Close()
		i.Close()
	})
	if n.t.Failed() {
		n.t.Logf("client:\n%s\njournal:\n%s", n.log.String(), n.journal())
	}
}

func sandboxConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name}, Hostname: name, LogDirectory: "/var/log/pods/default_" + name + "_uid-" + name,
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.cluster.local", "svc.cluster.local"}, Options: []string{"ndots:5"}},
		Labels:    map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-" + name},
	}
}

func containerConfig(name, image string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image}, Command: command, LogPath: name + "/0.log",
		Labels: map[string]string{"io.kubernetes.container.name": name, "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default"},
		Linux:  &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{}, SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}}},
	}
}

// run starts a container of a new sandbox.
func run(ctx context.Context, r internalapi.RuntimeService, name string, change func(*runtimeapi.ContainerConfig), command ...string) (pod, id string, err error) {
	sc := sandboxConfig(name)
	if pod, err = r.RunPodSandbox(ctx, sc, ""); err != nil {
		return
	}
	cc := containerConfig(name, "busybox:1.36", command...)
	if change != nil {
		change(cc)
	}
	if id, err = r.CreateContainer(ctx, pod, cc, sc); err != nil {
		return
	}
	return pod, id, r.StartContainer(ctx, id)
}

func TestPodLivesAndDies(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, i internalapi.ImageManagerService) {
			pod, id, err := run(ctx, r, "web", nil, "sh", "-c", "say hello world;part no newline;err oops;wait")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			st, err := r.PodSandboxStatus(ctx, pod, true)
			if err != nil || st.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY || st.Status.Network.Ip != "10.244.1.2" {
				t.Errorf("sandbox %+v, %v", st, err)
			}
			if !strings.Contains(st.Info["info"], `"Gateway":"10.244.1.1"`) {
				t.Errorf("info %s", st.Info["info"])
			}
			cs, err := r.ContainerStatus(ctx, id[:13], true)
			if err != nil || cs.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING || cs.Status.Image.Image != "docker.io/library/busybox:1.36" || !strings.HasPrefix(cs.Status.ImageRef, "docker.io/library/busybox@sha256:") {
				t.Errorf("container %+v, %v", cs, err)
			}
			log, err := n.m.Files(kernel.Root).ReadFile("/var/log/pods/default_web_uid-web/web/0.log")
			if s := string(log); err != nil || !strings.Contains(s, "Z stdout F hello world\n") || !strings.Contains(s, "Z stderr F oops\n") || strings.Contains(s, "no newline") {
				t.Errorf("log %q %v", s, err)
			}
			start := time.Now()
			if err := r.StopContainer(ctx, id, 30); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d != 30*time.Second {
				t.Errorf("a program that handles no SIGTERM was killed after %v", d)
			}
			cs, _ = r.ContainerStatus(ctx, id, false)
			if cs.Status.ExitCode != 137 || cs.Status.Reason != "Error" || cs.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				t.Errorf("exit %+v", cs.Status)
			}
			log, _ = n.m.Files(kernel.Root).ReadFile("/var/log/pods/default_web_uid-web/web/0.log")
			if !strings.Contains(string(log), "Z stdout P no newline\n") {
				t.Errorf("log %q", log)
			}
			if err := r.StopPodSandbox(ctx, pod); err != nil {
				t.Error(err)
			}
			if l := network.Of(n.m.Host()).Namespaces(); len(l) != 0 {
				t.Errorf("%d namespaces are left", len(l))
			}
			if err := r.RemovePodSandbox(ctx, pod); err != nil {
				t.Error(err)
			}
			if l, _ := r.ListContainers(ctx, nil); len(l) != 0 {
				t.Errorf("containers %v", l)
			}
			if l, _ := r.ListPodSandbox(ctx, nil); len(l) != 0 {
				t.Errorf("sandboxes %v", l)
			}
			if ps := n.m.Host().Processes.List(); len(ps) != 3 { // init, containerd, the client
				t.Errorf("%d processes are left", len(ps))
			}
		})
	})
}

func TestExitCodesAndReasons(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			for _, c := range []struct {
				name, script string
				limit        int64
				code         int32
				reason       string
			}{
				{"ok", "say x", 0, 0, "Completed"},
				{"bad", "exit 3", 0, 3, "Error"},
				{"oom", "eat;wait", 64 << 20, 137, "OOMKilled"},
				{"fits", "eat", 2 << 30, 0, "Completed"},
			} {
				_, id, err := run(ctx, r, c.name, func(cc *runtimeapi.ContainerConfig) { cc.Linux.Resources.MemoryLimitInBytes = c.limit }, "sh", "-c", c.script)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				st, err := r.ContainerStatus(ctx, id, false)
				if err != nil || st.Status.ExitCode != c.code || st.Status.Reason != c.reason {
					t.Errorf("%s: %+v %v", c.name, st.GetStatus(), err)
				}
			}
			_, id, _ := run(ctx, r, "trap", nil, "sh", "-c", "trap;wait")
			time.Sleep(time.Second)
			start := time.Now()
			r.StopContainer(ctx, id, 30)
			st, _ := r.ContainerStatus(ctx, id, false)
			if st.Status.ExitCode != 0 || time.Since(start) > time.Second {
				t.Errorf("trap: %+v after %v", st.Status, time.Since(start))
			}
		})
	})
}

func TestStartErrors(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			const create = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: "
			for _, c := range []struct {
				name    string
				command string
				want    string
			}{
				{"path", "nosuchcmd", create + `exec: "nosuchcmd": executable file not found in $PATH`},
				{"abs", "/nosuch", create + `exec: "/nosuch": stat /nosuch: no such file or directory`},
				{"dir", "/etc", create + `exec: "/etc": is a directory`},
				{"mode", "/etc/passwd", create + `exec: "/etc/passwd": permission denied`},
			} {
				_, id, err := run(ctx, r, c.name, nil, c.command)
				if err == nil || err.Error() != "rpc error: code = Unknown desc = "+c.want {
					t.Errorf("%s: %v", c.name, err)
				}
				st, err := r.ContainerStatus(ctx, id, false)
				if err != nil || st.Status.ExitCode != 128 || st.Status.Reason != "StartError" || st.Status.Message != c.want || st.Status.StartedAt != 0 {
					t.Errorf("%s: %+v %v", c.name, st.GetStatus(), err)
				}
			}
		})
	})
}

func TestNetworkErrors(t *testing.T) {
	inNode(t, func(n *node) {
		files := n.m.Files(kernel.Root)
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			_, err := r.RunPodSandbox(ctx, sandboxConfig("refused"), "")
			if err == nil || !strings.HasSuffix(err.Error(), `plugin type="bridge" failed (add): no IP addresses available in range set`) || !strings.HasPrefix(err.Error(), `rpc error: code = Unknown desc = failed to setup network for sandbox "`) {
				t.Error(err)
			}
			if l := network.Of(n.m.Host()).Namespaces(); len(l) != 0 {
				t.Errorf("%d namespaces are left", len(l))
			}
			files.Rename("/opt/cni/bin/bridge", "/opt/cni/bin/bridge.off")
			_, err = r.RunPodSandbox(ctx, sandboxConfig("web"), "")
			if err == nil || !strings.HasSuffix(err.Error(), `plugin type="bridge" failed (add): failed to find plugin "bridge" in path [/opt/cni/bin]`) {
				t.Error(err)
			}
			files.Remove("/etc/cni/net.d/10-bridge.conflist")
			time.Sleep(time.Second)
			st, err := r.Status(ctx, false)
			if c := st.GetStatus().GetConditions()[1]; err != nil || c.Status || c.Reason != "NetworkPluginNotReady" || c.Message != "Network plugin returns error: cni plugin not initialized" {
				t.Errorf("%+v %v", c, err)
			}
			_, err = r.RunPodSandbox(ctx, sandboxConfig("web"), "")
			if err == nil || !strings.HasSuffix(err.Error(), "cni plugin not initialized") {
				t.Error(err)
			}
			host := sandboxConfig("hostnet")
			host.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}}
			if _, err := r.RunPodSandbox(ctx, host, ""); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestContainerdStops(t *testing.T) {
	inNode(t, func(n *node) {
		var pod, id string
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			var err error
			if pod, id, err = run(ctx, r, "web", nil, "sh", "-c", "ticks"); err != nil {
				t.Fatal(err)
			}
		})
		var r *RuntimeClient
		n.client.Call(context.Background(), func() {
			c, _, err := Connect(n.client, endpoint)
			if err != nil {
				t.Fatal(err)
			}
			r = c.(*RuntimeClient)
		})
		if err := n.m.Systemd().Stop("containerd.service"); err != nil {
			t.Fatal(err)
		}
		const gone = `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /var/run/containerd/containerd.sock: connect: no such file or directory"`
		if _, err := r.ListContainers(n.client.Context(), nil); err == nil || err.Error() != gone {
			t.Error(err)
		}
		if _, _, err := Connect(n.client, endpoint); err == nil || err.Error() != `validate service connection: validate CRI v1 runtime API for endpoint "`+endpoint+`": `+gone {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		old := n.client
		n.start()
		old.Signal(kernel.SIGKILL)
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			st, err := r.ContainerStatus(ctx, id, false)
			if err != nil || st.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Errorf("%+v %v", st, err)
			}
			if err := r.StopPodSandbox(ctx, pod); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestMachineLosesPower(t *testing.T) {
	inNode(t, func(n *node) {
		var id string
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			_, id, _ = run(ctx, r, "web", nil, "sh", "-c", "wait")
		})
		n.kill()
		n.m.Boot()
		n.start()
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			st, err := r.ContainerStatus(ctx, id, false)
			if err != nil || st.Status.ExitCode != 255 || st.Status.Reason != "Unknown" {
				t.Errorf("%+v %v", st, err)
			}
			l, _ := r.ListPodSandbox(ctx, nil)
			if len(l) != 1 || l[0].State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
				t.Errorf("%v", l)
			}
			result := "/var/lib/cni/results/cbr0-" + l[0].Id + "-eth0"
			if _, err := n.m.Files(kernel.Root).Stat(result); err != nil {
				t.Error(err)
			}
			if err := r.RemovePodSandbox(ctx, l[0].Id); err != nil {
				t.Error(err)
			}
			if _, err := n.m.Files(kernel.Root).Stat(result); err == nil {
				t.Error("the plugins did not give the address back")
			}
		})
	})
}
