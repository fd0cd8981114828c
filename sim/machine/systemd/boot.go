package systemd

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
)

// Run makes p the machine's init process: everything that the manager does happens in its name and ends with it.
func (m *Manager) Run(p *kernel.Process) {
	m.init.Store(p)
}

// Boot starts what the default target wants, in the order that After= asks for. It returns when all start jobs are done.
func (m *Manager) Boot() {
	m.mu.Lock()
	m.units = map[string]*unit{}
	m.booting = true
	m.mu.Unlock()
	m.run(func() error { m.boot(); return nil })
}

// early is the target that everything else comes after, and basic the one that services come after.
const early, basic = "sysinit.target", "basic.target"

func (m *Manager) boot() {
	first := m.wanted(early)
	m.startAll(first)
	for _, t := range []string{early, basic} {
		m.start(t, map[string]bool{})
	}
	if m.cfg.Initialized != nil {
		m.cfg.Initialized()
	}
	target := m.DefaultTarget()
	m.startAll(slices.DeleteFunc(m.wanted(target), func(n string) bool { return slices.Contains(first, n) }))
	m.start(target, map[string]bool{})
	m.mu.Lock()
	m.booting = false
	m.mu.Unlock()
}

// startAll starts units in the order that After= asks for, and returns when all start jobs are done.
func (m *Manager) startAll(wanted []string) {
	done := map[string]chan struct{}{}
	for _, n := range wanted {
		done[n] = make(chan struct{})
	}
	for _, n := range wanted {
		var after []chan struct{}
		m.mu.Lock()
		if u, err := m.load(n); err == nil {
			for _, a := range u.def.words("Unit", "After") {
				if c, ok := done[a]; ok && a != n {
					after = append(after, c)
				}
			}
		}
		m.mu.Unlock()
		start := func() {
			defer close(done[n])
			m.start(n, map[string]bool{})
		}
		if len(after) == 0 {
			// in order of names, so that pids do not depend on chance; only a service that is long in starting is not waited for
			m.background(start)
			t := time.NewTimer(time.Millisecond)
			select {
			case <-done[n]:
			case <-t.C:
			}
			t.Stop()
			continue
		}
		m.background(func() {
			for _, c := range after {
				<-c
			}
			start()
		})
	}
	for _, n := range wanted {
		<-done[n]
	}
}

// DefaultTarget is what the machine boots into.
func (m *Manager) DefaultTarget() string {
	for _, dir := range searchPath {
		if t, err := m.cfg.Files.Readlink(path.Join(dir, "default.target")); err == nil {
			return path.Base(t)
		}
	}
	return "multi-user.target"
}

// Booting says whether the default target is still to be reached.
func (m *Manager) Booting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.booting
}

// wanted lists the units that a target, and the targets that its file wants, pull in by links.
func (m *Manager) wanted(target string) []string {
	seen := map[string]bool{}
	var l []string
	var visit func(string)
	visit = func(t string) {
		if seen[t] {
			return
		}
		seen[t] = true
		l = append(l, m.links(t)...)
		if d, ok := read(m.cfg.Files, t); ok {
			for _, dep := range append(d.words("Unit", "Wants"), d.words("Unit", "Requires")...) {
				if strings.HasSuffix(dep, ".target") {
					visit(dep)
				}
			}
		}
	}
	visit(target)
	slices.Sort(l)
	return slices.Compact(l)
}

// links lists the units that stand in a target's directories of links.
func (m *Manager) links(target string) []string {
	var l []string
	for _, dir := range searchPath {
		for _, kind := range []string{".wants", ".requires"} {
			entries, err := m.cfg.Files.ReadDir(path.Join(dir, target+kind))
			if err != nil {
				continue
			}
			for _, e := range entries {
				l = append(l, e.Name())
			}
		}
	}
	return l
}

// Shutdown stops all services, the last started first.
func (m *Manager) Shutdown() {
	m.run(func() error {
		m.mu.Lock()
		var running []*unit
		for _, n := range m.names() {
			u := m.units[n]
			m.callOff(u)
			if u.main != nil {
				running = append(running, u)
			}
		}
		slices.SortStableFunc(running, func(a, b *unit) int { return b.mainStart.Compare(a.mainStart) })
		m.mu.Unlock()
		for _, u := range running {
			m.stop(u.name)
		}
		return nil
	})
}

// Halt forgets all runtime state: the machine is off.
func (m *Manager) Halt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units = map[string]*unit{}
	m.booting = false
	m.init.Store(nil)
}

