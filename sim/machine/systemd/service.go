package systemd

import (
	"fmt"
	"os"
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
)

// autoRestart is the SubState of a service that waits for its automatic restart.
const autoRestart = "auto-restart"

// launch runs the start job of a unit whose dependencies are there.
func (m *Manager) launch(u *unit) error { return m.perform(u, m.enter) }

// perform runs a start job of a unit, for which others may wait.
func (m *Manager) perform(u *unit, enter func(*unit) error) error {
	m.mu.Lock()
	if u.starting != nil {
		j := u.starting
		m.mu.Unlock()
		<-j.done
		return j.err
	}
	j := &job{done: make(chan struct{})}
	u.starting = j
	m.mu.Unlock()
	err := enter(u)
	m.mu.Lock()
	u.starting = nil
	u.version = m.cfg.World.Version()
	m.mu.Unlock()
	return j.finish(err)
}

func (m *Manager) enter(u *unit) error {
	w, name := m.cfg.World, u.name
	m.mu.Lock()
	d := u.def
	if c := m.unmet(d); c.Key != "" {
		c.At = time.Now()
		u.condition, u.version = c, w.Version()
		if strings.HasPrefix(c.Key, "Assert") {
			m.log(name, journal.Err, "Starting of %s failed because of an unmet assertion (%s=%s).", d.Label(), c.Key, c.Value)
			m.mu.Unlock()
			return &Error{fmt.Sprintf("Assertion failed on job for %s.", name), 1}
		}
		m.log(name, journal.Info, "%s was skipped because of an unmet condition check (%s=%s).", d.Label(), c.Key, c.Value)
		if u.active == Activating {
			u.set(w, Inactive, "dead")
		}
		m.mu.Unlock()
		return nil
	}
	u.condition = Condition{}
	if !strings.HasSuffix(name, ".service") {
		defer m.mu.Unlock()
		return m.enterOther(u)
	}
	if m.limited(u) {
		m.log(name, journal.Warning, "%s: Start request repeated too quickly.", name)
		m.dead(u, startLimitHit, false)
		m.log(name, journal.Err, "Failed to start %s.", d.Label())
		defer m.mu.Unlock()
		return jobFailed(name, u.result)
	}
	u.result, u.status, u.control, u.spent, u.text, u.step = success, kernel.Status{}, nil, 0, "", 0
	u.main, u.mainPID, u.mainStart, u.mainExit, u.ended, u.ready = nil, 0, time.Time{}, time.Time{}, nil, nil
	u.invocation = strings.ReplaceAll(w.UUID("systemd"), "-", "")
	u.set(w, Activating, "start")
	for _, p := range m.cgroup(name) {
		m.log(name, journal.Warning, "%s: Found left-over process %d (%s) in control group while starting unit. Ignoring.", name, p.ID(), p.Comm())
		m.log(name, journal.Warning, "%s: This usually indicates unclean termination of a previous run, or service implementation deficiencies.", name)
	}
	m.mu.Unlock()
	spec, fails, err := m.prepare(d)
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log(name, journal.Warning, "%s: Failed to load environment files: %v", name, strerror(reason(err)))
		m.log(name, journal.Warning, "%s: Failed to run 'start' task: %v", name, strerror(reason(err)))
		m.dead(u, noResources, true)
		m.log(name, journal.Err, "Failed to start %s.", d.Label())
		return jobFailed(name, noResources)
	}
	m.makeDirectories(d, spec.Cred)
	if serviceType(d) != "simple" || len(d.all("Service", "ExecStartPre")) > 0 {
		m.log(name, journal.Info, "Starting %s...", d.Label())
	}
	return m.commands(u, spec, fails)
}

// reenter goes on with a start job after a thaw, with the command at which it was frozen.
func (m *Manager) reenter(u *unit) error {
	spec, fails, err := m.prepare(u.def)
	if err != nil {
		return m.startFailed(u, kernel.Status{})
	}
	return m.commands(u, spec, fails)
}

