package text

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

// sedScript is a parsed script.
type sedScript struct {
	commands []*sedCommand
	labels   map[string]int
	extended bool
	last     *regex.Regexp // of the latest regular expression, for the empty one
}

// sedAddress selects lines.
type sedAddress struct {
	kind byte // 'n' line, '$' last, '/' expression, '~' first~step, '+' so many more, 'z' up to a multiple
	n    int
	step int
	re   *regex.Regexp // nil with kind '/': the last one used
}

type sedCommand struct {
	a1, a2  *sedAddress
	negate  bool
	name    byte
	text    string // a i c, labels, file names
	re      *regex.Regexp
	repl    []sedPart
	global  bool
	print   int
	nth     int
	write   string
	eval    bool
	yFrom   []rune
	yTo     []rune
	jump    int // of {, b and t
	code    int
	inRange bool
	endLine int
}

// sedPart is a piece of a replacement: text, a group, or a change of case.
type sedPart struct {
	text  string
	group int  // -1: text
	fold  byte // U L u l E
}

// sedError is an error in a script.
type sedError struct {
	char int
	text string
}

func (e sedError) Error() string { return fmt.Sprintf("-e expression #1, char %d: %s", e.char, e.text) }

type sedParser struct {
	s    string
	i    int
	out  *sedScript
	open []int
}

func (p *sedParser) fail(format string, a ...any) error {
	return sedError{min(p.i, len(p.s)), fmt.Sprintf(format, a...)}
}

func parseSed(text string, extended bool) (script *sedScript, err error) {
	p := &sedParser{s: text, out: &sedScript{labels: map[string]int{}, extended: extended}}
	for {
		p.skip(" \t\n;")
		if p.i >= len(p.s) {
			break
		}
		if p.s[p.i] == '#' {
			p.line()
			continue
		}
		if err := p.command(); err != nil {
			return nil, err
		}
	}
	if len(p.open) > 0 {
		return nil, sedError{0, "unmatched `{'"}
	}
	for _, c := range p.out.commands {
		if c.name == 'b' || c.name == 't' || c.name == 'T' {
			c.jump = len(p.out.commands)
			if c.text != "" {
				at, ok := p.out.labels[c.text]
				if !ok {
					return nil, fmt.Errorf("can't find label for jump to `%s'", c.text)
				}
				c.jump = at
			}
		}
	}
	return p.out, nil
}

func (p *sedParser) skip(chars string) {
	for p.i < len(p.s) && strings.IndexByte(chars, p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *sedParser) line() string {
	j := strings.IndexByte(p.s[p.i:], '\n')
	if j < 0 {
		t := p.s[p.i:]
		p.i = len(p.s)
		return t
	}
	t := p.s[p.i : p.i+j]
	p.i += j + 1
	return t
}

func (p *sedParser) number() int {
	n := 0
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		n = min(n*10+int(p.s[p.i]-'0'), 1<<30)
		p.i++
	}
	return n
}

func (p *sedParser) address() (*sedAddress, error) {
	if p.i >= len(p.s) {
		return nil, nil
	}
	switch c := p.s[p.i]; {
	case c >= '0' && c <= '9':
		a := &sedAddress{kind: 'n', n: p.number()}
		if p.i < len(p.s) && p.s[p.i] == '~' {
			p.i++
			a.kind, a.step = '~', p.number()
		}
		return a, nil
	case c == '$':
		p.i++
		return &sedAddress{kind: '$'}, nil
	case c == '/' || c == '\\':
		if c == '\\' {
			p.i++
			if p.i >= len(p.s) {
				return nil, p.fail("unexpected `,'")
			}
		}
		delim := p.s[p.i]
		p.i++
		text, ok := p.delimited(delim, true)
		if !ok {
			p.i = len(p.s)
			return nil, p.fail("unterminated address regex")
		}
		fold, multi := false, false
		for p.i < len(p.s) && (p.s[p.i] == 'I' || p.s[p.i] == 'M') {
			fold = fold || p.s[p.i] == 'I'
			multi = multi || p.s[p.i] == 'M'
			p.i++
		}
		a := &sedAddress{kind: '/'}
		if text != "" {
			re, err := regex.Compile(text, regex.Flags{Extended: p.out.extended, Fold: fold, MultiLine: multi})
			if err != nil {
				return nil, p.fail("%s", err)
			}
			a.re = re
		}
		return a, nil
	}
	return nil, nil
}

