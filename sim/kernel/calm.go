package kernel

import "time"

// What a program has asked a server to change is not data yet, nor is what it will do upon the answer (record an event, count
// a failure): a freeze between the two would lose it. So a world is frozen in a calm, if one comes soon.

// calmLimit is how long a world waits for a calm before it is frozen, and calmStep how often it looks: a program reacts to an
// answer in less.
const (
	calmLimit = 100 * time.Millisecond
	calmStep  = 2 * time.Millisecond
)

// Changing says that a change is under way in the world until the function that it returns is called.
func (w *World) Changing() (done func()) {
	w.changes.Add(1)
	return func() { w.changes.Add(-1) }
}

// AwaitCalm waits until no change is under way, but not for long where there is always one.
func (w *World) AwaitCalm() {
	for end := time.Now().Add(calmLimit); time.Now().Before(end); {
		time.Sleep(calmStep)
		if w.changes.Load() == 0 {
			return
		}
	}
}
