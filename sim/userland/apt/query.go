package apt

import (
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

// aptCache is the program apt-cache, which answers questions.
func aptCache(c *libc.Prog) int {
	r := &run{c: c}
	return r.main(func(command string, words []string) bool { return r.ask(command, words) })
}

func (r *run) ask(command string, words []string) bool {
	questions := map[string]func(k *cache, words []string){
		"madison": r.madison, "policy": r.policy, "show": r.showRecords, "search": r.search, "depends": r.depends, "rdepends": r.dependants, "pkgnames": r.names, "showpkg": nil, "stats": nil,
		"dump": nil, "dumpavail": nil, "unmet": nil, "dotty": nil, "xvcg": nil, "showsrc": nil, "gencaches": nil,
	}
	f, ok := questions[command]
	switch {
	case !ok:
		return false
	case f == nil:
		r.err("ckadrill does not simulate %s %s yet", r.c.Name, command)
		return true
	}
	k, ok := r.open()
	if !ok {
		return true
	}
	if len(words) == 0 && command != "policy" && command != "pkgnames" {
		if command == "search" {
			r.err("You must give at least one search pattern")
		} else if command != "madison" {
			r.err("No packages found")
		}
		return true
	}
	f(k, words)
	return true
}

// madison is a table of the versions that can be had.
func (r *run) madison(k *cache, words []string) {
	for _, w := range words {
		x := k.byName[w]
		if x == nil {
			r.warn("Unable to locate package %s", w)
			continue
		}
		for _, c := range x.versions {
			for _, o := range c.origins {
				r.c.Put("%10s | %10s | %s\n", x.name, c.version(), o.describe())
			}
		}
	}
}

// priorities of apt_preferences(5).
const (
	priorityArchive   = 500
	priorityInstalled = 100
)

func (r *run) policy(k *cache, words []string) {
	if len(words) == 0 {
		r.policies()
		return
	}
	for _, w := range words {
		x := k.byName[w]
		if x == nil {
			r.note("Unable to locate package %s", w)
			continue
		}
		show := func(c *candidate) string {
			if c == nil {
				return "(none)"
			}
			return c.version()
		}
		r.c.Put("%s:\n  Installed: %s\n  Candidate: %s\n  Version table:\n", x.name, show(x.find(x.current())), show(x.best()))
		for _, c := range x.versions {
			mark, priority := "    ", priorityArchive
			if c.version() == x.current() {
				mark = " ***"
				if len(c.origins) == 0 {
					priority = priorityInstalled
				}
			}
			r.c.Put("%s %s %d\n", mark, c.version(), priority)
			for _, o := range c.origins {
				r.c.Put("       %4d %s\n", priorityArchive, o.describe())
			}
			if c.version() == x.current() {
				r.c.Put("       %4d %s\n", priorityInstalled, deb.StatusFile)
			}
		}
	}
}

// policies lists the indexes that there are.
func (r *run) policies() {
	r.c.Put("Package files:\n %d %s\n     release a=now\n", priorityInstalled, deb.StatusFile)
	sources, err := deb.Sources(r.c.Files)
	if err != nil {
		return
	}
	for _, s := range slices.Backward(sources) {
		b, err := r.c.Files.ReadFile(deb.ListFile(s.Dist() + "InRelease"))
		if err != nil {
			continue
		}
		x := parseRelease(signedText(b))
		for _, c := range s.Components {
			if _, err := r.c.Files.Stat(deb.ListFile(s.Dist() + deb.IndexName(c))); err != nil {
				continue
			}
			o := origin{s, c, x}
			r.c.Put(" %d %s\n", priorityArchive, o.describe())
			var l []string
			for _, f := range [][2]string{{"v", x.Get("Version")}, {"o", x.Get("Origin")}, {"a", x.Get("Suite")}, {"n", x.Get("Codename")}, {"l", x.Get("Label")}, {"c", c}} {
				if f[1] != "" {
					l = append(l, f[0]+"="+f[1])
				}
			}
			r.c.Put("     release %s\n     origin %s\n", strings.Join(l, ","), o.host())
		}
	}
	r.c.Put("Pinned packages:\n")
}

// found are the packages that a word of a question means.
func (r *run) found(k *cache, word string) []*pkg {
	had := len(r.notes)
	l := r.named(k, word)
	if len(l) == 0 {
		r.notes = r.notes[:had]
		r.note("Unable to locate package %s", word)
		r.err("No packages found")
	}
	return l
}

// showRecords prints what is known of packages. apt shows one version, apt-cache all.
func (r *run) showRecords(k *cache, words []string) {
	for _, w := range words {
		l := r.found(k, cutVersion(w))
		for _, x := range l {
			versions := x.versions
			if v := w[len(cutVersion(w)):]; v != "" {
				if c := r.versionOf(k, w); c != nil {
					versions = []*candidate{c}
				} else {
					continue
				}
			} else if r.c.Name == "apt" && !r.options.allVersions && len(versions) > 1 {
				r.note("There are %d additional records. Please use the '-a' switch to see them.", len(versions)-1)
				versions = versions[:1]
			}
			for _, c := range versions {
				r.record(x, c)
			}
		}
	}
}

func (r *run) record(x *pkg, c *candidate) {
	p := c.Clone()
	if r.c.Name == "apt" {
		p = slices.DeleteFunc(p, func(f deb.Field) bool {
			return slices.Contains([]string{"Filename", "SHA256", "Status", "Architecture", "Conffiles"}, f.Name)
		})
		if n := c.size(); n > 0 {
			p.Set("Size", "")
			p.Set("Download-Size", sizeText(float64(n))+"B")
		}
		p.Set("Installed-Size", sizeText(float64(installedSize(c.Paragraph)))+"B")
		if c.version() == x.current() {
			p.Set("APT-Manual-Installed", "yes")
		}
		if len(c.origins) > 0 {
			p.Set("APT-Sources", c.origins[0].describe())
		} else {
			p.Set("APT-Sources", deb.StatusFile)
		}
	}
	// the description comes last
	d := p.Get("Description")
	p.Set("Description", "")
	p.Set("Description", d)
	r.c.Put("%s\n", p.String())
}

func (r *run) search(k *cache, words []string) {
	var l []*regex.Regexp
	for _, w := range words {
		re, err := regex.Compile(w, regex.Flags{Extended: true, Fold: true})
		if err != nil {
			r.err("Regex compilation error - %s", err)
			return
		}
		l = append(l, re)
	}
	if r.c.Name == "apt" {
		r.progress("Sorting")
		r.progress("Full Text Search")
	}
	for _, x := range k.packages() {
		c := x.best()
		if c == nil {
			continue
		}
		text := x.name
		if !r.options.namesOnly {
			text += "\n" + c.Get("Description")
		}
		if slices.ContainsFunc(l, func(re *regex.Regexp) bool { return !re.MatchString(text) }) {
			continue
		}
		summary, _, _ := strings.Cut(c.Get("Description"), "\n")
		if r.c.Name == "apt" {
			r.c.Put("%s\n  %s\n\n", r.listLine(k, x, c), summary)
		} else {
			r.c.Put("%s - %s\n", x.name, summary)
		}
	}
}

func (r *run) depends(k *cache, words []string) {
	for _, w := range words {
		for _, x := range r.found(k, w) {
			r.c.Put("%s\n", x.name)
			c := x.best()
			if c == nil {
				continue
			}
			for _, field := range []string{"Pre-Depends", "Depends", "Conflicts", "Replaces", "Recommends", "Suggests"} {
				name := strings.Replace(field, "-D", "D", 1)
				for _, alternatives := range deb.Relations(c.Get(field)) {
					for i, a := range alternatives {
						mark := " "
						if i < len(alternatives)-1 {
							mark = "|"
						}
						r.c.Put(" %s%s: %s\n", mark, name, a)
					}
				}
			}
		}
	}
}

func (r *run) dependants(k *cache, words []string) {
	for _, w := range words {
		for _, x := range r.found(k, w) {
			r.c.Put("%s\nReverse Depends:\n", x.name)
			for _, o := range k.packages() {
				c := o.best()
				if c == nil {
					continue
				}
				needs := slices.ContainsFunc(append(deb.Relations(c.Get("Depends")), deb.Relations(c.Get("Recommends"))...), func(l []deb.Relation) bool {
					return slices.ContainsFunc(l, func(a deb.Relation) bool { return a.Name == x.name })
				})
				if needs {
					r.c.Put("  %s\n", o.name)
				}
			}
		}
	}
}

func (r *run) names(k *cache, words []string) {
	for _, x := range k.packages() {
		if len(x.versions) > 0 && (len(words) == 0 || strings.HasPrefix(x.name, words[0])) {
			r.c.Put("%s\n", x.name)
		}
	}
}
