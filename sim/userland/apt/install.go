package apt

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// archivesDir is where fetched archives are kept.
const archivesDir = "/var/cache/apt/archives"

// Times that apt takes to read what it knows.
const cacheTime = 300 * time.Millisecond

// load reads the cache and says so.
func (r *run) load() (*cache, bool) {
	r.c.Wait(cacheTime)
	r.progress("Reading package lists")
	k, ok := r.open()
	if !ok {
		return nil, false
	}
	r.progress("Building dependency tree")
	r.progress("Reading state information")
	return k, true
}

// change is install, remove, purge, reinstall and autoremove: words are packages with "=version", "/release", "+" or "-".
func (r *run) change(action string, words []string) {
	if !r.locked() {
		return
	}
	k, ok := r.load()
	if !ok {
		return
	}
	p := newPlan(k)
	r.options.purge = r.options.purge || action == "purge"
	var chosen []*candidate
	for _, w := range words {
		do := action
		if strings.HasPrefix(w, "/") || strings.HasPrefix(w, "./") || strings.HasPrefix(w, "../") {
			c := r.localFile(k, w)
			if c == nil {
				continue
			}
			p.asked[c.name()] = true
			chosen = append(chosen, c)
			continue
		}
		if k.byName[w] == nil && len(w) > 1 {
			switch w[len(w)-1] {
			case '-':
				w, do = w[:len(w)-1], "remove"
			case '+':
				w, do = w[:len(w)-1], "install"
			}
		}
		name, version, hasVersion := strings.Cut(w, "=")
		name, release, _ := strings.Cut(name, "/")
		if release == "" {
			release = r.options.target
		}
		found := r.named(k, name)
		if len(found) == 0 && do == "install" {
			r.note("ckadrill's archive of Ubuntu holds few of its packages")
		}
		for _, x := range found {
			if do == "remove" || do == "purge" || do == "autoremove" && len(words) > 0 {
				r.drop(p, x, name)
				continue
			}
			if c := r.choose(k, p, x, version, hasVersion, release, action == "reinstall"); c != nil {
				p.asked[c.name()] = true
				chosen = append(chosen, c)
			}
		}
	}
	if r.failed() || !r.mend(p) {
		return
	}
	chosen = slices.DeleteFunc(chosen, func(c *candidate) bool { return c.version() == k.byName[c.name()].current() && !p.again[c.name()] })
	for _, c := range chosen {
		p.want(c)
	}
	for _, c := range chosen {
		p.complete(c, !r.options.noRecommends)
	}
	if r.unmet(p) {
		return
	}
	if action == "autoremove" || r.options.autoRemove {
		for _, n := range p.unneeded() {
			p.remove[n] = true
		}
	}
	r.showUnneeded(p)
	r.showList("The following additional packages will be installed:", p.additional(), nil)
	var extra []string
	for n := range p.extra {
		if p.will(n) == nil {
			extra = append(extra, n)
		}
	}
	slices.Sort(extra)
	r.showList("Recommended packages:", extra, nil)
	for _, n := range slices.Sorted(maps.Keys(p.asked)) {
		if k.auto[n] && action != "remove" && action != "purge" {
			delete(k.auto, n)
			if k.byName[n].installed != nil {
				r.say("%s set to manually installed.\n", n)
			}
		}
	}
	expected := len(p.asked)
	if action == "remove" || action == "purge" || action == "autoremove" {
		expected = -1
	}
	changes := len(p.install)
	r.execute(p, expected >= 0 && changes <= expected && len(p.remove) == 0)
}

// mend plans what packages need that dpkg could not set up; without --fix-broken it says so, and that there is more to do.
func (r *run) mend(p *plan) bool {
	var broken []string
	for _, x := range p.k.packages() {
		if x.installed == nil || x.installed.State() == deb.Installed {
			continue
		}
		try := newPlan(p.k)
		for _, alternatives := range append(deb.Relations(x.installed.Get("Pre-Depends")), deb.Relations(x.installed.Get("Depends"))...) {
			if !try.met(alternatives) {
				try.lacks(x.find(x.current()), alternatives)
			}
		}
		broken = append(broken, try.unmet...)
		if r.options.fixBroken {
			p.complete(x.find(x.current()), false)
		}
	}
	if len(broken) == 0 {
		return true
	}
	if r.options.fixBroken {
		r.say("Correcting dependencies... Done\n")
		return true
	}
	r.say("You might want to run 'apt --fix-broken install' to correct these.\nThe following packages have unmet dependencies:\n%s\n", strings.Join(broken, "\n"))
	r.err("Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution).")
	return false
}

