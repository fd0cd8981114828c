package kernel

import (
	"context"
	"runtime/pprof"
	"sync"
	"unsafe"
)

//go:linkname getProfLabel runtime/pprof.runtime_getProfLabel
func getProfLabel() unsafe.Pointer

//go:linkname setProfLabel runtime/pprof.runtime_setProfLabel
func setProfLabel(unsafe.Pointer)

// Goroutines inherit their profiler label from the one that started them, so a label's address names the process that a
// goroutine belongs to, also deep in upstream's code. Timer callbacks carry none; see [World.RouteLog].
var labels sync.Map // unsafe.Pointer -> *Process

// Current is the process that the calling goroutine belongs to, nil if none.
func Current() *Process {
	l := getProfLabel()
	if l == nil {
		return nil
	}
	if p, ok := labels.Load(l); ok {
		return p.(*Process)
	}
	return nil
}

// labelled runs f on this goroutine as part of the process, and gives the goroutine its old label back.
func (p *Process) labelled(f func()) {
	old := getProfLabel()
	defer setProfLabel(old)
	setProfLabel(p.label)
	f()
}

// gone stands in the table of labels for every process that has ended, so that what it leaves behind stays mute.
var gone = func() *Process {
	p := &Process{done: make(chan struct{})}
	p.dead.Store(true)
	return p
}()

// newLabel makes a label and returns its address, which the table of labels keeps alive.
func newLabel(p *Process, name string) unsafe.Pointer {
	old := getProfLabel()
	defer setProfLabel(old)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("process", name)))
	l := getProfLabel()
	labels.Store(l, p)
	return l
}

// Outside runs f in a goroutine that belongs to no process, for the world's own bookkeeping.
func Outside(f func()) {
	go func() {
		setProfLabel(nil)
		f()
	}()
}

type processSet struct {
	mu  sync.Mutex
	all map[*Process]bool
}

func (s *processSet) add(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[p] = true
}

func (s *processSet) remove(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, p)
}
