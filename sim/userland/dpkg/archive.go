package dpkg

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

func debFail(c *libc.Prog, format string, a ...any) int {
	c.Out.Flush()
	c.Errorf("dpkg-deb: error: "+format+"\n", a...)
	return statusFatal
}

// dpkgDeb shows what is in an archive, or unpacks it somewhere.
func dpkgDeb(c *libc.Prog) int {
	action := ""
	var operands []string
	long := map[string]string{"--contents": "c", "--info": "I", "--field": "f", "--extract": "x", "--vextract": "X", "--control": "e", "--build": "b"}
	for _, a := range c.Args {
		switch {
		case a == "--help" || a == "--version":
			return about(c, a[2:])
		case long[a] != "":
			action = long[a]
		case len(a) == 2 && a[0] == '-' && debActions[a[1]] != "":
			action = a[1:]
		case len(a) > 1 && a[0] == '-':
			return debFail(c, "unknown option %s", a)
		default:
			operands = append(operands, a)
		}
	}
	switch {
	case action == "":
		return debFail(c, "need an action option\n\nType dpkg-deb --help for help about manipulating *.deb files;\nType dpkg --help for help about installing and deinstalling packages.")
	case action == "b" && len(operands) == 0:
		return debFail(c, "--build needs a <directory> argument")
	case action == "b":
		return build(c, operands)
	case len(operands) == 0:
		return debFail(c, "--%s needs a .deb filename argument", debActions[action[0]])
	}
	file := operands[0]
	b, err := c.InputAll(file)
	if err != nil {
		return debFail(c, "failed to read archive '%s': %s", file, libc.Strerror(err))
	}
	p, err := deb.Read(b)
	if errors.Is(err, deb.ErrFormat) {
		return debFail(c, "'%s' is not a Debian format archive", file)
	}
	if err != nil {
		return debFail(c, "archive '%s': %s", file, err)
	}
	switch action {
	case "c":
		for _, e := range p.Entries {
			name := "." + e.Path
			if e.Mode.IsDir() {
				name += "/"
			}
			if e.Mode&fs.ModeSymlink != 0 {
				name += " -> " + e.Target
			}
			c.Put("%s root/root %9d %s %s\n", libc.ModeString(e.Mode), len(e.Content), e.Time.UTC().Format("2006-01-02 15:04"), name)
		}
	case "I":
		c.Put(" new Debian package, version 2.0.\n size %d bytes: control archive=%d bytes.\n", len(b), len(p.Control.String()))
		for line := range strings.Lines(p.Control.String()) {
			c.Put(" %s", line)
		}
	case "f":
		if len(operands) == 1 {
			c.Put("%s", p.Control.String())
		}
		for _, f := range operands[1:] {
			v := p.Control.Get(f)
			if len(operands) > 2 {
				v = f + ": " + v
			}
			c.Put("%s\n", v)
		}
	case "x", "X":
		if len(operands) < 2 {
			return debFail(c, "--%s needs a target directory.\nPerhaps you should be using dpkg --install ?", debActions[action[0]])
		}
		return extractTo(c, p, c.Path(operands[1]), action == "X")
	case "e":
		dir := "DEBIAN"
		if len(operands) > 1 {
			dir = operands[1]
		}
		dir = c.Path(dir)
		if err := c.Files.MkdirAll(dir, 0o755); err != nil {
			return debFail(c, "failed to create '%s': %s", dir, libc.Strerror(err))
		}
		p.Info["control"] = p.Control.String()
		for _, n := range slices.Sorted(maps.Keys(p.Info)) {
			text, mode := p.Info[n], fs.FileMode(0o644)
			if strings.HasPrefix(text, "#!") {
				mode = 0o755
			}
			if err := c.Files.WriteFile(path.Join(dir, n), []byte(text), mode); err != nil {
				return debFail(c, "%s: %s", n, libc.Strerror(err))
			}
		}
	}
	return 0
}

func extractTo(c *libc.Prog, p *deb.Package, dir string, verbose bool) int {
	m := &manager{c: c}
	for _, e := range p.Entries {
		if verbose {
			c.Put(".%s\n", e.Path)
		}
		e.Path = path.Join(dir, e.Path)
		if err := m.extractOne(e, false); err != nil {
			return debFail(c, "tar: .%s: Cannot open: %s", e.Path, libc.Strerror(err))
		}
	}
	return 0
}

// build makes an archive of a directory.
func build(c *libc.Prog, operands []string) int {
	dir := c.Path(operands[0])
	p := &deb.Package{Info: map[string]string{}}
	b, err := c.Files.ReadFile(path.Join(dir, "DEBIAN/control"))
	if err != nil {
		return debFail(c, "failed to open package info file '%s/DEBIAN/control' for reading: %s", operands[0], libc.Strerror(err))
	}
	l, err := deb.Parse(string(b))
	if err != nil {
		return debFail(c, "parsing file '%s/DEBIAN/control': %s", operands[0], err)
	}
	if len(l) > 0 {
		p.Control = l[0]
	}
	for _, f := range []string{"Package", "Version", "Architecture", "Maintainer", "Description"} {
		if p.Control.Get(f) == "" {
			return debFail(c, "parsing file '%s/DEBIAN/control' near line %d package '%s':\n missing '%s' field", operands[0], strings.Count(string(b), "\n"), p.Name(), f)
		}
	}
	info, err := c.Files.ReadDir(path.Join(dir, "DEBIAN"))
	for _, e := range info {
		if text, rerr := c.Files.ReadFile(path.Join(dir, "DEBIAN", e.Name())); e.Name() != "control" && rerr == nil {
			p.Info[e.Name()] = string(text)
		}
	}
	if err == nil {
		err = collect(c, p, dir, "/")
	}
	if err != nil {
		return debFail(c, "%s", libc.Strerror(err))
	}
	out := strings.TrimRight(operands[0], "/") + ".deb"
	if len(operands) > 1 {
		out = operands[1]
		if i, err := c.Files.Stat(c.Path(out)); err == nil && i.IsDir() {
			out = strings.TrimRight(out, "/") + "/" + p.FileName()
		}
	}
	c.Put("dpkg-deb: building package '%s' in '%s'.\n", p.Name(), out)
	if err := c.Files.WriteFile(c.Path(out), p.Write(time.Now()), 0o644); err != nil {
		return debFail(c, "unable to create '%s': %s", out, libc.Strerror(err))
	}
	return 0
}

// collect takes the files below a directory up into a package.
func collect(c *libc.Prog, p *deb.Package, dir, below string) error {
	l, err := c.Files.ReadDir(path.Join(dir, below))
	if err != nil {
		return err
	}
	for _, d := range l {
		name := path.Join(below, d.Name())
		if name == "/DEBIAN" {
			continue
		}
		i, err := c.Files.Lstat(path.Join(dir, name))
		if err != nil {
			return err
		}
		e := deb.Entry{Path: name, Mode: i.Mode(), Time: i.ModTime()}
		switch {
		case i.IsDir():
			p.Entries = append(p.Entries, e)
			if err := collect(c, p, dir, name); err != nil {
				return err
			}
			continue
		case i.Mode()&fs.ModeSymlink != 0:
			e.Target, err = c.Files.Readlink(path.Join(dir, name))
		default:
			e.Content, err = c.Files.ReadFile(path.Join(dir, name))
		}
		if err != nil {
			return err
		}
		p.Entries = append(p.Entries, e)
	}
	return nil
}
