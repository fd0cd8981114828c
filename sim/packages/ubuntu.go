package packages

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/layout"
)

//go:embed ubuntu.txt
var ubuntuText string

// systemPackage is a package of Ubuntu's archive.
type systemPackage struct {
	archive
	installed bool // on every machine
}

// ubuntu are the packages of Ubuntu's archive, by name.
var ubuntu = sync.OnceValue(func() []systemPackage {
	commands := map[string][]layout.Command{}
	l, _ := layout.Commands("ubuntu")
	for _, c := range l {
		if !strings.HasPrefix(c.Path, "/etc/") && !strings.HasPrefix(c.Link, "/etc/alternatives/") {
			commands[path.Base(c.Path)] = append(commands[path.Base(c.Path)], c)
		}
	}
	var out []systemPackage
	for line := range strings.Lines(ubuntuText) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '\t':
			p := out[len(out)-1]
			for _, f := range strings.Fields(line) {
				l, err := systemEntries(f, commands)
				if err != nil {
					panic(fmt.Sprintf("packages: ubuntu.txt: %s: %v", p.Name(), err))
				}
				p.Entries = append(p.Entries, l...)
				if name := l[0].Path; strings.HasPrefix(name, "/etc/") && path.Ext(name) != ".crt" {
					p.Info["conffiles"] += name + "\n"
				}
			}
		default:
			out = append(out, parseSystemPackage(line))
		}
	}
	for _, p := range out {
		for _, e := range p.Entries {
			if path.Dir(e.Path) == unitDir && !p.installed {
				maps.Copy(p.Info, unitScripts(path.Base(e.Path), true))
			}
		}
		dirs := []string{"/usr/share/doc/" + p.Name()}
		if p.Name() == "base-files" {
			dirs = append(dirs, baseDirectories...)
		}
		for _, d := range dirs {
			p.Entries = append(p.Entries, deb.Entry{Path: d, Mode: fs.ModeDir | 0o755})
		}
		p.Complete()
	}
	return out
})

// baseDirectories are those that no other package takes away with its last file.
var baseDirectories = []string{"/etc/default", "/etc/systemd/system", "/opt", "/usr/bin", "/usr/lib/systemd/system", "/usr/sbin", "/usr/share/doc", "/var/cache", "/var/lib", "/var/log"}

func parseSystemPackage(line string) systemPackage {
	parts := strings.SplitN(line, "|", 3)
	f := strings.Fields(parts[0])
	if len(parts) != 3 || len(f) < 5 {
		panic("packages: ubuntu.txt: " + line)
	}
	installed, err := strconv.ParseInt(f[4], 10, 64)
	if err != nil {
		panic("packages: ubuntu.txt: " + line)
	}
	name, version, summary := f[0], f[1], strings.TrimSpace(parts[2])
	c := describe(name, version, f[2], "Ubuntu Developers <ubuntu-devel-discuss@lists.ubuntu.com>", strings.TrimSpace(parts[1]), "", summary, installed)
	c.Set("Priority", f[3])
	mark := ""
	if len(f) > 5 {
		mark = f[5]
	}
	if mark == "!" {
		c = append(deb.Paragraph{c[0], {Name: "Essential", Value: "yes"}}, c[1:]...)
	}
	// Archives are a third of what they hold.
	return systemPackage{archive{&deb.Package{Control: c, Info: map[string]string{}}, installed << 10 / 3}, mark != "-"}
}

// systemEntries is what a word of the table stands for.
func systemEntries(word string, commands map[string][]layout.Command) (l []deb.Entry, err error) {
	name, version, _ := strings.Cut(word, "=")
	for _, c := range commands[name] {
		e := deb.Entry{Path: c.Path, Mode: c.Mode, Content: program(c.Program, version)}
		switch {
		case c.Link != "":
			e = deb.Entry{Path: c.Path, Mode: fs.ModeSymlink | 0o777, Target: c.Link}
		case e.Mode == 0:
			e.Mode = 0o755
		}
		l = append(l, e)
	}
	if l != nil {
		return l, nil
	}
	e := deb.Entry{Path: name, Mode: 0o755}
	dir := path.Dir(name)
	if b, mode, ok := machine.Template(name); ok {
		e.Content, e.Mode = b, mode
	} else if b, ok := own[name]; ok {
		e.Content, e.Mode = b(), 0o644
	} else if b, err := files.ReadFile("files/" + path.Base(name)); err == nil {
		e.Content = b
		if !bytes.HasPrefix(b, []byte("#!")) {
			e.Mode = 0o644
		}
	} else if dir == "/usr/bin" || dir == "/usr/sbin" || dir == "/usr/lib/systemd" || dir == "/usr/lib/ufw" {
		e.Content = program(path.Base(name), version)
	} else {
		return nil, fmt.Errorf("nobody knows the file %s", name)
	}
	return []deb.Entry{e}, nil
}

// own are the files of Ubuntu that this package has itself.
var own = map[string]func() []byte{
	"/etc/ssl/certs/ca-certificates.crt":             func() []byte { return certificates },
	"/usr/share/keyrings/ubuntu-archive-keyring.gpg": func() []byte { return ubuntuKey.public() },
}

// File is the content of a file that a package of Ubuntu brings to machines which have it, nil if there is none.
func File(name string) []byte {
	for _, p := range ubuntu() {
		for _, e := range p.Entries {
			if e.Path == name {
				return e.Content
			}
		}
	}
	return nil
}