// choose is the version that a word asks for, nil if there is nothing to do, or it is wrong.
func (r *run) choose(k *cache, p *plan, x *pkg, version string, hasVersion bool, release string, again bool) *candidate {
	again = again || r.options.reinstall
	c := x.best()
	if len(x.versions) == 0 {
		providers := k.provides[x.name]
		if len(providers) == 0 {
			r.err("Package '%s' has no installation candidate", x.name)
			return nil
		}
		if len(providers) > 1 || hasVersion {
			r.virtual(x, providers)
			return nil
		}
		c = providers[0]
		r.say("Note, selecting '%s' instead of '%s'\n", c.name(), x.name)
		x = k.byName[c.name()]
	}
	switch {
	case hasVersion:
		i := slices.IndexFunc(x.versions, func(c *candidate) bool {
			return c.version() == version || strings.ContainsAny(version, "*?[") && libc.NewGlob(version, false).Match(c.version())
		})
		if i < 0 {
			r.err("Version '%s' for '%s' was not found", version, x.name)
			return nil
		}
		if c = x.versions[i]; c.version() != version {
			r.say("Selected version '%s' (%s) for '%s'\n", c.version(), c.label(), x.name)
		}
	case release != "":
		i := slices.IndexFunc(x.versions, func(c *candidate) bool {
			return slices.ContainsFunc(c.origins, func(o origin) bool { return o.archive() == release || o.release.Get("Codename") == release })
		})
		if i < 0 {
			r.err("Release '%s' for '%s' was not found", release, x.name)
			return nil
		}
		c = x.versions[i]
		r.say("Selected version '%s' (%s) for '%s'\n", c.version(), c.label(), x.name)
	}
	switch {
	case x.installed == nil && r.options.onlyUpgrade:
		r.say("Skipping %s, it is not installed and only upgrades are requested.\n", x.name)
		return nil
	case x.installed != nil && r.options.noUpgrade && !again:
		r.say("Skipping %s, it is already installed and upgrade is not set.\n", x.name)
		return nil
	case x.current() == c.version() && again:
		if c.origins == nil && c.local == "" {
			r.say("Reinstallation of %s is not possible, it cannot be downloaded.\n", x.name)
			return nil
		}
		p.again[x.name] = true
	case x.current() == c.version():
		r.say("%s is already the newest version (%s).\n", x.name, x.current())
	}
	return c
}

// virtual says which packages stand for a name that is none.
func (r *run) virtual(x *pkg, providers []*candidate) {
	r.c.Out.Flush()
	r.c.Put("Package %s is a virtual package provided by:\n", x.name)
	for _, c := range providers {
		r.c.Put("  %s %s\n", c.name(), c.version())
	}
	r.c.Put("You should explicitly select one to install.\n\n")
	r.err("Package '%s' has no installation candidate", x.name)
}

func (r *run) drop(p *plan, x *pkg, word string) {
	purgeable := r.options.purge && x.record != nil && x.record.State() == deb.ConfigFiles
	if x.installed == nil && !purgeable {
		r.say("Package '%s' is not installed, so not removed\n", word)
		return
	}
	p.asked[x.name] = true
	p.drop(x.name)
}

// localFile takes up an archive that is named by its path.
func (r *run) localFile(k *cache, word string) *candidate {
	b, err := r.c.Files.ReadFile(r.c.Path(word))
	if err != nil {
		r.err("Unsupported file %s given on commandline", word)
		return nil
	}
	d, err := deb.Read(b)
	if err != nil {
		r.err("Invalid archive signature")
		r.err("The package lists or status file could not be parsed or opened.")
		return nil
	}
	c := k.add(d.Control, origin{})
	c.local = word
	r.say("Note, selecting '%s' instead of '%s'\n", c.name(), word)
	return c
}

