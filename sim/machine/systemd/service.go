package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
)

// systemd's defaults (systemd-system.conf(5)).
const (
	defaultRestart     = 100 * time.Millisecond
	defaultTimeout     = 90 * time.Second
	defaultLimitPeriod = 10 * time.Second
	defaultLimitStarts = 5
	execFailed         = 203 // EXIT_EXEC of systemd.exec(5)
	userFailed         = 217 // EXIT_USER
	directoryFailed    = 200 // EXIT_CHDIR
)

// Start starts a unit and what it requires, and waits until that has succeeded or failed, as systemctl does.
func (m *Manager) Start(name string) error { return m.start(name, map[string]bool{}) }

func (m *Manager) start(name string, visiting map[string]bool) error {
	if visiting[name] {
		return nil
	}
	visiting[name] = true
	m.mu.Lock()
	u, err := m.load(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	name = u.name
	if u.active == Active || u.active == Activating && u.sub != "auto-restart" {
		m.mu.Unlock()
		return nil
	}
	d := u.def
	m.callOff(u)
	u.restarts = 0
	m.mu.Unlock()
	for _, dep := range d.words("Unit", "Wants") {
		m.start(dep, visiting)
	}
	for _, dep := range append(d.words("Unit", "Requires"), d.words("Unit", "BindsTo")...) {
		if err := m.start(dep, visiting); err != nil {
			m.log(name, journal.Err, "Dependency failed for %s.", d.Label())
			return &Error{fmt.Sprintf("A dependency job for %s failed. See 'journalctl -xe' for details.", name), 1}
		}
	}
	return m.launch(u)
}

// callOff cancels a pending automatic restart. Callers hold mu.
func (m *Manager) callOff(u *unit) {
	if u.abortWait != nil {
		close(u.abortWait)
		u.abortWait = nil
	}
	u.restartAt = time.Time{}
}

// launch runs the start job of a unit whose dependencies are there.
func (m *Manager) launch(u *unit) error {
	w, name := m.cfg.World, u.name
	m.mu.Lock()
	d := u.def
	for _, key := range []string{"ConditionPathExists", "ConditionPathIsDirectory", "ConditionFileNotEmpty"} {
		for _, p := range d.all("Unit", key) {
			if !exists(m.cfg.Files, p) {
				m.log(name, journal.Info, "%s was skipped because of an unmet condition check (%s=%s).", d.Label(), key, p)
				u.set(w, Inactive, "dead")
				m.mu.Unlock()
				return nil
			}
		}
	}
	if !strings.HasSuffix(name, ".service") {
		u.result = "success"
		sub := "active"
		if strings.HasSuffix(name, ".socket") {
			sub = "listening"
		}
		u.set(w, Active, sub)
		if strings.HasSuffix(name, ".target") {
			m.log(name, journal.Info, "Reached target %s.", d.Label())
		} else {
			m.log(name, journal.Info, "Started %s.", d.Label())
		}
		m.mu.Unlock()
		return nil
	}
	if m.limited(u) {
		m.log(name, journal.Warning, "%s: Start request repeated too quickly.", name)
		m.log(name, journal.Warning, "%s: Failed with result 'start-limit-hit'.", name)
		m.log(name, journal.Err, "Failed to start %s.", d.Label())
		u.result = "start-limit-hit"
		u.set(w, Failed, "failed")
		m.mu.Unlock()
		return m.jobFailed(name, "the start of the service was attempted too often", true)
	}
	u.result, u.status, u.exec = "success", kernel.Status{}, false
	u.invocation = strings.ReplaceAll(w.UUID("systemd"), "-", "")
	m.mu.Unlock()

	kind := d.get("Service", "Type", "simple")
	env, spec, err := m.prepare(d)
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log(name, journal.Warning, "%s: %v", name, err)
		m.log(name, journal.Warning, "%s: Failed to run 'start' task: %s", name, strings.TrimPrefix(err.Error(), "Failed to load environment files: "))
		m.failed(u, "resources", kernel.Status{})
		return m.jobFailed(name, "of unavailable resources or another system error", false)
	}
	if kind == "notify" || kind == "oneshot" || kind == "forking" {
		m.log(name, journal.Info, "Starting %s...", d.Label())
	}
	m.mu.Lock()
	u.set(w, Activating, "start")
	m.mu.Unlock()
	for _, l := range d.all("Service", "ExecStartPre") {
		if st := m.auxiliary(u, l, env, spec, "start-pre"); st != (kernel.Status{}) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.log(name, journal.Notice, "%s: Control process exited, %s", name, describe(st))
			m.failed(u, "exit-code", st)
			m.log(name, journal.Err, "Failed to start %s.", d.Label())
			return m.jobFailed(name, "the control process exited with error code", false)
		}
	}
	lines := d.all("Service", "ExecStart")
	if len(lines) == 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log(name, journal.Err, "%s: Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing.", name)
		u.set(w, Inactive, "dead")
		return &Error{fmt.Sprintf("Unit %s has a bad unit file setting.", name), 1}
	}
	if kind == "oneshot" {
		return m.oneshot(u, lines, env, spec)
	}
	ended, ready := make(chan struct{}), make(chan struct{})
	m.mu.Lock()
	u.ended, u.ready, u.stopping = ended, ready, false
	m.mu.Unlock()
	failedStart := m.spawn(u, lines[0], env, spec, 0, time.Time{})
	if kind != "notify" && !(kind == "exec" && failedStart) {
		m.mu.Lock()
		if u.ended == ended && (u.active == Activating && u.sub == "start") {
			u.set(w, Active, "running")
		}
		m.log(name, journal.Info, "Started %s.", d.Label())
		m.mu.Unlock()
		m.watch(u, ended)
		return nil
	}
	m.watch(u, ended)
	if kind == "exec" {
		return m.jobFailed(name, "the control process exited with error code", false)
	}
	timeout := time.NewTimer(duration(d.get("Service", "TimeoutStartSec", ""), defaultTimeout))
	defer timeout.Stop()
	select {
	case <-ready:
		m.mu.Lock()
		defer m.mu.Unlock()
		u.set(w, Active, "running")
		m.log(name, journal.Info, "Started %s.", d.Label())
		return nil
	case <-ended:
		m.log(name, journal.Err, "Failed to start %s.", d.Label())
		return m.jobFailed(name, "the control process exited with error code", false)
	case <-timeout.C:
		m.mu.Lock()
		m.log(name, journal.Warning, "%s: start operation timed out. Terminating.", name)
		u.result = "timeout"
		p := u.main
		m.mu.Unlock()
		if p != nil {
			p.Signal(kernel.SIGTERM)
		}
		return m.jobFailed(name, "a timeout was exceeded", false)
	}
}

