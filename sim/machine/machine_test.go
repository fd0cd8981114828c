package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
)

// lab runs f in a bubble with a machine that has two services: "good" runs until it is stopped, "bad" exits with what
// /etc/bad says after a second.
func lab(t *testing.T, f func(w *kernel.World, m *Machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)))
		w := kernel.NewWorld(1)
		m := newLab(w)
		m.Boot()
		f(w, m)
		m.Crash()
	})
}

func newLab(w *kernel.World) *Machine {
	w.Programs.Register("sshd", func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
	w.Programs.Register("good", func(p *kernel.Process) int {
		done := make(chan int)
		p.Notify(kernel.SIGTERM, func() { p.Printf("bye\n"); close(done) })
		if !p.Resumed() {
			p.Printf("argv %q, A=%s\n", p.Argv[1:], p.Getenv("A"))
		}
		select {
		case code := <-done:
			return code
		case <-p.Context().Done():
			return 0
		}
	})
	w.Programs.Register("systemd-modules-load", func(p *kernel.Process) int { return 0 })
	w.Programs.Register("systemd-sysctl", func(p *kernel.Process) int {
		b, _ := p.ReadFile("/etc/sysctl.d/k8s.conf")
		if name, value, ok := strings.Cut(strings.TrimSpace(string(b)), " = "); ok {
			p.Files.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0o644)
		}
		return 0
	})
	w.Programs.Register("slow", func(p *kernel.Process) int { p.Sleep(10 * time.Second); return 0 })
	w.Programs.Register("stubborn", func(p *kernel.Process) int {
		p.Notify(kernel.SIGTERM, func() {})
		<-p.Context().Done()
		return 0
	})
	w.Programs.Register("bad", func(p *kernel.Process) int {
		p.Sleep(time.Second)
		b, _ := p.ReadFile("/etc/bad")
		code := 0
		fmt.Sscan(string(b), &code)
		p.Errorf("exiting with %d\n", code)
		return code
	})
	m := New(w, "cka-w1", Options{})
	f := m.Files(kernel.Root)
	for name, text := range map[string]string{
		"/usr/sbin/sshd":                       string(kernel.Executable("sshd")),
		"/usr/bin/good":                        string(kernel.Executable("good")),
		"/usr/bin/bad":                         string(kernel.Executable("bad")),
		"/usr/bin/slow":                        string(kernel.Executable("slow")),
		"/usr/bin/stubborn":                    string(kernel.Executable("stubborn")),
		"/usr/lib/systemd/system/good.service": "[Unit]\nDescription=A good service\nDocumentation=https://example.org\n[Service]\nExecStart=/usr/bin/good\nRestart=always\nRestartSec=10\nStartLimitInterval=0\n[Install]\nWantedBy=multi-user.target\n",
		"/usr/lib/systemd/system/good.service.d/10-args.conf": "[Service]\nEnvironment=\"A=a b\" \"B=b\"\nEnvironmentFile=-/etc/default/good\nExecStart=\nExecStart=/usr/bin/good $MORE ${A} \\\n  $NONE last\n",
		"/etc/default/good":                   "MORE=\"--one --two=2\"\n",
		"/usr/lib/systemd/system/bad.service": "[Service]\nExecStart=/usr/bin/bad\nRestart=on-failure\nRestartSec=2s\n",
		"/etc/bad":                            "1",
	} {
		if err := f.WriteFile(name, []byte(text), 0o755); err != nil {
			panic(err)
		}
	}
	return m
}

func init() {
	// WriteFile makes no directory
	directories["/usr/lib/systemd/system/good.service.d"] = 0
}

func lines(m *Machine, unit string) []string {
	var l []string
	for _, e := range m.Journal().After(0) {
		if e.Unit == unit {
			l = append(l, regexp.MustCompile(`\[\d\d+\]`).ReplaceAllString(e.Format("short", m.Host().Name()), "[N]"))
		}
	}
	return l
}

