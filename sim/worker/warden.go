package worker

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// warden keeps what runs in the world from holding it for ever, or from taking the host's memory. It lives outside of the
// bubble.
//
// Most programs take simulated time for what they compute, and then nothing is held: they can be interrupted, timed out and
// waited for as real ones can. The warden is for the rest.
type warden struct {
	urgent *kernel.Urgent
	report func(text string)
	fail   func(error)

	// budget is the processor time that a user's command may use while simulated time stands still.
	budget time.Duration

	told            bool
	killedUser, all bool
	// collected is what was live after the last collection that the warden asked for.
	collected uint64
	// starved is set while a command that was stopped for its memory may still hold it.
	starved bool
}

const (
	wardPeriod = 500 * time.Millisecond
	// commandBudget is the processor time that a user's command may use, if the boot message does not say it.
	commandBudget = 10 * time.Second
	// anyBudget is that of any other process: an API server may have a lot to do at one instant.
	anyBudget = 60 * time.Second
	// stallLimit is how long of the host's time simulated time may stand still before the user is told what holds it, and
	// hopeless is when the worker gives up.
	stallLimit = 20 * time.Second
	hopeless   = 3 * time.Minute
	// memoryLimit is what the world may need of the host's memory; see also limitAddressSpace.
	memoryLimit = 3 << 30
	// commandMemory is how much of it may be in use before a user's command that computes is killed, as the kernel's
	// out-of-memory killer would do.
	commandMemory = 1 << 30
)

// grace is how long a process that was killed may go on computing: it has to notice.
func (w *warden) grace() time.Duration { return w.budget }

// look is called every wardPeriod.
func (w *warden) look(s kernel.Stall) {
	w.weigh()
	if s == (kernel.Stall{}) {
		w.told, w.killedUser, w.all = false, false, false
		return
	}
	switch {
	case s.CPU > anyBudget+w.grace() || w.killedUser && s.CPU > w.budget+w.grace() && s.Wall > w.budget+w.grace() && len(kernel.Holders()) == 0:
		w.fail(fmt.Errorf("a program that computed for %v while simulated time stood still could not be stopped", s.CPU.Round(time.Second)))
	case s.Wall > hopeless:
		w.fail(fmt.Errorf("simulated time has stood still for %v", s.Wall.Round(time.Second)))
	case s.CPU > anyBudget && !w.all:
		w.all = true
		w.stop("it computed for "+anyBudget.String()+" of processor time without simulated time passing", func(*kernel.Process) bool { return true })
	case s.CPU > w.budget && !w.killedUser:
		w.killedUser = w.stop("it computed for "+w.budget.String()+" of processor time without simulated time passing", isCommand)
	}
	if s.Wall > stallLimit && !w.told && !w.killedUser {
		w.told = true
		w.report("simulated time has stood still for " + stallLimit.String() + "; what holds it:\n" + kernel.Holding())
	}
}

// weigh looks at the memory that is in use.
func (w *warden) weigh() {
	used := liveMemory()
	if used < commandMemory {
		w.starved = false
	}
	if used < commandMemory || used < w.collected+w.collected/4 {
		return
	}
	runtime.GC()
	w.collected = liveMemory()
	if w.collected <= commandMemory {
		return
	}
	// A fast host takes a command far beyond both limits between two looks: it gets the chance to end.
	if w.collected > memoryLimit && w.starved || !w.stop(fmt.Sprintf("the simulation needed more than %d GiB of memory while it computed", commandMemory>>30), isCommand) && w.collected > memoryLimit {
		w.fail(fmt.Errorf("the simulation needed more than %d GiB of memory", memoryLimit>>30))
	}
	w.starved = true
}

// isCommand says whether a process is a user's command on a machine, and neither a service, nor a container's, nor the
// machine's own: those are no descendants of anybody.
func isCommand(p *kernel.Process) bool {
	return p.Container == "" && !strings.HasSuffix(p.Unit, ".service") && p.Parent != nil
}

// stop kills those of the processes that hold time. It reports whether there were any.
func (w *warden) stop(why string, which func(*kernel.Process) bool) bool {
	any := false
	for _, p := range kernel.Holders() {
		if !which(p) {
			continue
		}
		any = true
		w.urgent.Do(func() {
			p.Errorf("ckadrill: %s was stopped: %s\n", p.Name(), why)
		})
		// A standard error that nobody reads takes no text: give it a moment, and no more.
		time.Sleep(wardPeriod / 10)
		w.urgent.Do(func() { p.Signal(kernel.SIGKILL) })
	}
	return any
}

// liveMemory is what the Go heap and the stacks hold, in bytes.
func liveMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

// maxStack bounds the stack of one goroutine: what recurses without end fails after megabytes, not after gigabytes.
const maxStack = 256 << 20

// limitMemory has the collector work harder near the limit, so that what then counts as used is in use, and asks the
// operating system to refuse what goes far beyond it at once.
func limitMemory() {
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(memoryLimit)
	limitAddressSpace(memoryLimit + 2<<30)
}
