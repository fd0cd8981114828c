package apt

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// Cache is what the lists and dpkg's database say of packages.
type cache struct {
	db       *deb.Database
	byName   map[string]*pkg
	provides map[string][]*candidate // by the name that is stood for
	auto     map[string]bool
}

// pkg is a package, whether it is installed or not.
type pkg struct {
	name      string
	installed *deb.Record  // nil if its files are not here
	record    *deb.Record  // nil if dpkg does not know it
	versions  []*candidate // the newest first
}

// candidate is one version of a package, and where it can be had.
type candidate struct {
	deb.Paragraph
	origins []origin // none of a package that is only installed
	local   string   // the file that it was named by
}

// origin is an index that a version stands in.
type origin struct {
	source    deb.Source
	component string
	release   release
}

func (c *candidate) name() string    { return c.Get("Package") }
func (c *candidate) version() string { return c.Get("Version") }
func (c *candidate) size() int64     { n, _ := strconv.ParseInt(c.Get("Size"), 10, 64); return n }

// installedSize is what the version takes on the machine, in bytes.
func installedSize(p deb.Paragraph) int64 {
	n, _ := strconv.ParseInt(p.Get("Installed-Size"), 10, 64)
	return n << 10
}

// label says where a version comes from: "isv:kubernetes:core:stable:v1.35:pkgs.k8s.io [amd64]".
func (c *candidate) label() string {
	var l []string
	for _, o := range c.origins {
		s := ""
		if x := o.release.Get("Label"); x != "" {
			s += x + ":"
		}
		switch archive := o.archive(); {
		case archive == "":
			s += o.host()
		case o.release.Get("Version") != "":
			s += o.release.Get("Version") + "/" + archive
		default:
			s += archive
		}
		if !slices.Contains(l, s) {
			l = append(l, s)
		}
	}
	return strings.TrimSpace(strings.Join(l, ", ") + " [" + c.Get("Architecture") + "]")
}

// archive is the name of the suite by which a release calls itself.
func (o origin) archive() string { return o.release.Get("Suite") }

