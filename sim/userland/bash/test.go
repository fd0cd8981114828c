package bash

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// testClause is [[ ... ]].
func (sh *Shell) testClause(c *syntax.TestClause) {
	yes, err := sh.testExpr(c.X)
	if err != nil {
		var bad badRegexp
		if errors.As(err, &bad) {
			sh.status = 2
			return
		}
		sh.softError("[[", err)
		return
	}
	sh.status = boolInt(!yes)
}

type badRegexp struct{ error }

func (sh *Shell) testExpr(x syntax.TestExpr) (bool, error) {
	switch x := x.(type) {
	case *syntax.Word:
		s, err := sh.literal(x)
		if err == nil {
			sh.traceTest("-n", traceQuote(s))
		}
		return s != "", err
	case *syntax.ParenTest:
		return sh.testExpr(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			yes, err := sh.testExpr(x.X)
			return !yes, err
		}
		w, ok := x.X.(*syntax.Word)
		if !ok {
			return sh.testExpr(x.X)
		}
		s, err := sh.literal(w)
		if err != nil {
			return false, err
		}
		sh.traceTest(x.Op.String(), traceQuote(s))
		return sh.fileTest(x.Op.String(), s)
	case *syntax.BinaryTest:
		return sh.binaryTest(x)
	}
	return false, fmt.Errorf("conditional expression expected")
}

func (sh *Shell) binaryTest(x *syntax.BinaryTest) (bool, error) {
	if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
		yes, err := sh.testExpr(x.X)
		if err != nil || yes != (x.Op == syntax.AndTest) {
			return yes, err
		}
		return sh.testExpr(x.Y)
	}
	lw, ok1 := x.X.(*syntax.Word)
	rw, ok2 := x.Y.(*syntax.Word)
	if !ok1 || !ok2 {
		return false, fmt.Errorf("conditional binary operator expected")
	}
	l, err := sh.literal(lw)
	if err != nil {
		return false, err
	}
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
		pat, err := sh.patternOf(rw)
		if err != nil {
			return false, err
		}
		sh.traceTest(traceQuote(l), x.Op.String(), pat)
		return sh.match(pat, l) == (x.Op != syntax.TsNoMatch), nil
	case syntax.TsReMatch:
		return sh.regexTest(l, rw)
	}
	r, err := sh.literal(rw)
	if err != nil {
		return false, err
	}
	sh.traceTest(traceQuote(l), x.Op.String(), traceQuote(r))
	switch x.Op {
	case syntax.TsBefore:
		return l < r, nil
	case syntax.TsAfter:
		return l > r, nil
	case syntax.TsNewer, syntax.TsOlder, syntax.TsDevIno:
		return sh.fileCompare(x.Op.String(), l, r), nil
	}
	a, err := sh.arithString(l)
	if err != nil {
		return false, err
	}
	b, err := sh.arithString(r)
	if err != nil {
		return false, err
	}
	return compareNumbers(x.Op.String(), a, b), nil
}

// traceTest prints one comparison of [[ ]] under set -x.
func (sh *Shell) traceTest(words ...string) {
	if sh.opt['x'] {
		sh.trace("[[ " + strings.Join(words, " ") + " ]]")
	}
}

func compareNumbers(op string, a, b int64) bool {
	switch op {
	case "-eq":
		return a == b
	case "-ne":
		return a != b
	case "-lt":
		return a < b
	case "-le":
		return a <= b
	case "-gt":
		return a > b
	}
	return a >= b
}

