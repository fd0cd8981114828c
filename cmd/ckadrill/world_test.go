package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ckadrill/shell/console"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
)

// Tests at the level of a world run in workers: this test binary again, as the program does with itself.
func TestMain(m *testing.M) {
	if front.IsWorker() {
		runWorker(prepareMeasured, assembleMeasured)
	}
	if os.Getenv(asFront) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// asFront is set in the environment of this test binary when it is to be the program itself, with the arguments that it was given.
const asFront = "CKADRILL_TEST_AS_FRONT"

// world opens a cluster; in dir, if that is not "", a session is kept.
func world(t testing.TB, preset, dir string) *front.Play {
	t.Helper()
	return worldOf(t, worldFlags{seed: 1, preset: preset}, dir)
}

func worldOf(t testing.TB, f worldFlags, dir string) *front.Play {
	t.Helper()
	p := &front.Play{Boot: f.boot(), Say: t.Logf}
	if dir != "" {
		s, err := session.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		p.Session = s
	}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// run runs a script and returns what it printed, and its exit status.
func run(t testing.TB, p *front.Play, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := console.Batch(p, script, nil, &out, &out)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out.String())
	}
	return out.String(), exit
}

// A script test is a file of blocks: a command line after "$ ", and below it regular expressions, each of which must match
// a line of the output, in this order; "! " before one means that no line may match it. Above the blocks "preset: NAME" chooses
// another cluster than the reference, "fresh" one that is built from nothing.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks := strings.Split("\n"+string(b), "\n$ ")
			f := worldFlags{seed: 1, preset: "reference"}
			for line := range strings.Lines(blocks[0]) {
				line = strings.TrimSpace(line)
				if name, ok := strings.CutPrefix(line, "preset: "); ok {
					f.preset = name
				}
				f.fresh = f.fresh || line == "fresh"
			}
			p := worldOf(t, f, "")
			for _, block := range blocks[1:] {
				command, want, _ := strings.Cut(block, "\n")
				out, _ := run(t, p, command)
				expect(t, command, out, want)
			}
		})
	}
}

func expect(t *testing.T, command, out, want string) {
	t.Helper()
	lines := strings.Split(out, "\n")
	at := 0
	for _, w := range strings.Split(strings.TrimSpace(want), "\n") {
		if w == "" || strings.HasPrefix(w, "#") {
			continue
		}
		w, not := strings.CutPrefix(w, "! ")
		re, err := regexp.Compile(w)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if not {
			if re.MatchString(out) {
				t.Errorf("$ %s\nprints %q:\n%s", command, w, out)
			}
			continue
		}
		found := false
		for ; at < len(lines); at++ {
			if re.MatchString(lines[at]) {
				found = true
				at++
				break
			}
		}
		if !found {
			t.Errorf("$ %s\nhas no further line %q:\n%s", command, w, out)
			return
		}
	}
}

// A session goes on in another process to the simulated second, with its shell; and after a worker was killed.
func TestSessionGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := world(t, "reference", dir)
	run(t, p, "cd /etc/kubernetes; x=5; greet() { echo hello $1; }; date +%s > /tmp/then; kubectl create deploy web --image=nginx; kubectl rollout status deploy/web")
	date := p.Date()
	before, _ := run(t, p, "kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.name}{\" \"}{.status.containerStatuses[*].restartCount}{\"\\n\"}{end}'; kubectl get events -A --no-headers | wc -l")
	p.Close()
	p = world(t, "reference", dir)
	if p.Date().Before(date) {
		t.Errorf("the date went back from %v to %v", date, p.Date())
	}
	if out, _ := run(t, p, "pwd; echo $x; greet you"); out != "/etc/kubernetes\n5\nhello you\n" {
		t.Errorf("the shell forgot: %q", out)
	}
	after, _ := run(t, p, "kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.name}{\" \"}{.status.containerStatuses[*].restartCount}{\"\\n\"}{end}'; kubectl get events -A --no-headers | wc -l")
	if before != after {
		t.Errorf("the thaw shows:\n%s\n%s", before, after)
	}
	p.Worker().Kill()
	if err := p.Revive(); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(t, p, "echo $x; kubectl get deploy web --no-headers"); !strings.HasPrefix(out, "5\nweb   1/1") {
		t.Errorf("after a kill: %q", out)
	}
	if err := p.Undo(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(t, p, "kubectl get deploy web --no-headers; x=6"); !strings.HasPrefix(out, "web") {
		t.Errorf("after an undo: %q", out)
	}
}