// delimited reads up to an unescaped delimiter; in an expression a bracket may hold it.
func (p *sedParser) delimited(delim byte, isRegex bool) (string, bool) {
	var b strings.Builder
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case c == delim:
			p.i++
			return b.String(), true
		case c == '\\' && p.i+1 < len(p.s):
			n := p.s[p.i+1]
			switch {
			case n == delim && isRegex && strings.IndexByte(`|+?(){}`, delim) < 0:
				if strings.IndexByte(`.*[]^$/`, n) >= 0 && n != '/' {
					b.WriteByte('\\')
				}
				b.WriteByte(n)
			case n == delim:
				if !isRegex && n == '&' {
					b.WriteByte('\\')
				}
				b.WriteByte(n)
			case n == '\n' && isRegex:
				b.WriteString(`\n`)
			default:
				b.WriteByte('\\')
				b.WriteByte(n)
			}
			p.i += 2
		case c == '[' && isRegex:
			j := p.i + 1
			if j < len(p.s) && p.s[j] == '^' {
				j++
			}
			if j < len(p.s) && p.s[j] == ']' {
				j++
			}
			for j < len(p.s) && p.s[j] != ']' && p.s[j] != '\n' {
				if p.s[j] == '[' && j+1 < len(p.s) && strings.IndexByte(":.=", p.s[j+1]) >= 0 {
					if e := strings.Index(p.s[j+2:], string(p.s[j+1])+"]"); e >= 0 {
						j += e + 4
						continue
					}
				}
				j++
			}
			if j >= len(p.s) || p.s[j] != ']' {
				b.WriteByte(c)
				p.i++
				continue
			}
			b.WriteString(p.s[p.i : j+1])
			p.i = j + 1
		case c == '\n' && isRegex:
			return "", false
		default:
			b.WriteByte(c)
			p.i++
		}
	}
	return "", false
}

func (p *sedParser) command() error {
	c := &sedCommand{}
	var err error
	if c.a1, err = p.address(); err != nil {
		return err
	}
	p.skip(" \t")
	if c.a1 != nil && p.i < len(p.s) && p.s[p.i] == ',' {
		p.i++
		p.skip(" \t")
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '~') {
			kind := p.s[p.i]
			p.i++
			c.a2 = &sedAddress{kind: kind, n: p.number()}
			if kind == '~' {
				c.a2.kind = 'z'
			}
		} else if c.a2, err = p.address(); err != nil {
			return err
		} else if c.a2 == nil {
			p.i++
			return p.fail("unexpected `,'")
		}
	}
	if c.a1 != nil && c.a1.kind == 'n' && c.a1.n == 0 && (c.a2 == nil || c.a2.kind != '/') {
		return p.fail("invalid usage of line address 0")
	}
	p.skip(" \t")
	for p.i < len(p.s) && p.s[p.i] == '!' {
		c.negate = true
		p.i++
		p.skip(" \t!")
	}
	if p.i >= len(p.s) {
		return p.fail("missing command")
	}
	c.name = p.s[p.i]
	p.i++
	add := func() { p.out.commands = append(p.out.commands, c) }
	switch c.name {
	case '{':
		p.open = append(p.open, len(p.out.commands))
		add()
		return nil
	case '}':
		if c.a1 != nil {
			return p.fail("} doesn't want any addresses")
		}
		if len(p.open) == 0 {
			return p.fail("unexpected `}'")
		}
		p.out.commands[p.open[len(p.open)-1]].jump = len(p.out.commands)
		p.open = p.open[:len(p.open)-1]
		return p.end()
	case ':':
		if c.a1 != nil {
			return p.fail(": doesn't want any addresses")
		}
		p.skip(" \t")
		label := p.label()
		if label == "" {
			return p.fail("\":\" lacks a label")
		}
		p.out.labels[label] = len(p.out.commands)
		return nil
	case 'b', 't', 'T':
		p.skip(" \t")
		c.text = p.label()
		add()
		return nil
	case 'a', 'i', 'c':
		return p.textCommand(c, add)
	case 'r', 'R', 'w', 'W':
		p.skip(" \t")
		c.text = strings.TrimRight(p.line(), " \t")
		if c.text == "" {
			return p.fail("missing filename in r/R/w/W commands")
		}
		add()
		return nil
	case 's':
		if err := p.substitute(c); err != nil {
			return err
		}
		add()
		return p.end()
	case 'y':
		if p.i >= len(p.s) {
			return p.fail("unterminated `y' command")
		}
		delim := p.s[p.i]
		p.i++
		from, ok1 := p.delimited(delim, false)
		to, ok2 := p.delimited(delim, false)
		if !ok1 || !ok2 {
			p.i = len(p.s)
			return p.fail("unterminated `y' command")
		}
		c.yFrom, c.yTo = []rune(unslash(from)), []rune(unslash(to))
		if len(c.yFrom) != len(c.yTo) {
			return p.fail("strings for `y' command are different lengths")
		}
		add()
		return p.end()
	case 'q', 'Q', 'l', 'L':
		p.skip(" \t")
		c.code = p.number()
		add()
		return p.end()
	case 'd', 'D', 'p', 'P', 'n', 'N', 'h', 'H', 'g', 'G', 'x', '=', 'z', 'F':
		add()
		return p.end()
	case 'e':
		return p.fail("ckadrill does not simulate sed's e command")
	case '\n', ';':
		p.i--
		return p.fail("missing command")
	}
	return p.fail("unknown command: `%c'", c.name)
}