func (m *Manager) jobFailed(name, why string, limit bool) error {
	text := fmt.Sprintf("Job for %s failed because %s.\nSee \"systemctl status %s\" and \"journalctl -xeu %s\" for details.", name, why, name, name)
	if limit {
		text = fmt.Sprintf("Job for %s failed because %s.\nSee \"systemctl status %s\" and \"journalctl -xeu %s\" for details.\nTo force a start use \"systemctl reset-failed %s\"\nfollowed by \"systemctl start %s\" again.", name, why, name, name, name, name)
		text = strings.Replace(text, "because the start of the service was attempted too often", "because start of the service was attempted too often", 1)
	}
	return &Error{text, 1}
}

// limited applies StartLimitIntervalSec= and StartLimitBurst=. Callers hold mu.
func (m *Manager) limited(u *unit) bool {
	period := defaultLimitPeriod
	for _, k := range [][2]string{{"Unit", "StartLimitIntervalSec"}, {"Unit", "StartLimitInterval"}, {"Service", "StartLimitInterval"}, {"Service", "StartLimitIntervalSec"}} {
		if v := u.def.get(k[0], k[1], ""); v != "" {
			period = duration(v, defaultLimitPeriod)
		}
	}
	burst := defaultLimitStarts
	for _, k := range [][2]string{{"Unit", "StartLimitBurst"}, {"Service", "StartLimitBurst"}} {
		if n, err := strconv.Atoi(u.def.get(k[0], k[1], "")); err == nil {
			burst = n
		}
	}
	now := time.Now()
	recent := u.starts[:0]
	for _, t := range u.starts {
		if now.Sub(t) < period {
			recent = append(recent, t)
		}
	}
	u.starts = recent
	if period == 0 || burst == 0 {
		return false
	}
	if len(u.starts) >= burst {
		return true
	}
	u.starts = append(u.starts, now)
	return false
}

