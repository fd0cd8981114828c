package userland_test

import (
	"io"
	"strings"
	"testing"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
)

// terminal is a user who edits files as edit says and types lines.
type terminal struct {
	stream
	lines     []string
	passwords []string
	edit      func(name string, content []byte) []byte
	paged     []byte
}

func (t *terminal) Read(b []byte) (int, error) {
	s, err := t.ReadLine("", nil)
	if err != nil {
		return 0, err
	}
	return copy(b, s+"\n"), nil
}

func (t *terminal) ReadLine(prompt string, _ kernel.Completer) (string, error) {
	io.WriteString(t, prompt)
	if len(t.lines) == 0 {
		return "", io.EOF
	}
	s := t.lines[0]
	t.lines = t.lines[1:]
	return s, nil
}

func (t *terminal) ReadPassword(prompt string) (string, error) {
	io.WriteString(t, prompt+"\n")
	if len(t.passwords) == 0 {
		return "", io.EOF
	}
	s := t.passwords[0]
	t.passwords = t.passwords[1:]
	return s, nil
}

func (t *terminal) Size() (int, int) { return 80, 24 }
func (t *terminal) Edit(name string, content []byte) ([]byte, error) {
	return t.edit(name, content), nil
}
func (t *terminal) Page(content []byte) error                       { t.paged = content; return nil }
func (t *terminal) SetForeground(p *kernel.Process) *kernel.Process { return nil }

// at runs a script as a user at a terminal.
func (l *lab) at(t *terminal, user, script string) (string, int) {
	u, _ := l.m.LookupUser(user)
	p, err := l.m.Start(kernel.Spec{Argv: []string{"bash", "-c", script}, Dir: u.Home, Cred: u.Cred, Stdin: t, Stdout: t, Stderr: t, TTY: t, Parent: l.m.Host().Processes.Find(1),
		Env: []string{"HOME=" + u.Home, "USER=" + user, "LOGNAME=" + user, "SHELL=/bin/bash", "LANG=C.UTF-8", "TERM=xterm-256color", "PATH=" + machine.DefaultPath}})
	if err != nil {
		l.Fatal(err)
	}
	code := p.Wait().ExitCode()
	out := t.b.String()
	t.b.Reset()
	return out, code
}

func TestEditorKeepsModeAndOwner(t *testing.T) {
	inLab(t, func(l *lab) {
		tty := &terminal{edit: func(name string, b []byte) []byte { return append(b, "# "+name+"\n"...) }}
		root := l.m.Files(kernel.Root)
		root.WriteFile("/etc/secret.conf", []byte("a=1\n"), 0o640)
		root.Chown("/etc/secret.conf", 0, 4)
		if out, code := l.at(tty, "candidate", "sudo vim /etc/secret.conf; stat -c '%a %g' /etc/secret.conf"); out != "640 4\n" || code != 0 {
			t.Errorf("%d %q", code, out)
		}
		if b, _ := root.ReadFile("/etc/secret.conf"); string(b) != "a=1\n# secret.conf\n" {
			t.Errorf("content %q", b)
		}
		if out, code := l.at(tty, "candidate", "nano /etc/hosts"); code != 1 || !strings.Contains(out, "readonly") {
			t.Errorf("a file of root's was written: %d %q", code, out)
		}
		if out, code := l.run("candidate", "vim x"); code != 1 || !strings.Contains(out, "terminal only") {
			t.Errorf("without a terminal: %d %q", code, out)
		}
	})
}

func TestTerminalOutput(t *testing.T) {
	inLab(t, func(l *lab) {
		tty := &terminal{}
		for _, c := range [][2]string{
			{"mkdir d; touch 'a b' c; ls", "'a b'   c   d\n"},
			{"ls --color=auto", "'a b'   c   \x1b[0m\x1b[01;34md\x1b[0m\n"},
			{"tput cols; stty size; tty", "80\n24 80\n/dev/pts/0\n"},
			{"ps | wc -l; ps -o tty= -p $$", "4\npts/0\n"},
		} {
			if got, _ := l.at(tty, "candidate", c[0]); got != c[1] {
				t.Errorf("%s\n got %q\nwant %q", c[0], got, c[1])
			}
		}
		if l.at(tty, "candidate", "seq 100 | less"); !strings.HasSuffix(string(tty.paged), "99\n100\n") {
			t.Errorf("paged %q", tty.paged)
		}
		tty.lines = []string{"y", "n"}
		if got, _ := l.at(tty, "candidate", "rm -i c 'a b'; ls -A | grep -c ."); !strings.HasPrefix(got, "rm: remove regular empty file 'c'? rm: remove regular empty file 'a b'? ") {
			t.Errorf("rm -i: %q", got)
		}
		if got, code := l.at(tty, "candidate", "timeout 5 watch -n 2 echo hello"); code != 124 || strings.Count(got, "hello\r\n")+strings.Count(got, "hello\x1b") == 0 && strings.Count(got, "Every 2.0s: echo hello") != 3 {
			t.Errorf("watch: %d %q", code, got)
		}
	})
}

func TestSudoAsksForAPassword(t *testing.T) {
	inLab(t, func(l *lab) {
		root := l.m.Files(kernel.Root)
		root.Remove("/etc/sudoers.d/90-candidate")
		tty := &terminal{passwords: []string{"a", "b", "c"}}
		want := "[sudo] password for candidate: \nSorry, try again.\n[sudo] password for candidate: \nSorry, try again.\n[sudo] password for candidate: \nsudo: 3 incorrect password attempts\n"
		if got, code := l.at(tty, "candidate", "sudo ls"); got != want || code != 1 {
			t.Errorf("%d %q", code, got)
		}
		if got, code := l.run("candidate", "sudo ls"); code != 1 || !strings.HasPrefix(got, "sudo: a terminal is required to read the password") {
			t.Errorf("%d %q", code, got)
		}
		if got, code := l.run("candidate", "sudo -n ls"); code != 1 || got != "sudo: a password is required\n" {
			t.Errorf("%d %q", code, got)
		}
		root.WriteFile("/etc/sudoers.d/limited", []byte("candidate ALL=(root) NOPASSWD: /usr/bin/id, /usr/bin/cat /etc/shadow\n"), 0o440)
		for _, c := range []struct {
			script, want string
			code         int
		}{
			{"sudo id -u", "0\n", 0},
			{"sudo -n cat /etc/shadow | head -1", "root:*:20423:0:99999:7:::\n", 0},
			{"sudo -n ls", "sudo: a password is required\n", 1},
		} {
			if got, code := l.run("candidate", c.script); got != c.want || code != c.code {
				t.Errorf("%s: %d %q", c.script, code, got)
			}
		}
		root.Chmod("/usr/bin/sudo", 0o755)
		if got, code := l.run("candidate", "sudo id"); code != 1 || got != "sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set\n" {
			t.Errorf("%d %q", code, got)
		}
	})
}
