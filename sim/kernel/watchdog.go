package kernel

import (
	"bytes"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"sync/atomic"
	"time"
)

// Watchdog notices that the world neither waits at its gate nor moves on. It lives outside of the bubble.
type Watchdog struct {
	busy    atomic.Int64 // host time at which the gate handed something in, 0 while it waits
	beat    atomic.Int64 // grows whenever simulated time moves on
	limit   time.Duration
	report  func(string)
	stopped chan struct{}
}

// NewWatchdog calls report, at most once per stall, when the world has been busy for limit of host time and simulated time
// has not moved in it. It is called outside of the bubble.
func NewWatchdog(limit time.Duration, report func(string)) *Watchdog {
	d := &Watchdog{limit: limit, report: report, stopped: make(chan struct{})}
	go d.run()
	return d
}

func (d *Watchdog) run() {
	last, since, told := int64(-1), Wall(), false
	for {
		select {
		case <-d.stopped:
			return
		case <-time.After(d.limit / 8):
		}
		if d.busy.Load() == 0 {
			since, told = Wall(), false
			continue
		}
		if b := d.beat.Load(); b != last {
			last, since, told = b, Wall(), false
			continue
		}
		if !told && WallSince(since) > d.limit {
			told = true
			d.report("simulated time has stood still for " + d.limit.String() + "; what holds it:\n" + Holding())
		}
	}
}

// Busy says that the gate has handed something in (true) or waits again (false).
func (d *Watchdog) Busy(b bool) {
	if b {
		d.busy.Store(Wall())
	} else {
		d.busy.Store(0)
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