// prepare makes the environment and the frame of a service's processes.
func (m *Manager) prepare(d *Definition) ([]string, kernel.Spec, error) {
	spec := kernel.Spec{Unit: d.Name, Parent: m.init.Load(), Dir: d.get("Service", "WorkingDirectory", "/")}
	user := d.get("Service", "User", "")
	home := ""
	if user != "" {
		c, h, ok := m.cfg.LookupUser(user)
		if !ok {
			return nil, spec, fmt.Errorf("Failed to determine user credentials: No such process")
		}
		spec.Cred, home = c, h
	}
	spec.Dir = strings.TrimPrefix(spec.Dir, "-")
	env, err := environment(m.cfg.Files, d, home, user)
	spec.Env = env
	return env, spec, err
}

// output gives a process its streams into the journal.
func (m *Manager) output(spec *kernel.Spec, d *Definition, program string) {
	id := d.get("Service", "SyslogIdentifier", path.Base(program))
	e := journal.Entry{Unit: d.Name, Identifier: id, Priority: journal.Info, UID: spec.Cred.UID}
	w := &stream{m.cfg.Journal.Writer(e)}
	spec.Stdout, spec.Stderr = w, w
}

// stream notes which process writes.
type stream struct{ *journal.Writer }

func (s *stream) Write(b []byte) (int, error) {
	if p := kernel.Current(); p != nil {
		s.SetPID(p.ID())
	}
	return s.Writer.Write(b)
}

// spawn starts the main process. It returns true when nothing could be executed; the unit then has systemd's exit code.
func (m *Manager) spawn(u *unit, line string, env []string, spec kernel.Spec, pid int, started time.Time) (failed bool) {
	c, err := parseCommand(line, env)
	var p *kernel.Process
	if err == nil {
		spec.Argv, spec.PID, spec.Started = append([]string{c.path}, c.argv[1:]...), pid, started
		m.output(&spec, u.def, c.path)
		p, err = m.cfg.Start(spec)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u.version = m.cfg.World.Version()
	u.mainStart, u.mainExit = time.Now(), time.Time{}
	if err != nil {
		// systemd has forked already: the child is what fails
		u.main = nil
		next := m.cfg.Host.Processes.Next()
		m.cfg.Host.Processes.SetNext(next + 1)
		u.mainPID = next
		var pe *fs.PathError
		text := err.Error()
		if errors.As(err, &pe) {
			text = strerror(pe.Err)
		}
		id := "(" + path.Base(c.path) + ")"
		say := func(format string, a ...any) {
			m.cfg.Journal.Add(journal.Entry{Unit: u.name, Identifier: id, PID: next, Priority: journal.Err, Message: fmt.Sprintf(format, a...)})
		}
		if errors.Is(err, fs.ErrNotExist) {
			say("%s: Failed to locate executable %s: %s", u.name, c.path, text)
		}
		say("%s: Failed at step EXEC spawning %s: %s", u.name, c.path, text)
		u.exec = true
		return true
	}
	if !started.IsZero() {
		u.mainStart = started
	}
	u.main, u.mainPID = p, p.ID()
	return false
}

// watch waits for the end of the main process in the background.
func (m *Manager) watch(u *unit, ended chan struct{}) {
	m.mu.Lock()
	p, exec := u.main, u.exec
	m.mu.Unlock()
	m.background(func() {
		st := kernel.Status{Code: execFailed}
		if p != nil {
			st = p.Wait()
		}
		_ = exec
		m.exited(u, st, ended)
	})
}

// background runs f as part of the machine's init process, which ends when the machine goes down.
func (m *Manager) background(f func()) {
	if p := m.init.Load(); p != nil {
		p.Go(f)
	}
}

// exited settles a unit's state after its main process has ended.
func (m *Manager) exited(u *unit, st kernel.Status, ended chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(ended)
	if p := m.init.Load(); u.ended != ended || p == nil || !p.Alive() {
		return
	}
	w, d, name := m.cfg.World, u.def, u.name
	u.main, u.mainExit, u.status = nil, time.Now(), st
	ok := m.clean(d, st)
	if !ok {
		m.log(name, journal.Notice, "%s: Main process exited, %s", name, describe(st))
	}
	if u.stopping {
		return // stop goes on from here
	}
	m.killGroup(u, kernel.SIGTERM)
	if ok {
		if u.result == "success" {
			m.log(name, journal.Info, "%s: Deactivated successfully.", name)
		}
		if d.get("Service", "RemainAfterExit", "no") == "yes" {
			u.set(w, Active, "exited")
			return
		}
		u.set(w, Inactive, "dead")
	} else {
		result := "exit-code"
		if st.Signal != 0 {
			result = "signal"
		}
		if u.result == "timeout" {
			result = "timeout"
		}
		m.failed(u, result, st)
	}
	restart := d.get("Service", "Restart", "no")
	again := restart == "always" || ok && restart == "on-success" || !ok && restart == "on-failure" || !ok && restart == "on-abnormal" && st.Signal != 0
	if again {
		m.restartLater(u, duration(d.get("Service", "RestartSec", ""), defaultRestart))
	}
}

// restartLater arms the automatic restart. Callers hold mu.
func (m *Manager) restartLater(u *unit, delay time.Duration) {
	u.set(m.cfg.World, Activating, "auto-restart")
	u.restartAt = time.Now().Add(delay)
	abort := make(chan struct{})
	u.abortWait = abort
	m.background(func() {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-abort:
			return
		case <-kernel.Current().Done():
			return
		}
		m.mu.Lock()
		if u.abortWait != abort {
			m.mu.Unlock()
			return
		}
		u.abortWait, u.restartAt = nil, time.Time{}
		u.restarts++
		m.log(u.name, journal.Info, "%s: Scheduled restart job, restart counter is at %d.", u.name, u.restarts)
		m.mu.Unlock()
		m.launch(u)
	})
}

