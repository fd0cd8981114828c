package text

import (
	"bufio"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"ckadrill/sim/userland/libc"
)

// quoted gives the word in a message the quotes of the process's locale.
func quoted(c *libc.Prog, message string) string {
	i, j := strings.IndexByte(message, '\''), strings.LastIndexByte(message, '\'')
	if i < 0 || i == j {
		return message
	}
	return message[:i] + c.Quote(message[i+1:j]) + message[j+1:]
}

// span is a range of positions from 1; hi is 0 for "to the end".
type span struct{ lo, hi int }

func spans(s, what string) ([]span, string) {
	var l []span
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		n := span{1, 0}
		var err error
		if lo != "" {
			if n.lo, err = strconv.Atoi(lo); err != nil {
				return nil, "invalid " + what + " value '" + part + "'"
			}
			if n.lo == 0 {
				if what == "field" {
					return nil, "fields are numbered from 1"
				}
				return nil, "byte/character positions are numbered from 1"
			}
		}
		if hi != "" {
			if n.hi, err = strconv.Atoi(hi); err != nil {
				return nil, "invalid " + what + " value '" + part + "'"
			}
			if n.hi < n.lo {
				return nil, "invalid decreasing range"
			}
		}
		if lo == "" && hi == "" {
			return nil, "invalid range with no endpoint: -"
		}
		l = append(l, n)
	}
	if len(l) == 0 {
		if what == "field" {
			return nil, "fields are numbered from 1"
		}
		return nil, "missing list of byte/character positions"
	}
	return l, ""
}

func within(l []span, n int) bool {
	for _, s := range l {
		if n >= s.lo && (s.hi == 0 || n <= s.hi) {
			return true
		}
	}
	return false
}

func cut(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "b:c:d:f:nsz", "bytes:|b", "characters:|c", "delimiter:|d", "fields:|f", "only-delimited|s", "output-delimiter:", "complement", "zero-terminated|z", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	mode, list, delim, outDelim, onlyDelimited, complement, delimGiven := byte(0), "", "\t", "", false, false, false
	outGiven := false
	for _, o := range opts {
		switch o.Name {
		case "b", "c", "f":
			if mode != 0 {
				return usageText(c, "only one list may be specified")
			}
			mode, list = o.Name[0], o.Value
		case "d":
			if utf8.RuneCountInString(o.Value) > 1 {
				return usageText(c, "the delimiter must be a single character")
			}
			delim, delimGiven = o.Value, true
			if delim == "" {
				delim = "\x00"
			}
		case "s":
			onlyDelimited = true
		case "output-delimiter":
			outDelim, outGiven = o.Value, true
		case "complement":
			complement = true
		}
	}
	if mode == 0 {
		return usageText(c, "you must specify a list of bytes, characters, or fields")
	}
	if mode != 'f' && delimGiven {
		return usageText(c, "an input delimiter may be specified only when operating on fields")
	}
	if mode != 'f' && onlyDelimited {
		return usageText(c, "suppressing non-delimited lines makes sense\n\tonly when operating on fields")
	}
	what := "byte/character position"
	if mode == 'f' {
		what = "field"
	}
	l, bad := spans(list, what)
	bad = quoted(c, bad)
	if bad != "" {
		return usageText(c, bad)
	}
	if !outGiven {
		outDelim = delim
	}
	pick := func(n int) bool { return within(l, n) != complement }
	eachFile(c, files, func(name string, r io.Reader) bool {
		lines(c, r, func(s string, _ bool) bool {
			switch mode {
			case 'f':
				if !strings.Contains(s, delim) {
					if !onlyDelimited {
						c.Put("%s\n", s)
					}
					return true
				}
				first := true
				for i, f := range strings.Split(s, delim) {
					if pick(i + 1) {
						if !first {
							c.Out.WriteString(outDelim)
						}
						c.Out.WriteString(f)
						first = false
					}
				}
			case 'b', 'c': // GNU cut -c counts bytes too
				lastPicked := -1
				for i := 0; i < len(s); i++ {
					if pick(i + 1) {
						if outGiven && lastPicked >= 0 && lastPicked != i-1 {
							c.Out.WriteString(outDelim)
						}
						c.Out.WriteByte(s[i])
						lastPicked = i
					}
				}
			}
			c.Out.WriteByte('\n')
			return true
		})
		return true
	})
	return c.Status
}