func TestServiceReadsItsUnitFile(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		if err := m.Systemd().Start("good.service"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := m.Systemd().Stop("good.service"); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"Dec 01 10:00:00 cka-w1 systemd[1]: Started good.service - A good service.",
			`Dec 01 10:00:00 cka-w1 good[N]: argv ["--one" "--two=2" "a b" "last"], A=a b`,
			"Dec 01 10:01:00 cka-w1 systemd[1]: Stopping good.service - A good service...",
			"Dec 01 10:01:00 cka-w1 good[N]: bye",
			"Dec 01 10:01:00 cka-w1 systemd[1]: good.service: Deactivated successfully.",
			"Dec 01 10:01:00 cka-w1 systemd[1]: Stopped good.service - A good service.",
		}
		got := lines(m, "good.service")
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestRestartUntilTheLimit(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		s := m.Systemd()
		s.Start("bad.service")
		time.Sleep(1500 * time.Millisecond)
		if st := s.Status("bad.service"); st.Active != systemd.Activating || st.Sub != "auto-restart" || st.Result != "exit-code" {
			t.Errorf("%s (%s) %s", st.Active, st.Sub, st.Result)
		}
		time.Sleep(time.Minute)
		st := s.Status("bad.service")
		if st.Active != systemd.Activating && st.Sub != "running" && st.Active != systemd.Active {
			t.Errorf("restarts every 3 s, four in 10 s, are below the limit: %s %s", st.Active, st.Result)
		}
		// with a restart at once the limit is hit
		f := m.Files(kernel.Root)
		f.WriteFile("/usr/lib/systemd/system/bad.service", []byte("[Service]\nExecStart=/usr/bin/bad\nRestart=on-failure\n"), 0o644)
		if !s.Status("bad.service").NeedReload {
			t.Error("a changed unit file goes unnoticed")
		}
		s.Reload(nil)
		time.Sleep(time.Minute)
		st = s.Status("bad.service")
		if st.Active != systemd.Failed || st.Result != "exit-code" {
			t.Errorf("%s, %s", st.Active, st.Result)
		}
		all := strings.Join(lines(m, "bad.service"), "\n")
		for _, want := range []string{
			"bad[N]: exiting with 1", "bad.service: Main process exited, code=exited, status=1/FAILURE", "bad.service: Failed with result 'exit-code'.",
			"bad.service: Scheduled restart job, restart counter is at 1.", "bad.service: Start request repeated too quickly.", "Failed to start bad.service.",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("no line %q in\n%s", want, all)
			}
		}
	})
}

func TestMissingProgramAndMask(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		s, f := m.Systemd(), m.Files(kernel.Root)
		f.Remove("/usr/bin/good")
		s.Start("good.service")
		time.Sleep(time.Second)
		if st := s.Status("good.service"); st.ExitStatus.Code != 203 || st.Sub != "auto-restart" {
			t.Errorf("%+v", st)
		}
		all := strings.Join(lines(m, "good.service"), "\n")
		for _, want := range []string{"(good)[N]: good.service: Unable to locate executable '/usr/bin/good': No such file or directory", "status=203/EXEC"} {
			if !strings.Contains(all, want) {
				t.Errorf("no line %q in\n%s", want, all)
			}
		}
		s.Stop("good.service")
		if said, err := s.Mask("good.service"); err != nil || said[0] != "Created symlink /etc/systemd/system/good.service → /dev/null." {
			t.Error(said, err)
		}
		var e *systemd.Error
		if err := s.Start("good.service"); !errors.As(err, &e) || e.Text != "Unit good.service is masked." {
			t.Errorf("%v", err)
		}
		if err := s.Start("none.service"); !errors.As(err, &e) || e.Text != "Unit none.service not found." || e.Code != 5 {
			t.Errorf("%v", err)
		}
	})
}

