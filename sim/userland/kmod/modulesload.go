package kmod

import (
	"errors"
	"strings"
	"syscall"

	"ckadrill/sim/userland/libc"
)

// modulesLoad is systemd-modules-load: it loads what the files in modules-load.d name, at boot.
func modulesLoad(c *libc.Prog) int {
	_, operands, ok := c.Options("")
	if !ok {
		return c.Status
	}
	say := func(format string, a ...any) { c.Errorf(format+"\n", a...) }
	files := operands
	if len(files) == 0 {
		files = libc.ConfigFiles(c.Files, "modules-load.d")
	}
	m, l, status := target(c), open(c.Files, release(c)), 0
	for _, f := range files {
		b, err := c.Files.ReadFile(c.Path(f))
		if err != nil {
			say("Failed to open %s: %s", f, libc.Strerror(err))
			status = 1
			continue
		}
		for line := range strings.Lines(string(b)) {
			name := strings.TrimSpace(line)
			if name == "" || name[0] == '#' || name[0] == ';' {
				continue
			}
			found, _ := l.lookup(name)
			if len(found) == 0 {
				say("Failed to find module '%s'", name)
				status = 1
			}
			for _, n := range found {
				switch {
				case l.denied[n]:
					say("Module '%s' is deny-listed", n)
					continue
				case l.builtin[n] || m != nil && m.Modules().Loaded(n):
					continue
				}
				err := error(syscall.EPERM)
				if command := l.install[n]; command != "" {
					if err = nil; c.Run([]string{"/bin/sh", "-c", command}) != 0 {
						err = syscall.EINVAL
					}
				} else if m != nil && c.Cred.UID == 0 {
					for _, x := range l.order(n) {
						if err = l.insert(m, l.file[x]); err != nil && !errors.Is(err, syscall.EEXIST) {
							break
						}
						err = nil
					}
				}
				if err != nil {
					say("Failed to insert module '%s': %s", n, libc.Strerror(err))
					status = 1
					continue
				}
				say("Inserted module '%s'", n)
			}
		}
	}
	return status
}
