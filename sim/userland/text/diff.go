package text

import (
	"bytes"
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// edit is a run of lines that differ: a[a1:a2] became b[b1:b2].
type edit struct{ a1, a2, b1, b2 int }

// maxDiffCost bounds the search for a shortest script; beyond it the rest counts as changed.
const maxDiffCost = 4000

// diffLines finds what differs, by Myers's algorithm.
func diffLines(a, b []string) []edit {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA--
		endB--
	}
	x, y := a[start:endA], b[start:endB]
	n, m := len(x), len(y)
	if n == 0 && m == 0 {
		return nil
	}
	whole := []edit{{start, endA, start, endB}}
	if n == 0 || m == 0 {
		return whole
	}
	limit := min(n+m, maxDiffCost)
	v := map[int]int{1: 0}
	var history []map[int]int
	found := -1
	for d := 0; d <= limit && found < 0; d++ {
		snapshot := make(map[int]int, 2*d+3)
		for k := -d - 1; k <= d+1; k++ {
			if val, ok := v[k]; ok {
				snapshot[k] = val
			}
		}
		history = append(history, snapshot)
		for k := -d; k <= d; k += 2 {
			var i int
			if k == -d || k != d && v[k-1] < v[k+1] {
				i = v[k+1]
			} else {
				i = v[k-1] + 1
			}
			j := i - k
			for i < n && j < m && x[i] == y[j] {
				i++
				j++
			}
			v[k] = i
			if i >= n && j >= m {
				found = d
				break
			}
		}
	}
	if found < 0 {
		return whole
	}
	matchA := make([]bool, n)
	matchB := make([]bool, m)
	i, j := n, m
	for d := found; d >= 0; d-- {
		h := history[d]
		k := i - j
		var prev int
		if k == -d || k != d && h[k-1] < h[k+1] {
			prev = k + 1
		} else {
			prev = k - 1
		}
		pi := h[prev]
		pj := pi - prev
		for i > pi && j > pj && i > 0 && j > 0 {
			i--
			j--
			matchA[i], matchB[j] = true, true
		}
		i, j = pi, pj
	}
	var out []edit
	i, j = 0, 0
	for i < n || j < m {
		if i < n && j < m && matchA[i] && matchB[j] {
			i++
			j++
			continue
		}
		e := edit{start + i, 0, start + j, 0}
		for i < n && !matchA[i] {
			i++
		}
		for j < m && !matchB[j] {
			j++
		}
		e.a2, e.b2 = start+i, start+j
		out = append(out, e)
	}
	return out
}

type differ struct {
	c                                                       *libc.Prog
	unified, context, recursive, brief, side, newFile, same bool
	fold, space, blank, allSpace                            bool
	lines, width                                            int
	labels                                                  []string
	command                                                 string
}

func diff(c *libc.Prog) int {
	c.FailStatus = 2
	opts, files, err := libc.Getopt(c.Args, "abBcC:dEhiNqrsuU:wyW:tT0123456789", "unified::|u", "context::|c", "recursive|r", "brief|q", "side-by-side|y", "new-file|N", "ignore-case|i", "ignore-space-change|b",
		"ignore-all-space|w", "ignore-blank-lines|B", "report-identical-files|s", "width:|W", "label:", "color::", "text|a", "suppress-common-lines", "strip-trailing-cr", "help", "version|v")
	if err != nil {
		return c.Usage(err)
	}
	d := &differ{c: c, lines: 3, width: 130}
	cmd := []string{"diff"}
	for _, o := range opts {
		if len(o.Name) == 1 && !o.Long {
			cmd = append(cmd, "-"+o.Name+o.Value)
		} else if o.Long {
			cmd = append(cmd, "--"+o.Name)
		}
		switch o.Name {
		case "u":
			d.unified = true
			if n, err := strconv.Atoi(o.Value); err == nil {
				d.lines = n
			}
		case "U":
			n, err := strconv.Atoi(o.Value)
			if err != nil {
				return c.Fail("invalid context length '%s'", o.Value)
			}
			d.unified, d.lines = true, n
		case "c", "C":
			return c.Fail("ckadrill does not simulate context diffs; use -u")
		case "r":
			d.recursive = true
		case "q":
			d.brief = true
		case "y":
			d.side = true
		case "N":
			d.newFile = true
		case "s":
			d.same = true
		case "i":
			d.fold = true
		case "b":
			d.space = true
		case "w":
			d.allSpace = true
		case "B":
			d.blank = true
		case "W":
			if n, err := strconv.Atoi(o.Value); err == nil && n > 10 {
				d.width = min(n, 1000)
			}
		case "label":
			d.labels = append(d.labels, o.Value)
		}
	}
	d.command = strings.Join(cmd, " ")
	switch {
	case len(files) == 0:
		return d.usage("missing operand after " + libc.Quote(c.Called))
	case len(files) == 1:
		return d.usage("missing operand after " + libc.Quote(files[0]))
	case len(files) > 2:
		return d.usage("extra operand " + libc.Quote(files[2]))
	}
	a, b := files[0], files[1]
	da, db := d.isDir(a), d.isDir(b)
	switch {
	case da && db:
		return d.trees(a, b)
	case da && b != "-":
		a = path.Join(a, path.Base(b))
	case db && a != "-":
		b = path.Join(b, path.Base(a))
	}
	return d.files(a, b, false)
}