// regexTest is =~; what is quoted in the right side stands for itself.
func (sh *Shell) regexTest(l string, w *syntax.Word) (bool, error) {
	frags, err := sh.plain(w.Parts, inWord)
	if err != nil {
		return false, err
	}
	var b strings.Builder
	for _, f := range frags {
		if f.quoted {
			b.WriteString(regexp.QuoteMeta(f.text))
		} else {
			b.WriteString(f.text)
		}
	}
	expr := posixToGo(b.String())
	if sh.shopt["nocasematch"] {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile("(?s)" + expr)
	if err != nil {
		return false, badRegexp{err}
	}
	re.Longest()
	m := re.FindStringSubmatch(l)
	v := &variable{Set: true, Kind: indexed}
	for i, s := range m {
		v.setAt(i, s)
	}
	sh.scopes[0].vars["BASH_REMATCH"] = v
	return m != nil, nil
}

// posixToGo rewrites what differs between POSIX extended regular expressions and Go's.
func posixToGo(s string) string {
	// a bracket expression may begin with ] and holds backslashes as they are
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			b.WriteString(s[i : i+2])
			i++
		case s[i] == '[':
			j := i + 1
			if j < len(s) && s[j] == '^' {
				j++
			}
			if j < len(s) && s[j] == ']' {
				j++
			}
			for j < len(s) && s[j] != ']' {
				if s[j] == '[' && j+1 < len(s) && (s[j+1] == ':' || s[j+1] == '.' || s[j+1] == '=') {
					if k := strings.Index(s[j+2:], string(s[j+1])+"]"); k >= 0 {
						j += k + 4
						continue
					}
				}
				j++
			}
			if j >= len(s) {
				b.WriteString(s[i:])
				return b.String()
			}
			inner := s[i+1 : j]
			b.WriteByte('[')
			if strings.HasPrefix(inner, "^") {
				b.WriteByte('^')
				inner = inner[1:]
			}
			for k := 0; k < len(inner); k++ {
				switch {
				case inner[k] == '[' && k+1 < len(inner) && inner[k+1] == ':':
					if e := strings.Index(inner[k:], ":]"); e >= 0 {
						b.WriteString(inner[k : k+e+2])
						k += e + 1
						continue
					}
					b.WriteString(`\[`)
				case inner[k] == '\\' || inner[k] == '[' || inner[k] == ']' || inner[k] == '&' || inner[k] == '~':
					b.WriteByte('\\')
					b.WriteByte(inner[k])
				default:
					b.WriteByte(inner[k])
				}
			}
			b.WriteByte(']')
			i = j
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// fileTest is a unary operator of test.
func (sh *Shell) fileTest(op, s string) (bool, error) {
	switch op {
	case "-n":
		return s != "", nil
	case "-z":
		return s == "", nil
	case "-v":
		if base, sub, ok := splitSubscript(s); ok {
			_, set := sh.element(base, sub)
			return set, nil
		}
		_, set := sh.param(s)
		if v := sh.get(s); v != nil && v.Kind != scalar && validName(s) {
			_, set = v.value()
		}
		return set, nil
	case "-R":
		v := sh.lookup(s)
		return v != nil && v.Nameref, nil
	case "-o":
		for c, n := range optionNames {
			if n == s {
				return sh.opt[c], nil
			}
		}
		return sh.longOpt[s], nil
	case "-t":
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return false, testError{s + ": integer expression expected"}
		}
		return sh.isTerminal(n), nil
	}
	return FileTest(sh.p, sh.statFiles(), op, sh.absOrEmpty(s))
}

func (sh *Shell) statFiles() kernel.Files { return sh.childFiles() }

func (sh *Shell) absOrEmpty(s string) string {
	if s == "" {
		return ""
	}
	return sh.abs(s)
}

func (sh *Shell) isTerminal(n int) bool {
	s := sh.fds[n]
	if s == nil || sh.p.TTY == nil {
		return false
	}
	return s.r != nil && any(s.r) == any(sh.p.TTY) || s.w != nil && any(s.w) == any(sh.p.TTY)
}

type testError struct{ text string }

func (e testError) Error() string { return e.text }

// FileTest is a unary file operator of test(1) on an absolute name.
func FileTest(p *kernel.Process, files kernel.Files, op, name string) (bool, error) {
	if files == nil || name == "" {
		return false, nil
	}
	if op == "-h" || op == "-L" {
		i, err := files.Lstat(name)
		return err == nil && i.Mode()&fs.ModeSymlink != 0, nil
	}
	i, err := files.Stat(name)
	if err != nil {
		return false, nil
	}
	m, st := i.Mode(), kernel.StatOf(i)
	switch op {
	case "-e", "-a":
		return true, nil
	case "-f":
		return m.IsRegular(), nil
	case "-d":
		return m.IsDir(), nil
	case "-s":
		return i.Size() > 0, nil
	case "-b":
		return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0, nil
	case "-c":
		return m&fs.ModeCharDevice != 0, nil
	case "-p":
		return m&fs.ModeNamedPipe != 0, nil
	case "-S":
		return m&fs.ModeSocket != 0, nil
	case "-k":
		return m&fs.ModeSticky != 0, nil
	case "-g":
		return m&fs.ModeSetgid != 0, nil
	case "-u":
		return m&fs.ModeSetuid != 0, nil
	case "-O":
		return st.UID == p.Cred.UID, nil
	case "-G":
		return st.GID == p.Cred.GID, nil
	case "-N":
		return i.ModTime().After(st.Atime), nil
	case "-r":
		return Access(p.Cred, i, 4), nil
	case "-w":
		return Access(p.Cred, i, 2), nil
	case "-x":
		return Access(p.Cred, i, 1), nil
	}
	return false, testError{op + ": unary operator expected"}
}

// Access is access(2): whether the mode of a file allows what want asks (4 read, 2 write, 1 execute).
func Access(c kernel.Credential, i fs.FileInfo, want fs.FileMode) bool {
	st, m := kernel.StatOf(i), i.Mode().Perm()
	if c.UID == 0 {
		return want != 1 || i.IsDir() || m&0o111 != 0
	}
	switch {
	case st.UID == c.UID:
		return m>>6&want == want
	case st.GID == c.GID:
		return m>>3&want == want
	}
	for _, g := range c.Groups {
		if g == st.GID {
			return m>>3&want == want
		}
	}
	return m&want == want
}

func (sh *Shell) fileCompare(op, a, b string) bool {
	return FileCompare(sh.files, op, sh.absOrEmpty(a), sh.absOrEmpty(b))
}

// FileCompare is -nt, -ot or -ef of test(1) on absolute names.
func FileCompare(files kernel.Files, op, a, b string) bool {
	if files == nil {
		return false
	}
	i, err1 := files.Stat(a)
	j, err2 := files.Stat(b)
	switch op {
	case "-nt":
		return err1 == nil && (err2 != nil || i.ModTime().After(j.ModTime()))
	case "-ot":
		return err2 == nil && (err1 != nil || i.ModTime().Before(j.ModTime()))
	}
	if err1 != nil || err2 != nil {
		return false
	}
	x, y := kernel.StatOf(i), kernel.StatOf(j)
	return x.Inode == y.Inode && x.Device == y.Device
}

// classic evaluates the arguments of test and [.
type classic struct {
	args  []string
	pos   int
	unary func(op, s string) (bool, error)
	cmp   func(op, a, b string) bool
}

// Test evaluates the arguments of test(1); unary and cmp look at files and the shell's state. An error has no program name.
func Test(args []string, unary func(op, s string) (bool, error), cmp func(op, a, b string) bool) (bool, error) {
	c := &classic{args: args, unary: unary, cmp: cmp}
	switch len(args) {
	case 0:
		return false, nil
	case 1:
		return args[0] != "", nil
	case 2:
		switch {
		case args[0] == "!":
			return args[1] == "", nil
		case isUnary(args[0]):
			return unary(args[0], args[1])
		}
		return false, testError{args[0] + ": unary operator expected"}
	case 3:
		if isBinary2(args[1]) {
			return c.binary(args[0], args[1], args[2])
		}
		switch {
		case args[1] == "-a":
			return args[0] != "" && args[2] != "", nil
		case args[1] == "-o":
			return args[0] != "" || args[2] != "", nil
		case args[0] == "!":
			yes, err := Test(args[1:], unary, cmp)
			return !yes, err
		case args[0] == "(" && args[2] == ")":
			return args[1] != "", nil
		}
		return false, testError{args[1] + ": binary operator expected"}
	case 4:
		if args[0] == "!" {
			yes, err := Test(args[1:], unary, cmp)
			return !yes, err
		}
		if args[0] == "(" && args[3] == ")" {
			return Test(args[1:3], unary, cmp)
		}
	}
	yes, err := c.or()
	if err == nil && c.pos < len(c.args) {
		return false, testError{"too many arguments"}
	}
	return yes, err
}

func isUnary(s string) bool {
	return len(s) == 2 && s[0] == '-' && strings.IndexByte("abcdefghknoprstuvwxzGLNORS", s[1]) >= 0
}

func isBinary2(s string) bool {
	switch s {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

func (c *classic) peek() (string, bool) {
	if c.pos >= len(c.args) {
		return "", false
	}
	return c.args[c.pos], true
}

func (c *classic) or() (bool, error) {
	yes, err := c.and()
	for err == nil {
		if s, ok := c.peek(); !ok || s != "-o" {
			break
		}
		c.pos++
		var right bool
		right, err = c.and()
		yes = yes || right
	}
	return yes, err
}

func (c *classic) and() (bool, error) {
	yes, err := c.not()
	for err == nil {
		if s, ok := c.peek(); !ok || s != "-a" {
			break
		}
		c.pos++
		var right bool
		right, err = c.not()
		yes = yes && right
	}
	return yes, err
}

func (c *classic) not() (bool, error) {
	if s, ok := c.peek(); ok && s == "!" {
		c.pos++
		yes, err := c.not()
		return !yes, err
	}
	return c.primary()
}

func (c *classic) primary() (bool, error) {
	s, ok := c.peek()
	if !ok {
		return false, testError{"argument expected"}
	}
	if c.pos+2 < len(c.args) && isBinary2(c.args[c.pos+1]) {
		c.pos += 3
		return c.binary(s, c.args[c.pos-2], c.args[c.pos-1])
	}
	if s == "(" {
		c.pos++
		yes, err := c.or()
		if err != nil {
			return false, err
		}
		if e, ok := c.peek(); !ok || e != ")" {
			return false, testError{"`)' expected"}
		}
		c.pos++
		return yes, nil
	}
	if isUnary(s) && c.pos+1 < len(c.args) {
		c.pos += 2
		return c.unary(s, c.args[c.pos-1])
	}
	c.pos++
	return s != "", nil
}

func (c *classic) binary(a, op, b string) (bool, error) {
	switch op {
	case "=", "==":
		return a == b, nil
	case "!=":
		return a != b, nil
	case "<":
		return a < b, nil
	case ">":
		return a > b, nil
	case "-nt", "-ot", "-ef":
		return c.cmp(op, a, b), nil
	}
	x, err := testNumber(a)
	if err != nil {
		return false, err
	}
	y, err := testNumber(b)
	if err != nil {
		return false, err
	}
	return compareNumbers(op, x, y), nil
}

func testNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(s), "+"), 10, 64)
	if err != nil {
		return 0, testError{s + ": integer expression expected"}
	}
	return n, nil
}