func TestRebootStartsWhatIsEnabled(t *testing.T) {
	lab(t, func(w *kernel.World, m *Machine) {
		s := m.Systemd()
		said, err := s.Enable("good.service")
		if err != nil || len(said) != 1 || said[0] != "Created symlink /etc/systemd/system/multi-user.target.wants/good.service → /usr/lib/systemd/system/good.service." {
			t.Error(said, err)
		}
		s.Start("bad.service")
		f := m.Files(kernel.Root)
		f.WriteFile("/run/volatile", nil, 0o644)
		f.WriteFile("/etc/sysctl.d/k8s.conf", []byte("net.ipv4.ip_forward = 1\n"), 0o644)
		boot := m.BootID()
		m.Reboot()
		time.Sleep(time.Minute)
		if st := s.Status("good.service"); st.Active != systemd.Active {
			t.Errorf("enabled, but %s", st.Active)
		}
		if st := s.Status("bad.service"); st.Active != systemd.Inactive {
			t.Errorf("not enabled, but %s", st.Active)
		}
		if _, err := f.Stat("/run/volatile"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("/run survived a reboot")
		}
		if b, _ := f.ReadFile("/proc/sys/net/ipv4/ip_forward"); string(b) != "1\n" {
			t.Errorf("ip_forward is %q", b)
		}
		if st := s.Status("systemd-sysctl.service"); st.Sub != "exited" || st.MainPID >= firstPID || st.MainExit.After(s.Status("good.service").MainStart) {
			t.Errorf("what sets the system up comes first: %+v", st)
		}
		if m.BootID() == boot || len(m.Journal().Boots()) != 2 {
			t.Error("there was no second boot")
		}
		m.PowerOff()
		time.Sleep(time.Hour)
		if m.PoweredOn() || len(m.Host().Processes.List()) != 0 {
			t.Error("it is still on")
		}
		if _, err := m.Start(kernel.Spec{Argv: []string{"/usr/bin/good"}}); err == nil {
			t.Error("a process was started on a machine without power")
		}
	})
}

func TestThawCarriesOnSilently(t *testing.T) {
	parts := kernel.Parts{}
	var before []string
	var pid int
	lab(t, func(w *kernel.World, m *Machine) {
		m.Systemd().Start("good.service")
		m.Systemd().Start("bad.service")
		m.Files(kernel.Root).WriteFile("/root/notes", []byte("x"), 0o600)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
		before = lines(m, "good.service")
		pid = m.Systemd().Status("good.service").MainPID
	})
	synctest.Test(t, func(t *testing.T) {
		date, err := kernel.DateOf(parts)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(date))
		w := kernel.NewWorld(0)
		m := newLab(w)
		defer m.Crash()
		if err := w.Thaw(parts); err != nil {
			t.Fatal(err)
		}
		if err := m.Resume(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := m.Systemd().Status("good.service")
		if st.Active != systemd.Active || st.MainPID != pid || m.Host().Processes.Find(pid) == nil {
			t.Errorf("%+v", st)
		}
		if d := cmp.Diff(before, lines(m, "good.service")); d != "" {
			t.Error("the thaw shows: " + d)
		}
		if d := w.Freeze(kernel.NewRecorder(parts)); len(d.Changed) != 0 || len(d.Removed) != 0 {
			for n := range d.Changed {
				t.Errorf("a thaw changed %s", n)
			}
			t.Error(d.Removed)
		}
		time.Sleep(2 * time.Second) // bad's restart was due 0.5 s before the thaw plus 2 s
		if st := m.Systemd().Status("bad.service"); st.Restarts != 1 || st.Active != systemd.Active {
			t.Errorf("bad: %+v", st)
		}
	})
}

func TestAPowerCutLeavesNoWord(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		m.Files(kernel.Root).WriteFile("/etc/systemd/system/x.service", []byte("[Service]\nType=notify\nExecStartPre=/usr/bin/slow\nExecStart=/usr/bin/good\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"), 0o644)
		m.Systemd().Enable("x.service")
		m.Systemd().Start("good.service")
		go m.Systemd().Start("x.service")
		time.Sleep(time.Second)
		before := m.Journal().After(0)
		m.Crash()
		time.Sleep(time.Hour)
		if after := m.Journal().After(before[len(before)-1].Seq); len(after) != 0 {
			t.Errorf("%+v", after)
		}
		go m.Boot()
		time.Sleep(time.Minute)
		if s := m.Systemd().Status("x.service"); s.Active != systemd.Activating || s.Sub != "start" || !m.Systemd().Booting() {
			t.Errorf("%s (%s)", s.Active, s.Sub)
		}
	})
}

