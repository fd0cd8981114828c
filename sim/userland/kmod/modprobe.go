package kmod

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// probe is one run of modprobe.
type probe struct {
	c                                             *libc.Prog
	l                                             *library
	quiet, dryRun, verbose, show, first, denylist bool
}

// modprobe loads a module and what it needs, or removes it. What follows the name are parameters of the module, not modules.
func modprobe(c *libc.Prog) int {
	opts, operands, ok := c.Options("abfinqrvDS:d:C:s", "all|a", "remove|r", "dry-run|n", "show|n", "quiet|q", "verbose|v", "first-time", "show-depends|D", "use-blacklist|b", "set-version:|S", "ignore-install|i", "force|f")
	if !ok {
		return c.Status
	}
	p, remove, all, ignore := &probe{c: c}, false, false, false
	version := release(c)
	for _, o := range opts {
		switch o.Name {
		case "q":
			p.quiet = true
		case "r":
			remove = true
		case "a":
			all = true
		case "n":
			p.dryRun = true
		case "v":
			p.verbose = true
		case "first-time":
			p.first = true
		case "D":
			p.show = true
		case "b":
			p.denylist = true
		case "i":
			ignore = true
		case "S":
			version = o.Value
		}
	}
	if len(operands) == 0 {
		c.Errorf("modprobe: ERROR: missing parameters. See -h.\n")
		return 1
	}
	if c.Busybox && c.Container != "" {
		return c.Fail("can't change directory to '/lib/modules': No such file or directory")
	}
	p.l = open(c.Files, version)
	if ignore {
		clear(p.l.install)
		clear(p.l.remove)
	}
	if !all && !remove {
		operands = operands[:1]
	}
	for _, n := range operands {
		if remove {
			p.remove(n)
		} else {
			p.insert(n)
		}
	}
	return c.Status
}

func (p *probe) fail(kind, format string, a ...any) {
	if !p.quiet {
		p.c.Warn(kind+": "+format, a...)
	}
	p.c.Status = 1
}

func (p *probe) insert(name string) {
	found, byAlias := p.l.lookup(name)
	if byAlias || p.denylist {
		all := len(found)
		found = slices.DeleteFunc(found, func(n string) bool { return p.l.denied[n] })
		if all > 0 && len(found) == 0 {
			return
		}
	}
	if len(found) == 0 {
		p.fail("FATAL", "Module %s not found in directory %s", name, p.l.dir)
		return
	}
	for _, n := range found {
		p.load(n)
	}
}

func (p *probe) load(name string) {
	m := target(p.c)
	if p.l.builtin[name] {
		switch {
		case p.show:
			p.c.Put("builtin %s\n", name)
		case p.first:
			p.fail("ERROR", "could not insert '%s': Module already in kernel", name)
		}
		return
	}
	if command := p.l.install[name]; command != "" {
		p.run("install", name, command)
		return
	}
	if m != nil && m.Modules().Loaded(name) && !p.show {
		if p.first {
			p.fail("ERROR", "could not insert '%s': Module already in kernel", name)
		}
		return
	}
	for _, n := range p.l.order(name) {
		if m != nil && m.Modules().Loaded(n) && !p.show {
			continue
		}
		if command := p.l.install[n]; command != "" && n != name {
			p.run("install", n, command)
			continue
		}
		if p.show || p.verbose {
			p.c.Put("insmod %s%s \n", p.l.file[n], p.l.options[n])
		}
		if p.show || p.dryRun {
			continue
		}
		err := error(syscall.EPERM)
		if m != nil && p.c.Cred.UID == 0 {
			err = p.l.insert(m, p.l.file[n])
		}
		if err != nil && !errors.Is(err, syscall.EEXIST) {
			p.fail("ERROR", "could not insert '%s': %s", name, loadError(err))
			return
		}
	}
}

// run runs the command that modprobe.d has in a module's place.
func (p *probe) run(kind, name, command string) {
	if p.show || p.verbose {
		p.c.Put("%s %s\n", kind, command)
	}
	if p.show || p.dryRun {
		return
	}
	p.c.Out.Flush()
	if st := p.c.Run([]string{"/bin/sh", "-c", command}); st != 0 {
		p.fail("ERROR", "Error running %s command '%s' for module %s: retcode %d", kind, command, name, st)
	}
}

