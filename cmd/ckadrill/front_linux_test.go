package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckadrill/sim/wire/early"
)

// seat is the program at a terminal of its own, as a user sits at it.
type seat struct {
	t    *testing.T
	cmd  *exec.Cmd
	pty  *os.File
	mu   sync.Mutex
	text bytes.Buffer // what was shown, without the terminal's control sequences
	seen int
	over chan struct{}
}

// takeSeat starts the program at a new terminal.
func takeSeat(t *testing.T, args ...string) *seat {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal to test with: ", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 200})
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	s := &seat{t: t, pty: master, over: make(chan struct{})}
	s.cmd = exec.Command(os.Args[0], args...)
	s.cmd.Env = append(os.Environ(), asFront+"=1", "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.over)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		master.Close()
	})
	return s
}

var (
	control = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]|\x08|\x07")
	// prompt is a shell's prompt at the beginning of a line; while a line is edited it is written again behind a carriage
	// return only.
	prompt = regexp.MustCompile(`(?:^|\n)\r*[a-z]+@[a-z0-9-]+:[^\r\n]*?[$#] *$`)
	// redrawn is a line as it was before it was written again.
	redrawn = regexp.MustCompile(`(?m)^[^\n]*\r`)
)

// patience is how long a seat waits for something to be shown. It decides about nothing but when a test has failed.
const patience = 3 * time.Minute

