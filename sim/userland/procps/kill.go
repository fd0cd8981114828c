package procps

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

// send is kill(2): it returns an error text, "" if the signal was sent. The first process of a pid namespace is immune to
// what it cannot handle, as Linux has it.
func send(c *libc.Prog, p *kernel.Process, s kernel.Signal) string {
	if c.Cred.UID != 0 && c.Cred.UID != p.Cred.UID {
		return "Operation not permitted"
	}
	if s == 0 || bash.PIDSeenBy(c.Process, p) == 1 && (s == kernel.SIGKILL || s == kernel.SIGSTOP) {
		return ""
	}
	p.Signal(s)
	return ""
}

// signalOption takes -9, -KILL, -s KILL or --signal KILL from the front of args.
func signalOption(args []string) (s kernel.Signal, rest []string, bad string) {
	s = kernel.SIGTERM
	for i := 0; i < len(args); i++ {
		a := args[i]
		name := ""
		switch {
		case a == "--":
			return s, append(rest, args[i+1:]...), ""
		case (a == "-s" || a == "--signal") && i+1 < len(args):
			i++
			name = args[i]
		case strings.HasPrefix(a, "--signal="):
			name = a[len("--signal="):]
		case len(a) > 1 && a[0] == '-' && (a[1] >= '0' && a[1] <= '9' || a[1] >= 'A' && a[1] <= 'Z'):
			if _, ok := bash.SignalByName(a[1:]); !ok {
				if a[1] >= '0' && a[1] <= '9' {
					return 0, nil, a[1:]
				}
				rest = append(rest, a)
				continue
			}
			name = a[1:]
		default:
			rest = append(rest, a)
			continue
		}
		var ok bool
		if s, ok = bash.SignalByName(name); !ok {
			return 0, nil, name
		}
	}
	return s, rest, ""
}

func kill(c *libc.Prog) int {
	if len(c.Args) > 0 && (c.Args[0] == "-l" || c.Args[0] == "-L") {
		if len(c.Args) > 1 {
			for _, a := range c.Args[1:] {
				s, ok := bash.SignalByName(a)
				if !ok {
					return c.Fail("unknown signal name %s", a)
				}
				if a[0] >= '0' && a[0] <= '9' {
					c.Put("%s\n", bash.SignalName(s))
				} else {
					c.Put("%d\n", int(s))
				}
			}
			return 0
		}
		var l []string
		for i := 1; i < 32; i++ {
			l = append(l, bash.SignalName(kernel.Signal(i)))
		}
		c.Put("%s\n", strings.Join(l, " "))
		return 0
	}
	s, args, bad := signalOption(c.Args)
	if bad != "" {
		return c.Fail("unknown signal name %s", bad)
	}
	if len(args) == 0 {
		c.Errorf("\nUsage:\n kill [options] <pid> [...]\n\nFor more details see kill(1).\n")
		return 1
	}
	for _, a := range args {
		pid, err := strconv.Atoi(a)
		if err != nil || pid <= 0 {
			c.Fail("failed to parse argument: '%s'", a)
			continue
		}
		p := bash.FindProcess(c.Process, pid)
		text := "No such process"
		if p != nil {
			text = send(c, p, s)
		}
		if text != "" {
			if c.Busybox {
				c.Fail("can't kill pid %d: %s", pid, text)
			} else {
				c.Fail("(%d): %s", pid, text)
			}
		}
	}
	return c.Status
}

