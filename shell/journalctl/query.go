package journalctl

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/machine/journal"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/userland/libc"
)

// query is which entries are asked for. Values of one kind are alternatives, the kinds together must all hold.
type query struct {
	units, identifiers []string
	boot               string // as asked for: "", "0", "-1", an id
	bootSet, kernel    bool
	bootID             string
	since, until       time.Time
	minimum, maximum   int // of the priority; maximum is the least urgent
	prioritySet        bool
	pattern            string
	caseSensitive      *bool
	grep               *regexp.Regexp
	cursor             string
	after              bool
	matches            []map[string][]string // FIELD=value; groups between + are alternatives
}

// option applies an option that chooses entries.
func (q *query) option(o libc.Opt) error {
	var err error
	switch o.Name {
	case "u":
		q.units = append(q.units, systemd.Canonical(o.Value))
	case "t":
		q.identifiers = append(q.identifiers, o.Value)
	case "b":
		q.bootSet, q.boot = true, o.Value
		if o.Value != "" && !bootDescriptor.MatchString(o.Value) {
			return fmt.Errorf("Failed to parse boot descriptor '%s'", o.Value)
		}
	case "k":
		q.kernel, q.bootSet = true, true
	case "S":
		q.since, err = parseTimestamp(o.Value, time.Now())
	case "U":
		q.until, err = parseTimestamp(o.Value, time.Now())
	case "p":
		q.prioritySet = true
		q.minimum, q.maximum, err = parsePriorities(o.Value)
	case "g":
		q.pattern = o.Value
	case "case-sensitive":
		b := o.Value == "" || slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, o.Value)
		q.caseSensitive = &b
	case "c":
		q.cursor = o.Value
	case "after-cursor":
		q.cursor, q.after = o.Value, true
	}
	return err
}

// arguments takes the matches of the command line and completes the query.
func (q *query) arguments(args []string) error {
	group := map[string][]string{}
	for _, a := range args {
		switch {
		case a == "+":
			if len(group) == 0 {
				return errors.New(`"+" can only be used between terms`)
			}
			q.matches = append(q.matches, group)
			group = map[string][]string{}
		case strings.HasPrefix(a, "/"):
			group["_COMM"] = append(group["_COMM"], path.Base(a))
		default:
			k, v, ok := strings.Cut(a, "=")
			if !ok || k == "" || strings.ToUpper(k) != k {
				return fmt.Errorf("Failed to add match '%s': Invalid argument", a)
			}
			group[k] = append(group[k], v)
		}
	}
	if len(group) > 0 {
		q.matches = append(q.matches, group)
	}
	if !q.since.IsZero() && !q.until.IsZero() && q.since.After(q.until) {
		return errors.New("--since= must be before --until=.")
	}
	if q.pattern == "" {
		return nil
	}
	p := q.pattern
	// as journalctl: a pattern without capitals matches in either case
	sensitive := strings.ToLower(p) != p
	if q.caseSensitive != nil {
		sensitive = *q.caseSensitive
	}
	if !sensitive {
		p = "(?i)" + p
	}
	var err error
	if q.grep, err = regexp.Compile(p); err != nil {
		return fmt.Errorf("Bad pattern \"%s\": %s", q.pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return nil
}

var errNoBoot = "Data from the specified boot (%s) is not available: %s"

// resolveBoot finds the boot that was asked for.
func (q *query) resolveBoot(j *journal.Journal, current string) error {
	if !q.bootSet || q.boot == "all" {
		return nil
	}
	current = strings.ReplaceAll(current, "-", "")
	boots := j.Boots()
	at := slices.IndexFunc(boots, func(b journal.Boot) bool { return b.ID == current })
	offset := q.boot
	if len(q.boot) >= 32 {
		id := q.boot[:32]
		if at = slices.IndexFunc(boots, func(b journal.Boot) bool { return b.ID == id }); at < 0 {
			return fmt.Errorf(errNoBoot, id, "No such boot ID in journal")
		}
		offset = q.boot[32:]
	}
	n := 0
	if offset != "" {
		n, _ = strconv.Atoi(offset)
	}
	switch {
	case len(q.boot) >= 32 || n <= 0:
		at += n
	default: // counted from the oldest
		at = n - 1
	}
	if at < 0 || at >= len(boots) {
		return fmt.Errorf(errNoBoot, fmt.Sprintf("%+d", n), "No such boot ID in journal")
	}
	q.bootID = boots[at].ID
	return nil
}

// accepts says whether an entry is asked for.
func (q *query) accepts(e journal.Entry, host string) bool {
	switch {
	case q.bootID != "" && e.Boot != q.bootID,
		q.kernel && e.Identifier != "kernel",
		!q.since.IsZero() && e.Time.Before(q.since),
		!q.until.IsZero() && e.Time.After(q.until),
		q.prioritySet && (e.Priority < q.minimum || e.Priority > q.maximum),
		len(q.identifiers) > 0 && !slices.Contains(q.identifiers, e.Identifier),
		len(q.units) > 0 && !slices.ContainsFunc(q.units, func(u string) bool { return unitMatches(u, e.Unit) }),
		q.grep != nil && !q.grep.MatchString(e.Message):
		return false
	}
	if len(q.matches) == 0 {
		return true
	}
	return slices.ContainsFunc(q.matches, func(group map[string][]string) bool {
		for k, values := range group {
			v, ok := e.Field(k, host)
			if !ok || !slices.Contains(values, v) {
				return false
			}
		}
		return true
	})
}

func unitMatches(pattern, unit string) bool {
	if strings.ContainsAny(pattern, "*?[") {
		ok, _ := path.Match(pattern, unit)
		return ok
	}
	return pattern == unit
}

var priorities = []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// parsePriorities reads a level, which stands for itself and all that are more urgent, or a range.
func parsePriorities(s string) (from, to int, err error) {
	level := func(s string) (int, error) {
		if i := slices.Index(priorities, s); i >= 0 {
			return i, nil
		}
		if n, err := strconv.Atoi(s); err == nil && n >= 0 && n <= 7 {
			return n, nil
		}
		return 0, fmt.Errorf("Unknown log level %s", s)
	}
	a, b, isRange := strings.Cut(s, "..")
	if from, err = level(a); err != nil || !isRange {
		return 0, from, err
	}
	if to, err = level(b); err != nil {
		return 0, 0, fmt.Errorf("Failed to parse log level range %s", s)
	}
	return min(from, to), max(from, to), nil
}
