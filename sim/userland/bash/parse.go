package bash

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
)

func (sh *Shell) parser() *syntax.Parser {
	if sh.style == bashStyle {
		return syntax.NewParser(syntax.Variant(syntax.LangBash))
	}
	// dash and busybox know "local"; busybox also some of bash's syntax, which its scripts use
	if sh.style == ashStyle {
		return syntax.NewParser(syntax.Variant(syntax.LangBash))
	}
	return syntax.NewParser(syntax.Variant(syntax.LangPOSIX))
}

// textOf is the source text of a node.
func (sh *Shell) textOf(n syntax.Node) string {
	if n == nil {
		return ""
	}
	a, b := int(n.Pos().Offset()), int(n.End().Offset())
	if a < 0 || b > len(sh.src.text) || a > b {
		return ""
	}
	return sh.src.text[a:b]
}

// Run runs a text as the shell reads it: every complete line is parsed and then executed, so what stands before a syntax
// error still happens. It returns $?.
func (sh *Shell) Run(text string) int {
	if sh.interactive {
		sh.listen(kernel.SIGINT) // Ctrl-C throws the text away, and the shell stays
	}
	return sh.run(text, 0)
}

// run runs a text whose first line is line+1 of what messages speak of.
func (sh *Shell) run(text string, line int) int {
	return sh.runAs(text, line, "")
}

// runAs is run; what names the text in syntax errors, "-c" or "eval" or nothing.
func (sh *Shell) runAs(text string, line int, what string) int {
	old := sh.src
	defer func() { sh.src = old }()
	text = strings.ReplaceAll(text, "\r\n", "\r\n") // carriage returns stay, as a real shell keeps them
	src := &source{text, line}
	sh.src = src
	typed := sh.place.begin(text)
	defer sh.place.finish(typed)
	var pending []*syntax.Stmt
	lastLine := uint(0)
	flush := func() bool {
		for _, st := range pending {
			sh.src = src
			if !typed.begin(st) {
				continue
			}
			if !sh.stmt(st) {
				return false
			}
		}
		pending = pending[:0]
		return true
	}
	for st, err := range sh.parser().StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			if stop, body, ok := unclosedHereDoc(err); ok {
				return sh.runUnclosed(text, line, what, stop, body, pending)
			}
			pos, _ := errorPos(err)
			if pos.Line() > lastLine || lastLine == 0 {
				if !flush() {
					return sh.status
				}
			}
			sh.syntaxError(err, src, what)
			return sh.status
		}
		if st.Pos().Line() > lastLine && !flush() {
			return sh.status
		}
		pending = append(pending, st)
		lastLine = st.End().Line()
	}
	flush()
	return sh.status
}

// unclosedHereDoc recognises a here-document that the end of the text delimits, which bash accepts with a warning.
func unclosedHereDoc(err error) (stop string, line uint, ok bool) {
	var pe syntax.ParseError
	if !errors.As(err, &pe) {
		return "", 0, false
	}
	rest, found := strings.CutPrefix(pe.Text, "unclosed here-document ")
	return strings.Trim(rest, "`\""), pe.Pos.Line(), found
}

func (sh *Shell) runUnclosed(text string, line int, what, stop string, at uint, pending []*syntax.Stmt) int {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if strings.HasSuffix(text, "\n"+stop+"\n") { // it was not the end that was missing
		sh.status = 2
		return 2
	}
	if sh.style == bashStyle {
		sh.line = line + strings.Count(text, "\n")
		sh.complain("warning: here-document at line %d delimited by end-of-file (wanted `%s')", line+int(at), stop)
	}
	// What was parsed before has not run yet where it stands on the same line; run the whole text from there.
	start := 0
	if len(pending) > 0 {
		start = int(pending[0].Pos().Offset())
	} else {
		for n := uint(1); n < at; n++ {
			start += strings.IndexByte(text[start:], '\n') + 1
		}
	}
	return sh.runAs(text[start:]+stop+"\n", line+strings.Count(text[:start], "\n"), what)
}

func errorPos(err error) (syntax.Pos, string) {
	var pe syntax.ParseError
	if errors.As(err, &pe) {
		return pe.Pos, pe.Text
	}
	var le syntax.LangError
	if errors.As(err, &le) {
		return le.Pos, le.Feature
	}
	return syntax.Pos{}, err.Error()
}

