package network

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// files gives a process a file system of its own, with the directories that tests need.
func (l *lab) files() *filesystem.View {
	v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(l.w, "/dev/vda1", 1<<30)}})
	if err != nil {
		l.Fatal(err)
	}
	for _, d := range []string{"/run/containerd", "/etc", "/var/run"} {
		v.Files(kernel.Root).MkdirAll(d, 0o755)
	}
	return v
}

func (l *lab) processIn(n *Namespace, v *filesystem.View, c kernel.Credential) *kernel.Process {
	p := l.hosts[n.MachineName()].Processes.Start(kernel.Spec{Argv: []string{"/usr/bin/test"}, Net: n, Files: v.Files(c), Cred: c},
		func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
	l.procs = append(l.procs, p)
	return p
}

func TestUnixSockets(t *testing.T) {
	inLab(t, func(l *lab) {
		n, v := l.f.Machine("cka-w1"), l.files()
		server, client, user := l.processIn(n, v, kernel.Root), l.processIn(n, v, kernel.Root), l.processIn(n, v, kernel.Credential{UID: 1000, GID: 1000})
		dial := func(p *kernel.Process) string {
			c, err := p.Dial(context.Background(), "unix", "/run/containerd/containerd.sock")
			if err != nil {
				return err.Error()
			}
			defer c.Close()
			b, _ := io.ReadAll(c)
			return string(b)
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		const prefix = "dial unix /run/containerd/containerd.sock: connect: "
		expect(dial(client), prefix+"no such file or directory")
		k := l.listen(server, "unix", "/run/containerd/containerd.sock")
		go func() {
			for {
				c, err := k.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(c, "hello")
				c.Close()
			}
		}()
		expect(dial(client), "hello")
		expect(dial(user), prefix+"permission denied")
		_, err := client.Listen("unix", "/run/containerd/containerd.sock")
		expect(fmt.Sprint(err), "listen unix /run/containerd/containerd.sock: bind: address already in use")
		server.Signal(kernel.SIGKILL)
		server.Wait()
		synctest.Wait()
		expect(dial(client), prefix+"connection refused")
		client.Files.Remove("/run/containerd/containerd.sock")
		k2 := l.listen(client, "unix", "/run/containerd/containerd.sock")
		k2.Close()
		expect(dial(client), prefix+"no such file or directory")
		// After a thaw a process takes its socket file over.
		l.listen(client, "unix", "/run/containerd/containerd.sock")
		client.Signal(kernel.SIGKILL)
		client.Wait()
		synctest.Wait()
		again := l.hosts["cka-w1"].Processes.Start(kernel.Spec{Argv: []string{"containerd"}, Net: n, Files: v.Files(kernel.Root), Started: time.Now()},
			func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		l.procs = append(l.procs, again)
		l.listen(again, "unix", "/run/containerd/containerd.sock")
	})
}
