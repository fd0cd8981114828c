package dpkg

import (
	"crypto/md5"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/libc"
)

func sum(b []byte) string { return fmt.Sprintf("%x", md5.Sum(b)) }

// query is dpkg-query: it shows what the database says.
func query(c *libc.Prog) int {
	action, format := "", "${binary:Package}\t${Version}\n"
	var operands []string
	for i := 0; i < len(c.Args); i++ {
		a := c.Args[i]
		value := func() string {
			if i++; i < len(c.Args) {
				return c.Args[i]
			}
			return ""
		}
		long := map[string]string{"--list": "l", "--status": "s", "--listfiles": "L", "--search": "S", "--show": "W", "--print-avail": "p", "--control-list": "", "--control-path": ""}
		switch {
		case a == "--help" || a == "--version":
			return about(c, a[2:])
		case strings.HasPrefix(a, "--showformat="):
			format = unescape(strings.TrimPrefix(a, "--showformat="))
		case a == "--showformat" || a == "-f":
			format = unescape(value())
		case strings.HasPrefix(a, "-f"):
			format = unescape(strings.TrimPrefix(strings.TrimPrefix(a, "-f"), "="))
		case a == "--no-pager":
		case long[a] != "":
			action = long[a]
		case strings.HasPrefix(a, "--"):
			return queryFail(c, 2, "ckadrill does not simulate dpkg-query %s yet", a)
		case len(a) == 2 && a[0] == '-' && strings.ContainsAny(a[1:], "lsLSWp"):
			action = a[1:]
		case len(a) > 1 && a[0] == '-':
			return queryFail(c, 2, "unknown option %s", a)
		default:
			operands = append(operands, a)
		}
	}
	db, err := deb.Open(c.Files)
	if err != nil {
		return queryFail(c, 2, "%s", err)
	}
	q := &inquiry{c: c, db: db}
	switch action {
	case "l":
		q.list(operands)
	case "s", "p":
		if len(operands) == 0 && action == "s" {
			for _, r := range db.Records() {
				c.Put("%s\n", r.String())
			}
			return 0
		}
		q.status(operands)
	case "L":
		q.files(operands)
	case "S":
		q.search(operands)
	case "W":
		q.show(operands, format)
	default:
		return queryFail(c, 2, "need an action option\n\nUse --help for help about querying packages.")
	}
	return c.Status
}

func queryFail(c *libc.Prog, status int, format string, a ...any) int {
	c.Out.Flush()
	c.Errorf("dpkg-query: error: "+format+"\n", a...)
	return status
}

type inquiry struct {
	c  *libc.Prog
	db *deb.Database
}

// missing says that there is nothing to show, and carries on.
func (q *inquiry) missing(format string, a ...any) {
	q.c.Out.Flush()
	q.c.Errorf("dpkg-query: "+format+"\n", a...)
	q.c.Status = 1
}

// abbreviation is a package's status in two letters, three if something is wrong.
func abbreviation(r *deb.Record) string {
	letters := map[string]string{deb.NotInstalled: "n", deb.ConfigFiles: "c", deb.HalfInstalled: "H", deb.Unpacked: "U", deb.HalfConfigured: "F", deb.Installed: "i"}
	wanted := map[string]string{deb.Install: "i", deb.Hold: "h", deb.Deinstall: "r", deb.Purge: "p", "unknown": "u"}
	return wanted[r.Selection()] + letters[r.State()]
}

// list is the table of dpkg -l. Columns are as wide as what they hold; on a terminal the last one ends where the terminal does.
func (q *inquiry) list(patterns []string) {
	var rows [][]string
	for _, r := range selected(q.db, patterns) {
		if len(patterns) == 0 && r.State() == deb.NotInstalled {
			continue
		}
		rows = append(rows, []string{abbreviation(r), r.Name(), r.Version(), r.Architecture(), summary(r.Paragraph)})
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(rows, func(r []string) bool { return matches(p, r[1]) }) {
			defer q.missing("no packages found matching %s", p)
		}
	}
	if len(rows) == 0 {
		return
	}
	w := []int{0, 14, 12, 12, 33}
	for _, r := range rows {
		for i := 1; i < len(r); i++ {
			w[i] = max(w[i], len([]rune(r[i])))
		}
	}
	if q.c.IsTerminal(q.c.Stdout) {
		columns, err := strconv.Atoi(q.c.Getenv("COLUMNS"))
		if err != nil || columns < 1 {
			columns = 80
			if width, _ := q.c.TTY.Size(); width > 0 {
				columns = width
			}
		}
		w[4] = max(columns-w[1]-w[2]-w[3]-8, 0)
	}
	q.c.Put("Desired=Unknown/Install/Remove/Purge/Hold\n| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend\n|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)\n")
	line := func(mark string, cells []string) {
		d := []rune(cells[3])
		q.c.Put("%s %-*s %-*s %-*s %s\n", mark, w[1], cells[0], w[2], cells[1], w[3], cells[2], string(d[:min(len(d), w[4])]))
	}
	line("||/", []string{"Name", "Version", "Architecture", "Description"})
	q.c.Put("+++-%s-%s-%s-%s\n", strings.Repeat("=", w[1]), strings.Repeat("=", w[2]), strings.Repeat("=", w[3]), strings.Repeat("=", w[4]))
	for _, r := range rows {
		line(r[0]+" ", r[1:])
	}
}

