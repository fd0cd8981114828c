package coreutils

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// xargsLimit is how many bytes of arguments one command gets, as findutils computes it on Linux.
const xargsLimit = 131072

func xargs(c *libc.Prog) int {
	opts, operands, ok := c.Options("+0a:d:E:eI:iL:ln:oP:prs:tx", "null|0", "arg-file:|a", "delimiter:|d", "eof::|E", "replace::|I", "max-lines::|L", "max-args:|n", "max-procs:|P", "interactive|p", "no-run-if-empty|r",
		"max-chars:|s", "verbose|t", "exit|x", "open-tty|o", "show-limits", "process-slot-var:")
	if !ok {
		return c.Status
	}
	maxArgs, maxLines, parallel, replace, delimiter, empty, trace, eof, limit, file, ask := 0, 0, 1, "", -1, true, false, "", xargsLimit, "", false
	number := func(o libc.Opt, least int) int {
		n, err := strconv.Atoi(o.Value)
		if err != nil {
			c.Warn("invalid number \"%s\" for -%s option", o.Value, o.Name)
			c.Status = 1
		} else if n < least {
			c.Warn("value %s for -%s option should be >= %d", o.Value, o.Name, least)
			c.Status = 1
		}
		return n
	}
	for _, o := range opts {
		switch o.Name {
		case "0":
			delimiter = 0
		case "a":
			file = o.Value
		case "d":
			v := o.Value
			switch {
			case len(v) == 1:
				delimiter = int(v[0])
			case v == `\n`:
				delimiter = '\n'
			case v == `\t`:
				delimiter = '\t'
			case v == `\0`:
				delimiter = 0
			default:
				return c.Fail("Invalid input delimiter specification %s: the delimiter must be either a single character or an escape sequence starting with \\.", v)
			}
		case "E":
			eof = o.Value
		case "I", "i":
			if replace = o.Value; replace == "" {
				replace = "{}"
			}
			maxArgs, maxLines = 0, 0
		case "L", "l":
			if o.Value == "" {
				o.Value = "1"
			}
			maxLines, maxArgs, replace = number(o, 1), 0, ""
		case "n":
			maxArgs, maxLines = number(o, 1), 0
			if maxArgs == 1 && replace != "" {
				maxArgs = 0
			} else {
				replace = ""
			}
		case "P":
			parallel = number(o, 0)
		case "p":
			ask, trace = true, true
		case "r":
			empty = false
		case "s":
			limit = number(o, 1)
		case "t":
			trace = true
		}
	}
	if c.Status != 0 {
		return c.TryHelp()
	}
	if len(operands) == 0 {
		operands = []string{"echo"}
	}
	in, childInput := c.Stream(), io.Reader(nil)
	if file != "" {
		f, err := c.Input(file)
		if err != nil {
			return c.Fail("Cannot open input file %s: %s", c.Quote(file), libc.Strerror(err))
		}
		defer f.Close()
		in, childInput = f, c.Stdin
	}
	x := &argReader{c: c, r: bufio.NewReader(in), delimiter: delimiter, eof: eof, wholeLines: replace != ""}
	r := &xargsRun{c: c, parallel: parallel, trace: trace, ask: ask, input: childInput}
	base := 0
	for _, a := range operands {
		base += len(a) + 1
	}
	ran := false
	if replace != "" {
		for !r.stop {
			a, _, more := x.next()
			if !more {
				break
			}
			argv := make([]string, len(operands))
			for i, o := range operands {
				argv[i] = strings.ReplaceAll(o, replace, a)
			}
			r.start(argv)
		}
	} else {
		var batch []string
		size, lines := base, 0
		flush := func() {
			r.start(append(append([]string(nil), operands...), batch...))
			batch, size, lines, ran = nil, base, 0, true
		}
		for !r.stop {
			a, lineEnd, more := x.next()
			if !more {
				break
			}
			if len(a)+1+base > limit {
				c.Warn("argument line too long")
				r.status = 1
				break
			}
			if size+len(a)+1 > limit && len(batch) > 0 {
				flush()
			}
			batch = append(batch, a)
			size += len(a) + 1
			if lineEnd {
				lines++
			}
			if maxArgs > 0 && len(batch) >= maxArgs || maxLines > 0 && lines >= maxLines {
				flush()
			}
		}
		if !r.stop && !x.failed && (len(batch) > 0 || !ran && empty) {
			flush()
		}
	}
	r.waitAll()
	if x.failed {
		return 1
	}
	return r.status
}

