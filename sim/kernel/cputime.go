package kernel

import (
	"sync"
	"time"
)

// CPUMeter adds up processor time: what is spent at once, and what is used all the time.
type CPUMeter struct {
	w *World

	mu    sync.Mutex
	spent time.Duration
	cores float64 // used all the time
	since time.Time
}

// NewCPUMeter makes a meter that begins with what has been spent already.
func NewCPUMeter(w *World, spent time.Duration) *CPUMeter {
	return &CPUMeter{w: w, spent: spent, since: w.accounting()}
}

// accounting is the time that processor time is counted by: that of a world's warm-up has been counted before.
func (w *World) accounting() time.Time {
	if w.Warming() {
		return w.warmUntil
	}
	return time.Now()
}

// accrue adds what has been used all the time until now. The lock is held.
func (m *CPUMeter) accrue() {
	now := m.w.accounting()
	m.spent += time.Duration(m.cores * float64(now.Sub(m.since)))
	m.since = now
}

// Spend adds processor time.
func (m *CPUMeter) Spend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent += d
}

// Steady adds to the processors that are used all the time, or takes from them.
func (m *CPUMeter) Steady(cores float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accrue()
	m.cores += cores
}

// Total is all that has been used until now.
func (m *CPUMeter) Total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accrue()
	return m.spent
}

// set begins anew with what has been spent.
func (m *CPUMeter) set(spent time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent, m.since = spent, m.w.accounting()
}

// CPU is the processor time that all processes of the host have used since it was switched on, also those that have ended.
func (h *Host) CPU() time.Duration { return h.cpu.Total() }

// SetCPU begins to count anew, at a boot or with what had been used before a thaw.
func (h *Host) SetCPU(used time.Duration) { h.cpu.set(used) }
