package kmod

import (
	"path"
	"slices"
	"strings"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// library is what libkmod knows of a release's modules.
type library struct {
	files   kernel.Files
	dir     string            // /lib/modules/RELEASE
	file    map[string]string // by name, absolute
	needs   map[string][]string
	builtin map[string]bool
	aliases [][2]string // pattern, module
	denied  map[string]bool
	install map[string]string // commands instead of loading
	remove  map[string]string
	options map[string]string
}

// release is the kernel's, as uname says it.
func release(c *libc.Prog) string {
	b, _ := c.Files.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

// spelled is a module's name: a dash in it is an underscore.
func spelled(name string) string { return strings.ReplaceAll(name, "-", "_") }

// nameOf is the name of the module in a file.
func nameOf(file string) string {
	n, _, _ := strings.Cut(path.Base(file), ".")
	return spelled(n)
}

func open(files kernel.Files, release string) *library {
	l := &library{files: files, dir: "/lib/modules/" + release, file: map[string]string{}, needs: map[string][]string{}, builtin: map[string]bool{}, denied: map[string]bool{},
		install: map[string]string{}, remove: map[string]string{}, options: map[string]string{}}
	for line := range l.lines("modules.dep") {
		f, deps, _ := strings.Cut(line, ":")
		n := nameOf(f)
		l.file[n] = path.Join(l.dir, f)
		for _, d := range strings.Fields(deps) {
			l.needs[n] = append(l.needs[n], nameOf(d))
		}
	}
	for line := range l.lines("modules.builtin") {
		l.builtin[nameOf(line)] = true
	}
	for _, f := range append(libc.ConfigFiles(files, "modprobe.d"), path.Join(l.dir, "modules.alias")) {
		l.configure(f)
	}
	return l
}

// lines are those of a file in the release's directory.
func (l *library) lines(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		b, err := l.files.ReadFile(path.Join(l.dir, name))
		if err != nil {
			return
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !yield(line) {
				return
			}
		}
	}
}

// configure reads a file in the form of modprobe.d(5).
func (l *library) configure(name string) {
	b, err := l.files.ReadFile(name)
	if err != nil {
		return
	}
	for line := range strings.Lines(strings.ReplaceAll(string(b), "\\\n", " ")) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		rest := strings.Join(f[2:], " ")
		switch f[0] {
		case "alias":
			if len(f) > 2 {
				l.aliases = append(l.aliases, [2]string{spelled(f[1]), spelled(f[2])})
			}
		case "blacklist":
			l.denied[spelled(f[1])] = true
		case "install":
			l.install[spelled(f[1])] = rest
		case "remove":
			l.remove[spelled(f[1])] = rest
		case "options":
			l.options[spelled(f[1])] += " " + rest
		}
	}
}

// lookup finds the modules that a name or alias stands for. byAlias says that it was an alias.
func (l *library) lookup(name string) (found []string, byAlias bool) {
	name = spelled(name)
	if l.file[name] != "" || l.builtin[name] || l.install[name] != "" {
		return []string{name}, false
	}
	for _, a := range l.aliases {
		if libc.NewGlob(a[0], false).Match(name) && !slices.Contains(found, a[1]) {
			found = append(found, a[1])
		}
	}
	return found, len(found) > 0
}

// order lists what is to be loaded for a module, itself last.
func (l *library) order(name string) []string {
	o := slices.Clone(l.needs[name])
	slices.Reverse(o)
	return append(o, name)
}

// insert loads one module from its file. Its errors are init_module(2)'s, and ENOENT where the file is missing.
func (l *library) insert(m *machine.Machine, file string) error {
	b, err := l.files.ReadFile(file)
	if err != nil {
		return err
	}
	n, ok := machine.ModuleOf(b)
	if !ok {
		return syscall.ENOEXEC
	}
	return m.Modules().Load(n)
}

// loadError is the library's text for an error of init_module(2).
func loadError(err error) string {
	switch {
	case libc.Strerror(err) == libc.Strerror(syscall.ENOENT):
		return "Unknown symbol in module, or unknown parameter (see dmesg)"
	case libc.Strerror(err) == libc.Strerror(syscall.ENOEXEC):
		return "Invalid module format"
	}
	return libc.Strerror(err)
}

// target is the machine whose kernel the process runs on, nil where it may not touch that.
func target(c *libc.Prog) *machine.Machine {
	if c.Container != "" {
		return nil
	}
	return machine.Of(c.Host())
}
