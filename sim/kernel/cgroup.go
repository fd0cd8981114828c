package kernel

import "time"

// Cgroup is whoever accounts for the memory and processor time of a process and what it starts: a container's. It may kill
// the process.
type Cgroup interface {
	// Charge is told how many bytes the process holds now, 0 when it has ended.
	Charge(p *Process, bytes int64)
	// Spend is told that the process wants to use processor time, and returns how much of it it gets.
	Spend(p *Process, d time.Duration) time.Duration
	// Steady is told that the processors that the process uses all the time have become more or fewer.
	Steady(p *Process, cores float64)
}

// SpendCPU says that the process uses processor time, and returns how much of it its cgroup's quota grants. It does not wait:
// who computes for d sleeps for d as well, and longer when less is granted. What a thawed process only makes up for has been
// counted before.
func (p *Process) SpendCPU(d time.Duration) (granted time.Duration) {
	if p.Lag() > 0 || p.World().Warming() {
		return d
	}
	if p.Cgroup != nil {
		d = p.Cgroup.Spend(p, d)
	}
	p.mu.Lock()
	p.cpu.Spend(d)
	p.mu.Unlock()
	p.host.cpu.Spend(d)
	return d
}

// SetSteady says how many processors the process uses all the time, beside what it spends: what a daemon does when nobody
// asks it for anything.
func (p *Process) SetSteady(cores float64) {
	p.mu.Lock()
	change := cores - p.steady
	p.steady = cores
	p.cpu.Steady(change)
	p.mu.Unlock()
	if change == 0 {
		return
	}
	p.host.cpu.Steady(change)
	if p.Cgroup != nil {
		p.Cgroup.Steady(p, change)
	}
}

// CPU is the processor time that the process has used so far, as it said itself.
func (p *Process) CPU() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cpu.Total()
}

// SetMemory says how many bytes of memory the process holds now. Where that is more than its cgroup allows, the process
// is killed, as Linux's out-of-memory killer would do.
func (p *Process) SetMemory(bytes int64) {
	p.mu.Lock()
	p.memory = bytes
	p.mu.Unlock()
	if p.Cgroup != nil {
		p.Cgroup.Charge(p, bytes)
	}
}

// Memory is what the process last said that it holds, in bytes.
func (p *Process) Memory() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
}

// pidNamespace numbers the processes of a container as they see themselves.
type pidNamespace struct{ last int }

// joinNamespaces puts a process into its parent's container, cgroup and pid namespace. The table is locked.
func (p *Process) joinNamespaces() {
	parent := p.Spec.Parent
	if parent != nil {
		if p.Unit == "" {
			p.Unit = parent.Unit
		}
		if p.Container == "" {
			p.Container = parent.Container
		}
		if p.Cgroup == nil {
			p.Cgroup = parent.Cgroup
		}
		p.pidns = parent.pidns
	}
	switch {
	case p.NamespacePID == 1:
		p.pidns = &pidNamespace{last: 1}
	case p.NamespacePID == 0 && p.pidns != nil:
		p.pidns.last++
		p.NamespacePID = p.pidns.last
	}
}
