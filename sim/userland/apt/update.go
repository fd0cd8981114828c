package apt

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// updater is one run of "apt-get update".
type updater struct {
	*run
	n     int // items so far
	bytes int64
	keep  map[string]bool // files in the directory of lists
	stale bool            // old lists are used further
}

// site is an address as apt prints it: without the last slash.
func site(address string) string { return strings.TrimRight(address, "/") }

// describe names a file of a repository: "http://archive.ubuntu.com/ubuntu noble InRelease".
func describe(base string, s deb.Source, what string) string {
	suite := s.Suite
	if s.Flat() {
		suite = strings.Trim(suite, "/")
	}
	return site(base) + " " + suite + " " + what
}

// describeIndex names an index: "http://archive.ubuntu.com/ubuntu noble/main amd64 Packages".
func describeIndex(base string, s deb.Source, component string) string {
	if s.Flat() {
		return describe(base, s, "Packages")
	}
	return site(base) + " " + s.Suite + "/" + component + " " + architecture + " Packages"
}

func (u *updater) item(verb, what string) {
	u.n++
	u.say("%s:%d %s\n", verb, u.n, what)
	u.c.Out.Flush()
}

// update fetches the lists of all repositories.
func (r *run) update() {
	if r.c.Cred.UID != 0 {
		r.progress("Reading package lists")
		r.err("Could not open lock file %s - open (13: Permission denied)", listsLock)
		r.err("Unable to lock directory %s/", deb.ListsDir)
		r.warn("Problem unlinking the file /var/cache/apt/pkgcache.bin - RemoveCaches (13: Permission denied)")
		r.warn("Problem unlinking the file /var/cache/apt/srcpkgcache.bin - RemoveCaches (13: Permission denied)")
		return
	}
	sources, err := deb.Sources(r.c.Files)
	if err != nil {
		r.badSources(err)
		return
	}
	if err := r.c.Files.MkdirAll(deb.ListsDir+"/partial", 0o755); err != nil {
		r.err("List directory %s/partial is missing. - Acquire (%s)", deb.ListsDir, libc.Strerror(err))
		return
	}
	u := &updater{run: r, keep: map[string]bool{"lock": true, "partial": true}}
	start := time.Now()
	for _, s := range sources {
		u.source(s)
	}
	u.clean()
	if u.bytes > 0 {
		r.fetchedLine(u.bytes, time.Since(start))
	}
	r.progress("Reading package lists")
	if u.stale {
		r.warn("Some index files failed to download. They have been ignored, or old ones used instead.")
	}
}

func (r *run) fetchedLine(n int64, d time.Duration) {
	rate := float64(n) / max(d.Seconds(), 0.001)
	r.say("Fetched %sB in %s (%sB/s)\n", sizeText(float64(n)), durationText(int64(d.Seconds())), sizeText(rate))
}

func (r *run) badSources(err error) {
	r.progress("Reading package lists")
	r.err("%s", err)
	r.err("The list of sources could not be read.")
}

// source fetches a repository's file InRelease, and the indexes that it names.
func (u *updater) source(s deb.Source) {
	address := s.Dist() + "InRelease"
	file := deb.ListFile(address)
	old, _ := u.c.Files.ReadFile(file)
	known := parseRelease(signedText(old))
	f, err := u.fetch(address, known.date)
	base := strings.TrimSuffix(f.from, strings.TrimPrefix(address, s.Base()))
	what := describe(base, s, "InRelease")
	var problem *fetchError
	switch {
	case errors.As(err, &problem):
		u.unreachable(s, f, what, problem, old != nil)
		return
	case f.unchanged:
		u.item("Hit", what)
		u.keepFile(file)
		u.indexes(s, base, known)
		return
	}
	u.item("Get", fmt.Sprintf("%s [%sB]", what, sizeText(float64(len(f.content)))))
	u.bytes += int64(len(f.content))
	text, err := u.verify(s, f.content)
	var bad *signatureError
	if errors.As(err, &bad) {
		u.say("Err:%d %s\n  %s\n", u.n, what, bad.text)
		if old != nil {
			u.keepFile(file)
			u.keepIndexes(s)
			u.stale = true
			u.warn("An error occurred during the signature verification. The repository is not updated and the previous index files will be used. GPG error: %s: %s", what, bad.text)
			u.warn("Failed to fetch %s  %s", address, bad.text)
			return
		}
		u.warn("GPG error: %s: %s", what, bad.text)
		u.unsigned(s, "InRelease")
		return
	}
	if err := u.c.Files.WriteFile(file, f.content, 0o644); err != nil {
		u.err("Failed to write %s (%s)", file, libc.Strerror(err))
		return
	}
	u.keepFile(file)
	u.indexes(s, base, parseRelease(text))
}

