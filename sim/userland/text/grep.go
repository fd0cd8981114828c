package text

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

func inodeOf(i fs.FileInfo) uint64 { return kernel.StatOf(i).Inode }

type grepper struct {
	c                                                              *libc.Prog
	patterns                                                       []*regex.Regexp
	invert, number, count, list, listNot, only, quiet              bool
	silent, recursive, skipDirs, whole, word, names, noNames, null bool
	byteOffset, textMode, skipBinary                               bool
	before, after                                                  int
	maxCount                                                       int
	include, exclude, excludeDir                                   []string
	matched                                                        bool
	color                                                          bool
}

func grep(c *libc.Prog) int {
	c.FailStatus = 2
	opts, operands, err := libc.Getopt(contextNumber(c.Args), "A:B:C:D:EFGHIPLRTUZabcd:e:f:hilm:noqrsvwxyz", "directories:|d", "devices:|D", "after-context:|A", "before-context:|B", "context:|C", "extended-regexp|E", "fixed-strings|F",
		"basic-regexp|G", "perl-regexp|P", "with-filename|H", "no-filename|h", "files-without-match|L", "files-with-matches|l", "dereference-recursive|R", "recursive|r", "text|a",
		"byte-offset|b", "count|c", "regexp:|e", "file:|f", "ignore-case|i", "no-ignore-case", "max-count:|m", "line-number|n", "only-matching|o", "quiet|q", "silent|q", "no-messages|s",
		"invert-match|v", "word-regexp|w", "line-regexp|x", "null|Z", "null-data|z", "include:", "exclude:", "exclude-dir:", "color::", "colour::|color", "binary-files:", "line-buffered", "initial-tab|T", "directories:|d", "label:", "help", "version|V")
	if err != nil {
		c.Warn("%s", err)
		c.Errorf("Usage: %s [OPTION]... PATTERNS [FILE]...\nTry '%s --help' for more information.\n", c.Name, c.Name)
		return 2
	}
	g := &grepper{c: c, maxCount: -1}
	f := regex.Flags{Extended: c.Name == "egrep", Literal: c.Name == "fgrep"}
	var exprs []string
	given := false
	number := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= 0
	}
	for _, o := range opts {
		switch o.Name {
		case "A", "B", "C":
			n, ok := number(o.Value)
			if !ok {
				return c.Fail("%s: invalid context length argument", o.Value)
			}
			if o.Name != "B" {
				g.after = n
			}
			if o.Name != "A" {
				g.before = n
			}
		case "E":
			f = regex.Flags{Extended: true, Fold: f.Fold}
		case "F":
			f = regex.Flags{Literal: true, Fold: f.Fold}
		case "G":
			f = regex.Flags{Fold: f.Fold}
		case "P":
			f = regex.Flags{Perl: true, Fold: f.Fold}
		case "H":
			g.names, g.noNames = true, false
		case "h":
			g.noNames, g.names = true, false
		case "L":
			g.listNot = true
		case "l":
			g.list = true
		case "R", "r":
			g.recursive = true
		case "a":
			g.textMode = true
		case "I":
			g.skipBinary = true
		case "b":
			g.byteOffset = true
		case "c":
			g.count = true
		case "e":
			exprs, given = append(exprs, strings.Split(o.Value, "\n")...), true
		case "f":
			b, err := c.InputAll(o.Value)
			if err != nil {
				return c.FailFile(o.Value, err)
			}
			given = true
			if s := strings.TrimSuffix(string(b), "\n"); len(b) > 0 {
				exprs = append(exprs, strings.Split(s, "\n")...)
			}
		case "i", "y":
			f.Fold = true
		case "m":
			n, ok := number(o.Value)
			if !ok {
				return c.Fail("invalid max count")
			}
			g.maxCount = n
		case "n":
			g.number = true
		case "o":
			g.only = true
		case "q":
			g.quiet = true
		case "s":
			g.silent = true
		case "v":
			g.invert = true
		case "w":
			g.word = true
		case "d":
			g.skipDirs, g.recursive = o.Value == "skip", o.Value == "recurse"
		case "x":
			g.whole = true
		case "Z":
			g.null = true
		case "include":
			g.include = append(g.include, o.Value)
		case "exclude":
			g.exclude = append(g.exclude, o.Value)
		case "exclude-dir":
			g.excludeDir = append(g.excludeDir, o.Value)
		case "color":
			g.color = o.Value == "always" || o.Value != "never" && c.IsTerminal(c.Stdout)
		case "V":
			c.Put("grep (GNU grep) 3.11\n")
			return 0
		}
	}
	if !given {
		if len(operands) == 0 {
			c.Errorf("Usage: %s [OPTION]... PATTERNS [FILE]...\nTry '%s --help' for more information.\n", c.Name, c.Name)
			return 2
		}
		exprs, operands = strings.Split(operands[0], "\n"), operands[1:]
	}
	for _, e := range exprs {
		re, err := g.compile(e, f)
		if err != nil {
			return c.Fail("%s", err)
		}
		g.patterns = append(g.patterns, re)
	}
	if len(operands) == 0 {
		if g.recursive {
			operands = []string{""}
		} else {
			operands = []string{"-"}
		}
	}
	if (len(operands) > 1 || g.recursive) && !g.noNames {
		g.names = true
	}
	for _, name := range operands {
		g.operand(name)
		if g.quiet && g.matched || !c.Alive() {
			break
		}
	}
	switch {
	case g.quiet && g.matched:
		return 0
	case c.Status == 2:
		return 2
	case g.matched:
		return 0
	}
	return 1
}

