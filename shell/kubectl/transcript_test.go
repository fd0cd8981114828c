package kubectl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
)

// step is one command of a recording and what came back.
type step struct{ command, output string }

func readRecording(file string) ([]step, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, line := range strings.SplitAfter(string(b), "\n") {
		switch {
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{command: strings.TrimPrefix(line, "$ ")})
		case len(steps) == 0:
		case strings.HasPrefix(line, "> ") && steps[len(steps)-1].output == "":
			steps[len(steps)-1].command += strings.TrimPrefix(line, "> ")
		default:
			steps[len(steps)-1].output += line
		}
	}
	return steps, nil
}

const mark = "--8<-- "

// replay runs a recording's commands in one shell and returns them with what comes back now.
func (l *lab) replay(steps []step) []step {
	var script strings.Builder
	for n, s := range steps {
		fmt.Fprintf(&script, "%s\nprintf '\\n%s%d %%d\\n' $?\n", strings.TrimSuffix(s.command, "\n"), mark, n)
	}
	l.put("/tmp/script", script.String(), 0o644)
	o := &buffer{}
	p := l.start(kernel.Spec{Argv: []string{"bash", "/tmp/script"}, Stdout: typist{o}, Stderr: o, Dir: "/root"})
	done := make(chan bool)
	go func() { p.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Hour):
		p.Signal(kernel.SIGKILL)
	}
	rest := o.String()
	var got []step
	for n, s := range steps {
		out, after, ok := strings.Cut(rest, fmt.Sprintf("\n%s%d ", mark, n))
		if !ok {
			got = append(got, step{s.command, rest + "[nothing more]\n"})
			break
		}
		var code int
		fmt.Sscanf(after, "%d", &code)
		_, rest, _ = strings.Cut(after, "\n")
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += "\n[no newline]\n"
		}
		if code != 0 {
			out += fmt.Sprintf("[exit %d]\n", code)
		}
		got = append(got, step{s.command, out})
	}
	return got
}

// typist lets a moment pass at the end of each command, as somebody does who types the next: in it the controllers see what
// the command has changed.
type typist struct{ *buffer }

func (t typist) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(mark)) {
		time.Sleep(100 * time.Millisecond)
	}
	return t.buffer.Write(b)
}

var volatile = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "KLOG "},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`resourceVersion: "\d+"`), `resourceVersion: "N"`},
	{regexp.MustCompile(`"resourceVersion": ?"\d+"`), `"resourceVersion": "N"`},
	{regexp.MustCompile(`\b(\d+d)?(\d+h)?(\d+m)?\d+(s|m|h|d)\b`), "AGE"},
	{regexp.MustCompile(` +AGE`), " AGE"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`), "IP"},
	{regexp.MustCompile(`IP +`), "IP "},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_.-]+`), "TOKEN"},
	{regexp.MustCompile(`/tmp/(LIVE|MERGED)-\d+`), "/tmp/$1"},
	{regexp.MustCompile(`milliseconds=\d+`), "milliseconds=N"},
}

func normal(s string) string {
	for _, v := range volatile {
		s = v.re.ReplaceAllString(s, v.to)
	}
	return s
}

// compareRecordings replays recordings over a real control plane and prints what differs.
func compareRecordings(l *lab, names ...string) error {
	bad := 0
	total := 0
	for _, name := range names {
		steps, err := readRecording(filepath.Join("testdata", name+".console"))
		if err != nil {
			return err
		}
		admin, err := l.files.ReadFile("/etc/kubernetes/admin.conf")
		if err != nil {
			return err
		}
		l.put("/root/.kube/config", string(admin), 0o600)
		l.files.RemoveAll("/root/work")
		l.files.MkdirAll("/root/work", 0o755)
		got := l.replay(append([]step{{"cd /root/work\n", ""}}, steps...))[1:]
		for n, s := range steps {
			total++
			if n >= len(got) {
				bad++
				continue
			}
			if strings.Contains(got[n].output, "command not found") || absent.MatchString(strings.TrimSpace(s.command)) || afterSed[name+": "+strings.TrimSuffix(s.command, "\n")] {
				continue // programs of other rooms
			}
			if d := cmp.Diff(strings.Split(normal(s.output), "\n"), strings.Split(normal(got[n].output), "\n")); d != "" {
				bad++
				fmt.Printf("%s: $ %s(-real +simulated)\n%s\n", name, s.command, d)
			}
		}
	}
	fmt.Printf("%d of %d commands differ\n", bad, total)
	if bad > 0 {
		return fmt.Errorf("FAIL")
	}
	return nil
}