// pgrep is pgrep and pkill.
func pgrep(c *libc.Prog) int {
	killing := c.Name == "pkill"
	s, args := kernel.SIGTERM, c.Args
	if killing {
		var bad string
		if s, args, bad = signalOption(args); bad != "" {
			return c.Fail("Unknown signal \"%s\".", bad)
		}
	}
	c.Args, c.FailStatus = args, 2
	opts, operands, ok := c.Options("aAcd:efF:g:G:hHiIlLnoP:s:t:u:U:vVwx", "count|c", "delimiter:|d", "list-name|l", "list-full|a", "inverse|v", "full|f", "newest|n", "oldest|o", "parent:|P", "uid:|U", "euid:|u", "exact|x", "ignore-case|i", "echo|e")
	if !ok {
		return c.Status
	}
	var full, exact, fold, inverse, newest, oldest, count, name, listFull, echo bool
	var users []string
	var parents []int
	delimiter := "\n"
	for _, o := range opts {
		switch o.Name {
		case "f":
			full = true
		case "x":
			exact = true
		case "i", "I":
			fold = true
		case "v":
			inverse = true
		case "n":
			newest = true
		case "o":
			oldest = true
		case "c":
			count = true
		case "l":
			name = true
		case "a":
			listFull = true
		case "e":
			echo = true
		case "d":
			delimiter = o.Value
		case "u", "U":
			users = append(users, strings.Split(o.Value, ",")...)
		case "P":
			for _, n := range strings.Split(o.Value, ",") {
				if k, err := strconv.Atoi(n); err == nil {
					parents = append(parents, k)
				}
			}
		}
	}
	if len(operands) == 0 && len(users)+len(parents) == 0 {
		c.Warn("no matching criteria specified")
		c.Errorf("Try `%s --help' for more information.\n", c.Name)
		return 2
	}
	if len(operands) > 1 {
		c.Warn("only one pattern can be provided")
		c.Errorf("Try `%s --help' for more information.\n", c.Name)
		return 2
	}
	var re *regex.Regexp
	if len(operands) > 0 {
		pattern := operands[0]
		if exact {
			pattern = "^(" + pattern + ")$"
		}
		var err error
		if re, err = regex.Compile(pattern, regex.Flags{Extended: true, Fold: fold}); err != nil {
			return c.Fail("%s", err)
		}
	}
	var l []process
	for _, p := range processes(c) {
		if p.Process == c.Process {
			continue
		}
		text := p.Comm()
		if full {
			text = p.command()
		}
		match := (re == nil || re.MatchString(text)) && (len(users) == 0 || slices.Contains(users, p.user) || slices.Contains(users, strconv.Itoa(p.Cred.UID))) &&
			(len(parents) == 0 || slices.Contains(parents, p.ppid))
		if match != inverse {
			l = append(l, p)
		}
	}
	if (newest || oldest) && len(l) > 1 {
		best := l[0]
		for _, p := range l[1:] {
			if newest && !p.Started.Before(best.Started) || oldest && p.Started.Before(best.Started) {
				best = p
			}
		}
		l = []process{best}
	}
	if killing {
		sent := false
		for _, p := range l {
			if text := send(c, p.Process, s); text != "" {
				c.Warn("killing pid %d failed: %s", p.pid, text)
				continue
			}
			sent = true
			if echo {
				c.Put("%s killed (pid %d)\n", p.Comm(), p.pid)
			}
		}
		if count {
			c.Put("%d\n", len(l))
		}
		if sent {
			return 0
		}
		return 1
	}
	if count {
		c.Put("%d\n", len(l))
	} else {
		for i, p := range l {
			text := strconv.Itoa(p.pid)
			switch {
			case listFull:
				text += " " + p.command()
			case name:
				text += " " + p.Comm()
			}
			if c.Put("%s", text); i == len(l)-1 {
				c.Put("\n")
			} else {
				c.Put("%s", delimiter)
			}
		}
	}
	if len(l) == 0 {
		return 1
	}
	return 0
}

func isNamed(p process, name string) bool {
	argv := p.CommandLine()
	return p.Comm() == name || len(argv) > 0 && (argv[0] == name || path.Base(argv[0]) == path.Base(name) && !strings.Contains(name, "/"))
}

func pidof(c *libc.Prog) int {
	opts, operands, ok := c.Options("scxqnwo:S:", "single-shot|s")
	if !ok {
		return c.Status
	}
	single := slices.ContainsFunc(opts, func(o libc.Opt) bool { return o.Name == "s" })
	var l []string
	all := processes(c)
	slices.Reverse(all)
	for _, n := range operands {
		for _, p := range all {
			if isNamed(p, n) && p.Process != c.Process {
				l = append(l, strconv.Itoa(p.pid))
			}
		}
	}
	if len(l) == 0 {
		return 1
	}
	if single {
		l = l[:1]
	}
	c.Put("%s\n", strings.Join(l, " "))
	return 0
}

func killall(c *libc.Prog) int {
	s, args, bad := signalOption(c.Args)
	if bad != "" {
		c.Errorf("%s: unknown signal; killall -l lists signals.\n", bad)
		return 1
	}
	c.Args = args
	opts, operands, ok := c.Options("egiIlqrvwu:", "exact|e", "ignore-case|I", "interactive|i", "quiet|q", "verbose|v", "wait|w", "user:|u", "regexp|r")
	if !ok {
		return c.Status
	}
	quiet, wait := false, false
	for _, o := range opts {
		quiet = quiet || o.Name == "q"
		wait = wait || o.Name == "w"
	}
	if len(operands) == 0 {
		c.Errorf("Usage: killall [OPTION]... [--] NAME...\n")
		return 1
	}
	for _, n := range operands {
		found := false
		for _, p := range processes(c) {
			if !isNamed(p, n) || p.Process == c.Process {
				continue
			}
			if text := send(c, p.Process, s); text != "" {
				c.Fail("%s(%d): %s", n, p.pid, text)
				continue
			}
			found = true
			for wait && p.Alive() && c.Wait(100*time.Millisecond) == nil {
			}
		}
		if !found {
			c.Status = 1
			if !quiet {
				c.Out.Flush()
				c.Errorf("%s: no process found\n", n)
			}
		}
	}
	return c.Status
}
