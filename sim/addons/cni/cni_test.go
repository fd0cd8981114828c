package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

type lab struct {
	*testing.T
	w     *kernel.World
	h     *kernel.Host
	m     *network.Namespace
	files kernel.Files
}

func inLab(t *testing.T, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		Register(w.Programs)
		fabric := network.NewFabric(w)
		l := &lab{T: t, w: w, h: w.NewHost("cka-w1"), m: fabric.AddMachine("cka-w1", netip.MustParsePrefix("192.168.122.12/24"))}
		l.m.Attach(l.h)
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		l.files = v.Files(kernel.Root)
		l.files.MkdirAll("/opt/cni/bin", 0o755)
		for _, p := range []string{"loopback", "bridge", "host-local", "portmap"} {
			l.files.WriteFile("/opt/cni/bin/"+p, kernel.Executable(p), 0o755)
		}
		l.files.WriteFile("/opt/cni/bin/flannel", kernel.Executable("cni-flannel"), 0o755)
		f(l)
	})
}

// call runs a plugin and returns what it printed.
func (l *lab) call(plugin, command, id, ifName, conf string) (string, int) {
	main, argv, err := l.w.Load(l.files, "/opt/cni/bin/"+plugin, []string{plugin})
	if err != nil {
		l.Fatal(err)
	}
	var out bytes.Buffer
	p := l.h.Processes.Start(kernel.Spec{Argv: argv, Files: l.files, Net: l.m, Stdin: strings.NewReader(conf), Stdout: &out, Stderr: &out,
		Env: []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + id, "CNI_NETNS=/var/run/netns/" + id, "CNI_IFNAME=" + ifName, "CNI_PATH=/opt/cni/bin"}}, main)
	code := p.Wait().ExitCode()
	return out.String(), code
}

func (l *lab) message(s string) string {
	var e struct{ Msg string }
	if err := json.Unmarshal([]byte(s), &e); err != nil {
		l.Errorf("%q: %v", s, err)
	}
	return e.Msg
}

const flannelNet = `{"cniVersion":"0.3.1","name":"cbr0","type":"flannel","delegate":{"hairpinMode":true,"isDefaultGateway":true}}`

func TestFlannelChain(t *testing.T) {
	inLab(t, func(l *lab) {
		n, err := l.m.AddNamespace("/var/run/netns/a")
		if err != nil {
			t.Fatal(err)
		}
		if s, code := l.call("loopback", "ADD", "a", "lo", `{"cniVersion":"0.3.1","name":"cni-loopback","type":"loopback"}`); code != 0 {
			t.Fatal(s)
		}
		if lo, _ := n.Link("lo"); !lo.Up || len(lo.Addresses) != 2 {
			t.Errorf("%+v", lo)
		}
		s, code := l.call("flannel", "ADD", "a", "eth0", flannelNet)
		if want := "failed to load flannel 'subnet.env' file: open /run/flannel/subnet.env: no such file or directory. Check the flannel pod log for this node."; code != 1 || l.message(s) != want {
			t.Errorf("%s", s)
		}
		l.files.MkdirAll("/run/flannel", 0o755)
		l.files.WriteFile("/run/flannel/subnet.env", []byte("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"), 0o644)
		s, code = l.call("flannel", "ADD", "a", "eth0", flannelNet)
		var r struct {
			CNIVersion string
			IPs        []struct{ Address, Gateway string }
		}
		if err := json.Unmarshal([]byte(s), &r); err != nil || code != 0 || len(r.IPs) != 1 || r.IPs[0].Address != "10.244.1.2/24" || r.IPs[0].Gateway != "10.244.1.1" || r.CNIVersion != "0.3.1" {
			t.Fatalf("%s", s)
		}
		// portmap follows in the chain.
		conf := fmt.Sprintf(`{"cniVersion":"0.3.1","name":"cbr0","type":"portmap","prevResult":%s,"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}}`, s)
		if s, code := l.call("portmap", "ADD", "a", "eth0", conf); code != 0 {
			t.Fatal(s)
		}
		idle := func(p *kernel.Process) int { <-p.Context().Done(); return 0 }
		pod := l.h.Processes.Start(kernel.Spec{Argv: []string{"pod"}, Net: n}, idle)
		node := l.h.Processes.Start(kernel.Spec{Argv: []string{"node"}, Net: l.m}, idle)
		k, err := pod.Listen("tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := k.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		for _, a := range []string{"10.244.1.2:80", "192.168.122.12:8080"} {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if c, err := node.Dial(ctx, "tcp", a); err != nil {
				t.Error(err)
			} else {
				c.Close()
			}
			cancel()
		}
		if b, _ := l.files.ReadFile("/var/lib/cni/networks/cbr0/10.244.1.2"); string(b) != "a\r\neth0" {
			t.Errorf("%q", b)
		}
		for _, p := range []string{"portmap", "flannel", "flannel"} {
			if s, code := l.call(p, "DEL", "a", "eth0", flannelNet); code != 0 {
				t.Error(p, s)
			}
		}
		if _, ok := n.Link("eth0"); ok {
			t.Error("eth0 is still there")
		}
		if _, err := l.files.Stat("/var/lib/cni/networks/cbr0/10.244.1.2"); err == nil {
			t.Error("the address is still taken")
		}
		for _, p := range []*kernel.Process{pod, node} {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
		synctest.Wait()
	})
}

func TestPluginErrors(t *testing.T) {
	inLab(t, func(l *lab) {
		const conf = `{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.1.0/30"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`
		add := func(id, conf string) string {
			l.m.AddNamespace("/var/run/netns/" + id)
			s, code := l.call("bridge", "ADD", id, "eth0", conf)
			if code == 0 {
				return ""
			}
			return l.message(s)
		}
		for _, c := range []struct{ id, conf, want string }{
			{"a", conf, ""},
			{"b", conf, "failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.2"},
			{"c", strings.Replace(conf, "10.244.1.0/30", "10.244.9.0/24", 1), `failed to set bridge addr: "cni0" already has an IP address different from 10.244.9.1/24`},
			{"d", strings.Replace(conf, `"host-local"`, `"nosuch"`, 1), `failed to find plugin "nosuch" in path [/opt/cni/bin]`},
		} {
			if got := add(c.id, c.conf); got != c.want {
				t.Errorf("%s: %q, want %q", c.id, got, c.want)
			}
		}
		s, code := l.call("bridge", "ADD", "nowhere", "eth0", conf)
		if want := `failed to open netns "/var/run/netns/nowhere": failed to Statfs "/var/run/netns/nowhere": no such file or directory`; code != 1 || l.message(s) != want {
			t.Error(s)
		}
		if n := l.m.Namespace("/var/run/netns/c"); n != nil {
			if _, ok := n.Link("eth0"); ok {
				t.Error("a failed ADD left its interface behind")
			}
		}
	})
}