func builtinTest(sh *Shell, args []string) int { return sh.testCommand("test", args) }

func builtinBracket(sh *Shell, args []string) int {
	if len(args) == 0 || args[len(args)-1] != "]" {
		sh.complain("[: missing `]'")
		return 2
	}
	return sh.testCommand("[", args[:len(args)-1])
}

func (sh *Shell) testCommand(name string, args []string) int {
	yes, err := Test(args, sh.fileTest, sh.fileCompare)
	if err != nil {
		text := err.Error()
		if sh.style == dashStyle {
			text = strings.Replace(strings.Replace(text, "integer expression expected", "", 1), ": unary operator expected", ": unexpected operator", 1)
			if n := strings.TrimSuffix(text, ": "); n != text {
				text = "Illegal number: " + n
			}
		}
		if sh.style == ashStyle {
			text = strings.Replace(strings.Replace(text, "unary operator expected", "unknown operand", 1), "binary operator expected", "unknown operand", 1)
			if n := strings.TrimSuffix(text, ": integer expression expected"); n != text {
				text = "bad number"
				_ = n
			}
		}
		sh.complain("%s: %s", name, text)
		return 2
	}
	return boolInt(!yes)
}

// user looks a user up; "" is who runs the shell.
func (sh *Shell) user(name string) (libc.User, bool) {
	if name == "" {
		return libc.UserByID(sh.files, sh.p.Cred.UID)
	}
	return libc.UserByName(sh.files, name)
}
