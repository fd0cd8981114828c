package apt

import (
	"path"
	"slices"
	"time"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// aptGet is the program apt-get.
func aptGet(c *libc.Prog) int {
	r := &run{c: c}
	return r.main(func(command string, words []string) bool { return r.get(command, words) })
}

// apt is the program apt: what apt-get does, and some of apt-cache.
func apt(c *libc.Prog) int {
	r := &run{c: c}
	return r.main(func(command string, words []string) bool {
		switch command {
		case "list":
			r.list(words)
		case "show", "search", "policy", "depends", "rdepends", "madison":
			return r.ask(command, words)
		default:
			return r.get(command, words)
		}
		return true
	})
}

// main reads the command line, does the command, and says how it went.
func (r *run) main(do func(command string, words []string) bool) int {
	words, ok := r.parse()
	switch {
	case !ok:
		return r.end()
	case len(words) == 0:
		r.c.Put("apt %s (%s)\nckadrill does not simulate %s --help; see the manual page %s(8).\n", version, architecture, r.c.Name, r.c.Name)
		return 1
	case !do(words[0], words[1:]):
		r.err("Invalid operation %s", words[0])
	}
	if n := r.end(); n != 0 {
		return n
	}
	return r.c.Status
}

func (r *run) get(command string, words []string) bool {
	switch command {
	case "update":
		r.update()
		if r.c.Name == "apt" && !r.failed() {
			r.sumUp()
		}
	case "install", "remove", "purge", "reinstall":
		r.change(command, words)
	case "autoremove", "auto-remove":
		r.change("autoremove", words)
	case "autopurge":
		r.options.purge = true
		r.change("autoremove", words)
	case "upgrade":
		r.upgrade(r.c.Name == "apt")
	case "dist-upgrade", "full-upgrade":
		r.upgrade(true)
	case "clean", "distclean":
		r.clean(false)
	case "autoclean", "auto-clean":
		r.clean(true)
	case "check":
		r.load()
	case "download":
		r.fetchHere(words)
	case "source", "build-dep", "changelog", "indextargets", "satisfy", "edit-sources", "dselect-upgrade", "markauto", "unmarkauto":
		r.err("ckadrill does not simulate %s %s yet", r.c.Name, command)
	default:
		return false
	}
	return true
}

// sumUp is how "apt update" ends.
func (r *run) sumUp() {
	k, ok := r.open()
	if !ok {
		return
	}
	r.progress("Building dependency tree")
	r.progress("Reading state information")
	n := 0
	for _, x := range k.packages() {
		if x.upgradable() {
			n++
		}
	}
	switch n {
	case 0:
		r.say("All packages are up to date.\n")
	case 1:
		r.say("1 package can be upgraded. Run 'apt list --upgradable' to see it.\n")
	default:
		r.say("%d packages can be upgraded. Run 'apt list --upgradable' to see them.\n", n)
	}
}

// fetchHere is "apt-get download": archives are fetched into the current directory.
func (r *run) fetchHere(words []string) {
	k, ok := r.open()
	if !ok {
		return
	}
	start := time.Now()
	var total int64
	for i, w := range words {
		c := r.versionOf(k, w)
		if c == nil {
			continue
		}
		if len(c.origins) == 0 {
			r.err("Can't find a source to download version '%s' of '%s:%s'", c.version(), c.name(), architecture)
			continue
		}
		o := c.origins[0]
		f, err := r.fetch(o.source.Base()+c.Get("Filename"), time.Time{})
		if err != nil {
			r.err("Failed to fetch %s  %s", f.from, err)
			continue
		}
		r.say("Get:%d %s %s %s [%sB]\n", i+1, o.describe(), c.name(), c.version(), sizeText(float64(c.size())))
		total += c.size()
		name := path.Join(r.c.Dir(), archiveName(c))
		if err := r.c.Files.WriteFile(name, f.content, 0o644); err != nil {
			r.err("Failed to write %s (%s)", name, libc.Strerror(err))
		}
	}
	if total > 0 {
		r.fetchedLine(total, time.Since(start))
	}
}

// versionOf is the version that a word "name=version" means. The error has been said.
func (r *run) versionOf(k *cache, word string) *candidate {
	l := r.named(k, cutVersion(word))
	if len(l) == 0 {
		return nil
	}
	x := l[0]
	if v := word[len(cutVersion(word)):]; v != "" {
		i := slices.IndexFunc(x.versions, func(c *candidate) bool { return libc.NewGlob(v[1:], false).Match(c.version()) })
		if i < 0 {
			r.err("Version '%s' for '%s' was not found", v[1:], x.name)
			return nil
		}
		return x.versions[i]
	}
	if x.best() == nil {
		r.err("Can't select versions from package '%s' as it is purely virtual", x.name)
	}
	return x.best()
}

func cutVersion(word string) string {
	for i := range word {
		if word[i] == '=' {
			return word[:i]
		}
	}
	return word
}

// list is "apt list".
func (r *run) list(patterns []string) {
	k, ok := r.open()
	if !ok {
		return
	}
	if r.tty() {
		r.c.Put("Listing... Done\n")
	} else {
		r.c.Put("Listing...\n")
	}
	more := 0
	for _, x := range k.packages() {
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return libc.NewGlob(p, false).Match(x.name) }) {
			continue
		}
		switch {
		case len(x.versions) == 0,
			(r.options.installed || r.options.manualInstalled) && x.installed == nil,
			r.options.manualInstalled && k.auto[x.name],
			r.options.upgradable && !x.upgradable():
			continue
		}
		versions := x.versions[:1]
		if r.options.installed && x.installed != nil {
			versions = []*candidate{x.find(x.current())}
		}
		if r.options.allVersions {
			versions = x.versions
		}
		for _, c := range versions {
			r.c.Put("%s\n", r.listLine(k, x, c))
		}
		if r.options.allVersions {
			r.c.Put("\n")
		} else if len(patterns) > 0 {
			more += len(x.versions) - 1
		}
	}
	switch {
	case more == 1:
		r.note("There is 1 additional version. Please use the '-a' switch to see it")
	case more > 1:
		r.note("There are %d additional versions. Please use the '-a' switch to see them.", more)
	}
}

// listLine is a package as "apt list" shows it: "kubeadm/unknown,now 1.35.9-1.1 amd64 [installed]".
func (r *run) listLine(k *cache, x *pkg, c *candidate) string {
	var suites []string
	for _, o := range c.origins {
		s := o.archive()
		if s == "" {
			s = "unknown"
		}
		if !slices.Contains(suites, s) {
			suites = append(suites, s)
		}
	}
	now := c.version() == x.current()
	if now {
		suites = append(suites, "now")
	}
	line := x.name + "/"
	for i, s := range suites {
		if i > 0 {
			line += ","
		}
		line += s
	}
	line += " " + c.version() + " " + c.Get("Architecture")
	switch {
	case now && x.upgradable():
		line += " [installed,upgradable to: " + x.best().version() + "]"
	case now && len(c.origins) == 0:
		line += " [installed,local]"
	case now && k.auto[x.name]:
		line += " [installed,automatic]"
	case now:
		line += " [installed]"
	case x.installed != nil && c == x.best() && x.upgradable():
		line += " [upgradable from: " + x.current() + "]"
	case x.installed == nil && x.record != nil && x.record.State() == deb.ConfigFiles:
		line += " [residual-config]"
	}
	return line
}
