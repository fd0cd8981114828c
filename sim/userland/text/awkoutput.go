package text

import (
	"bytes"
	"io"
	"sort"
	"strings"

	"github.com/benhoyt/goawk/lexer"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// GoAWK opens files and starts commands on the host, or not at all. So print statements that go to files and commands, and
// calls of system() and close(), are rewritten to calls of functions of ours before it parses the program:
//
//	print a, b > "f"     becomes  ckadrill_write(">", "f", (a) OFS (b) ORS)
//	printf "%d", n | c   becomes  ckadrill_write("|", c, sprintf("%d", n))

type awkToken struct {
	tok      lexer.Token
	from, to int // offsets in the source
}

// awkTokens splits a program. It returns nil for one that is malformed, which GoAWK's parser will explain.
func awkTokens(src string) []awkToken {
	lines := []int{0}
	for i := range len(src) {
		if src[i] == '\n' {
			lines = append(lines, i+1)
		}
	}
	offset := func(p lexer.Position) int { return min(len(src), lines[min(p.Line, len(lines))-1]+p.Column-1) }
	l := lexer.NewLexer([]byte(src))
	var out []awkToken
	last := lexer.NEWLINE
	for {
		pos, tok, _ := l.Scan()
		if tok == lexer.DIV || tok == lexer.DIV_ASSIGN {
			switch last { // behind an operand a slash divides, elsewhere it begins a regular expression
			case lexer.NAME, lexer.NUMBER, lexer.STRING, lexer.RPAREN, lexer.RBRACKET, lexer.DOLLAR, lexer.INCR, lexer.DECR, lexer.F_LENGTH, lexer.REGEX:
			default:
				_, tok, _ = l.ScanRegex()
			}
		}
		at := offset(pos)
		if len(out) > 0 {
			out[len(out)-1].to = at
		}
		switch tok {
		case lexer.EOF:
			return out
		case lexer.ILLEGAL:
			return nil
		}
		out = append(out, awkToken{tok, at, len(src)})
		last = tok
	}
}

// rewriteAwk returns the program with its output statements rewritten.
func rewriteAwk(src string) string {
	tokens := awkTokens(src)
	var b strings.Builder
	done := 0 // offset up to which the source is written
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.tok {
		case lexer.F_SYSTEM, lexer.F_CLOSE:
			name := map[lexer.Token]string{lexer.F_SYSTEM: "ckadrill_system", lexer.F_CLOSE: "ckadrill_close"}[t.tok]
			b.WriteString(src[done:t.from] + name)
			done = t.from + len("system")
			if t.tok == lexer.F_CLOSE {
				done = t.from + len("close")
			}
		case lexer.PRINT, lexer.PRINTF:
			end, redirect := statement(tokens, i+1)
			if redirect < 0 {
				continue
			}
			mode := map[lexer.Token]string{lexer.GREATER: ">", lexer.APPEND: ">>", lexer.PIPE: "|"}[tokens[redirect].tok]
			target := text(src, tokens, redirect+1, end)
			b.WriteString(src[done:t.from] + `ckadrill_write("` + mode + `", ` + target + ", " + output(src, tokens, i, redirect) + ")")
			done = len(src)
			if end < len(tokens) {
				done = tokens[end].from
			}
			i = end - 1
		}
	}
	return b.String() + src[done:]
}

// statement finds the end of a print statement, and the token that redirects it, -1 if none does.
func statement(tokens []awkToken, i int) (end, redirect int) {
	depth, redirect := 0, -1
	for ; i < len(tokens); i++ {
		switch tokens[i].tok {
		case lexer.LPAREN, lexer.LBRACKET:
			depth++
		case lexer.RPAREN, lexer.RBRACKET:
			depth--
		case lexer.NEWLINE, lexer.SEMICOLON, lexer.RBRACE:
			if depth <= 0 {
				return i, redirect
			}
		case lexer.GREATER, lexer.APPEND, lexer.PIPE:
			if depth == 0 && redirect < 0 {
				redirect = i
			}
		}
	}
	return i, redirect
}

func text(src string, tokens []awkToken, from, to int) string {
	if from >= to {
		return ""
	}
	return strings.TrimSpace(src[tokens[from].from:tokens[to-1].to])
}

