package coreutils

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// lister is one run of ls.
type lister struct {
	c     *libc.Prog
	names *libc.Names
	now   time.Time

	all, almost, long, human, si, dirs, recursive, reverse, inode, blocks, numeric, noOwner, noGroup, slash, classify bool
	followArgs, followAll, byCommas, byRows, dirsFirst, quoted, always, color, noBackups                              bool
	sort, show, timeStyle                                                                                             string // sort: name, time, size, extension, version, none; show: mtime, atime, ctime
	columns                                                                                                           bool
	width                                                                                                             int
	ignore                                                                                                            []string
	first                                                                                                             bool
}

// entry is one file to be listed.
type entry struct {
	name   string // as it is shown
	path   string
	info   fs.FileInfo
	target string
	broken bool        // a symbolic link to nothing
	dest   fs.FileInfo // what a symbolic link leads to
}

func ls(c *libc.Prog) int {
	opts, operands, ok := c.Options("aAbBcCdfFgGhHiI:klLmnNopqQrRsStT:uUvw:xXZ1", "all|a", "almost-all|A", "human-readable|h", "si", "directory|d", "recursive|R", "reverse|r", "inode|i", "size|s",
		"numeric-uid-gid|n", "no-group|G", "classify::|F", "file-type", "indicator-style:", "dereference|L", "dereference-command-line|H", "group-directories-first", "color::", "sort:", "time:",
		"time-style:", "full-time", "width:|w", "ignore:|I", "ignore-backups|B", "literal|N", "quote-name|Q", "quoting-style:", "show-control-chars", "hide-control-chars|q", "format:", "block-size:",
		"escape|b", "context|Z", "zero")
	if !ok {
		if c.Status != 0 && !c.Busybox {
			c.Status = 2
		}
		return c.Status
	}
	l := &lister{c: c, names: libc.NewNames(c.Files), now: time.Now(), sort: "name", show: "mtime", first: true, width: 80}
	terminal := c.IsTerminal(c.Stdout)
	l.columns, l.quoted = terminal || c.Name == "dir" || c.Name == "vdir", terminal && !c.Busybox
	l.long = c.Name == "vdir"
	if terminal {
		l.width, _ = c.TTY.Size()
	}
	format := ""
	for _, o := range opts {
		switch o.Name {
		case "a":
			l.all = true
		case "A":
			l.almost = true
		case "B":
			l.noBackups = true
		case "c":
			l.show = "ctime"
		case "u":
			l.show = "atime"
		case "C":
			format = "C"
		case "x":
			format = "x"
		case "m":
			format = "m"
		case "1":
			if format != "l" {
				format = "1"
			}
		case "l":
			format = "l"
		case "g":
			format, l.noOwner = "l", true
		case "o":
			format, l.noGroup = "l", true
		case "n":
			format, l.numeric = "l", true
		case "G":
			l.noGroup = true
		case "f":
			l.all, l.sort = true, "none"
		case "U":
			l.sort = "none"
		case "S":
			l.sort = "size"
		case "t":
			l.sort = "time"
		case "X":
			l.sort = "extension"
		case "v":
			l.sort = "version"
		case "sort":
			l.sort = o.Value
		case "time":
			l.show = map[string]string{"atime": "atime", "access": "atime", "use": "atime", "ctime": "ctime", "status": "ctime"}[o.Value]
		case "h":
			l.human = true
		case "si":
			l.human, l.si = true, true
		case "d":
			l.dirs = true
		case "R":
			l.recursive = true
		case "r":
			l.reverse = true
		case "i":
			l.inode = true
		case "s":
			l.blocks = true
		case "F":
			l.classify = o.Value != "never" && (o.Value != "auto" || terminal)
		case "p":
			l.slash = true
		case "file-type":
			l.classify = true
		case "indicator-style":
			l.slash, l.classify = o.Value == "slash", o.Value == "classify" || o.Value == "file-type"
		case "L":
			l.followAll = true
		case "H":
			l.followArgs = true
		case "group-directories-first":
			l.dirsFirst = true
		case "color":
			l.color = o.Value == "" || o.Value == "always" || o.Value == "auto" && terminal
		case "time-style":
			l.timeStyle = o.Value
		case "full-time":
			format, l.timeStyle = "l", "full-iso"
		case "w":
			if n, err := strconv.Atoi(o.Value); err == nil {
				l.width = n
			}
		case "I":
			l.ignore = append(l.ignore, o.Value)
		case "Q":
			l.always = true
		case "N":
			l.quoted = false
		case "quoting-style":
			l.quoted = strings.HasPrefix(o.Value, "shell")
		case "format":
			format = map[string]string{"long": "l", "verbose": "l", "commas": "m", "horizontal": "x", "across": "x", "vertical": "C", "single-column": "1"}[o.Value]
		}
	}
	switch format {
	case "l":
		l.long = true
	case "1":
		l.columns, l.long = false, false
	case "C":
		l.columns, l.long = true, false
	case "x":
		l.columns, l.byRows = true, true
	case "m":
		l.byCommas = true
	}
	if l.width <= 0 {
		l.width = 1 << 20
	}
	l.run(operands)
	return c.Status
}

