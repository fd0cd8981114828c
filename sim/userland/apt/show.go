package apt

import (
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
)

// width is that of the terminal, less a margin.
func (r *run) width() int {
	w := 80
	if r.c.TTY != nil {
		if columns, _ := r.c.TTY.Size(); columns > 0 {
			w = columns
		}
	}
	return w - 3
}

// showList prints names below a headline, as many on a line as fit.
func (r *run) showList(head string, names []string, versions map[string]string) bool {
	if len(names) == 0 {
		return false
	}
	r.say("%s\n", head)
	if r.options.showVersions {
		for _, n := range names {
			r.say("   %s (%s)\n", n, versions[n])
		}
		return true
	}
	line := " "
	for _, n := range names {
		if len(line)+1+len(n) > r.width() {
			r.say("%s\n", line)
			line = " "
		}
		line += " " + n
	}
	r.say("%s\n", line)
	return true
}

func namesOf(l []*pkg) []string {
	var names []string
	for _, p := range l {
		names = append(names, p.name)
	}
	return names
}

// show prints what a plan changes. asksFor says that something needs an answer even where all was asked for.
func (r *run) show(p *plan) {
	versions := map[string]string{}
	for _, x := range p.k.packages() {
		c := p.install[x.name]
		switch {
		case c == nil:
			versions[x.name] = x.current()
		case x.installed == nil:
			versions[x.name] = c.version()
		default:
			versions[x.name] = x.current() + " => " + c.version()
		}
	}
	star := func(l []*pkg) (names []string) {
		for _, x := range l {
			n := x.name
			if r.options.purge {
				n += "*"
				versions[n] = versions[x.name]
			}
			names = append(names, n)
		}
		return names
	}
	r.showList("The following packages will be REMOVED:", star(p.of(removed)), versions)
	r.showList("The following NEW packages will be installed:", namesOf(p.of(fresh)), versions)
}

// showRest prints what comes after the packages that are kept back.
func (r *run) showRest(p *plan) {
	r.showList("The following held packages will be changed:", namesOf(p.heldChanged()), nil)
	r.showList("The following packages will be upgraded:", namesOf(p.of(upgraded)), p.versions())
	r.showList("The following packages will be DOWNGRADED:", namesOf(p.of(downgraded)), p.versions())
	if l := p.essential(); len(l) > 0 {
		r.showList("WARNING: The following essential packages will be removed.\nThis should NOT be done unless you know exactly what you are doing!", l, nil)
	}
	n := func(kind int) int { return len(p.of(kind)) }
	r.say("%d upgraded, %d newly installed, ", n(upgraded), n(fresh))
	if k := n(reinstalled); k > 0 {
		r.say("%d reinstalled, ", k)
	}
	if k := n(downgraded); k > 0 {
		r.say("%d downgraded, ", k)
	}
	r.say("%d to remove and %d not upgraded.\n", n(removed), p.notUpgraded())
	if k := p.halfDone(); k > 0 {
		r.say("%d not fully installed or removed.\n", k)
	}
}

func (p *plan) versions() map[string]string {
	m := map[string]string{}
	for name, c := range p.install {
		m[name] = c.version()
		if x := p.k.byName[name]; x.installed != nil {
			m[name] = x.current() + " => " + c.version()
		}
	}
	return m
}

// heldChanged are the held packages that are to be changed.
func (p *plan) heldChanged() (l []*pkg) {
	for _, x := range p.k.packages() {
		if c := p.change(x); x.held() && x.installed != nil && c != kept && c != reinstalled {
			l = append(l, x)
		}
	}
	return l
}

func (p *plan) essential() (l []string) {
	for _, x := range p.of(removed) {
		if x.installed.Get("Essential") == "yes" {
			l = append(l, x.name)
		}
	}
	return l
}

func (p *plan) notUpgraded() (n int) {
	for _, x := range p.of(kept) {
		if x.upgradable() {
			n++
		}
	}
	return n
}

// halfDone counts the packages that dpkg has left unconfigured.
func (p *plan) halfDone() (n int) {
	for _, x := range p.k.packages() {
		if x.installed != nil && x.installed.State() != deb.Installed && p.change(x) == kept {
			n++
		}
	}
	return n
}

// sizes are what must be fetched, what the archives take in all, and by how much the machine will be fuller, in bytes.
func (p *plan) sizes(here func(*candidate) bool) (fetch, all, more int64) {
	for _, x := range p.k.packages() {
		switch p.change(x) {
		case removed:
			more -= installedSize(x.installed.Paragraph)
		case kept:
		default:
			c := p.install[x.name]
			more += installedSize(c.Paragraph)
			if x.installed != nil {
				more -= installedSize(x.installed.Paragraph)
			}
			if c.local != "" {
				continue
			}
			all += c.size()
			if !here(c) {
				fetch += c.size()
			}
		}
	}
	return fetch, all, more
}

// showUnneeded tells of packages that nobody needs.
func (r *run) showUnneeded(p *plan) {
	l := p.unneeded()
	if len(l) == 0 || r.options.autoRemove {
		return
	}
	head, use := "The following packages were automatically installed and are no longer required:", "Use 'sudo apt autoremove' to remove them."
	if len(l) == 1 {
		head, use = "The following package was automatically installed and is no longer required:", "Use 'sudo apt autoremove' to remove it."
	}
	if r.showList(head, l, nil) {
		if r.c.Getenv("SUDO_USER") == "" {
			use = strings.Replace(use, "sudo ", "", 1)
		}
		r.say("%s\n", use)
	}
}

// additional are the packages that come with those that were asked for.
func (p *plan) additional() (l []string) {
	for _, x := range p.of(fresh) {
		if !p.asked[x.name] {
			l = append(l, x.name)
		}
	}
	for _, x := range p.of(upgraded) {
		if !p.asked[x.name] {
			l = append(l, x.name)
		}
	}
	slices.Sort(l)
	return l
}
