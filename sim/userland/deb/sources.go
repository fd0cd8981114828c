package deb

import (
	"fmt"
	"path"
	"strings"

	"ckadrill/sim/kernel"
)

// Source is one repository that apt gets packages from: a line of sources.list(5), or one combination of a paragraph of a
// file *.sources.
type Source struct {
	URI, Suite string // a suite that ends in "/" is the rest of the path of a repository without components
	Components []string
	Options    map[string]string // by their names in lower case: "signed-by"
	File       string
}

// Flat says that the repository has no components.
func (s Source) Flat() bool { return strings.HasSuffix(s.Suite, "/") }

// Base is the address that the files of an archive lie below.
func (s Source) Base() string { return strings.TrimRight(s.URI, "/") + "/" }

// Dist is the address of the directory of the file InRelease.
func (s Source) Dist() string {
	if s.Flat() {
		return s.Base() + strings.TrimLeft(s.Suite, "/")
	}
	return s.Base() + "dists/" + s.Suite + "/"
}

// ListsDir is where apt keeps what it has fetched.
const ListsDir = "/var/lib/apt/lists"

// ListFile is the name of the local copy of an index.
func ListFile(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	var b strings.Builder
	for _, c := range []byte(rest) {
		switch {
		case c == '/':
			b.WriteByte('_')
		case strings.IndexByte("\\|{}[]<>\"^~_=!@#$%&*", c) >= 0 || c <= ' ' || c > '~':
			fmt.Fprintf(&b, "%%%02x", c)
		default:
			b.WriteByte(c)
		}
	}
	return path.Join(ListsDir, b.String())
}

// SourceError is a line that is no source.
type SourceError struct {
	File, Kind, Text string
	Line             int
}

func (e *SourceError) Error() string {
	if e.Kind == "stanza" {
		return fmt.Sprintf("Malformed stanza %d in source list %s (%s)", e.Line, e.File, e.Text)
	}
	return fmt.Sprintf("Malformed entry %d in %s file %s (%s)", e.Line, e.Kind, e.File, e.Text)
}

// Sources reads /etc/apt/sources.list and the files below sources.list.d, in the order of their names.
func Sources(files kernel.Files) ([]Source, error) {
	names := []string{"/etc/apt/sources.list"}
	const dir = "/etc/apt/sources.list.d"
	if l, err := files.ReadDir(dir); err == nil {
		for _, e := range l {
			if x := path.Ext(e.Name()); x == ".list" || x == ".sources" {
				names = append(names, path.Join(dir, e.Name()))
			}
		}
	}
	var all []Source
	for _, n := range names {
		b, err := files.ReadFile(n)
		if err != nil {
			continue
		}
		read := readList
		if path.Ext(n) == ".sources" {
			read = readStanzas
		}
		l, err := read(n, string(b))
		if err != nil {
			return nil, err
		}
		all = append(all, l...)
	}
	return all, nil
}

// readList reads lines "deb [option=value] uri suite component...".
func readList(name, text string) (l []Source, err error) {
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fail := func(what string) error { return &SourceError{name, "list", what, i + 1} }
		kind, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")), " ")
		if kind == "" {
			continue
		}
		if kind != "deb" && kind != "deb-src" {
			return nil, &SourceError{name, "list", "type", i + 1} // "Type 'x' is not known" is reported by its caller
		}
		s := Source{Options: map[string]string{}, File: name}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			options, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, fail("option unparseable")
			}
			for _, o := range strings.Fields(options) {
				k, v, ok := strings.Cut(o, "=")
				if !ok {
					return nil, fail("[" + o + "] is not an assignment")
				}
				s.Options[strings.ToLower(k)] = v
			}
			rest = after
		}
		f := strings.Fields(rest)
		switch {
		case len(f) == 0:
			return nil, fail("URI")
		case !strings.Contains(f[0], "://") && !strings.HasPrefix(f[0], "file:"):
			return nil, fail("URI parse")
		case len(f) == 1:
			return nil, fail("Suite")
		}
		s.URI, s.Suite, s.Components = f[0], f[1], f[2:]
		switch {
		case s.Flat() && len(s.Components) > 0:
			return nil, fail("absolute Suite Component")
		case !s.Flat() && len(s.Components) == 0:
			return nil, fail("Component")
		}
		if s.Flat() {
			s.Components = []string{""}
		}
		if kind == "deb" {
			l = append(l, s)
		}
	}
	return l, nil
}

// readStanzas reads paragraphs of the fields Types, URIs, Suites and Components.
func readStanzas(name, text string) (l []Source, err error) {
	paragraphs, err := Parse(text)
	if err != nil {
		return nil, &SourceError{name, "stanza", err.Error(), 1}
	}
	for i, p := range paragraphs {
		if strings.EqualFold(p.Get("Enabled"), "no") {
			continue
		}
		types := strings.Fields(p.Get("Types"))
		for _, field := range []string{"Types", "URIs", "Suites"} {
			if p.Get(field) == "" {
				return nil, &SourceError{name, "stanza", strings.TrimSuffix(field, "s"), i + 1}
			}
		}
		options := map[string]string{}
		for _, f := range p {
			options[strings.ToLower(f.Name)] = f.Value
		}
		for _, t := range types {
			for _, uri := range strings.Fields(p.Get("URIs")) {
				for _, suite := range strings.Fields(p.Get("Suites")) {
					s := Source{URI: uri, Suite: suite, Components: strings.Fields(p.Get("Components")), Options: options, File: name}
					if s.Flat() {
						s.Components = []string{""}
					} else if len(s.Components) == 0 {
						return nil, &SourceError{name, "stanza", "Component", i + 1}
					}
					if t == "deb" {
						l = append(l, s)
					}
				}
			}
		}
	}
	return l, nil
}

// IndexName is the name of the index of a component below [Source.Dist].
func IndexName(component string) string {
	if component == "" {
		return "Packages"
	}
	return component + "/binary-amd64/Packages"
}
