package procps

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

const sysctlRoot = "/proc/sys/"

// sysctl reads and writes the kernel's settings through the files of /proc/sys.
func sysctl(c *libc.Prog) int {
	opts, operands, ok := c.Options("aAbeNnqwp::f::r:Xoxd", "all|a", "system", "load::|p", "ignore|e", "names|N", "values|n", "quiet|q", "write|w", "pattern:|r", "binary|b", "dry-run")
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
		case "p", "f":
			load, file = true, o.Value
		case "e":
			s.ignore = true
		case "N":
			s.namesOnly = true
		case "n":
			s.valuesOnly = true
		case "b":
			s.valuesOnly, s.binary = true, true
		case "q":
			s.quiet = true
		case "w":
			s.write = true
		case "dry-run":
			s.dryRun = true
		case "r":
			re, err := regex.Compile(o.Value, regex.Flags{Extended: true})
			if err != nil {
				return c.Fail("%s", err)
			}
			s.pattern = re
		}
	}
	switch {
	case system:
		for _, f := range append(libc.ConfigFiles(c.Files, "sysctl.d"), "/etc/sysctl.conf") {
			if _, err := c.Files.Stat(f); err != nil {
				continue
			}
			if !s.quiet {
				c.Put("* Applying %s ...\n", f)
			}
			s.read(f)
		}
		s.apply()
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
			s.read(f)
		}
		s.apply()
		return c.Status
	case all:
		s.list(sysctlRoot)
		return c.Status
	case len(operands) == 0:
		c.Errorf("\nUsage:\n sysctl [options] [variable[=value] ...]\n\nFor more details see sysctl(8).\n")
		return 1
	}
	for _, a := range operands {
		if s.write || strings.Contains(a, "=") {
			if !s.parse("command line", 0, a) {
				c.Status = 1
			}
		} else {
			s.get(a)
		}
	}
	s.apply()
	return c.Status
}

// assignment is a line of a file, or an operand.
type assignment struct {
	name, value string
	tolerant    bool // "-": a failure does not count
}

type settings struct {
	c                                                           *libc.Prog
	ignore, namesOnly, valuesOnly, binary, quiet, write, dryRun bool
	pattern                                                     *regex.Regexp
	todo                                                        []assignment
	kept                                                        []string // "-name": globs leave these out
}

// dotted turns a name with slashes into one with dots; the first separator says which is meant.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}

func settingFile(name string) string {
	return sysctlRoot + strings.NewReplacer(".", "/", "/", ".").Replace(dotted(name))
}

func settingName(file string) string {
	return strings.NewReplacer("/", ".", ".", "/").Replace(strings.TrimPrefix(file, sysctlRoot))
}

func (s *settings) missing(name string, tolerant bool) {
	switch {
	case s.ignore:
	case s.c.Busybox:
		s.c.Fail("error: '%s' is an unknown key", name)
	case tolerant:
		s.c.Warn("cannot stat %s: No such file or directory", settingFile(name))
	default:
		s.c.Fail("cannot stat %s: No such file or directory", settingFile(name))
	}
}

func (s *settings) show(name, value string) {
	switch {
	case s.namesOnly:
		s.c.Put("%s\n", name)
	case s.binary:
		s.c.Put("%s", value)
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
		s.missing(name, false)
		return
	}
	if i.IsDir() {
		s.list(f)
		return
	}
	s.print(f, i.Mode())
}

// print shows one setting by its file.
func (s *settings) print(file string, mode fs.FileMode) {
	name := settingName(file)
	if s.pattern != nil && !s.pattern.MatchString(name) {
		return
	}
	b, err := s.c.Files.ReadFile(file)
	if err != nil || mode&0o400 == 0 {
		s.c.Fail("permission denied on key '%s'", name)
		return
	}
	for _, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		s.show(name, line)
	}
}

// parse takes up one "name=value".
func (s *settings) parse(where string, line int, text string) bool {
	text = strings.TrimSpace(text)
	name, value, ok := strings.Cut(text, "=")
	name, tolerant := strings.CutPrefix(strings.TrimSpace(name), "-")
	if !ok {
		if tolerant && name != "" {
			s.kept = append(s.kept, settingFile(name))
			return true
		}
		s.c.Warn("%s(%d): invalid syntax, continuing...", where, line)
		return false
	}
	s.todo = append(s.todo, assignment{strings.TrimSpace(name), strings.TrimSpace(value), tolerant})
	return true
}

// read takes up a file's assignments.
func (s *settings) read(file string) {
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
		s.parse(file, n+1, l)
	}
}

// apply does what was read, in order. A name may be a pattern.
func (s *settings) apply() {
	for _, a := range s.todo {
		if !strings.ContainsAny(a.name, "*?[") {
			s.set(settingFile(a.name), a)
			continue
		}
		for _, f := range expand(s.c, settingFile(a.name)) {
			if !s.named(f) {
				s.set(f, a)
			}
		}
	}
	s.todo = nil
}

// expand lists the files that a pattern of a path matches, sorted.
func expand(c *libc.Prog, pattern string) []string {
	found := []string{"/"}
	for _, part := range strings.Split(strings.Trim(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			l, err := c.Files.ReadDir(dir)
			if err != nil {
				continue
			}
			g := libc.NewGlob(part, false)
			for _, e := range l {
				if g.Match(e.Name()) {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	return found
}

func (s *settings) set(f string, a assignment) {
	name := settingName(f)
	i, err := s.c.Files.Stat(f)
	if err != nil || i.IsDir() {
		s.missing(a.name, a.tolerant)
		return
	}
	if s.pattern != nil && !s.pattern.MatchString(name) {
		return
	}
	fail := s.c.Fail
	if s.ignore || a.tolerant {
		fail = func(format string, x ...any) int {
			if !s.ignore {
				s.c.Warn(format, x...)
			}
			return 0
		}
	}
	if i.Mode()&0o200 == 0 {
		fail("setting key \"%s\": Read-only file system", name)
		return
	}
	if !s.dryRun {
		err = write(s.c, f, a.value)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		fail("permission denied on key \"%s\"", name)
	case err != nil:
		fail("setting key \"%s\": %s", name, libc.Strerror(err))
	case !s.quiet:
		s.show(name, a.value)
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
		if i, err := e.Info(); err == nil && i.Mode()&0o400 != 0 {
			s.print(f, i.Mode())
		}
	}
}
