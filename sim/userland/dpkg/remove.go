package dpkg

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"ckadrill/sim/userland/deb"
)

// remove removes a package, and with purge its configuration too. removing are all that this run removes.
func (m *manager) remove(name string, purge bool, removing []string) {
	r := m.db.Find(name)
	switch {
	case r == nil || r.State() == deb.NotInstalled:
		m.warn("ignoring request to remove %s which isn't installed", name)
		return
	case r.State() == deb.ConfigFiles && !purge:
		m.warn("ignoring request to remove %s, only the config\n files of which are on the system; use --purge to remove them too", name)
		return
	case r.Get("Essential") == "yes" && !m.force["remove-essential"]:
		m.fail("package "+name, errors.New("this is an essential package; it should not be removed"))
		return
	}
	if r.Present() {
		if why := m.dependants(name, removing); why != "" && !m.force["depends"] {
			m.c.Out.Flush()
			m.c.Errorf("dpkg: dependency problems prevent removal of %s:\n%s\n", name, why)
			m.fail("package "+name, errors.New("dependency problems - not removing"))
			return
		}
		m.count()
		m.c.Put("Removing %s (%s) ...\n", name, r.Version())
		m.c.Out.Flush()
		m.c.Wait(removeTime)
		if err := m.script(name, "prerm", "remove"); err != nil {
			m.fail("package "+name, err)
			return
		}
		l, _ := deb.List(m.c.Files, name)
		conf := r.Conffiles()
		m.removePaths(slices.DeleteFunc(l, func(n string) bool { return n == "/." || m.isConffile(r, n) }), name, true)
		if err := m.script(name, "postrm", "remove"); err != nil {
			m.fail("package "+name, err)
			return
		}
		m.c.Files.WriteFile(deb.InfoFile(name, "list"), []byte(left(conf)), 0o644)
		m.owned = nil
		if _, err := m.c.Files.Stat(deb.InfoFile(name, "postrm")); len(conf) == 0 && err != nil {
			m.forget(name)
			return
		}
		r.SetStatus(deb.Deinstall, deb.ConfigFiles)
	} else {
		m.count()
	}
	if !purge {
		return
	}
	m.c.Put("Purging configuration files for %s (%s) ...\n", name, r.Version())
	m.c.Out.Flush()
	for _, c := range r.Conffiles() {
		m.c.Files.Remove(c.Path)
		m.c.Files.Remove(c.Path + ".dpkg-old")
		m.removeEmpty(c.Path, name)
	}
	if err := m.script(name, "postrm", "purge"); err != nil {
		m.fail("package "+name, err)
		return
	}
	m.forget(name)
}

func left(conf []deb.Conffile) string {
	var b strings.Builder
	b.WriteString("/.\n")
	for _, c := range conf {
		b.WriteString(c.Path + "\n")
	}
	return b.String()
}

// forget removes what the database has of a package.
func (m *manager) forget(name string) {
	for _, kind := range []string{"list", "conffiles", "md5sums", "preinst", "postinst", "prerm", "postrm", "triggers", "shlibs"} {
		m.c.Files.Remove(deb.InfoFile(name, kind))
	}
	m.db.Drop(name)
	m.owned = nil
}

// dependants says which installed packages need one, "" if none.
func (m *manager) dependants(name string, removing []string) string {
	var b strings.Builder
	for _, o := range m.db.Records() {
		if !o.Present() || slices.Contains(removing, o.Name()) {
			continue
		}
		for _, alternatives := range append(deb.Relations(o.Get("Pre-Depends")), deb.Relations(o.Get("Depends"))...) {
			if s := m.db.Satisfies(alternatives); s == nil || s.Name() != name {
				continue
			}
			var names []string
			for _, a := range alternatives {
				names = append(names, a.String())
			}
			fmt.Fprintf(&b, " %s depends on %s.\n", o.Name(), strings.Join(names, " | "))
		}
	}
	return b.String()
}

// removePaths removes a package's files, and directories that are empty then and belong to no other package; warn says which
// stay.
func (m *manager) removePaths(l []string, pkg string, warn bool) {
	f := m.c.Files
	var kept []deb.Conffile
	if r := m.db.Find(pkg); r != nil {
		kept = r.Conffiles()
	}
	for _, name := range slices.Backward(l) {
		i, err := f.Lstat(name)
		if err != nil {
			continue
		}
		if !i.IsDir() {
			f.Remove(name)
			continue
		}
		if m.shared(name, pkg) || slices.ContainsFunc(kept, func(c deb.Conffile) bool { return strings.HasPrefix(c.Path, name+"/") }) {
			continue
		}
		if err := f.Remove(name); errors.Is(err, syscall.ENOTEMPTY) && warn {
			m.warn("while removing %s, directory '%s' not empty so not removed", pkg, name)
		}
	}
}

// shared says that another package than one owns a path.
func (m *manager) shared(name, pkg string) bool {
	return slices.ContainsFunc(m.owners()[name], func(o string) bool { return o != pkg })
}

// removeEmpty removes the directories above a package's file that are empty now and belong to no other.
func (m *manager) removeEmpty(name, pkg string) {
	for d := parent(name); d != "/" && !m.shared(d, pkg); d = parent(d) {
		if i, err := m.c.Files.Lstat(d); err != nil || i.Mode()&fs.ModeSymlink != 0 || m.c.Files.Remove(d) != nil {
			return
		}
	}
}