func (q *inquiry) status(names []string) {
	for i, n := range names {
		n, _, _ = strings.Cut(n, ":")
		r := q.db.Find(n)
		if i > 0 {
			q.c.Put("\n")
		}
		if r == nil || r.State() == deb.NotInstalled {
			q.missing("package '%s' is not installed and no information is available", n)
			continue
		}
		q.c.Put("%s", r.String())
	}
	if q.c.Status != 0 {
		q.c.Out.Flush()
		q.c.Errorf("Use dpkg --info (= dpkg-deb --info) to examine archive files.\n")
	}
}

func (q *inquiry) files(names []string) {
	for i, n := range names {
		n, _, _ = strings.Cut(n, ":")
		if i > 0 {
			q.c.Put("\n")
		}
		l, err := deb.List(q.c.Files, n)
		if r := q.db.Find(n); r == nil || err != nil || r.State() == deb.NotInstalled {
			q.missing("package '%s' is not installed", n)
			continue
		}
		for _, p := range l {
			q.c.Put("%s\n", p)
		}
	}
	if q.c.Status != 0 {
		q.c.Out.Flush()
		q.c.Errorf("Use dpkg --contents (= dpkg-deb --contents) to list archive files contents.\n")
	}
}

// search finds the packages that own a path. A pattern without wildcards that does not begin with "/" is part of a path.
func (q *inquiry) search(patterns []string) {
	owned := owners(q.c.Files, q.db)
	for _, p := range patterns {
		var found []string
		switch {
		case strings.ContainsAny(p, "*?[\\"):
			g := libc.NewGlob(p, false)
			for n := range owned {
				if g.Match(n) {
					found = append(found, n)
				}
			}
		case strings.HasPrefix(p, "/"):
			if p = strings.TrimRight(p, "/"); owned[p] != nil {
				found = append(found, p)
			}
		default:
			for n := range owned {
				if strings.Contains(n, p) {
					found = append(found, n)
				}
			}
		}
		slices.Sort(found)
		for _, n := range found {
			q.c.Put("%s: %s\n", strings.Join(owned[n], ", "), n)
		}
		if len(found) == 0 {
			if !strings.HasPrefix(p, "/") && !strings.ContainsAny(p, "*?[\\") {
				p = "*" + p + "*"
			}
			q.missing("no path found matching pattern %s", p)
		}
	}
}

func (q *inquiry) show(patterns []string, format string) {
	for _, p := range patterns {
		if !slices.ContainsFunc(q.db.Records(), func(r *deb.Record) bool { return matches(p, r.Name()) }) {
			q.missing("no packages found matching %s", p)
		}
	}
	for _, r := range selected(q.db, patterns) {
		if len(patterns) == 0 && r.State() == deb.NotInstalled {
			continue
		}
		q.c.Put("%s", expand(format, r))
	}
}

// expand fills a format's "${Field;width}" in.
func expand(format string, r *deb.Record) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(format, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			b.WriteString("${" + rest)
			return b.String()
		}
		format = after
		name, width, _ := strings.Cut(name, ";")
		v := r.Get(name)
		switch strings.ToLower(name) {
		case "binary:package":
			v = r.Name()
		case "binary:summary":
			v = summary(r.Paragraph)
		case "db:status-abbrev":
			v = abbreviation(r) + " "
		case "db:status-want":
			v = r.Selection()
		case "db:status-status":
			v = r.State()
		case "db:status-eflag":
			v = "ok"
		}
		n, _ := strconv.Atoi(width)
		fmt.Fprintf(&b, "%*s", n, v)
	}
}

func unescape(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(s)
}
