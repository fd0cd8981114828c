package apt

import (
	"fmt"
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

// statusFailed is the exit status of a program of apt that failed.
const statusFailed = 100

// run is one run of one of the programs.
type run struct {
	c       *libc.Prog
	options options
	// notes are the errors, warnings and notices so far, which are printed at the end.
	notes []note
}

type note struct {
	kind byte // E, W, N
	text string
}

type options struct {
	yes, simulate, downloadOnly, fixBroken, noRecommends, onlyUpgrade, reinstall, purge, noUpgrade bool
	changeHeld, downgrade, removeEssential, showVersions, autoRemove                               bool
	installed, upgradable, allVersions, namesOnly, manualInstalled                                 bool
	quiet                                                                                          int
	target                                                                                         string // release
	dpkg                                                                                           []string
	set                                                                                            map[string]string
}

func (r *run) err(format string, a ...any) {
	r.notes = append(r.notes, note{'E', fmt.Sprintf(format, a...)})
}
func (r *run) warn(format string, a ...any) {
	r.notes = append(r.notes, note{'W', fmt.Sprintf(format, a...)})
}
func (r *run) note(format string, a ...any) {
	r.notes = append(r.notes, note{'N', fmt.Sprintf(format, a...)})
}

// failed says whether there was an error.
func (r *run) failed() bool {
	return slices.ContainsFunc(r.notes, func(n note) bool { return n.kind == 'E' })
}

// end prints what there is to say, and returns the exit status.
func (r *run) end() int {
	r.c.Out.Flush()
	for _, n := range r.notes {
		if n.kind == 'N' && r.options.quiet > 0 && !r.failed() {
			continue
		}
		r.c.Errorf("%c: %s\n", n.kind, n.text)
	}
	if r.failed() {
		return statusFailed
	}
	return 0
}

// tty says that progress is shown as on a terminal.
func (r *run) tty() bool { return r.options.quiet == 0 && r.c.IsTerminal(r.c.Stdout) }

// say prints a line that -qq leaves out.
func (r *run) say(format string, a ...any) {
	if r.options.quiet < 2 {
		r.c.Put(format, a...)
	}
}

// progress prints a step that is done.
func (r *run) progress(what string) {
	switch {
	case r.options.quiet >= 2:
	case r.tty():
		r.c.Put("%s... Done\n", what)
	default:
		r.c.Put("%s...\n", what)
	}
}

// parse reads the command line. ok is false when it is wrong, which has been said.
func (r *run) parse() (operands []string, ok bool) {
	o := &r.options
	o.set = map[string]string{}
	if r.c.Name == "apt" && !r.c.IsTerminal(r.c.Stdout) {
		r.c.Errorf("\nWARNING: apt does not have a stable CLI interface. Use with caution in scripts.\n\n")
	}
	args := r.c.Args
	value := func(i *int, a string) (string, bool) {
		if _, v, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "--") {
			return v, true
		}
		if *i++; *i < len(args) {
			return args[*i], true
		}
		r.err("Option %s requires an argument.", a)
		return "", false
	}
	flags := map[string]*bool{
		"--yes": &o.yes, "--assume-yes": &o.yes, "--simulate": &o.simulate, "--just-print": &o.simulate, "--dry-run": &o.simulate, "--recon": &o.simulate, "--no-act": &o.simulate,
		"--download-only": &o.downloadOnly, "--fix-broken": &o.fixBroken, "--no-install-recommends": &o.noRecommends,
		"--only-upgrade": &o.onlyUpgrade, "--reinstall": &o.reinstall, "--purge": &o.purge, "--no-upgrade": &o.noUpgrade, "--allow-change-held-packages": &o.changeHeld,
		"--allow-downgrades": &o.downgrade, "--allow-remove-essential": &o.removeEssential, "--verbose-versions": &o.showVersions,
		"--auto-remove": &o.autoRemove, "--autoremove": &o.autoRemove, "--installed": &o.installed, "--upgradable": &o.upgradable, "--upgradeable": &o.upgradable,
		"--all-versions": &o.allVersions, "--names-only": &o.namesOnly, "--manual-installed": &o.manualInstalled,
	}
	short := map[byte]*bool{'y': &o.yes, 's': &o.simulate, 'd': &o.downloadOnly, 'f': &o.fixBroken, 'V': &o.showVersions, 'n': &o.namesOnly}
	ignored := []string{"--show-progress", "--install-recommends", "--no-list-cleanup", "--allow-releaseinfo-change", "--no-show-progress", "--show-upgraded", "--allow-insecure-repositories", "--no-all-versions", "--full"}
	for i := 0; i < len(args); i++ {
		a := args[i]
		name, _, _ := strings.Cut(a, "=")
		switch {
		case a == "--":
			return append(operands, args[i+1:]...), true
		case a == "--version":
			r.c.Put("apt %s (%s)\n", version, architecture)
			return nil, false
		case a == "--help" || a == "-h":
			r.c.Put("ckadrill does not simulate %s --help; see the manual page %s(8).\n", r.c.Name, r.c.Name)
			return nil, false
		case flags[a] != nil:
			*flags[a] = true
		case slices.Contains(ignored, name):
		case name == "--quiet":
			o.quiet = max(o.quiet+1, 1)
		case name == "--option" || name == "-o" || strings.HasPrefix(a, "-o") && len(a) > 2 && a[1] != '-':
			v := strings.TrimPrefix(a, "-o")
			if a == "-o" || name == "--option" {
				if v, ok = value(&i, a); !ok {
					return nil, false
				}
			}
			r.option(strings.TrimPrefix(v, "="))
		case name == "--target-release" || name == "--default-release" || a == "-t":
			if o.target, ok = value(&i, a); !ok {
				return nil, false
			}
		case strings.HasPrefix(a, "--"):
			r.err("Command line option %s is not understood in combination with the other options", name)
			return nil, false
		case len(a) > 1 && a[0] == '-':
			for k := 1; k < len(a); k++ {
				switch {
				case a[k] == 'q':
					o.quiet++
				case a[k] == 'u':
				case a[k] == 'a' && r.c.Name != "apt-get":
					o.allVersions = true
				case a[k] == 'i' && r.c.Name == "apt":
					o.installed = true
				case short[a[k]] != nil:
					*short[a[k]] = true
				default:
					r.err("Command line option '%c' [from %s] is not understood in combination with the other options.", a[k], a)
					return nil, false
				}
			}
		default:
			operands = append(operands, a)
		}
	}
	if o.quiet >= 2 {
		o.yes = true
	}
	return operands, true
}