// syntaxError prints a parser's error in bash's words.
func (sh *Shell) syntaxError(err error, src *source, what string) {
	sh.status = 2
	if !sh.interactive {
		sh.flow = flowExit
	}
	if what == "eval" || what == "source" {
		sh.flow = flowNone
		if sh.style != bashStyle {
			sh.flow = flowAbort
		}
	}
	pos, text := errorPos(err)
	lines := strings.Split(src.text, "\n")
	last := len(lines)
	if last > 1 && lines[last-1] == "" {
		last--
	}
	var le syntax.LangError
	if errors.As(err, &le) && sh.style == dashStyle {
		sh.line = int(pos.Line()) + src.line
		sh.complain("Syntax error: %s", dashSyntax(le.Feature, tokenAt(src.text, pos)))
		return
	}
	name := sh.zero
	if what != "" && what != "source" && sh.style == bashStyle {
		name += ": " + what
	}
	say := func(line int, format string, a ...any) {
		msg := fmt.Sprintf(format, a...)
		switch {
		case sh.style == dashStyle:
			sh.line = line + src.line
			sh.complain("Syntax error: %s", dashMessage(msg))
		case sh.style == ashStyle:
			fmt.Fprintf(sh.stderr(), "%s: %s\n", sh.zero, ashMessage(msg))
		case sh.interactive && what == "":
			fmt.Fprintf(sh.stderr(), "%s: %s\n", name, msg)
		default:
			fmt.Fprintf(sh.stderr(), "%s: line %d: %s\n", name, line+src.line, msg)
		}
	}
	if quote, at, ok := unclosedQuote(text); ok {
		line := int(pos.Line())
		if at {
			line = last
		}
		say(int(pos.Line()), "unexpected EOF while looking for matching `%s'", quote)
		_ = line
		return
	}
	if syntax.IsIncomplete(err) || strings.Contains(text, "reached EOF") || incompleteText(text, src.text, pos) {
		say(last+1, "syntax error: unexpected end of file")
		return
	}
	token, tokPos := badToken(text, src.text, pos)
	line := tokPos
	if token == "" {
		say(last+1, "syntax error: unexpected end of file")
		return
	}
	say(line, "syntax error near unexpected token `%s'", token)
	if sh.style == bashStyle && !(sh.interactive && what == "") && token != "newline" || sh.style == bashStyle && !sh.interactive {
		if line-1 < len(lines) && line > 0 {
			say(line, "`%s'", lines[line-1])
		}
	}
}

func dashMessage(msg string) string {
	switch {
	case strings.Contains(msg, "unexpected end of file"):
		return "end of file unexpected"
	case strings.HasPrefix(msg, "syntax error near unexpected token `"):
		t := strings.TrimSuffix(strings.TrimPrefix(msg, "syntax error near unexpected token `"), "'")
		if t != "newline" {
			t = `"` + t + `"`
		}
		return t + " unexpected"
	case strings.Contains(msg, "matching"):
		return "Unterminated quoted string"
	}
	return msg
}

func dashSyntax(feature, token string) string {
	if strings.Contains(feature, "array") {
		return `"(" unexpected`
	}
	if token != "" {
		return `"` + token + `" unexpected`
	}
	return feature
}

func ashMessage(msg string) string {
	switch {
	case strings.Contains(msg, "unexpected end of file"):
		return "syntax error: unexpected end of file"
	case strings.HasPrefix(msg, "syntax error near unexpected token `"):
		t := strings.TrimSuffix(strings.TrimPrefix(msg, "syntax error near unexpected token `"), "'")
		if t != "newline" {
			t = `"` + t + `"`
		}
		return "syntax error: unexpected " + t
	case strings.Contains(msg, "matching"):
		return "syntax error: unterminated quoted string"
	}
	return msg
}

// unclosedQuote recognises the parser's words for a quote or substitution that the text ends in.
func unclosedQuote(text string) (quote string, atEnd, ok bool) {
	switch {
	case strings.Contains(text, "without closing quote `'`"), strings.Contains(text, "without closing quote `$'`"):
		return "'", false, true
	case strings.Contains(text, "without closing quote `\"`"), strings.Contains(text, "without closing quote `$\"`"):
		return `"`, false, true
	case strings.Contains(text, "without closing quote \"`\""), strings.Contains(text, "\"`\""):
		return "`", false, true
	case strings.Contains(text, "reached EOF without matching `$(` with `)`"), strings.Contains(text, "reached EOF without matching `$((` with `))`"):
		return ")", false, true
	case strings.Contains(text, "reached EOF without matching `${` with `}`"):
		return "}", false, true
	}
	return "", false, false
}

