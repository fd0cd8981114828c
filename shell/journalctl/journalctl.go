// Package journalctl is the command journalctl of systemd 255: it reads a machine's journal.
package journalctl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/machine/journal"
	"ckadrill/sim/userland/libc"
)

// Register adds the program "journalctl".
func Register(ps *kernel.Programs) { ps.Register("journalctl", main) }

// linesDefault stands for a -n that was not given.
const linesDefault = -1

// tool is one run of journalctl.
type tool struct {
	*libc.Prog
	machine *machine.Machine
	journal *journal.Journal

	query
	output                                                           string
	lines                                                            int
	oldest                                                           bool // -n +N
	follow, noTail, reverse, atEnd, catalog, quiet, noPager, noHost  bool
	showCursor, listBoots, listFields, diskUsage, maintenance, merge bool
	field                                                            string
}

const shortOptions = "hefo:aln::qmb::kD:p:g:c:S:U:t:u:NF:xrM:"

var longOptions = []string{"help|h", "version", "no-pager", "pager-end|e", "follow|f", "force", "output:|o", "all|a", "full|l", "no-full", "lines::|n", "no-tail", "new-id128", "quiet|q", "merge|m", "this-boot|b", "boot::|b",
	"list-boots", "dmesg|k", "system", "user", "directory:|D", "file:", "root:", "image:", "header", "identifier:|t", "priority:|p", "facility:", "grep:|g", "case-sensitive::", "setup-keys", "interval:", "verify", "verify-key:",
	"disk-usage", "cursor:|c", "cursor-file:", "after-cursor:", "show-cursor", "since:|S", "until:|U", "unit:|u", "user-unit:", "field:|F", "fields|N", "catalog|x", "list-catalog", "dump-catalog", "update-catalog", "reverse|r",
	"machine:|M", "utc", "flush", "relinquish-var", "smart-relinquish-var", "sync", "rotate", "vacuum-size:", "vacuum-files:", "vacuum-time:", "no-hostname", "output-fields:", "namespace:", "truncate-newline"}

var main = libc.Main("journalctl", func(c *libc.Prog) int {
	t := &tool{Prog: c, output: "short", lines: linesDefault}
	if t.machine = machine.BootedFor(c.Process); t.machine == nil {
		c.Errorf("No journal files were found.\n")
		c.Put("-- No entries --\n")
		return 0
	}
	t.journal = t.machine.Journal()
	opts, args, err := libc.Getopt(attach(c.Args), shortOptions, longOptions...)
	if err != nil {
		c.Errorf("journalctl: %v\n", err)
		return 1
	}
	for _, o := range opts {
		code, done, err := t.option(o)
		if err != nil {
			c.Errorf("%v\n", err)
			return 1
		}
		if done {
			return code
		}
	}
	if err := t.arguments(args); err != nil {
		c.Errorf("%v\n", err)
		return 1
	}
	return t.run()
})

// attach joins -n and -b with the word that follows when that can be their value: both take one optionally, and journalctl
// looks at the next word.
func attach(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		out = append(out, a)
		if a == "--" {
			return append(out, args[i+1:]...)
		}
		if i+1 == len(args) || len(a) < 2 || a[0] != '-' {
			continue
		}
		next := args[i+1]
		last := a[len(a)-1:]
		cluster := a[1] != '-' && !strings.ContainsAny(a[1:len(a)-1], "oDpgcSUtuFMn")
		switch {
		case (a == "--lines" || cluster && last == "n") && linesValue(next):
		case (a == "--boot" || cluster && last == "b") && bootDescriptor.MatchString(next):
		default:
			continue
		}
		if strings.HasPrefix(a, "--") {
			out[len(out)-1] = a + "=" + next
		} else {
			out[len(out)-1] = a + next
		}
		i++
	}
	return out
}

var bootDescriptor = regexp.MustCompile(`^([+-]?\d{1,9}|all|[0-9a-f]{32}([+-]\d{1,9})?)$`)

func linesValue(s string) bool {
	_, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 31)
	return err == nil || s == "all"
}