func paste(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "d:sz", "delimiters:|d", "serial|s", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	delims, serial := []rune{'\t'}, false
	for _, o := range opts {
		switch o.Name {
		case "d":
			delims = []rune(strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`, `\0`, "\x00").Replace(o.Value))
			if len(delims) == 0 {
				delims = []rune{0}
			}
		case "s":
			serial = true
		}
	}
	put := func(i int) {
		if d := delims[i%len(delims)]; d != 0 {
			c.Out.WriteRune(d)
		}
	}
	if serial {
		eachFile(c, files, func(_ string, r io.Reader) bool {
			i := 0
			lines(c, r, func(s string, _ bool) bool {
				if i > 0 {
					put(i - 1)
				}
				c.Out.WriteString(s)
				i++
				return true
			})
			c.Out.WriteByte('\n')
			return true
		})
		return c.Status
	}
	var in []*bufio.Reader
	std := bufio.NewReader(c.Stream())
	for _, name := range orStdin(files) {
		if name == "-" {
			in = append(in, std)
			continue
		}
		f, err := c.Input(name)
		if err != nil {
			return c.FailFile(name, err)
		}
		defer f.Close()
		in = append(in, bufio.NewReader(f))
	}
	for c.Alive() {
		var row []string
		any := false
		for _, r := range in {
			s, err := libc.ReadLine(r, '\n')
			any = any || s != "" || err == nil
			row = append(row, strings.TrimSuffix(s, "\n"))
		}
		if !any {
			break
		}
		for i, s := range row {
			if i > 0 {
				put(i - 1)
			}
			c.Out.WriteString(s)
		}
		c.Out.WriteByte('\n')
	}
	return c.Status
}

func tr(c *libc.Prog) int {
	opts, sets, err := libc.Getopt(c.Args, "+cCdst", "complement|c", "delete|d", "squeeze-repeats|s", "truncate-set1|t", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	var complement, del, squeeze, truncate bool
	for _, o := range opts {
		switch o.Name {
		case "c", "C":
			complement = true
		case "d":
			del = true
		case "s":
			squeeze = true
		case "t":
			truncate = true
		}
	}
	switch {
	case len(sets) == 0:
		c.Warn("missing operand")
		return c.TryHelp()
	case len(sets) == 1 && !del && !squeeze:
		c.Warn("missing operand after %s", c.Quote(sets[0]))
		c.Errorf("Two strings must be given when translating.\n")
		return c.TryHelp()
	case len(sets) == 1 && del && squeeze:
		c.Warn("missing operand after %s", c.Quote(sets[0]))
		c.Errorf("Two strings must be given when both deleting and squeezing repeats.\n")
		return c.TryHelp()
	case len(sets) == 2 && del && !squeeze:
		c.Warn("extra operand %s", c.Quote(sets[1]))
		c.Errorf("Only one string may be given when deleting without squeezing repeats.\n")
		return c.TryHelp()
	case len(sets) > 2:
		c.Warn("extra operand %s", c.Quote(sets[2]))
		return c.TryHelp()
	}
	set1, bad := trSet(sets[0], 0)
	if bad != "" {
		return c.Fail("%s", bad)
	}
	if complement {
		var inv []byte
		has := [256]bool{}
		for _, b := range set1 {
			has[b] = true
		}
		for i := range 256 {
			if !has[i] {
				inv = append(inv, byte(i))
			}
		}
		set1 = inv
	}
	var set2 []byte
	if len(sets) > 1 {
		if set2, bad = trSet(sets[1], len(set1)); bad != "" {
			return c.Fail("%s", bad)
		}
	}
	var to [256]int
	var drop, squeezed [256]bool
	for i := range to {
		to[i] = i
	}
	switch {
	case del:
		for _, b := range set1 {
			drop[b] = true
		}
		for _, b := range set2 {
			squeezed[b] = true
		}
	case len(sets) == 2:
		if len(set2) == 0 {
			return c.Fail("when not truncating set1, string2 must be non-empty")
		}
		for i, b := range set1 {
			if i >= len(set2) {
				if truncate {
					break
				}
				to[b] = int(set2[len(set2)-1])
				continue
			}
			to[b] = int(set2[i])
		}
		if squeeze {
			for _, b := range set2 {
				squeezed[b] = true
			}
		}
	default:
		for _, b := range set1 {
			squeezed[b] = true
		}
	}
	in := c.Stream()
	buf := make([]byte, 32<<10)
	last := -1
	for {
		n, err := in.Read(buf)
		for _, b := range buf[:n] {
			if drop[b] {
				continue
			}
			v := to[b]
			if squeezed[v] && v == last {
				continue
			}
			last = v
			c.Out.WriteByte(byte(v))
		}
		if c.Out.Flush() != nil || err != nil {
			return c.Status
		}
	}
}

// trSet expands ranges, classes and escapes; want is how long [x*] may make it.
func trSet(s string, want int) ([]byte, string) {
	var out []byte
	for i := 0; i < len(s); i++ {
		ch := s[i]
		if ch == '[' && i+1 < len(s) {
			if s[i+1] == ':' {
				if e := strings.Index(s[i+2:], ":]"); e >= 0 {
					name := s[i+2 : i+2+e]
					members := classBytes(name)
					if members == nil {
						return nil, "invalid character class '" + name + "'"
					}
					out = append(out, members...)
					i += e + 3
					continue
				}
			}
			if e := strings.IndexByte(s[i:], ']'); e > 2 && i+2 < len(s) && s[i+2] == '*' {
				n, err := strconv.Atoi(s[i+3 : i+e])
				if s[i+3:i+e] == "" {
					n, err = max(0, want-len(out)), nil
				}
				if err == nil {
					for range min(n, 1<<16) {
						out = append(out, s[i+1])
					}
					i += e
					continue
				}
			}
		}
		var n int
		ch, n = trEscape(s[i:])
		i += n - 1
		if i+2 < len(s) && s[i+1] == '-' {
			hi, k := trEscape(s[i+2:])
			if hi < ch {
				return nil, "range-endpoints of '" + string(ch) + "-" + string(hi) + "' are in reverse collating sequence order"
			}
			for b := int(ch); b <= int(hi); b++ {
				out = append(out, byte(b))
			}
			i += 1 + k
			continue
		}
		out = append(out, ch)
	}
	return out, ""
}

func trEscape(s string) (byte, int) {
	if s[0] != '\\' || len(s) == 1 {
		return s[0], 1
	}
	switch s[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'a':
		return '\a', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'v':
		return '\v', 2
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n, j := 0, 1
		for j < len(s) && j < 4 && s[j] >= '0' && s[j] <= '7' {
			n = n*8 + int(s[j]-'0')
			j++
		}
		return byte(n), j
	}
	return s[1], 2
}

func classBytes(name string) []byte {
	in := func(f func(b int) bool) []byte {
		var l []byte
		for b := range 128 {
			if f(b) {
				l = append(l, byte(b))
			}
		}
		return l
	}
	lower := func(b int) bool { return b >= 'a' && b <= 'z' }
	upper := func(b int) bool { return b >= 'A' && b <= 'Z' }
	digit := func(b int) bool { return b >= '0' && b <= '9' }
	switch name {
	case "lower":
		return in(lower)
	case "upper":
		return in(upper)
	case "digit":
		return in(digit)
	case "alpha":
		return in(func(b int) bool { return lower(b) || upper(b) })
	case "alnum":
		return in(func(b int) bool { return lower(b) || upper(b) || digit(b) })
	case "space":
		return in(func(b int) bool { return b == ' ' || b >= 9 && b <= 13 })
	case "blank":
		return in(func(b int) bool { return b == ' ' || b == '\t' })
	case "punct":
		return in(func(b int) bool { return b > 32 && b < 127 && !lower(b) && !upper(b) && !digit(b) })
	case "print":
		return in(func(b int) bool { return b >= 32 && b < 127 })
	case "graph":
		return in(func(b int) bool { return b > 32 && b < 127 })
	case "cntrl":
		return in(func(b int) bool { return b < 32 || b == 127 })
	case "xdigit":
		return in(func(b int) bool { return digit(b) || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' })
	}
	return nil
}

// sortKey is one -k: from field f1, char c1 to f2, c2.
type sortKey struct {
	f1, c1, f2, c2 int
	order          sortOrder
	own            bool
}

type sortOrder struct{ numeric, general, human, version, month, reverse, fold, dict, blanks bool }

func (o *sortOrder) set(c byte) bool {
	switch c {
	case 'n':
		o.numeric = true
	case 'g':
		o.general = true
	case 'h':
		o.human = true
	case 'V':
		o.version = true
	case 'M':
		o.month = true
	case 'r':
		o.reverse = true
	case 'f':
		o.fold = true
	case 'd':
		o.dict = true
	case 'b':
		o.blanks = true
	case 'i':
	default:
		return false
	}
	return true
}

func sortCommand(c *libc.Prog) int {
	c.FailStatus = 2
	opts, files, err := libc.Getopt(c.Args, "bcCdfghik:mMno:rRsS:t:T:uVz", "ignore-leading-blanks|b", "check::|c", "dictionary-order|d", "ignore-case|f", "general-numeric-sort|g", "human-numeric-sort|h",
		"key:|k", "merge|m", "month-sort|M", "numeric-sort|n", "output:|o", "reverse|r", "random-sort|R", "stable|s", "buffer-size:|S", "field-separator:|t", "unique|u", "version-sort|V", "parallel:", "zero-terminated|z", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	var global sortOrder
	var keys []sortKey
	unique, stable, check, quietCheck, random, output, sep := false, false, false, false, false, "", ""
	for _, o := range opts {
		switch o.Name {
		case "k":
			k, bad := parseSortKey(o.Value)
			bad = quoted(c, bad)
			if bad != "" {
				return c.Fail("%s", bad)
			}
			keys = append(keys, k)
		case "t":
			if sep = o.Value; sep == `\0` {
				sep = "\x00"
			}
			if sep == "" {
				return c.Fail("empty tab")
			}
			if utf8.RuneCountInString(sep) > 1 {
				return c.Fail("multi-character tab %s", c.Quote(sep))
			}
		case "u":
			unique = true
		case "s":
			stable = true
		case "c":
			check = true
		case "C":
			check, quietCheck = true, true
		case "o":
			output = o.Value
		case "R":
			random = true
		default:
			if len(o.Name) == 1 {
				global.set(o.Name[0])
			}
		}
	}
	var all []string
	failed := false
	for _, name := range orStdin(files) {
		f, err := c.Input(name)
		if err != nil {
			if strings.Contains(libc.Strerror(err), "Is a directory") {
				return c.Fail("read failed: %s: %s", name, libc.Strerror(err))
			}
			if c.Busybox {
				return c.FailFile(name, err)
			}
			return c.Fail("cannot read: %s: %s", name, libc.Strerror(err))
		}
		b, err := libc.ReadAll(f)
		f.Close()
		if err != nil {
			return c.Fail("read failed: %s: %s", name, libc.Strerror(err))
		}
		if s := strings.TrimSuffix(string(b), "\n"); len(b) > 0 {
			all = append(all, strings.Split(s, "\n")...)
		}
	}
	if failed {
		return c.Status
	}
	for i := range keys {
		if !keys[i].own {
			keys[i].order = global
		}
	}
	if len(keys) == 0 {
		keys = []sortKey{{f1: 1, order: global}}
	}
	compareKeys := func(a, b string) int {
		for _, k := range keys {
			x, y := k.extract(a, sep), k.extract(b, sep)
			if n := compareBy(k.order, x, y); n != 0 {
				if k.order.reverse {
					return -n
				}
				return n
			}
		}
		return 0
	}
	compare := func(a, b string) int {
		if n := compareKeys(a, b); n != 0 || unique || stable {
			return n
		}
		n := strings.Compare(a, b)
		if global.reverse {
			return -n
		}
		return n
	}
	if check {
		for i := 1; i < len(all); i++ {
			if n := compare(all[i-1], all[i]); n > 0 || n == 0 && unique {
				if !quietCheck {
					name := "-"
					if len(files) > 0 {
						name = files[0]
					}
					c.Warn("%s:%d: disorder: %s", name, i+1, all[i])
				}
				return 1
			}
		}
		return 0
	}
	if random {
		rnd := c.World().Rand("sort")
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	} else {
		sort.SliceStable(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
	}
	var b strings.Builder
	for i, s := range all {
		if unique && i > 0 && compareKeys(all[i-1], s) == 0 {
			continue
		}
		b.WriteString(s)
		b.WriteByte('\n')
	}
	if output != "" {
		if err := c.Files.WriteFile(c.Path(output), []byte(b.String()), 0o666); err != nil {
			return c.Fail("open failed: %s: %s", output, libc.Strerror(err))
		}
		return 0
	}
	c.Out.WriteString(b.String())
	return c.Status
}

func parseSortKey(s string) (sortKey, string) {
	k := sortKey{}
	from, to, hasTo := strings.Cut(s, ",")
	pos := func(t string) (f, ch int, ok bool) {
		i := 0
		num := func() int {
			n := 0
			for i < len(t) && t[i] >= '0' && t[i] <= '9' {
				n = min(n*10+int(t[i]-'0'), 1<<30)
				i++
			}
			return n
		}
		if f = num(); f == 0 {
			return 0, 0, false
		}
		if i < len(t) && t[i] == '.' {
			i++
			ch = num()
		}
		for ; i < len(t); i++ {
			if !k.order.set(t[i]) {
				return 0, 0, false
			}
			k.own = true
		}
		return f, ch, true
	}
	var ok bool
	if k.f1, k.c1, ok = pos(from); !ok {
		if strings.HasPrefix(from, "0") {
			return k, "-: invalid field specification '" + s + "'"
		}
		if from == "" || from[0] < '0' || from[0] > '9' {
			return k, "invalid number at field start: invalid count at start of '" + s + "'"
		}
		return k, "stray character in field spec: invalid field specification '" + s + "'"
	}
	if hasTo {
		if k.f2, k.c2, ok = pos(to); !ok {
			return k, "invalid number after ',': invalid count at start of '" + to + "'"
		}
	}
	return k, ""
}

// extract is the part of a line that a key looks at.
func (k sortKey) extract(line, sep string) string {
	if k.f1 == 1 && k.c1 <= 1 && k.f2 == 0 && !k.order.blanks {
		return line
	}
	starts, ends := fieldBounds(line, sep)
	if k.f1 > len(starts) {
		return ""
	}
	lo := starts[k.f1-1]
	if k.order.blanks {
		for lo < len(line) && (line[lo] == ' ' || line[lo] == '\t') {
			lo++
		}
	}
	if k.c1 > 1 {
		lo = min(lo+k.c1-1, len(line))
	}
	hi := len(line)
	if k.f2 > 0 && k.f2 <= len(ends) {
		hi = ends[k.f2-1]
		if k.c2 > 0 {
			s := starts[k.f2-1]
			if k.order.blanks {
				for s < len(line) && (line[s] == ' ' || line[s] == '\t') {
					s++
				}
			}
			hi = min(s+k.c2, len(line))
		}
	}
	if hi < lo {
		return ""
	}
	return line[lo:hi]
}

func fieldBounds(line, sep string) (starts, ends []int) {
	if sep != "" {
		at := 0
		for {
			i := strings.Index(line[at:], sep)
			starts = append(starts, at)
			if i < 0 {
				return starts, append(ends, len(line))
			}
			ends = append(ends, at+i)
			at += i + len(sep)
		}
	}
	i := 0
	for i < len(line) {
		starts = append(starts, i)
		for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
		for i < len(line) && line[i] != ' ' && line[i] != '\t' {
			i++
		}
		ends = append(ends, i)
	}
	return starts, ends
}

func compareBy(o sortOrder, a, b string) int {
	switch {
	case o.numeric:
		return compareFloat(leadingNumber(a), leadingNumber(b))
	case o.general:
		return compareFloat(generalNumber(a), generalNumber(b))
	case o.human:
		return compareFloat(humanNumber(a), humanNumber(b))
	case o.version:
		return libc.CompareVersions(a, b)
	case o.month:
		return month(a) - month(b)
	}
	if o.blanks {
		a, b = strings.TrimLeft(a, " \t"), strings.TrimLeft(b, " \t")
	}
	if o.dict {
		keep := func(r rune) rune {
			if r == ' ' || r == '\t' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return -1
		}
		a, b = strings.Map(keep, a), strings.Map(keep, b)
	}
	if o.fold {
		a, b = strings.ToUpper(a), strings.ToUpper(b)
	}
	return strings.Compare(a, b)
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func leadingNumber(s string) float64 {
	s = strings.TrimLeft(s, " \t")
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	f, _ := strconv.ParseFloat(s[:i], 64)
	return f
}

func generalNumber(s string) float64 {
	s = strings.TrimSpace(s)
	for n := len(s); n > 0; n-- {
		if f, err := strconv.ParseFloat(s[:n], 64); err == nil {
			return f
		}
	}
	return math.Inf(-1)
}

func humanNumber(s string) float64 {
	s = strings.TrimLeft(s, " \t")
	f := leadingNumber(s)
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' || s[i] == '-') {
		i++
	}
	if i < len(s) {
		if k := strings.IndexByte("KMGTPEZY", s[i]&^0x20); k >= 0 {
			return f * math.Pow(1024, float64(k+1))
		}
	}
	return f
}

func month(s string) int {
	s = strings.ToUpper(strings.TrimLeft(s, " \t"))
	for i, m := range []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"} {
		if strings.HasPrefix(s, m) {
			return i + 1
		}
	}
	return 0
}

func uniq(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "cdDf:is:uw:z", "count|c", "repeated|d", "all-repeated::|D", "skip-fields:|f", "ignore-case|i", "skip-chars:|s", "unique|u", "check-chars:|w", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	var showCount, repeated, all, single, fold bool
	skipFields, skipChars, width := 0, 0, -1
	for _, o := range opts {
		n, _ := strconv.Atoi(o.Value)
		switch o.Name {
		case "c":
			showCount = true
		case "d":
			repeated = true
		case "D":
			all = true
		case "u":
			single = true
		case "i":
			fold = true
		case "f":
			skipFields = n
		case "s":
			skipChars = n
		case "w":
			width = n
		}
	}
	if len(files) > 2 {
		c.Warn("extra operand %s", c.Quote(files[2]))
		return c.TryHelp()
	}
	key := func(s string) string {
		for range skipFields {
			s = strings.TrimLeft(s, " \t")
			if i := strings.IndexAny(s, " \t"); i >= 0 {
				s = s[i:]
			} else {
				s = ""
			}
		}
		s = s[min(skipChars, len(s)):]
		if width >= 0 && width < len(s) {
			s = s[:width]
		}
		if fold {
			s = strings.ToLower(s)
		}
		return s
	}
	var group []string
	n := 0
	var out strings.Builder
	write := func(s string) {
		if len(files) == 2 {
			out.WriteString(s)
		} else {
			c.Out.WriteString(s)
		}
	}
	flush := func() {
		switch {
		case n == 0:
		case all:
			if n > 1 {
				for _, s := range group {
					write(s + "\n")
				}
			}
		case repeated && n < 2, single && n > 1:
		case showCount:
			write(pad(strconv.Itoa(n), 7) + " " + group[0] + "\n")
		default:
			write(group[0] + "\n")
		}
		group, n = nil, 0
	}
	in := files
	if len(in) > 1 {
		in = in[:1]
	}
	eachFile(c, in, func(_ string, r io.Reader) bool {
		lines(c, r, func(s string, _ bool) bool {
			if n > 0 && key(group[0]) == key(s) {
				n++
				if all {
					group = append(group, s)
				}
				return true
			}
			flush()
			group, n = []string{s}, 1
			return true
		})
		return true
	})
	flush()
	if len(files) == 2 {
		if err := c.Files.WriteFile(c.Path(files[1]), []byte(out.String()), 0o666); err != nil {
			return c.FailFile(files[1], err)
		}
	}
	return c.Status
}

func pad(s string, n int) string {
	if len(s) >= n {
		return s
	}
	return strings.Repeat(" ", n-len(s)) + s
}

func comm(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "123z", "check-order", "nocheck-order", "output-delimiter:", "total", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	hide := [4]bool{}
	for _, o := range opts {
		if len(o.Name) == 1 && o.Name[0] >= '1' && o.Name[0] <= '3' {
			hide[o.Name[0]-'0'] = true
		}
	}
	if len(files) < 2 {
		if len(files) == 1 {
			c.Warn("missing operand after %s", c.Quote(files[0]))
		} else {
			c.Warn("missing operand")
		}
		return c.TryHelp()
	}
	var l [2][]string
	for i := range 2 {
		b, err := c.InputAll(files[i])
		if err != nil {
			return c.FailFile(files[i], err)
		}
		if len(b) > 0 {
			l[i] = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		}
	}
	put := func(col int, s string) {
		if hide[col] {
			return
		}
		for k := 1; k < col; k++ {
			if !hide[k] {
				c.Out.WriteByte('\t')
			}
		}
		c.Put("%s\n", s)
	}
	i, j := 0, 0
	for i < len(l[0]) || j < len(l[1]) {
		switch {
		case j >= len(l[1]) || i < len(l[0]) && l[0][i] < l[1][j]:
			put(1, l[0][i])
			i++
		case i >= len(l[0]) || l[0][i] > l[1][j]:
			put(2, l[1][j])
			j++
		default:
			put(3, l[0][i])
			i++
			j++
		}
	}
	return c.Status
}

func column(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "tns:o:c:xeN:R:L", "table|t", "separator:|s", "output-separator:|o", "output-width:|c", "table-columns:|N", "table-right:|R", "json|J", "fillrows|x", "help|h", "version|V")
	if err != nil {
		return c.Usage(err)
	}
	table, sep, outSep, width := false, "", "  ", 80
	var names []string
	for _, o := range opts {
		switch o.Name {
		case "t":
			table = true
		case "s":
			sep = o.Value
		case "o":
			outSep = o.Value
		case "c":
			if n, err := strconv.Atoi(o.Value); err == nil {
				width = n
			}
		case "N":
			names = strings.Split(o.Value, ",")
		}
	}
	var rows []string
	eachFile(c, files, func(_ string, r io.Reader) bool {
		lines(c, r, func(s string, _ bool) bool {
			if strings.TrimSpace(s) != "" {
				rows = append(rows, s)
			}
			return true
		})
		return true
	})
	if table {
		var cells [][]string
		if names != nil {
			cells = append(cells, names)
		}
		var widths []int
		for _, r := range rows {
			if sep == "" {
				cells = append(cells, strings.Fields(r))
			} else {
				cells = append(cells, strings.FieldsFunc(r, func(ch rune) bool { return strings.ContainsRune(sep, ch) }))
				if strings.Contains(r, sep+sep) {
					cells[len(cells)-1] = strings.Split(r, sep)
				}
			}
		}
		for _, row := range cells {
			for i, s := range row {
				if i >= len(widths) {
					widths = append(widths, 0)
				}
				widths[i] = max(widths[i], utf8.RuneCountInString(s))
			}
		}
		for _, row := range cells {
			for i, s := range row {
				c.Out.WriteString(s)
				if i < len(row)-1 {
					c.Out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s)) + outSep)
				}
			}
			c.Out.WriteByte('\n')
		}
		return c.Status
	}
	widest := 0
	for _, r := range rows {
		widest = max(widest, utf8.RuneCountInString(r))
	}
	cell := (widest/8 + 1) * 8
	cols := max(1, width/cell)
	per := (len(rows) + cols - 1) / cols
	for i := range per {
		for j := i; j < len(rows); j += per {
			c.Out.WriteString(rows[j])
			if j+per < len(rows) {
				c.Out.WriteString(strings.Repeat("\t", (cell-utf8.RuneCountInString(rows[j])+7)/8))
			}
		}
		c.Out.WriteByte('\n')
	}
	return c.Status
}