// incompleteText says whether the text simply ends too early: there is nothing left after the error's position but the
// construct that should have been closed.
func incompleteText(text, src string, pos syntax.Pos) bool {
	if !strings.Contains(text, "must end with") && !strings.Contains(text, "must be followed by") && !strings.Contains(text, "without matching") {
		return false
	}
	_, line := badToken(text, src, pos)
	return line < 0
}

// tokenAt is the shell token at a position.
func tokenAt(src string, pos syntax.Pos) string {
	i := int(pos.Offset())
	if i >= len(src) {
		return ""
	}
	return token(src[i:])
}

func token(s string) string {
	s = strings.TrimLeft(s, " \t")
	if s == "" {
		return ""
	}
	for _, op := range []string{";;&", "<<<", "&>>", "<<-", ";;", ";&", "&&", "||", "|&", "<<", ">>", "&>", ">&", "<&", "<>", ">|"} {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	if s[0] == '\n' {
		return "newline"
	}
	if strings.IndexByte(";&|()<>", s[0]) >= 0 {
		return s[:1]
	}
	i := strings.IndexAny(s, " \t\n;&|()<>")
	if i < 0 {
		i = len(s)
	}
	return s[:i]
}

// badToken finds the token that bash would stumble over, and its line; the parser often reports the construct that was
// opened instead.
func badToken(text, src string, pos syntax.Pos) (string, int) {
	off := int(pos.Offset())
	if off > len(src) {
		off = len(src)
	}
	at := func(i int) (string, int) {
		for i < len(src) && (src[i] == ' ' || src[i] == '\t') {
			i++
		}
		t := token(src[i:])
		if t == "" {
			return "", -1
		}
		return t, strings.Count(src[:i], "\n") + 1
	}
	if i := strings.Index(text, "must be followed by"); i >= 0 {
		// the token after the construct named in the text is the offender
		op := strings.Trim(strings.TrimSpace(text[:i]), "`\"")
		if strings.HasPrefix(src[off:], op) {
			j := off + len(op)
			for j < len(src) && (src[j] == ' ' || src[j] == '\t') {
				j++
			}
			if isRedirect(op) || op == "for" || op == "case" {
				return at(j)
			}
			for j < len(src) && (src[j] == '\n' || src[j] == ' ' || src[j] == '\t') {
				j++
			}
			return at(j)
		}
	}
	if strings.Contains(text, "must end with") || strings.Contains(text, "without matching") {
		if j := strayToken(src, off); j >= 0 {
			return at(j)
		}
		return "", -1
	}
	return at(off)
}

func isRedirect(op string) bool { return strings.ContainsAny(op, "<>") }

// strayToken finds a closing word that does not fit what was opened from offset off on.
func strayToken(src string, off int) int {
	closers := map[string]string{"fi": "if", "done": "do", "esac": "case", "}": "{", ")": "("}
	var stack []string
	start := true
	for i := off; i < len(src); {
		switch c := src[i]; {
		case c == ' ' || c == '\t':
			i++
			continue
		case c == '\n' || c == ';' || c == '&' || c == '|':
			start = true
			i++
			continue
		case c == '\'' || c == '"':
			j := strings.IndexByte(src[i+1:], c)
			if j < 0 {
				return -1
			}
			i += j + 2
			start = false
			continue
		}
		t := token(src[i:])
		if t == "" {
			return -1
		}
		if start || t == ")" || t == "(" {
			switch t {
			case "if", "{", "(", "case":
				stack = append(stack, t)
			case "do":
				stack = append(stack, "do")
			case "fi", "done", "esac", "}", ")":
				if len(stack) == 0 || stack[len(stack)-1] != closers[t] {
					return i
				}
				stack = stack[:len(stack)-1]
			}
		}
		switch t {
		case "if", "then", "else", "elif", "do", "while", "until", "{", "(", "!", "time":
			start = true
		default:
			start = t == ")"
		}
		i += len(t)
	}
	return -1
}
