package kernel

import "time"

// Gate is the one place where the world waits for the outside. Whatever comes in (the passing of the host's time, a line
// that was typed, a request from a socket, "the editor has finished") comes through it, one after the other.
//
// Its channel is made outside of the bubble, so while the gate waits on it, simulated time stands still. A tick is handed
// to the world by sleeping it; everything else by a function that must not wait for the outside again.
type Gate struct {
	in      chan any
	pending []pending
	dog     *Watchdog
	quit    bool
	kick    chan struct{} // made inside
}

type pending struct {
	done <-chan struct{}
	flow func() bool
	then func()
}

// NewGate makes a gate, which tells the watchdog, if any, when it waits. It is called outside of the bubble.
func NewGate(dog *Watchdog) *Gate { return &Gate{in: make(chan any, 64), dog: dog} }

type tick struct {
	d    time.Duration
	over chan struct{}
}

// Tick lets d of simulated time pass, when everything before it has been handled, and returns when it has passed: were ticks to
// queue where the world is slow, whatever else comes in would have to wait for all of them. It is called from outside.
func (g *Gate) Tick(d time.Duration) {
	t := tick{d, make(chan struct{})}
	g.in <- t
	<-t.over
}

// Do has f called in the bubble, by the gate's goroutine. It is called from outside.
func (g *Gate) Do(f func()) { g.in <- f }

// Close ends [Gate.Serve] once everything before it has been handled.
func (g *Gate) Close() { close(g.in) }

// When has then called by the gate's goroutine after done is closed. While flow returns true, simulated time runs freely
// until then (it jumps from timer to timer); else it moves only by ticks. It is called by the gate's goroutine.
func (g *Gate) When(done <-chan struct{}, flow func() bool, then func()) {
	g.pending = append(g.pending, pending{done, flow, then})
}

// Quit ends [Gate.Serve]. It is called by the gate's goroutine.
func (g *Gate) Quit() { g.quit = true }

// Kick makes the gate look at once whether something it waits for is done, before time moves on. It is called inside the
// bubble, by any goroutine.
func (g *Gate) Kick() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// Freely is the flow that always lets time run.
func Freely() bool { return true }

// flowSlice is how much simulated time may fly by before the gate looks whether something has come in.
const flowSlice = time.Second

// Serve handles what comes in until the gate is closed. It is called inside the bubble.
func (g *Gate) Serve() {
	g.kick = make(chan struct{}, 1)
	g.busy(true)
	defer g.busy(false)
	for {
		// What was handed in last may be done without any time passing.
		Settle()
		g.finish()
		if g.quit {
			return
		}
		if flowing := g.flowing(); flowing != nil {
			t := time.NewTimer(flowSlice)
			select {
			case <-flowing:
			case <-g.kick:
			case <-t.C:
			}
			t.Stop()
			select {
			case m, ok := <-g.in:
				if !ok {
					return
				}
				g.handle(m)
			default:
			}
			continue
		}
		g.busy(false)
		m, ok := <-g.in
		if !ok {
			return
		}
		g.busy(true)
		g.handle(m)
	}
}

func (g *Gate) busy(b bool) {
	if g.dog != nil {
		g.dog.Busy(b)
	}
}

func (g *Gate) handle(m any) {
	switch m := m.(type) {
	case tick:
		time.Sleep(m.d)
		close(m.over)
	case func():
		m()
	}
}

func (g *Gate) flowing() <-chan struct{} {
	for _, p := range g.pending {
		if p.flow() {
			return p.done
		}
	}
	return nil
}

// finish calls what has become due.
func (g *Gate) finish() {
	for i := 0; i < len(g.pending); i++ {
		p := g.pending[i]
		select {
		case <-p.done:
			g.pending = append(g.pending[:i], g.pending[i+1:]...)
			i--
			p.then()
		default:
		}
	}
}