func TestKillModeProcess(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		m.Files(kernel.Root).WriteFile("/etc/systemd/system/x.service", []byte("[Service]\nExecStart=/usr/bin/good\nKillMode=process\n"), 0o644)
		s := m.Systemd()
		s.Start("x.service")
		shim, err := m.Start(kernel.Spec{Argv: []string{"/usr/bin/stubborn"}, Unit: "x.service"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.Restart("x.service")
		if !shim.Alive() {
			t.Error("it killed more than the main process")
		}
		all := strings.Join(lines(m, "x.service"), "\n")
		for _, want := range []string{fmt.Sprintf("x.service: Unit process %d (stubborn) remains running after unit stopped.", shim.ID()), fmt.Sprintf("x.service: Found left-over process %d (stubborn) in control group while starting unit. Ignoring.", shim.ID())} {
			if !strings.Contains(all, want) {
				t.Errorf("no line %q in\n%s", want, all)
			}
		}
	})
}

// thawAfter freezes a lab after a while, thaws it into another world, and runs f there.
func thawAfter(t *testing.T, d time.Duration, units map[string]string, begin func(m *Machine), f func(m *Machine)) {
	t.Helper()
	parts := kernel.Parts{}
	lab(t, func(w *kernel.World, m *Machine) {
		for name, text := range units {
			m.Files(kernel.Root).WriteFile("/etc/systemd/system/"+name, []byte(text), 0o644)
		}
		begin(m)
		time.Sleep(d)
		synctest.Wait()
		w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
	})
	synctest.Test(t, func(t *testing.T) {
		date, err := kernel.DateOf(parts)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(date))
		w := kernel.NewWorld(0)
		m := newLab(w)
		defer m.Crash()
		if err := w.Thaw(parts); err != nil {
			t.Fatal(err)
		}
		if err := m.Resume(); err != nil {
			t.Fatal(err)
		}
		f(m)
	})
}

func TestThawInTheMiddleOfAJob(t *testing.T) {
	state := func(m *Machine, unit string) string {
		s := m.Systemd().Status(unit)
		return s.Active + "/" + s.Sub + "/" + s.Result
	}
	background := func(f func() error) { go f() }
	for name, c := range map[string]struct {
		unit  string
		begin func(m *Machine)
		now   string
		later string
	}{
		"waits for READY=1":  {"[Service]\nType=notify\nTimeoutStartSec=20\nExecStart=/usr/bin/good\n", func(m *Machine) { background(func() error { return m.Systemd().Start("x.service") }) }, "activating/start/success", "failed/failed/timeout"},
		"runs ExecStartPre=": {"[Service]\nExecStartPre=-/usr/bin/slow\nExecStart=/usr/bin/good\n", func(m *Machine) { background(func() error { return m.Systemd().Start("x.service") }) }, "activating/start-pre/success", "active/running/success"},
		"runs a oneshot":     {"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/slow\n", func(m *Machine) { background(func() error { return m.Systemd().Start("x.service") }) }, "activating/start/success", "active/exited/success"},
		"stops": {"[Service]\nTimeoutStopSec=20\nExecStart=/usr/bin/stubborn\n", func(m *Machine) {
			m.Systemd().Start("x.service")
			time.Sleep(time.Millisecond) // else it has no handler yet
			background(func() error { return m.Systemd().Stop("x.service") })
		}, "deactivating/stop-sigterm/success", "failed/failed/timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			thawAfter(t, 2*time.Second, map[string]string{"x.service": c.unit}, c.begin, func(m *Machine) {
				synctest.Wait()
				if got := state(m, "x.service"); got != c.now {
					t.Errorf("after the thaw %s, not %s", got, c.now)
				}
				time.Sleep(time.Minute)
				if got := state(m, "x.service"); got != c.later {
					t.Errorf("later %s, not %s", got, c.later)
				}
			})
		})
	}
}

func TestThawRunsWhatWasStarted(t *testing.T) {
	thawAfter(t, time.Second, nil, func(m *Machine) {
		m.Systemd().Start("good.service")
		// neither the new settings nor the missing program concern what runs already
		m.Files(kernel.Root).WriteFile("/etc/default/good", []byte("MORE=--other\n"), 0o644)
		m.Files(kernel.Root).Remove("/usr/bin/good")
	}, func(m *Machine) {
		p := m.Host().Processes.Find(m.Systemd().Status("good.service").MainPID)
		if p == nil || p.CommandLine()[1] != "--one" || !p.Resumed() {
			t.Errorf("%v", p)
		}
	})
}

