package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// lab is two machines on a network.
type lab struct {
	*testing.T
	machines map[string]*machine.Machine
}

func inLab(t *testing.T, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)))
		w := kernel.NewWorld(1)
		bash.Register(w.Programs)
		Register(w.Programs)
		w.Programs.Register("cat", libc.Main("cat", func(c *libc.Prog) int {
			io.Copy(c.Out, c.Stdin)
			return 0
		}))
		w.Programs.Register("sleep", libc.Main("sleep", func(c *libc.Prog) int { <-c.Context().Done(); return 0 }))
		fabric := network.NewFabric(w)
		fabric.AddGateway(netip.MustParsePrefix("192.168.122.1/24"))
		l := &lab{t, map[string]*machine.Machine{}}
		hosts := []string{"192.168.122.11 cka-cp1", "192.168.122.12 cka-w1", "192.168.122.13 cka-w2"}
		for i, name := range []string{"cka-cp1", "cka-w1"} {
			m := machine.New(w, name, machine.Options{Hosts: hosts})
			ns := fabric.AddMachine(name, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 122, byte(11 + i)}), 24))
			ns.Attach(m.Host())
			m.SetNetwork(ns)
			m.OnPower(func(on bool) {
				if on {
					ns.PowerOn()
				} else {
					ns.PowerOff()
				}
			})
			for _, p := range []string{"bash", "cat", "sleep"} {
				if err := m.Files(kernel.Root).WriteFile("/usr/bin/"+p, kernel.Executable(p), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			l.machines[name] = m
			m.Boot()
		}
		f(l)
		for _, m := range l.machines {
			m.Crash()
		}
	})
}

// buffer is what a command has printed.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs a script as a user on the control plane.
func (l *lab) start(user, script string, stdin io.Reader, tty kernel.Terminal) (*kernel.Process, *buffer) {
	l.Helper()
	m := l.machines["cka-cp1"]
	u, ok := m.LookupUser(user)
	if !ok {
		l.Fatal("no user " + user)
	}
	out := &buffer{}
	spec := kernel.Spec{Argv: []string{"bash", "-c", script}, Env: []string{"HOME=" + u.Home, "USER=" + user, "LANG=C.UTF-8", "SECRET=x", "TERM=xterm"}, Dir: u.Home, Cred: u.Cred, Stdin: stdin, Stdout: out, Stderr: out, TTY: tty, Parent: m.Host().Processes.Find(1)}
	if tty != nil {
		spec.Stdin, spec.Stdout, spec.Stderr = tty, tty, tty
	}
	p, err := m.Start(spec)
	if err != nil {
		l.Fatal(err)
	}
	return p, out
}

func (l *lab) run(user, script string) string {
	l.Helper()
	p, out := l.start(user, script, nil, nil)
	st := p.Wait()
	return out.String() + fmt.Sprintf("[%d]", st.ExitCode())
}

func (l *lab) expect(user, script, want string) {
	l.Helper()
	if d := cmp.Diff(want, l.run(user, script)); d != "" {
		l.Errorf("%s: %s", script, d)
	}
}

// screen is a terminal at which somebody types lines.
type screen struct {
	buffer
	typed      chan string
	mu         sync.Mutex
	foreground *kernel.Process
}

func (s *screen) Read(b []byte) (int, error) {
	l, err := s.ReadLine("", nil)
	if err != nil {
		return 0, err
	}
	return copy(b, l+"\n"), nil
}

func (s *screen) ReadLine(prompt string, _ kernel.Completer) (string, error) {
	fmt.Fprint(s, prompt)
	select {
	case l, ok := <-s.typed:
		if !ok {
			return "", io.EOF
		}
		fmt.Fprintln(s, l)
		return l, nil
	case <-kernel.Current().Done():
		return "", kernel.ErrDead
	}
}
func (s *screen) ReadPassword(string) (string, error) { return "", io.EOF }
func (s *screen) Size() (int, int)                    { return 80, 24 }
func (s *screen) Edit(string, []byte) ([]byte, error) { return nil, errors.New("no editor") }
func (s *screen) Page([]byte) error                   { return nil }
func (s *screen) SetForeground(p *kernel.Process) (old *kernel.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.foreground = s.foreground, p
	return old
}
func (s *screen) interrupt() {
	s.mu.Lock()
	p := s.foreground
	s.mu.Unlock()
	p.Signal(kernel.SIGINT)
}