func (p *sedParser) label() string {
	j := p.i
	for p.i < len(p.s) && p.s[p.i] != '\n' && p.s[p.i] != ';' && p.s[p.i] != '}' {
		p.i++
	}
	return strings.TrimSpace(p.s[j:p.i])
}

// end checks what may follow a command.
func (p *sedParser) end() error {
	p.skip(" \t")
	if p.i >= len(p.s) {
		return nil
	}
	switch p.s[p.i] {
	case '\n', ';':
		p.i++
		return nil
	case '}', '#':
		return nil
	}
	p.i++
	return p.fail("extra characters after command")
}

func (p *sedParser) textCommand(c *sedCommand, add func()) error {
	p.skip(" \t")
	if p.i >= len(p.s) {
		return p.fail("expected \\ after `a', `c' or `i'")
	}
	if p.s[p.i] == '\\' {
		p.i++
		j := p.i
		p.skip(" \t")
		if p.i < len(p.s) && p.s[p.i] == '\n' {
			p.i++
		} else {
			p.i = j // a\ before text keeps its leading blanks
		}
	}
	var b strings.Builder
	for p.i < len(p.s) {
		ch := p.s[p.i]
		if ch == '\\' && p.i+1 < len(p.s) {
			b.WriteString(textEscape(p.s[p.i+1]))
			p.i += 2
			continue
		}
		if ch == '\n' {
			p.i++
			break
		}
		b.WriteByte(ch)
		p.i++
	}
	c.text = b.String() + "\n"
	add()
	return nil
}

func textEscape(c byte) string {
	switch c {
	case 't':
		return "\t"
	}
	return string(c)
}

