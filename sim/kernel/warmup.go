package kernel

import (
	"context"
	"time"
)

// A thawed world begins some seconds before the date that it was frozen at. In this warm-up servers begin to listen, caches
// fill and controllers start, so that at the date all is as it was. What was done by the date has been done: nothing may be
// done again, nor anything new.

// WarmUp says that what happens before a date is the warm-up of a thawed world. It is called before anything runs.
func (w *World) WarmUp(date time.Time) { w.warmUntil = date }

// turnStep is no round number, so that turns do not meet the programs' own delays.
const turnStep = 1037 * time.Microsecond

// waitTurn lets a resumed process connect to others one after the other, in the order in which they were resumed, while all
// of them build themselves up, and listen, in the first instant of the warm-up. Whether one listens before another asks must not
// be a matter of which goroutine runs first.
func (p *Process) waitTurn(ctx context.Context) error {
	if !p.resumed || !p.World().Warming() {
		return nil
	}
	return SleepContext(ctx, time.Until(p.turn))
}

// Warming says whether the world has not come to the date yet that it was frozen at.
func (w *World) Warming() bool { return time.Now().Before(w.warmUntil) }

// AwaitDate waits until the warm-up of a thawed world is over. It returns an error when the process ends meanwhile.
func (p *Process) AwaitDate() error {
	if !p.World().Warming() {
		return nil
	}
	return p.Sleep(time.Until(p.World().warmUntil))
}

// Replaying says whether the calling goroutine's process only makes up for what it had done before the world was frozen: it lags, see
// [Process.Lag], or the world warms up. What it says and changes has been said and changed.
func Replaying() bool {
	p := Current()
	return p != nil && p != gone && (p.Lag() > 0 || p.World().Warming())
}