func TestCommands(t *testing.T) {
	inLab(t, func(l *lab) {
		l.expect("candidate", `ssh cka-w1 'echo $USER $HOME $PWD $SECRET; echo err >&2; exit 3'`, "candidate /home/candidate /home/candidate\nerr\n[3]")
		got := regexp.MustCompile(`\b\d{5}\b`).ReplaceAllString(l.run("candidate", `ssh root@cka-w1 -o StrictHostKeyChecking=no -q echo '$HOSTNAME' '$LANG' '"$SSH_CONNECTION|$SSH_CLIENT"'`), "PORT")
		if want := "cka-w1 C.UTF-8 192.168.122.11 PORT 192.168.122.12 22|192.168.122.11 PORT 22\n[0]"; got != want {
			t.Errorf("%q", got)
		}
		l.expect("candidate", `echo one | ssh -l root 192.168.122.12 'read x; echo "got $x"; cat'`, "got one\n[0]")
		l.expect("candidate", `printf '1\n2\n' | while read x; do echo $x; ssh cka-w1 true; done`, "1\n[0]")
		l.expect("candidate", `printf '1\n2\n' | while read x; do echo $x; ssh -n cka-w1 true; done`, "1\n2\n[0]")
		l.expect("candidate", `echo 'echo in $HOSTNAME' | ssh cka-w1`, "Pseudo-terminal will not be allocated because stdin is not a terminal.\nin cka-w1\n[0]")
		l.expect("candidate", `ssh cka-w1 'kill -9 $$'`, "[255]")
		l.expect("candidate", `ssh cka-w1 'ssh cka-cp1 "echo \$HOSTNAME"'`, "cka-cp1\n[0]")
		l.expect("candidate", `ssh -V`, fullName+"\n[0]")
		big := strings.Repeat("0123456789abcde\n", 100_000)
		p, out := l.start("candidate", "ssh cka-w1 cat", strings.NewReader(big), nil)
		if st := p.Wait(); st.ExitCode() != 0 || out.String() != big {
			t.Errorf("%d bytes through cat, %v", len(out.String()), st)
		}
	})
}

func TestErrors(t *testing.T) {
	inLab(t, func(l *lab) {
		l.expect("candidate", "ssh cka-w7 true", "ssh: Could not resolve hostname cka-w7: Name or service not known\n[255]")
		l.expect("candidate", "ssh nobody@cka-w1 true", "nobody@cka-w1: Permission denied (publickey).\n[255]")
		l.expect("candidate", "ssh -p 23 cka-w1 true", "ssh: connect to host cka-w1 port 23: Connection refused\n[255]")
		l.expect("candidate", "ssh cka-w2 true", "ssh: connect to host cka-w2 port 22: No route to host\n[255]")
		l.expect("candidate", "ssh -o Foo=bar cka-w1", "command-line: line 0: Bad configuration option: foo\n[255]")
		l.expect("candidate", "ssh", clientUsage+"[255]")
		w1 := l.machines["cka-w1"]
		w1.Systemd().Stop("ssh.service")
		l.expect("candidate", "ssh cka-w1 true", "ssh: connect to host cka-w1 port 22: Connection refused\n[255]")
		l.expect("candidate", "scp x cka-w1:", "ssh: connect to host cka-w1 port 22: Connection refused\nscp: Connection closed\n[255]")
		f := w1.Files(kernel.Root)
		f.WriteFile("/etc/ssh/sshd_config", []byte("PermitRootLogin no\nPort 2222\n"), 0o644)
		w1.Systemd().Start("ssh.service")
		l.expect("candidate", "ssh -p 2222 cka-w1 echo in", "in\n[0]")
		l.expect("candidate", "ssh -p 2222 root@cka-w1 echo in", "root@cka-w1: Permission denied (publickey).\n[255]")
		f.WriteFile("/etc/ssh/sshd_config", nil, 0o644)
		w1.Host().Processes.Find(w1.Systemd().Status("ssh.service").MainPID).Signal(kernel.SIGHUP)
		time.Sleep(time.Second)
		l.expect("candidate", "ssh root@cka-w1 echo in", "in\n[0]")
		f.WriteFile("/etc/ssh/sshd_config", []byte("PermitRootLogin no\nPorts 2222\n"), 0o644)
		w1.Systemd().Restart("ssh.service")
		time.Sleep(time.Second)
		if st := w1.Systemd().Status("ssh.service"); st.ExitStatus.Code != 255 {
			t.Errorf("a bad configuration: %+v", st)
		}
		found := false
		for _, e := range w1.Journal().After(0) {
			found = found || e.Message == "/etc/ssh/sshd_config: line 2: Bad configuration option: Ports"
		}
		if !found {
			t.Error("the journal does not name the bad line")
		}
	})
}

func TestInteractive(t *testing.T) {
	inLab(t, func(l *lab) {
		s := &screen{typed: make(chan string)}
		p, _ := l.start("candidate", "ssh cka-w1; echo back with $?", nil, s)
		for _, line := range []string{"PS1='w1> '", "echo $0 $SSH_TTY $TERM", "sleep 1000"} {
			s.typed <- line
		}
		time.Sleep(5 * time.Second)
		s.interrupt()
		s.typed <- "echo $?"
		s.typed <- "exit 7"
		p.Wait()
		out := s.String()
		_, out, _ = strings.Cut(out, "PS1='w1> '\n")
		want := "w1> echo $0 $SSH_TTY $TERM\n-bash /dev/pts/0 xterm\nw1> sleep 1000\nw1> echo $?\n130\nw1> exit 7\nlogout\nConnection to cka-w1 closed.\nback with 7\n"
		if d := cmp.Diff(want, out); d != "" {
			t.Error(d)
		}
		if n := len(l.left()); n != 0 {
			t.Errorf("processes are left: %v", l.left())
		}
	})
}

