package apt

import (
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
)

// plan is what is to be changed.
type plan struct {
	k       *cache
	install map[string]*candidate // a new version, or a first one
	remove  map[string]bool
	asked   map[string]bool // named by the user
	reason  map[string]bool // installed for another package
	again   map[string]bool // the same version once more
	unmet   []string        // lines about dependencies
	extra   map[string]bool // recommended by what is installed, but not installed
}

func newPlan(k *cache) *plan {
	return &plan{k: k, install: map[string]*candidate{}, remove: map[string]bool{}, asked: map[string]bool{}, reason: map[string]bool{}, again: map[string]bool{}, extra: map[string]bool{}}
}

// will is the version of a package when all is done, nil if it is not there then.
func (p *plan) will(name string) deb.Paragraph {
	if c := p.install[name]; c != nil {
		return c.Paragraph
	}
	x := p.k.byName[name]
	if x == nil || x.installed == nil || p.remove[name] {
		return nil
	}
	return x.installed.Paragraph
}

// met says that one of some alternatives will be there.
func (p *plan) met(alternatives []deb.Relation) bool {
	for _, a := range alternatives {
		if w := p.will(a.Name); w != nil && a.Allows(w.Get("Version")) {
			return true
		}
		if a.Operator != "" {
			continue
		}
		for _, c := range p.k.provides[a.Name] {
			if w := p.will(c.name()); w != nil && slices.Contains(w.Provided(), a.Name) {
				return true
			}
		}
	}
	return false
}

// provider finds a version that satisfies one of some alternatives.
func (p *plan) provider(alternatives []deb.Relation) *candidate {
	for _, a := range alternatives {
		if x := p.k.byName[a.Name]; x != nil {
			for _, c := range x.versions {
				if a.Allows(c.version()) && c.origins != nil {
					return c
				}
			}
		}
		if a.Operator == "" {
			for _, c := range p.k.provides[a.Name] {
				if c.origins != nil {
					return c
				}
			}
		}
	}
	return nil
}

// add plans a version, and what it needs. recommended says whether that includes what it recommends.
func (p *plan) add(c *candidate, recommended bool) {
	if p.install[c.name()] == c {
		return
	}
	p.want(c)
	p.complete(c, recommended)
}

// want plans a version without what it needs.
func (p *plan) want(c *candidate) {
	p.install[c.name()] = c
	delete(p.remove, c.name())
}

// complete plans what a version needs.
func (p *plan) complete(c *candidate, recommended bool) {
	for _, field := range []string{"Pre-Depends", "Depends", "Recommends"} {
		for _, alternatives := range deb.Relations(c.Get(field)) {
			if p.met(alternatives) {
				continue
			}
			d := p.provider(alternatives)
			switch {
			case field == "Recommends" && (!recommended || d == nil):
				if d != nil {
					p.extra[d.name()] = true
				}
			case d == nil:
				p.lacks(c, alternatives)
			default:
				if !p.asked[d.name()] {
					p.reason[d.name()] = true
				}
				p.add(d, recommended)
			}
		}
	}
	for _, alternatives := range deb.Relations(c.Get("Conflicts")) {
		a := alternatives[0]
		for _, x := range p.k.packages() {
			if x.name == c.name() || x.installed == nil || !a.Allows(x.current()) {
				continue
			}
			if x.name == a.Name || slices.Contains(x.installed.Provided(), a.Name) {
				p.drop(x.name)
			}
		}
	}
}

// lacks notes that a version needs something that cannot be had.
func (p *plan) lacks(c *candidate, alternatives []deb.Relation) {
	var l []string
	for _, a := range alternatives {
		why := "it is not installable"
		switch x := p.k.byName[a.Name]; {
		case x == nil || len(x.versions) == 0:
		case p.remove[a.Name]:
			why = "it is not going to be installed"
		case p.will(a.Name) != nil:
			why = p.will(a.Name).Get("Version") + " is to be installed"
		default:
			why = "it is not going to be installed"
		}
		l = append(l, a.String()+" but "+why)
	}
	p.unmet = append(p.unmet, " "+c.name()+" : Depends: "+strings.Join(l, " or\n                "))
}

// drop plans to remove a package, and those that need it.
func (p *plan) drop(name string) {
	if p.remove[name] {
		return
	}
	p.remove[name] = true
	delete(p.install, name)
	for _, x := range p.k.packages() {
		w := p.will(x.name)
		if w == nil {
			continue
		}
		for _, alternatives := range append(deb.Relations(w.Get("Pre-Depends")), deb.Relations(w.Get("Depends"))...) {
			if !p.met(alternatives) && slices.ContainsFunc(alternatives, func(a deb.Relation) bool { return a.Name == name || p.stoodFor(name, a.Name) }) {
				p.drop(x.name)
				break
			}
		}
	}
}

// stoodFor says that an installed package provides a name.
func (p *plan) stoodFor(pkg, name string) bool {
	x := p.k.byName[pkg]
	return x != nil && x.installed != nil && slices.Contains(x.installed.Provided(), name)
}

// unneeded are packages that were installed for others, which are not there any more.
func (p *plan) unneeded() (l []string) {
	needed := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		w := p.will(name)
		if w == nil || needed[name] {
			return
		}
		needed[name] = true
		for _, field := range []string{"Pre-Depends", "Depends", "Recommends", "Suggests"} {
			for _, alternatives := range deb.Relations(w.Get(field)) {
				for _, a := range alternatives {
					visit(a.Name)
					for _, c := range p.k.provides[a.Name] {
						visit(c.name())
					}
				}
			}
		}
	}
	auto := func(name string) bool { return p.k.auto[name] && !p.asked[name] || p.reason[name] }
	for _, x := range p.k.packages() {
		if !auto(x.name) || x.installed != nil && x.installed.Get("Essential") == "yes" {
			visit(x.name)
		}
	}
	for _, x := range p.k.packages() {
		if x.installed != nil && !p.remove[x.name] && !needed[x.name] {
			l = append(l, x.name)
		}
	}
	return l
}

// kinds of changes.
const (
	kept = iota
	fresh
	upgraded
	downgraded
	reinstalled
	removed
)

// change says what will become of a package.
func (p *plan) change(x *pkg) int {
	c := p.install[x.name]
	switch {
	case p.remove[x.name]:
		if x.installed == nil {
			return kept
		}
		return removed
	case c == nil:
		return kept
	case x.installed == nil:
		return fresh
	}
	switch n := deb.Compare(c.version(), x.current()); {
	case n > 0:
		return upgraded
	case n < 0:
		return downgraded
	case p.again[x.name]:
		return reinstalled
	}
	return kept
}

// of lists the packages with a change, by name.
func (p *plan) of(kind int) (l []*pkg) {
	for _, x := range p.k.packages() {
		if p.change(x) == kind {
			l = append(l, x)
		}
	}
	return l
}
