package kernel

import "sync"

// Host is one machine as its processes see it: a name, a table of processes, and what other rooms attached to it
// (its systemd, its containerd, its network).
type Host struct {
	World     *World
	Processes *Table

	cpu *CPUMeter

	mu       sync.Mutex
	name     string
	attached map[any]any
}

// NewHost makes a host without processes.
func (w *World) NewHost(name string) *Host {
	h := &Host{World: w, name: name, attached: map[any]any{}, cpu: NewCPUMeter(w, 0)}
	h.Processes = &Table{host: h, next: 1, all: map[int]*Process{}}
	return h
}

// Name is the machine's host name.
func (h *Host) Name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.name
}

// SetName changes the host name, as hostnamectl does.
func (h *Host) SetName(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.name = name
}

// Attach gives the host something that a program on it finds again with [Host.Attached]. Keys are values of a type that
// the attaching package owns.
func (h *Host) Attach(key, value any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attached[key] = value
}

// Attached returns what was attached under key, or nil.
func (h *Host) Attached(key any) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attached[key]
}