// absent are commands that need programs or states that this test's machine lacks: sed, diff and openssl, a plugin, the
// recording's directory, or time for controllers.
var absent = regexp.MustCompile(`^sleep|^openssl|head -c|tls\.key|from-file=big|kubectl diff|plugin list|help foo|kustomize (nosuch|base|\.)|base/kustomization|^kubectl get deploy,cm|view-last-applied deploy/web$`)

// afterSed are commands whose outcome follows from a file that the recording had changed with sed.
var afterSed = map[string]bool{"apply-replace-patch: kubectl apply -f web.yaml": true, "server-side-apply: kubectl apply --server-side -f cm.yaml": true,
	"server-side-apply: kubectl get cm c -o yaml --show-managed-fields": true}

func init() {
	worldTests["TestRecordings"] = func(l *lab) error {
		line := `KLOG memcache.go:265] "Unhandled Error" err="couldn't get current server API group list: Get \"https://192.168.122.11:6443/api?timeout=AGE\": dial tcp 192.168.122.11:6443: connect: connection refused"` + "\n"
		want := normal(strings.Repeat(line, 5) + "The connection to the server 192.168.122.11:6443 was refused - did you specify the right host or port?\n")
		if out, code := l.run("", "kubectl", "get", "nodes"); normal(out) != want || code != 1 {
			return fmt.Errorf("without a server: [%d]\n%s\nwant\n%s", code, normal(out), want)
		}
		if err := l.controlPlane("kube-controller-manager"); err != nil {
			return err
		}
		var offered []string
		l.host.Processes.Start(kernel.Spec{Argv: []string{"bash"}, Env: []string{"PATH=/usr/bin", "HOME=/root"}, Files: l.files, Net: l.net}, func(p *kernel.Process) int {
			offered = append(complete(p, []string{"kubectl", "get", "namespaces", "kube-s"}, 3), complete(p, []string{"k", "descr"}, 1)...)
			return 0
		}).Wait()
		if d := cmp.Diff([]string{"kube-system", "describe"}, offered); d != "" {
			return fmt.Errorf("completion: %s", d)
		}
		return compareRecordings(l, "configmap-dry-run", "deployment-dry-run", "expose-dry-run", "job-dry-run", "namespace-token-misc", "rbac-dry-run", "rbac-errors",
			"secret-dry-run", "service-dry-run", "help-and-usage-errors", "help-texts", "plugin-alpha-completion", "verbosity-and-output", "kustomize", "apply-replace-patch", "server-side-apply", "secret-types-and-size")
	}
}

func init() {
	worldTests["TestSpeed"] = func(l *lab) error {
		if err := l.controlPlane(); err != nil {
			return err
		}
		for range 10 {
			l.run("", "kubectl", "get", "pods")
		}
		if profile != nil {
			pprof.StartCPUProfile(profile)
			defer pprof.StopCPUProfile()
		}
		for _, line := range []string{"kubectl get pods", "kubectl get pods -A -o wide", "kubectl create deployment web --image=nginx --dry-run=client -o yaml", "kubectl version --client"} {
			began := kernel.Wall()
			const n = 100
			for range n {
				if out, code := l.run("", strings.Fields(line)...); code != 0 {
					return fmt.Errorf("%s: %s", line, out)
				}
			}
			fmt.Printf("%-80s %.2f ms\n", line, float64(kernel.WallSince(began).Microseconds())/1000/n)
		}
		return nil
	}
}

// TestSpeed prints what a command costs over the fast path.
func TestSpeed(t *testing.T) { t.Log(inWorker(t)) }

func TestRecordings(t *testing.T) { t.Log(inWorker(t)) }
