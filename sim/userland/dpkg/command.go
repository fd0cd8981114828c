package dpkg

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// architecture is that of the machines.
const architecture = "amd64"

// actions of dpkg by their short and long options; those of dpkg-query and dpkg-deb are passed on.
var (
	shortActions = map[byte]string{'i': "install", 'r': "remove", 'P': "purge", 'A': "record-avail", 'C': "audit", 'V': "verify"}
	queryActions = map[byte]string{'l': "list", 's': "status", 'L': "listfiles", 'S': "search", 'p': "print-avail"}
	debActions   = map[byte]string{'c': "contents", 'I': "info", 'f': "field", 'x': "extract", 'X': "vextract", 'b': "build", 'e': "control"}
)

// dpkg installs, configures and removes packages.
func dpkg(c *libc.Prog) int {
	action, force, recursive := "", map[string]bool{}, false
	pending, simulate := false, false
	var operands []string
	set := func(a string) bool {
		if action != "" && action != a {
			fatal(c, "conflicting actions --%s and --%s", a, action)
			return false
		}
		action = a
		return true
	}
	for i := 0; i < len(c.Args); i++ {
		a := c.Args[i]
		switch {
		case a == "--":
			operands = append(operands, c.Args[i+1:]...)
			i = len(c.Args)
		case strings.HasPrefix(a, "--force-"):
			for f := range strings.SplitSeq(strings.TrimPrefix(a, "--force-"), ",") {
				force[f] = true
			}
		case strings.HasPrefix(a, "--"):
			name, _, _ := strings.Cut(a[2:], "=")
			switch name {
			case "pending":
				pending = true
			case "dry-run", "simulate", "no-act":
				simulate = true
			case "recursive":
				recursive = true
			case "no-triggers", "auto-deconfigure", "no-pager", "abort-after", "no-debsig":
			case "help", "version":
				return about(c, name)
			case "list", "status", "listfiles", "search", "print-avail":
				return pass(c, "dpkg-query", c.Args)
			case "contents", "info", "field", "extract", "vextract", "build", "control", "fsys-tarfile":
				return pass(c, "dpkg-deb", c.Args)
			default:
				if !set(name) {
					return statusFatal
				}
			}
		case len(a) > 1 && a[0] == '-':
			for k := 1; k < len(a); k++ {
				switch {
				case queryActions[a[k]] != "" && action == "":
					return pass(c, "dpkg-query", c.Args)
				case debActions[a[k]] != "" && action == "":
					return pass(c, "dpkg-deb", c.Args)
				case a[k] == 'a':
					pending = true
				case a[k] == 'R':
					recursive = true
				case a[k] == 'E' || a[k] == 'G' || a[k] == 'O' || a[k] == 'B':
				case shortActions[a[k]] != "":
					if !set(shortActions[a[k]]) {
						return statusFatal
					}
				default:
					return badOption(c, "-"+a[k:k+1])
				}
			}
		default:
			operands = append(operands, a)
		}
	}
	if force["all"] {
		for _, f := range []string{"overwrite", "depends", "remove-essential"} {
			force[f] = true
		}
	}
	switch {
	case recursive:
		return fatal(c, "ckadrill does not simulate --recursive yet")
	case simulate:
		return fatal(c, "ckadrill does not simulate --dry-run yet")
	}
	switch action {
	case "":
		c.Out.Flush()
		c.Errorf("dpkg: error: need an action option\n\nType dpkg --help for help about installing and deinstalling packages [*];\nUse 'apt' or 'aptitude' for user-friendly package management;\n" +
			"Type dpkg -Dhelp for a list of dpkg debug flag values;\nType dpkg --force-help for a list of forcing options;\nType dpkg-deb --help for help about manipulating *.deb files;\n\n" +
			"Options marked [*] produce a lot of output - pipe it through 'less' or 'more' !\n")
		return statusFatal
	case "print-architecture":
		c.Put("%s\n", architecture)
		return 0
	case "print-foreign-architectures":
		return 0
	case "compare-versions":
		return compareVersions(c, operands)
	}
	db, err := deb.Open(c.Files)
	if err != nil {
		return fatal(c, "%s", err)
	}
	m := &manager{c: c, db: db, action: "--" + action, force: force}
	switch action {
	case "get-selections":
		return m.getSelections(operands)
	case "audit":
		return m.audit()
	case "verify":
		return m.verify(operands)
	}
	if c.Cred.UID != 0 {
		return fatal(c, "requested operation requires superuser privilege")
	}
	switch action {
	case "set-selections":
		return m.setSelections()
	case "install", "unpack":
		if len(operands) == 0 {
			return needFiles(c, action)
		}
		m.install(operands, action == "install")
	case "configure":
		if pending {
			operands = nil
			for _, r := range db.Records() {
				if s := r.State(); s == deb.Unpacked || s == deb.HalfConfigured {
					operands = append(operands, r.Name())
				}
			}
		} else if len(operands) == 0 {
			return needPackages(c, action)
		}
		m.configureAll(operands)
	case "remove", "purge":
		if len(operands) == 0 && !pending {
			return needPackages(c, action)
		}
		for _, n := range operands {
			m.remove(n, action == "purge", operands)
		}
	case "triggers-only":
		return 0
	default:
		return badOption(c, "--"+action)
	}
	return m.finish()
}