type frozenUnit struct {
	Definition          Definition
	Active, Sub, Result string
	Times               times
	Condition           Condition
	Running             bool
	Command             execution
	MainPID             int
	MainStart, MainExit time.Time
	Status              kernel.Status
	Control             []Exec
	Spent               time.Duration
	Text                string
	Step                int
	Foreground          bool
	Restarts            int
	Starts              []time.Time
	RestartAt           time.Time
	Invocation          string
	Stopping            bool
}

// bootPart is the part that says that the machine is booting; no unit has such a name.
const bootPart = "booting"

// Freeze implements [kernel.Holder].
func (m *Manager) Freeze(s *kernel.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.booting {
		s.Put(bootPart, 1, func() []byte { return []byte("yes") })
	}
	for _, n := range m.names() {
		u := m.units[n]
		s.Put(n, u.version, func() []byte {
			b, err := kernel.Encode(frozenUnit{*u.def, u.active, u.sub, u.result, u.times, u.condition, u.main != nil && u.ended != nil, u.command, u.mainPID, u.mainStart, u.mainExit, u.status, u.control, u.spent,
				u.text, u.step, u.foreground, u.restarts, u.starts, u.restartAt, u.invocation, u.stopping != nil})
			if err != nil {
				panic(err)
			}
			return b
		})
	}
}

// Thaw implements [kernel.Holder].
func (m *Manager) Thaw(parts kernel.Parts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units = map[string]*unit{}
	for n, b := range parts {
		if n == bootPart {
			m.booting = true
			continue
		}
		var f frozenUnit
		if err := kernel.Decode(b, &f); err != nil {
			return fmt.Errorf("unit %s: %w", n, err)
		}
		u := &unit{name: n, def: &f.Definition, active: f.Active, sub: f.Sub, result: f.Result, times: f.Times, condition: f.Condition, command: f.Command, mainPID: f.MainPID, mainStart: f.MainStart,
			mainExit: f.MainExit, status: f.Status, control: f.Control, spent: f.Spent, text: f.Text, step: f.Step, foreground: f.Foreground, restarts: f.Restarts, starts: f.Starts, restartAt: f.RestartAt, invocation: f.Invocation,
			version: m.cfg.World.Version()}
		if f.Running {
			u.ended = make(chan struct{}) // Resume starts it
		}
		if f.Stopping {
			u.stopping = &job{done: make(chan struct{})} // Resume goes on with it
		}
		m.units[n] = u
	}
	return nil
}

// Resume starts the main processes of the units that were running when the state was frozen, with their old numbers, arms
// pending restarts again, and goes on with the jobs that were under way. Nothing of it shows.
func (m *Manager) Resume() error {
	m.mu.Lock()
	var running, halfway []*unit
	for _, n := range m.names() {
		u := m.units[n]
		switch {
		case !u.restartAt.IsZero():
			at := u.restartAt
			m.restartLater(u, time.Until(at))
		case u.ended != nil:
			running = append(running, u)
		case u.active == Activating || u.active == Deactivating:
			halfway = append(halfway, u)
		}
	}
	booting := m.booting
	slices.SortStableFunc(running, func(a, b *unit) int { return a.mainPID - b.mainPID })
	m.mu.Unlock()
	for _, u := range running {
		if err := m.respawn(u); err != nil {
			return err
		}
		m.watch(u, nil, u.ended)
		switch u.active {
		case Activating:
			m.mu.Lock()
			u.ready = make(chan struct{})
			ended, ready, j := u.ended, u.ready, &job{done: make(chan struct{})}
			u.starting = j
			m.mu.Unlock()
			m.background(func() {
				err := m.awaitReady(u, ended, ready)
				m.mu.Lock()
				u.starting = nil
				m.mu.Unlock()
				j.finish(err)
			})
		case Deactivating:
			halfway = append(halfway, u)
		}
	}
	for _, u := range halfway {
		m.background(func() { m.carryOn(u) })
	}
	if booting {
		m.background(m.boot)
	}
	return nil
}

// handlerTime is what a program gets after a thaw to set its handlers, before the signal that it had got comes again.
const handlerTime = 10 * time.Millisecond

// carryOn goes on with a job that was under way at the freeze: a start begins again with the command that ran, a stop signals
// again.
func (m *Manager) carryOn(u *unit) {
	if u.active == Activating {
		m.perform(u, m.reenter)
		return
	}
	m.mu.Lock()
	j, main, ended := u.stopping, u.main, u.ended
	m.mu.Unlock()
	if main != nil {
		time.Sleep(handlerTime)
		m.terminate(u, ended)
	}
	m.sweep(u)
	m.mu.Lock()
	defer m.mu.Unlock()
	u.stopping = nil
	m.dead(u, success, j == nil)
	if j != nil {
		m.log(u.name, journal.Info, "Stopped %s.", u.def.Label())
		m.collect(u)
		j.finish(nil)
	}
}