func (d *differ) isDir(name string) bool {
	if name == "-" {
		return false
	}
	i, err := d.c.Files.Stat(d.c.Path(name))
	return err == nil && i.IsDir()
}

func (d *differ) trees(a, b string) int {
	c := d.c
	status := 0
	names := map[string]int{}
	for i, dir := range []string{a, b} {
		entries, err := c.Files.ReadDir(c.Path(dir))
		if err != nil {
			c.FailFile(dir, err)
			return 2
		}
		for _, e := range entries {
			names[e.Name()] |= 1 << i
		}
	}
	var sorted []string
	for n := range names {
		sorted = append(sorted, n)
	}
	sort.Strings(sorted)
	for _, n := range sorted {
		x, y := path.Join(a, n), path.Join(b, n)
		switch {
		case names[n] == 1 && !d.newFile:
			c.Put("Only in %s: %s\n", a, n)
			status = max(status, 1)
			continue
		case names[n] == 2 && !d.newFile:
			c.Put("Only in %s: %s\n", b, n)
			status = max(status, 1)
			continue
		}
		dx, dy := d.isDir(x), d.isDir(y)
		switch {
		case dx && dy:
			if d.recursive {
				status = max(status, d.trees(x, y))
			} else {
				c.Put("Common subdirectories: %s and %s\n", x, y)
			}
		case dx != dy && names[n] == 3:
			kind := func(dir bool) string {
				if dir {
					return "directory"
				}
				return "regular file"
			}
			c.Put("File %s is a %s while file %s is a %s\n", x, kind(dx), y, kind(dy))
			status = max(status, 1)
		default:
			status = max(status, d.files(x, y, true))
		}
	}
	return status
}

func (d *differ) normal(s string) string {
	if d.allSpace {
		s = strings.Join(strings.Fields(s), "")
	} else if d.space {
		s = strings.TrimRight(strings.Join(strings.Fields(" "+s), " "), " ")
	}
	if d.fold {
		s = strings.ToLower(s)
	}
	return s
}

// linesOf splits content; missing says that the last line lacks its newline.
func linesOf(b []byte) (l []string, missing bool) {
	if len(b) == 0 {
		return nil, false
	}
	missing = b[len(b)-1] != '\n'
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), missing
}