func badOption(c *libc.Prog, o string) int {
	if strings.HasPrefix(o, "--") {
		return fatal(c, "unknown option %s\n\nType dpkg --help for help about installing and deinstalling packages [*];", o)
	}
	return fatal(c, "unknown option %s", o)
}

func needFiles(c *libc.Prog, action string) int {
	return fatal(c, "--%s needs at least one package archive file argument", action)
}

func needPackages(c *libc.Prog, action string) int {
	return fatal(c, "--%s needs at least one package name argument", action)
}

// pass has another program do an action.
func pass(c *libc.Prog, program string, args []string) int {
	return c.Run(append([]string{program}, args...))
}

func about(c *libc.Prog, what string) int {
	if what == "help" {
		c.Put("ckadrill does not simulate %s --help; see the manual page %s(1).\n", c.Name, c.Name)
		return 0
	}
	if c.Name == "dpkg" {
		c.Put("Debian 'dpkg' package management program version %s (%s).\n", version, architecture)
	} else {
		c.Put("Debian %s package management program version %s (%s).\n", c.Name, version, architecture)
	}
	c.Put("This is free software; see the GNU General Public License version 2 or\nlater for copying conditions. There is NO warranty.\n")
	return 0
}

// install unpacks archives, and sets them up.
func (m *manager) install(archives []string, configure bool) {
	var l []string
	for _, a := range archives {
		if n, ok := m.unpack(a); ok {
			l = append(l, n)
		}
	}
	if configure {
		m.configureAll(l)
	}
}

// configureAll sets packages up, those first that others of them need.
func (m *manager) configureAll(names []string) {
	todo := slices.Clone(names)
	for len(todo) > 0 {
		i := slices.IndexFunc(todo, func(n string) bool { return !m.needsOneOf(n, todo) })
		i = max(i, 0) // a circle
		n := todo[i]
		todo = slices.Delete(todo, i, i+1)
		m.configure(n, todo)
	}
}

// needsOneOf says that a package depends on one that has not been set up yet.
func (m *manager) needsOneOf(name string, todo []string) bool {
	r := m.db.Find(name)
	if r == nil {
		return false
	}
	for _, field := range []string{"Pre-Depends", "Depends"} {
		for _, alternatives := range deb.Relations(r.Get(field)) {
			if o := m.db.Satisfies(alternatives); o != nil && o.Name() != name && slices.Contains(todo, o.Name()) {
				return true
			}
		}
	}
	return false
}

func compareVersions(c *libc.Prog, args []string) int {
	if len(args) != 3 {
		return fatal(c, "--compare-versions takes three arguments: <version> <relation> <version>")
	}
	n := deb.Compare(args[0], args[2])
	ok, known := map[string]bool{"lt": n < 0, "le": n <= 0, "eq": n == 0, "ne": n != 0, "ge": n >= 0, "gt": n > 0, "<<": n < 0, "<=": n <= 0, "=": n == 0, ">=": n >= 0, ">>": n > 0,
		"lt-nl": n < 0, "le-nl": n <= 0, "ge-nl": n >= 0, "gt-nl": n > 0}[args[1]]
	switch {
	case !known:
		return fatal(c, "--compare-versions bad relation")
	case ok:
		return 0
	}
	return 1
}