// remove removes a module, and what only it has needed.
func (p *probe) remove(name string) {
	found, _ := p.l.lookup(name)
	if len(found) == 0 {
		found = []string{spelled(name)}
	}
	m := target(p.c)
	for _, n := range found {
		if command := p.l.remove[n]; command != "" {
			p.run("remove", n, command)
			continue
		}
		x, loaded := state(m, n)
		switch {
		case p.l.builtin[n]:
			p.fail("FATAL", "Module %s is builtin.", n)
			continue
		case !loaded && p.l.file[n] == "":
			p.fail("FATAL", "Module %s not found.", name)
			continue
		case !loaded:
			if p.first {
				p.fail("FATAL", "Module %s is not in kernel.", n)
			}
			continue
		case x.Uses > 0:
			p.fail("FATAL", "Module %s is in use.", n)
			continue
		}
		if !p.unload(m, n) {
			continue
		}
		for _, need := range p.l.needs[n] {
			if x, loaded := state(m, need); loaded && x.Uses == 0 {
				p.unload(m, need)
			}
		}
	}
}

func (p *probe) unload(m *machine.Machine, name string) bool {
	if p.verbose {
		p.c.Put("rmmod %s\n", name)
	}
	if p.dryRun {
		return false
	}
	err := error(syscall.EPERM)
	if m != nil && p.c.Cred.UID == 0 {
		err = m.Modules().Unload(name)
	}
	if err != nil {
		p.fail("ERROR", "could not remove '%s': %s", name, libc.Strerror(err))
	}
	return err == nil
}

// state finds a loaded module.
func state(m *machine.Machine, name string) (machine.Module, bool) {
	if m == nil {
		return machine.Module{}, false
	}
	for _, x := range m.Modules().List() {
		if x.Name == name {
			return x, true
		}
	}
	return machine.Module{}, false
}

// rmmod removes modules, nothing else.
func rmmod(c *libc.Prog) int {
	opts, operands, ok := c.Options("fsv", "force|f", "syslog|s", "verbose|v")
	if !ok {
		return c.Status
	}
	verbose := slices.ContainsFunc(opts, func(o libc.Opt) bool { return o.Name == "v" })
	if len(operands) == 0 {
		return c.Fail("ERROR: missing module name.")
	}
	m, l := target(c), open(c.Files, release(c))
	for _, o := range operands {
		n := nameOf(o)
		x, loaded := state(m, n)
		switch {
		case l.builtin[n]:
			c.Fail("ERROR: Module %s is builtin.", n)
			continue
		case !loaded:
			c.Fail("ERROR: Module %s is not currently loaded", n)
			continue
		case len(x.By) > 0:
			c.Fail("ERROR: Module %s is in use by: %s", n, strings.Join(x.By, " "))
			continue
		case x.Uses > 0:
			c.Fail("ERROR: Module %s is in use", n)
			continue
		}
		if verbose {
			c.Put("rmmod %s\n", n)
		}
		err := error(syscall.EPERM)
		if c.Cred.UID == 0 {
			err = m.Modules().Unload(n)
		}
		if err != nil {
			c.Warn("ERROR: ../libkmod/libkmod-module.c:850 kmod_module_remove_module() could not remove '%s': %s", n, libc.Strerror(err))
			c.Fail("ERROR: could not remove module %s: %s", n, libc.Strerror(err))
		}
	}
	return c.Status
}

// insmod loads a module from a file, without what it needs.
func insmod(c *libc.Prog) int {
	_, operands, ok := c.Options("+fsv")
	if !ok {
		return c.Status
	}
	if len(operands) == 0 {
		return c.Fail("ERROR: missing filename.")
	}
	m, l := target(c), open(c.Files, release(c))
	if _, err := c.Files.Stat(c.Path(operands[0])); err != nil {
		return c.Fail("ERROR: could not load module %s: %s", operands[0], libc.Strerror(err))
	}
	err := error(syscall.EPERM)
	if m != nil && c.Cred.UID == 0 {
		err = l.insert(m, c.Path(operands[0]))
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return c.Fail("ERROR: could not insert module %s: Unknown symbol in module", operands[0])
	case err != nil:
		return c.Fail("ERROR: could not insert module %s: %s", operands[0], loadError(err))
	}
	return 0
}
