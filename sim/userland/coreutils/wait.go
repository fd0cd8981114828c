package coreutils

import (
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// pace is the simulated time that a step of an endless loop takes, so that the loop does not hold the world.
const pace = time.Millisecond

// interval reads a time as sleep(1) and timeout(1) do: 1.5, 10s, 2m, 1h, 1d, infinity.
func interval(s string) (time.Duration, bool) {
	unit := time.Second
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 's':
			s = s[:n-1]
		case 'm':
			s, unit = s[:n-1], time.Minute
		case 'h':
			s, unit = s[:n-1], time.Hour
		case 'd':
			s, unit = s[:n-1], 24*time.Hour
		}
	}
	switch strings.ToLower(s) {
	case "inf", "infinity":
		return forever, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f != f {
		return 0, false
	}
	if f*float64(unit) > float64(forever) {
		return forever, true
	}
	return time.Duration(f * float64(unit)), true
}

const forever = 100 * 365 * 24 * time.Hour

func sleep(c *libc.Prog) int {
	_, operands, ok := c.Options("")
	if !ok {
		return c.Status
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	var total time.Duration
	for _, s := range operands {
		d, valid := interval(s)
		if !valid {
			if c.Busybox {
				c.Fail("invalid number '%s'", s)
			} else {
				c.Fail("invalid time interval %s", c.Quote(s))
			}
			continue
		}
		total = min(forever, total+d)
	}
	if c.Status != 0 {
		if c.Busybox {
			return c.Status
		}
		return c.TryHelp()
	}
	c.Wait(total)
	return 0
}

func usleep(c *libc.Prog) int {
	if len(c.Args) == 0 {
		return c.MissingOperand()
	}
	n, err := strconv.Atoi(c.Args[0])
	if err != nil || n < 0 {
		return c.Fail("invalid number '%s'", c.Args[0])
	}
	c.Wait(time.Duration(n) * time.Microsecond)
	return 0
}

func timeout(c *libc.Prog) int {
	c.FailStatus = 125
	opts, operands, ok := c.Options("+fk:s:vp", "foreground|f", "kill-after:|k", "preserve-status|p", "signal:|s", "verbose|v")
	if !ok {
		return c.Status
	}
	signal, kill, preserve, verbose := kernel.SIGTERM, time.Duration(0), false, false
	for _, o := range opts {
		switch o.Name {
		case "s":
			s, known := bash.SignalByName(o.Value)
			if !known {
				c.Warn("%s: invalid signal", c.Quote(o.Value))
				return c.TryHelp()
			}
			signal = s
		case "k":
			d, valid := interval(o.Value)
			if !valid {
				c.Warn("invalid time interval %s", c.Quote(o.Value))
				return c.TryHelp()
			}
			kill = d
		case "p":
			preserve = true
		case "v":
			verbose = true
		}
	}
	if len(operands) < 2 {
		return c.TryHelp()
	}
	limit, valid := interval(operands[0])
	if !valid {
		c.Warn("invalid time interval %s", c.Quote(operands[0]))
		return c.TryHelp()
	}
	p := startNamed(c, operands[1:], "failed to run command")
	if p == nil {
		return c.Status
	}
	ended := make(chan struct{})
	go func() { c.Relay(p); close(ended) }()
	if limit == 0 {
		<-ended
	}
	if limit == 0 || wait(c, p, limit) {
		return p.Wait().ExitCode()
	}
	tell := func(s kernel.Signal) {
		if verbose {
			c.Warn("sending signal %s to command %s", bash.SignalName(s), c.Quote(operands[1]))
		}
		p.Signal(s)
	}
	tell(signal)
	if kill > 0 && !wait(c, p, kill) {
		tell(kernel.SIGKILL)
		signal = kernel.SIGKILL
	}
	status := p.Wait()
	switch {
	case preserve:
		return status.ExitCode()
	case signal == kernel.SIGKILL && status.Signal == kernel.SIGKILL:
		c.Signal(kernel.SIGKILL) // the signal went to timeout's own process group too
	}
	if c.Busybox {
		return 143
	}
	return 124
}

// startNamed starts a command, or says why it could not: what is the beginning of the message.
func startNamed(c *libc.Prog, argv []string, what string) *kernel.Process {
	dir, list := c.Dir(), c.Getenv("PATH")
	if _, err := kernel.LookPath(c.Files, dir, list, argv[0]); err != nil {
		if c.Busybox {
			c.Fail("can't execute '%s': %s", argv[0], libc.Strerror(err))
		} else {
			c.Fail("%s %s: %s", what, c.Quote(argv[0]), libc.Strerror(err))
		}
		c.Status = 126
		if strings.HasSuffix(libc.Strerror(err), "directory") {
			c.Status = 127
		}
		return nil
	}
	p, status := c.StartChild(argv, nil)
	c.Status = status
	return p
}

// wait waits for the end of a child, at most d, and reports whether it has ended.
func wait(c *libc.Prog, p *kernel.Process, d time.Duration) bool {
	t := time.NewTimer(c.ConsumeLag(d))
	defer t.Stop()
	select {
	case <-p.Done():
		return true
	case <-t.C:
		return false
	case <-c.Done():
		return true
	}
}
