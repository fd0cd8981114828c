package procps

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/userland/libc"
)

// memory is /proc/meminfo in bytes.
func memory(c *libc.Prog) (map[string]int64, bool) {
	b, err := c.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, false
	}
	m := map[string]int64{}
	for _, l := range strings.Split(string(b), "\n") {
		k, v, ok := strings.Cut(l, ":")
		if f := strings.Fields(v); ok && len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			m[k] = n << 10
		}
	}
	return m, true
}

func free(c *libc.Prog) int {
	opts, _, ok := c.Options("bkmghtwls:c:", "bytes|b", "kilo|k", "mega|m", "giga|g", "mebi|m", "gibi|g", "kibi|k", "human|h", "total|t", "wide|w", "seconds:|s", "count:|c", "si")
	if !ok {
		return c.Status
	}
	unit, human, total, period, count := int64(1<<10), false, false, time.Duration(0), 1
	for _, o := range opts {
		switch o.Name {
		case "b":
			unit = 1
		case "k":
			unit = 1 << 10
		case "m":
			unit = 1 << 20
		case "g":
			unit = 1 << 30
		case "h":
			human = true
		case "t":
			total = true
		case "s":
			f, err := strconv.ParseFloat(o.Value, 64)
			if err != nil || f <= 0 {
				return c.Fail("seconds argument failed: '%s'", o.Value)
			}
			period, count = time.Duration(f*float64(time.Second)), max(count, 1<<30)
		case "c":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 1 {
				return c.Fail("failed to parse count argument: '%s'", o.Value)
			}
			count = n
			if period == 0 {
				period = time.Second
			}
		}
	}
	show := func(n int64) string {
		if human {
			return humanMemory(n)
		}
		return strconv.FormatInt(n/unit, 10)
	}
	for i := 0; i < count; i++ {
		m, ok := memory(c)
		if !ok {
			return c.Fail("/proc/meminfo: No such file or directory")
		}
		cache := m["Buffers"] + m["Cached"]
		used, swap := m["MemTotal"]-m["MemAvailable"], m["SwapTotal"]
		c.Put("               total        used        free      shared  buff/cache   available\n")
		c.Put("Mem:     %11s %11s %11s %11s %11s %11s\n", show(m["MemTotal"]), show(used), show(m["MemFree"]), show(m["Shmem"]), show(cache), show(m["MemAvailable"]))
		c.Put("Swap:    %11s %11s %11s\n", show(swap), show(0), show(swap))
		if total {
			c.Put("Total:   %11s %11s %11s\n", show(m["MemTotal"]+swap), show(used), show(m["MemFree"]+swap))
		}
		if period > 0 && i+1 < count {
			c.Put("\n")
			c.Out.Flush()
			if c.Wait(period) != nil {
				break
			}
		}
	}
	return 0
}

// humanMemory is a size as free -h prints it: 1.9Gi, 433Mi.
func humanMemory(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f, i := float64(n), -1
	for f >= 1000 && i < 4 {
		f /= 1024
		i++
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f%ci", f, "KMGTP"[i])
	}
	return fmt.Sprintf("%.0f%ci", f, "KMGTP"[i])
}

// load is the first three numbers of /proc/loadavg.
func load(c *libc.Prog) []string {
	b, err := c.Files.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); err == nil && len(f) >= 3 {
		return f[:3]
	}
	return []string{"0.00", "0.00", "0.00"}
}

func up(c *libc.Prog) time.Duration {
	b, err := c.Files.ReadFile("/proc/uptime")
	if f := strings.Fields(string(b)); err == nil && len(f) > 0 {
		s, _ := strconv.ParseFloat(f[0], 64)
		return time.Duration(s * float64(time.Second))
	}
	return 0
}

// sessions counts terminals that somebody is logged in at.
func sessions(c *libc.Prog) int {
	for _, p := range c.Host().Processes.List() {
		if p.TTY != nil && p.Container == "" {
			return 1
		}
	}
	return 0
}

// uptimeLine is the first line of uptime, w and top.
func uptimeLine(c *libc.Prog) string {
	d := up(c)
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	s := time.Now().UTC().Format(" 15:04:05") + " up "
	switch {
	case days == 1:
		s += "1 day, "
	case days > 1:
		s += strconv.Itoa(days) + " days, "
	}
	if hours > 0 {
		s += fmt.Sprintf("%2d:%02d, ", hours, minutes)
	} else {
		s += fmt.Sprintf("%d min, ", minutes)
	}
	n := sessions(c)
	users := "users"
	if n == 1 {
		users = "user"
	}
	return s + fmt.Sprintf(" %d %s,  load average: %s", n, users, strings.Join(load(c), ", "))
}

func uptime(c *libc.Prog) int {
	opts, _, ok := c.Options("psV", "pretty|p", "since|s")
	if !ok {
		return c.Status
	}
	for _, o := range opts {
		switch o.Name {
		case "p":
			d := up(c)
			var parts []string
			add := func(n int, unit string) {
				if n == 1 {
					parts = append(parts, "1 "+unit)
				} else if n > 1 {
					parts = append(parts, strconv.Itoa(n)+" "+unit+"s")
				}
			}
			h := int(d.Hours())
			add(h/24/7, "week")
			add(h/24%7, "day")
			add(h%24, "hour")
			add(int(d.Minutes())%60, "minute")
			if len(parts) == 0 {
				parts = []string{"0 minutes"}
			}
			c.Put("up %s\n", strings.Join(parts, ", "))
			return 0
		case "s":
			c.Put("%s\n", time.Now().Add(-up(c)).UTC().Format("2006-01-02 15:04:05"))
			return 0
		}
	}
	c.Put("%s\n", uptimeLine(c))
	return 0
}

// terminalOwner is the first process at a terminal: whose login it is, and when it began.
func terminalOwner(c *libc.Prog) (process, bool) {
	for _, p := range processes(c) {
		if p.TTY != nil && p.Container == "" {
			return p, true
		}
	}
	return process{}, false
}

func who(c *libc.Prog) int {
	if p, ok := terminalOwner(c); ok {
		c.Put("%-8s pts/0        %s\n", p.user, p.Started.UTC().Format("2006-01-02 15:04"))
	}
	return 0
}

func w(c *libc.Prog) int {
	c.Put("%s\nUSER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n", uptimeLine(c))
	if p, ok := terminalOwner(c); ok {
		c.Put("%-8s pts/0    -                %s    0.00s  0.00s  0.00s %s\n", p.user, p.Started.UTC().Format("15:04"), p.command())
	}
	return 0
}

// dmesg has nothing to show: the simulated kernel keeps no ring buffer.
func dmesg(c *libc.Prog) int {
	return c.Fail("ckadrill does not simulate the kernel's ring buffer yet")
}
