package procps

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// sysctl reads and writes the kernel's settings through the files of /proc/sys.
func sysctl(c *libc.Prog) int {
	opts, operands, ok := c.Options("aAbeNnqwp::r:X", "all|a", "system", "load::|p", "ignore|e", "names|N", "values|n", "quiet|q", "write|w", "pattern:|r", "binary|b", "dry-run")
	if !ok {
		return c.Status
	}
	s := &settings{c: c}
	all, system, load, file := false, false, false, ""
	for _, o := range opts {
		switch o.Name {
		case "a", "A", "X":
			all = true
		case "system":
			system = true
		case "p":
			load, file = true, o.Value
		case "e":
			s.ignore = true
		case "N":
			s.namesOnly = true
		case "n", "b":
			s.valuesOnly = true
		case "q":
			s.quiet = true
		case "w":
			s.write = true
		}
	}
	switch {
	case system:
		for _, f := range append(machine.SettingFiles(c.Files), "/etc/sysctl.conf") {
			if _, err := c.Files.Stat(f); err != nil {
				continue
			}
			c.Put("* Applying %s ...\n", f)
			s.load(f)
		}
		return c.Status
	case load:
		files := operands
		if file != "" {
			files = append([]string{file}, files...)
		}
		if len(files) == 0 {
			files = []string{"/etc/sysctl.conf"}
		}
		for _, f := range files {
			s.load(f)
		}
		return c.Status
	case all:
		s.list("/proc/sys")
		return c.Status
	case len(operands) == 0:
		c.Errorf("\nUsage:\n sysctl [options] [variable[=value] ...]\n\nFor more details see sysctl(8).\n")
		return 1
	}
	for _, a := range operands {
		if name, value, ok := strings.Cut(a, "="); ok {
			s.set(strings.TrimSpace(name), strings.TrimSpace(value))
		} else if s.write {
			c.Fail("\"%s\" must be of the form name=value", a)
		} else {
			s.get(a)
		}
	}
	return c.Status
}

type settings struct {
	c                                           *libc.Prog
	ignore, namesOnly, valuesOnly, quiet, write bool
}

// dotted turns a name with slashes into one with dots; the first separator says which is meant.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}

func settingFile(name string) string {
	return "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(dotted(name))
}

func (s *settings) missing(name string) {
	if s.ignore {
		return
	}
	if s.c.Busybox {
		s.c.Fail("error: '%s' is an unknown key", name)
		return
	}
	s.c.Fail("cannot stat %s: No such file or directory", settingFile(name))
}

func (s *settings) show(name, value string) {
	switch {
	case s.namesOnly:
		s.c.Put("%s\n", name)
	case s.valuesOnly:
		s.c.Put("%s\n", value)
	default:
		s.c.Put("%s = %s\n", name, value)
	}
}

func (s *settings) get(name string) {
	f := settingFile(name)
	i, err := s.c.Files.Stat(f)
	if err != nil {
		s.missing(name)
		return
	}
	if i.IsDir() {
		s.list(f)
		return
	}
	b, err := s.c.Files.ReadFile(f)
	if err != nil {
		s.c.Fail("permission denied on key '%s'", dotted(name))
		return
	}
	s.show(dotted(name), strings.TrimRight(string(b), "\n"))
}

func (s *settings) set(name, value string) {
	f := settingFile(name)
	i, err := s.c.Files.Stat(f)
	if err != nil || i.IsDir() {
		s.missing(name)
		return
	}
	w, err := s.c.Files.OpenFile(f, os.O_WRONLY, 0)
	if err == nil {
		_, err = w.Write([]byte(value + "\n"))
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission) && !s.ignore:
		s.c.Fail("permission denied on key \"%s\"", dotted(name))
	case err != nil:
		s.c.Fail("setting key \"%s\": %s", dotted(name), libc.Strerror(err))
	case !s.quiet:
		s.show(dotted(name), value)
	}
}

func (s *settings) load(file string) {
	b, err := s.c.InputAll(file)
	if err != nil {
		s.c.Fail("cannot open \"%s\": %s", file, libc.Strerror(err))
		return
	}
	for n, l := range strings.Split(string(b), "\n") {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' || l[0] == ';' {
			continue
		}
		quietly := strings.HasPrefix(l, "-")
		name, value, ok := strings.Cut(strings.TrimPrefix(l, "-"), "=")
		if !ok {
			s.c.Warn("%s(%d): invalid syntax, continuing...", file, n+1)
			continue
		}
		one := *s
		one.ignore = s.ignore || quietly
		one.set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
}

// list shows all settings below a directory of /proc/sys.
func (s *settings) list(dir string) {
	l, err := s.c.Files.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range l {
		f := path.Join(dir, e.Name())
		if e.IsDir() {
			s.list(f)
			continue
		}
		b, err := s.c.Files.ReadFile(f)
		if err != nil {
			continue
		}
		s.show(strings.NewReplacer("/", ".", ".", "/").Replace(strings.TrimPrefix(f, "/proc/sys/")), strings.TrimRight(string(b), "\n"))
	}
}
