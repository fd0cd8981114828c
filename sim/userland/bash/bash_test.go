package bash_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/userland/bash"
)

// syncBuffer is a buffer that several processes write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// machine is a small machine with a few programs.
type machine struct {
	w     *kernel.World
	h     *kernel.Host
	files kernel.Files
}

func newMachine(t testing.TB) *machine {
	w := kernel.NewWorld(1)
	bash.Register(w.Programs)
	tree := filesystem.NewTree(w, "/dev/vda1", 64<<20)
	v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: tree}})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{w, w.NewHost("cka-cp1"), v.Files(kernel.Root)}
	for _, d := range []string{"/bin", "/usr/bin", "/tmp", "/root", "/etc", "/dev"} {
		if err := m.files.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.files.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"), 0o644)
	m.program("bash", bash.Main)
	m.program("sh", bash.DashMain)
	m.program("sleep", func(p *kernel.Process) int {
		d, _ := time.ParseDuration(p.Argv[1] + "s")
		p.Sleep(p.ConsumeLag(d))
		return 0
	})
	m.program("cat", func(p *kernel.Process) int {
		if len(p.Argv) > 1 {
			for _, n := range p.Argv[1:] {
				b, err := p.ReadFile(n)
				if err != nil {
					p.Errorf("cat: %s: No such file or directory\n", n)
					return 1
				}
				p.Stdout.Write(b)
			}
			return 0
		}
		buf := make([]byte, 4096)
		for {
			n, err := p.Stdin.Read(buf)
			p.Stdout.Write(buf[:n])
			if err != nil {
				return 0
			}
		}
	})
	m.program("yes", func(p *kernel.Process) int {
		for p.Alive() {
			if _, err := p.Stdout.Write([]byte("y\n")); err != nil {
				return 1
			}
		}
		return 0
	})
	m.program("env", func(p *kernel.Process) int {
		for _, kv := range p.Environ() {
			if !strings.HasPrefix(kv, "_=") {
				p.Printf("%s\n", kv)
			}
		}
		return 0
	})
	return m
}

func (m *machine) program(name string, main kernel.Program) {
	if _, ok := m.w.Programs.Find(name); !ok {
		m.w.Programs.Register(name, main)
	}
	prog := name
	if name == "sh" {
		prog = "dash"
	}
	m.files.WriteFile("/usr/bin/"+name, kernel.Executable(prog), 0o755)
	m.files.WriteFile("/bin/"+name, kernel.Executable(prog), 0o755)
}

type result struct {
	out, err string
	code     int
}

func (m *machine) start(out, errs *syncBuffer, argv ...string) *kernel.Process {
	prog := map[string]kernel.Program{"bash": bash.Main, "-bash": bash.Main, "sh": bash.DashMain, "ash": bash.AshMain}[argv[0]]
	return m.h.Processes.Start(kernel.Spec{Argv: argv, Env: []string{"PATH=/usr/bin:/bin", "HOME=/root"}, Dir: "/tmp", Files: m.files.As(kernel.Root), Stdout: out, Stderr: errs}, prog)
}

func (m *machine) run(argv ...string) result {
	var out, errs syncBuffer
	p := m.start(&out, &errs, argv...)
	st := p.Wait()
	for _, q := range m.h.Processes.List() {
		q.Signal(kernel.SIGKILL)
		q.Wait()
	}
	synctest.Wait()
	return result{out.String(), errs.String(), st.ExitCode()}
}

// oracle runs a script by the host's own bash in an empty directory.
func oracle(t *testing.T, shell, script string) (result, bool) {
	path, err := exec.LookPath(shell)
	if err != nil {
		return result{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	args := []string{"-c", script}
	if shell == "bash" {
		args = append([]string{"--norc", "--noprofile"}, args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = shell
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		return result{}, false
	}
	_ = err
	return result{out.String(), errs.String(), code}, true
}

// TestAgainstRealBash compares every script of testdata/oracle.txt with the host's bash, where there is one of release 5.2.
func TestAgainstRealBash(t *testing.T) {
	if v, err := exec.Command("bash", "-c", "echo $BASH_VERSION").Output(); err != nil || !strings.HasPrefix(string(v), "5.2") {
		t.Skip("needs bash 5.2 on the host")
	}
	compareAll(t, "bash", "testdata/oracle.txt")
}

func TestAgainstRealDash(t *testing.T) {
	if _, err := exec.LookPath("dash"); err != nil {
		t.Skip("needs dash on the host")
	}
	compareAll(t, "dash", "testdata/dash.txt")
}

func compareAll(t *testing.T, shell, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range strings.Split(strings.TrimSpace(string(b)), "\n---\n") {
		want, ok := oracle(t, shell, script)
		if !ok {
			t.Errorf("the host's %s did not run %q", shell, script)
			continue
		}
		var got result
		synctest.Test(t, func(t *testing.T) {
			if shell == "dash" {
				var out, errs syncBuffer
				m := newMachine(t)
				p := m.h.Processes.Start(kernel.Spec{Argv: []string{"dash", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "HOME=/root"}, Dir: "/tmp", Files: m.files, Stdout: &out, Stderr: &errs}, bash.DashMain)
				st := p.Wait()
				got = result{out.String(), errs.String(), st.ExitCode()}
				return
			}
			got = newMachine(t).run("bash", "--norc", "-c", script)
		})
		if got != want {
			t.Errorf("%s\n--- got %d\n%s%s--- want %d\n%s%s", script, got.code, got.out, got.err, want.code, want.out, want.err)
		}
	}
}
