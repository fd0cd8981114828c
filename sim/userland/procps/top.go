package procps

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

func htop(c *libc.Prog) int {
	return c.Fail("ckadrill does not simulate htop yet; top -b shows the processes")
}

// top shows the processes by their use of the processor since the round before.
func top(c *libc.Prog) int {
	opts, _, ok := c.Options("bcd:n:o:p:u:HiSsw:E:e:1", "batch|b", "delay:|d", "iterations:|n")
	if !ok {
		return c.Status
	}
	batch, rounds, delay, full, order, user := false, 0, 3*time.Second, false, "%CPU", ""
	var pids []int
	for _, o := range opts {
		switch o.Name {
		case "b":
			batch = true
		case "c":
			full = true
		case "n":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 1 {
				return c.Fail("bad iterations argument '%s'", o.Value)
			}
			rounds = n
		case "d":
			f, err := strconv.ParseFloat(o.Value, 64)
			if err != nil || f < 0 {
				return c.Fail("bad delay interval '%s'", o.Value)
			}
			delay = time.Duration(f * float64(time.Second))
		case "o":
			order = o.Value
		case "u":
			user = o.Value
		case "p":
			for _, s := range strings.Split(o.Value, ",") {
				if n, err := strconv.Atoi(s); err == nil {
					pids = append(pids, n)
				}
			}
		}
	}
	terminal := c.IsTerminal(c.Stdout)
	if !batch && !terminal {
		return c.Fail("failed tty get")
	}
	before := map[*kernel.Process]time.Duration{}
	since := time.Time{}
	for i := 0; rounds == 0 || i < rounds; i++ {
		if i > 0 && c.Wait(max(delay, 100*time.Millisecond)) != nil {
			break
		}
		if terminal && !batch {
			c.Put("\x1b[H\x1b[2J")
		} else if i > 0 {
			c.Put("\n")
		}
		topRound(c, before, since, full, order, user, pids, terminal && !batch)
		since = time.Now()
		if c.Out.Flush() != nil {
			break
		}
	}
	return c.Status
}

func topRound(c *libc.Prog, before map[*kernel.Process]time.Duration, since time.Time, full bool, order, user string, pids []int, screen bool) {
	l := processes(c)
	m, _ := memory(c)
	mib := func(k string) float64 { return float64(m[k]) / (1 << 20) }
	total := machineMemory(c)
	type row struct {
		p   process
		cpu float64
	}
	var rows []row
	busy := 0.0
	for _, p := range l {
		share := p.cpuShare()
		if !since.IsZero() {
			share = 100 * float64(p.CPU()-before[p.Process]) / float64(max(1, p.now.Sub(since)))
		}
		before[p.Process] = p.CPU()
		busy += share
		if user != "" && p.user != user && strconv.Itoa(p.Cred.UID) != user || len(pids) > 0 && !slices.Contains(pids, p.pid) {
			continue
		}
		rows = append(rows, row{p, share})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		switch strings.TrimLeft(order, "+-") {
		case "%MEM", "RES", "VIRT":
			return cmp.Compare(b.p.Memory(), a.p.Memory())
		case "PID":
			return cmp.Compare(b.p.pid, a.p.pid)
		case "TIME+", "TIME":
			return cmp.Compare(b.p.CPU(), a.p.CPU())
		}
		return cmp.Compare(b.cpu, a.cpu)
	})
	busy = min(100, busy/float64(processors(c)))
	swap := mib("SwapTotal")
	c.Put("top -%s\n", uptimeLine(c))
	c.Put("Tasks: %3d total, %3d running, %3d sleeping, %3d stopped, %3d zombie\n", len(l), 1, len(l)-1, 0, 0)
	c.Put("%%Cpu(s): %4.1f us, %4.1f sy, %4.1f ni, %4.1f id, %4.1f wa, %4.1f hi, %4.1f si, %4.1f st \n", busy, 0.0, 0.0, 100-busy, 0.0, 0.0, 0.0, 0.0)
	c.Put("MiB Mem : %8.1f total, %8.1f free, %8.1f used, %8.1f buff/cache     \n", mib("MemTotal"), mib("MemFree"), mib("MemTotal")-mib("MemAvailable"), mib("Buffers")+mib("Cached"))
	c.Put("MiB Swap: %8.1f total, %8.1f free, %8.1f used. %8.1f avail Mem \n\n", swap, swap, 0.0, mib("MemAvailable"))
	c.Put("    PID USER      PR  NI    VIRT    RES    SHR S  %%CPU  %%MEM     TIME+ COMMAND\n")
	limit := len(rows)
	if screen {
		_, height := c.TTY.Size()
		limit = min(limit, max(1, height-8))
	}
	for _, r := range rows[:limit] {
		name := r.p.Comm()
		if full {
			name = r.p.command()
		}
		t := r.p.CPU()
		clock := fmt.Sprintf("%d:%02d.%02d", int(t.Minutes()), int(t.Seconds())%60, int(t.Milliseconds()/10)%100)
		kib := r.p.Memory() >> 10
		c.Put("%7d %-8s  20   0 %7d %6d %6d %s %5.1f %5.1f %9s %s\n", r.p.pid, shortUser(r.p.user), kib, kib, 0, r.p.state(c)[:1], r.cpu, 100*float64(r.p.Memory())/float64(total), clock, name)
	}
}