// unmet says what cannot be installed, and whether there is anything.
func (r *run) unmet(p *plan) bool {
	if len(p.unmet) == 0 {
		return false
	}
	r.say("Some packages could not be installed. This may mean that you have\nrequested an impossible situation or if you are using the unstable\ndistribution that some required packages have not yet been created\nor been moved out of Incoming.\nThe following information may help to resolve the situation:\n\n")
	r.say("The following packages have unmet dependencies:\n%s\n", strings.Join(p.unmet, "\n"))
	r.err("Unable to correct problems, you have held broken packages.")
	return true
}

// upgrade brings all packages up to date. Without full nothing is removed and nothing new installed.
func (r *run) upgrade(full bool) {
	if !r.locked() {
		return
	}
	k, ok := r.load()
	if !ok {
		return
	}
	r.progress("Calculating upgrade")
	p := newPlan(k)
	var back []string
	for _, x := range k.packages() {
		if !x.upgradable() {
			continue
		}
		try := newPlan(k)
		try.add(x.best(), false)
		if x.held() || len(try.unmet) > 0 || !full && (len(try.of(fresh)) > 0 || len(try.remove) > 0) {
			back = append(back, x.name)
			continue
		}
		p.asked[x.name] = true
		p.add(x.best(), false)
	}
	r.showUnneeded(p)
	r.executeKeeping(p, back, len(p.install) == 0)
}

func (r *run) execute(p *plan, agreed bool) { r.executeKeeping(p, nil, agreed) }

// executeKeeping shows a plan, asks where it must, and does it. back are the packages that are kept back.
func (r *run) executeKeeping(p *plan, back []string, agreed bool) {
	r.show(p)
	r.showList("The following packages have been kept back:", back, nil)
	r.showRest(p)
	switch {
	case r.options.simulate:
		r.pretend(p)
		return
	case len(p.install) == 0 && len(p.remove) == 0 && p.halfDone() == 0:
		r.saveAuto(p.k)
		return
	}
	if !r.allowed(p) {
		return
	}
	here := func(c *candidate) bool { return r.archive(c) != "" }
	fetch, all, more := p.sizes(here)
	switch {
	case fetch != all:
		r.say("Need to get %sB/%sB of archives.\n", sizeText(float64(fetch)), sizeText(float64(all)))
	case all != 0:
		r.say("Need to get %sB of archives.\n", sizeText(float64(all)))
	}
	if more >= 0 {
		r.say("After this operation, %sB of additional disk space will be used.\n", sizeText(float64(more)))
	} else {
		r.say("After this operation, %sB disk space will be freed.\n", sizeText(float64(-more)))
	}
	if !r.agree(p, agreed) {
		return
	}
	archives, ok := r.download(p)
	if !ok || r.options.downloadOnly {
		if ok {
			r.say("Download complete and in download only mode\n")
		}
		return
	}
	r.apply(p, archives)
}

// risks are changes that need more than -y.
func (r *run) risks(p *plan) (l []string) {
	o := &r.options
	for _, x := range []struct {
		is      bool
		allowed bool
		what    string
	}{
		{len(p.heldChanged()) > 0, o.changeHeld, "Held packages were changed and -y was used without --allow-change-held-packages."},
		{len(p.of(downgraded)) > 0, o.downgrade, "Packages were downgraded and -y was used without --allow-downgrades."},
		{len(p.essential()) > 0, o.removeEssential, "Essential packages were removed and -y was used without --allow-remove-essential."},
	} {
		if x.is && !x.allowed {
			l = append(l, x.what)
		}
	}
	return l
}

// allowed refuses what -y alone does not agree to.
func (r *run) allowed(p *plan) bool {
	l := r.risks(p)
	if len(l) == 0 || !r.options.yes {
		return true
	}
	for _, what := range l {
		r.err("%s", what)
	}
	return false
}

// agree finds out whether the user wants a plan.
func (r *run) agree(p *plan, agreed bool) bool {
	ask := !agreed || len(r.risks(p)) > 0
	if !ask || r.options.yes {
		return true
	}
	r.c.Put("Do you want to continue? [Y/n] ")
	r.c.Out.Flush()
	line, err := libc.ReadAnswer(r.c.Stdin)
	line = strings.ToLower(strings.TrimSpace(line))
	if err != nil || line != "" && line[0] != 'y' {
		r.c.Put("Abort.\n")
		r.c.Out.Flush()
		r.c.Status = 1
		return false
	}
	return true
}

