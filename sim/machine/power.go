package machine

import (
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// earlyPID is the number of the first process after init's: a kernel's own threads have taken those before it. firstPID is
// that of the first service, after what sets the system up.
const earlyPID, firstPID = 300, 600

// Boot switches the machine on and returns when its default target has been reached.
func (m *Machine) Boot() {
	m.mu.Lock()
	if m.on || m.busy {
		m.mu.Unlock()
		return
	}
	m.busy = true
	m.bootID = m.w.UUID("boot/" + m.name)
	m.bootedAt = time.Now()
	hooks := m.power
	m.mu.Unlock()
	if b, err := m.Files(kernel.Root).ReadFile("/etc/hostname"); err == nil {
		if n := strings.TrimSpace(string(b)); n != "" {
			m.host.SetName(n)
		}
	}
	m.modules.clear()
	m.sysctl.boot()
	m.host.SetCPU(0)
	m.modules.boot()
	m.swapOnBoot()
	for _, f := range hooks {
		f(true)
	}
	m.mu.Lock()
	m.on, m.busy = true, false
	m.mu.Unlock()
	m.journal.Begin(strings.ReplaceAll(m.BootID(), "-", ""))
	m.host.Processes.Restart(1)
	m.startInit(time.Time{})
	m.systemd.Boot()
}

// startInit starts process 1, which everything else on the machine descends from.
func (m *Machine) startInit(started time.Time) {
	init := m.host.Processes.Start(kernel.Spec{Argv: []string{"/sbin/init"}, Files: m.Files(kernel.Root), Net: m.Network(), PID: 1, Started: started, Env: []string{"PATH=" + DefaultPath}}, func(p *kernel.Process) int {
		<-p.Context().Done()
		return 0
	})
	init.Notify(kernel.SIGTERM, func() {}) // systemd re-executes itself; nothing of it shows
	init.Notify(kernel.SIGINT, func() { m.Reboot() })
	init.Notify(kernel.SIGHUP, func() { m.systemd.Reload(nil) })
	m.host.Processes.SetNext(earlyPID)
	m.mu.Lock()
	m.init = init
	m.mu.Unlock()
	m.systemd.Run(init)
}

// plan is a change of power that is under way or scheduled. It is part of a freeze.
type plan struct {
	Kind  string // reboot, poweroff or halt
	Stage stage
	At    time.Time // of the stage

	dropped chan struct{} // closed when it is not the machine's plan any more
}

type stage int

const (
	scheduled stage = iota // shutdown begins at At
	stopping               // services are being stopped
	off                    // the machine boots at At
)

// Reboot shuts the machine down and boots it again, in the background.
func (m *Machine) Reboot() { m.Schedule("reboot", time.Now()) }

// PowerOff shuts the machine down, in the background.
func (m *Machine) PowerOff() { m.Schedule("poweroff", time.Now()) }

// Schedule shuts the machine down at a time, for a "reboot", a "poweroff" or a "halt". It takes the place of what was
// scheduled before.
func (m *Machine) Schedule(kind string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on || m.busy {
		return
	}
	m.carryOut(&plan{Kind: kind, Stage: scheduled, At: at})
}

// ComingBack says that the machine goes down only to be booted again, or is being booted.
func (m *Machine) ComingBack() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.plan; p != nil && (p.Stage != scheduled || !p.At.After(time.Now())) {
		return p.Kind == "reboot"
	}
	return m.busy || m.on && m.systemd.Booting()
}

// TakeAlong keeps the program that had the machine switched off: at a terminal its user gets no other prompt.
func (m *Machine) TakeAlong(p *kernel.Process) {
	if p.TTY != nil {
		<-p.Context().Done()
	}
}

// CancelShutdown calls off a shutdown that is scheduled and has not begun.
func (m *Machine) CancelShutdown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plan != nil && m.plan.Stage == scheduled {
		m.drop()
	}
}

// drop gives up the machine's plan. Callers hold mu.
func (m *Machine) drop() {
	if m.plan != nil && m.plan.dropped != nil {
		close(m.plan.dropped)
	}
	m.plan = nil
}

// carryOut makes a plan the machine's, and pursues it in the background. Callers hold mu.
func (m *Machine) carryOut(p *plan) {
	if m.plan != p {
		m.drop()
	}
	m.plan, p.dropped = p, make(chan struct{})
	m.busy = p.Stage != scheduled
	kernel.Outside(func() { m.pursue(p) })
}

// pursue carries a plan out from its stage on.
func (m *Machine) pursue(p *plan) {
	enter := func(s stage, at time.Time) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.plan != p {
			return false
		}
		p.Stage, p.At, m.busy = s, at, true
		return true
	}
	wait := func(at time.Time) {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.dropped:
		}
	}
	if p.Stage == scheduled {
		wait(p.At)
		if !enter(stopping, time.Now()) {
			return
		}
	}
	if p.Stage == stopping {
		m.systemd.Shutdown()
		wait(time.Now().Add(haltDelay))
		m.mu.Lock()
		mine := m.plan == p
		m.mu.Unlock()
		if !mine {
			return // the power was cut
		}
		m.cut()
		if p.Kind != "reboot" {
			m.mu.Lock()
			m.drop()
			m.mu.Unlock()
			return
		}
		if !enter(off, time.Now().Add(bootDelay)) {
			return
		}
	}
	wait(p.At)
	m.mu.Lock()
	if m.plan != p {
		m.mu.Unlock()
		return
	}
	m.drop()
	m.busy = false
	m.mu.Unlock()
	m.Boot()
}

// Crash takes the power away at once: nothing is stopped in order.
func (m *Machine) Crash() {
	m.mu.Lock()
	m.drop()
	if !m.on {
		m.busy = false
		m.mu.Unlock()
		return
	}
	m.busy = true
	m.mu.Unlock()
	m.cut()
}

// Reset crashes the machine and boots it again, in the background.
func (m *Machine) Reset() {
	m.Crash()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.carryOut(&plan{Kind: "reboot", Stage: off, At: time.Now().Add(bootDelay)})
}

func (m *Machine) cut() {
	m.mu.Lock()
	m.on = false
	hooks := m.power
	m.mu.Unlock()
	m.mu.Lock()
	init := m.init
	m.init = nil
	m.mu.Unlock()
	// init goes first: it must not see the others end, and tell of it
	if init != nil {
		init.Signal(kernel.SIGKILL)
	}
	for _, p := range m.host.Processes.List() {
		p.Signal(kernel.SIGKILL)
	}
	for _, f := range hooks {
		f(false)
	}
	m.systemd.Halt()
	m.clearRun()
	m.mu.Lock()
	m.busy = false
	m.mu.Unlock()
}

// Resume starts, after a thaw, what was running: init and the units' main processes, silently and under their old numbers.
func (m *Machine) Resume() error {
	m.mu.Lock()
	on, booted := m.on, m.bootedAt
	if m.plan != nil {
		// only when what is on is on again
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.carryOut(m.plan)
		}()
	}
	m.mu.Unlock()
	if !on {
		return nil
	}
	next := m.host.Processes.Next()
	m.startInit(booted)
	m.host.Processes.SetNext(next)
	return m.systemd.Resume()
}