// xargsRun starts commands and gathers their exit statuses.
type xargsRun struct {
	c        *libc.Prog
	parallel int
	trace    bool
	ask      bool
	input    io.Reader
	running  []*kernel.Process
	status   int
	stop     bool
}

func (r *xargsRun) start(argv []string) {
	c := r.c
	if r.stop || !c.Alive() {
		r.stop = true
		return
	}
	if r.trace {
		c.Out.Flush()
		end := "\n"
		if r.ask {
			end = " ?..."
		}
		words := make([]string, len(argv))
		for i, a := range argv {
			words[i] = libc.QuoteN(a)
		}
		c.Errorf("%s%s", strings.Join(words, " "), end)
		if r.ask {
			answer := ""
			if c.TTY != nil {
				answer, _ = c.TTY.ReadLine("", nil)
			}
			if !strings.HasPrefix(strings.ToLower(answer), "y") {
				return
			}
		}
	}
	for r.parallel > 0 && len(r.running) >= r.parallel {
		r.reap()
	}
	dir := c.Dir()
	if _, err := kernel.LookPath(c.Files, dir, c.Getenv("PATH"), argv[0]); err != nil {
		c.Fail("%s: %s", argv[0], libc.Strerror(err))
		r.status, r.stop = 126, true
		if strings.HasPrefix(libc.Strerror(err), "No such") {
			r.status = 127
		}
		return
	}
	p, status := c.StartChild(argv, func(s *kernel.Spec) { s.Stdin = r.input })
	if p == nil {
		r.status, r.stop = status, true
		return
	}
	r.running = append(r.running, p)
	if r.parallel == 1 {
		r.reap()
	}
}

func (r *xargsRun) reap() {
	p := r.running[0]
	r.running = r.running[1:]
	st := p.Wait()
	switch code := st.ExitCode(); {
	case st.Signal != 0:
		r.c.Warn("%s: terminated by signal %d", p.CommandLine()[0], int(st.Signal))
		r.status, r.stop = 125, true
	case code == 255:
		r.c.Warn("%s: exited with status 255; aborting", p.CommandLine()[0])
		r.status, r.stop = 124, true
	case code != 0 && r.status == 0:
		r.status = 123
	}
}

func (r *xargsRun) waitAll() {
	for len(r.running) > 0 {
		r.reap()
	}
}

// argReader splits the input into arguments.
type argReader struct {
	c          *libc.Prog
	r          *bufio.Reader
	delimiter  int // -1: blanks and newlines, with quotes
	eof        string
	wholeLines bool
	failed     bool
}

// next returns an argument, and whether the input line ended after it.
func (x *argReader) next() (arg string, lineEnd, ok bool) {
	if x.failed {
		return "", false, false
	}
	if x.delimiter >= 0 {
		s, err := libc.ReadLine(x.r, byte(x.delimiter))
		if s == "" && err != nil {
			return "", false, false
		}
		return strings.TrimSuffix(s, string(byte(x.delimiter))), true, true
	}
	s, end, ok := x.word()
	if !ok || x.eof != "" && s == x.eof {
		return "", false, false
	}
	return s, end, true
}

func (x *argReader) word() (string, bool, bool) {
	var b strings.Builder
	started := false
	for {
		ch, err := x.r.ReadByte()
		if err != nil {
			return b.String(), true, started
		}
		switch {
		case ch == '\n':
			if started {
				return b.String(), true, true
			}
		case (ch == ' ' || ch == '\t') && (!x.wholeLines || !started):
			if started {
				// Blanks at the end of a line belong to it: the line ends where its newline is next.
				for {
					nx, err := x.r.Peek(1)
					if err != nil || nx[0] != ' ' && nx[0] != '\t' {
						if err == nil && nx[0] == '\n' {
							x.r.ReadByte()
							return b.String(), true, true
						}
						return b.String(), err != nil, true
					}
					x.r.ReadByte()
				}
			}
		case ch == '\'' || ch == '"':
			started = true
			for {
				q, err := x.r.ReadByte()
				if err != nil || q == '\n' {
					kind := "single"
					if ch == '"' {
						kind = "double"
					}
					x.c.Fail("unmatched %s quote; by default quotes are special to xargs unless you use the -0 option", kind)
					x.failed = true
					return "", false, false
				}
				if q == ch {
					break
				}
				b.WriteByte(q)
			}
		case ch == '\\':
			started = true
			if n, err := x.r.ReadByte(); err == nil {
				b.WriteByte(n)
			}
		default:
			started = true
			b.WriteByte(ch)
		}
	}
}
