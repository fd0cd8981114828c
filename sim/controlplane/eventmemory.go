package controlplane

import (
	"fmt"
	"slices"
	"sync"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// eventMemories holds what the running controller managers and schedulers have recorded: their clients may not list events.
type eventMemories struct {
	mu sync.Mutex
	// living are those of processes that run, thawed those of instances that have not carried on yet.
	living map[string]livingMemory
	thawed map[string]*apiclient.EventMemory
}

type livingMemory struct {
	p      *kernel.Process
	memory *apiclient.EventMemory
}

const eventMemoriesHolder = "recorders"

func holdEventMemories(w *kernel.World) *eventMemories {
	e := &eventMemories{living: map[string]livingMemory{}, thawed: map[string]*apiclient.EventMemory{}}
	w.Hold(eventMemoriesHolder, e)
	return e
}

// Freeze implements kernel.Holder.
func (e *eventMemories) Freeze(s *kernel.Snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []string
	for id, l := range e.living {
		if l.p.Alive() {
			ids = append(ids, id)
		} else {
			delete(e.living, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		s.Put(id, 0, e.living[id].memory.Freeze)
	}
}

// Thaw implements kernel.Holder.
func (e *eventMemories) Thaw(parts kernel.Parts) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, b := range parts {
		m := &apiclient.EventMemory{}
		if err := m.Thaw(b); err != nil {
			return fmt.Errorf("what %s recorded: %w", id, err)
		}
		e.thawed[id] = m
	}
	return nil
}

type eventMemoryKey struct{}

// give lets a process remember what it records, and one that carries on what it had recorded.
func (e *eventMemories) give(p *kernel.Process) {
	id := instanceID(p)
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.thawed[id]
	delete(e.thawed, id)
	if m == nil || !p.Resumed() {
		m = &apiclient.EventMemory{}
	}
	e.living[id] = livingMemory{p, m}
	p.SetValue(eventMemoryKey{}, m)
}

// eventMemory is what a process has recorded; nil if nobody holds it.
func eventMemory(p *kernel.Process) *apiclient.EventMemory {
	m, _ := p.Value(eventMemoryKey{}).(*apiclient.EventMemory)
	return m
}
