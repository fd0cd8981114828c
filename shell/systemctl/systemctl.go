// Package systemctl is the command systemctl of systemd 255: a client of the machine's service manager.
package systemctl

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/userland/libc"
)

// Register adds the program "systemctl".
func Register(ps *kernel.Programs) { ps.Register("systemctl", main) }

// version is what Ubuntu 24.04 ships.
const version = `systemd 255 (255.4-1ubuntu8.11)
+PAM +AUDIT +SELINUX +APPARMOR +IMA +SMACK +SECCOMP +GCRYPT -GNUTLS +OPENSSL +ACL +BLKID +CURL +ELFUTILS +FIDO2 +IDN2 -IDN +IPTC +KMOD +LIBCRYPTSETUP +LIBFDISK +PCRE2 -PWQUALITY +P11KIT +QRENCODE +TPM2 +BZIP2 +LZ4 +XZ +ZLIB +ZSTD -BPF_FRAMEWORK -XKBCOMMON +UTMP +SYSVINIT default-hierarchy=unified
`

// Exit statuses (systemctl(1), the LSB's).
const (
	statusNotRunning = 3
	statusUnknown    = 4
)

// tool is one run of systemctl.
type tool struct {
	*libc.Prog
	machine *machine.Machine
	manager *systemd.Manager
	out     bytes.Buffer // goes through the pager

	all, full, quiet, now, force, plain, value, runtime, noBlock, noReload, noPager, reverse, drops, wait bool
	legend                                                                                                bool
	types, states, properties                                                                             []string
	lines                                                                                                 int
	output, signal, whom, dropIn                                                                          string
}

var shortOptions = "ht:p:P:alqfs:rn:o:iTH:M:"

var longOptions = []string{"help|h", "version", "type:|t", "property:|p", "all|a", "reverse", "after", "before", "with-dependencies", "show-types", "failed", "full|l", "job-mode:", "fail", "irreversible", "ignore-dependencies",
	"user", "system", "global", "wait", "no-block", "no-legend", "legend:", "no-pager", "no-wall", "dry-run", "quiet|q", "root:", "image:", "force|f", "no-reload", "kill-whom:", "kill-who:", "kill-value:", "signal:|s",
	"no-ask-password", "host:|H", "machine:|M", "runtime", "lines:|n", "output:|o", "plain", "state:", "recursive|r", "preset-mode:", "now", "value", "check-inhibitors:", "no-warn", "drop-in:", "stdin", "show-transaction|T",
	"message:", "timestamp:", "when:", "firmware-setup", "mkdir", "read-only", "marked", "what:", "reboot-argument:"}

// verb is one of systemctl's commands, with the number of arguments that it takes at least and, unless negative, at most.
type verb struct {
	name     string
	min, max int
	run      func(t *tool, args []string) int
}

// verbs is filled at run time: its functions refer to it.
func verbs() []verb {
	return []verb{
		{"list-units", 0, -1, (*tool).listUnits}, {"list-unit-files", 0, -1, (*tool).listUnitFiles}, {"list-dependencies", 0, -1, (*tool).listDependencies}, {"list-jobs", 0, -1, (*tool).listJobs},
		{"list-timers", 0, -1, (*tool).listTimers}, {"list-sockets", 0, -1, (*tool).listSockets},
		{"start", 1, -1, job("start")}, {"stop", 1, -1, job("stop")}, {"reload", 1, -1, job("reload")}, {"restart", 1, -1, job("restart")}, {"try-restart", 1, -1, job("try-restart")},
		{"condrestart", 1, -1, job("try-restart")}, {"reload-or-restart", 1, -1, job("reload-or-restart")}, {"force-reload", 1, -1, job("reload-or-restart")},
		{"try-reload-or-restart", 1, -1, job("try-reload-or-restart")}, {"isolate", 1, 1, unsupported("isolate")}, {"kill", 1, -1, (*tool).kill},
		{"is-active", 1, -1, (*tool).isActive}, {"is-failed", 0, -1, (*tool).isFailed}, {"is-enabled", 1, -1, (*tool).isEnabled}, {"is-system-running", 0, 0, (*tool).isSystemRunning},
		{"status", 0, -1, (*tool).status}, {"show", 0, -1, (*tool).show}, {"cat", 1, -1, (*tool).cat}, {"help", 1, -1, unsupported("help")},
		{"reset-failed", 0, -1, (*tool).resetFailed}, {"enable", 1, -1, install("enable")}, {"disable", 1, -1, install("disable")}, {"reenable", 1, -1, install("reenable")},
		{"preset", 1, -1, install("preset")}, {"mask", 1, -1, install("mask")}, {"unmask", 1, -1, install("unmask")}, {"revert", 1, -1, (*tool).revert}, {"edit", 1, -1, (*tool).edit},
		{"get-default", 0, 0, (*tool).getDefault}, {"set-default", 1, 1, (*tool).setDefault}, {"daemon-reload", 0, 0, (*tool).daemonReload}, {"daemon-reexec", 0, 0, (*tool).daemonReload},
		{"show-environment", 0, 0, (*tool).showEnvironment}, {"reboot", 0, 0, power("reboot")}, {"poweroff", 0, 0, power("poweroff")}, {"halt", 0, 0, power("halt")},
	}
}