// commands runs the commands of a start job that have not run yet.
func (m *Manager) commands(u *unit, spec kernel.Spec, fails *stage) error {
	d := u.def
	pre := d.all("Service", "ExecStartPre")
	for u.step < len(pre) {
		if st, ok := m.control(u, "ExecStartPre", pre[u.step], spec, fails, "start-pre"); !ok {
			return m.startFailed(u, st)
		}
		m.next(u)
	}
	m.mu.Lock()
	cancelled := u.stopping != nil
	if !cancelled {
		u.set(m.cfg.World, Activating, "start")
	}
	m.mu.Unlock()
	if cancelled {
		return &Error{"Job for " + u.name + " canceled.", 1}
	}
	switch kind := serviceType(d); kind {
	case "oneshot":
		return m.oneshot(u, len(pre), spec, fails)
	case "forking":
		return m.forking(u, spec, fails)
	default:
		return m.enterMain(u, kind, spec, fails)
	}
}

// next counts the commands of a start job that have been run.
func (m *Manager) next(u *unit) {
	m.mu.Lock()
	u.step++
	u.version = m.cfg.World.Version()
	m.mu.Unlock()
}

// enterOther starts what is no service: it has no process. Callers hold mu.
func (m *Manager) enterOther(u *unit) error {
	u.result = success
	text, sub := "Started %s.", "active"
	switch u.name[strings.LastIndexByte(u.name, '.'):] {
	case ".target":
		text = "Reached target %s."
	case ".socket":
		text, sub = "Listening on %s.", "listening"
	case ".mount":
		text, sub = "Mounted %s.", "mounted"
	case ".timer", ".path":
		sub = "waiting"
	}
	u.set(m.cfg.World, Active, sub)
	m.log(u.name, journal.Info, text, u.def.Label())
	return nil
}

// serviceType is Type=, as its values behave here: dbus and idle services are ready when they run.
func serviceType(d *Definition) string {
	switch k := d.get("Service", "Type", "simple"); k {
	case "notify", "notify-reload":
		return "notify"
	case "exec", "oneshot", "forking":
		return k
	}
	return "simple"
}

// enterMain starts the main process and waits until the service counts as started.
func (m *Manager) enterMain(u *unit, kind string, spec kernel.Spec, fails *stage) error {
	c, err := parseCommand(u.def.all("Service", "ExecStart")[0], spec.Env)
	if err != nil {
		return m.startFailed(u, kernel.Status{Code: exitExec})
	}
	ended, ready := make(chan struct{}), make(chan struct{})
	m.mu.Lock()
	u.ended, u.ready = ended, ready
	m.mu.Unlock()
	if kind == "simple" {
		// Such a service counts as started when systemd has forked; execve and what the program says come later.
		m.log(u.name, journal.Info, "Started %s.", u.def.Label())
	}
	failed := m.spawn(u, c, spec, fails)
	switch {
	case kind == "simple":
		m.mu.Lock()
		if u.active == Activating {
			u.set(m.cfg.World, Active, "running")
		}
		m.mu.Unlock()
	case kind == "exec" && failed == nil:
		m.started(u)
	}
	if kind == "simple" || kind == "exec" && failed == nil {
		m.watch(u, failed, ended)
		m.after(u, spec, fails)
		return nil
	}
	m.watch(u, failed, ended)
	return m.awaitReady(u, ended, ready)
}

