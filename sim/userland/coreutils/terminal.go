package coreutils

import (
	"strconv"

	"ckadrill/sim/userland/libc"
)

func tty(c *libc.Prog) int {
	opts, _, ok := c.Options("s", "silent|s", "quiet|s")
	if !ok {
		return c.Status
	}
	terminal := c.IsTerminal(c.Stdin)
	if len(opts) == 0 {
		if terminal {
			c.Put("/dev/pts/0\n")
		} else {
			c.Put("not a tty\n")
		}
	}
	if terminal {
		return 0
	}
	return 1
}

// stty shows the size of the terminal; its modes belong to the user's side and cannot be changed from inside.
func stty(c *libc.Prog) int {
	if !c.IsTerminal(c.Stdin) {
		return c.Fail("'standard input': Inappropriate ioctl for device")
	}
	columns, rows := c.TTY.Size()
	if len(c.Args) == 1 && c.Args[0] == "size" {
		c.Put("%d %d\n", rows, columns)
		return 0
	}
	if len(c.Args) == 0 {
		c.Put("speed 38400 baud; line = 0;\n-brkint -imaxbel iutf8\n")
		return 0
	}
	if c.Args[0] == "-a" {
		c.Put("speed 38400 baud; rows %d; columns %d; line = 0;\n", rows, columns)
	}
	return 0
}

func clearScreen(c *libc.Prog) int {
	if c.Getenv("TERM") == "" {
		c.Errorf("TERM environment variable not set.\n")
		return 1
	}
	c.Out.WriteString("\x1b[H\x1b[2J\x1b[3J")
	return 0
}

// capabilities are those of xterm-256color that scripts ask for.
var capabilities = map[string]string{
	"clear": "\x1b[H\x1b[2J\x1b[3J", "bold": "\x1b[1m", "sgr0": "\x1b(B\x1b[m", "rev": "\x1b[7m", "smul": "\x1b[4m", "rmul": "\x1b[24m", "dim": "\x1b[2m", "el": "\x1b[K",
	"cuu1": "\x1b[A", "civis": "\x1b[?25l", "cnorm": "\x1b[?12l\x1b[?25h", "smcup": "\x1b[?1049h\x1b[22;0;0t", "rmcup": "\x1b[?1049l\x1b[23;0;0t", "home": "\x1b[H", "bel": "\a",
}

func tput(c *libc.Prog) int {
	args := c.Args
	if len(args) >= 2 && args[0] == "-T" {
		args = args[2:]
	} else if c.Getenv("TERM") == "" {
		c.Errorf("tput: No value for $TERM and no -T specified\n")
		return 2
	}
	if len(args) == 0 {
		c.Errorf("usage: tput [-V] [-S] [-x] [-T term] capname\n")
		return 2
	}
	columns, rows := 80, 24
	if c.TTY != nil {
		columns, rows = c.TTY.Size()
	}
	number := func() int {
		if len(args) < 2 {
			return 0
		}
		n, _ := strconv.Atoi(args[1])
		return n
	}
	switch args[0] {
	case "cols":
		c.Put("%d\n", columns)
	case "lines":
		c.Put("%d\n", rows)
	case "colors":
		c.Put("256\n")
	case "setaf", "setab":
		base, n := 30, number()
		if args[0] == "setab" {
			base = 40
		}
		switch {
		case n < 8:
			c.Put("\x1b[%dm", base+n)
		case n < 16:
			c.Put("\x1b[%dm", base+60+n-8)
		default:
			c.Put("\x1b[%d;5;%dm", base+8, n)
		}
	case "cup":
		if len(args) > 2 {
			x, _ := strconv.Atoi(args[2])
			c.Put("\x1b[%d;%dH", number()+1, x+1)
		}
	case "reset", "init":
		c.Out.WriteString("\x1bc")
	default:
		s, ok := capabilities[args[0]]
		if !ok {
			c.Errorf("tput: unknown terminfo capability '%s'\n", args[0])
			return 4
		}
		c.Out.WriteString(s)
	}
	return 0
}
