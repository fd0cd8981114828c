package procps

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/userland/libc"
)

// column is one column of ps.
type column struct {
	header string
	width  int
	left   bool
	value  func(c *libc.Prog, p process) string
	less   func(a, b process) int
}

func shortUser(s string) string {
	if len(s) > 8 {
		return s[:7] + "+"
	}
	return s
}

var columns = map[string]column{
	"user":  {"USER", 8, true, func(c *libc.Prog, p process) string { return shortUser(p.user) }, func(a, b process) int { return strings.Compare(a.user, b.user) }},
	"uid":   {"UID", 5, false, func(c *libc.Prog, p process) string { return strconv.Itoa(p.Cred.UID) }, func(a, b process) int { return cmp.Compare(a.Cred.UID, b.Cred.UID) }},
	"gid":   {"GID", 5, false, func(c *libc.Prog, p process) string { return strconv.Itoa(p.Cred.GID) }, nil},
	"group": {"GROUP", 8, true, func(c *libc.Prog, p process) string { return shortUser(libc.GroupName(c.Files, p.Cred.GID)) }, nil},
	"pid":   {"PID", 7, false, func(c *libc.Prog, p process) string { return strconv.Itoa(p.pid) }, func(a, b process) int { return cmp.Compare(a.pid, b.pid) }},
	"ppid":  {"PPID", 7, false, func(c *libc.Prog, p process) string { return strconv.Itoa(p.ppid) }, func(a, b process) int { return cmp.Compare(a.ppid, b.ppid) }},
	"pcpu":  {"%CPU", 4, false, func(c *libc.Prog, p process) string { return percent(p.cpuShare()) }, func(a, b process) int { return cmp.Compare(a.cpuShare(), b.cpuShare()) }},
	"c":     {"C", 2, false, func(c *libc.Prog, p process) string { return strconv.Itoa(min(99, int(p.cpuShare()))) }, nil},
	"pmem": {"%MEM", 4, false, func(c *libc.Prog, p process) string {
		return percent(100 * float64(p.Memory()) / float64(machineMemory(c)))
	},
		func(a, b process) int { return cmp.Compare(a.Memory(), b.Memory()) }},
	"vsz":     {"VSZ", 6, false, func(c *libc.Prog, p process) string { return strconv.FormatInt(p.Memory()>>10, 10) }, func(a, b process) int { return cmp.Compare(a.Memory(), b.Memory()) }},
	"rss":     {"RSS", 5, false, func(c *libc.Prog, p process) string { return strconv.FormatInt(p.Memory()>>10, 10) }, func(a, b process) int { return cmp.Compare(a.Memory(), b.Memory()) }},
	"tty":     {"TT", 8, true, func(c *libc.Prog, p process) string { return p.tty() }, nil},
	"stat":    {"STAT", 4, true, func(c *libc.Prog, p process) string { return p.state(c) }, nil},
	"s":       {"S", 1, true, func(c *libc.Prog, p process) string { return p.state(c)[:1] }, nil},
	"start":   {"START", 5, false, func(c *libc.Prog, p process) string { return p.started() }, func(a, b process) int { return a.Started.Compare(b.Started) }},
	"lstart":  {"STARTED", 24, false, func(c *libc.Prog, p process) string { return p.Started.UTC().Format("Mon Jan _2 15:04:05 2006") }, func(a, b process) int { return a.Started.Compare(b.Started) }},
	"bsdtime": {"TIME", 6, false, func(c *libc.Prog, p process) string { return shortClock(p.CPU()) }, func(a, b process) int { return cmp.Compare(a.CPU(), b.CPU()) }},
	"time":    {"TIME", 8, false, func(c *libc.Prog, p process) string { return clock(p.CPU()) }, func(a, b process) int { return cmp.Compare(a.CPU(), b.CPU()) }},
	"etime":   {"ELAPSED", 11, false, func(c *libc.Prog, p process) string { return elapsedClock(p.elapsed()) }, func(a, b process) int { return cmp.Compare(a.elapsed(), b.elapsed()) }},
	"etimes":  {"ELAPSED", 7, false, func(c *libc.Prog, p process) string { return strconv.Itoa(int(p.elapsed().Seconds())) }, func(a, b process) int { return cmp.Compare(a.elapsed(), b.elapsed()) }},
	"comm":    {"COMMAND", 15, true, func(c *libc.Prog, p process) string { return p.Comm() }, func(a, b process) int { return strings.Compare(a.Comm(), b.Comm()) }},
	"args":    {"COMMAND", 27, true, func(c *libc.Prog, p process) string { return p.command() }, func(a, b process) int { return strings.Compare(a.command(), b.command()) }},
	"ni":      {"NI", 3, false, func(c *libc.Prog, p process) string { return "0" }, nil},
	"pri":     {"PRI", 3, false, func(c *libc.Prog, p process) string { return "19" }, nil},
	"nlwp":    {"NLWP", 4, false, func(c *libc.Prog, p process) string { return "1" }, nil},
	"unit": {"UNIT", 31, true, func(c *libc.Prog, p process) string {
		if p.Unit == "" {
			return "-"
		}
		return p.Unit
	}, nil},
}

