package systemd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
)

// watch waits for the end of the main process in the background. failed is set when systemd's child never became it.
func (m *Manager) watch(u *unit, failed *kernel.Status, ended chan struct{}) {
	m.mu.Lock()
	p := u.main
	m.mu.Unlock()
	m.background(func() {
		var st kernel.Status
		if failed != nil {
			st = *failed
		} else if p != nil {
			st = p.Wait()
		}
		m.exited(u, p, st, ended)
	})
}

// exited settles a unit's state after its main process has ended.
func (m *Manager) exited(u *unit, p *kernel.Process, st kernel.Status, ended chan struct{}) {
	m.mu.Lock()
	if init := m.init.Load(); u.ended != ended || init == nil || !init.Alive() {
		m.mu.Unlock()
		close(ended)
		return
	}
	defer close(ended)
	d, name := u.def, u.name
	u.main, u.mainExit, u.status, u.ready = nil, time.Now(), st, nil
	u.version = m.cfg.World.Version()
	u.spent += execTime
	if p != nil {
		u.spent += p.CPU()
	}
	result := resultOf(d, st)
	if result != success {
		priority := journal.Notice
		if st.Signal != 0 {
			priority = journal.Warning
		}
		m.log(name, priority, "%s: Main process exited, %s", name, describe(st))
		if u.result == success {
			u.result = result
		}
	}
	if u.active == Deactivating {
		m.mu.Unlock()
		return // who stops it goes on from here
	}
	if result == success && u.active == Active && yes(d.get("Service", "RemainAfterExit", "no")) {
		u.set(m.cfg.World, Active, "exited")
		m.mu.Unlock()
		return
	}
	if u.active == Active {
		u.set(m.cfg.World, Deactivating, "stop-sigterm")
	}
	m.mu.Unlock()
	if result == success {
		m.stopCommands(u, "ExecStop", nil)
	}
	m.sweep(u)
	m.stopCommands(u, "ExecStopPost", nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.stopping == nil {
		m.dead(u, result, true)
	}
}

// dead puts a unit whose processes have ended into its dead or failed state, and arms the automatic restart where Restart=
// and allowRestart say so. The first failure counts. Callers hold mu.
func (m *Manager) dead(u *unit, result string, allowRestart bool) {
	if u.result == success {
		u.result = result
	}
	w := m.cfg.World
	end := Failed
	if u.result == success {
		m.log(u.name, journal.Info, "%s: Deactivated successfully.", u.name)
		end = Inactive
	} else {
		m.log(u.name, journal.Warning, "%s: Failed with result '%s'.", u.name, u.result)
	}
	for _, p := range m.cgroup(u.name) {
		m.log(u.name, journal.Info, "%s: Unit process %d (%s) remains running after unit stopped.", u.name, p.ID(), p.Comm())
	}
	sub := "dead"
	if end == Failed {
		sub = "failed"
	}
	u.set(w, end, sub)
	if allowRestart && shallRestart(u.def, u.result, u.status) {
		u.set(w, Activating, autoRestart)
		m.restartLater(u, duration(u.def.get("Service", "RestartSec", ""), defaultRestart))
		return
	}
	if u.stopping == nil { // else it follows the line that the unit has stopped
		m.consumed(u)
	}
}

// consumed tells what a unit has used, when that is worth a line. Callers hold mu.
func (m *Manager) consumed(u *unit) {
	if u.spent >= time.Second {
		m.log(u.name, journal.Info, "%s: Consumed %s CPU time.", u.name, FormatTimespan(u.spent, time.Millisecond))
	}
}

// restartLater arms the automatic restart. Callers hold mu.
func (m *Manager) restartLater(u *unit, delay time.Duration) {
	u.restartAt = time.Now().Add(delay)
	u.version = m.cfg.World.Version()
	abort := make(chan struct{})
	u.abortWait = abort
	init := m.init.Load()
	m.background(func() {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-abort:
			return
		case <-init.Done():
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

// halt stops a unit's processes for a stop job.
func (m *Manager) halt(u *unit) {
	w, d, name := m.cfg.World, u.def, u.name
	m.mu.Lock()
	main, ended := u.main, u.ended
	if !strings.HasSuffix(name, ".service") {
		u.set(w, Inactive, "dead")
		text := "Stopped %s."
		if strings.HasSuffix(name, ".target") {
			text = "Stopped target %s."
		} else if strings.HasSuffix(name, ".socket") {
			text = "Closed %s."
		}
		m.log(name, journal.Info, text, d.Label())
		m.mu.Unlock()
		return
	}
	u.set(w, Deactivating, "stop-sigterm")
	m.log(name, journal.Info, "Stopping %s...", d.Label())
	m.mu.Unlock()
	m.stopCommands(u, "ExecStop", main)
	if main != nil && ended != nil {
		m.terminate(u, ended)
	} else if main != nil { // of a start job that waits for it
		main.Signal(kernel.SIGTERM)
		main.Wait()
	}
	m.sweep(u)
	m.stopCommands(u, "ExecStopPost", nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead(u, success, false)
	m.log(name, journal.Info, "Stopped %s.", d.Label())
	m.consumed(u)
}

// stopCommands runs ExecStop= or ExecStopPost=.
func (m *Manager) stopCommands(u *unit, kind string, main *kernel.Process) {
	lines := u.def.all("Service", kind)
	if len(lines) == 0 {
		return
	}
	spec, fails, err := m.prepare(u.def)
	if err != nil {
		return
	}
	if main != nil {
		spec.Env = append(spec.Env, fmt.Sprintf("MAINPID=%d", main.ID()))
	}
	sub := map[string]string{"ExecStop": "stop", "ExecStopPost": "stop-post"}[kind]
	for _, l := range lines {
		if st, ok := m.control(u, kind, l, spec, fails, sub); !ok {
			m.mu.Lock()
			if u.result == success {
				u.result = resultOf(u.def, st)
			}
			m.mu.Unlock()
			return
		}
	}
}

// terminate ends the main process, by force when that takes longer than TimeoutStopSec=.
func (m *Manager) terminate(u *unit, ended chan struct{}) {
	d := u.def
	m.mu.Lock()
	p := u.main
	m.mu.Unlock()
	if p == nil {
		<-ended
		return
	}
	if d.get("Service", "KillMode", "control-group") == "none" {
		return
	}
	p.Signal(signalNamed(d.get("Service", "KillSignal", "SIGTERM")))
	m.signalGroup(u, kernel.SIGTERM, false)
	t := time.NewTimer(stopTimeout(d))
	defer t.Stop()
	select {
	case <-ended:
		return
	case <-t.C:
	}
	m.mu.Lock()
	m.log(u.name, journal.Warning, "%s: State '%s' timed out. Killing.", u.name, u.sub)
	if u.result == success {
		u.result = timedOut
	}
	m.mu.Unlock()
	m.log(u.name, journal.Notice, "%s: Killing process %d (%s) with signal SIGKILL.", u.name, p.ID(), p.Comm())
	p.Signal(kernel.SIGKILL)
	m.signalGroup(u, kernel.SIGKILL, true)
	<-ended
}

func stopTimeout(d *Definition) time.Duration { return serviceTimeout(d, "TimeoutStopSec") }

// serviceTimeout is how long a service may take to start or stop. 0 means for ever, as in systemd.
func serviceTimeout(d *Definition, name string) time.Duration {
	t := duration(d.get("Service", name, d.get("Service", "TimeoutSec", "")), defaultTimeout)
	if t <= 0 {
		t = Forever
	}
	return min(t, 1<<61)
}

// signalGroup signals a unit's processes beside the main one, as KillMode= allows.
func (m *Manager) signalGroup(u *unit, s kernel.Signal, say bool) (sent []*kernel.Process) {
	switch mode := u.def.get("Service", "KillMode", "control-group"); {
	case mode == "process" || mode == "none", mode == "mixed" && s != kernel.SIGKILL:
		return nil
	}
	m.mu.Lock()
	main, l := u.main, m.cgroup(u.name)
	m.mu.Unlock()
	for _, p := range l {
		if p == main {
			continue
		}
		if say {
			m.log(u.name, journal.Notice, "%s: Killing process %d (%s) with signal %s.", u.name, p.ID(), p.Comm(), s)
		}
		p.Signal(s)
		sent = append(sent, p)
	}
	return sent
}

// sweep ends what the main process has left behind.
func (m *Manager) sweep(u *unit) {
	left := m.signalGroup(u, kernel.SIGTERM, false)
	if len(left) > 0 {
		t := time.NewTimer(stopTimeout(u.def))
		defer t.Stop()
		for _, p := range left {
			select {
			case <-p.Done():
				continue
			case <-t.C:
			}
			break
		}
	}
	m.signalGroup(u, kernel.SIGKILL, true)
}

func signalNamed(s string) kernel.Signal {
	if sig, ok := ParseSignal(s); ok {
		return sig
	}
	return kernel.SIGTERM
}

// ParseSignal reads a signal's number or name, with or without SIG.
func ParseSignal(s string) (kernel.Signal, bool) {
	s = strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for _, x := range []kernel.Signal{kernel.SIGHUP, kernel.SIGINT, kernel.SIGQUIT, kernel.SIGABRT, kernel.SIGKILL, kernel.SIGUSR1, kernel.SIGUSR2, kernel.SIGPIPE, kernel.SIGTERM, kernel.SIGCHLD, kernel.SIGCONT, kernel.SIGSTOP, kernel.SIGWINCH} {
		if strings.TrimPrefix(x.String(), "SIG") == s || s == strconv.Itoa(int(x)) {
			return x, true
		}
	}
	return 0, false
}