// contextNumber turns -5 into -C 5.
func contextNumber(args []string) []string {
	for i, a := range args {
		if a == "--" {
			break
		}
		if len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "0123456789") == "" && (i == 0 || !takesValue(args[i-1])) {
			return append(append(append([]string(nil), args[:i]...), "-C", a[1:]), args[i+1:]...)
		}
	}
	return args
}

func takesValue(a string) bool {
	return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.IndexByte("ABCefmd", a[len(a)-1]) >= 0
}

func (g *grepper) compile(e string, f regex.Flags) (*regex.Regexp, error) {
	re, err := regex.Compile(e, f)
	if err != nil || !g.whole && !g.word {
		return re, err
	}
	text := re.String()
	flags := ""
	if strings.HasPrefix(text, "(?") {
		if i := strings.IndexByte(text, ')'); i > 0 && strings.Trim(text[2:i], "simU") == "" {
			flags, text = text[:i+1], text[i+1:]
		}
	}
	if g.whole {
		return regex.Compile(flags+"^(?:"+text+")$", regex.Flags{Perl: true})
	}
	r, err := regex.Compile(flags+`(?:^|\W)(`+regex.Renumber(text, 1)+`)(?:\W|$)`, regex.Flags{Perl: true})
	if err == nil {
		r.Longest()
		r.Group = 1
	}
	return r, err
}

func (g *grepper) operand(name string) {
	c := g.c
	if name == "-" {
		g.search("(standard input)", c.Stream())
		return
	}
	full := c.Path(name)
	info, err := c.Files.Stat(full)
	if err == nil && info.IsDir() {
		if !g.recursive {
			if g.skipDirs {
				return
			}
			if !g.silent {
				c.Warn("%s: Is a directory", name)
			}
			c.Status = 2
			return
		}
		g.tree(name)
		return
	}
	g.file(name)
}

func (g *grepper) tree(dir string) {
	c := g.c
	at := dir
	if at == "" {
		at = "." // no operand was given, and names are shown without it
	}
	entries, err := c.Files.ReadDir(c.Path(at))
	if err != nil {
		if !g.silent {
			c.Warn("%s: %s", at, libc.Strerror(err))
		}
		c.Status = 2
		return
	}
	for _, e := range entries {
		name := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		if dir == "" {
			name = e.Name()
		}
		switch {
		case e.IsDir():
			if !matchAny(g.excludeDir, e.Name()) {
				g.tree(name)
			}
		case e.Type()&fs.ModeSymlink != 0, e.Type()&fs.ModeDevice != 0, e.Type()&fs.ModeSocket != 0:
		default:
			if len(g.include) > 0 && !matchAny(g.include, e.Name()) || matchAny(g.exclude, e.Name()) {
				continue
			}
			g.file(name)
		}
		if g.quiet && g.matched || !c.Alive() {
			return
		}
	}
}