// aliases are other names of columns; the header follows the name.
var aliases = map[string][2]string{
	"euser": {"user", "EUSER"}, "ruser": {"user", "RUSER"}, "uname": {"user", "USER"}, "euid": {"uid", "EUID"}, "%cpu": {"pcpu", "%CPU"}, "%mem": {"pmem", "%MEM"}, "cpu": {"pcpu", "CPU"}, "mem": {"pmem", "%MEM"}, "vsize": {"vsz", "VSZ"},
	"rssize": {"rss", "RSS"}, "rsz": {"rss", "RSZ"}, "tt": {"tty", "TT"}, "tname": {"tty", "TTY"}, "state": {"s", "S"}, "stime": {"start", "STIME"}, "start_time": {"start", "START"}, "bsdstart": {"start", "START"},
	"cputime": {"time", "TIME"}, "cmd": {"args", "CMD"}, "command": {"args", "COMMAND"}, "ucmd": {"comm", "CMD"}, "ucomm": {"comm", "COMMAND"}, "fname": {"comm", "COMMAND"}, "nice": {"ni", "NI"}, "rgroup": {"group", "RGROUP"}, "egroup": {"group", "EGROUP"}, "pgid": {"pid", "PGID"}, "sid": {"pid", "SID"}, "lwp": {"pid", "LWP"}, "thcount": {"nlwp", "THCNT"},
}

func findColumn(name string) (column, bool) {
	if a, ok := aliases[name]; ok {
		col := columns[a[0]]
		col.header = a[1]
		return col, true
	}
	col, ok := columns[name]
	return col, ok
}