var main = libc.Main("systemctl", func(c *libc.Prog) int {
	t := &tool{Prog: c, legend: true, lines: 10, output: "short", whom: "all", signal: "TERM"}
	if t.machine = machine.BootedFor(c.Process); t.machine == nil {
		c.Errorf("System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus: Host is down\n")
		return 1
	}
	t.manager = t.machine.Systemd()
	opts, args, err := libc.Getopt(c.Args, shortOptions, longOptions...)
	if err != nil {
		c.Errorf("systemctl: %v\n", err)
		return 1
	}
	for _, o := range opts {
		if code, done := t.option(o); done {
			return code
		}
	}
	name := "list-units"
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	l := verbs()
	i := slices.IndexFunc(l, func(v verb) bool { return v.name == name })
	switch {
	case i < 0:
		t.unknownVerb(name, l)
		return 1
	case len(args) < l[i].min:
		c.Errorf("Too few arguments.\n")
		return 1
	case l[i].max >= 0 && len(args) > l[i].max:
		c.Errorf("Too many arguments.\n")
		return 1
	}
	code := l[i].run(t, args)
	t.page()
	return code
})

// option applies an option. done is true when the program ends with it.
func (t *tool) option(o libc.Opt) (code int, done bool) {
	list := func(l *[]string) {
		for _, s := range strings.Split(o.Value, ",") {
			if s != "" {
				*l = append(*l, s)
			}
		}
	}
	not := func(what string) (int, bool) {
		t.Errorf("systemctl: ckadrill does not simulate %s yet\n", what)
		return 1, true
	}
	switch o.Name {
	case "h":
		t.Put("%s", helpText)
		return 0, true
	case "version":
		t.Put("%s", version)
		return 0, true
	case "t":
		for _, s := range strings.Split(o.Value, ",") {
			switch {
			case s == "help":
				t.Put("Available unit types:\n")
				for _, k := range []string{"service", "mount", "swap", "socket", "target", "device", "automount", "timer", "path", "slice", "scope"} {
					t.Put("%s\n", k)
				}
				return 0, true
			case systemd.Canonical("x."+s) == "x."+s:
				t.types = append(t.types, s)
			case slices.Contains([]string{"loaded", "not-found", "masked", "bad-setting", "error", "merged", "stub"}, s):
				t.states = append(t.states, s)
			case s != "":
				t.Errorf("Unknown unit type or load state '%s'.\nUse -t help to see a list of allowed values.\n", s)
				return 1, true
			}
		}
	case "p":
		list(&t.properties)
	case "P":
		list(&t.properties)
		t.value = true
	case "a":
		t.all = true
	case "l":
		t.full = true
	case "q":
		t.quiet = true
	case "f":
		t.force = true
	case "n":
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 0 {
			t.Errorf("Failed to parse lines '%s'\n", o.Value)
			return 1, true
		}
		t.lines = n
	case "o":
		if !slices.Contains(outputModes, o.Value) {
			t.Errorf("Unknown output '%s'.\n", o.Value)
			return 1, true
		}
		t.output = o.Value
	case "s":
		t.signal = o.Value
	case "kill-whom", "kill-who":
		t.whom = o.Value
	case "state":
		list(&t.states)
	case "failed":
		t.states = append(t.states, "failed")
	case "no-legend":
		t.legend = false
	case "legend":
		t.legend = slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, o.Value)
	case "no-pager":
		t.noPager = true
	case "now":
		t.now = true
	case "plain":
		t.plain = true
	case "value":
		t.value = true
	case "reverse":
		t.reverse = true
	case "runtime":
		t.runtime = true
	case "no-block":
		t.noBlock = true
	case "no-reload":
		t.noReload = true
	case "wait":
		t.wait = true
	case "drop-in":
		t.dropIn = o.Value
	case "user", "global":
		t.Errorf("Failed to connect to bus: No medium found\n")
		return 1, true
	case "H", "M", "root", "image":
		return not("systemctl --" + map[string]string{"H": "host", "M": "machine"}[o.Name] + strings.TrimLeft(o.Name, "HM"))
	case "dry-run", "marked", "when", "stdin", "with-dependencies", "after", "before":
		return not("systemctl --" + o.Name)
	}
	return 0, false
}