// failed puts a unit into the failed state, with systemd's line. Callers hold mu.
func (m *Manager) failed(u *unit, result string, st kernel.Status) {
	u.result, u.status = result, st
	m.log(u.name, journal.Warning, "%s: Failed with result '%s'.", u.name, result)
	u.set(m.cfg.World, Failed, "failed")
}

// clean says whether an exit is a success: code 0, the four clean signals, and what SuccessExitStatus= adds.
func (m *Manager) clean(d *Definition, st kernel.Status) bool {
	switch st.Signal {
	case 0:
		if st.Code == 0 {
			return true
		}
	case kernel.SIGHUP, kernel.SIGINT, kernel.SIGTERM, kernel.SIGPIPE:
		return true
	}
	for _, v := range d.words("Service", "SuccessExitStatus") {
		if st.Signal == 0 && v == strconv.Itoa(st.Code) || st.Signal != 0 && v == st.Signal.String() {
			return true
		}
	}
	return false
}

// exitNames are systemd's names of exit codes (systemd.exec(5)).
var exitNames = map[int]string{0: "SUCCESS", 1: "FAILURE", 2: "INVALIDARGUMENT", 3: "NOTIMPLEMENTED", 4: "NOPERMISSION", 5: "NOTINSTALLED", 6: "NOTCONFIGURED", 7: "NOTRUNNING",
	directoryFailed: "CHDIR", 201: "NICE", 202: "FDS", execFailed: "EXEC", 208: "STDIN", 209: "STDOUT", 216: "GROUP", userFailed: "USER", 255: "EXCEPTION"}

// describe is "code=exited, status=1/FAILURE" or "code=killed, status=9/KILL".
func describe(st kernel.Status) string {
	code, status := DescribeStatus(st)
	return "code=" + code + ", status=" + status
}

// DescribeStatus returns how systemd names an end: "exited" and "1/FAILURE", or "killed" and "9/KILL".
func DescribeStatus(st kernel.Status) (code, status string) {
	if st.Signal != 0 {
		return "killed", fmt.Sprintf("%d/%s", int(st.Signal), strings.TrimPrefix(st.Signal.String(), "SIG"))
	}
	n, ok := exitNames[st.Code]
	if !ok {
		n = "n/a"
	}
	return "exited", fmt.Sprintf("%d/%s", st.Code, n)
}

