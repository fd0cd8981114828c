package admin

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/machine/journal"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

func sprintf(format string, a ...any) string { return fmt.Sprintf(format, a...) }

// authDelay is how long PAM makes somebody wait who gave a wrong password.
const authDelay = 2 * time.Second

// su is util-linux's su. Behind the user, options are still its own up to "--".
func su(c *libc.Prog) int {
	opts, operands, err := libc.Getopt(c.Args, "c:C:fg:G:lmpPs:w:hV", "command:|c", "session-command:|C", "fast|f", "group:|g", "supp-group:|G", "login|l", "preserve-environment|p", "pty|P", "shell:|s", "whitelist-environment:|w", "help|h", "version|V")
	if err != nil {
		return c.Usage(err)
	}
	login, command, hasCommand, preserve, shell := false, "", false, false, ""
	for _, o := range opts {
		switch o.Name {
		case "c", "C":
			command, hasCommand = o.Value, true
		case "l":
			login = true
		case "m", "p":
			preserve = true
		case "s":
			shell = o.Value
		case "h":
			c.Put("\nUsage:\n su [options] [-] [<user> [<argument>...]]\n")
			return 0
		case "V":
			c.Put("su from util-linux 2.39.3\n")
			return 0
		}
	}
	if len(operands) > 0 && operands[0] == "-" {
		login, operands = true, operands[1:]
	}
	name := "root"
	if len(operands) > 0 {
		name, operands = operands[0], operands[1:]
	}
	root := c.Files.As(kernel.Root)
	u, ok := libc.UserByName(root, name)
	if !ok {
		if c.Busybox {
			return c.Fail("unknown user %s", name)
		}
		return c.Fail("user %s does not exist or the user entry does not contain all the required fields", name)
	}
	_, returning := bash.Returning(c.Process)
	if c.Cred.UID != 0 && !returning {
		if c.TTY != nil {
			c.TTY.ReadPassword("Password: ")
		} else {
			c.Errorf("Password: ")
			libc.ReadAnswer(c.Stdin)
			c.Errorf("\n")
		}
		if c.Wait(authDelay) != nil {
			return 1
		}
		if c.Busybox {
			return c.Fail("incorrect password")
		}
		return c.Fail("Authentication failure")
	}
	if shell == "" {
		shell = u.Shell
	}
	if shell == "" {
		shell = "/bin/sh"
	}
	cred := libc.CredentialOf(root, u)
	env, dir := c.Environ(), c.Dir()
	set := func(k, v string) {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, k+"=") })
		env = append(env, k+"="+v)
	}
	switch {
	case login:
		term := c.Getenv("TERM")
		env = nil
		if term != "" {
			env = append(env, "TERM="+term)
		}
		if lang := c.Getenv("LANG"); lang != "" {
			env = append(env, "LANG="+lang)
		}
		set("SHELL", shell)
		set("HOME", u.Home)
		set("USER", u.Name)
		set("LOGNAME", u.Name)
		set("MAIL", "/var/mail/"+u.Name)
		path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		if cred.UID != 0 {
			path = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
		}
		set("PATH", path)
		if dir = u.Home; dir == "" {
			dir = "/"
		}
		if i, err := root.Stat(dir); err != nil || !i.IsDir() {
			c.Warn("warning: cannot change directory to %s: No such file or directory", dir)
			dir = "/"
		}
	case !preserve:
		set("HOME", u.Home)
		set("SHELL", shell)
		if cred.UID != 0 {
			set("USER", u.Name)
			set("LOGNAME", u.Name)
		}
	}
	argv := []string{path.Base(shell)}
	if login {
		argv[0] = "-" + argv[0]
	}
	if hasCommand {
		argv = append(argv, "-c", command)
	}
	argv = append(argv, operands...)
	c.Out.Flush()
	spec := kernel.Spec{
		Argv: argv, Env: env, Dir: dir, Cred: cred, Hostname: c.Spec.Hostname, Files: c.Files.As(cred), Net: c.Net,
		Stdin: c.Stdin, Stdout: libc.Unwrap(c.Stdout), Stderr: libc.Unwrap(c.Stderr), TTY: c.TTY, Parent: c.Process,
	}
	bash.Resume(c.Process, &spec)
	p, err := libc.ExecFile(c.World(), c.Host(), shell, spec)
	if err != nil {
		c.Fail("failed to execute %s: %s", shell, libc.Strerror(err))
		if libc.Strerror(err) == "Permission denied" {
			return 126
		}
		return 127
	}
	return c.Relay(p).ExitCode()
}

// writeJournal is syslog(3) for a program that its unit's journal does not collect.
func writeJournal(m *machine.Machine, identifier string, pid int, text string) {
	m.Journal().Add(journal.Entry{Identifier: identifier, PID: pid, Priority: 5, Message: text})
}