// percent has one decimal, and none from 100 on.
func percent(f float64) string {
	if f >= 99.95 {
		return strconv.Itoa(int(f + 0.5))
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

func named(names ...string) []column {
	var l []column
	for _, n := range names {
		n, header, renamed := strings.Cut(n, "=")
		col, _ := findColumn(n)
		if renamed {
			col.header = header
		}
		l = append(l, col)
	}
	return l
}

var (
	plainFormat = named("pid", "tname", "time", "ucmd")
	fullFormat  = named("user=UID", "pid", "ppid", "c", "stime", "tname", "time", "cmd")
	bsdFormat   = named("pid", "tname", "stat", "bsdtime", "command")
	userFormat  = named("user", "pid", "pcpu", "pmem", "vsz", "rss", "tname", "stat", "start", "bsdtime", "command")
	longFormat  = named("s", "uid", "pid", "ppid", "c", "pri", "ni", "tname", "time", "ucmd")
)

// psRun is one run of ps.
type psRun struct {
	c                          *libc.Prog
	format                     []column
	all, allTerminals, noTTY   bool
	header, wide, forest, full bool
	pids, ppids                []int
	users, commands            []string
	selected                   bool
	sort                       []string
}

func ps(c *libc.Prog) int {
	if c.Busybox {
		return busyboxPs(c)
	}
	r := &psRun{c: c, header: true}
	if !r.parse(c.Args) {
		return c.Status
	}
	if r.format == nil {
		r.format = plainFormat
	}
	var l []process
	for _, p := range processes(c) {
		if r.wants(p) {
			l = append(l, p)
		}
	}
	for i := len(r.sort) - 1; i >= 0; i-- {
		key := strings.TrimPrefix(r.sort[i], "+")
		name, down := strings.CutPrefix(key, "-")
		col, ok := findColumn(name)
		if !ok || col.less == nil {
			c.Errorf("error: unknown sort specifier\n\nUsage:\n ps [options]\n\n Try 'ps --help <simple|list|output|threads|misc|all>'\n  or 'ps --help <s|l|o|t|m|a>'\n for additional help text.\n\nFor more details see ps(1).\n")
			return 1
		}
		slices.SortStableFunc(l, func(a, b process) int {
			if down {
				return -col.less(a, b)
			}
			return col.less(a, b)
		})
	}
	prefix := map[int]string{}
	if r.forest {
		l, prefix = forest(l)
	}
	r.print(l, prefix)
	if len(l) == 0 {
		return 1
	}
	return c.Status
}

func (r *psRun) usage(text string) bool {
	r.c.Errorf("error: %s\n\nUsage:\n ps [options]\n\n Try 'ps --help <simple|list|output|threads|misc|all>'\n  or 'ps --help <s|l|o|t|m|a>'\n for additional help text.\n\nFor more details see ps(1).\n", text)
	r.c.Status = 1
	return false
}

func (r *psRun) parse(args []string) bool {
	for i := 0; i < len(args); i++ {
		a := args[i]
		value := func(rest string) (string, bool) {
			if rest != "" {
				return rest, true
			}
			if i+1 >= len(args) {
				return "", false
			}
			i++
			return args[i], true
		}
		switch {
		case strings.HasPrefix(a, "--"):
			name, v, has := strings.Cut(a[2:], "=")
			if !has && (name == "pid" || name == "ppid" || name == "user" || name == "sort" || name == "format") {
				if v, has = value(""); !has {
					return r.usage("option requires an argument")
				}
			}
			switch name {
			case "no-headers", "no-heading", "noheader":
				r.header = false
			case "headers":
			case "forest":
				r.forest = true
			case "sort":
				r.sort = append(r.sort, strings.Split(v, ",")...)
			case "pid":
				if !r.numbers(v, &r.pids) {
					return false
				}
			case "ppid":
				if !r.numbers(v, &r.ppids) {
					return false
				}
			case "user", "User":
				r.users, r.selected = append(r.users, strings.Split(v, ",")...), true
			case "format":
				if !r.columns(v) {
					return false
				}
			case "version":
				r.c.Put("ps from procps-ng 4.0.4\n")
				return false
			case "width", "cols", "columns":
			default:
				return r.usage("unknown gnu long option")
			}
		case strings.HasPrefix(a, "-") && len(a) > 1:
			for j := 1; j < len(a); j++ {
				rest := a[j+1:]
				ch := a[j]
				switch ch {
				case 'e', 'A':
					r.all = true
				case 'a':
					r.allTerminals = true
				case 'd', 'N', 'w', 'y', 'm', 'T', 'L', 'M', 'Z':
				case 'x':
					r.noTTY = true
				case 'f':
					if r.format == nil {
						r.format = fullFormat
					}
					r.full = true
				case 'F':
					r.format = named("user=UID", "pid", "ppid", "c", "vsz=SZ", "rss", "stime", "tname", "time", "cmd")
				case 'l':
					r.format = longFormat
				case 'H':
					r.forest = true
				case 'o', 'O', 'p', 'q', 'u', 'U', 'C', 't', 'g', 'G', 's':
					v, ok := value(rest)
					if !ok {
						if ch == 'u' && len(a) > 2 {
							break
						}
						return r.usage("list of " + map[byte]string{'o': "format specifiers", 'p': "process IDs", 'C': "command names"}[ch] + " must follow -" + string(ch))
					}
					j = len(a)
					switch ch {
					case 'o':
						if !r.columns(v) {
							return false
						}
					case 'p', 'q':
						if !r.numbers(v, &r.pids) {
							return false
						}
					case 'u', 'U':
						r.users, r.selected = append(r.users, strings.Split(v, ",")...), true
					case 'C':
						r.commands, r.selected = append(r.commands, strings.Split(v, ",")...), true
					}
				default:
					return r.usage("unsupported SysV option")
				}
			}
		default:
			if a != "" && a[0] >= '0' && a[0] <= '9' {
				if !r.numbers(a, &r.pids) {
					return false
				}
				continue
			}
			for j := 0; j < len(a); j++ {
				switch a[j] {
				case 'a':
					r.allTerminals = true
				case 'x':
					r.noTTY = true
				case 'u':
					r.format = userFormat
				case 'e', 'w', 'c', 'n', 'h', 'r', 'm', 'H':
					if a[j] == 'h' {
						r.header = false
					}
					r.wide = r.wide || a[j] == 'w'
				case 'f':
					r.forest = true
				case 'l':
					r.format = longFormat
				case 'o', 'k', 'p', 'U':
					v, ok := value(a[j+1:])
					if !ok {
						return r.usage("option requires an argument")
					}
					letter := a[j]
					j = len(a)
					switch letter {
					case 'o':
						if !r.columns(v) {
							return false
						}
					case 'k':
						r.sort = append(r.sort, strings.Split(v, ",")...)
					case 'p':
						if !r.numbers(v, &r.pids) {
							return false
						}
					case 'U':
						r.users, r.selected = append(r.users, strings.Split(v, ",")...), true
					}
				default:
					return r.usage("unsupported option (BSD syntax)")
				}
			}
			if r.format == nil {
				r.format = bsdFormat
			}
		}
	}
	return true
}

func (r *psRun) numbers(s string, into *[]int) bool {
	r.selected = true
	for _, f := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' }) {
		n, err := strconv.Atoi(f)
		if err != nil || n <= 0 {
			return r.usage("process ID list syntax error")
		}
		*into = append(*into, n)
	}
	return true
}

func (r *psRun) columns(s string) bool {
	name, header, renamed := strings.Cut(s, "=")
	list := strings.FieldsFunc(name, func(c rune) bool { return c == ',' || c == ' ' })
	if r.full || r.formatIsPreset() {
		r.format = nil
		r.full = false
	}
	for i, n := range list {
		col, ok := findColumn(n)
		if !ok {
			return r.usage("unknown user-defined format specifier \"" + n + "\"")
		}
		if renamed && i == len(list)-1 {
			col.header = header
			col.width = max(col.width, len(header))
		}
		r.format = append(r.format, col)
	}
	return true
}

func (r *psRun) formatIsPreset() bool {
	for _, f := range [][]column{fullFormat, bsdFormat, userFormat, longFormat} {
		if len(r.format) > 0 && &r.format[0] == &f[0] {
			return true
		}
	}
	return false
}

func (r *psRun) wants(p process) bool {
	if r.selected {
		uid := strconv.Itoa(p.Cred.UID)
		return slices.Contains(r.pids, p.pid) || slices.Contains(r.ppids, p.ppid) || slices.Contains(r.users, p.user) || slices.Contains(r.users, uid) || slices.Contains(r.commands, p.Comm())
	}
	switch {
	case r.all, r.allTerminals && r.noTTY:
		return true
	case r.allTerminals:
		return p.TTY != nil
	case r.noTTY:
		return p.Cred.UID == r.c.Cred.UID
	}
	return p.Cred.UID == r.c.Cred.UID && (p.TTY != nil) == (r.c.TTY != nil)
}

// forest orders processes as a tree and gives each the lines that lead to it.
func forest(l []process) ([]process, map[int]string) {
	children := map[int][]process{}
	known := map[int]bool{}
	for _, p := range l {
		known[p.pid] = true
	}
	for _, p := range l {
		parent := p.ppid
		if !known[parent] || parent == p.pid {
			parent = 0
		}
		children[parent] = append(children[parent], p)
	}
	prefix := map[int]string{}
	var out []process
	var walk func(pid, depth int, lead string)
	walk = func(pid, depth int, lead string) {
		for i, p := range children[pid] {
			last := i == len(children[pid])-1
			next := lead
			if depth > 0 {
				prefix[p.pid] = lead + ` \_ `
				if next += " |  "; last {
					next = lead + "    "
				}
			}
			out = append(out, p)
			if p.pid != 0 {
				walk(p.pid, depth+1, next)
			}
		}
	}
	walk(0, 0, "")
	return out, prefix
}

func (r *psRun) print(l []process, prefix map[int]string) {
	c := r.c
	cells := make([][]string, 0, len(l))
	widths := make([]int, len(r.format))
	for i, col := range r.format {
		widths[i] = max(col.width, len(col.header))
		if col.header == "" {
			widths[i] = col.width
		}
	}
	for _, p := range l {
		row := make([]string, len(r.format))
		for i, col := range r.format {
			row[i] = col.value(c, p)
			if h := col.header; h == "COMMAND" || h == "CMD" {
				row[i] = prefix[p.pid] + row[i]
			}
		}
		cells = append(cells, row)
	}
	blank := true
	for _, col := range r.format {
		blank = blank && col.header == ""
	}
	limit := 0
	if c.IsTerminal(c.Stdout) && !r.wide {
		limit, _ = c.TTY.Size()
	}
	line := func(cell func(i int) string) {
		var b strings.Builder
		for i, col := range r.format {
			if i > 0 {
				b.WriteByte(' ')
			}
			switch {
			case col.left && i == len(r.format)-1:
				b.WriteString(cell(i))
			case col.left:
				fmt.Fprintf(&b, "%-*s", widths[i], cell(i))
			default:
				fmt.Fprintf(&b, "%*s", widths[i], cell(i))
			}
		}
		s := b.String()
		if limit > 0 && len(s) > limit {
			s = s[:limit]
		}
		c.Put("%s\n", s)
	}
	if r.header && !blank {
		line(func(i int) string { return r.format[i].header })
	}
	for _, row := range cells {
		line(func(i int) string { return row[i] })
	}
}

// busyboxPs is busybox's ps, which shows everything and takes a list of columns only.
func busyboxPs(c *libc.Prog) int {
	var cols []string
	for i := 0; i < len(c.Args); i++ {
		if v, ok := strings.CutPrefix(c.Args[i], "-o"); ok {
			if v == "" && i+1 < len(c.Args) {
				i++
				v = c.Args[i]
			}
			cols = append(cols, strings.Split(v, ",")...)
		}
	}
	l := processes(c)
	if len(cols) == 0 {
		c.Put("PID   USER     TIME  COMMAND\n")
		for _, p := range l {
			c.Put("%5d %-8.8s %5s %s\n", p.pid, p.user, shortClock(p.CPU()), p.command())
		}
		return 0
	}
	busyWidths := map[string]int{"pid": 5, "ppid": 5, "user": 8, "group": 8, "comm": 16, "args": 256, "time": 5, "tty": 6, "vsz": 4, "rss": 4, "stat": 4, "etime": 7, "nice": 5}
	for i, n := range cols {
		if _, ok := findColumn(n); !ok {
			return c.Fail("bad -o argument '%s', supported arguments: user,group,comm,args,pid,ppid,pgid,tty,vsz,sid,stat,rss", n)
		}
		if i > 0 {
			c.Put(" ")
		}
		h := strings.ToUpper(n)
		if n == "args" || n == "comm" {
			h = "COMMAND"
		}
		if i == len(cols)-1 {
			c.Put("%s", h)
		} else {
			c.Put("%-*s", busyWidths[n], h)
		}
	}
	c.Put("\n")
	for _, p := range l {
		for i, n := range cols {
			col, _ := findColumn(n)
			v := col.value(c, p)
			if n == "time" {
				v = shortClock(p.CPU())
			}
			if i > 0 {
				c.Put(" ")
			}
			switch {
			case i == len(cols)-1:
				c.Put("%s", v)
			case col.left:
				c.Put("%-*s", busyWidths[n], v)
			default:
				c.Put("%*s", busyWidths[n], v)
			}
		}
		c.Put("\n")
	}
	return 0
}
