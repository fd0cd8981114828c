package transcript

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Line is a normalised line of output.
type Line struct {
	Text string
	// Group marks lines that may stand in any order among their neighbours of the same group; "" is a line with a place.
	Group string
	// Age is how long ago the event of an event's row was; -1 when that is not known.
	Age time.Duration
}

// Normalise makes the parts of a command's output equal that no two clusters share, and gives tables one width. The command
// tells what kind of output it is.
func Normalise(command, text string) []Line {
	n := normaliser{command: command, nodes: strings.Contains(command, "describe node"), chosen: chooses.MatchString(command), events: listsEvents.MatchString(command), logs: logsOfAll.MatchString(command) && !strings.Contains(command, "--prefix")}
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		n.add(l)
	}
	if text == "" {
		return nil
	}
	return n.withoutProgress()
}

// withoutProgress drops what a rollout that succeeded told on its way: which of its states were seen is a matter of time.
func (n *normaliser) withoutProgress() []Line {
	var out []Line
	for i, l := range n.lines {
		if progress.MatchString(l.Text) && slices.ContainsFunc(n.lines[i:], func(l Line) bool { return succeeded.MatchString(l.Text) }) {
			continue
		}
		out = append(out, l)
	}
	return out
}

// Marks of lines that may change places.
const (
	groupEvents = "events"
	groupRows   = "rows of "
	groupDrain  = "drain"
	groupLogs   = "logs"
)

var (
	// chooses matches commands that print the bare name of a Pod's node.
	chooses = regexp.MustCompile(`spec\.nodeName\}|NODE:\.spec\.nodeName`)
	// listsEvents matches commands that print events in columns of their own.
	listsEvents = regexp.MustCompile(`kubectl (?:get )?(?:\S+ )*(?:events?|ev)\b`)
	node        = regexp.MustCompile(`\bcka-w[12]\b`)
	pemBegin    = regexp.MustCompile(`^(\s*)-----BEGIN ([A-Z ]+)-----$`)
	pemEnd      = regexp.MustCompile(`-----END [A-Z ]+-----$`)
	// eventRow is a row of a table of events whose head is cut off.
	eventRow = regexp.MustCompile(`^(?:\s+(?:Normal|Warning) +[A-Z]\w+ +AGE |AGE +(?:Normal|Warning) )`)
	eventAge = regexp.MustCompile(`\b\d+[smhd]\w*`)
	// drains are what kubectl drain says of Pods: it evicts them at the same time.
	drains    = regexp.MustCompile(`^(?:evicting pod |pod/\S+ (?:evicted|deleted)|cannot delete |error when evicting pod)`)
	progress  = regexp.MustCompile(`^Waiting for (?:.* rollout to finish: |deployment spec update to be observed|daemon set spec update to be observed|\d+ pods to be ready|.* to finish)`)
	succeeded = regexp.MustCompile(`successfully rolled out$|^(?:statefulset|partitioned) .*rolling update complete|roll out complete: `)
	// logsOfAll matches kubectl logs of several containers: upstream reads them in the order of a map.
	logsOfAll  = regexp.MustCompile(`^kubectl logs .*--all-containers`)
	rule3      = regexp.MustCompile(`-{3,}`)
	onlyDashes = regexp.MustCompile(`^[- ]+$`)
	blanks     = regexp.MustCompile(`  +`)
)

type normaliser struct {
	command                     string
	nodes, chosen, events, logs bool

	lines []Line
	table *table
	pem   bool
}

func (n *normaliser) add(raw string) {
	raw = strings.TrimRight(raw, " \t\r")
	if n.pem {
		n.pem = !pemEnd.MatchString(raw)
		return
	}
	if m := pemBegin.FindStringSubmatch(raw); m != nil {
		n.pem = true
		n.put(Line{Text: m[1] + "PEM " + m[2], Age: -1})
		return
	}
	l := Line{Age: -1}
	text := raw
	switch t := tableOf(raw); {
	case t != nil:
		n.table = t
	case n.table != nil && n.table.has(raw):
		if onlyDashes.MatchString(raw) {
			break
		}
		cells := n.table.cells(raw)
		l.Age = n.table.age(cells)
		for i, c := range cells {
			if r, ok := columns[n.table.head(i)]; ok {
				cells[i] = r.re.ReplaceAllString(c, r.to)
			}
		}
		text = n.table.indent + strings.Join(cells, "  ")
		switch {
		case n.table.events() || n.events:
			l.Group = groupEvents
		case len(cells) > 0:
			l.Group = groupRows + apply(everywhere, cells[0])
		}
	default:
		n.table = nil
		if n.events {
			l.Group = groupEvents
		}
	}
	l.Text = n.text(text)
	switch {
	case l.Group == "" && eventRow.MatchString(l.Text):
		l.Group, l.Age = groupEvents, ageOf(eventAge.FindString(raw))
	case n.logs:
		l.Group = groupLogs
	case drains.MatchString(l.Text):
		l.Group = groupDrain
	}
	if progress.MatchString(l.Text) { // how many of them are seen is a matter of time
		if k := len(n.lines); k > 0 && n.lines[k-1].Text == l.Text {
			return
		}
	}
	n.put(l)
}

func (n *normaliser) put(l Line) { n.lines = append(n.lines, l) }

// unordered are lists of reasons that upstream takes from a map, in no order.
var unordered = regexp.MustCompile(`(is forbidden: |due to error: )\[(.*)\]`)

// sortReasons puts them into one.
func sortReasons(s string) string {
	return unordered.ReplaceAllStringFunc(s, func(m string) string {
		head, list, _ := strings.Cut(strings.TrimSuffix(m, "]"), "[")
		l := strings.Split(list, ", ")
		slices.Sort(l)
		return head + "[" + strings.Join(l, ", ") + "]"
	})
}

func apply(l []rule, s string) string {
	for _, r := range l {
		s = r.re.ReplaceAllString(s, r.to)
	}
	return s
}

// text normalises what is not a matter of columns.
func (n *normaliser) text(s string) string {
	if n.nodes {
		s = apply(ofNodes, s)
	}
	s = sortReasons(apply(everywhere, s))
	if n.chosen {
		s = node.ReplaceAllString(s, "NODE")
	}
	if onlyDashes.MatchString(s) {
		s = rule3.ReplaceAllString(s, "---")
	}
	trimmed := strings.TrimLeft(s, " ")
	return s[:len(s)-len(trimmed)] + blanks.ReplaceAllString(trimmed, "  ")
}

// ageOf reads an age as kubectl prints it ("3m5s", "2d"); -1 if it is none.
func ageOf(s string) time.Duration {
	s, _, _ = strings.Cut(s, " ")
	if s == "" || !age.MatchString(s) {
		return -1
	}
	var total time.Duration
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if i <= 0 {
			return -1
		}
		v, err := strconv.Atoi(s[:i])
		if err != nil {
			return -1
		}
		unit, ok := map[byte]time.Duration{'y': 365 * 24 * time.Hour, 'd': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}[s[i]]
		if !ok {
			return -1
		}
		total += time.Duration(v) * unit
		s = s[i+1:]
	}
	return total
}
