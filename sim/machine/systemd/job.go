package systemd

import (
	"fmt"
	"slices"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
)

// errGone is what a client of the manager gets when the machine goes off under it.
var errGone = &Error{"Warning! D-Bus connection terminated.", 1}

// run does what a client asked for in the name of the machine's init process, which goes on with it when the client is
// killed, and ends with the machine.
func (m *Manager) run(f func() error) error {
	p := m.init.Load()
	if p == nil {
		return errGone
	}
	done := make(chan error, 1)
	p.Go(func() { done <- f() })
	select {
	case err := <-done:
		return err
	case <-p.Done():
		return errGone
	}
}

// background runs f as part of the machine's init process, which ends when the machine goes down.
func (m *Manager) background(f func()) {
	if p := m.init.Load(); p != nil {
		p.Go(f)
	}
}

// Start starts a unit and what it requires, and waits until that has succeeded or failed, as systemctl does.
func (m *Manager) Start(name string) error {
	return m.run(func() error { return m.start(name, map[string]bool{}) })
}

// Stop stops a unit and what requires it, and waits for it.
func (m *Manager) Stop(name string) error { return m.run(func() error { return m.stop(name) }) }

// Restart stops and starts a unit.
func (m *Manager) Restart(name string) error {
	return m.run(func() error {
		if err := m.check(name, "RefuseManualStart"); err != nil {
			return err
		}
		if err := m.stop(name); err != nil {
			return err
		}
		return m.start(name, map[string]bool{})
	})
}

// ReloadUnit runs a service's ExecReload=.
func (m *Manager) ReloadUnit(name string) error {
	return m.run(func() error { return m.reload(name) })
}

// check refuses a job on a unit that can not be loaded, or that its file keeps from being asked for by hand.
func (m *Manager) check(name, refuse string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.load(name)
	switch {
	case err != nil:
		return err
	case u.def.bad() != "":
		m.collect(u)
		return &Error{fmt.Sprintf("Unit %s has a bad unit file setting.", u.name), 1}
	case yes(u.def.get("Unit", refuse, "no")):
		return &Error{fmt.Sprintf("Operation refused, unit %s may be requested by dependency only (it is configured to refuse manual start/stop).", u.name), 4}
	}
	return nil
}

