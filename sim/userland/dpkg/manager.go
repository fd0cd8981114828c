package dpkg

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// exit statuses of dpkg.
const (
	statusFailed = 1
	statusFatal  = 2
)

// manager is one run of dpkg that changes something.
type manager struct {
	c      *libc.Prog
	db     *deb.Database
	action string // as the messages name it: "--install"
	force  map[string]bool
	failed []string
	// counted says that the line about the database has been printed.
	counted bool
	// owned are the packages that own each path, nil when that has changed.
	owned map[string][]string
}

// Times that dpkg takes, measured on a machine of this size.
const (
	scanTime      = 120 * time.Millisecond
	unpackTime    = 250 * time.Millisecond
	configureTime = 40 * time.Millisecond
	removeTime    = 80 * time.Millisecond
)

func fatal(c *libc.Prog, format string, a ...any) int {
	c.Out.Flush()
	c.Errorf("dpkg: error: "+format+"\n", a...)
	return statusFatal
}

func (m *manager) warn(format string, a ...any) {
	m.c.Out.Flush()
	m.c.Errorf("dpkg: warning: "+format+"\n", a...)
}

// fail says that a package could not be processed.
func (m *manager) fail(name string, err error) {
	m.c.Out.Flush()
	m.c.Errorf("dpkg: error processing %s (%s):\n %s\n", name, m.action, err)
	name = strings.TrimPrefix(strings.TrimPrefix(name, "package "), "archive ")
	m.failed = append(m.failed, name)
}

// finish saves the database and sums up.
func (m *manager) finish() int {
	if err := m.db.Save(m.c.Files); err != nil {
		return fatal(m.c, "unable to write new file '%s-new': %s", deb.StatusFile, libc.Strerror(err))
	}
	if len(m.failed) == 0 {
		return 0
	}
	m.c.Out.Flush()
	m.c.Errorf("Errors were encountered while processing:\n")
	for _, f := range m.failed {
		m.c.Errorf(" %s\n", strings.Trim(f, "'"))
	}
	return statusFailed
}

// count prints how large the database is, once.
func (m *manager) count() {
	if m.counted {
		return
	}
	m.counted = true
	m.c.Wait(scanTime)
	m.c.Put("(Reading database ... %d files and directories currently installed.)\n", len(m.owners()))
}

// owners says for each path which packages own it.
func (m *manager) owners() map[string][]string {
	if m.owned == nil {
		m.owned = owners(m.c.Files, m.db)
	}
	return m.owned
}

func owners(files kernel.Files, db *deb.Database) map[string][]string {
	owned := map[string][]string{}
	for _, r := range db.Records() {
		l, err := deb.List(files, r.Name())
		if err != nil {
			continue
		}
		for _, p := range l {
			owned[p] = append(owned[p], r.Name())
		}
	}
	return owned
}

// script runs a maintainer script, if the package has it. The error is dpkg's.
func (m *manager) script(pkg, kind string, args ...string) error {
	file := deb.InfoFile(pkg, kind)
	if _, err := m.c.Files.Stat(file); err != nil {
		return nil
	}
	return m.runScript(file, "installed "+pkg, kind, args)
}

// runScript runs the script of a file; whose names it in the error.
func (m *manager) runScript(file, whose, kind string, args []string) error {
	m.c.Out.Flush()
	words := map[string]string{"preinst": "pre-installation", "postinst": "post-installation", "prerm": "pre-removal", "postrm": "post-removal"}
	status := m.c.Run(append([]string{file}, args...))
	if status != 0 {
		return fmt.Errorf("%s package %s script subprocess returned error exit status %d", whose, words[kind], status)
	}
	return nil
}

// dependencies says why a package cannot be configured or installed, "" if nothing keeps it from that. Of packages that are
// unpacked only, those are good enough that are configured in the same run.
func (m *manager) dependencies(r *deb.Record, pending []string) string {
	var b strings.Builder
	for _, field := range []string{"Pre-Depends", "Depends"} {
		for _, alternatives := range deb.Relations(r.Get(field)) {
			if o := m.db.Satisfies(alternatives); o != nil && (o.State() == deb.Installed || slices.Contains(pending, o.Name())) {
				continue
			}
			var names []string
			for _, a := range alternatives {
				names = append(names, a.String())
			}
			fmt.Fprintf(&b, " %s depends on %s; however:\n", r.Name(), strings.Join(names, " | "))
			for _, a := range alternatives {
				o := m.db.Find(a.Name)
				switch {
				case o == nil || !o.Present():
					fmt.Fprintf(&b, "  Package %s is not installed.\n", a.Name)
				case !a.Allows(o.Version()):
					fmt.Fprintf(&b, "  Version of %s on system is %s.\n", a.Name, o.Version())
				default:
					fmt.Fprintf(&b, "  Package %s is not configured yet.\n", a.Name)
				}
			}
		}
	}
	return b.String()
}

// conflicts says which installed package keeps another one out, "" if none.
func (m *manager) conflicts(p deb.Paragraph) string {
	for _, o := range m.db.Records() {
		if !o.Present() || o.Name() == p.Get("Package") {
			continue
		}
		names := append(o.Provided(), o.Name())
		for _, alternatives := range deb.Relations(p.Get("Conflicts")) {
			if a := alternatives[0]; slices.Contains(names, a.Name) && a.Allows(o.Version()) {
				return o.Name()
			}
		}
		for _, alternatives := range deb.Relations(o.Get("Conflicts")) {
			if a := alternatives[0]; (a.Name == p.Get("Package") || slices.Contains(p.Provided(), a.Name)) && a.Allows(p.Get("Version")) {
				return o.Name()
			}
		}
	}
	return ""
}

// shown is a file's name as dpkg abbreviates it.
func shown(name string) string {
	rest := name
	for len(rest) > 30 {
		i := strings.IndexByte(rest[1:], '/')
		if i < 0 {
			break
		}
		rest = rest[i+2:]
	}
	if rest != name {
		return ".../" + rest
	}
	return name
}

func parent(name string) string { return path.Dir(name) }
