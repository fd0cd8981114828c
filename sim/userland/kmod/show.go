package kmod

import (
	"path"
	"strings"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// lsmod is /proc/modules as a table.
func lsmod(c *libc.Prog) int {
	b, err := c.Files.ReadFile("/proc/modules")
	if err != nil {
		return c.Fail("ERROR: could not get list of modules: %s", libc.Strerror(err))
	}
	c.Put("Module                  Size  Used by\n")
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		by := ""
		if f[3] != "-" {
			by = " " + strings.TrimSuffix(f[3], ",")
		}
		c.Put("%-19s %8s  %s%s\n", f[0], f[1], f[2], by)
	}
	return 0
}

// modinfo tells what a module's file says of itself.
func modinfo(c *libc.Prog) int {
	opts, operands, ok := c.Options("ad:lpn0F:k:b:V", "author|a", "description|d", "license|l", "parameters|p", "filename|n", "field:|F", "set-version:|k")
	if !ok {
		return c.Status
	}
	field := ""
	for _, o := range opts {
		switch o.Name {
		case "F":
			field = o.Value
		case "n":
			field = "filename"
		case "l":
			field = "license"
		case "p", "a", "d":
			return c.Fail("ckadrill does not simulate modinfo -%s", o.Name)
		}
	}
	if len(operands) == 0 {
		return c.Fail("ERROR: missing module or filename.")
	}
	r := release(c)
	l := open(c.Files, r)
	for _, o := range operands {
		found, _ := l.lookup(o)
		if len(found) == 0 {
			c.Fail("ERROR: Module %s not found.", o)
			continue
		}
		for _, n := range found {
			file := l.file[n]
			if l.builtin[n] {
				file = "(builtin)"
			}
			for _, f := range [][2]string{{"filename", file}, {"license", "GPL"}, {"depends", strings.Join(machine.ModuleNeeds(n), ",")}, {"retpoline", "Y"}, {"intree", "Y"}, {"name", n}, {"vermagic", r + " SMP preempt mod_unload modversions "}} {
				switch {
				case field == f[0]:
					c.Put("%s\n", f[1])
				case field == "":
					c.Put("%-15s %s\n", f[0]+":", f[1])
				}
			}
		}
	}
	return c.Status
}

// depmod writes modules.dep anew from the modules that lie below the release's directory.
func depmod(c *libc.Prog) int {
	_, operands, ok := c.Options("aAeEnvwb:F:P:C:", "all|a", "quick|A", "basedir:|b")
	if !ok {
		return c.Status
	}
	r := release(c)
	if len(operands) > 0 {
		r = operands[0]
	}
	dir := "/lib/modules/" + r
	files := map[string]string{}
	var names []string
	var walk func(string)
	walk = func(d string) {
		l, err := c.Files.ReadDir(path.Join(dir, d))
		if err != nil {
			return
		}
		for _, e := range l {
			name := path.Join(d, e.Name())
			if e.IsDir() {
				walk(name)
				continue
			}
			if b, err := c.Files.ReadFile(path.Join(dir, name)); err == nil {
				if n, ok := machine.ModuleOf(b); ok {
					files[n] = name
					names = append(names, n)
				}
			}
		}
	}
	walk("kernel")
	walk("updates")
	var b strings.Builder
	for _, n := range names {
		b.WriteString(files[n] + ":")
		for _, x := range machine.ModuleNeedsAll(n) {
			if f, ok := files[x]; ok {
				b.WriteString(" " + f)
			}
		}
		b.WriteString("\n")
	}
	if err := c.Files.WriteFile(path.Join(dir, "modules.dep"), []byte(b.String()), 0o644); err != nil {
		return c.Fail("ERROR: openat(%s, modules.dep, %x, %o): %s", dir, 0o1101, 0o644, libc.Strerror(err))
	}
	return 0
}