// await waits until what is shown since the last call matches, and returns it.
func (s *seat) await(re *regexp.Regexp) string {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		text := control.ReplaceAllString(s.text.String()[s.seen:], "")
		if re.MatchString(text) {
			s.seen = s.text.Len()
			s.mu.Unlock()
			return redrawn.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "")
		}
		s.mu.Unlock()
		select {
		case <-deadline:
			s.t.Fatalf("the terminal does not show %s:\n%s", re, text)
		case <-s.over:
			s.mu.Lock()
			text = control.ReplaceAllString(s.text.String()[s.seen:], "")
			s.mu.Unlock()
			if !re.MatchString(text) {
				s.t.Fatalf("the program ended and did not show %s:\n%s", re, text)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// begin types a line.
func (s *seat) begin(line string) {
	s.t.Helper()
	if _, err := s.pty.WriteString(line + "\r"); err != nil {
		s.t.Fatal(err)
	}
}

// do types a line and returns what is shown up to the next prompt, and that prompt.
func (s *seat) do(line string) (output, next string) {
	s.t.Helper()
	s.begin(line)
	// The echo of the line ends in a newline; the prompt comes behind it.
	text := s.await(regexp.MustCompile(`(?s)\n.*` + prompt.String()[len(`(?:^|\n)`):]))
	_, text, _ = strings.Cut(text, "\n")
	i := strings.LastIndexByte(text, '\n') + 1
	return text[:i], strings.TrimSpace(text[i:])
}

// shows types a line and wants exactly this to be shown.
func (s *seat) shows(line, want string) {
	s.t.Helper()
	if got, _ := s.do(line); got != want {
		s.t.Errorf("%s shows %q and not %q", line, got, want)
	}
}

// killWorker ends the worker as kill -9 does, and waits for the next prompt.
func (s *seat) killWorker() string {
	s.t.Helper()
	if err := syscall.Kill(youngestChild(s.t, s.cmd.Process.Pid), syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	return s.await(regexp.MustCompile(`(?s)ended: signal: killed.*` + prompt.String()))
}

// kill ends the program as kill -9 does.
func (s *seat) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// TAB completes what kubectl knows, a command on another machine leaves the terminal to the shell when it has ended, and who
// reboots the machine is logged in to it again.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := takeSeat(t, "shell", "--session", t.TempDir())
	s.await(prompt)
	if _, err := s.pty.WriteString("kubectl get -o name namespaces kube-s\t"); err != nil {
		t.Fatal(err)
	}
	s.await(regexp.MustCompile("kube-system"))
	s.shows("", "namespace/kube-system\n")
	for range 3 {
		s.shows("ssh cka-w1 hostname", "cka-w1\n")
		s.shows("ssh cka-w1 sudo systemctl is-active kubelet; echo $?", "active\n0\n")
		s.shows("echo typed | ssh cka-w1 cat", "typed\n")
	}
	s.shows("x=1; sudo reboot", "Connection to cka-cp1 closed by remote host.\n")
	s.shows("test $(cut -d. -f1 /proc/uptime) -lt 60; echo $? $x", "0\n")
}

// A candidate's shells, one inside of the other on two machines, survive kill -9 of the worker and of the program.
func TestNestedShellsSurviveKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := takeSeat(t, "shell", "--session", dir)
	s.await(prompt)
	s.do("cd /tmp; x=1; k() { kubectl $*; }")
	if out, p := s.do("ssh cka-w1"); p != "candidate@cka-w1:~$" {
		t.Fatalf("ssh leads to %q: %q", p, out)
	}
	s.do("y=2; cd /etc")
	s.do("sudo -i")
	s.do("cd /etc/kubernetes; greet() { echo hello $1; }; export E=5; set -- p q; alias hi='echo aliased'; set -u; f=(a 'b c')")
	s.do("journalctl -u ssh | wc -l > /tmp/lines; ps -eo pid,tty,args | grep -v ps > /tmp/processes; false")
	look := func(s *seat) {
		t.Helper()
		s.shows("echo $? $2 $(hostname) $(whoami) $PWD ${f[1]}; greet you; hi; env | grep ^E=; set -o | grep -c nounset.*on; "+
			"journalctl -u ssh | wc -l > /tmp/lines2; ps -eo pid,tty,args | grep -v ps > /tmp/processes2; diff /tmp/lines /tmp/lines2; diff /tmp/processes /tmp/processes2; history | grep -c lines; false",
			"1 q cka-w1 root /etc/kubernetes b c\nhello you\naliased\nE=5\n1\n2\n")
	}
	if out := s.killWorker(); !strings.Contains(out, "The cluster goes on from the state after the last command.") || !strings.Contains(out, "root@cka-w1:/etc/kubernetes# ") {
		t.Errorf("after the worker was killed: %q", out)
	}
	look(s)
	s.begin("kubectl --kubeconfig kubelet.conf get node cka-w1 -w")
	s.await(regexp.MustCompile("cka-w1 +Ready"))
	s.kill()

	s = takeSeat(t, "resume", dir)
	if out := s.await(prompt); !strings.Contains(out, `"kubectl --kubeconfig kubelet.conf get node cka-w1 -w" had not finished`) || !strings.Contains(out, "root@cka-w1:/etc/kubernetes# ") {
		t.Errorf("after the program was killed: %q", out)
	}
	look(s)
	if out, p := s.do("exit"); out != "logout\n" || p != "candidate@cka-w1:/etc$" {
		t.Errorf("exit shows %q and leads to %q", out, p)
	}
	s.shows("echo $y", "2\n")
	if out, p := s.do("exit"); out != "logout\nConnection to cka-w1 closed.\n" || p != "candidate@cka-cp1:/tmp$" {
		t.Errorf("exit shows %q and leads to %q", out, p)
	}
	s.shows("echo $x; k config current-context", "1\nkubernetes-admin@kubernetes\n")
	// What was exited is open again after an undo.
	s.do("x=2")
	var way []string
	for range 40 {
		out, p := s.do("drill undo")
		if strings.Contains(out, "at its beginning") {
			break
		}
		if len(way) == 0 || way[len(way)-1] != p {
			way = append(way, p)
			if len(way) == 3 {
				s.shows("greet again", "hello again\n")
			}
		}
	}
	want := []string{
		"candidate@cka-cp1:/tmp$", "candidate@cka-w1:/etc$", "root@cka-w1:/etc/kubernetes#", "root@cka-w1:~#", "candidate@cka-w1:/etc$", "candidate@cka-w1:~$",
		"candidate@cka-cp1:/tmp$", "candidate@cka-cp1:~$",
	}
	if !slices.Equal(way, want) {
		t.Errorf("drill undo leads back over\n%q and not\n%q", way, want)
	}
}

// A program that ends before its worker has a world to hold leaves no worker behind.
func TestNoWorkerIsLeft(t *testing.T) {
	t.Parallel()
	if _, problem, exit := program(t, "shell", "--session", copySession(t, []byte("no session\n")), "-c", "true"); exit != 1 || !strings.Contains(problem, "this is not a ckadrill session") {
		t.Fatalf("a damaged session: %d, %q", exit, problem)
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		left := orphans(t)
		if len(left) == 0 {
			return
		}
		if time.Since(began) > 30*time.Second { // those of other tests' programs are given the time to end
			t.Fatalf("workers without a front are left: %v", left)
		}
	}
}

// orphans are the workers of this test binary whose front has ended.
func orphans(t *testing.T) (pids []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || string(line) != self+"\x00"+early.WorkerArgument+"\x00" {
			continue
		}
		stat, err := os.ReadFile(filepath.Dir(f) + "/stat")
		_, rest, ok := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); err == nil && ok && len(fields) > 1 && fields[0] != "Z" && fields[1] == "1" {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}