func unslash(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\\':
				b.WriteByte('\\')
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (p *sedParser) substitute(c *sedCommand) error {
	if p.i >= len(p.s) {
		return p.fail("unterminated `s' command")
	}
	delim := p.s[p.i]
	if delim == '\n' || delim == '\\' {
		return p.fail("unterminated `s' command")
	}
	p.i++
	pat, ok := p.delimited(delim, true)
	if !ok {
		p.i = len(p.s)
		return p.fail("unterminated `s' command")
	}
	repl, ok := p.delimited(delim, false)
	if !ok {
		p.i = len(p.s)
		return p.fail("unterminated `s' command")
	}
	fold, multi := false, false
flags:
	for p.i < len(p.s) {
		switch ch := p.s[p.i]; {
		case ch == 'g':
			c.global = true
		case ch == 'p':
			c.print++
		case ch == 'i' || ch == 'I':
			fold = true
		case ch == 'm' || ch == 'M':
			multi = true
		case ch == 'e':
			return p.fail("ckadrill does not simulate sed's e flag")
		case ch >= '0' && ch <= '9':
			if c.nth != 0 {
				return p.fail("multiple number options to `s' command")
			}
			if c.nth = p.number(); c.nth == 0 {
				return p.fail("number option to `s' command may not be zero")
			}
			continue
		case ch == 'w':
			p.i++
			p.skip(" \t")
			c.write = p.line()
			break flags
		case strings.IndexByte(" \t\n;}#\r", ch) >= 0:
			break flags
		default:
			p.i++
			return p.fail("unknown option to `s'")
		}
		p.i++
	}
	if pat != "" {
		re, err := regex.Compile(pat, regex.Flags{Extended: p.out.extended, Fold: fold, MultiLine: multi})
		if err != nil {
			return p.fail("%s", err)
		}
		c.re = re
	}
	parts, groups := replacement(repl)
	if c.re != nil && groups > c.re.NumSubexp() {
		return p.fail("invalid reference \\%d on `s' command's RHS", groups)
	}
	c.repl = parts
	return nil
}

func replacement(s string) (parts []sedPart, maxGroup int) {
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			parts = append(parts, sedPart{text: b.String(), group: -1})
			b.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '&':
			flush()
			parts = append(parts, sedPart{group: 0})
		case c == '\\' && i+1 < len(s):
			i++
			switch n := s[i]; {
			case n >= '0' && n <= '9':
				flush()
				parts = append(parts, sedPart{group: int(n - '0')})
				maxGroup = max(maxGroup, int(n-'0'))
			case strings.IndexByte("ULulE", n) >= 0:
				flush()
				parts = append(parts, sedPart{group: -1, fold: n})
			case n == 'n':
				b.WriteByte('\n')
			case n == 't':
				b.WriteByte('\t')
			case n == 'r':
				b.WriteByte('\r')
			default:
				b.WriteByte(n)
			}
		default:
			b.WriteByte(c)
		}
	}
	flush()
	return parts, maxGroup
}

// sedRun is one execution of a script over a chain of inputs.
type sedRun struct {
	c       *libc.Prog
	script  *sedScript
	quiet   bool
	inputs  []string // files still to be opened
	in      *bufio.Reader
	closer  io.Closer
	out     io.Writer
	line    int
	pattern string
	hold    string
	newline bool // the line read last ended in one
	missing bool // the output lacks its last newline
	appends []func()
	subst   bool
	quit    bool
	code    int
	writes  map[string]*bytes.Buffer
	rlines  map[string]*bufio.Reader
	name    string
}

// sedStep is the simulated time that one command of a script takes.
const sedStep = 100 * time.Nanosecond

const maxSedSpace = 16 << 20

// sedUsage is what GNU sed 4.9 prints for an error of the command line.
const sedUsage = `Usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...

  -n, --quiet, --silent
                 suppress automatic printing of pattern space
      --debug
                 annotate program execution
  -e script, --expression=script
                 add the script to the commands to be executed
  -f script-file, --file=script-file
                 add the contents of script-file to the commands to be executed
  --follow-symlinks
                 follow symlinks when processing in place
  -i[SUFFIX], --in-place[=SUFFIX]
                 edit files in place (makes backup if SUFFIX supplied)
  -l N, --line-length=N
                 specify the desired line-wrap length for the ` + "`" + `l' command
  --posix
                 disable all GNU extensions.
  -E, -r, --regexp-extended
                 use extended regular expressions in the script
                 (for portability use POSIX -E).
  -s, --separate
                 consider files as separate rather than as a single,
                 continuous long stream.
      --sandbox
                 operate in sandbox mode (disable e/r/w commands).
  -u, --unbuffered
                 load minimal amounts of data from the input files and flush
                 the output buffers more often
  -z, --null-data
                 separate lines by NUL characters
      --help     display this help and exit
      --version  output version information and exit

If no -e, --expression, -f, or --file option is given, then the first
non-option argument is taken as the sed script to interpret.  All
remaining arguments are names of input files; if no input files are
specified, then the standard input is read.

GNU sed home page: <https://www.gnu.org/software/sed/>.
General help using GNU software: <https://www.gnu.org/gethelp/>.
`