func (l *lister) run(operands []string) {
	if len(operands) == 0 {
		operands = []string{"."}
	}
	var files, dirs []*entry
	for _, n := range operands {
		e, err := l.look(n, n, true)
		if err != nil {
			l.fail(2, l.cannotAccess(n, err))
			continue
		}
		if !l.dirs && (e.info.IsDir() || e.dest != nil && e.dest.IsDir() && !l.long && !l.classify) {
			dirs = append(dirs, e)
		} else {
			files = append(files, e)
		}
	}
	l.order(files)
	l.order(dirs)
	if len(files) > 0 {
		l.print(files)
		l.first = false
	}
	for _, d := range dirs {
		l.list(d.name, len(operands) > 1 || l.recursive, true)
	}
}

func (l *lister) fail(status int, text string) {
	l.c.Warn("%s", text)
	if l.c.Busybox {
		status = 1
	}
	l.c.Status = max(l.c.Status, status)
}

func (l *lister) cannotAccess(name string, err error) string {
	if l.c.Busybox {
		return name + ": " + libc.Strerror(err)
	}
	return "cannot access " + libc.Quote(name) + ": " + libc.Strerror(err)
}

// look reads what there is to know about a file.
func (l *lister) look(name, file string, operand bool) (*entry, error) {
	c := l.c
	full := c.Path(file)
	e := &entry{name: name, path: full}
	var err error
	if name == "" {
		_, err = c.Files.Lstat("/nonexistent/")
		return nil, err
	}
	if l.followAll || operand && l.followArgs || strings.HasSuffix(file, "/") {
		if e.info, err = c.Files.Stat(full); err == nil || !l.followAll || operand {
			return e, err
		}
	}
	if e.info, err = c.Files.Lstat(full); err != nil {
		return nil, err
	}
	if e.info.Mode()&fs.ModeSymlink != 0 {
		e.target, _ = c.Files.Readlink(full)
		e.dest, err = c.Files.Stat(full)
		e.broken = err != nil
	}
	return e, nil
}

// list lists a directory.
func (l *lister) list(name string, header, operand bool) {
	c := l.c
	status := 1
	if operand {
		status = 2
	}
	dir := c.Path(name)
	des, err := c.Files.ReadDir(dir)
	if err != nil {
		if c.Busybox {
			l.fail(status, fmt.Sprintf("can't open '%s': %s", name, libc.Strerror(err)))
		} else {
			l.fail(status, fmt.Sprintf("cannot open directory %s: %s", libc.Quote(name), libc.Strerror(err)))
		}
		return
	}
	if header {
		if !l.first {
			c.Put("\n")
		}
		c.Put("%s:\n", l.quote(name))
	}
	l.first = false
	var es []*entry
	if l.all {
		for _, n := range []string{".", ".."} {
			if e, err := l.look(n, path.Join(dir, n), false); err == nil {
				es = append(es, e)
			}
		}
	}
	for _, de := range des {
		n := de.Name()
		if strings.HasPrefix(n, ".") && !l.all && !l.almost || l.noBackups && strings.HasSuffix(n, "~") || l.ignored(n) {
			continue
		}
		e, err := l.look(n, path.Join(dir, n), false)
		if err != nil {
			l.fail(1, l.cannotAccess(strings.TrimSuffix(name, "/")+"/"+n, err))
			continue
		}
		es = append(es, e)
	}
	l.order(es)
	if l.long || l.blocks {
		var total int64
		for _, e := range es {
			total += libc.Blocks(e.info)
		}
		s := strconv.FormatInt(total, 10)
		if l.human {
			s = l.humanSize(total << 10)
		}
		c.Put("total %s\n", s)
	}
	l.print(es)
	if l.recursive {
		for _, e := range es {
			if e.info.IsDir() && e.name != "." && e.name != ".." && c.Alive() {
				sub := strings.TrimSuffix(name, "/") + "/" + e.name
				l.list(sub, true, false)
			}
		}
	}
}

