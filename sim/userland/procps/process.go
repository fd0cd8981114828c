package procps

import (
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// process is one process as the caller's pid namespace shows it.
type process struct {
	*kernel.Process
	pid, ppid int
	user      string
	now       time.Time
}

func processes(c *libc.Prog) []process {
	names := libc.NewNames(c.Files)
	now := time.Now()
	var l []process
	for _, q := range bash.VisibleProcesses(c.Process) {
		p := process{Process: q, pid: bash.PIDSeenBy(c.Process, q), user: names.User(q.Cred.UID), now: now}
		switch parent := q.Spec.Parent; {
		case p.pid == 1:
		case parent != nil && parent.Alive() && (c.NamespacePID == 0 || parent.Container == c.Container):
			p.ppid = bash.PIDSeenBy(c.Process, parent)
		case c.NamespacePID == 0:
			p.ppid = 1 // init has adopted it
		}
		l = append(l, p)
	}
	return l
}

// command is what ps shows as the command with its arguments.
func (p process) command() string { return strings.Join(p.CommandLine(), " ") }

func (p process) elapsed() time.Duration { return max(0, p.now.Sub(p.Started)) }

func (p process) tty() string {
	if p.TTY != nil {
		return "pts/0"
	}
	return "?"
}

// state is the letters of ps's STAT: only who asks runs, all others wait.
func (p process) state(c *libc.Prog) string {
	s := "S"
	if p.Process == c.Process {
		s = "R"
	}
	leader := p.pid == 1 || p.Spec.Parent == nil || p.Spec.Parent.ID() == 1
	if leader {
		s += "s"
	}
	if p.TTY != nil && !leader {
		s += "+"
	}
	return s
}

// clock is a processor time as hours, minutes and seconds.
func clock(d time.Duration) string {
	n := int(d / time.Second)
	if n >= 86400 {
		return strconv.Itoa(n/86400) + "-" + clockOfDay(n%86400)
	}
	return clockOfDay(n)
}

func clockOfDay(n int) string {
	two := func(k int) string {
		if k < 10 {
			return "0" + strconv.Itoa(k)
		}
		return strconv.Itoa(k)
	}
	return two(n/3600) + ":" + two(n/60%60) + ":" + two(n%60)
}

// elapsedClock is ps -o etime.
func elapsedClock(d time.Duration) string {
	s := clock(d)
	if d < time.Hour {
		return strings.TrimPrefix(s, "00:")
	}
	return s
}

// shortClock is the TIME of ps aux: minutes and seconds.
func shortClock(d time.Duration) string {
	n := int(d / time.Second)
	s := strconv.Itoa(n / 60)
	if n%60 < 10 {
		return s + ":0" + strconv.Itoa(n%60)
	}
	return s + ":" + strconv.Itoa(n%60)
}

func (p process) started() string {
	if p.now.Sub(p.Started) < 24*time.Hour && p.Started.YearDay() == p.now.YearDay() {
		return p.Started.UTC().Format("15:04")
	}
	if p.Started.Year() == p.now.Year() {
		return p.Started.UTC().Format("Jan02")
	}
	return p.Started.UTC().Format("2006")
}

// machineMemory is the machine's memory in bytes.
func machineMemory(c *libc.Prog) int64 {
	if m := machine.Of(c.Host()); m != nil {
		return m.Options().Memory
	}
	return 2 << 30
}

func (p process) cpuShare() float64 {
	if p.elapsed() <= 0 {
		return 0
	}
	return 100 * float64(p.CPU()) / float64(p.elapsed())
}
