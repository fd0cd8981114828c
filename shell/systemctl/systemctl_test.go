package systemctl

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
)

// lab is a machine with a kubelet that lives as long as /etc/kubelet.ok is there.
type lab struct {
	t *testing.T
	m *machine.Machine
}

const kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`

const kubeletDropIn = `# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

func testLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)))
		w := kernel.NewWorld(1)
		Register(w.Programs)
		w.Programs.Register("sshd", func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		for _, n := range []string{"systemd-modules-load", "systemd-sysctl"} {
			w.Programs.Register(n, func(*kernel.Process) int { return 0 })
		}
		w.Programs.Register("sleep", func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
		w.Programs.Register("vi", func(p *kernel.Process) int {
			name := p.Argv[len(p.Argv)-1]
			b, _ := p.ReadFile(name)
			edited := strings.Replace(string(b), "drop-in file\n", "drop-in file\n[Service]\nEnvironment=EDITED=yes\n", 1)
			p.Files.WriteFile(name, []byte(edited), 0o644)
			return 0
		})
		w.Programs.Register("kubelet", func(p *kernel.Process) int {
			if _, err := p.ReadFile("/etc/kubelet.ok"); err != nil {
				p.Errorf("no /etc/kubelet.ok\n")
				return 1
			}
			p.Printf("serving\n")
			done := make(chan struct{})
			p.Notify(kernel.SIGTERM, func() { close(done) })
			select {
			case <-done:
			case <-p.Context().Done():
			}
			return 0
		})
		m := machine.New(w, "cka-w1", machine.Options{})
		files := m.Files(kernel.Root)
		files.MkdirAll("/usr/lib/systemd/system/kubelet.service.d", 0o755)
		for name, text := range map[string]string{
			"/usr/lib/systemd/system/kubelet.service":                   kubeletUnit,
			"/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": kubeletDropIn,
			"/etc/default/kubelet":                                      "KUBELET_EXTRA_ARGS=\"--v=2 --node-ip=192.168.122.12\"\n",
			"/etc/kubelet.ok":                                           "",
			"/usr/bin/kubelet":                                          string(kernel.Executable("kubelet")),
			"/usr/bin/vi":                                               string(kernel.Executable("vi")),
		} {
			if err := files.WriteFile(name, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := files.Symlink("/usr/lib/systemd/system/kubelet.service", "/etc/systemd/system/multi-user.target.wants/kubelet.service"); err != nil {
			t.Fatal(err)
		}
		m.Boot()
		defer m.Crash()
		synctest.Wait() // the services have begun
		f(&lab{t, m})
	})
}

// run runs a command line as root, and returns both streams in their order and the exit code.
func (l *lab) run(line string) (string, int) { return l.as("root", nil, line) }

func (l *lab) as(user string, tty kernel.Terminal, line string) (string, int) {
	l.t.Helper()
	u, ok := l.m.LookupUser(user)
	if !ok {
		l.t.Fatal("no user " + user)
	}
	out := &lockedBuffer{}
	spec := kernel.Spec{Argv: strings.Fields(line), Cred: u.Cred, Stdout: out, Stderr: out, Env: []string{"EDITOR=vi", "PATH=" + machine.DefaultPath}}
	if tty != nil {
		spec.TTY, spec.Stdout, spec.Stderr = tty, tty, tty
	}
	p, err := l.m.Start(spec)
	if err != nil {
		l.t.Fatal(err)
	}
	st := p.Wait()
	return out.String(), st.ExitCode()
}

// want compares the output, in which numbers of processes and times that depend on others are masked, and the exit code.
func (l *lab) want(line, want string, code int) {
	l.t.Helper()
	got, c := l.run(line)
	if d := cmp.Diff(strings.TrimPrefix(want, "\n"), got); d != "" || c != code {
		l.t.Errorf("%s: exit code %d, not %d\n%s", line, c, code, d)
	}
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

// screen is a terminal of 80 by 24 without a user.
type screen struct {
	lockedBuffer
	paged string
}

func (*screen) Read([]byte) (int, error)                          { return 0, io.EOF }
func (*screen) ReadLine(string, kernel.Completer) (string, error) { return "", io.EOF }
func (*screen) ReadPassword(string) (string, error)               { return "", io.EOF }
func (*screen) Size() (int, int)                                  { return 80, 24 }
func (*screen) Edit(_ string, b []byte) ([]byte, error)           { return b, nil }
func (s *screen) Page(b []byte) error                             { s.paged = string(b); return nil }
func (*screen) SetForeground(p *kernel.Process) *kernel.Process   { return p }

func TestStatusOfARunningService(t *testing.T) {
	testLab(t, func(l *lab) {
		time.Sleep(5 * time.Minute)
		pid := l.m.Systemd().Status("kubelet.service").MainPID
		l.want("systemctl status kubelet", fmt.Sprintf(`
● kubelet.service - kubelet: The Kubernetes Node Agent
     Loaded: loaded (/usr/lib/systemd/system/kubelet.service; enabled; preset: enabled)
    Drop-In: /usr/lib/systemd/system/kubelet.service.d
             └─10-kubeadm.conf
     Active: active (running) since Tue 2026-12-01 10:00:00 UTC; 5min ago
       Docs: https://kubernetes.io/docs/
   Main PID: %d (kubelet)
      Tasks: 1 (limit: 2304)
     Memory: 1.0M (peak: 1.0M)
        CPU: 2ms
     CGroup: /system.slice/kubelet.service
             └─%d /usr/bin/kubelet --config=/var/lib/kubelet/config.yaml --v=2 --node-ip=192.168.122.12

Dec 01 10:00:00 cka-w1 systemd[1]: Started kubelet.service - kubelet: The Kubernetes Node Agent.
Dec 01 10:00:00 cka-w1 kubelet[%d]: serving
`, pid, pid, pid), 0)
		l.want("systemctl is-active kubelet", "active\n", 0)
		l.want("systemctl is-enabled kubelet", "enabled\n", 0)
		l.want("systemctl show kubelet -p MainPID,SubState --value", fmt.Sprintf("%d\nrunning\n", pid), 0)
		l.want("systemctl show -p FragmentPath -p NeedDaemonReload kubelet", "FragmentPath=/usr/lib/systemd/system/kubelet.service\nNeedDaemonReload=no\n", 0)
		l.want("systemctl status nothing", "Unit nothing.service could not be found.\n", 4)
		l.want("systemctl is-active nothing", "inactive\n", 4)
		l.want("systemctl is-enabled nothing", "not-found\n", 4)
	})
}

func TestCrashLoopAndStop(t *testing.T) {
	testLab(t, func(l *lab) {
		l.m.Files(kernel.Root).Remove("/etc/kubelet.ok")
		l.want("systemctl restart kubelet", "", 0)
		time.Sleep(3 * time.Second)
		pid := l.m.Systemd().Status("kubelet.service").MainPID
		got, code := l.run("systemctl status kubelet")
		want := fmt.Sprintf(`     Active: activating (auto-restart) (Result: exit-code) since Tue 2026-12-01 10:00:00 UTC; 3s ago
       Docs: https://kubernetes.io/docs/
    Process: %d ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS (code=exited, status=1/FAILURE)
   Main PID: %d (code=exited, status=1/FAILURE)
        CPU: 2ms
`, pid, pid)
		if code != 3 || !strings.Contains(got, want) || !strings.HasPrefix(got, "● kubelet.service - ") {
			t.Errorf("exit code %d\n%s", code, got)
		}
		l.want("systemctl is-active kubelet", "activating\n", 3)
		time.Sleep(20 * time.Second)
		l.want("systemctl show kubelet -p NRestarts", "NRestarts=2\n", 0)
		l.want("systemctl stop kubelet", "", 0)
		got, code = l.run("systemctl status kubelet")
		if code != 3 || !strings.Contains(got, "○ kubelet.service") || !strings.Contains(got, "     Active: inactive (dead) (Result: exit-code) since ") {
			t.Errorf("exit code %d\n%s", code, got)
		}
		var journal []string
		for _, e := range l.m.Journal().After(0) {
			if e.Unit == "kubelet.service" && e.Identifier == "systemd" {
				journal = append(journal, e.Message)
			}
		}
		wantJournal := []string{
			"Started kubelet.service - kubelet: The Kubernetes Node Agent.",
			"Stopping kubelet.service - kubelet: The Kubernetes Node Agent...",
			"kubelet.service: Deactivated successfully.",
			"Stopped kubelet.service - kubelet: The Kubernetes Node Agent.",
			"Started kubelet.service - kubelet: The Kubernetes Node Agent.",
			"kubelet.service: Main process exited, code=exited, status=1/FAILURE",
			"kubelet.service: Failed with result 'exit-code'.",
			"kubelet.service: Scheduled restart job, restart counter is at 1.",
			"Started kubelet.service - kubelet: The Kubernetes Node Agent.",
			"kubelet.service: Main process exited, code=exited, status=1/FAILURE",
			"kubelet.service: Failed with result 'exit-code'.",
			"kubelet.service: Scheduled restart job, restart counter is at 2.",
			"Started kubelet.service - kubelet: The Kubernetes Node Agent.",
			"kubelet.service: Main process exited, code=exited, status=1/FAILURE",
			"kubelet.service: Failed with result 'exit-code'.",
			"Stopped kubelet.service - kubelet: The Kubernetes Node Agent.",
		}
		if d := cmp.Diff(wantJournal, journal); d != "" {
			t.Error(d)
		}
	})
}

func TestChangedFilesNeedAReload(t *testing.T) {
	testLab(t, func(l *lab) {
		files := l.m.Files(kernel.Root)
		files.WriteFile("/usr/lib/systemd/system/kubelet.service", []byte(strings.Replace(kubeletUnit, "RestartSec=10", "RestartSec=3", 1)), 0o644)
		warning := "Warning: The unit file, source configuration file or drop-ins of kubelet.service changed on disk. Run 'systemctl daemon-reload' to reload units.\n"
		l.want("systemctl restart kubelet", warning, 0)
		l.want("systemctl show -p RestartUSec kubelet", "RestartUSec=10s\n", 0)
		if got, _ := l.run("systemctl status kubelet"); !strings.HasPrefix(got, warning) {
			t.Errorf("%s", got)
		}
		l.want("systemctl daemon-reload", "", 0)
		l.want("systemctl show -p RestartUSec kubelet", "RestartUSec=3s\n", 0)
		l.want("systemctl restart kubelet", "", 0)
		if got, code := l.run("systemctl cat kubelet"); code != 0 || !strings.HasPrefix(got, "# /usr/lib/systemd/system/kubelet.service\n[Unit]\n") || !strings.Contains(got, "\n\n# /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf\n# Note: ") {
			t.Errorf("%s", got)
		}
	})
}

func TestEnableMaskAndRefusals(t *testing.T) {
	testLab(t, func(l *lab) {
		link := "/etc/systemd/system/multi-user.target.wants/kubelet.service"
		l.want("systemctl disable --now kubelet", "Removed \""+link+"\".\n", 0)
		l.want("systemctl is-active kubelet", "inactive\n", 3)
		l.want("systemctl is-enabled kubelet", "disabled\n", 1)
		l.want("systemctl enable --now kubelet", "Created symlink "+link+" → /usr/lib/systemd/system/kubelet.service.\n", 0)
		l.want("systemctl is-active kubelet", "active\n", 0)
		l.want("systemctl stop kubelet", "", 0)
		l.want("systemctl mask kubelet", "Created symlink /etc/systemd/system/kubelet.service → /dev/null.\n", 0)
		l.want("systemctl start kubelet", "Failed to start kubelet.service: Unit kubelet.service is masked.\n", 1)
		l.want("systemctl enable kubelet", "Failed to enable unit: Unit file /etc/systemd/system/kubelet.service is masked.\n", 1)
		if got, code := l.run("systemctl status kubelet"); code != 3 || !strings.HasPrefix(got, "○ kubelet.service\n     Loaded: masked (Reason: Unit kubelet.service is masked.)\n     Active: inactive (dead) since ") {
			t.Errorf("%d %s", code, got)
		}
		l.want("systemctl unmask kubelet", "Removed \"/etc/systemd/system/kubelet.service\".\n", 0)
		l.want("systemctl start kubelet nothing", "Failed to start nothing.service: Unit nothing.service not found.\n", 5)
		l.want("systemctl reload kubelet", "Failed to reload kubelet.service: Job type reload is not applicable for unit kubelet.service.\n", 3)
		l.want("systemctl enable nothing", "Failed to enable unit: Unit file nothing.service does not exist.\n", 1)
		l.want("systemctl mask nothing", "Unit nothing.service does not exist, proceeding anyway.\nCreated symlink /etc/systemd/system/nothing.service → /dev/null.\n", 0)
		l.want("systemctl enbale", "Unknown command verb 'enbale', did you mean 'enable'?\n", 1)
		l.want("systemctl start", "Too few arguments.\n", 1)
		l.want("systemctl --bogus", "systemctl: unrecognized option '--bogus'\n", 1)
		for line, want := range map[string]string{
			"systemctl restart kubelet": "Failed to restart kubelet.service: Interactive authentication required.\nSee system logs and 'systemctl status kubelet.service' for details.\n",
			"systemctl enable kubelet":  "Failed to enable unit: Interactive authentication required.\n",
			"systemctl daemon-reload":   "Failed to reload daemon: Interactive authentication required.\n",
			"systemctl reboot":          "Call to Reboot failed: Interactive authentication required.\n",
		} {
			if got, code := l.as("candidate", nil, line); got != want || code != 1 {
				t.Errorf("%s: %d %q", line, code, got)
			}
		}
	})
}

func TestFailuresToStart(t *testing.T) {
	testLab(t, func(l *lab) {
		files := l.m.Files(kernel.Root)
		unit := func(text string) {
			files.WriteFile("/etc/systemd/system/x.service", []byte(text), 0o644)
			l.run("systemctl daemon-reload")
			l.run("systemctl reset-failed x")
		}
		job := "Job for x.service failed because the control process exited with error code.\nSee \"systemctl status x.service\" and \"journalctl -xeu x.service\" for details.\n"
		unit("[Service]\nType=oneshot\nExecStart=/usr/bin/none\n")
		l.want("systemctl start x", job, 1)
		if got, _ := l.run("systemctl status x"); !regexp.MustCompile(`× x.service\n     Loaded: loaded \(/etc/systemd/system/x.service; static\)\n     Active: failed \(Result: exit-code\) since .*\n    Process: \d+ ExecStart=/usr/bin/none \(code=exited, status=203/EXEC\)\n   Main PID: \d+ \(code=exited, status=203/EXEC\)\n`).MatchString(got) {
			t.Errorf("%s", got)
		}
		l.want("systemctl is-failed x", "failed\n", 0)
		l.want("systemctl is-system-running", "degraded\n", 1)
		unit("[Service]\nExecStartPre=/usr/bin/none\nExecStart=/usr/bin/vi\n")
		l.want("systemctl start x", job, 1)
		unit("[Service]\nExecStart=/usr/bin/vi\nExecStart=/usr/bin/vi\n")
		l.want("systemctl start x", "Failed to start x.service: Unit x.service has a bad unit file setting.\nSee system logs and 'systemctl status x.service' for details.\n", 1)
		unit("[Service]\nEnvironmentFile=/etc/none\nExecStart=/usr/bin/vi\n")
		l.want("systemctl start x", "Job for x.service failed because of unavailable resources or another system error.\nSee \"systemctl status x.service\" and \"journalctl -xeu x.service\" for details.\n", 1)
		unit("[Service]\nType=notify\nTimeoutStartSec=5\nTimeoutStopSec=5\nExecStart=/usr/bin/sleep\n")
		files.WriteFile("/usr/bin/sleep", kernel.Executable("sleep"), 0o755)
		start := time.Now()
		l.want("systemctl start x", "Job for x.service failed because a timeout was exceeded.\nSee \"systemctl status x.service\" and \"journalctl -xeu x.service\" for details.\n", 1)
		if d := time.Since(start).Round(time.Second); d != 5*time.Second {
			t.Errorf("it took %v", d)
		}
		unit("[Unit]\nConditionPathExists=/none\n[Service]\nExecStart=/usr/bin/sleep\n[Install]\nWantedBy=multi-user.target\n")
		l.run("systemctl enable x")
		l.want("systemctl start x", "", 0)
		if got, _ := l.run("systemctl status x"); !strings.Contains(got, "  Condition: start condition unmet at Tue 2026-12-01 10:00:") || !strings.Contains(got, "└─ ConditionPathExists=/none was not met\n") {
			t.Errorf("%s", got)
		}
	})
}

// A service and its socket may need each other, and a time-out of 0 is none.
func TestUnitsThatNeedEachOther(t *testing.T) {
	testLab(t, func(l *lab) {
		f := l.m.Files(kernel.Root)
		f.WriteFile("/usr/bin/sleep", kernel.Executable("sleep"), 0o755)
		f.WriteFile("/etc/systemd/system/x.socket", []byte("[Unit]\nPartOf=x.service\n[Socket]\nListenStream=/run/x.sock\n"), 0o644)
		f.WriteFile("/etc/systemd/system/x.service", []byte("[Unit]\nRequires=x.socket\n[Service]\nExecStart=/usr/bin/sleep 9999\nTimeoutSec=0\n"), 0o644)
		for _, c := range []struct{ command, service, socket string }{
			{"start x", "active", "active"}, {"restart x", "active", "active"}, {"stop x", "inactive", "inactive"}, {"start x", "active", "active"}, {"stop x.socket", "inactive", "inactive"},
		} {
			l.want("systemctl "+c.command, "", 0)
			for unit, want := range map[string]string{"x.service": c.service, "x.socket": c.socket} {
				if got := string(l.m.Systemd().Status(unit).Active); got != want {
					t.Errorf("after %s %s is %s", c.command, unit, got)
				}
			}
		}
	})
}

func TestLists(t *testing.T) {
	testLab(t, func(l *lab) {
		l.want("systemctl list-units --type=service", `
  UNIT                         LOAD   ACTIVE SUB     DESCRIPTION
  kubelet.service              loaded active running kubelet: The Kubernetes Node Agent
  ssh.service                  loaded active running OpenBSD Secure Shell server
  systemd-modules-load.service loaded active exited  Load Kernel Modules
  systemd-sysctl.service       loaded active exited  Apply Kernel Variables

Legend: LOAD   → Reflects whether the unit definition was properly loaded.
        ACTIVE → The high-level unit activation state, i.e. generalization of SUB.
        SUB    → The low-level unit activation state, values depend on unit type.

4 loaded units listed. Pass --all to see loaded but inactive units, too.
To show all installed unit files use 'systemctl list-unit-files'.
`, 0)
		l.want("systemctl --failed", "  UNIT LOAD ACTIVE SUB DESCRIPTION\n\n0 loaded units listed.\n", 0)
		l.want("systemctl list-unit-files kubelet*", "UNIT FILE       STATE   PRESET\nkubelet.service enabled enabled\n\n1 unit files listed.\n", 0)
		l.want("systemctl list-dependencies --reverse kubelet", "kubelet.service\n● └─multi-user.target\n", 0)
	})
}

func TestEditAndPaging(t *testing.T) {
	testLab(t, func(l *lab) {
		l.want("systemctl edit kubelet", "Cannot edit units if not on a tty.\n", 1)
		s := &screen{}
		if _, code := l.as("root", s, "systemctl edit kubelet"); code != 0 || s.String() != "Successfully installed edited file '/etc/systemd/system/kubelet.service.d/override.conf'.\n" {
			t.Errorf("%d %s", code, s.String())
		}
		b, _ := l.m.Files(kernel.Root).ReadFile("/etc/systemd/system/kubelet.service.d/override.conf")
		if string(b) != "[Service]\nEnvironment=EDITED=yes\n" {
			t.Errorf("%q", b)
		}
		if got, _ := l.run("systemctl status kubelet"); !strings.Contains(got, "    Drop-In: /usr/lib/systemd/system/kubelet.service.d\n             └─10-kubeadm.conf\n             /etc/systemd/system/kubelet.service.d\n             └─override.conf\n") {
			t.Errorf("%s", got)
		}
		s = &screen{}
		if _, code := l.as("root", s, "systemctl status kubelet --no-pager"); code != 0 || !strings.Contains(s.String(), "config.yaml --v=2…\n") || !strings.Contains(s.String(), "Hint: Some lines were ellipsized, use -l to show in full.\n") || !strings.Contains(s.String(), "\x1b[0;1;32m●\x1b[0m kubelet.service") {
			t.Errorf("%d %q", code, s.String())
		}
		s = &screen{}
		if l.as("root", s, "systemctl cat kubelet"); !strings.Contains(s.paged, "[Install]") || s.String() != "" {
			t.Errorf("a long output was not paged: %q", s.String())
		}
	})
}