func sed(c *libc.Prog) int {
	opts, operands, err := libc.Getopt(c.Args, "bsnrzuEe:f:i::l:", "quiet|n", "silent|n", "expression:|e", "file:|f", "in-place::|i", "regexp-extended|E", "separate|s", "unbuffered|u",
		"null-data|z", "line-length:|l", "posix", "debug", "sandbox", "follow-symlinks", "help", "version")
	usage := func() int {
		c.Errorf("%s", sedUsage)
		return 1
	}
	if err != nil {
		c.Warn("%s", err)
		return usage()
	}
	var texts []string
	given, quiet, extended, inPlace, separate, suffix := false, false, false, false, false, ""
	for _, o := range opts {
		switch o.Name {
		case "n":
			quiet = true
		case "r", "E":
			extended = true
		case "e":
			texts, given = append(texts, o.Value), true
		case "f":
			b, err := c.InputAll(o.Value)
			if err != nil {
				return c.Fail("couldn't open file %s: %s", o.Value, libc.Strerror(err))
			}
			texts, given = append(texts, strings.TrimSuffix(string(b), "\n")), true
		case "i":
			inPlace, separate, suffix = true, true, o.Value
		case "s":
			separate = true
		case "version":
			c.Put("sed (GNU sed) 4.9\n")
			return 0
		case "help":
			usage()
			return 0
		}
	}
	if !given {
		if len(operands) == 0 {
			return usage()
		}
		texts, operands = operands[:1], operands[1:]
	}
	text := strings.Join(texts, "\n")
	if strings.HasPrefix(text, "#n\n") || text == "#n" {
		quiet = true
	}
	script, err := parseSed(text, extended)
	if err != nil {
		return c.Fail("%s", err)
	}
	r := &sedRun{c: c, script: script, quiet: quiet, writes: map[string]*bytes.Buffer{}, rlines: map[string]*bufio.Reader{}, out: c.Out}
	defer r.closeWrites()
	if !separate {
		r.inputs = orStdin(operands)
		r.run()
		return r.status()
	}
	for _, name := range orStdin(operands) {
		if inPlace {
			if !r.editFile(name, suffix) {
				continue
			}
		} else {
			r.inputs, r.line = []string{name}, 0
			r.run()
		}
		if r.quit {
			break
		}
	}
	return r.status()
}

func (r *sedRun) status() int {
	if r.code != 0 {
		return r.code
	}
	return r.c.Status
}

// editCost is what each step takes before the temporary file of sed -i has its content: a kubelet that watches the directory
// reads it empty after each of them, as it does on a real machine.
const editCost = 80 * time.Microsecond

// editFile is sed -i: the output goes to a temporary file beside the target, which then takes its name, as GNU sed does it:
// whoever watches the directory sees both.
func (r *sedRun) editFile(name, suffix string) bool {
	c := r.c
	full := c.Path(name)
	info, err := c.Files.Lstat(full)
	if err != nil {
		c.Fail("can't read %s: %s", name, libc.Strerror(err))
		c.Status = 2
		return false
	}
	if target, err := c.Files.Stat(full); err == nil && target.IsDir() || info.IsDir() {
		c.Fail("couldn't edit %s: not a regular file", name)
		c.Status = 4
		return false
	}
	if !info.Mode().IsRegular() && info.Mode()&0o170000 == 0 && info.Mode().Type() != 0 {
		if info, err = c.Files.Stat(full); err != nil || !info.Mode().IsRegular() {
			c.Fail("couldn't edit %s: not a regular file", name)
			c.Status = 4
			return false
		}
	}
	if f, err := c.Open(name); err != nil {
		c.Fail("can't read %s: %s", name, libc.Strerror(err))
		c.Status = 2
		return false
	} else {
		f.Close()
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	rnd := c.World().Rand("sed")
	var tmp string
	var f kernel.File
	for range 100 {
		b := []byte("sed")
		for range 6 {
			b = append(b, letters[rnd.IntN(len(letters))])
		}
		tmp = path.Join(path.Dir(full), string(b))
		if f, err = c.Files.OpenFile(tmp, createFlag|os.O_EXCL, 0o600); err == nil {
			break
		}
	}
	if err != nil {
		c.Fail("couldn't open temporary file %s: %s", tempShown(name, tmp), libc.Strerror(err))
		c.Status = 4
		r.quit = true
		return false
	}
	st := kernel.StatOf(info)
	for step := range 4 {
		if c.Wait(editCost) != nil {
			return false
		}
		switch step {
		case 0:
			c.Files.Chown(tmp, st.UID, st.GID)
		case 1, 2: // GNU sed copies the access control list, too, which sets the mode again
			c.Files.Chmod(tmp, info.Mode())
		}
	}
	w := bufio.NewWriter(f)
	r.out, r.inputs, r.line, r.missing = w, []string{name}, 0, false
	r.run()
	werr := w.Flush()
	f.Close()
	r.out = c.Out
	if werr != nil {
		c.Files.Remove(tmp)
		c.Fail("couldn't write 1 item to %s: %s", tempShown(name, tmp), libc.Strerror(werr))
		c.Status, r.quit = 4, true
		return false
	}
	if suffix != "" {
		backup := full + suffix
		if strings.Contains(suffix, "*") {
			backup = path.Join(path.Dir(full), strings.ReplaceAll(suffix, "*", path.Base(full)))
		}
		if err := c.Files.Rename(full, backup); err != nil {
			c.Fail("cannot rename %s: %s", name, libc.Strerror(err))
			return false
		}
	}
	if err := c.Files.Rename(tmp, full); err != nil {
		c.Files.Remove(tmp)
		c.Fail("cannot rename %s: %s", tempShown(name, tmp), libc.Strerror(err))
		c.Status = 4
		return false
	}
	return true
}

// tempShown names the temporary file as sed's messages do: beside the file as it was given.
func tempShown(name, tmp string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i+1] + path.Base(tmp)
	}
	return "./" + path.Base(tmp)
}