// order is the packages that a plan installs, those first that others need.
func (p *plan) order() (l []*candidate) {
	done := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		c := p.install[name]
		if c == nil || done[name] {
			return
		}
		done[name] = true
		for _, alternatives := range append(deb.Relations(c.Get("Pre-Depends")), deb.Relations(c.Get("Depends"))...) {
			for _, a := range alternatives {
				visit(a.Name)
			}
		}
		l = append(l, c)
	}
	for _, x := range p.k.packages() {
		visit(x.name)
	}
	return l
}

// removing is the packages that a plan removes, those first that need others; purge includes those of which configuration
// is left.
func (p *plan) removing(purge bool) (l []string) {
	done := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		x := p.k.byName[name]
		if x == nil || done[name] || !p.remove[name] {
			return
		}
		done[name] = true
		if x.installed == nil {
			if purge {
				l = append(l, name)
			}
			return
		}
		for _, alternatives := range append(deb.Relations(x.installed.Get("Pre-Depends")), deb.Relations(x.installed.Get("Depends"))...) {
			for _, a := range alternatives {
				visit(a.Name)
			}
		}
		l = append(l, name)
	}
	for _, x := range p.k.packages() {
		visit(x.name)
	}
	slices.Reverse(l)
	return l
}

// byName is the same packages by name, in which order they are fetched and unpacked.
func (p *plan) byName() (l []*candidate) {
	for _, x := range p.k.packages() {
		if c := p.install[x.name]; c != nil {
			l = append(l, c)
		}
	}
	return l
}

// pretend prints what would be done.
func (r *run) pretend(p *plan) {
	for _, x := range p.of(removed) {
		r.c.Put("%s %s [%s]\n", map[bool]string{true: "Purg", false: "Remv"}[r.options.purge], x.name, x.current())
	}
	for _, verb := range []string{"Inst", "Conf"} {
		for _, c := range p.order() {
			old := ""
			if x := p.k.byName[c.name()]; x.installed != nil && verb == "Inst" {
				old = " [" + x.current() + "]"
			}
			r.c.Put("%s %s%s (%s %s)\n", verb, c.name(), old, c.version(), c.label())
		}
	}
}

// archive is the file of a version that has been fetched before, "" if none has.
func (r *run) archive(c *candidate) string {
	if c.local != "" {
		return c.local
	}
	file := path.Join(archivesDir, archiveName(c))
	b, err := r.c.Files.ReadFile(file)
	if err != nil || fmt.Sprintf("%x", sha256.Sum256(b)) != c.Get("SHA256") {
		return ""
	}
	return file
}

// archiveName is how the cache calls an archive: with the epoch.
func archiveName(c *candidate) string {
	return c.name() + "_" + strings.ReplaceAll(c.version(), ":", "%3a") + "_" + c.Get("Architecture") + ".deb"
}

// download fetches what a plan installs, and returns the files.
func (r *run) download(p *plan) ([]string, bool) {
	if err := r.c.Files.MkdirAll(archivesDir+"/partial", 0o755); err != nil {
		r.err("Archives directory %s/partial is missing. - Acquire (%s)", archivesDir, libc.Strerror(err))
		return nil, false
	}
	start := time.Now()
	var fetchedBytes int64
	n := 0
	var names []string
	for _, c := range p.byName() {
		if file := r.archive(c); file != "" {
			names = append(names, file)
			continue
		}
		if len(c.origins) == 0 {
			r.err("Can't find a source to download version '%s' of '%s:%s'", c.version(), c.name(), architecture)
			continue
		}
		o := c.origins[0]
		n++
		what := func(base string) string {
			if o.source.Flat() {
				return fmt.Sprintf("%s  %s %s", site(base), c.name(), c.version())
			}
			return fmt.Sprintf("%s %s/%s %s %s %s %s", site(base), o.source.Suite, o.component, architecture, c.name(), c.Get("Architecture"), c.version())
		}
		f, err := r.fetch(o.source.Base()+c.Get("Filename"), time.Time{})
		base := strings.TrimSuffix(f.from, c.Get("Filename"))
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(f.content)) != c.Get("SHA256") {
			err = errors.New("Hash Sum mismatch")
		}
		if err != nil {
			r.say("Err:%d %s\n  %s\n", n, what(base), err)
			r.err("Failed to fetch %s  %s", f.from, err)
			continue
		}
		r.say("Get:%d %s [%sB]\n", n, what(base), sizeText(float64(c.size())))
		r.c.Out.Flush()
		fetchedBytes += c.size()
		file := path.Join(archivesDir, archiveName(c))
		if err := r.c.Files.WriteFile(file, f.content, 0o644); err != nil {
			r.err("Failed to write %s (%s)", file, libc.Strerror(err))
			continue
		}
		names = append(names, file)
	}
	if r.failed() {
		r.err("Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?")
		return nil, false
	}
	if fetchedBytes > 0 {
		r.fetchedLine(fetchedBytes, time.Since(start))
	}
	return names, true
}