// left lists the processes that sessions have left on the worker.
func (l *lab) left() (names []string) {
	time.Sleep(time.Second)
	for _, p := range l.machines["cka-w1"].Host().Processes.List() {
		if strings.HasPrefix(p.Unit, "session-") {
			names = append(names, p.Name())
		}
	}
	return names
}

func TestEitherSideEnds(t *testing.T) {
	inLab(t, func(l *lab) {
		// the client is interrupted
		p, _ := l.start("candidate", "ssh cka-w1 sleep 1000", nil, nil)
		time.Sleep(time.Second)
		p.Signal(kernel.SIGINT)
		p.Wait()
		if n := l.left(); len(n) != 0 {
			t.Errorf("left after Ctrl-C: %v", n)
		}
		// sshd is stopped, what runs goes on; then the machine goes down
		s := &screen{typed: make(chan string)}
		p, _ = l.start("candidate", "ssh cka-w1; echo back with $?", nil, s)
		s.typed <- "echo before"
		w1 := l.machines["cka-w1"]
		w1.Systemd().Stop("ssh.service")
		s.typed <- "echo after"
		time.Sleep(time.Second)
		if !strings.Contains(s.String(), "\nafter\n") {
			t.Errorf("a session ended with sshd: %s", s.String())
		}
		w1.Crash()
		p.Wait()
		if !strings.HasSuffix(s.String(), "Connection to cka-w1 closed by remote host.\nConnection to cka-w1 closed.\nback with 255\n") {
			t.Errorf("%s", s.String())
		}
		l.expect("candidate", "ssh cka-w1 true", "ssh: connect to host cka-w1 port 22: No route to host\n[255]")
	})
}

func TestCopy(t *testing.T) {
	inLab(t, func(l *lab) {
		cp, w1 := l.machines["cka-cp1"].Files(kernel.Root), l.machines["cka-w1"].Files(kernel.Root)
		u, _ := l.machines["cka-w1"].LookupUser("candidate")
		text := strings.Repeat("0123456789abcde\n", 50_000)
		cp.WriteFile("/home/candidate/a", []byte(text), 0o640)
		cp.Chown("/home/candidate/a", u.Cred.UID, u.Cred.GID)
		l.expect("candidate", "scp a cka-w1:/tmp/b", "[0]")
		if b, err := w1.ReadFile("/tmp/b"); err != nil || string(b) != text {
			t.Errorf("%d bytes arrived, %v", len(b), err)
		}
		i, err := w1.Stat("/tmp/b")
		if err != nil || i.Mode().Perm() != 0o640 || kernel.StatOf(i).UID != 1000 {
			t.Errorf("%v %v", i, err)
		}
		w1.MkdirAll("/etc/kubernetes/pki", 0o755)
		w1.WriteFile("/etc/kubernetes/kubelet.conf", []byte("k"), 0o600)
		w1.WriteFile("/etc/kubernetes/pki/ca.crt", []byte("ca"), 0o644)
		l.expect("candidate", "scp -r root@cka-w1:/etc/kubernetes .", "[0]")
		if b, err := cp.ReadFile("/home/candidate/kubernetes/pki/ca.crt"); err != nil || string(b) != "ca" {
			t.Error(err)
		}
		l.expect("candidate", "scp cka-w1:/etc/kubernetes/*.conf /tmp/", "scp: remote open \"/etc/kubernetes/kubelet.conf\": Permission denied\n[1]")
		l.expect("candidate", "scp cka-w1:/etc/kubernetes .", "scp: download \"/etc/kubernetes\": not a regular file\n[1]")
		l.expect("candidate", "scp cka-w1:/none .", "scp: /none: No such file or directory\n[1]")
		l.expect("candidate", "scp none cka-w1:", "scp: stat local \"none\": No such file or directory\nscp: failed to upload file none to .\n[1]")
		l.expect("candidate", "scp a cka-w1:/root/a", "scp: dest open \"/root/a\": Permission denied\nscp: failed to upload file a to /root/a\n[1]")
		l.expect("candidate", "scp -p cka-w1:/tmp/b root@cka-w1:/root/c", "[0]")
		if a, _ := w1.Stat("/tmp/b"); true {
			if c, err := w1.Stat("/root/c"); err != nil || !c.ModTime().Equal(a.ModTime()) {
				t.Errorf("%v %v", c, err)
			}
		}
		l.expect("candidate", "scp a", scpUsage+"[1]")
	})
}