// option is -o name=value. Only those matter that change what is done here.
func (r *run) option(text string) {
	name, v, _ := strings.Cut(text, "=")
	if v, ok := strings.CutPrefix(text, "Dpkg::Options::="); ok {
		r.options.dpkg = append(r.options.dpkg, strings.Trim(v, `"`))
		return
	}
	r.options.set[strings.ToLower(name)] = v
	if strings.EqualFold(name, "APT::Get::Assume-Yes") && (v == "true" || v == "yes" || v == "1") {
		r.options.yes = true
	}
}

// locks are the files that only one program of apt or dpkg may hold.
const (
	frontendLock = deb.AdminDir + "/lock-frontend"
	listsLock    = deb.ListsDir + "/lock"
)

// lock refuses to go on for anybody but root.
func (r *run) lock() bool {
	if r.c.Cred.UID == 0 {
		return true
	}
	r.err("Could not open lock file %s - open (13: Permission denied)", frontendLock)
	r.err("Unable to acquire the dpkg frontend lock (%s), are you root?", frontendLock)
	return false
}

// locked is [run.lock] for what may be a simulation, which everybody may do.
func (r *run) locked() bool {
	if !r.options.simulate {
		return r.lock()
	}
	if r.c.Cred.UID != 0 {
		r.say("NOTE: This is only a simulation!\n      %s needs root privileges for real execution.\n      Keep also in mind that locking is deactivated,\n      so don't depend on the relevance to the real current situation!\n", r.c.Name)
	}
	return true
}

// sizeText is a number of bytes as apt shows it, without the "B".
func sizeText(n float64) string {
	units := []string{"", "k", "M", "G", "T"}
	for i, u := range units {
		switch {
		case n < 100 && i != 0:
			return fmt.Sprintf("%.1f %s", n, u)
		case n < 10000 || i == len(units)-1:
			return fmt.Sprintf("%.0f %s", n, u)
		}
		n /= 1000
	}
	return ""
}

// durationText is a number of seconds as apt shows it.
func durationText(s int64) string {
	switch {
	case s >= 86400:
		return fmt.Sprintf("%dd %dh %dmin %ds", s/86400, s/3600%24, s/60%60, s%60)
	case s >= 3600:
		return fmt.Sprintf("%dh %dmin %ds", s/3600, s/60%60, s%60)
	case s >= 60:
		return fmt.Sprintf("%dmin %ds", s/60, s%60)
	}
	return fmt.Sprintf("%ds", s)
}