func (l *lister) ignored(n string) bool {
	return slices.ContainsFunc(l.ignore, func(p string) bool { ok, _ := path.Match(p, n); return ok })
}

func (l *lister) humanSize(n int64) string {
	if l.si {
		return libc.HumanSize(n, 1000)
	}
	return libc.HumanSize(n, 1024)
}

func (l *lister) time(e *entry) time.Time {
	switch l.show {
	case "atime":
		return libc.Stat(e.info).Atime
	case "ctime":
		return libc.Stat(e.info).Ctime
	}
	return e.info.ModTime()
}

func (l *lister) order(es []*entry) {
	if l.sort == "none" {
		return
	}
	slices.SortStableFunc(es, func(a, b *entry) int {
		if l.dirsFirst {
			da, db := isDir(a), isDir(b)
			if da != db {
				if da {
					return -1
				}
				return 1
			}
		}
		n := 0
		switch l.sort {
		case "time":
			n = l.time(b).Compare(l.time(a))
		case "size":
			n = cmp.Compare(b.info.Size(), a.info.Size())
		case "extension":
			n = strings.Compare(path.Ext(a.name), path.Ext(b.name))
		case "version":
			n = libc.CompareVersions(a.name, b.name)
		}
		if n == 0 {
			n = strings.Compare(a.name, b.name)
		}
		if l.reverse {
			return -n
		}
		return n
	})
}

func isDir(e *entry) bool { return e.info.IsDir() || e.dest != nil && e.dest.IsDir() }

func (l *lister) quote(s string) string {
	if l.always {
		return strconv.Quote(s)
	}
	if l.quoted {
		return libc.QuoteN(s)
	}
	return s
}

// print prints entries in the chosen format.
func (l *lister) print(es []*entry) {
	pad := false // on a terminal, names line up past the quotes of others
	if l.quoted && (l.long || l.columns) {
		for _, e := range es {
			pad = pad || libc.QuoteN(e.name) != e.name
		}
	}
	shown := func(e *entry) string {
		s := l.quote(e.name)
		if pad && s == e.name {
			s = " " + s
		}
		return s
	}
	switch {
	case l.long:
		l.printLong(es, shown)
	case l.byCommas:
		l.printCommas(es)
	case l.columns:
		l.printColumns(es, shown)
	default:
		inode, blocks := l.prefixWidths(es)
		for _, e := range es {
			l.c.Put("%s%s\n", l.prefix(e, inode, blocks), l.decorate(e, l.quote(e.name), e.info, e.broken)+l.indicator(e.info))
		}
	}
}

func (l *lister) prefixWidths(es []*entry) (inode, blocks int) {
	for _, e := range es {
		inode = max(inode, len(strconv.FormatUint(libc.Stat(e.info).Inode, 10)))
		blocks = max(blocks, len(l.blockText(e)))
	}
	return inode, blocks
}

func (l *lister) blockText(e *entry) string {
	n := libc.Blocks(e.info)
	if l.human {
		return l.humanSize(n << 10)
	}
	return strconv.FormatInt(n, 10)
}