func (m *Manager) start(name string, visiting map[string]bool) error {
	first := len(visiting) == 0
	if visiting[name] {
		return nil
	}
	visiting[name] = true
	if first {
		if err := m.check(name, "RefuseManualStart"); err != nil {
			return err
		}
	}
	m.mu.Lock()
	u, err := m.load(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	if j := u.starting; j != nil {
		m.mu.Unlock()
		<-j.done
		return j.err
	}
	if j := u.stopping; j != nil {
		m.mu.Unlock()
		<-j.done
		return m.startWithNeeds(u, visiting)
	}
	if u.active == Active {
		m.mu.Unlock()
		return nil
	}
	m.mu.Unlock()
	return m.startWithNeeds(u, visiting)
}

// startWithNeeds starts what a unit needs, and then the unit.
func (m *Manager) startWithNeeds(u *unit, visiting map[string]bool) error {
	m.mu.Lock()
	d := u.def
	m.callOff(u)
	u.restarts = 0
	m.mu.Unlock()
	for _, dep := range d.words("Unit", "Wants") {
		m.start(dep, visiting)
	}
	for _, dep := range append(d.words("Unit", "Requires"), d.words("Unit", "BindsTo")...) {
		if err := m.start(dep, visiting); err != nil {
			if e, ok := err.(*Error); ok && e.Code == notFound {
				return err
			}
			m.log(u.name, journal.Warning, "Dependency failed for %s.", d.Label())
			m.log(u.name, journal.Notice, "%s: Job %s/start failed with result 'dependency'.", u.name, u.name)
			return &Error{fmt.Sprintf("A dependency job for %s failed. See 'journalctl -xe' for details.", u.name), 1}
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

// jobFailed is what systemctl says about a start job that failed, by the unit's Result.
func jobFailed(name, result string) error {
	why := map[string]string{
		noResources: "of unavailable resources or another system error", "protocol": "the service did not take the steps required by its unit configuration",
		timedOut: "a timeout was exceeded", exitCode: "the control process exited with error code", signaled: "a fatal signal was delivered to the control process",
	}[result]
	text := "Job for " + name + " failed"
	if why != "" {
		text += " because " + why
	}
	return &Error{fmt.Sprintf("%s.\nSee \"systemctl status %s\" and \"journalctl -xeu %s\" for details.", text, name, name), 1}
}

func (m *Manager) stop(name string) error { return m.stopWithout(name, map[string]bool{}) }

// stopWithout is stop for a unit that is stopped because of others, which stop anyway: units can need each other.
func (m *Manager) stopWithout(name string, others map[string]bool) error {
	if others[name] {
		return nil
	}
	others[name] = true
	m.mu.Lock()
	u, err := m.load(name)
	if u == nil {
		m.mu.Unlock()
		if e, ok := err.(*Error); ok && e.Code == notFound {
			return &Error{fmt.Sprintf("Unit %s not loaded.", name), notFound}
		}
		return err
	}
	if yes(u.def.get("Unit", "RefuseManualStop", "no")) {
		m.mu.Unlock()
		return m.check(name, "RefuseManualStop")
	}
	if j := u.stopping; j != nil {
		m.mu.Unlock()
		<-j.done
		return nil
	}
	var needs []string
	for _, n := range m.names() {
		o := m.units[n]
		if o != u && !dormant(o.active) && (slices.Contains(o.def.words("Unit", "Requires"), u.name) || slices.Contains(o.def.words("Unit", "BindsTo"), u.name) || slices.Contains(o.def.words("Unit", "PartOf"), u.name)) {
			needs = append(needs, n)
		}
	}
	d, w := u.def, m.cfg.World
	switch {
	case u.active == Activating && u.sub == autoRestart:
		m.callOff(u)
		u.set(w, Inactive, "dead")
		m.log(u.name, journal.Info, "Stopped %s.", d.Label())
		m.collect(u)
		m.mu.Unlock()
		return nil
	case dormant(u.active):
		m.collect(u)
		m.mu.Unlock()
		return nil
	}
	j := &job{done: make(chan struct{})}
	u.stopping = j
	m.mu.Unlock()
	for _, n := range needs {
		m.stopWithout(n, others)
	}
	m.halt(u)
	m.mu.Lock()
	u.stopping = nil
	m.collect(u)
	m.mu.Unlock()
	return j.finish(nil)
}

func (m *Manager) reload(name string) error {
	if err := m.check(name, "RefuseManualStart"); err != nil {
		return err
	}
	m.mu.Lock()
	u, err := m.load(name)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	defer func() {
		m.mu.Lock()
		m.collect(u)
		m.mu.Unlock()
	}()
	d, main := u.def, u.main
	lines := d.all("Service", "ExecReload")
	active := u.active == Active
	m.mu.Unlock()
	switch {
	case len(lines) == 0:
		return &Error{fmt.Sprintf("Job type reload is not applicable for unit %s.", u.name), notImplemented}
	case !active:
		return &Error{u.name + " is not active, cannot reload.", 1}
	}
	spec, fails, err := m.prepare(d)
	if err != nil {
		return jobFailed(u.name, noResources)
	}
	if main != nil {
		spec.Env = append(spec.Env, fmt.Sprintf("MAINPID=%d", main.ID()))
	}
	m.log(u.name, journal.Info, "Reloading %s...", d.Label())
	for _, l := range lines {
		if _, ok := m.control(u, "ExecReload", l, spec, fails, ""); !ok {
			m.log(u.name, journal.Err, "Reload failed for %s.", d.Label())
			return jobFailed(u.name, exitCode)
		}
	}
	m.log(u.name, journal.Info, "Reloaded %s.", d.Label())
	return nil
}

// Kill sends a signal to the processes of a unit: to all, or to the main one alone.
func (m *Manager) Kill(name, whom string, s kernel.Signal) error {
	return m.run(func() error {
		m.mu.Lock()
		u, err := m.load(name)
		if u == nil {
			m.mu.Unlock()
			return err
		}
		main, l := u.main, m.cgroup(u.name)
		m.collect(u)
		m.mu.Unlock()
		if whom == "main" {
			l = nil
			if main != nil {
				l = []*kernel.Process{main}
			}
		}
		if len(l) == 0 {
			return &Error{fmt.Sprintf("No %sprocesses to kill", map[bool]string{true: "main "}[whom == "main"]), 1}
		}
		for _, p := range l {
			p.Signal(s)
		}
		return nil
	})
}
