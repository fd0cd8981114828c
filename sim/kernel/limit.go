package kernel

import (
	"fmt"
	"time"
)

// Limit says how long something that somebody waits for may run; 0 is without limit.
type Limit struct {
	Simulated time.Duration
	// Host is in the host's time: a script can keep the simulation busy for hours in which little simulated time passes.
	Host time.Duration
}

// Watch calls over, once, in a goroutine that belongs to no process, when the process has run for longer than the limit
// allows. The text says which limit that was. It is called in the bubble.
func (l Limit) Watch(p *Process, over func(why string)) {
	if l == (Limit{}) {
		return
	}
	began, began2 := time.Now(), Wall()
	Outside(func() {
		for {
			d := time.Second
			if l.Simulated > 0 {
				d = min(d, time.Until(began.Add(l.Simulated)))
			}
			select {
			case <-p.Done():
				return
			case <-time.After(d):
			}
			switch {
			case l.Simulated > 0 && time.Since(began) >= l.Simulated:
				over(fmt.Sprintf("it did not end within %v of simulated time", l.Simulated))
				return
			case l.Host > 0 && WallSince(began2) >= l.Host:
				over(fmt.Sprintf("it kept the simulation busy for more than %v, in which %v of simulated time passed", l.Host, time.Since(began).Round(time.Millisecond)))
				return
			}
		}
	})
}

// KillDescendants kills what p has started, and what these have, until there is nothing left: while some are killed, others
// may start more, also one that is dead and has not noticed yet. Only a listing that is empty after simulated time has
// passed, for which everybody must have come to rest, is the last. It takes a few simulated milliseconds.
func (t *Table) KillDescendants(p *Process) {
	rested := false
	for range 100 {
		l := t.Descendants(p)
		if len(l) == 0 && rested {
			return
		}
		for _, q := range l {
			q.Signal(SIGKILL)
		}
		time.Sleep(time.Millisecond)
		rested = true
	}
}

// Descendants are the processes of the table that p has started, and those that these have started, in the order of their
// numbers.
func (t *Table) Descendants(p *Process) []*Process {
	var l []*Process
	for _, q := range t.List() {
		for up := q.Parent; up != nil; up = up.Parent {
			if up == p {
				l = append(l, q)
				break
			}
		}
	}
	return l
}