func processors(c *libc.Prog) int {
	b, err := c.Files.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 1
	}
	return max(1, strings.Count(string(b), "processor\t"))
}

// watch runs a command again and again. On a terminal it draws over the last round; elsewhere it prints one round a period.
func watch(c *libc.Prog) int {
	opts, operands, ok := c.Options("+bcCd::egn:ptx", "beep|b", "color|c", "differences::|d", "errexit|e", "chgexit|g", "interval:|n", "precise|p", "no-title|t", "exec|x", "no-wrap|w")
	if !ok {
		return c.Status
	}
	period, title, direct, onError, onChange := 2*time.Second, true, false, false, false
	for _, o := range opts {
		switch o.Name {
		case "n":
			f, err := strconv.ParseFloat(strings.Replace(o.Value, ",", ".", 1), 64)
			if err != nil {
				return c.Fail("failed to parse argument: '%s'", o.Value)
			}
			period = max(100*time.Millisecond, time.Duration(f*float64(time.Second)))
		case "t":
			title = false
		case "x":
			direct = true
		case "e":
			onError = true
		case "g":
			onChange = true
		}
	}
	if len(operands) == 0 {
		c.Errorf("\nUsage:\n watch [options] command\n\nFor more details see watch(1).\n")
		return 1
	}
	argv := operands
	if !direct {
		argv = []string{"sh", "-c", strings.Join(operands, " ")}
	}
	terminal := c.IsTerminal(c.Stdout)
	last, first := "", true
	for {
		var out capture
		p, status := c.StartChild(argv, func(s *kernel.Spec) { s.Stdin, s.Stdout, s.Stderr = nil, &out, &out })
		if p == nil {
			return status
		}
		code := p.Wait().ExitCode()
		text := out.String()
		if terminal {
			width, height := c.TTY.Size()
			c.Put("\x1b[H\x1b[2J%s", screen(text, operands, period, c.HostName(), title, width, height))
		} else {
			if title {
				c.Put("%s\n\n", header(operands, period, c.HostName(), 80))
			}
			c.Out.WriteString(text)
		}
		if c.Out.Flush() != nil {
			return 1
		}
		if onError && code != 0 {
			return 8
		}
		if onChange && !first && text != last {
			return 0
		}
		last, first = text, false
		if c.Wait(period) != nil {
			return 0
		}
	}
}

// header is watch's first line: what is run how often, and when on which machine.
func header(command []string, period time.Duration, host string, width int) string {
	left := fmt.Sprintf("Every %.1fs: %s", period.Seconds(), strings.Join(command, " "))
	right := host + ": " + time.Now().UTC().Format("Mon Jan _2 15:04:05 2006")
	if len(left)+1+len(right) > width {
		left = left[:max(0, min(len(left), width-len(right)-4))] + "..."
	}
	return left + strings.Repeat(" ", max(1, width-len(left)-len(right))) + right
}

func screen(text string, command []string, period time.Duration, host string, title bool, width, height int) string {
	var b strings.Builder
	rows := height
	if title {
		b.WriteString(header(command, period, host, width) + "\r\n\r\n")
		rows -= 2
	}
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		for rows > 0 {
			rows--
			r := []rune(l)
			if len(r) <= width {
				b.WriteString(l + "\r\n")
				break
			}
			b.WriteString(string(r[:width]) + "\r\n")
			l = string(r[width:])
		}
	}
	return strings.TrimSuffix(b.String(), "\r\n")
}

// capture keeps what a command prints, within what fits on any screen many times over.
type capture struct{ b strings.Builder }

const captureLimit = 1 << 20

func (c *capture) Write(b []byte) (int, error) {
	if room := captureLimit - c.b.Len(); room > 0 {
		c.b.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

func (c *capture) String() string { return c.b.String() }
