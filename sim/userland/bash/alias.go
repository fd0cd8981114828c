package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// expandAlias returns the statements that a command becomes when its first word is an alias. Aliases are expanded when the
// command runs: what they were set to on an earlier line holds, as with a shell that reads line by line.
func (sh *Shell) expandAlias(call *syntax.CallExpr) ([]*syntax.Stmt, *source, bool) {
	name, ok := plainWord(call.Args[0])
	if !ok || sh.aliases[name] == "" || sh.inAlias[name] {
		return nil, nil, false
	}
	seen := map[string]bool{name: true}
	text := sh.aliases[name]
	for {
		first, _, _ := strings.Cut(strings.TrimLeft(text, " \t"), " ")
		next := sh.aliases[first]
		if next == "" || seen[first] {
			break
		}
		seen[first] = true
		text = next + strings.TrimLeft(text, " \t")[len(first):]
	}
	var b strings.Builder
	for _, a := range call.Assigns {
		b.WriteString(sh.textOf(a) + " ")
	}
	b.WriteString(text)
	expandNext := strings.HasSuffix(text, " ") || strings.HasSuffix(text, "\t")
	for _, w := range call.Args[1:] {
		t := sh.textOf(w)
		if n, ok := plainWord(w); ok && expandNext && sh.aliases[n] != "" {
			t = sh.aliases[n]
			expandNext = strings.HasSuffix(t, " ")
		} else {
			expandNext = false
		}
		b.WriteString(" " + t)
	}
	src := &source{text: b.String(), line: int(call.Pos().Line()) + sh.src.line - 1}
	f, err := sh.parser().Parse(strings.NewReader(src.text), "")
	if err != nil {
		sh.syntaxError(err, src, "")
		return nil, src, true
	}
	return f.Stmts, src, true
}

// plainWord is a word that consists of one unquoted literal.
func plainWord(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	l, ok := w.Parts[0].(*syntax.Lit)
	if !ok || strings.ContainsAny(l.Value, `\`) {
		return "", false
	}
	return l.Value, true
}

// runAlias runs what an alias stands for. Words in it are not expanded by the same alias again.
func (sh *Shell) runAlias(stmts []*syntax.Stmt, src *source, redirs []*syntax.Redirect) {
	if stmts == nil {
		return
	}
	r, ok := sh.redirect(redirs)
	if !ok {
		return
	}
	defer r.undo()
	oldSrc, oldIn := sh.src, sh.inAlias
	sh.src = src
	sh.inAlias = clone(oldIn)
	for n := range sh.aliases {
		sh.inAlias[n] = true
	}
	defer func() { sh.src, sh.inAlias = oldSrc, oldIn }()
	sh.stmts(stmts)
}
