package machine

import (
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// firstPID is the number of the first process after init's: a kernel's own threads have taken those before it.
const firstPID = 600

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
	m.version = m.w.Version()
	hooks := m.power
	m.mu.Unlock()
	if b, err := m.Files(kernel.Root).ReadFile("/etc/hostname"); err == nil {
		if n := strings.TrimSpace(string(b)); n != "" {
			m.host.SetName(n)
		}
	}
	m.sysctl.boot(m.Files(kernel.Root))
	m.swapOnBoot()
	for _, f := range hooks {
		f(true)
	}
	m.mu.Lock()
	m.on, m.busy = true, false
	m.mu.Unlock()
	m.journal.Begin(strings.ReplaceAll(m.BootID(), "-", ""))
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
	m.host.Processes.SetNext(firstPID)
	m.mu.Lock()
	m.init = init
	m.mu.Unlock()
	m.systemd.Run(init)
}

// Reboot shuts the machine down and boots it again, in the background.
func (m *Machine) Reboot() {
	kernel.Outside(func() {
		if m.down() {
			time.Sleep(bootDelay)
			m.Boot()
		}
	})
}

// PowerOff shuts the machine down, in the background.
func (m *Machine) PowerOff() { kernel.Outside(func() { m.down() }) }

// down stops all services and processes. It returns false when the machine is not up.
func (m *Machine) down() bool {
	m.mu.Lock()
	if !m.on || m.busy {
		m.mu.Unlock()
		return false
	}
	m.busy = true
	m.version = m.w.Version()
	m.mu.Unlock()
	m.systemd.Shutdown()
	time.Sleep(haltDelay)
	m.cut()
	return true
}

// Crash takes the power away at once: nothing is stopped in order.
func (m *Machine) Crash() {
	m.mu.Lock()
	if !m.on {
		m.mu.Unlock()
		return
	}
	m.busy = true
	m.mu.Unlock()
	m.cut()
}

func (m *Machine) cut() {
	m.mu.Lock()
	m.on = false
	hooks := m.power
	m.mu.Unlock()
	for _, p := range m.host.Processes.List() {
		if p.ID() != 1 {
			p.Signal(kernel.SIGKILL)
		}
	}
	m.mu.Lock()
	init := m.init
	m.init = nil
	m.mu.Unlock()
	if init != nil {
		init.Signal(kernel.SIGKILL)
	}
	for _, f := range hooks {
		f(false)
	}
	m.systemd.Halt()
	m.clearRun()
	m.mu.Lock()
	m.busy = false
	m.version = m.w.Version()
	m.mu.Unlock()
}

// Resume starts, after a thaw, what was running: init and the units' main processes, silently and under their old numbers.
func (m *Machine) Resume() error {
	m.mu.Lock()
	on, booted := m.on, m.bootedAt
	m.mu.Unlock()
	if !on {
		return nil
	}
	next := m.host.Processes.Next()
	m.startInit(booted)
	m.host.Processes.SetNext(next)
	return m.systemd.Resume()
}
