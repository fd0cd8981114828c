package coreutils

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// env runs a command in a changed environment, or prints the environment.
func env(c *libc.Prog) int {
	c.FailStatus = 125
	opts, operands, ok := c.Options("+iu:0vC:S:", "ignore-environment|i", "unset:|u", "null|0", "debug|v", "chdir:|C", "split-string:|S", "default-signal::", "ignore-signal::")
	if !ok {
		return c.Status
	}
	environ, end, dir := c.Environ(), "\n", c.Dir()
	for _, o := range opts {
		switch o.Name {
		case "i":
			environ = nil
		case "u":
			environ = slices.DeleteFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, o.Value+"=") })
		case "0":
			end = "\x00"
		case "C":
			dir = c.Path(o.Value)
			if i, err := c.Files.Stat(dir); err != nil {
				return c.Fail("cannot change directory to %s: %s", libc.Quote(o.Value), libc.Strerror(err))
			} else if !i.IsDir() {
				return c.Fail("cannot change directory to %s: %s", libc.Quote(o.Value), libc.Strerror(syscall.ENOTDIR))
			}
		case "S":
			operands = append(strings.Fields(o.Value), operands...)
		}
	}
	if len(operands) > 0 && operands[0] == "-" {
		environ, operands = nil, operands[1:]
	}
	for len(operands) > 0 && strings.Contains(operands[0], "=") {
		environ = setVariable(environ, operands[0])
		operands = operands[1:]
	}
	if len(operands) == 0 {
		for _, kv := range environ {
			c.Put("%s%s", kv, end)
		}
		return 0
	}
	return c.Replace(operands, func(s *kernel.Spec) { s.Env, s.Dir = environ, dir })
}

// startChild is [libc.Prog.StartChild] with the words of busybox where they differ.
func startChild(c *libc.Prog, argv []string, change func(*kernel.Spec)) (*kernel.Process, int) {
	if !c.Busybox {
		return c.StartChild(argv, change)
	}
	s := kernel.Spec{}
	if change != nil {
		change(&s)
	}
	dir := c.Dir()
	if s.Dir != "" {
		dir = s.Dir
	}
	if _, err := kernel.LookPath(c.Files, dir, c.Getenv("PATH"), argv[0]); err != nil {
		c.Fail("can't execute '%s': %s", argv[0], libc.Strerror(err))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, 127
		}
		return nil, 126
	}
	return c.StartChild(argv, change)
}

func setVariable(environ []string, kv string) []string {
	k, _, _ := strings.Cut(kv, "=")
	for i, old := range environ {
		if strings.HasPrefix(old, k+"=") {
			environ[i] = kv
			return environ
		}
	}
	return append(environ, kv)
}

func printenv(c *libc.Prog) int {
	c.FailStatus = 2
	opts, operands, ok := c.Options("0", "null|0")
	if !ok {
		return c.Status
	}
	end := "\n"
	if len(opts) > 0 {
		end = "\x00"
	}
	if len(operands) == 0 {
		for _, kv := range c.Environ() {
			c.Put("%s%s", kv, end)
		}
		return 0
	}
	status := 0
	for _, n := range operands {
		v, found := c.LookupEnv(n)
		if !found {
			status = 1
			continue
		}
		c.Put("%s%s", v, end)
	}
	return status
}

func nohup(c *libc.Prog) int {
	c.FailStatus = 125
	_, operands, ok := c.Options("+")
	if !ok {
		return c.Status
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	terminal := c.IsTerminal(c.Stdout)
	var out kernel.File
	if terminal {
		f, err := c.Files.OpenFile(c.Path("nohup.out"), appendFlag, 0o600)
		if err != nil {
			return c.Fail("failed to open 'nohup.out': %s", libc.Strerror(err))
		}
		c.Warn("ignoring input and appending output to 'nohup.out'")
		out = f
	}
	errorsToo := terminal && c.IsTerminal(c.Stderr)
	return c.Replace(operands, func(s *kernel.Spec) {
		if out != nil {
			s.Stdin, s.Stdout = strings.NewReader(""), out
			if errorsToo {
				s.Stderr = out
			}
		}
	})
}

// nice runs a command; the simulated scheduler knows no priorities, so that the number has no effect.
func nice(c *libc.Prog) int {
	c.FailStatus = 125
	_, operands, ok := c.Options("+n:", "adjustment:|n")
	if !ok {
		return c.Status
	}
	if len(operands) == 0 {
		c.Put("0\n")
		return 0
	}
	return c.Replace(operands, nil)
}

// which is Debian's: it searches PATH and says nothing of what it does not find.
func which(c *libc.Prog) int {
	opts, operands, ok := c.Options("as", "all|a")
	if !ok {
		return c.Status
	}
	all, silent, status := false, false, 0
	for _, o := range opts {
		all = all || o.Name == "a"
		silent = silent || o.Name == "s"
	}
	if len(operands) == 0 {
		return 1
	}
	for _, n := range operands {
		dirs := strings.Split(c.Getenv("PATH"), ":")
		if strings.Contains(n, "/") {
			dirs = []string{""}
		}
		found := false
		for _, d := range dirs {
			name := n
			if d != "" {
				name = strings.TrimSuffix(d, "/") + "/" + n
			}
			f, err := kernel.LookPath(c.Files, c.Dir(), "", c.Path(name))
			if err != nil || !executable(c, f) {
				continue
			}
			found = true
			if !silent {
				c.Put("%s\n", name)
			}
			if !all {
				break
			}
		}
		if !found {
			status = 1
		}
	}
	return status
}