func matchAny(pats []string, name string) bool {
	for _, p := range pats {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

func (g *grepper) file(name string) {
	r, err := g.c.Input(name)
	if err != nil {
		if !g.silent {
			g.c.Warn("%s: %s", name, libc.Strerror(err))
		}
		g.c.Status = 2
		return
	}
	defer r.Close()
	g.search(name, r)
}

// find is the leftmost match in a line at or after from.
func (g *grepper) find(line []byte) (lo, hi int, ok bool) {
	lo = -1
	for _, re := range g.patterns {
		if m := re.Match(line); m != nil && (lo < 0 || m[0] < lo || m[0] == lo && m[1] > hi) {
			lo, hi = m[0], m[1]
		}
	}
	return lo, hi, lo >= 0
}

func (g *grepper) prefix(name string, line int, sep string, offset int64) {
	c := g.c
	if g.names {
		if g.color {
			c.Put("\x1b[35m\x1b[K%s\x1b[m\x1b[K\x1b[36m\x1b[K%s\x1b[m\x1b[K", name, sep)
		} else if g.null {
			c.Put("%s\x00", name)
		} else {
			c.Put("%s%s", name, sep)
		}
	}
	if g.number {
		if g.color {
			c.Put("\x1b[32m\x1b[K%d\x1b[m\x1b[K\x1b[36m\x1b[K%s\x1b[m\x1b[K", line, sep)
		} else {
			c.Put("%d%s", line, sep)
		}
	}
	if g.byteOffset {
		c.Put("%d%s", offset, sep)
	}
}

func (g *grepper) search(name string, r io.Reader) {
	c := g.c
	br := bufio.NewReaderSize(r, 64<<10)
	binary := false
	if peek, _ := br.Peek(1); len(peek) > 0 {
		if peek, _ = br.Peek(min(br.Buffered(), 32<<10)); bytes.IndexByte(peek, 0) >= 0 && !g.textMode {
			if g.skipBinary {
				return
			}
			binary = true
		}
	}
	type held struct {
		n    int
		text []byte
		off  int64
	}
	var before []held
	n, found, afterLeft, lastPrinted := 0, 0, 0, 0
	var offset int64
	show := !g.quiet && !g.count && !g.list && !g.listNot
	for {
		s, err := libc.ReadLine(br, '\n')
		line := []byte(s)
		if errors.Is(err, libc.ErrTooLarge) {
			g.c.FailStatus = 2
			g.c.Fail("memory exhausted")
			return
		}
		if len(line) == 0 && err != nil {
			break
		}
		n++
		start := offset
		offset += int64(len(line))
		text := bytes.TrimSuffix(line, []byte("\n"))
		lo, hi, ok := g.find(text)
		if ok != g.invert {
			found++
			g.matched = true
			if g.quiet {
				return
			}
			if g.list {
				break
			}
			if g.listNot {
				break
			}
			if show && binary {
				c.Out.Flush()
				c.Put("grep: %s: binary file matches\n", name)
				c.Out.Flush()
				return
			}
			if show {
				if (g.before > 0 || g.after > 0) && !g.only && lastPrinted > 0 {
					first := n
					if len(before) > 0 {
						first = before[0].n
					}
					if first > lastPrinted+1 {
						c.Put("--\n")
					}
				}
				for _, b := range before {
					if !g.only {
						g.prefix(name, b.n, "-", b.off)
						c.Put("%s\n", b.text)
					}
				}
				before = before[:0]
				if g.only {
					if !g.invert {
						g.printOnly(name, n, text, lo, hi, start)
					}
				} else {
					g.prefix(name, n, ":", start)
					if g.color && !g.invert {
						g.highlight(text)
					} else {
						c.Out.Write(text)
					}
					c.Put("\n")
				}
				lastPrinted = n
				afterLeft = g.after
			}
			if g.maxCount >= 0 && found >= g.maxCount {
				if afterLeft == 0 {
					break
				}
			}
		} else if show && afterLeft > 0 {
			if !g.only {
				g.prefix(name, n, "-", start)
				c.Put("%s\n", text)
			}
			lastPrinted = n
			if afterLeft--; afterLeft == 0 && g.maxCount >= 0 && found >= g.maxCount {
				break
			}
		} else if g.before > 0 {
			before = append(before, held{n, append([]byte(nil), text...), start})
			if len(before) > g.before {
				before = before[1:]
			}
		}
		if br.Buffered() == 0 {
			c.Out.Flush()
		}
		if err != nil || !c.Alive() {
			break
		}
	}
	if g.maxCount == 0 {
		found = 0
	}
	switch {
	case g.quiet:
	case g.list:
		if found > 0 {
			c.Put("%s\n", name)
		}
	case g.listNot:
		if found == 0 {
			c.Put("%s\n", name)
			g.matched = true
		}
	case g.count:
		if g.names {
			c.Put("%s:", name)
		}
		c.Put("%d\n", found)
	}
}

func (g *grepper) printOnly(name string, n int, text []byte, lo, hi int, start int64) {
	base := 0
	for {
		if hi > lo {
			g.prefix(name, n, ":", start+int64(base+lo))
			if g.color {
				g.c.Put("\x1b[01;31m\x1b[K%s\x1b[m\x1b[K\n", text[lo:hi])
			} else {
				g.c.Put("%s\n", text[lo:hi])
			}
		} else {
			hi = lo + 1
		}
		if hi >= len(text) {
			return
		}
		text = text[hi:]
		base += hi
		var ok bool
		if lo, hi, ok = g.findAfter(text); !ok {
			return
		}
	}
}

// findAfter is find in what is left of a line: ^ no longer matches there.
func (g *grepper) findAfter(rest []byte) (lo, hi int, ok bool) {
	lo, hi, ok = g.find(rest)
	if ok && lo == 0 {
		anchored := true
		for _, re := range g.patterns {
			if !strings.Contains(re.String(), "^") {
				anchored = false
			}
		}
		if anchored {
			return 0, 0, false
		}
	}
	return lo, hi, ok
}

func (g *grepper) highlight(text []byte) {
	for len(text) > 0 {
		lo, hi, ok := g.find(text)
		if !ok || hi == lo {
			break
		}
		g.c.Put("%s\x1b[01;31m\x1b[K%s\x1b[m\x1b[K", text[:lo], text[lo:hi])
		text = text[hi:]
	}
	g.c.Out.Write(text)
}