func (r *sedRun) closeWrites() {
	for name, b := range r.writes {
		if name == "/dev/stdout" || name == "/dev/stderr" {
			continue
		}
		if err := r.c.Files.WriteFile(r.c.Path(name), b.Bytes(), 0o666); err != nil {
			r.c.Fail("couldn't open file %s: %s", name, libc.Strerror(err))
			r.code = 4
		}
	}
}

// next reads a line into s; ok is false at the end of all input.
func (r *sedRun) next() (s string, ok bool) {
	for {
		if r.in == nil {
			if len(r.inputs) == 0 {
				return "", false
			}
			r.name = r.inputs[0]
			r.inputs = r.inputs[1:]
			f, err := r.c.Input(r.name)
			if err != nil {
				if strings.Contains(libc.Strerror(err), "Is a directory") {
					r.c.Warn("couldn't edit %s: not a regular file", r.name)
					if r.out == io.Writer(r.c.Out) {
						r.c.Errorf("")
					}
				} else {
					r.c.Warn("can't read %s: %s", r.name, libc.Strerror(err))
				}
				r.c.Status = 2
				continue
			}
			r.in, r.closer = bufio.NewReader(f), f
		}
		line, err := libc.ReadLine(r.in, '\n')
		if line == "" && err != nil {
			r.closer.Close()
			r.in = nil
			if !r.c.Alive() {
				return "", false
			}
			continue
		}
		s, r.newline = strings.CutSuffix(line, "\n")
		r.line++
		return s, true
	}
}

// isLast says whether no line follows.
func (r *sedRun) isLast() bool {
	for {
		if r.in != nil {
			if _, err := r.in.Peek(1); err == nil {
				return false
			}
			r.closer.Close()
			r.in = nil
		}
		if len(r.inputs) == 0 {
			return true
		}
		f, err := r.c.Input(r.inputs[0])
		if err != nil {
			r.c.Warn("can't read %s: %s", r.inputs[0], libc.Strerror(err))
			r.c.Status = 2
			r.inputs = r.inputs[1:]
			continue
		}
		r.name = r.inputs[0]
		r.inputs = r.inputs[1:]
		r.in, r.closer = bufio.NewReader(f), f
	}
}

func (r *sedRun) print(s string, newline bool) {
	if r.missing {
		io.WriteString(r.out, "\n")
		r.missing = false
	}
	io.WriteString(r.out, s)
	if newline {
		io.WriteString(r.out, "\n")
	} else {
		r.missing = true
	}
}

func (r *sedRun) flushAppends() {
	for _, f := range r.appends {
		f()
	}
	r.appends = nil
}

func (r *sedRun) run() {
	again := false
	for !r.quit {
		if !again {
			s, ok := r.next()
			if !ok {
				return
			}
			r.pattern = s
		}
		r.subst = false
		again = r.cycle()
		r.flushAppends()
		if r.in != nil && r.in.Buffered() == 0 {
			if f, ok := r.out.(*bufio.Writer); ok && f.Flush() != nil {
				return
			}
		}
	}
}