func (o origin) host() string {
	_, rest, _ := strings.Cut(o.source.URI, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// describe names the index: "https://pkgs.k8s.io/core:/stable:/v1.35/deb  Packages".
func (o origin) describe() string { return describeIndex(o.source.Base(), o.source, o.component) }

const extendedStates = "/var/lib/apt/extended_states"

// open reads everything. It says what is wrong.
func (r *run) open() (*cache, bool) {
	db, err := deb.Open(r.c.Files)
	if err != nil {
		r.err("Problem parsing %s: %s", deb.StatusFile, err)
		return nil, false
	}
	sources, err := deb.Sources(r.c.Files)
	if err != nil {
		r.err("%s", err)
		r.err("The list of sources could not be read.")
		return nil, false
	}
	if l := r.preferences(); l != "" {
		r.err("%s: ckadrill does not simulate apt_preferences(5) yet", l)
		return nil, false
	}
	k := &cache{db: db, byName: map[string]*pkg{}, provides: map[string][]*candidate{}, auto: map[string]bool{}}
	for _, s := range sources {
		b, err := r.c.Files.ReadFile(deb.ListFile(s.Dist() + "InRelease"))
		if err != nil {
			continue
		}
		x := parseRelease(signedText(b))
		for _, c := range s.Components {
			b, err := r.c.Files.ReadFile(deb.ListFile(s.Dist() + deb.IndexName(c)))
			if err != nil {
				continue
			}
			l, err := deb.Parse(string(b))
			if err != nil {
				r.err("Unable to parse package file %s (1)", deb.ListFile(s.Dist()+deb.IndexName(c)))
				return nil, false
			}
			for _, p := range l {
				k.add(p, origin{s, c, x})
			}
		}
	}
	for _, rec := range db.Records() {
		p := k.entry(rec.Name())
		p.record = rec
		if !rec.Present() {
			continue
		}
		p.installed = rec
		k.add(rec.Paragraph, origin{})
	}
	for _, p := range k.byName {
		slices.SortStableFunc(p.versions, func(a, b *candidate) int { return deb.Compare(b.version(), a.version()) })
	}
	if b, err := r.c.Files.ReadFile(extendedStates); err == nil {
		l, _ := deb.Parse(string(b))
		for _, p := range l {
			k.auto[p.Get("Package")] = p.Get("Auto-Installed") == "1"
		}
	}
	return k, true
}

// preferences names a file of apt_preferences(5) that says something, "" if none does.
func (r *run) preferences() string {
	const dir = "/etc/apt/preferences.d"
	names := []string{"/etc/apt/preferences"}
	l, _ := r.c.Files.ReadDir(dir)
	for _, e := range l {
		names = append(names, dir+"/"+e.Name())
	}
	for _, n := range names {
		b, err := r.c.Files.ReadFile(n)
		if p, perr := deb.Parse(string(b)); err == nil && (perr != nil || len(p) > 0) {
			return n
		}
	}
	return ""
}

func (k *cache) entry(name string) *pkg {
	p := k.byName[name]
	if p == nil {
		p = &pkg{name: name}
		k.byName[name] = p
	}
	return p
}

// add takes up a version. One that is known already gets another origin.
func (k *cache) add(p deb.Paragraph, o origin) *candidate {
	x := k.entry(p.Get("Package"))
	i := slices.IndexFunc(x.versions, func(c *candidate) bool { return c.version() == p.Get("Version") })
	if i < 0 {
		c := &candidate{Paragraph: p}
		x.versions = append(x.versions, c)
		for _, n := range p.Provided() {
			k.provides[n] = append(k.provides[n], c)
		}
		i = len(x.versions) - 1
	}
	if o.source.URI != "" {
		x.versions[i].origins = append(x.versions[i].origins, o)
	}
	return x.versions[i]
}

// packages are all that there are, by name.
func (k *cache) packages() []*pkg {
	l := make([]*pkg, 0, len(k.byName))
	for _, p := range k.byName {
		l = append(l, p)
	}
	slices.SortFunc(l, func(a, b *pkg) int { return strings.Compare(a.name, b.name) })
	return l
}

// best is the version that would be installed, nil if there is none.
func (p *pkg) best() *candidate {
	if len(p.versions) == 0 {
		return nil
	}
	return p.versions[0]
}

func (p *pkg) find(version string) *candidate {
	for _, c := range p.versions {
		if c.version() == version {
			return c
		}
	}
	return nil
}

func (p *pkg) held() bool { return p.record != nil && p.record.Selection() == deb.Hold }

// current is the version that is installed, "" if none is.
func (p *pkg) current() string {
	if p.installed == nil {
		return ""
	}
	return p.installed.Version()
}

// upgradable says that there is a newer version than the installed one.
func (p *pkg) upgradable() bool {
	return p.installed != nil && p.best() != nil && deb.Compare(p.best().version(), p.current()) > 0
}

// saveAuto writes which packages have been installed for others.
func (r *run) saveAuto(k *cache) {
	var b strings.Builder
	for _, p := range k.packages() {
		if k.auto[p.name] {
			b.WriteString("Package: " + p.name + "\nArchitecture: " + architecture + "\nAuto-Installed: 1\n\n")
		}
	}
	if old, _ := r.c.Files.ReadFile(extendedStates); string(old) == b.String() {
		return
	}
	err := r.c.Files.MkdirAll(path.Dir(extendedStates), 0o755)
	if err == nil {
		err = r.c.Files.WriteFile(extendedStates, []byte(b.String()), 0o644)
	}
	if err != nil {
		r.err("Failed to write temporary StateFile %s (%s)", extendedStates, libc.Strerror(err))
	}
}

// named finds the packages that a word of the command line means: a name, or a pattern. The error has been said.
func (r *run) named(k *cache, word string) []*pkg {
	name := strings.TrimSuffix(word, ":"+architecture)
	if p := k.byName[name]; p != nil && (len(p.versions) > 0 || p.record != nil) {
		return []*pkg{p}
	}
	if k.provides[name] != nil {
		return []*pkg{k.entry(name)}
	}
	if strings.ContainsAny(name, "*?[") {
		g := libc.NewGlob(name, false)
		var l []*pkg
		for _, p := range k.packages() {
			if g.Match(p.name) && len(p.versions) > 0 {
				l = append(l, p)
			}
		}
		if l != nil {
			return l
		}
		r.err("Unable to locate package %s", word)
		r.err("Couldn't find any package by glob '%s'", word)
		return nil
	}
	r.err("Unable to locate package %s", word)
	if strings.ContainsAny(word, ".+") {
		r.err("Couldn't find any package by glob '%s'", word)
	}
	return nil
}
