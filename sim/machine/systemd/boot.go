package systemd

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// Run makes p the machine's init process: everything that the manager does happens in its name and ends with it.
func (m *Manager) Run(p *kernel.Process) {
	m.init.Store(p)
}

// Boot starts what the default target wants, in the order that After= asks for. It returns when all start jobs are done.
func (m *Manager) Boot() {
	m.mu.Lock()
	m.units = map[string]*unit{}
	m.mu.Unlock()
	target := "multi-user.target"
	for _, dir := range searchPath {
		if t, err := m.cfg.Files.Readlink(path.Join(dir, "default.target")); err == nil {
			target = path.Base(t)
			break
		}
	}
	wanted := m.wanted(target)
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
			m.Start(n)
			close(done[n])
		}
		if len(after) == 0 {
			// in order of names, so that pids do not depend on chance; only a service that is long in starting is not waited for
			finished := make(chan struct{})
			m.background(func() { start(); close(finished) })
			t := time.NewTimer(time.Millisecond)
			select {
			case <-finished:
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
	m.Start(target)
}

// wanted lists the units that a target wants by links, and by its own file.
func (m *Manager) wanted(target string) []string {
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
	if d, ok := read(m.cfg.Files, target); ok {
		for _, dep := range append(d.words("Unit", "Wants"), d.words("Unit", "Requires")...) {
			if strings.HasSuffix(dep, ".target") {
				l = append(l, m.wanted(dep)...)
			}
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// Shutdown stops all services, the last started first.
func (m *Manager) Shutdown() {
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
		m.Stop(u.name)
	}
}

// Halt forgets all runtime state: the machine is off.
func (m *Manager) Halt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units = map[string]*unit{}
	m.init.Store(nil)
}

type frozenUnit struct {
	Definition          Definition
	Active, Sub, Result string
	MainPID             int
	Running, Exec       bool
	MainStart, MainExit time.Time
	Status              kernel.Status
	ActiveSince         time.Time
	Changed             time.Time
	Restarts            int
	Starts              []time.Time
	RestartAt           time.Time
	Invocation          string
}

// Freeze implements [kernel.Holder].
func (m *Manager) Freeze(s *kernel.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.names() {
		u := m.units[n]
		s.Put(n, u.version, func() []byte {
			b, err := kernel.Encode(frozenUnit{*u.def, u.active, u.sub, u.result, u.mainPID, u.main != nil, u.exec, u.mainStart, u.mainExit, u.status, u.activeSince, u.changed, u.restarts, u.starts, u.restartAt, u.invocation})
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
		var f frozenUnit
		if err := kernel.Decode(b, &f); err != nil {
			return fmt.Errorf("unit %s: %w", n, err)
		}
		u := &unit{name: n, def: &f.Definition, active: f.Active, sub: f.Sub, result: f.Result, mainPID: f.MainPID, exec: f.Exec, mainStart: f.MainStart, mainExit: f.MainExit, status: f.Status,
			activeSince: f.ActiveSince, changed: f.Changed, restarts: f.Restarts, starts: f.Starts, restartAt: f.RestartAt, invocation: f.Invocation, version: m.cfg.World.Version()}
		if f.Running {
			u.ended = make(chan struct{}) // Resume starts it
		}
		m.units[n] = u
	}
	return nil
}

// Resume starts the main processes of the units that were running when the state was frozen, with their old numbers, and
// arms pending restarts again. Nothing of it shows.
func (m *Manager) Resume() error {
	m.mu.Lock()
	var running []*unit
	for _, n := range m.names() {
		u := m.units[n]
		if u.ended != nil && u.main == nil {
			running = append(running, u)
		}
		if !u.restartAt.IsZero() {
			changed := u.changed
			m.restartLater(u, time.Until(u.restartAt))
			u.changed = changed
		}
	}
	slices.SortStableFunc(running, func(a, b *unit) int { return a.mainPID - b.mainPID })
	m.mu.Unlock()
	for _, u := range running {
		env, spec, err := m.prepare(u.def)
		lines := u.def.all("Service", "ExecStart")
		if err == nil && len(lines) == 0 {
			err = fmt.Errorf("it has no ExecStart=")
		}
		if err != nil {
			return fmt.Errorf("%s cannot be resumed: %w", u.name, err)
		}
		if m.spawn(u, lines[0], env, spec, u.mainPID, u.mainStart) {
			// its program was removed while it ran, which a real process survives; here it ends now
			u.exec = true
		}
		m.watch(u, u.ended)
	}
	return nil
}