// awaitReady waits until a service has said READY=1.
func (m *Manager) awaitReady(u *unit, ended, ready chan struct{}) error {
	d := u.def
	timeout := time.NewTimer(serviceTimeout(d, "TimeoutStartSec"))
	defer timeout.Stop()
	select {
	case <-ready:
		return nil
	case <-ended:
	case <-timeout.C:
		m.mu.Lock()
		if u.ended != ended || u.active != Activating {
			m.mu.Unlock()
			break
		}
		m.log(u.name, journal.Warning, "%s: start operation timed out. Terminating.", u.name)
		u.result = timedOut
		u.set(m.cfg.World, Deactivating, "stop-sigterm")
		m.mu.Unlock()
		m.terminate(u, ended)
		m.sweep(u)
		m.mu.Lock()
		if u.stopping == nil {
			m.dead(u, timedOut, true)
		}
		m.mu.Unlock()
	}
	m.mu.Lock()
	cancelled, result := u.stopping != nil, u.result
	m.mu.Unlock()
	if cancelled {
		return &Error{"Job for " + u.name + " canceled.", 1}
	}
	m.log(u.name, journal.Err, "Failed to start %s.", d.Label())
	if result == success { // it ended cleanly without ever having been ready
		result = "protocol"
	}
	return jobFailed(u.name, result)
}

// started puts a service into its running state.
func (m *Manager) started(u *unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.active == Activating {
		u.set(m.cfg.World, Active, "running")
		m.log(u.name, journal.Info, "Started %s.", u.def.Label())
	}
}

// after runs ExecStartPost=.
func (m *Manager) after(u *unit, spec kernel.Spec, fails *stage) {
	m.mu.Lock()
	main := u.main
	m.mu.Unlock()
	if main != nil {
		spec.Env = append(spec.Env[:len(spec.Env):len(spec.Env)], fmt.Sprintf("MAINPID=%d", main.ID()))
	}
	for _, l := range u.def.all("Service", "ExecStartPost") {
		m.control(u, "ExecStartPost", l, spec, fails, "")
	}
}

// startFailed settles a start whose control process failed.
func (m *Manager) startFailed(u *unit, st kernel.Status) error {
	m.mu.Lock()
	result := resultOf(u.def, st)
	if result == success { // killed by a clean signal, which is no success for a control process
		result = signaled
	}
	u.result = result
	m.mu.Unlock()
	m.sweep(u)
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.stopping == nil {
		m.dead(u, result, true)
	}
	m.log(u.name, journal.Err, "Failed to start %s.", u.def.Label())
	return jobFailed(u.name, result)
}

// oneshot runs the main commands one after the other; done is the number of commands before them.
func (m *Manager) oneshot(u *unit, done int, spec kernel.Spec, fails *stage) error {
	w, d := m.cfg.World, u.def
	for lines := d.all("Service", "ExecStart"); u.step < done+len(lines); m.next(u) {
		c, err := parseCommand(lines[u.step-done], spec.Env)
		if err != nil {
			return m.startFailed(u, kernel.Status{Code: exitExec})
		}
		st := m.foreground(u, c, spec, fails)
		if st != (kernel.Status{}) && !listed(d, "SuccessExitStatus", st) && !c.ignoreResult {
			m.log(u.name, journal.Notice, "%s: Main process exited, %s", u.name, describe(st))
			return m.startFailed(u, st)
		}
	}
	m.after(u, spec, fails)
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.stopping != nil {
		return &Error{"Job for " + u.name + " canceled.", 1}
	}
	if yes(d.get("Service", "RemainAfterExit", "no")) {
		u.set(w, Active, "exited")
	} else {
		m.dead(u, success, true)
	}
	m.log(u.name, journal.Info, "Finished %s.", d.Label())
	return nil
}

