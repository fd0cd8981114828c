package bash

import (
	"fmt"
	"sync"
	"time"

	"ckadrill/sim/kernel"
)

// What an untrusted script may use. The real limits are memory and RLIMIT_NPROC; these keep one script from taking the
// whole world down with it.
const (
	maxValue     = 4 << 20 // bytes in a variable, an expansion or the output of a command substitution
	maxElements  = 200_000 // elements of an array, fields of a command
	maxDepth     = 1000    // nested functions, sources, evals and substitutions
	maxProcesses = 1500    // shells and commands of one user on one machine
	maxHistory   = 1000    // HISTSIZE of Ubuntu's .bashrc
	stepCost     = 20 * time.Microsecond
	stepQuantum  = time.Millisecond
	throttled    = 10 * time.Millisecond // how long a quota of processor time that is used up is waited for at once
)

// outOfMemory is what bash says when an allocation fails; it then exits.
func (sh *Shell) outOfMemory(n int) error {
	return fatalError{fmt.Sprintf("xrealloc: cannot allocate %d bytes", n)}
}

// step accounts for the simulated CPU time of one step and reports whether the shell may go on. Costs are slept in lumps:
// an endless loop then takes simulated time as a real one takes real time, and the world goes on around it.
func (sh *Shell) step() bool {
	if !sh.p.Alive() {
		sh.flow = flowExit
		return false
	}
	sh.cost += stepCost
	if sh.cost >= stepQuantum {
		sh.pay()
	}
	return sh.flow == flowNone
}

func (sh *Shell) pay() {
	sh.p.Sleep(sh.p.ConsumeLag(sh.cost))
	for left := sh.cost - sh.p.SpendCPU(sh.cost); left > 0; left -= sh.p.SpendCPU(left) {
		if sh.p.Sleep(throttled) != nil {
			break
		}
	}
	sh.cost = 0
}

// forks counts the shells and commands of each user on a machine, as RLIMIT_NPROC does.
type forks struct {
	mu    sync.Mutex
	count map[int]int
}

type forksKey struct{}

func forksOf(h *kernel.Host) *forks {
	if f, ok := h.Attached(forksKey{}).(*forks); ok {
		return f
	}
	f := &forks{count: map[int]int{}}
	h.Attach(forksKey{}, f)
	return f
}

// fork takes a place in the user's process limit. Where there is none it retries as bash does, and at last gives up.
func (sh *Shell) fork() (release func(), ok bool) {
	f, uid := forksOf(sh.p.Host()), sh.p.Cred.UID
	take := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.count[uid] >= maxProcesses {
			return false
		}
		f.count[uid]++
		return true
	}
	for wait := time.Second; !take(); wait *= 2 {
		if wait > 8*time.Second {
			sh.complain("fork: Resource temporarily unavailable")
			return nil, false
		}
		sh.complain("fork: retry: Resource temporarily unavailable")
		if sh.p.Sleep(sh.p.ConsumeLag(wait)) != nil {
			return nil, false
		}
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.count[uid]--
	}, true
}

// deeper guards against endless recursion.
func (sh *Shell) deeper(what string) (leave func(), ok bool) {
	if sh.depth >= maxDepth {
		sh.complain("%s: maximum function nesting level exceeded (%d)", what, maxDepth)
		sh.status = 1
		sh.flow = flowAbort
		return nil, false
	}
	sh.depth++
	return func() { sh.depth-- }, true
}

func now() time.Time { return time.Now() }
