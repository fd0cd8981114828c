package procps

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"ckadrill/sim/userland/libc"
)

// systemdSysctl is systemd-sysctl: it sets at boot what the files in sysctl.d say, the last value for a name, in the order of
// names' first appearance. A setting that is not there is no failure.
func systemdSysctl(c *libc.Prog) int {
	opts, files, ok := c.Options("", "prefix:", "strict", "cat-config", "no-pager")
	if !ok {
		return c.Status
	}
	var prefixes []string
	strict := false
	for _, o := range opts {
		switch o.Name {
		case "prefix":
			prefixes = append(prefixes, settingFile(strings.TrimPrefix(o.Value, sysctlRoot)))
		case "strict":
			strict = true
		case "cat-config":
			return c.Fail("ckadrill does not simulate systemd-sysctl --%s", o.Name)
		}
	}
	if len(files) == 0 {
		files = libc.ConfigFiles(c.Files, "sysctl.d")
	}
	say := func(format string, a ...any) { c.Errorf(format+"\n", a...) }
	s := &settings{c: c}
	for _, f := range files {
		b, err := c.Files.ReadFile(c.Path(f))
		if err != nil {
			say("Failed to open file '%s': %s", f, libc.Strerror(err))
			c.Status = 1
			continue
		}
		for n, line := range strings.Split(string(b), "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			name, value, ok := strings.Cut(line, "=")
			name, tolerant := strings.CutPrefix(strings.TrimSpace(name), "-")
			switch {
			case !ok && tolerant:
				s.kept = append(s.kept, settingFile(name))
			case !ok:
				say("%s:%d: Line is not an assignment, ignoring: %s", f, n+1, line)
				c.Status = 1
			default:
				s.take(assignment{name, strings.TrimSpace(value), tolerant})
			}
		}
	}
	for _, a := range s.todo {
		names := []string{settingFile(a.name)}
		if strings.ContainsAny(a.name, "*?[") {
			names = nil
			for _, f := range expand(c, settingFile(a.name)) {
				if !s.named(f) {
					names = append(names, f)
				}
			}
		}
		for _, f := range names {
			if len(prefixes) > 0 && !below(f, prefixes) {
				continue
			}
			err := write(c, f, a.value)
			key := strings.TrimPrefix(f, sysctlRoot)
			switch {
			case err == nil:
			case errors.Is(err, fs.ErrNotExist) && !strict, a.tolerant, errors.Is(err, fs.ErrPermission):
				say("Couldn't write '%s' to '%s', ignoring: %s", a.value, key, libc.Strerror(err))
			default:
				say("Couldn't write '%s' to '%s': %s", a.value, key, libc.Strerror(err))
				c.Status = 1
			}
		}
	}
	return c.Status
}

// take adds an assignment, which takes the place of one for the same name.
func (s *settings) take(a assignment) {
	for i, o := range s.todo {
		if settingFile(o.name) == settingFile(a.name) {
			s.todo[i] = a
			return
		}
	}
	s.todo = append(s.todo, a)
}

// named says whether a file is excluded from patterns: it has an assignment of its own, or a line "-name".
func (s *settings) named(file string) bool {
	for _, o := range s.todo {
		if settingFile(o.name) == file {
			return true
		}
	}
	for _, k := range s.kept {
		if k == file {
			return true
		}
	}
	return false
}

func below(file string, prefixes []string) bool {
	for _, p := range prefixes {
		if file == p || strings.HasPrefix(file, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// write writes a setting's file.
func write(c *libc.Prog, file, value string) error {
	w, err := c.Files.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte(value + "\n"))
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