// output is the expression of what a print or printf statement prints.
func output(src string, tokens []awkToken, i, redirect int) string {
	from, to := i+1, redirect
	// One pair of parentheses around all arguments is the statement's own.
	if from < to && tokens[from].tok == lexer.LPAREN && closingParen(tokens, from) == to-1 {
		from, to = from+1, to-1
	}
	if tokens[i].tok == lexer.PRINTF {
		return "sprintf(" + text(src, tokens, from, to) + ")"
	}
	if from >= to {
		return "$0 ORS"
	}
	var args []string
	depth, start := 0, from
	for k := from; k < to; k++ {
		switch tokens[k].tok {
		case lexer.LPAREN, lexer.LBRACKET:
			depth++
		case lexer.RPAREN, lexer.RBRACKET:
			depth--
		case lexer.COMMA:
			if depth == 0 {
				args = append(args, "("+text(src, tokens, start, k)+")")
				start = k + 1
			}
		}
	}
	args = append(args, "("+text(src, tokens, start, to)+")")
	return strings.Join(args, " OFS ") + " ORS"
}

func closingParen(tokens []awkToken, i int) int {
	depth := 0
	for ; i < len(tokens); i++ {
		switch tokens[i].tok {
		case lexer.LPAREN:
			depth++
		case lexer.RPAREN:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// awkOutputs are the files and commands that a program writes to.
type awkOutputs struct {
	c     *libc.Prog
	files map[string]kernel.File
	pipes map[string]*bytes.Buffer
}

// awkPipeLimit bounds what is kept for a command until it is closed.
const awkPipeLimit = 16 << 20

func (o *awkOutputs) functions() map[string]any {
	return map[string]any{"ckadrill_write": o.write, "ckadrill_system": o.system, "ckadrill_close": o.close}
}

func (o *awkOutputs) write(mode, name, s string) int {
	c := o.c
	switch {
	case mode == "|":
		p := o.pipes[name]
		if p == nil {
			p = &bytes.Buffer{}
			o.pipes[name] = p
		}
		if p.Len()+len(s) <= awkPipeLimit {
			p.WriteString(s)
		}
		return 0
	case name == "/dev/stdout" || name == "-":
		io.WriteString(flushing{c}, s)
		return 0
	case name == "/dev/stderr":
		io.WriteString(c.Stderr, s)
		return 0
	}
	f := o.files[name]
	if f == nil {
		flag := createFlag
		if mode == ">>" {
			flag = appendFlag
		}
		var err error
		if f, err = c.Files.OpenFile(c.Path(name), flag, 0o666); err != nil {
			c.Fail("cannot open \"%s\" for output (%s)", name, libc.Strerror(err))
			c.Out.Flush()
			c.Exit(2)
		}
		o.files[name] = f
	}
	if _, err := io.WriteString(f, s); err != nil {
		c.Fail("write failure (%s)", libc.Strerror(err))
		c.Out.Flush()
		c.Exit(2)
	}
	return 0
}

// shell runs a command with a text as its input. What the program itself has printed may still be buffered, as mawk's is.
func (o *awkOutputs) shell(command string, in io.Reader) int {
	c := o.c
	p, err := libc.Exec(c.World(), c.Host(), kernel.Spec{
		Argv: []string{"sh", "-c", command}, Env: c.Environ(), Dir: c.Dir(), Cred: c.Cred, Hostname: c.Spec.Hostname, Files: c.Files, Net: c.Net,
		Stdin: in, Stdout: libc.Unwrap(c.Stdout), Stderr: libc.Unwrap(c.Stderr), TTY: c.TTY, Parent: c.Process,
	})
	if err != nil {
		return 127
	}
	return p.Wait().ExitCode()
}

func (o *awkOutputs) system(command string) int {
	o.c.Out.Flush()
	return o.shell(command, o.c.Stdin)
}

func (o *awkOutputs) close(name string) int {
	if p := o.pipes[name]; p != nil {
		delete(o.pipes, name)
		return o.shell(name, p)
	}
	if f := o.files[name]; f != nil {
		delete(o.files, name)
		f.Close()
		return 0
	}
	return -1
}

// end closes everything, in the order of names.
func (o *awkOutputs) end() {
	var names []string
	for n := range o.pipes {
		names = append(names, n)
	}
	for n := range o.files {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		o.close(n)
	}
}