func (m *manager) getSelections(patterns []string) int {
	for _, r := range selected(m.db, patterns) {
		if r.State() == deb.NotInstalled && r.Selection() != deb.Hold {
			continue
		}
		m.c.Put("%s%s\n", tabbed(r.Name(), 48), r.Selection())
	}
	return 0
}

// tabbed fills a name up to a column with tabs, as dpkg does.
func tabbed(name string, column int) string {
	n := len(name)
	for n < column {
		name += "\t"
		n = n/8*8 + 8
	}
	return name
}

// setSelections reads lines "package selection".
func (m *manager) setSelections() int {
	b, err := libc.ReadAll(m.c.Stdin)
	if err != nil {
		return fatal(m.c, "<standard input>: %s", libc.Strerror(err))
	}
	for n, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) != 2 {
			return fatal(m.c, "unexpected end of line after package name at line %d", n+1)
		}
		name, _, _ := strings.Cut(f[0], ":")
		r := m.db.Find(name)
		if r == nil {
			m.warn("package not in status nor available database at line %d: %s", n+1, f[0])
			continue
		}
		if !slices.Contains([]string{deb.Install, deb.Hold, deb.Deinstall, deb.Purge}, f[1]) {
			return fatal(m.c, "unknown wanted status at line %d: %s", n+1, f[1])
		}
		r.SetStatus(f[1], r.State())
	}
	return m.finish()
}

// audit lists packages that are not as they should be.
func (m *manager) audit() int {
	for _, g := range []struct{ state, head string }{
		{deb.Unpacked, "The following packages have been unpacked but not yet configured.\nThey must be configured using dpkg --configure or the configure\nmenu option in dselect for them to work:\n"},
		{deb.HalfConfigured, "The following packages are only half configured, probably due to problems\nconfiguring them the first time.  The configuration should be retried using\ndpkg --configure <package> or the configure menu option in dselect:\n"},
	} {
		head := false
		for _, r := range m.db.Records() {
			if r.State() != g.state {
				continue
			}
			if !head {
				m.c.Put("%s", g.head)
				head = true
			}
			m.c.Put(" %-20s %s\n", r.Name(), summary(r.Paragraph))
		}
		if head {
			m.c.Put("\n")
		}
	}
	return 0
}

// verify compares installed files with the sums of their packages.
func (m *manager) verify(names []string) int {
	for _, r := range selected(m.db, names) {
		if !r.Present() {
			continue
		}
		sums, err := m.c.Files.ReadFile(deb.InfoFile(r.Name(), "md5sums"))
		var l []deb.Conffile
		if err == nil {
			for line := range strings.Lines(string(sums)) {
				if f := strings.Fields(line); len(f) == 2 {
					l = append(l, deb.Conffile{Path: "/" + f[1], Sum: f[0]})
				}
			}
		}
		conf := r.Conffiles()
		for _, f := range append(l, conf...) {
			kind := " "
			if slices.Contains(conf, f) {
				kind = "c"
			}
			b, err := m.c.Files.ReadFile(f.Path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				m.c.Put("missing   %s %s\n", kind, f.Path)
			case err == nil && sum(b) != f.Sum:
				m.c.Put("??5?????? %s %s\n", kind, f.Path)
			}
		}
	}
	return 0
}

// summary is the first line of a package's description.
func summary(p deb.Paragraph) string {
	s, _, _ := strings.Cut(p.Get("Description"), "\n")
	return s
}

// selected are the records whose names match one of some patterns; all without patterns.
func selected(db *deb.Database, patterns []string) (l []*deb.Record) {
	for _, r := range db.Records() {
		if len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return matches(p, r.Name()) }) {
			l = append(l, r)
		}
	}
	return l
}

func matches(pattern, name string) bool {
	pattern, _, _ = strings.Cut(pattern, ":")
	return libc.NewGlob(pattern, false).Match(name)
}