var outputModes = []string{"short", "short-full", "short-iso", "short-iso-precise", "short-precise", "short-monotonic", "short-unix", "verbose", "json", "json-pretty", "cat"}

func unsupported(name string) func(*tool, []string) int {
	return func(t *tool, _ []string) int {
		t.Errorf("systemctl: ckadrill does not simulate systemctl %s yet\n", name)
		return 1
	}
}

// unknownVerb refuses a command, and names the one that it comes nearest to.
func (t *tool) unknownVerb(name string, l []verb) {
	best, distance := "", 6
	for _, v := range l {
		if d := levenshtein(name, v.name); d < distance {
			best, distance = v.name, d
		}
	}
	if best != "" {
		t.Errorf("Unknown command verb '%s', did you mean '%s'?\n", name, best)
		return
	}
	t.Errorf("Unknown command verb '%s'.\n", name)
}

func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// say prints an error of the manager and returns its exit status.
func (t *tool) say(err error) int {
	var e *systemd.Error
	if errors.As(err, &e) {
		t.Errorf("%s\n", e.Text)
		return e.Code
	}
	t.Errorf("%v\n", err)
	return 1
}

// denied says whether the user may not change anything: without a polkit agent that could ask for a password, only root may.
func (t *tool) denied() bool { return t.Cred.UID != 0 }

const authenticate = "Interactive authentication required."

// names makes unit names of what was typed: a suffix where it lacks, the loaded units that a pattern stands for.
func (t *tool) names(args []string) []string {
	var l []string
	for _, a := range args {
		if strings.ContainsAny(a, "*?[") {
			for _, n := range t.manager.Loaded() {
				if ok, _ := path.Match(systemd.Canonical(a), n); ok {
					l = append(l, n)
				}
			}
			continue
		}
		l = append(l, t.mangle(a))
	}
	return l
}

func (t *tool) mangle(name string) string {
	if strings.HasPrefix(name, "/") && systemd.Canonical(path.Base(name)) == path.Base(name) {
		return path.Base(name)
	}
	return systemd.Canonical(name)
}

// printf writes to the pager.
func (t *tool) printf(format string, a ...any) { fmt.Fprintf(&t.out, format, a...) }

// page shows what was written: through the pager on a terminal when it is longer than that, as less -F does.
func (t *tool) page() {
	b := t.out.Bytes()
	if len(b) == 0 {
		return
	}
	if t.paged() {
		if _, rows := t.TTY.Size(); bytes.Count(b, []byte("\n")) >= rows {
			t.TTY.Page(b)
			return
		}
	}
	t.Out.Write(b)
	t.Out.Flush()
}

// paged says whether output goes to a pager.
func (t *tool) paged() bool {
	if t.noPager || !t.onTerminal() {
		return false
	}
	for _, k := range []string{"SYSTEMD_PAGER", "PAGER"} {
		if v, ok := t.LookupEnv(k); ok {
			return v != "" && v != "cat"
		}
	}
	return true
}

func (t *tool) onTerminal() bool { return t.IsTerminal(t.Stdout) }

// columns is the width that lines are cut to, 0 for none.
func (t *tool) columns() int {
	if t.full || t.paged() || !t.onTerminal() {
		return 0
	}
	c, _ := t.TTY.Size()
	return c
}

// color puts one of systemd's colours around a text on a terminal.
func (t *tool) color(code, s string) string {
	if code == "" || s == "" || !t.onTerminal() || t.Getenv("TERM") == "dumb" || t.Getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// systemd's colours.
const (
	red, green, yellow, underline = "0;1;31", "0;1;32", "0;1;33", "0;4"
)

// now is the simulated time.
func now() time.Time { return time.Now() }
