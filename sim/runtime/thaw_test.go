package runtime

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// A world that is frozen and thawed goes on as if nothing had happened: same processes, same states, no line twice.
func TestThawChangesNothing(t *testing.T) {
	const logFile = "/var/log/pods/default_web_uid-web/web/0.log"
	all := kernel.Parts{}
	var before, after []string
	var want *runtimeapi.ContainerStatus
	var pod, id string
	pids := func(n *node) (l []string) {
		for _, p := range n.m.Host().Processes.List() {
			if p.Name() != "client" {
				l = append(l, strings.Join(append([]string{p.Container, p.StartTime().UTC().String()}, p.Argv...), " "))
			}
		}
		return l
	}
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			var err error
			if pod, id, err = run(ctx, r, "web", nil, "sh", "-c", "part begun ;ticks"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := run(ctx, r, "ended", nil, "sh", "-c", "write /tmp/x kept;exit 4"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"sh", "-c", "write /data.txt of an exec"}}); err != nil {
				t.Fatal(err)
			}
		})
		time.Sleep(time.Hour + 3*time.Second)
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			st, err := r.ContainerStatus(ctx, id, false)
			if err != nil {
				t.Fatal(err)
			}
			want = st.Status
		})
		before = pids(n)
		synctest.Wait()
		n.w.Freeze(kernel.NewRecorder(nil)).Apply(all)
	})
	date, err := kernel.DateOf(all)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(date))
		n := newNode(t, kernel.NewWorld(0))
		if err := n.w.Thaw(all); err != nil {
			t.Fatal(err)
		}
		lines := len(n.m.Journal().After(0))
		if err := n.c.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := n.m.Resume(); err != nil {
			t.Fatal(err)
		}
		defer n.kill()
		synctest.Wait()
		if got := len(n.m.Journal().After(0)); got != lines {
			t.Errorf("the thaw logged:\n%s", n.journal())
		}
		after = pids(n)
		n.enter()
		log, err := n.m.Files(kernel.Root).ReadFile(logFile)
		if s := string(log); err != nil || strings.Count(s, "tick 1\n") != 1 || strings.Count(s, "\n") != 361 {
			t.Errorf("%d lines after the thaw, %v:\n%s", strings.Count(s, "\n"), err, s[max(0, len(s)-300):])
		}
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			st, err := r.ContainerStatus(ctx, id, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), st.Status.String()); diff != "" {
				t.Error(diff)
			}
			time.Sleep(8 * time.Second)
			log, _ := n.m.Files(kernel.Root).ReadFile(logFile)
			if s := string(log); !strings.HasSuffix(s, "F tick 362\n") || strings.Count(s, "\n") != 362 {
				t.Errorf("%d lines later:\n%s", strings.Count(s, "\n"), s[max(0, len(s)-300):])
			}
			out, _, err := r.ExecSync(ctx, id, []string{"sh", "-c", "cat /data.txt;cat /etc/resolv.conf"}, 0)
			if err != nil || !strings.HasPrefix(string(out), "of an exec\nsearch default.svc.cluster.local") {
				t.Errorf("%q %v", out, err)
			}
			out, _, err = r.ExecSync(ctx, id, []string{"sh", "-c", "cat /ticks/log"}, 0)
			if s := string(out); err != nil || strings.Count(s, "\n") != 362 || !strings.HasSuffix(s, "\n361\n362\n") {
				t.Errorf("the script's own file has %d lines, %v: %s", strings.Count(s, "\n"), err, s[max(0, len(s)-100):])
			}
			ps, err := r.PodSandboxStatus(ctx, pod, false)
			if err != nil || ps.Status.Network.Ip != "10.244.1.2" || network.Of(n.m.Host()).Namespace("x") != nil {
				t.Errorf("%v %v", ps, err)
			}
			if err := r.StopPodSandbox(ctx, pod); err != nil {
				t.Error(err)
			}
			if err := r.RemovePodSandbox(ctx, pod); err != nil {
				t.Error(err)
			}
		})
	})
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

func TestExecAttachForward(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			pod, id, err := run(ctx, r, "web", func(c *runtimeapi.ContainerConfig) {
				c.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: 33}
				c.WorkingDir = "/srv/app"
				c.Envs = []*runtimeapi.KeyValue{{Key: "A", Value: "b"}}
			}, "sh", "-c", "ticks")
			if err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			code, err := r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"sh", "-c", "id;env;hostname;err bad;exit 7"}, Stdout: &out, Stderr: &errs})
			if err != nil || code != 7 || errs.String() != "bad\n" {
				t.Errorf("code %d, %v, stderr %q", code, err, errs.String())
			}
			if s := out.String(); s != "33 33 [33] 2\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOSTNAME=web A=b HOME=/var/www\nweb\n" {
				t.Errorf("exec printed %q", s)
			}
			_, err = r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"nosuch"}})
			if err == nil || !strings.HasPrefix(err.Error(), `rpc error: code = Unknown desc = failed to exec in container: failed to start exec "`) ||
				!strings.HasSuffix(err.Error(), `": OCI runtime exec failed: exec failed: unable to start container process: exec: "nosuch": executable file not found in $PATH`) {
				t.Error(err)
			}
			start := time.Now()
			_, _, err = r.ExecSync(ctx, id, []string{"sh", "-c", "wait"}, 5*time.Second)
			if err == nil || err.Error() != `command timed out: "sh -c wait" timed out after 5s` || time.Since(start) != 5*time.Second+execDelay {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			pr, pw := io.Pipe()
			out.Reset()
			go func() {
				io.WriteString(pw, "typed\r")
				pw.Close()
			}()
			code, err = r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"sh", "-c", "readline"}, Stdin: pr, Stdout: &out, TTY: true})
			if s := out.String(); err != nil || code != 0 || s != "$ got \"typed\" <nil>\r\n" {
				t.Errorf("tty: %d %v %q", code, err, s)
			}
			out.Reset()
			actx, stop := context.WithTimeout(ctx, 25*time.Second)
			defer stop()
			if err := r.AttachContainer(actx, id, nil, &out, &errs, false, nil); err != nil || strings.Count(out.String(), "tick") < 2 {
				t.Errorf("attach: %v %q", err, out.String())
			}
			err = r.PortForwardSandbox(ctx, pod, 8080, struct{ io.ReadWriter }{&rw{}})
			if err == nil || !strings.Contains(err.Error(), "failed to connect to localhost:8080 inside namespace") || !strings.Contains(err.Error(), "connect: connection refused") {
				t.Error(err)
			}
		})
	})
}

type rw struct{ strings.Builder }

func (*rw) Read([]byte) (int, error) { return 0, io.EOF }