// forking starts a service whose process goes into the background: its main process is the one that PIDFile= names, or
// that is left.
func (m *Manager) forking(u *unit, spec kernel.Spec, fails *stage) error {
	d := u.def
	c, err := parseCommand(d.all("Service", "ExecStart")[0], spec.Env)
	if err != nil {
		return m.startFailed(u, kernel.Status{Code: exitExec})
	}
	if st := m.foreground(u, c, spec, fails); st != (kernel.Status{}) {
		m.log(u.name, journal.Notice, "%s: Control process exited, %s", u.name, describe(st))
		return m.startFailed(u, st)
	}
	ended := make(chan struct{})
	m.mu.Lock()
	left := m.cgroup(u.name)
	var main *kernel.Process
	if len(left) > 0 {
		main = left[0]
	}
	if f := d.get("Service", "PIDFile", ""); f != "" {
		if b, err := m.cfg.Files.ReadFile(f); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				main = m.cfg.Host.Processes.Find(pid)
			}
		}
	}
	if main == nil {
		m.mu.Unlock()
		if yes(d.get("Service", "RemainAfterExit", "no")) {
			m.mu.Lock()
			defer m.mu.Unlock()
			u.set(m.cfg.World, Active, "exited")
			m.log(u.name, journal.Info, "Started %s.", d.Label())
			return nil
		}
		m.started(u)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dead(u, success, true)
		return nil
	}
	u.main, u.mainPID, u.mainStart, u.ended = main, main.ID(), main.StartTime(), ended
	u.command = execution{Path: main.CommandLine()[0], Argv: main.CommandLine(), Env: main.Environ(), Dir: main.Dir(), Cred: main.Cred}
	if b, err := m.cfg.Files.ReadFile(c.path); err == nil {
		u.command.Program, _ = kernel.ExecutableProgram(b)
	}
	m.mu.Unlock()
	m.started(u)
	m.watch(u, nil, ended)
	return nil
}

// foreground runs a main command that the start job waits for.
func (m *Manager) foreground(u *unit, c command, spec kernel.Spec, fails *stage) kernel.Status {
	m.mu.Lock()
	if u.foreground { // it ran when the world was frozen
		spec.PID, spec.Started = u.mainPID, u.mainStart
	}
	m.mu.Unlock()
	p, failed, pid := m.child(u.def, c, spec, fails)
	m.mu.Lock()
	if u.main, u.mainPID, u.mainExit = p, pid, (time.Time{}); !u.foreground {
		u.mainStart = time.Now()
	}
	u.foreground = p != nil
	u.version = m.cfg.World.Version()
	m.mu.Unlock()
	st := kernel.Status{}
	if failed != nil {
		st = *failed
	} else {
		st = p.Wait()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u.main, u.mainExit, u.status, u.foreground = nil, time.Now(), st, false
	u.spent += execTime
	if p != nil {
		u.spent += p.CPU()
	}
	return st
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
	if period == 0 || burst == 0 {
		return false
	}
	now := time.Now()
	recent := u.starts[:0]
	for _, t := range u.starts {
		if now.Sub(t) < period {
			recent = append(recent, t)
		}
	}
	u.starts = recent
	if len(u.starts) >= burst {
		return true
	}
	u.starts = append(u.starts, now)
	return false
}

// unmet returns the first condition or assertion of a unit that does not hold.
func (m *Manager) unmet(d *Definition) Condition {
	for _, prefix := range []string{"Condition", "Assert"} {
		for _, s := range d.Settings {
			if s.Section != "Unit" || s.Value == "" || !strings.HasPrefix(s.Key, prefix) {
				continue
			}
			if !holds(m.cfg.Files, strings.TrimPrefix(s.Key, prefix), s.Value) {
				return Condition{Key: s.Key, Value: s.Value}
			}
		}
	}
	return Condition{}
}

// makeDirectories makes RuntimeDirectory= and its like.
func (m *Manager) makeDirectories(d *Definition, c kernel.Credential) {
	for _, x := range [][2]string{{"RuntimeDirectory", "/run/"}, {"StateDirectory", "/var/lib/"}, {"CacheDirectory", "/var/cache/"}, {"LogsDirectory", "/var/log/"}} {
		for _, n := range d.words("Service", x[0]) {
			dir := x[1] + n
			mode := uint64(0o755)
			if v, err := strconv.ParseUint(d.get("Service", x[0]+"Mode", ""), 8, 12); err == nil {
				mode = v
			}
			if m.cfg.Files.MkdirAll(dir, os.FileMode(mode)) == nil {
				m.cfg.Files.Chmod(dir, os.FileMode(mode))
				m.cfg.Files.Chown(dir, c.UID, c.GID)
			}
		}
	}
}
