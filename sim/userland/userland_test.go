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

// TestInstalledCommandsAreRegistered lists the installed commands that this room has no program for: other rooms have it, or
// the simulation says that it lacks it.
func TestInstalledCommandsAreRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		userland.Register(w.Programs)
		for system, want := range map[string]string{
			"ubuntu": "b2sum cksum csplit fmt mkfifo mknod numfmt pinky sum unexpand bc busctl chage chattr ed gpgv journalctl last localectl lsattr lsns lspci networkctl openssl " +
				"prlimit resolvectl rsync scp sftp socat ssh ssh-keygen systemctl systemd-analyze systemd-cgls systemd-cgtop systemd-run taskset traceroute udevadm update-alternatives aa-status apparmor_parser " +
				"blkid blockdev bridge conntrack ebtables ethtool groupdel ip6tables-restore iptables-restore ipvsadm netplan parted resize2fs sshd tc",
			"debian-slim": "b2sum cksum csplit fmt mkfifo mknod numfmt pinky sum unexpand",
		} {
			l, ok := layout.Commands(system)
			if !ok {
				t.Fatal(system)
			}
			var missing []string
			for _, c := range l {
				if _, ok := w.Programs.Find(c.Program); c.Program != "" && !ok {
					missing = append(missing, c.Program)
				}
			}
			if got := strings.Join(missing, " "); got != want {
				t.Errorf("%s lacks %s", system, got)
			}
		}
	})
}

// TestScripts runs testdata/scripts/*.txt: "$ " lines are a script of one line (as candidate, "# " as root), what follows up to the
// next is its output; a last line "[n]" is an exit code other than 0.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
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

// TestEndlessProgramsTakeTime would never end if a program without an end held simulated time.
func TestEndlessProgramsTakeTime(t *testing.T) {
	inLab(t, func(l *lab) {
		for _, c := range []struct {
			script, want string
			code         int
		}{
			{"timeout 1 cat /dev/zero > /dev/null", "", 124},
			{"timeout 1 yes > /dev/null", "", 124},
			{"timeout 1 grep x /dev/zero", "grep: memory exhausted\n", 2},
			{"timeout 1 md5sum /dev/zero", "", 124},
			{"timeout 1 jq -n 'repeat(1)' > /dev/null", "", 124},
			{"timeout 1 awk 'BEGIN{while(1) print \"x\"}' > /dev/null", "", 124},
			{"yes | head -1", "y\n", 0},
			{"kill -9 1; sudo kill -9 1; sudo bash -c 'kill -9 1'; ps -o comm= -p 1", "bash: line 1: kill: (1) - Operation not permitted\ninit\n", 0},
		} {
			if got, code := l.run("candidate", c.script); got != c.want || code != c.code {
				l.Errorf("%s: %d %q", c.script, code, got)
			}
		}
	})
}

// TestSedReplacesTheFile proves that sed -i makes its new file beside the old one, which watchers of the directory see.
func TestSedReplacesTheFile(t *testing.T) {
	inLab(t, func(l *lab) {
		root := l.m.Files(kernel.Root)
		root.MkdirAll("/etc/kubernetes/manifests", 0o755)
		root.WriteFile("/etc/kubernetes/manifests/etcd.yaml", []byte("image: a\n"), 0o600)
		watch, err := root.Watch("/etc/kubernetes/manifests")
		if err != nil {
			l.Fatal(err)
		}
		var names []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e := range watch.Events() {
				names = append(names, filepath.Base(e.Name))
			}
		}()
		if out, code := l.run("candidate", "sudo sed -i s/a$/b/ /etc/kubernetes/manifests/etcd.yaml; sudo stat -c '%a %U' /etc/kubernetes/manifests/etcd.yaml; sudo ls -A /etc/kubernetes/manifests"); code != 0 || out != "600 root\netcd.yaml\n" {
			l.Errorf("%d %q", code, out)
		}
		synctest.Wait()
		watch.Close()
		<-done
		all := strings.Join(names, " ")
		if !strings.HasPrefix(all, "sed") || !strings.HasSuffix(all, "etcd.yaml") {
			l.Errorf("events %q", names)
		}
	})
}