// auxiliary runs a command beside the main process (ExecStartPre= and the like) to its end.
func (m *Manager) auxiliary(u *unit, line string, env []string, spec kernel.Spec, sub string) kernel.Status {
	c, err := parseCommand(line, env)
	if err == nil {
		var p *kernel.Process
		m.mu.Lock()
		u.set(m.cfg.World, u.active, sub)
		m.mu.Unlock()
		spec.Argv = append([]string{c.path}, c.argv[1:]...)
		m.output(&spec, u.def, c.path)
		if p, err = m.cfg.Start(spec); err == nil {
			st := p.Wait()
			if c.ignoreResult {
				return kernel.Status{}
			}
			return st
		}
	}
	if c.ignoreResult {
		return kernel.Status{}
	}
	m.log(u.name, journal.Err, "%s: Failed at step EXEC spawning %s: %s", u.name, c.path, strerror(reason(err)))
	return kernel.Status{Code: execFailed}
}

func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func (m *Manager) oneshot(u *unit, lines []string, env []string, spec kernel.Spec) error {
	w, d := m.cfg.World, u.def
	for _, l := range lines {
		st := m.auxiliary(u, l, env, spec, "start")
		m.mu.Lock()
		u.mainStart, u.mainExit, u.status = time.Now(), time.Now(), st
		if st != (kernel.Status{}) {
			defer m.mu.Unlock()
			m.log(u.name, journal.Notice, "%s: Main process exited, %s", u.name, describe(st))
			m.failed(u, "exit-code", st)
			m.log(u.name, journal.Err, "Failed to start %s.", d.Label())
			return m.jobFailed(u.name, "the control process exited with error code", false)
		}
		m.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.get("Service", "RemainAfterExit", "no") == "yes" {
		u.set(w, Active, "exited")
	} else {
		m.log(u.name, journal.Info, "%s: Deactivated successfully.", u.name)
		u.set(w, Inactive, "dead")
	}
	m.log(u.name, journal.Info, "Finished %s.", d.Label())
	return nil
}

// killGroup signals what is left of a unit's processes, as KillMode= allows.
func (m *Manager) killGroup(u *unit, s kernel.Signal) {
	if mode := u.def.get("Service", "KillMode", "control-group"); mode == "process" || mode == "none" {
		return
	}
	for _, p := range m.cfg.Host.Processes.List() {
		if p.Unit == u.name && p != u.main {
			p.Signal(s)
		}
	}
}

// Stop stops a unit and waits for it.
func (m *Manager) Stop(name string) error {
	m.mu.Lock()
	u, err := m.load(name)
	if u == nil {
		m.mu.Unlock()
		return &Error{fmt.Sprintf("Failed to stop %s: Unit %s not loaded.", name, name), 5}
	}
	_ = err // a masked unit may be stopped
	w, d := m.cfg.World, u.def
	name = u.name
	switch {
	case u.active == Activating && u.sub == "auto-restart":
		m.callOff(u)
		u.set(w, Inactive, "dead")
		m.log(name, journal.Info, "Stopped %s.", d.Label())
		m.mu.Unlock()
		return nil
	case u.active != Active && u.active != Activating:
		m.mu.Unlock()
		return nil
	case u.main == nil:
		m.log(name, journal.Info, "Stopped %s.", d.Label())
		u.set(w, Inactive, "dead")
		m.mu.Unlock()
		return nil
	}
	u.stopping = true
	p, ended := u.main, u.ended
	u.set(w, Deactivating, "stop-sigterm")
	m.log(name, journal.Info, "Stopping %s...", d.Label())
	m.mu.Unlock()
	if lines := d.all("Service", "ExecStop"); len(lines) > 0 {
		if env, spec, err := m.prepare(d); err == nil {
			env = append(env, fmt.Sprintf("MAINPID=%d", p.ID()))
			spec.Env = env
			for _, l := range lines {
				m.auxiliary(u, l, env, spec, "stop")
			}
		}
	}
	p.Signal(signalNamed(d.get("Service", "KillSignal", "SIGTERM")))
	m.mu.Lock()
	m.killGroup(u, kernel.SIGTERM)
	m.mu.Unlock()
	result := "success"
	t := time.NewTimer(duration(d.get("Service", "TimeoutStopSec", d.get("Service", "TimeoutSec", "")), defaultTimeout))
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		m.log(name, journal.Warning, "%s: State 'stop-sigterm' timed out. Killing.", name)
		m.log(name, journal.Notice, "%s: Killing process %d (%s) with signal SIGKILL.", name, p.ID(), p.Name())
		p.Signal(kernel.SIGKILL)
		m.mu.Lock()
		m.killGroup(u, kernel.SIGKILL)
		m.mu.Unlock()
		<-ended
		result = "timeout"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u.stopping = false
	switch {
	case result == "timeout":
		m.failed(u, result, u.status)
	case m.clean(d, u.status):
		m.log(name, journal.Info, "%s: Deactivated successfully.", name)
		u.result = "success"
		u.set(w, Inactive, "dead")
	case u.status.Signal != 0:
		m.failed(u, "signal", u.status)
	default:
		m.failed(u, "exit-code", u.status)
	}
	m.log(name, journal.Info, "Stopped %s.", d.Label())
	return nil
}

// Restart stops and starts a unit.
func (m *Manager) Restart(name string) error {
	m.mu.Lock()
	_, err := m.load(name)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err := m.Stop(name); err != nil {
		return err
	}
	return m.Start(name)
}

// ReloadUnit runs ExecReload=.
func (m *Manager) ReloadUnit(name string) error {
	m.mu.Lock()
	u, err := m.load(name)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	lines := u.def.all("Service", "ExecReload")
	switch {
	case len(lines) == 0:
		return &Error{fmt.Sprintf("Failed to reload %s: Job type reload is not applicable for unit %s.", name, name), 1}
	case u.active != Active || u.main == nil:
		return &Error{fmt.Sprintf("%s is not active, cannot reload.", name), 1}
	}
	env, spec, err := m.prepare(u.def)
	if err != nil {
		return &Error{err.Error(), 1}
	}
	env = append(env, fmt.Sprintf("MAINPID=%d", u.main.ID()))
	spec.Env = env
	m.log(name, journal.Info, "Reloading %s...", u.def.Label())
	for _, l := range lines {
		m.auxiliary(u, l, env, spec, u.sub)
	}
	m.log(name, journal.Info, "Reloaded %s.", u.def.Label())
	return nil
}

func signalNamed(s string) kernel.Signal {
	s = strings.TrimPrefix(s, "SIG")
	for _, x := range []kernel.Signal{kernel.SIGHUP, kernel.SIGINT, kernel.SIGQUIT, kernel.SIGKILL, kernel.SIGTERM, kernel.SIGUSR1, kernel.SIGUSR2} {
		if strings.TrimPrefix(x.String(), "SIG") == s || s == strconv.Itoa(int(x)) {
			return x
		}
	}
	return kernel.SIGTERM
}

// duration reads systemd.time(7)'s spans: "10", "100ms", "1min 30s", "infinity".
func duration(s string, def time.Duration) time.Duration {
	s = strings.TrimSpace(s)
	switch s {
	case "":
		return def
	case "infinity":
		return 1 << 62
	}
	units := []struct {
		name string
		d    time.Duration
	}{{"usec", time.Microsecond}, {"us", time.Microsecond}, {"msec", time.Millisecond}, {"ms", time.Millisecond}, {"seconds", time.Second}, {"second", time.Second}, {"sec", time.Second}, {"s", time.Second},
		{"minutes", time.Minute}, {"minute", time.Minute}, {"min", time.Minute}, {"m", time.Minute}, {"hours", time.Hour}, {"hour", time.Hour}, {"hr", time.Hour}, {"h", time.Hour}, {"", time.Second}}
	var total time.Duration
	for s != "" {
		i := 0
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
			i++
		}
		n, err := strconv.ParseFloat(s[:i], 64)
		if err != nil {
			return def
		}
		s = strings.TrimSpace(s[i:])
		j := 0
		for j < len(s) && s[j] >= 'a' && s[j] <= 'z' {
			j++
		}
		found := false
		for _, u := range units {
			if s[:j] == u.name {
				total += time.Duration(n * float64(u.d))
				found = true
				break
			}
		}
		if !found {
			return def
		}
		s = strings.TrimSpace(s[j:])
	}
	return total
}
