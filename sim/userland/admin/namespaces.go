package admin

import (
	"errors"
	"strconv"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/userland/libc"
)

// chroot runs a program with another root directory, as GNU's and busybox's do.
func chroot(c *libc.Prog) int {
	c.FailStatus = 125
	if c.Busybox {
		c.FailStatus = 1
	}
	opts, operands, err := libc.Getopt(c.Args, "+", "groups:", "userspec:", "skip-chdir", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	keepDir := false
	for _, o := range opts {
		switch o.Name {
		case "skip-chdir":
			keepDir = true
		case "groups", "userspec":
			return c.Fail("ckadrill does not simulate chroot --%s yet", o.Name)
		case "help":
			c.Put("Usage: chroot [OPTION]... NEWROOT [COMMAND [ARG]...]\nRun COMMAND with root directory set to NEWROOT.\n")
			return 0
		case "version":
			c.Put("chroot (GNU coreutils) 9.4\n")
			return 0
		}
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	dir, command := operands[0], operands[1:]
	where := "cannot change root directory to " + c.Quote(dir)
	if c.Busybox {
		where = "can't change root directory to '" + dir + "'"
	}
	info, err := c.Files.Stat(c.Path(dir))
	switch {
	case err != nil:
		return c.Fail("%s: %s", where, libc.Strerror(err))
	case !info.IsDir():
		return c.Fail("%s: Not a directory", where)
	case c.Cred.UID != 0:
		return c.Fail("%s: Operation not permitted", where)
	}
	view, ok := filesystem.ViewOf(c.Files)
	if !ok {
		return c.Fail("ckadrill does not simulate chroot here yet")
	}
	root, err := view.Chroot(c.Path(dir))
	if err != nil {
		return c.Fail("%s: %s", where, libc.Strerror(err))
	}
	if len(command) == 0 {
		shell := c.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		command = []string{shell, "-i"}
	}
	return inNamespaces(c, command, func(s *kernel.Spec) {
		s.Files = root.Files(c.Cred)
		if !keepDir {
			s.Dir = "/"
		}
	})
}

// nsenter runs a program in namespaces of another process, as util-linux's does.
func nsenter(c *libc.Prog) int {
	opts, command, err := libc.Getopt(c.Args, "+at:m::u::i::n::p::C::U::T::S:G:Fr::w::hV", "all|a", "target:|t", "mount::|m", "uts::|u", "ipc::|i", "net::|n", "pid::|p", "cgroup::|C",
		"user::|U", "time::|T", "setuid:|S", "setgid:|G", "no-fork|F", "root::|r", "wd::|w", "preserve-credentials", "help|h", "version|V")
	if err != nil {
		return c.Usage(err)
	}
	target := 0
	enter := map[string]bool{}
	for _, o := range opts {
		switch o.Name {
		case "t":
			if target, err = strconv.Atoi(o.Value); err != nil || target <= 0 {
				return c.Fail("failed to parse pid: '%s'", o.Value)
			}
		case "a":
			enter["m"], enter["u"], enter["n"] = true, true, true
		case "m", "u", "i", "n", "p", "C", "U", "T", "r", "w":
			if o.Value != "" {
				return c.Fail("ckadrill does not simulate nsenter with a file of a namespace yet")
			}
			enter[o.Name] = true
		case "S", "G":
			return c.Fail("ckadrill does not simulate nsenter -%s yet", o.Name)
		case "h":
			c.Put("\nUsage:\n nsenter [options] [<program> [<argument>...]]\n\nRun a program with namespaces of other processes.\n")
			return 0
		case "V":
			c.Put("nsenter from util-linux 2.39.3\n")
			return 0
		}
	}
	if len(enter) > 0 && target == 0 {
		return c.Fail("no target PID specified")
	}
	if len(command) == 0 {
		shell := c.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		command = []string{shell}
	}
	if len(enter) == 0 {
		return inNamespaces(c, command, func(*kernel.Spec) {})
	}
	p := c.Host().Processes.Find(target)
	if p == nil || c.Container != "" && c.NamespacePID != 0 {
		return c.Fail("cannot open /proc/%d/ns/%s: No such file or directory", target, firstNamespace(enter))
	}
	if c.Cred.UID != 0 {
		return c.Fail("cannot open /proc/%d/ns/%s: Permission denied", target, firstNamespace(enter))
	}
	return inNamespaces(c, command, func(s *kernel.Spec) {
		if enter["m"] {
			s.Files, s.Dir = p.Files.As(c.Cred), "/"
		}
		if enter["n"] {
			s.Net = p.Net
		}
		if enter["u"] {
			s.Hostname = p.Spec.Hostname
		}
	})
}

// inNamespaces runs a program that sees what change says.
func inNamespaces(c *libc.Prog, command []string, change func(*kernel.Spec)) int {
	s := kernel.Spec{Files: c.Files, Dir: c.Dir()}
	change(&s)
	if _, err := kernel.LookPath(s.Files, s.Dir, c.Getenv("PATH"), command[0]); err != nil {
		c.FailStatus = 126
		if errors.Is(err, syscall.ENOENT) {
			c.FailStatus = 127
		}
		switch {
		case c.Busybox:
			return c.Fail("can't execute '%s': %s", command[0], libc.Strerror(err))
		case c.Name == "nsenter":
			return c.Fail("failed to execute %s: %s", command[0], libc.Strerror(err))
		}
		return c.Fail("failed to run command %s: %s", c.Quote(command[0]), libc.Strerror(err))
	}
	p, status := c.StartChild(command, change)
	if p == nil {
		return status
	}
	return c.Relay(p).ExitCode()
}

// firstNamespace is the namespace that nsenter opens first.
func firstNamespace(enter map[string]bool) string {
	for _, n := range [][2]string{{"U", "user"}, {"C", "cgroup"}, {"i", "ipc"}, {"u", "uts"}, {"n", "net"}, {"p", "pid"}, {"m", "mnt"}, {"T", "time"}} {
		if enter[n[0]] {
			return n[1]
		}
	}
	return "mnt"
}