func (a *sedAddress) matches(r *sedRun) bool {
	switch a.kind {
	case 'n':
		return r.line == a.n
	case '$':
		return r.isLast()
	case '~':
		if a.step <= 0 {
			return r.line == a.n
		}
		return r.line >= a.n && (r.line-a.n)%a.step == 0
	case '/':
		re := a.re
		if re == nil {
			re = r.script.last
		} else {
			r.script.last = re
		}
		return re != nil && re.MatchString(r.pattern)
	}
	return false
}

func (c *sedCommand) selected(r *sedRun) bool {
	switch {
	case c.a1 == nil:
		return true
	case c.a2 == nil:
		return c.a1.matches(r)
	}
	if c.inRange {
		switch c.a2.kind {
		case 'n':
			if r.line >= c.a2.n {
				c.inRange = false
			}
			return r.line <= c.a2.n
		case '+', 'z':
			if r.line >= c.endLine {
				c.inRange = false
			}
			return true
		default:
			if c.a2.matches(r) {
				c.inRange = false
			}
			return true
		}
	}
	zero := c.a1.kind == 'n' && c.a1.n == 0
	if zero && r.line == 1 {
		if !c.a2.matches(r) {
			c.inRange = true
		}
		return true
	}
	if zero || !c.a1.matches(r) {
		return false
	}
	switch c.a2.kind {
	case 'n':
		c.inRange = c.a2.n > r.line
	case '+':
		c.endLine = r.line + c.a2.n
		c.inRange = c.a2.n > 0
	case 'z':
		c.endLine = r.line
		if c.a2.n > 0 {
			c.endLine = (r.line + c.a2.n - 1) / c.a2.n * c.a2.n
		}
		c.inRange = c.endLine > r.line
	case '$':
		c.inRange = !r.isLast()
	default:
		c.inRange = true
	}
	return true
}

// cycle runs the script once; it returns true when the next cycle starts without reading (D).
func (r *sedRun) cycle() (again bool) {
	cmds := r.script.commands
	autoprint := func() {
		if !r.quiet {
			r.print(r.pattern, r.newline)
		}
	}
	for pc := 0; pc < len(cmds); pc++ {
		c := cmds[pc]
		if r.c.Spend(sedStep) != nil {
			r.quit, r.code = true, 4
			return false
		}
		if len(r.pattern) > maxSedSpace || len(r.hold) > maxSedSpace {
			r.c.Fail("couldn't allocate memory")
			r.quit, r.code = true, 4
			return false
		}
		if c.selected(r) == c.negate {
			if c.name == '{' {
				pc = c.jump - 1
			}
			continue
		}
		switch c.name {
		case '=':
			r.print(strconv.Itoa(r.line), true)
		case 'F':
			r.print(r.name, true)
		case 'a':
			text := c.text
			r.appends = append(r.appends, func() { r.print(strings.TrimSuffix(text, "\n"), true) })
		case 'i':
			r.print(strings.TrimSuffix(c.text, "\n"), true)
		case 'c':
			if c.a2 == nil || !c.inRange || c.negate {
				r.print(strings.TrimSuffix(c.text, "\n"), true)
			}
			return false
		case 'd':
			return false
		case 'D':
			i := strings.IndexByte(r.pattern, '\n')
			if i < 0 {
				return false
			}
			r.pattern = r.pattern[i+1:]
			return true
		case 'p':
			r.print(r.pattern, true)
		case 'P':
			s, _, _ := strings.Cut(r.pattern, "\n")
			r.print(s, true)
		case 'n':
			if r.isLast() {
				autoprint()
				r.quit = true
				return false
			}
			autoprint()
			r.flushAppends()
			r.pattern, _ = r.next()
		case 'N':
			if r.isLast() {
				autoprint() // GNU prints the pattern space
				r.quit = true
				return false
			}
			r.flushAppends()
			s, _ := r.next()
			r.pattern += "\n" + s
		case 'h':
			r.hold = r.pattern
		case 'H':
			r.hold += "\n" + r.pattern
		case 'g':
			r.pattern = r.hold
		case 'G':
			r.pattern += "\n" + r.hold
		case 'x':
			r.pattern, r.hold = r.hold, r.pattern
		case 'z':
			r.pattern = ""
		case 'l':
			r.print(visible(r.pattern)+"$", true)
		case 'b':
			pc = c.jump - 1
		case 't':
			if r.subst {
				r.subst = false
				pc = c.jump - 1
			}
		case 'T':
			if !r.subst {
				pc = c.jump - 1
			}
			r.subst = false
		case 'q', 'Q':
			r.code, r.quit = c.code, true
			if c.name == 'q' {
				autoprint()
			}
			return false
		case 'r':
			name := c.text
			r.appends = append(r.appends, func() {
				if b, err := r.c.InputAll(name); err == nil {
					if r.missing && len(b) > 0 {
						io.WriteString(r.out, "\n")
						r.missing = false
					}
					r.out.Write(b)
				}
			})
		case 'R':
			br := r.rlines[c.text]
			if br == nil {
				f, err := r.c.Input(c.text)
				if err != nil {
					continue
				}
				br = bufio.NewReader(f)
				r.rlines[c.text] = br
			}
			if s, err := libc.ReadLine(br, '\n'); s != "" || err == nil {
				r.appends = append(r.appends, func() { r.print(strings.TrimSuffix(s, "\n"), true) })
			}
		case 'w':
			r.writeTo(c.text, r.pattern)
		case 'W':
			s, _, _ := strings.Cut(r.pattern, "\n")
			r.writeTo(c.text, s)
		case 's':
			r.substitute(c)
		case 'y':
			r.pattern = strings.Map(func(ch rune) rune {
				for i, f := range c.yFrom {
					if f == ch {
						return c.yTo[i]
					}
				}
				return ch
			}, r.pattern)
		}
	}
	autoprint()
	return false
}

