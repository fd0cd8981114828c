package kernel

import (
	"bytes"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Watchdog notices that the world neither waits at its gate nor moves on. It lives outside of the bubble.
type Watchdog struct {
	busy    atomic.Int64 // host time at which the gate handed something in, 0 while it waits
	beat    atomic.Int64 // grows whenever simulated time moves on
	stopped chan struct{}
}

// Stall is how long simulated time has stood still although the world is busy: in the host's time, and in processor time
// that this host process has used meanwhile. The second says more where the host is busy with other things.
type Stall struct{ Wall, CPU time.Duration }

// NewWatchdog calls look every period of host time with how long simulated time has stood still; a zero Stall says that it
// moves, or that the world waits for the outside. It is called outside of the bubble.
func NewWatchdog(period time.Duration, look func(Stall)) *Watchdog {
	d := &Watchdog{stopped: make(chan struct{})}
	go d.run(period, look)
	return d
}

func (d *Watchdog) run(period time.Duration, look func(Stall)) {
	last, since, cpu := int64(-1), Wall(), processorTime()
	for {
		select {
		case <-d.stopped:
			return
		case <-time.After(period):
		}
		b := d.beat.Load()
		if d.busy.Load() == 0 || b != last {
			last, since, cpu = b, Wall(), processorTime()
			look(Stall{})
			continue
		}
		look(Stall{WallSince(since), processorTime() - cpu})
	}
}

// Busy says that the gate has handed something in (true) or waits again (false).
func (d *Watchdog) Busy(b bool) {
	if b {
		d.busy.Store(Wall())
	} else {
		d.busy.Store(0)
		d.beat.Add(1) // however short the wait is
	}
}

// Watch makes simulated time visible to the watchdog. It is called inside the bubble.
func (d *Watchdog) Watch() {
	Outside(func() {
		for {
			time.Sleep(100 * time.Millisecond)
			d.beat.Add(1)
		}
	})
}

// Stop ends the watchdog.
func (d *Watchdog) Stop() { close(d.stopped) }

// Stacks is the stack of every goroutine of the host process, as far as 256 MiB hold them.
func Stacks() []byte {
	buf := make([]byte, 4<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= 256<<20 {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}

var headline = regexp.MustCompile(`^goroutine \d+ .*synctest bubble \d+`)

// label is how a traceback shows the label of a process's goroutines, where GODEBUG holds tracebacklabels=1.
var label = regexp.MustCompile(`labels:\{"?process"?: ("(?:[^"\\]|\\.)*")`)

// Holders are the processes whose goroutines hold time, in the order of their names. The host process must have been
// started with tracebacklabels=1 in GODEBUG, or there are none.
func Holders() []*Process {
	names := map[string]bool{}
	for _, g := range bytes.Split(Stacks(), []byte("\n\n")) {
		head, _, _ := strings.Cut(string(g), "\n")
		if !headline.MatchString(head) || strings.Contains(head, "(durable)") {
			continue
		}
		if m := label.FindStringSubmatch(head); m != nil {
			if name, err := strconv.Unquote(m[1]); err == nil {
				names[name] = true
			}
		}
	}
	var l []*Process
	labels.Range(func(_, v any) bool {
		if p := v.(*Process); p != gone && names[p.labelName] && p.Alive() {
			l = append(l, p)
		}
		return true
	})
	sort.Slice(l, func(i, j int) bool { return l[i].labelName < l[j].labelName })
	return l
}

// Holding lists the goroutines of the bubble that hold time: those that run, or wait for something that the bubble cannot
// end, each with its innermost frames. Equal ones are counted.
func Holding() string {
	count := map[string]int{}
	for _, g := range bytes.Split(Stacks(), []byte("\n\n")) {
		head, rest, _ := strings.Cut(string(g), "\n")
		if !headline.MatchString(head) || strings.Contains(head, "(durable)") {
			continue
		}
		state := head[strings.IndexByte(head, '[')+1:]
		lines := strings.Split(rest, "\n")
		if len(lines) > 12 {
			lines = lines[:12]
		}
		for i := range lines {
			if j := strings.LastIndex(lines[i], "("); j > 0 && !strings.HasPrefix(lines[i], "\t") {
				lines[i] = lines[i][:j]
			}
		}
		count["["+strings.TrimSuffix(state, ":")+"\n"+strings.Join(lines, "\n")]++
	}
	var l []string
	for s := range count {
		l = append(l, s)
	}
	sort.Slice(l, func(i, j int) bool { return count[l[i]] > count[l[j]] || count[l[i]] == count[l[j]] && l[i] < l[j] })
	return strings.Join(l, "\n\n")
}