func TestThawInTheMiddleOfAReboot(t *testing.T) {
	for name, d := range map[string]time.Duration{"scheduled": time.Second, "stopping": 61 * time.Second, "off": 65 * time.Second} {
		t.Run(name, func(t *testing.T) {
			thawAfter(t, d, nil, func(m *Machine) {
				m.Systemd().Enable("good.service")
				m.Schedule("reboot", time.Now().Add(time.Minute))
			}, func(m *Machine) {
				boot := m.BootID()
				time.Sleep(2 * time.Minute)
				if m.BootID() == boot || !m.PoweredOn() || m.Systemd().Status("good.service").Active != systemd.Active {
					t.Errorf("it did not come up again: on %v, %+v", m.PoweredOn(), m.Systemd().Status("good.service").Active)
				}
				if at := m.BootedAt().Format(time.TimeOnly); at != "10:01:10" && at != "10:01:11" { // the last second before it is off begins again
					t.Errorf("it booted at %s", at)
				}
			})
		})
	}
}

func TestProcessesShowBelowProc(t *testing.T) {
	lab(t, func(w *kernel.World, m *Machine) {
		m.Systemd().Start("good.service")
		pid := m.Systemd().Status("good.service").MainPID
		f := m.Files(kernel.Root)
		dir := fmt.Sprintf("/proc/%d", pid)
		if b, err := f.ReadFile(dir + "/cmdline"); err != nil || string(b) != "/usr/bin/good\x00--one\x00--two=2\x00a b\x00last\x00" {
			t.Errorf("%q %v", b, err)
		}
		if s, err := f.Readlink(dir + "/exe"); err != nil || s != "/usr/bin/good" {
			t.Errorf("%q %v", s, err)
		}
		l, err := f.ReadDir("/proc")
		names := ""
		for _, e := range l {
			names += " " + e.Name()
		}
		if err != nil || !strings.Contains(names, fmt.Sprintf(" %d ", pid)) || !strings.Contains(names, " meminfo ") {
			t.Errorf("%v %v", names, err)
		}
		if err := f.WriteFile(dir+"/new", nil, 0o644); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
		}
		if err := f.Remove(dir + "/comm"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
		}
		for what, err := range map[string]error{"remove": f.Remove(dir), "rename": f.Rename(dir, "/proc/x"), "link": f.Link(dir+"/comm", "/proc/x"), "chmod": f.Chmod(dir, 0o777), "write": f.WriteFile(dir+"/comm", nil, 0o644)} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := f.Mkdir("/proc/nosuch", 0o755); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory in /proc: %v", err)
		}
		if err := f.WriteFile("/proc/nosuch", nil, 0o644); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file in /proc: %v", err)
		}
		if err := f.Remove("/proc/version"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("removing what is the kernel's: %v", err)
		}
		if _, err := f.Watch(dir); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("watch: %v", err)
		}
		nobody := m.Files(kernel.Credential{UID: 65534, GID: 65534})
		if _, err := nobody.ReadFile(dir + "/environ"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
		}
		p := m.Host().Processes.Find(pid)
		p.Call(p.Context(), func() {
			if b, err := p.ReadFile("/proc/self/comm"); err != nil || string(b) != "good\n" {
				t.Errorf("%q %v", b, err)
			}
		})
		m.Systemd().Stop("good.service")
		if _, err := f.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}

func TestUsers(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		u, ok := m.LookupUser("candidate")
		if !ok || u.Cred.UID != 1000 || u.Home != "/home/candidate" || len(u.Cred.Groups) != 3 {
			t.Errorf("%+v", u)
		}
		if _, err := m.Files(u.Cred).ReadFile("/etc/shadow"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("candidate reads /etc/shadow: %v", err)
		}
		if err := m.Files(u.Cred).WriteFile("/home/candidate/x", nil, 0o644); err != nil {
			t.Error(err)
		}
	})
}
