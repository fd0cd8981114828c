package worker

import (
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// pacer turns the host's time into ticks of simulated time. It lives outside of the bubble.
type pacer struct {
	gate *kernel.Gate
	mu   outsideLock
	pace wire.Pace
	kick chan struct{}
}

const (
	// tickPeriod is how fine simulated time follows the host's.
	tickPeriod = 10 * time.Millisecond
	// maxTick bounds a tick: a laptop that was suspended, or a world that could not keep up, was paused.
	maxTick = 250 * time.Millisecond
	// slice is how much simulated time passes at once where it runs faster than the host's: between two slices the world hears
	// of what has come in.
	slice = 100 * time.Millisecond
)

func newPacer(g *kernel.Gate) *pacer {
	p := &pacer{gate: g, mu: newOutsideLock(), pace: wire.Pace{Paused: true}, kick: make(chan struct{}, 1)}
	go p.run()
	return p
}

func (p *pacer) set(pace wire.Pace) {
	p.mu.Lock()
	p.pace = pace
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *pacer) run() {
	last := kernel.Wall()
	for {
		p.mu.Lock()
		pace := p.pace
		p.mu.Unlock()
		if pace.Paused || pace.Speed == 0 {
			<-p.kick
			last = kernel.Wall()
			continue
		}
		time.Sleep(tickPeriod)
		passed := min(kernel.WallSince(last), maxTick)
		last = kernel.Wall()
		for d := time.Duration(float64(passed) * pace.Speed); d > 0; d -= slice {
			p.gate.Tick(min(d, slice))
		}
	}
}
