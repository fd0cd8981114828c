package userland_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/userland"
	"ckadrill/sim/userland/layout"
)

// stream is a buffer that several processes write to.
type stream struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// lab is one machine that is switched on.
type lab struct {
	*testing.T
	m *machine.Machine
}

func inLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC).Sub(time.Now()))
		w := kernel.NewWorld(1)
		userland.Register(w.Programs)
		m := machine.New(w, "cka-cp1", machine.Options{Hosts: []string{"192.168.122.11 cka-cp1"}})
		if err := userland.Install(m.Files(kernel.Root), "ubuntu"); err != nil {
			t.Fatal(err)
		}
		m.Boot()
		f(&lab{t, m})
		m.Crash()
		synctest.Wait()
	})
}

// run runs a bash script as a user, in the user's home, and returns both streams in their order, and the exit code.
func (l *lab) run(user, script string) (string, int) {
	u, ok := l.m.LookupUser(user)
	if !ok {
		l.Fatalf("no user %s", user)
	}
	var out stream
	p, err := l.m.Start(kernel.Spec{Argv: []string{"bash", "-c", script}, Dir: u.Home, Cred: u.Cred, Stdout: &out, Stderr: &out, Parent: l.m.Host().Processes.Find(1),
		Env: []string{"HOME=" + u.Home, "USER=" + user, "LOGNAME=" + user, "SHELL=/bin/bash", "LANG=C.UTF-8", "PATH=" + machine.DefaultPath}})
	if err != nil {
		l.Fatal(err)
	}
	timer := time.AfterFunc(time.Hour, func() { p.Signal(kernel.SIGKILL) })
	code := p.Wait().ExitCode()
	timer.Stop()
	return out.b.String(), code
}

func TestInstalledCommandsAreRegistered(t *testing.T) {
	// Programs of other rooms, and those that the simulation says it lacks when they are started.
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		userland.Register(w.Programs)
		missing := map[string][]string{}
		for _, system := range []string{"ubuntu", "debian-slim", "busybox", "alpine"} {
			l, ok := layout.Commands(system)
			if !ok {
				t.Fatal(system)
			}
			for _, c := range l {
				if _, ok := w.Programs.Find(c.Program); c.Program != "" && !ok {
					missing[system] = append(missing[system], c.Program)
				}
			}
		}
		for s, l := range missing {
			t.Logf("%s: %s", s, strings.Join(l, " "))
		}
	})
}

// TestScripts runs testdata/*.txt: "$ " lines are a script of one line (as candidate, "# " as root), what follows up to the
// next is its output; a last line "[n]" is an exit code other than 0.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			inLab(t, func(l *lab) {
				for _, c := range cases(string(b)) {
					user := map[byte]string{'$': "candidate", '#': "root"}[c.prompt]
					out, code := l.run(user, c.script)
					if code != 0 {
						out += "[" + itoa(code) + "]\n"
					}
					if out != c.want {
						l.Errorf("%c %s\n got:\n%s\nwant:\n%s", c.prompt, c.script, out, c.want)
					}
				}
			})
		})
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

type scriptCase struct {
	prompt       byte
	script, want string
}

// cases splits a file of scripts; a script goes on in lines that begin with "> ".
func cases(s string) []scriptCase {
	var l []scriptCase
	for _, line := range strings.SplitAfter(s, "\n") {
		switch {
		case strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# "):
			l = append(l, scriptCase{prompt: line[0], script: strings.TrimSuffix(line[2:], "\n")})
		case len(l) == 0:
		case strings.HasPrefix(line, "> ") && l[len(l)-1].want == "":
			l[len(l)-1].script += "\n" + strings.TrimSuffix(line[2:], "\n")
		default:
			l[len(l)-1].want += line
		}
	}
	return l
}
