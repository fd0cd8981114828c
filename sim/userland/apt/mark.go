package apt

import (
	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// aptMark is the program apt-mark: which packages an upgrade leaves alone, and which were installed for others.
func aptMark(c *libc.Prog) int {
	r := &run{c: c}
	return r.main(func(command string, words []string) bool {
		switch command {
		case "hold", "unhold":
			r.hold(command == "hold", words)
		case "showhold", "showholds":
			r.showMarked(words, func(_ *cache, x *pkg) bool { return x.held() })
		case "manual", "auto":
			r.auto(command == "auto", words)
		case "showauto":
			r.showMarked(words, func(k *cache, x *pkg) bool { return x.installed != nil && k.auto[x.name] })
		case "showmanual":
			r.showMarked(words, func(k *cache, x *pkg) bool { return x.installed != nil && !k.auto[x.name] })
		case "minimize-manual", "showinstall", "showremove", "showpurge", "install", "remove", "purge":
			r.err("ckadrill does not simulate apt-mark %s yet", command)
		default:
			return false
		}
		return true
	})
}

// marked finds the packages that words name.
func (r *run) marked(words []string) (k *cache, l []*pkg, ok bool) {
	if k, ok = r.open(); !ok {
		return nil, nil, false
	}
	for _, w := range words {
		l = append(l, r.named(k, w)...)
	}
	if len(l) == 0 {
		r.err("No packages found")
	}
	return k, l, !r.failed()
}

func (r *run) hold(on bool, words []string) {
	k, l, ok := r.marked(words)
	if !ok {
		return
	}
	var todo []*pkg
	for _, x := range l {
		switch {
		case x.held() != on:
			todo = append(todo, x)
		case on:
			r.say("%s was already set on hold.\n", x.name)
		default:
			r.say("%s was already not on hold.\n", x.name)
		}
	}
	if len(todo) == 0 {
		return
	}
	if r.c.Cred.UID != 0 {
		r.c.Out.Flush()
		r.c.Errorf("dpkg: error: requested operation requires superuser privilege\n")
		r.err("Executing dpkg failed. Are you root?")
		return
	}
	for _, x := range todo {
		rec := x.record
		if rec == nil {
			rec = &deb.Record{Paragraph: deb.Paragraph{{Name: "Package", Value: x.name}}}
			rec.SetStatus(deb.Install, deb.NotInstalled)
			rec.Set("Architecture", architecture)
			k.db.Put(rec)
		}
		if on {
			rec.SetStatus(deb.Hold, rec.State())
			r.say("%s set on hold.\n", x.name)
		} else {
			rec.SetStatus(deb.Install, rec.State())
			r.say("Canceled hold on %s.\n", x.name)
		}
	}
	if err := k.db.Save(r.c.Files); err != nil {
		r.err("Writing %s failed (%s)", deb.StatusFile, libc.Strerror(err))
	}
}

func (r *run) auto(on bool, words []string) {
	k, l, ok := r.marked(words)
	if !ok {
		return
	}
	changed := false
	for _, x := range l {
		state := map[bool]string{true: "automatically", false: "manually"}[on]
		switch {
		case x.installed == nil:
			r.say("%s can not be marked as it is not installed.\n", x.name)
		case k.auto[x.name] == on:
			r.say("%s was already set to %s installed.\n", x.name, state)
		default:
			k.auto[x.name], changed = on, true
			r.say("%s set to %s installed.\n", x.name, state)
		}
	}
	if !changed {
		return
	}
	if r.c.Cred.UID != 0 {
		r.notes = nil
		r.err("Could not create temporary file for %s - mkstemp (13: Permission denied)", extendedStates)
		r.err("Failed to write temporary StateFile %s", extendedStates)
		return
	}
	r.saveAuto(k)
}

func (r *run) showMarked(words []string, is func(*cache, *pkg) bool) {
	k, ok := r.open()
	if !ok {
		return
	}
	for _, x := range k.packages() {
		if is(k, x) && (len(words) == 0 || containsWord(words, x.name)) {
			r.c.Put("%s\n", x.name)
		}
	}
}

func containsWord(words []string, name string) bool {
	for _, w := range words {
		if libc.NewGlob(w, false).Match(name) {
			return true
		}
	}
	return false
}