// numbered is from how many archives on apt names them by numbers, in the order in which they are unpacked.
const numbered = 5

// apply has dpkg do a plan.
func (r *run) apply(p *plan, archives []string) {
	removing := p.removing(r.options.purge)
	dpkg := func(args ...string) bool {
		r.c.Out.Flush()
		argv := append([]string{"/usr/bin/dpkg"}, r.options.dpkg...)
		if status := r.c.Run(append(argv, args...)); status != 0 {
			r.err("Sub-process /usr/bin/dpkg returned an error code (%d)", status)
			return false
		}
		return true
	}
	ok := true
	if len(removing) > 0 {
		action := "--remove"
		if r.options.purge {
			action = "--purge"
		}
		ok = dpkg(append([]string{action}, removing...)...)
	}
	if ok && len(archives) > 0 {
		if names, done := r.numberedArchives(archives); done != nil {
			archives = names
			defer done()
		}
		ok = dpkg(append([]string{"--unpack"}, archives...)...)
	}
	if len(archives) > 0 || p.halfDone() > 0 {
		dpkg("--configure", "--pending")
	}
	for n := range p.install {
		if p.reason[n] && p.k.byName[n].installed == nil {
			p.k.auto[n] = true
		} else if p.asked[n] {
			delete(p.k.auto, n)
		}
	}
	for n := range p.remove {
		delete(p.k.auto, n)
	}
	r.saveAuto(p.k)
}

// numberedArchives gives many archives names with numbers in a directory of their own, which done removes.
func (r *run) numberedArchives(archives []string) (names []string, done func()) {
	if len(archives) < numbered {
		return nil, nil
	}
	dir := "/tmp/apt-dpkg-install-" + strings.ReplaceAll(r.c.World().UUID("apt"), "-", "")[:6]
	if r.c.Files.MkdirAll(dir, 0o700) != nil {
		return nil, nil
	}
	for i, a := range archives {
		name := fmt.Sprintf("%s/%0*d-%s", dir, len(fmt.Sprint(len(archives)-1)), i, path.Base(a))
		if r.c.Files.Symlink(r.c.Path(a), name) != nil {
			r.c.Files.RemoveAll(dir)
			return nil, nil
		}
		names = append(names, name)
	}
	return names, func() { r.c.Files.RemoveAll(dir) }
}

// clean removes fetched archives; obsolete leaves those that can still be fetched.
func (r *run) clean(obsolete bool) {
	if !r.lock() {
		return
	}
	var k *cache
	if obsolete {
		var ok bool
		if k, ok = r.load(); !ok {
			return
		}
	}
	l, err := r.c.Files.ReadDir(archivesDir)
	if err != nil {
		return
	}
	for _, e := range l {
		if e.IsDir() || path.Ext(e.Name()) != ".deb" {
			continue
		}
		if obsolete {
			known := false
			for _, x := range k.packages() {
				known = known || slices.ContainsFunc(x.versions, func(c *candidate) bool { return c.origins != nil && archiveName(c) == e.Name() })
			}
			if known {
				continue
			}
			name, rest, _ := strings.Cut(e.Name(), "_")
			version, _, _ := strings.Cut(rest, "_")
			r.say("Del %s %s [%sB]\n", name, version, "0 ")
		}
		r.c.Files.Remove(path.Join(archivesDir, e.Name()))
	}
}
