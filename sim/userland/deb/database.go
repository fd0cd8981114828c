package deb

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// Where dpkg keeps its database.
const (
	AdminDir   = "/var/lib/dpkg"
	StatusFile = AdminDir + "/status"
	infoDir    = AdminDir + "/info"
)

// A package's selection and state, the first and the last word of its field Status.
const (
	Install   = "install"
	Hold      = "hold"
	Deinstall = "deinstall"
	Purge     = "purge"

	NotInstalled   = "not-installed"
	ConfigFiles    = "config-files"
	HalfInstalled  = "half-installed"
	Unpacked       = "unpacked"
	HalfConfigured = "half-configured"
	Installed      = "installed"
)

// Record is a package as the database knows it.
type Record struct{ Paragraph }

// Name, Version and Architecture identify the package.
func (r *Record) Name() string         { return r.Get("Package") }
func (r *Record) Version() string      { return r.Get("Version") }
func (r *Record) Architecture() string { return r.Get("Architecture") }

// Selection is what is wanted of the package.
func (r *Record) Selection() string { return r.word(0, Install) }

// State is what the package is.
func (r *Record) State() string { return r.word(2, NotInstalled) }

func (r *Record) word(i int, def string) string {
	if f := strings.Fields(r.Get("Status")); len(f) == 3 {
		return f[i]
	}
	return def
}

// SetStatus changes selection and state.
func (r *Record) SetStatus(selection, state string) { r.Set("Status", selection+" ok "+state) }

// Present says that the package's files are there.
func (r *Record) Present() bool {
	switch r.State() {
	case Installed, Unpacked, HalfConfigured:
		return true
	}
	return false
}

// Conffile is a line of the field Conffiles: a file, and the sum of its content in the package.
type Conffile struct{ Path, Sum string }

// Conffiles are the package's configuration files.
func (r *Record) Conffiles() (l []Conffile) {
	for line := range strings.Lines(r.Get("Conffiles")) {
		if f := strings.Fields(line); len(f) >= 2 {
			l = append(l, Conffile{f[0], f[1]})
		}
	}
	return l
}

// SetConffiles is the inverse of [Record.Conffiles].
func (r *Record) SetConffiles(l []Conffile) {
	var b strings.Builder
	for _, c := range l {
		b.WriteString("\n " + c.Path + " " + c.Sum)
	}
	r.Set("Conffiles", b.String())
}

// Database is the packages that dpkg knows, by name. The zero value is empty.
type Database struct {
	byName map[string]*Record
}

// Open reads the database. A machine without one has an empty database.
func Open(files kernel.Files) (*Database, error) {
	d := &Database{byName: map[string]*Record{}}
	b, err := files.ReadFile(StatusFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := Parse(string(b))
	if err != nil {
		var s *SyntaxError
		if errors.As(err, &s) {
			return nil, fmt.Errorf("parsing file '%s' near line %d:\n %s", StatusFile, s.Line, s.Text)
		}
		return nil, err
	}
	for _, p := range l {
		if n := p.Get("Package"); n != "" {
			d.byName[n] = &Record{p}
		}
	}
	return d, nil
}

// Find returns the record of a package, nil if there is none.
func (d *Database) Find(name string) *Record { return d.byName[name] }

// Records lists all, by name.
func (d *Database) Records() []*Record {
	l := make([]*Record, 0, len(d.byName))
	for _, r := range d.byName {
		l = append(l, r)
	}
	slices.SortFunc(l, func(a, b *Record) int { return strings.Compare(a.Name(), b.Name()) })
	return l
}

// Put adds a record, or replaces the one of that name.
func (d *Database) Put(r *Record) {
	if d.byName == nil {
		d.byName = map[string]*Record{}
	}
	d.byName[r.Name()] = r
}

// Drop forgets a package.
func (d *Database) Drop(name string) { delete(d.byName, name) }

// Text is the content of the file.
func (d *Database) Text() string {
	var b strings.Builder
	for _, r := range d.Records() {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

// Save writes the database. The file before stays as status-old.
func (d *Database) Save(files kernel.Files) error {
	if b, err := files.ReadFile(StatusFile); err == nil {
		if err := files.WriteFile(StatusFile+"-old", b, 0o644); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(infoDir, 0o755); err != nil {
		return err
	}
	return files.WriteFile(StatusFile, []byte(d.Text()), 0o644)
}

// Satisfies finds an installed package that is within one of some alternatives, by name or by what it provides.
func (d *Database) Satisfies(alternatives []Relation) *Record {
	for _, r := range alternatives {
		if o := d.byName[r.Name]; o != nil && o.Present() && r.Allows(o.Version()) {
			return o
		}
		if r.Operator != "" {
			continue
		}
		for _, o := range d.Records() {
			if o.Present() && slices.Contains(o.Provided(), r.Name) {
				return o
			}
		}
	}
	return nil
}

// InfoFile is the name of a control file of an installed package ("postinst", "list").
func InfoFile(pkg, kind string) string { return path.Join(infoDir, pkg+"."+kind) }

// List are the paths that an installed package owns.
func List(files kernel.Files, pkg string) ([]string, error) {
	b, err := files.ReadFile(InfoFile(pkg, "list"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n"), nil
}

// ListText is the content of the file of a package's paths.
func ListText(l []Entry) string {
	var b strings.Builder
	b.WriteString("/.\n")
	for _, e := range l {
		b.WriteString(e.Path + "\n")
	}
	return b.String()
}
