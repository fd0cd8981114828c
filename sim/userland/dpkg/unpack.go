package dpkg

import (
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// newConffile is how a conffile's new version waits for the package to be configured.
const newConffile = ".dpkg-new"

// unpack brings an archive's files to the machine, and returns the package's name.
func (m *manager) unpack(file string) (string, bool) {
	b, err := m.c.InputAll(file)
	if err != nil {
		m.fail("archive "+file, fmt.Errorf("cannot access archive '%s': %s", file, libc.Strerror(err)))
		return "", false
	}
	p, err := deb.Read(b)
	if err != nil {
		m.c.Out.Flush()
		m.c.Errorf("dpkg-deb: error: '%s' is %s\n", file, formatError(err))
		m.fail("archive "+file, errors.New("dpkg-deb --control subprocess returned error exit status 2"))
		return "", false
	}
	name := p.Name()
	if arch := p.Control.Get("Architecture"); arch != "all" && arch != architecture {
		m.fail("archive "+file, fmt.Errorf("package architecture (%s) does not match system (%s)", arch, architecture))
		return "", false
	}
	old := m.db.Find(name)
	upgrade := old != nil && old.Present()
	if upgrade && deb.Compare(p.Version(), old.Version()) < 0 {
		m.warn("downgrading %s from %s to %s", name, old.Version(), p.Version())
	}
	if old == nil || old.Selection() != deb.Install && old.Selection() != deb.Hold {
		m.c.Put("Selecting previously unselected package %s.\n", name)
	}
	m.count()
	if o := m.conflicts(p.Control); o != "" {
		m.c.Out.Flush()
		m.c.Errorf("dpkg: regarding %s containing %s:\n %s conflicts with %s\n\n", shown(file), name, name, o)
		m.fail("archive "+file, fmt.Errorf("conflicting packages - not installing %s", name))
		return "", false
	}
	m.c.Put("Preparing to unpack %s ...\n", shown(file))
	r := &deb.Record{Paragraph: deb.Paragraph{{Name: "Package", Value: name}}}
	selection := deb.Install
	if old != nil && old.Selection() == deb.Hold {
		selection = deb.Hold
	}
	if err := m.before(p, old, upgrade); err != nil {
		m.fail("archive "+file, err)
		return "", false
	}
	if upgrade {
		m.c.Put("Unpacking %s (%s) over (%s) ...\n", name, p.Version(), old.Version())
	} else {
		m.c.Put("Unpacking %s (%s) ...\n", name, p.Version())
	}
	m.c.Out.Flush()
	m.c.Wait(unpackTime)
	r.SetStatus(selection, deb.Unpacked)
	for _, f := range p.Control {
		r.Set(f.Name, f.Value)
	}
	if err := m.extract(p, old); err != nil {
		m.fail("archive "+file, err)
		return "", false
	}
	r.SetConffiles(m.conffilesOf(p, old))
	if upgrade {
		r.Set("Config-Version", old.Version())
	}
	if err := m.writeInfo(p); err != nil {
		m.fail("archive "+file, err)
		return "", false
	}
	if upgrade {
		if err := m.script(name, "postrm", "upgrade", old.Version()); err != nil {
			m.fail("archive "+file, err)
			return "", false
		}
	}
	m.db.Put(r)
	return name, true
}

// before runs the scripts that come before a package's files: the old prerm, and the new preinst.
func (m *manager) before(p *deb.Package, old *deb.Record, upgrade bool) error {
	args := []string{"install"}
	if upgrade {
		if err := m.script(p.Name(), "prerm", "upgrade", p.Version()); err != nil {
			return err
		}
		args = []string{"upgrade", old.Version(), p.Version()}
	}
	text, ok := p.Info["preinst"]
	if !ok {
		return nil
	}
	const dir = deb.AdminDir + "/tmp.ci"
	if err := m.c.Files.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer m.c.Files.RemoveAll(dir)
	if err := m.c.Files.WriteFile(dir+"/preinst", []byte(text), 0o755); err != nil {
		return err
	}
	return m.runScript(dir+"/preinst", "new "+p.Name(), "preinst", args)
}

func formatError(err error) string {
	if errors.Is(err, deb.ErrFormat) {
		return err.Error()
	}
	return "corrupt: " + err.Error()
}

// conffilesOf are the conffiles of a package that has just been unpacked, with the sums of the versions that were installed
// last.
func (m *manager) conffilesOf(p *deb.Package, old *deb.Record) (l []deb.Conffile) {
	for _, name := range p.Conffiles() {
		sum := "newconffile"
		if old != nil {
			for _, c := range old.Conffiles() {
				if c.Path == name {
					sum = c.Sum
				}
			}
		}
		l = append(l, deb.Conffile{Path: name, Sum: sum})
	}
	return l
}

// extract writes an archive's files and removes what only the version before had.
func (m *manager) extract(p *deb.Package, old *deb.Record) error {
	conffiles := p.Conffiles()
	var had []string
	if old != nil {
		had, _ = deb.List(m.c.Files, p.Name())
	}
	for _, e := range p.Entries {
		if !e.Mode.IsDir() && !slices.Contains(had, e.Path) && !m.force["overwrite"] {
			for _, o := range m.owners()[e.Path] {
				if r := m.db.Find(o); r != nil && r.Present() && o != p.Name() && !slices.Contains(replaced(p), o) {
					return fmt.Errorf("trying to overwrite '%s', which is also in package %s %s", e.Path, o, r.Version())
				}
			}
		}
		if err := m.extractOne(e, slices.Contains(conffiles, e.Path)); err != nil {
			return fmt.Errorf("error creating '.%s': %s", e.Path, libc.Strerror(err))
		}
	}
	now := map[string]bool{}
	for _, e := range p.Entries {
		now[e.Path] = true
	}
	m.removePaths(slices.DeleteFunc(had, func(n string) bool { return now[n] || n == "/." || m.isConffile(old, n) }), p.Name(), false)
	return nil
}

func replaced(p *deb.Package) (l []string) {
	for _, alternatives := range deb.Relations(p.Control.Get("Replaces")) {
		l = append(l, alternatives[0].Name)
	}
	return l
}

func (m *manager) isConffile(r *deb.Record, name string) bool {
	return r != nil && slices.ContainsFunc(r.Conffiles(), func(c deb.Conffile) bool { return c.Path == name })
}

func (m *manager) extractOne(e deb.Entry, conffile bool) error {
	f := m.c.Files
	switch {
	case e.Mode.IsDir():
		if i, err := f.Stat(e.Path); err == nil && i.IsDir() {
			return nil
		}
		if err := f.MkdirAll(e.Path, e.Mode.Perm()); err != nil {
			return err
		}
		return f.Chmod(e.Path, e.Mode.Perm())
	case e.Mode&fs.ModeSymlink != 0:
		if err := f.Remove(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return f.Symlink(e.Target, e.Path)
	}
	name := e.Path + newConffile
	if err := f.MkdirAll(parent(name), 0o755); err != nil {
		return err
	}
	if err := f.WriteFile(name, e.Content, e.Mode.Perm()); err != nil {
		return err
	}
	if err := f.Chmod(name, e.Mode.Perm()); err != nil {
		return err
	}
	if conffile {
		return nil
	}
	// The new file takes the old one's place, which a process that runs from it keeps.
	return f.Rename(name, e.Path)
}

// writeInfo writes the package's control files to the database.
func (m *manager) writeInfo(p *deb.Package) error {
	f := m.c.Files
	if err := f.MkdirAll(parent(deb.InfoFile(p.Name(), "list")), 0o755); err != nil {
		return err
	}
	for _, kind := range []string{"preinst", "postinst", "prerm", "postrm", "conffiles", "md5sums", "triggers", "shlibs"} {
		name := deb.InfoFile(p.Name(), kind)
		content, ok := p.Info[kind]
		if !ok {
			if err := f.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		if err := f.WriteFile(name, []byte(content), mode); err != nil {
			return err
		}
	}
	m.owned = nil
	return f.WriteFile(deb.InfoFile(p.Name(), "list"), []byte(deb.ListText(p.Entries)), 0o644)
}

// configure sets a package up that has been unpacked. pending are the packages that this run configures.
func (m *manager) configure(name string, pending []string) {
	r := m.db.Find(name)
	switch {
	case r == nil || r.State() == deb.NotInstalled || r.State() == deb.ConfigFiles:
		m.fail("package "+name, fmt.Errorf("package %s is not ready for configuration\n cannot configure (current status '%s')", name, stateOf(r)))
		return
	case r.State() == deb.Installed:
		m.fail("package "+name, fmt.Errorf("package %s is already installed and configured", name))
		return
	}
	if why := m.dependencies(r, pending); why != "" && !m.force["depends"] {
		m.c.Out.Flush()
		m.c.Errorf("dpkg: dependency problems prevent configuration of %s:\n%s\n", name, why)
		m.fail("package "+name, errors.New("dependency problems - leaving unconfigured"))
		return
	}
	m.c.Put("Setting up %s (%s) ...\n", name, r.Version())
	m.c.Out.Flush()
	m.c.Wait(configureTime)
	if err := m.conffiles(r); err != nil {
		m.fail("package "+name, err)
		return
	}
	if err := m.script(name, "postinst", "configure", r.Get("Config-Version")); err != nil {
		r.SetStatus(r.Selection(), deb.HalfConfigured)
		m.fail("package "+name, err)
		return
	}
	r.SetStatus(r.Selection(), deb.Installed)
	r.Set("Config-Version", "")
}

func stateOf(r *deb.Record) string {
	if r == nil {
		return deb.NotInstalled
	}
	return r.State()
}

// conffiles decides for each conffile between what is on the machine and what the package brings.
func (m *manager) conffiles(r *deb.Record) error {
	l := r.Conffiles()
	for i, c := range l {
		fresh, err := m.c.Files.ReadFile(c.Path + newConffile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sum := fmt.Sprintf("%x", md5.Sum(fresh))
		take, err := m.decide(c, sum, fresh)
		if err != nil {
			return err
		}
		if take {
			err = m.c.Files.Rename(c.Path+newConffile, c.Path)
		} else {
			err = m.c.Files.Remove(c.Path + newConffile)
		}
		if err != nil {
			return err
		}
		l[i].Sum = sum
	}
	r.SetConffiles(l)
	return nil
}

// decide says whether a package's version of a conffile is to be taken. known is the one that was installed before.
func (m *manager) decide(known deb.Conffile, sum string, fresh []byte) (bool, error) {
	on, err := m.c.Files.ReadFile(known.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return false, err
	}
	current := fmt.Sprintf("%x", md5.Sum(on))
	first := known.Sum == "newconffile"
	switch {
	case missing && (first || m.force["confmiss"]):
		return true, nil
	case missing: // deleted by the administrator
		return false, nil
	case current == sum:
		return true, nil
	case !first && current == known.Sum:
		m.c.Put("Installing new version of config file %s ...\n", known.Path)
		return true, nil
	case !first && known.Sum == sum:
		return false, nil
	case m.force["confnew"]:
		return true, nil
	case m.force["confold"], m.force["confdef"]:
		return false, nil
	}
	return m.ask(known.Path, first, fresh)
}

// ask asks the administrator about a conffile.
func (m *manager) ask(name string, first bool, fresh []byte) (bool, error) {
	c := m.c
	c.Put("\nConfiguration file '%s'\n", name)
	if first {
		c.Put(" ==> File on system created by you or by a script.\n ==> File also in package provided by package maintainer.\n")
	} else {
		c.Put(" ==> Modified (by you or by a script) since installation.\n ==> Package distributor has shipped an updated version.\n")
	}
	c.Put("   What would you like to do about it ?  Your options are:\n    Y or I  : install the package maintainer's version\n    N or O  : keep your currently-installed version\n" +
		"      D     : show the differences between the versions\n      Z     : start a shell to examine the situation\n The default action is to keep your current version.\n")
	base := name[strings.LastIndexByte(name, '/')+1:]
	for {
		c.Put("*** %s (Y/I/N/O/D/Z) [default=N] ? ", base)
		c.Out.Flush()
		line, err := libc.ReadAnswer(c.Stdin)
		if err != nil {
			return false, errors.New("end of file on stdin at conffile prompt")
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "i":
			return true, nil
		case "n", "o", "":
			return false, nil
		case "d":
			c.Run([]string{"diff", "-Nu", name, name + newConffile})
		case "z":
			c.Put("Type 'exit' when you're done.\n")
			c.Run([]string{"/bin/bash"})
		}
	}
}