func (r *sedRun) writeTo(name, s string) {
	switch name {
	case "/dev/stdout":
		r.print(s, true)
		return
	case "/dev/stderr":
		r.c.Errorf("%s\n", s)
		return
	}
	b := r.writes[name]
	if b == nil {
		b = &bytes.Buffer{}
		r.writes[name] = b
	}
	if b.Len() < maxSedSpace {
		b.WriteString(s + "\n")
	}
}

func visible(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			b.WriteString(`\\`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < ' ' || c >= 127:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (r *sedRun) substitute(c *sedCommand) {
	re := c.re
	if re == nil {
		re = r.script.last
	} else {
		r.script.last = re
	}
	if re == nil {
		return
	}
	s := r.pattern
	var b strings.Builder
	last, count, replaced := 0, 0, false
	limit := -1
	if !c.global {
		limit = max(c.nth, 1)
	}
	for _, m := range re.FindAllStringSubmatchIndex(s, limit) {
		count++
		if c.nth > 0 && count < c.nth {
			continue
		}
		b.WriteString(s[last:m[0]])
		b.WriteString(expandReplacement(c.repl, s, m))
		last, replaced = m[1], true
		if b.Len() > maxSedSpace {
			break
		}
	}
	if !replaced {
		return
	}
	b.WriteString(s[last:])
	r.pattern, r.subst = b.String(), true
	for range c.print {
		r.print(r.pattern, true)
	}
	if c.write != "" {
		r.writeTo(c.write, r.pattern)
	}
}

func expandReplacement(parts []sedPart, s string, m []int) string {
	var b strings.Builder
	mode, once := byte(0), byte(0)
	emit := func(t string) {
		if t == "" {
			return
		}
		switch mode {
		case 'U':
			t = strings.ToUpper(t)
		case 'L':
			t = strings.ToLower(t)
		}
		switch once {
		case 'u':
			t = strings.ToUpper(t[:1]) + t[1:]
		case 'l':
			t = strings.ToLower(t[:1]) + t[1:]
		}
		once = 0
		b.WriteString(t)
	}
	for _, p := range parts {
		switch {
		case p.fold == 'u' || p.fold == 'l':
			once = p.fold
		case p.fold == 'E':
			mode = 0
		case p.fold != 0:
			mode = p.fold
		case p.group >= 0:
			if 2*p.group+1 < len(m) && m[2*p.group] >= 0 {
				emit(s[m[2*p.group]:m[2*p.group+1]])
			}
		default:
			emit(p.text)
		}
	}
	return b.String()
}