// option applies an option. done is true when the program ends with it.
func (t *tool) option(o libc.Opt) (code int, done bool, err error) {
	fail := func(format string, a ...any) (int, bool, error) { return 1, true, fmt.Errorf(format, a...) }
	switch o.Name {
	case "h":
		t.Put("%s", helpText)
		return 0, true, nil
	case "version":
		t.Put("systemd 255 (255.4-1ubuntu8.11)\n")
		return 0, true, nil
	case "no-pager":
		t.noPager = true
	case "e":
		t.atEnd = true
		if t.lines == linesDefault {
			t.lines = 1000
		}
	case "f":
		t.follow = true
	case "o":
		if o.Value == "help" {
			t.Put("%s\n", strings.Join(journal.Formats, "\n"))
			return 0, true, nil
		}
		if !slices.Contains(journal.Formats, o.Value) {
			return fail("Unknown output format '%s'.", o.Value)
		}
		t.output = o.Value
	case "n":
		switch {
		case o.Value == "":
			t.lines = 10
		case o.Value == "all":
			t.lines = linesDefault
		case linesValue(o.Value):
			t.lines, _ = strconv.Atoi(strings.TrimPrefix(o.Value, "+"))
			t.oldest = o.Value[0] == '+'
		default:
			return fail("Failed to parse --lines='%s'.", o.Value)
		}
	case "no-tail":
		t.noTail = true
	case "q":
		t.quiet = true
	case "m":
		t.merge = true
	case "r":
		t.reverse = true
	case "x":
		t.catalog = true
	case "no-hostname":
		t.noHost = true
	case "show-cursor":
		t.showCursor = true
	case "list-boots":
		t.listBoots = true
	case "N":
		t.listFields = true
	case "F":
		t.field = o.Value
	case "disk-usage":
		t.diskUsage = true
	case "flush", "sync", "rotate", "vacuum-size", "vacuum-files", "vacuum-time", "relinquish-var", "smart-relinquish-var":
		t.maintenance = true
	case "user", "user-unit", "D", "file", "root", "image", "M", "header", "verify", "setup-keys", "cursor-file", "facility", "list-catalog", "dump-catalog", "update-catalog", "output-fields", "namespace", "new-id128":
		long := map[string]string{"D": "directory", "M": "machine"}[o.Name]
		if long == "" {
			long = o.Name
		}
		return fail("journalctl: ckadrill does not simulate journalctl --%s yet", long)
	default:
		return 0, false, t.query.option(o)
	}
	return 0, false, nil
}

// run does what the options ask for.
func (t *tool) run() int {
	if !t.machine.ReadsJournal(t.Cred) {
		if !t.quiet {
			t.Errorf("Hint: You are currently not seeing messages from other users and the system.\n      Users in groups 'adm', 'systemd-journal' can see all messages.\n      Pass -q to turn off this notice.\n")
		}
		t.Errorf("No journal files were opened due to insufficient permissions.\n")
		return 1
	}
	switch {
	case t.maintenance:
		return t.maintain()
	case t.diskUsage:
		t.Put("Archived and active journals take up %s in the file system.\n", size(t.journal.Size()))
		return 0
	case t.listBoots:
		return t.boots()
	case t.listFields || t.field != "":
		return t.fields()
	}
	if err := t.resolveBoot(t.journal, t.machine.BootID()); err != nil {
		t.Errorf("%v\n", err)
		return 1
	}
	return t.show()
}

// maintain answers what changes journal files: this journal keeps itself within its bounds.
func (t *tool) maintain() int {
	if t.Cred.UID != 0 {
		t.Errorf("Failed to send request to the journal daemon: Access denied\n")
		return 1
	}
	return 0
}

// size writes a number of bytes as systemd does; journal files grow in steps of 8 MiB.
func size(n int64) string {
	const step = 8 << 20
	n = max((n+step-1)/step*step, step)
	return fmt.Sprintf("%d.0M", n>>20)
}

func (t *tool) boots() int {
	type span struct{ first, last time.Time }
	spans := map[string]span{}
	for _, e := range t.journal.After(0) {
		s, ok := spans[e.Boot]
		if !ok {
			s.first = e.Time
		}
		s.last = e.Time
		spans[e.Boot] = s
	}
	boots := slices.DeleteFunc(t.journal.Boots(), func(b journal.Boot) bool { _, ok := spans[b.ID]; return !ok })
	const stamp = "Mon 2006-01-02 15:04:05 MST"
	t.Put("IDX %-32s %-27s %-27s\n", "BOOT ID", "FIRST ENTRY", "LAST ENTRY")
	for i, b := range boots {
		s := spans[b.ID]
		t.Put("%3d %s %s %s\n", i-len(boots)+1, b.ID, s.first.UTC().Format(stamp), s.last.UTC().Format(stamp))
	}
	return 0
}

// fields prints the names of all fields, or all values of one.
func (t *tool) fields() int {
	seen := map[string]bool{}
	var l []string
	add := func(s string) {
		if !seen[s] {
			seen[s] = true
			l = append(l, s)
		}
	}
	for _, e := range t.journal.After(0) {
		for _, f := range e.Fields(t.HostName()) {
			if t.field == "" {
				add(f[0])
			} else if f[0] == t.field {
				add(f[1])
			}
		}
	}
	for _, s := range l {
		t.Put("%s\n", s)
	}
	return 0
}
