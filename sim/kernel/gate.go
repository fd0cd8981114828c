package kernel

import (
	"time"
)

// Gate is the one place where the world waits for the outside. Whatever comes in (the passing of the host's time, a line
// that was typed, a request from a socket, "the editor has finished") comes through it, one after the other.
//
// The channel is made outside of the bubble, so while the gate waits on it, simulated time stands still. A tick is handed
// to the world by sleeping it; everything else by a function that must not wait for the outside again.
type Gate struct {
	in chan any
}

// NewGate makes a gate. It is called outside of the bubble.
func NewGate() *Gate { return &Gate{in: make(chan any, 64)} }

type tick time.Duration

// Tick lets d of simulated time pass, when everything before it has been handled. It is called from outside.
func (g *Gate) Tick(d time.Duration) { g.in <- tick(d) }

// Do has f called in the bubble, by the gate's goroutine. It is called from outside.
func (g *Gate) Do(f func()) { g.in <- f }

// Close ends [Gate.Serve] once everything before it has been handled.
func (g *Gate) Close() { close(g.in) }

// Serve handles what comes in until the gate is closed. It is called inside the bubble.
func (g *Gate) Serve() {
	for m := range g.in {
		switch m := m.(type) {
		case tick:
			time.Sleep(time.Duration(m))
		case func():
			m()
		}
	}
}