func (l *lister) prefix(e *entry, inode, blocks int) string {
	s := ""
	if l.inode {
		s += fmt.Sprintf("%*d ", inode, libc.Stat(e.info).Inode)
	}
	if l.blocks {
		s += fmt.Sprintf("%*s ", blocks, l.blockText(e))
	}
	return s
}

func (l *lister) indicator(i fs.FileInfo) string {
	m := i.Mode()
	switch {
	case m.IsDir() && (l.slash || l.classify):
		return "/"
	case !l.classify:
	case m&fs.ModeSymlink != 0 && !l.long:
		return "@"
	case m&fs.ModeNamedPipe != 0:
		return "|"
	case m&fs.ModeSocket != 0:
		return "="
	case m.IsRegular() && m&0o111 != 0:
		return "*"
	}
	return ""
}

// decorate colours a name as dircolors' defaults say.
func (l *lister) decorate(e *entry, s string, i fs.FileInfo, broken bool) string {
	if !l.color || i == nil {
		return s
	}
	code, m := "", i.Mode()
	switch {
	case m&fs.ModeSymlink != 0 && broken && l.c.Getenv("LS_COLORS") != "":
		code = "40;31;01"
	case m&fs.ModeSymlink != 0:
		code = "01;36"
	case m.IsDir() && m&fs.ModeSticky != 0 && m&0o002 != 0:
		code = "30;42"
	case m.IsDir() && m&0o002 != 0:
		code = "34;42"
	case m.IsDir() && m&fs.ModeSticky != 0:
		code = "37;44"
	case m.IsDir():
		code = "01;34"
	case m&fs.ModeNamedPipe != 0:
		code = "40;33"
	case m&fs.ModeSocket != 0:
		code = "01;35"
	case m&fs.ModeDevice != 0:
		code = "40;33;01"
	case m&fs.ModeSetuid != 0:
		code = "37;41"
	case m&fs.ModeSetgid != 0:
		code = "30;43"
	case m&0o111 != 0:
		code = "01;32"
	}
	if code == "" {
		return s
	}
	if e != nil && strings.HasPrefix(s, " ") {
		return " \x1b[0m\x1b[" + code + "m" + s[1:] + "\x1b[0m"
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (l *lister) when(t time.Time) string {
	switch style := strings.TrimPrefix(l.timeStyle, "posix-"); {
	case style == "full-iso":
		return t.Format("2006-01-02 15:04:05.000000000 -0700")
	case style == "long-iso":
		return t.Format("2006-01-02 15:04")
	case style == "iso":
		if age := l.now.Sub(t); age < 31556952/2*time.Second && age >= 0 {
			return t.Format("01-02 15:04")
		}
		return t.Format("2006-01-02 ")
	case strings.HasPrefix(style, "+"):
		layout, _, _ := strings.Cut(style[1:], "\n")
		return bash.Strftime(layout, t)
	}
	return libc.ListTime(t, l.now)
}

func (l *lister) printLong(es []*entry, shown func(*entry) string) {
	type row struct{ links, owner, group, size string }
	rows := make([]row, len(es))
	var w struct{ links, owner, group, size, major, minor int }
	for i, e := range es {
		st := libc.Stat(e.info)
		r := row{links: strconv.Itoa(st.Nlink), owner: l.names.User(st.UID), group: l.names.Group(st.GID), size: strconv.FormatInt(e.info.Size(), 10)}
		if l.numeric {
			r.owner, r.group = strconv.Itoa(st.UID), strconv.Itoa(st.GID)
		}
		if l.human {
			r.size = l.humanSize(e.info.Size())
		}
		if major, minor, ok := strings.Cut(st.Rdev, ":"); ok {
			w.major, w.minor = max(w.major, len(major)), max(w.minor, len(minor))
			r.size = ""
		}
		w.links, w.owner, w.group, w.size = max(w.links, len(r.links)), max(w.owner, len(r.owner)), max(w.group, len(r.group)), max(w.size, len(r.size))
		rows[i] = r
	}
	if w.major > 0 {
		w.size = max(w.size, w.major+2+w.minor)
	}
	if l.c.Busybox {
		w.links, w.owner, w.group, w.size = 4, 8, 8, 9
		if l.human {
			w.size = 6
		}
	}
	inode, blocks := l.prefixWidths(es)
	for i, e := range es {
		r := rows[i]
		if major, minor, ok := strings.Cut(libc.Stat(e.info).Rdev, ":"); ok {
			if l.c.Busybox {
				r.size = fmt.Sprintf("%4s,%4s", major, minor)
			} else {
				r.size = fmt.Sprintf("%*s, %*s", w.size-2-w.minor, major, w.minor, minor)
			}
		}
		l.c.Put("%s%s %*s ", l.prefix(e, inode, blocks), libc.ModeString(e.info.Mode()), w.links, r.links)
		if !l.noOwner {
			l.c.Put("%-*s ", w.owner, r.owner)
		}
		if !l.noGroup {
			l.c.Put("%-*s ", w.group, r.group)
		}
		l.c.Put("%*s %s %s", w.size, r.size, l.when(l.time(e)), l.decorate(e, shown(e), e.info, e.broken))
		if e.info.Mode()&fs.ModeSymlink != 0 {
			target := l.quote(e.target)
			suffix := ""
			if e.dest != nil {
				target, suffix = l.decorate(nil, target, e.dest, false), l.indicator(e.dest)
			}
			l.c.Put(" -> %s%s\n", target, suffix)
			continue
		}
		l.c.Put("%s\n", l.indicator(e.info))
	}
}

func (l *lister) printCommas(es []*entry) {
	column := 0
	for i, e := range es {
		s := l.quote(e.name) + l.indicator(e.info)
		n := len([]rune(s))
		if i > 0 {
			if column+n+3 > l.width {
				l.c.Put(",\n")
				column = 0
			} else {
				l.c.Put(", ")
				column += 2
			}
		}
		l.c.Put("%s", l.decorate(e, l.quote(e.name), e.info, e.broken)+l.indicator(e.info))
		column += n
	}
	if len(es) > 0 {
		l.c.Put("\n")
	}
}

// printColumns fills as many columns as fit, as GNU ls does.
func (l *lister) printColumns(es []*entry, shown func(*entry) string) {
	if len(es) == 0 {
		return
	}
	inode, blocks := l.prefixWidths(es)
	widths := make([]int, len(es))
	for i, e := range es {
		widths[i] = len([]rune(l.prefix(e, inode, blocks) + shown(e) + l.indicator(e.info)))
	}
	rows, columns := 0, []int(nil)
	for n := min(len(es), max(1, l.width/3)); n >= 1; n-- {
		rows = (len(es) + n - 1) / n
		columns = make([]int, n)
		for i, w := range widths {
			k := i / rows
			if l.byRows {
				k = i % n
			}
			columns[k] = max(columns[k], w+2)
		}
		total := 0
		for _, w := range columns {
			total += w
		}
		if !l.byRows && (len(es)+rows-1)/rows < n {
			continue
		}
		if total-2 < l.width || n == 1 {
			break
		}
	}
	n := len(columns)
	for r := range rows {
		at := 0
		for k := range n {
			i := k*rows + r
			last := i+rows >= len(es)
			if l.byRows {
				i = r*n + k
				last = k == n-1 || i+1 >= len(es)
			}
			if i >= len(es) {
				break
			}
			e := es[i]
			l.c.Put("%s%s%s", l.prefix(e, inode, blocks), l.decorate(e, shown(e), e.info, e.broken), l.indicator(e.info))
			if last {
				break
			}
			l.c.Put("%s", indent(at+widths[i], at+columns[k]))
			at += columns[k]
		}
		l.c.Put("\n")
	}
}

// indent moves from one screen column to another, with tabs where they reach.
func indent(from, to int) string {
	var b strings.Builder
	for from < to {
		if to/8 > (from+1)/8 {
			b.WriteByte('\t')
			from += 8 - from%8
		} else {
			b.WriteByte(' ')
			from++
		}
	}
	return b.String()
}

// sameFile says whether two files are one.
func sameFile(a, b fs.FileInfo) bool {
	x, y := kernel.StatOf(a), kernel.StatOf(b)
	return x.Inode == y.Inode && x.Device == y.Device && x.Inode != 0
}
