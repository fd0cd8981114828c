package coreutils

import (
	"errors"
	"strings"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

func trueCommand(c *libc.Prog) int { return 0 }

func falseCommand(c *libc.Prog) int { return 1 }

func echo(c *libc.Prog) int {
	s, newline := bash.Echo(c.Args)
	c.Out.WriteString(s)
	if newline {
		c.Out.WriteByte('\n')
	}
	return 0
}

func printf(c *libc.Prog) int {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return c.MissingOperand()
	}
	out, errs := bash.Printf(args[0], args[1:], c.StartTime())
	for _, e := range errs {
		if s, ok := strings.CutSuffix(e, ": invalid number"); ok && !c.Busybox {
			e = c.Quote(s) + ": expected a numeric value"
			if s != "" && (s[0] >= '0' && s[0] <= '9' || len(s) > 1 && (s[0] == '-' || s[0] == '+') && s[1] >= '0' && s[1] <= '9') {
				e = c.Quote(s) + ": value not completely converted"
			}
		}
		c.Fail("%s", e)
	}
	c.Out.WriteString(out)
	return c.Status
}

func test(c *libc.Prog) int {
	args := c.Args
	if end := map[string]string{"[": "]", "[[": "]]"}[c.Name]; end != "" {
		if len(args) == 0 || args[len(args)-1] != end {
			c.Warn("missing %s", c.Quote(end))
			return 2
		}
		args = args[:len(args)-1]
	}
	yes, err := bash.Test(args, func(op, s string) (bool, error) {
		switch op {
		case "-n":
			return s != "", nil
		case "-z":
			return s == "", nil
		case "-t":
			streams := map[string]any{"0": c.Stdin, "1": c.Stdout, "2": c.Stderr}
			return c.IsTerminal(streams[s]), nil
		}
		if s != "" {
			s = c.Path(s)
		}
		return bash.FileTest(c.Process, c.Files, op, s)
	}, func(op, a, b string) bool { return bash.FileCompare(c.Files, op, c.Path(a), c.Path(b)) })
	if err != nil {
		text := err.Error()
		if s, ok := strings.CutSuffix(text, ": integer expression expected"); ok && !c.Busybox {
			text = "invalid integer " + c.Quote(s)
		}
		c.Warn("%s", text)
		return 2
	}
	if yes {
		return 0
	}
	return 1
}

func yes(c *libc.Prog) int {
	line := "y\n"
	if len(c.Args) > 0 {
		line = strings.Join(c.Args, " ") + "\n"
	}
	block := []byte(strings.Repeat(line, max(1, 8192/len(line))))
	for c.Alive() {
		if _, err := c.Stdout.Write(block); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, kernel.ErrDead) {
				return 1
			}
			return c.Fail("standard output: %s", libc.Strerror(err))
		}
		// A reader that never stops must not hold the world.
		if c.Wait(pace) != nil {
			return 1
		}
	}
	return 0
}
