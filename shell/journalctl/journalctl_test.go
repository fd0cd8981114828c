package journalctl

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
)

// lab is a machine whose service "tick" prints a line a minute, an error every fifth.
type lab struct {
	t *testing.T
	m *machine.Machine
}

func testLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)))
		w := kernel.NewWorld(1)
		Register(w.Programs)
		w.Programs.Register("sshd", func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		w.Programs.Register("tick", func(p *kernel.Process) int {
			for i := 1; ; i++ {
				if p.Sleep(time.Minute) != nil {
					return 0
				}
				if i%5 == 0 {
					p.Printf("<3>Error %d\n", i)
				} else {
					p.Printf("tick %d\n", i)
				}
			}
		})
		m := machine.New(w, "cka-w1", machine.Options{})
		files := m.Files(kernel.Root)
		files.WriteFile("/usr/bin/tick", kernel.Executable("tick"), 0o755)
		files.WriteFile("/usr/lib/systemd/system/tick.service", []byte("[Unit]\nDescription=A clock\n[Service]\nExecStart=/usr/bin/tick\n"), 0o644)
		files.Symlink("/usr/lib/systemd/system/tick.service", "/etc/systemd/system/multi-user.target.wants/tick.service")
		m.Boot()
		defer m.Crash()
		synctest.Wait() // the services have begun
		f(&lab{t, m})
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (l *lab) start(user, line string) (*kernel.Process, *lockedBuffer) {
	l.t.Helper()
	u, _ := l.m.LookupUser(user)
	out := &lockedBuffer{}
	p, err := l.m.Start(kernel.Spec{Argv: strings.Split(line, " "), Cred: u.Cred, Stdout: out, Stderr: out})
	if err != nil {
		l.t.Fatal(err)
	}
	return p, out
}

func (l *lab) want(line, want string, code int) {
	l.t.Helper()
	p, out := l.start("root", line)
	c := p.Wait().ExitCode()
	got := strings.ReplaceAll(out.String(), fmt.Sprintf("[%d]", l.pid()), "[P]")
	if d := cmp.Diff(want, got); d != "" || c != code {
		l.t.Errorf("%s: exit code %d, not %d\n%s", line, c, code, d)
	}
}

func (l *lab) pid() int { return l.m.Systemd().Status("tick.service").MainPID }

func TestSelection(t *testing.T) {
	testLab(t, func(l *lab) {
		time.Sleep(10*time.Minute + 30*time.Second)
		l.want("journalctl -u tick -n 2", "Dec 01 10:09:00 cka-w1 tick[P]: tick 9\nDec 01 10:10:00 cka-w1 tick[P]: Error 10\n", 0)
		l.want("journalctl -ru tick.service -n2 -o cat", "Error 10\ntick 9\n", 0)
		l.want("journalctl -u tick -n +1 --no-hostname", "Dec 01 10:00:00 systemd[1]: Started tick.service - A clock.\n", 0)
		l.want("journalctl -u tick -p err -o cat", "Error 5\nError 10\n", 0)
		l.want("journalctl -u tick -g error -o cat", "Error 5\nError 10\n", 0)
		l.want("journalctl -u tick --grep=ERROR -o cat", "-- No entries --\n", 0)
		l.want("journalctl -u tick --since -2min -o cat", "tick 9\nError 10\n", 0)
		p, out := l.start("root", "journalctl -u tick -o cat -S")
		if p.Wait().ExitCode() != 1 || out.String() != "journalctl: option requires an argument -- 'S'\n" {
			t.Errorf("%q", out.String())
		}
		l.want("journalctl -u tick --since 10:08 --until 10:09 -o cat", "tick 8\ntick 9\n", 0)
		l.want("journalctl -t tick _UID=0 PRIORITY=3 -o short-iso -n 1", "2026-12-01T10:10:00+00:00 cka-w1 tick[P]: Error 10\n", 0)
		l.want(fmt.Sprintf("journalctl -n1 _PID=%d -o cat", l.pid()), "Error 10\n", 0)
		l.want("journalctl _SYSTEMD_UNIT=init.scope UNIT=tick.service -o cat", "Started tick.service - A clock.\n", 0)
		l.want("journalctl -u none", "-- No entries --\n", 0)
		l.want("journalctl -k", "-- No entries --\n", 0)
		l.want("journalctl -q -u none", "", 0)
		for line, want := range map[string]string{
			"journalctl --since bogus":   "Failed to parse timestamp: bogus\n",
			"journalctl -p foo":          "Unknown log level foo\n",
			"journalctl -o foo":          "Unknown output format 'foo'.\n",
			"journalctl FOO":             "Failed to add match 'FOO': Invalid argument\n",
			"journalctl -b 99":           "Data from the specified boot (+99) is not available: No such boot ID in journal\n",
			"journalctl -b -3":           "Data from the specified boot (-3) is not available: No such boot ID in journal\n",
			"journalctl --bogus":         "journalctl: unrecognized option '--bogus'\n",
			"journalctl -S today -U -2d": "--since= must be before --until=.\n",
		} {
			l.want(line, want, 1)
		}
		l.want("journalctl -xu tick -n+1", `Dec 01 10:00:00 cka-w1 systemd[1]: Started tick.service - A clock.
░░ Subject: A start job for unit tick.service has finished successfully
░░ Defined-By: systemd
░░ Support: http://www.ubuntu.com/support
░░ 
░░ A start job for unit tick.service has finished successfully.
`, 0)
	})
}

func TestBootsAndFollowing(t *testing.T) {
	testLab(t, func(l *lab) {
		time.Sleep(90 * time.Second)
		p, out := l.start("root", "journalctl -fu tick -n 1 -o cat")
		time.Sleep(2 * time.Minute)
		if got := out.String(); got != "tick 1\ntick 2\ntick 3\n" {
			t.Errorf("%q", got)
		}
		p.Signal(kernel.SIGINT)
		if code := p.Wait().ExitCode(); code != 130 {
			t.Errorf("interrupted, it ends with %d", code)
		}
		first := strings.ReplaceAll(l.m.BootID(), "-", "")
		l.m.Reboot()
		time.Sleep(time.Minute)
		second := strings.ReplaceAll(l.m.BootID(), "-", "")
		l.want("journalctl -u tick -n 2", "Dec 01 10:03:30 cka-w1 systemd[1]: Stopped tick.service - A clock.\n-- Boot "+second+" --\nDec 01 10:03:40 cka-w1 systemd[1]: Started tick.service - A clock.\n", 0)
		l.want("journalctl -b -u tick -o cat", "Started tick.service - A clock.\n", 0)
		l.want("journalctl -b -1 -u tick -o cat -n 1", "Stopped tick.service - A clock.\n", 0)
		p, out = l.start("root", "journalctl --list-boots")
		p.Wait()
		lines := strings.Split(out.String(), "\n")
		if len(lines) != 4 || !strings.HasPrefix(lines[1], " -1 "+first+" Tue 2026-12-01 10:00:00 UTC ") || !strings.HasPrefix(lines[2], "  0 "+second+" ") {
			t.Errorf("%s", out.String())
		}
	})
}

func TestWhoMayRead(t *testing.T) {
	testLab(t, func(l *lab) {
		time.Sleep(90 * time.Second)
		run := func(user string) string {
			p, out := l.start(user, "journalctl -t tick -o cat")
			p.Wait()
			return out.String()
		}
		if got := run("candidate"); got != "tick 1\n" {
			t.Errorf("%q", got) // of the group adm
		}
		if got := run("nobody"); !strings.HasPrefix(got, "Hint: You are currently not seeing messages from other users and the system.\n") || strings.Contains(got, "tick 1") {
			t.Errorf("%q", got)
		}
	})
}

func TestTimestamps(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 30, 15, 0, time.UTC)
	for s, want := range map[string]string{
		"2026-12-01 09:05:07":     "2026-12-01T09:05:07Z",
		"2026-12-01 09:05":        "2026-12-01T09:05:00Z",
		"2026-11-30":              "2026-11-30T00:00:00Z",
		"Tue 2026-12-01 09:05:07": "2026-12-01T09:05:07Z",
		"2026-12-01 09:05:07 UTC": "2026-12-01T09:05:07Z",
		"2026-12-01T09:05:07Z":    "2026-12-01T09:05:07Z",
		"09:05":                   "2026-12-01T09:05:00Z",
		"today":                   "2026-12-01T00:00:00Z",
		"yesterday":               "2026-11-30T00:00:00Z",
		"yesterday 09:00":         "2026-11-30T09:00:00Z",
		"5 min ago":               "2026-12-01T10:25:15Z",
		"1 hour ago":              "2026-12-01T09:30:15Z",
		"1h30min ago":             "2026-12-01T09:00:15Z",
		"-1h":                     "2026-12-01T09:30:15Z",
		"+5min":                   "2026-12-01T10:35:15Z",
		"@1796121000":             "2026-12-01T10:30:00Z",
		"now":                     "2026-12-01T10:30:15Z",
	} {
		got, err := parseTimestamp(s, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
	for _, s := range []string{"", "bogus", "-", "5 foo ago", "2026-13-01", "25:00", "infinity ago", "@x"} {
		if at, err := parseTimestamp(s, now); err == nil {
			t.Errorf("%q is %v", s, at)
		}
	}
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"5 min ago", "2026-12-01 10:00", "@1", "-1h", "today"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { parseTimestamp(s, time.Unix(1e9, 0)) })
}