func (d *differ) files(a, b string, header bool) int {
	c := d.c
	x, err1 := c.InputAll(a)
	y, err2 := c.InputAll(b)
	if err1 != nil && !(d.newFile && err2 == nil) {
		c.FailFile(a, err1)
	}
	if err2 != nil && !(d.newFile && err1 == nil) {
		c.FailFile(b, err2)
	}
	if c.Status == 2 {
		return 2
	}
	if bytes.Equal(x, y) {
		if d.same {
			c.Put("Files %s and %s are identical\n", a, b)
		}
		if d.side {
			l, _ := linesOf(x)
			for _, s := range l {
				d.sideLine(s, " ", s)
			}
		}
		return 0
	}
	if bytes.IndexByte(x, 0) >= 0 || bytes.IndexByte(y, 0) >= 0 {
		if d.brief {
			c.Put("Files %s and %s differ\n", a, b)
		} else {
			c.Put("Binary files %s and %s differ\n", a, b)
		}
		return 1 + boolInt(!d.brief)*0
	}
	la, missA := linesOf(x)
	lb, missB := linesOf(y)
	na, nb := make([]string, len(la)), make([]string, len(lb))
	for i, s := range la {
		na[i] = d.normal(s)
	}
	for i, s := range lb {
		nb[i] = d.normal(s)
	}
	// a missing newline at the end is a difference
	if missA != missB && len(na) > 0 && len(nb) > 0 && !d.space && !d.allSpace {
		if missA {
			na[len(na)-1] += "\x00"
		} else {
			nb[len(nb)-1] += "\x00"
		}
	}
	edits := diffLines(na, nb)
	if d.blank {
		var kept []edit
		for _, e := range edits {
			text := strings.Join(append(append([]string(nil), la[e.a1:e.a2]...), lb[e.b1:e.b2]...), "")
			if strings.TrimSpace(text) != "" {
				kept = append(kept, e)
			}
		}
		edits = kept
	}
	if len(edits) == 0 {
		return 0
	}
	if d.brief {
		c.Put("Files %s and %s differ\n", a, b)
		return 1
	}
	if header {
		c.Put("%s %s %s\n", d.command, a, b)
	}
	switch {
	case d.unified:
		d.unifiedOut(a, b, la, lb, missA, missB, edits)
	case d.side:
		i := 0
		for _, e := range append(edits, edit{len(la), len(la), len(lb), len(lb)}) {
			for ; i < e.a1; i++ {
				d.sideLine(la[i], " ", la[i])
			}
			n := max(e.a2-e.a1, e.b2-e.b1)
			for k := range n {
				switch {
				case e.a1+k >= e.a2:
					d.sideLine("", ">", lb[e.b1+k])
				case e.b1+k >= e.b2:
					d.sideLine(la[e.a1+k], "<", "")
				default:
					d.sideLine(la[e.a1+k], "|", lb[e.b1+k])
				}
			}
			i = e.a2
		}
	default:
		for _, e := range edits {
			d.normalOut(e, la, lb, missA, missB)
		}
	}
	return 1
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sideLine prints a line of both files beside each other, with sdiff's columns.
func (d *differ) sideLine(l, mark, r string) {
	const tab, gutter = 8, 3
	off := (d.width + tab + gutter) / (2 * tab) * tab
	half := max(0, min(off-gutter, d.width-off))
	second := off
	if half == 0 {
		second = d.width
	}
	var b strings.Builder
	at := 0
	text := func(s string) {
		s = strings.ReplaceAll(s, "\t", "        ")
		if len(s) > half {
			s = s[:half]
		}
		b.WriteString(s)
		at += len(s)
	}
	move := func(to int) {
		for next := at + tab - at%tab; next <= to; next += tab {
			b.WriteByte('\t')
			at = next
		}
		for ; at < to; at++ {
			b.WriteByte(' ')
		}
	}
	text(l)
	if mark != " " {
		move((half + second - 1) / 2)
		b.WriteString(mark)
		at++
	}
	if r != "" {
		move(second)
		text(r)
	}
	d.c.Put("%s\n", b.String())
}

const noNewline = "\\ No newline at end of file\n"

func (d *differ) normalOut(e edit, a, b []string, missA, missB bool) {
	c := d.c
	span := func(lo, hi int) string {
		if hi-lo <= 1 {
			return strconv.Itoa(max(hi, 0))
		}
		return fmt.Sprintf("%d,%d", lo+1, hi)
	}
	switch {
	case e.a1 == e.a2:
		c.Put("%da%s\n", e.a1, span(e.b1, e.b2))
	case e.b1 == e.b2:
		c.Put("%sd%d\n", span(e.a1, e.a2), e.b1)
	default:
		c.Put("%sc%s\n", span(e.a1, e.a2), span(e.b1, e.b2))
	}
	for i := e.a1; i < e.a2; i++ {
		c.Put("< %s\n", a[i])
		if missA && i == len(a)-1 {
			c.Put(noNewline)
		}
	}
	if e.a1 < e.a2 && e.b1 < e.b2 {
		c.Put("---\n")
	}
	for i := e.b1; i < e.b2; i++ {
		c.Put("> %s\n", b[i])
		if missB && i == len(b)-1 {
			c.Put(noNewline)
		}
	}
}

func (d *differ) unifiedOut(nameA, nameB string, a, b []string, missA, missB bool, edits []edit) {
	c := d.c
	head := func(mark, name string, i int) {
		if i < len(d.labels) {
			c.Put("%s %s\n", mark, d.labels[i])
			return
		}
		stamp := "1970-01-01 00:00:00.000000000 +0000"
		if info, err := c.Files.Stat(c.Path(name)); err == nil && name != "-" {
			stamp = bash.Strftime("%Y-%m-%d %H:%M:%S.%N %z", info.ModTime())
		}
		c.Put("%s %s\t%s\n", mark, name, stamp)
	}
	head("---", nameA, 0)
	head("+++", nameB, 1)
	for i := 0; i < len(edits); {
		j := i
		for j+1 < len(edits) && edits[j+1].a1-edits[j].a2 <= 2*d.lines {
			j++
		}
		lo := max(0, edits[i].a1-d.lines)
		hi := min(len(a), edits[j].a2+d.lines)
		blo := max(0, edits[i].b1-(edits[i].a1-lo))
		bhi := edits[j].b2 + (hi - edits[j].a2)
		span := func(lo, hi int) string {
			switch n := hi - lo; n {
			case 1:
				return strconv.Itoa(lo + 1)
			case 0:
				return fmt.Sprintf("%d,0", lo)
			default:
				return fmt.Sprintf("%d,%d", lo+1, n)
			}
		}
		c.Put("@@ -%s +%s @@\n", span(lo, hi), span(blo, bhi))
		at := lo
		same := func(to int) {
			for ; at < to; at++ {
				c.Put(" %s\n", a[at])
				if missA && at == len(a)-1 {
					c.Put(noNewline)
				}
			}
		}
		for _, e := range edits[i : j+1] {
			same(e.a1)
			for k := e.a1; k < e.a2; k++ {
				c.Put("-%s\n", a[k])
				if missA && k == len(a)-1 {
					c.Put(noNewline)
				}
			}
			for k := e.b1; k < e.b2; k++ {
				c.Put("+%s\n", b[k])
				if missB && k == len(b)-1 {
					c.Put(noNewline)
				}
			}
			at = e.a2
		}
		same(hi)
		i = j + 1
	}
}

func cmp(c *libc.Prog) int {
	c.FailStatus = 2
	opts, files, err := libc.Getopt(c.Args, "bi:ln:s", "silent|s", "quiet|s", "verbose|l", "help", "version|v")
	if err != nil {
		return c.Usage(err)
	}
	silent := false
	for _, o := range opts {
		silent = silent || o.Name == "s"
	}
	if len(files) < 2 {
		files = append(files, "-")
	}
	if len(files) < 2 {
		return (&differ{c: c}).usage("missing operand after " + libc.Quote(c.Called))
	}
	a, err := c.InputAll(files[0])
	if err != nil {
		return c.FailFile(files[0], err)
	}
	b, err := c.InputAll(files[1])
	if err != nil {
		return c.FailFile(files[1], err)
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			if !silent {
				c.Put("%s %s differ: byte %d, line %d\n", files[0], files[1], i+1, bytes.Count(a[:i], []byte("\n"))+1)
			}
			return 1
		}
	}
	if len(a) != len(b) {
		short := files[0]
		if len(b) < len(a) {
			short = files[1]
		}
		if !silent {
			c.Warn("EOF on %s after byte %d, line %d", short, n, bytes.Count(a[:n], []byte("\n")))
		}
		return 1
	}
	return 0
}

// usage is an error of the command line as diffutils words it.
func (d *differ) usage(text string) int {
	d.c.Warn("%s", text)
	d.c.Warn("Try '%s --help' for more information.", d.c.Called)
	return 2
}
