package kernel

import "time"

// A program whose place cannot be kept as data, a shell script above all, is resumed by running it again from its
// beginning. It then lags: it has the time to make up for that it had already run. While it does, everything happens at
// one instant: what it would sleep is taken off its lag first, and its output was written long ago and is dropped (by who
// reads it, a container's log for instance). Whatever waits for something else than time has caught up: as soon as
// simulated time moves on, no process lags any more.

// lag is the time that a process still has to make up for, valid only at the instant of its resumption.
type lag struct {
	left time.Duration
	at   time.Time
}

// startLag is called before the process runs. A child of a process that lags lags as much.
func (p *Process) startLag() {
	now := time.Now()
	switch parent := p.Spec.Parent; {
	case p.resumed:
		p.lag = lag{max(0, now.Sub(p.Started)), now}
	case parent != nil:
		p.lag = lag{parent.Lag(), now}
	}
}

// Lag is how far a resumed process is behind the time at which it was frozen; 0 once it has caught up. A process that is
// not resumed, nor a child of one, never lags.
func (p *Process) Lag() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lagLeft()
}

func (p *Process) lagLeft() time.Duration {
	if p.lag.left > 0 && !time.Now().Equal(p.lag.at) {
		p.lag.left = 0
	}
	return p.lag.left
}

// ConsumeLag takes d, which the process would have slept, off its lag. It returns what is left to be slept really.
func (p *Process) ConsumeLag(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := min(max(0, d), p.lagLeft())
	p.lag.left -= used
	return d - used
}

// joinLag is called when a process has waited for the end of another: time passed for both.
func (p *Process) joinLag(child *Process) {
	left := child.Lag()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag.left = min(p.lagLeft(), left)
}