func (u *updater) unsigned(s deb.Source, kind string) {
	if kind == "Release" {
		u.err("The repository '%s' does not have a Release file.", describe(s.Base(), s, kind))
	} else {
		u.err("The repository '%s' is not signed.", describe(s.Base(), s, kind))
	}
	u.note("Updating from such a repository can't be done securely, and is therefore disabled by default.")
	u.note("See apt-secure(8) manpage for repository creation and user configuration details.")
}

// unreachable says why there is no InRelease. Where there is none, an old repository might have Release.
func (u *updater) unreachable(s deb.Source, f fetched, what string, problem *fetchError, known bool) {
	address := s.Dist() + "InRelease"
	switch {
	case f.status == 404:
		u.item("Ign", what)
		release := strings.TrimSuffix(what, "InRelease") + "Release"
		u.item("Err", release)
		u.say("  %s\n", problem.text)
		u.unsigned(s, "Release")
	case f.status != 0:
		u.item("Err", what)
		u.say("  %s\n", problem.text)
		u.err("Failed to fetch %s  %s", f.from, problem.text)
		u.unsigned(s, "InRelease")
	default:
		u.item("Err", what)
		u.say("  %s\n", problem.text)
		u.warn("Failed to fetch %s  %s", f.from, problem.text)
		u.stale = true
		if known {
			u.keepFile(deb.ListFile(address))
			u.keepIndexes(s)
		}
	}
}

func (u *updater) keepFile(name string) { u.keep[path.Base(name)] = true }

func (u *updater) keepIndexes(s deb.Source) {
	for _, c := range s.Components {
		u.keepFile(deb.ListFile(s.Dist() + deb.IndexName(c)))
	}
}

// indexes fetches those indexes that are not here as the release says.
func (u *updater) indexes(s deb.Source, base string, x release) {
	for _, c := range s.Components {
		name := deb.IndexName(c)
		sum, listed := x.sums[name]
		switch {
		case !listed && !x.has(c):
			u.warn("Skipping acquire of configured file '%s' as repository '%s' doesn't have the component '%s' (component misspelt in sources.list?)", name, describe(s.Base(), s, "InRelease"), c)
			continue
		case !listed, sum == fmt.Sprintf("%x", sha256.Sum256(nil)):
			continue
		}
		address := s.Dist() + name
		file := deb.ListFile(address)
		u.keepFile(file)
		if b, err := u.c.Files.ReadFile(file); err == nil && sum == fmt.Sprintf("%x", sha256.Sum256(b)) {
			continue
		}
		f, err := u.fetch(address, time.Time{})
		what := describeIndex(base, s, c)
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(f.content)) != sum {
			err = errors.New("Hash Sum mismatch")
		}
		if err != nil {
			u.item("Err", what)
			u.say("  %s\n", err)
			u.err("Failed to fetch %s  %s", f.from, err)
			u.err("Some index files failed to download. They have been ignored, or old ones used instead.")
			continue
		}
		u.item("Get", fmt.Sprintf("%s [%sB]", what, sizeText(float64(len(f.content)))))
		u.bytes += int64(len(f.content))
		if err := u.c.Files.WriteFile(file, f.content, 0o644); err != nil {
			u.err("Failed to write %s (%s)", file, libc.Strerror(err))
		}
	}
}

// clean removes lists of repositories that there are no more.
func (u *updater) clean() {
	l, err := u.c.Files.ReadDir(deb.ListsDir)
	if err != nil {
		return
	}
	for _, e := range l {
		if !u.keep[e.Name()] && !e.IsDir() {
			u.c.Files.Remove(path.Join(deb.ListsDir, e.Name()))
		}
	}
}
