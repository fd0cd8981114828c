package bash

import (
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// expandError is an error of an expansion: the command line is thrown away.
type expandError struct{ text string }

func (e expandError) Error() string { return e.text }

// fatalError ends the shell.
type fatalError struct{ text string }

func (e fatalError) Error() string { return e.text }

// wordLit is the literal text of a subscript such as @.
func wordLit(x syntax.ArithmExpr) string {
	if w, ok := x.(*syntax.Word); ok {
		return w.Lit()
	}
	return ""
}

// paramExp expands $name and ${name...}.
func (sh *Shell) paramExp(pe *syntax.ParamExp, ctx context) (values, error) {
	if pe.Param == nil || pe.Width || pe.IsSet || pe.Flags != nil || pe.NestedParam != nil {
		return values{}, expandError{sh.textOf(pe) + ": bad substitution"}
	}
	name := pe.Param.Value
	sub := wordLit(pe.Index)
	if pe.Names != 0 { // ${!prefix*}
		v := values{list: true, star: pe.Names == syntax.NamesPrefix}
		for _, n := range sh.names(func(v *variable) bool { return v.Set }) {
			if strings.HasPrefix(n, name) {
				v.elems = append(v.elems, []frag{{text: n}})
			}
		}
		return v, nil
	}
	if pe.Excl && pe.Index != nil && (sub == "@" || sub == "*") && pe.Exp == nil { // ${!name[@]}
		v := values{list: true, star: sub == "*"}
		if a := sh.get(name); a != nil {
			for _, k := range a.subscripts() {
				v.elems = append(v.elems, []frag{{text: k}})
			}
		}
		return v, nil
	}
	src, err := sh.source(pe)
	if err != nil {
		return values{}, err
	}
	if pe.Excl {
		if src, err = sh.indirect(src, pe); err != nil {
			return values{}, err
		}
		if src.text != nil {
			return one(*src.text), nil
		}
	}
	if pe.Length {
		if src.list {
			return one(strconv.Itoa(len(src.elems))), nil
		}
		if !src.set && sh.opt['u'] && !specialParam(name) {
			return values{}, sh.unbound(src.name)
		}
		return one(strconv.Itoa(utf8.RuneCountInString(src.elem()))), nil
	}
	if pe.Exp != nil {
		switch pe.Exp.Op {
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
			syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			return sh.conditional(pe, src, ctx)
		}
	}
	if !src.set && sh.opt['u'] && name != "@" && name != "*" && !(src.list) {
		return values{}, sh.unbound(src.name)
	}
	switch {
	case pe.Slice != nil:
		return sh.slice(pe, src)
	case pe.Repl != nil:
		return sh.replace(pe.Repl, src)
	case pe.Exp != nil:
		return sh.transform(pe, src)
	}
	return src.values(), nil
}

func specialParam(name string) bool { return len(name) == 1 && strings.Contains("@*#?-$!0", name) }

func (sh *Shell) unbound(name string) error {
	switch sh.style {
	case dashStyle, ashStyle:
		return fatalError{name + ": parameter not set"}
	}
	return fatalError{name + ": unbound variable"}
}

// paramSource is the value of a parameter before any operator.
type paramSource struct {
	name       string // as messages print it
	base       string
	index      syntax.ArithmExpr
	elems      []string
	set        bool
	list, star bool
	v          *variable
	text       *string // the whole result, for ${!nameref}
}

func (s paramSource) elem() string {
	if len(s.elems) == 0 {
		return ""
	}
	return s.elems[0]
}

func (s paramSource) values() values {
	v := values{list: s.list, star: s.star}
	for _, e := range s.elems {
		v.elems = append(v.elems, []frag{{text: e}})
	}
	if !s.list && len(v.elems) == 0 {
		v.elems = [][]frag{nil}
	}
	return v
}

func (s paramSource) mapped(f func(string) string) values {
	t := s
	t.elems = make([]string, len(s.elems))
	for i, e := range s.elems {
		t.elems[i] = f(e)
	}
	return t.values()
}

func (sh *Shell) source(pe *syntax.ParamExp) (paramSource, error) {
	name := pe.Param.Value
	s := paramSource{name: name, base: name, index: pe.Index}
	if name == "@" || name == "*" {
		s.elems, s.list, s.star, s.set = sh.args, true, name == "*", len(sh.args) > 0
		return s, nil
	}
	if pe.Index == nil {
		// a nameref may name an element
		if target := sh.deref(name); target != name {
			if base, sub, ok := splitSubscript(target); ok {
				return sh.elementSource(base, sub)
			}
		}
		v, set := sh.param(name)
		s.v, s.set = sh.get(name), set
		if set {
			s.elems = []string{v}
		}
		return s, nil
	}
	switch sub := wordLit(pe.Index); sub {
	case "@", "*":
		s.v = sh.get(name)
		s.list, s.star = true, sub == "*"
		if s.v != nil {
			s.elems = s.v.elements()
		}
		s.set = len(s.elems) > 0
		s.name = name + "[" + sub + "]"
		return s, nil
	}
	s.v = sh.get(name)
	sub, err := sh.subscript(s.v, pe.Index)
	if err != nil {
		return s, err
	}
	e, err := sh.elementSource(name, sub)
	e.index = pe.Index
	return e, err
}

// elementSource is name[sub], sub being expanded.
func (sh *Shell) elementSource(name, sub string) (paramSource, error) {
	s := paramSource{name: name + "[" + sub + "]", base: name, v: sh.get(name)}
	if sub == "@" || sub == "*" {
		s.list, s.star = true, sub == "*"
		if s.v != nil {
			s.elems = s.v.elements()
		}
		s.set = len(s.elems) > 0
		return s, nil
	}
	if s.v == nil {
		return s, nil
	}
	if s.v.Kind != assoc {
		if _, err := sh.index(s.v, name, sub); err != nil {
			return s, err
		}
	}
	if e, ok := sh.element(name, sub); ok {
		s.elems, s.set = []string{e}, true
	}
	return s, nil
}

// subscript expands the text between brackets: a key of an associative array, or a number.
func (sh *Shell) subscript(v *variable, x syntax.ArithmExpr) (string, error) {
	if v != nil && v.Kind == assoc {
		if w, ok := x.(*syntax.Word); ok {
			return sh.literal(w)
		}
		return strings.TrimSpace(sh.textOf(x)), nil
	}
	n, err := sh.arith(x)
	return strconv.FormatInt(n, 10), err
}

// indirect follows ${!name}.
func (sh *Shell) indirect(s paramSource, pe *syntax.ParamExp) (paramSource, error) {
	if v := sh.lookup(pe.Param.Value); v != nil && v.Nameref {
		t := v.Str
		return paramSource{text: &t}, nil
	}
	target := s.elem()
	if target == "" {
		return s, expandError{pe.Param.Value + ": invalid indirect expansion"}
	}
	if base, sub, ok := splitSubscript(target); ok && validName(base) {
		if sub != "@" && sub != "*" {
			if v := sh.get(base); v == nil || v.Kind != assoc {
				n, err := sh.arithString(sub)
				if err != nil {
					return s, err
				}
				sub = strconv.FormatInt(n, 10)
			}
		}
		return sh.elementSource(base, sub)
	}
	if !validName(target) && !specialParam(target) && strings.Trim(target, "0123456789") != "" {
		return s, expandError{target + ": invalid variable name"}
	}
	return sh.source(&syntax.ParamExp{Param: &syntax.Lit{Value: target}})
}

// conditional is ${x:-word} and its like; the word is expanded only if it is used.
func (sh *Shell) conditional(pe *syntax.ParamExp, s paramSource, ctx context) (values, error) {
	op := pe.Exp.Op
	isSet := s.set
	switch op {
	case syntax.AlternateUnsetOrNull, syntax.DefaultUnsetOrNull, syntax.ErrorUnsetOrNull, syntax.AssignUnsetOrNull:
		if s.list {
			isSet = isSet && (len(s.elems) > 1 || s.elem() != "")
		} else {
			isSet = isSet && s.elem() != ""
		}
	}
	switch op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if !isSet {
			return one(""), nil
		}
		return sh.operand(pe.Exp.Word, ctx)
	}
	if isSet {
		return s.values(), nil
	}
	switch op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		return sh.operand(pe.Exp.Word, ctx)
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		var text string
		if pe.Exp.Word != nil {
			frags, err := sh.plain(pe.Exp.Word.Parts, ctx)
			if err != nil {
				return values{}, err
			}
			text = join(frags)
		}
		if !validName(s.base) {
			return values{}, expandError{"$" + s.name + ": cannot assign in this way"}
		}
		var err error
		if s.index != nil {
			var sub string
			if sub, err = sh.subscript(s.v, s.index); err == nil {
				err = sh.setElement(s.base, sub, text, false)
			}
		} else {
			err = sh.set(s.base, text)
		}
		return one(text), err
	}
	text := "parameter not set"
	if op == syntax.ErrorUnsetOrNull {
		text = "parameter null or not set"
	}
	if sh.style == dashStyle {
		text = "parameter not set or null"
		if op == syntax.ErrorUnset {
			text = "parameter not set"
		}
	}
	if pe.Exp.Word != nil {
		t, err := sh.literal(pe.Exp.Word)
		if err != nil {
			return values{}, err
		}
		if t != "" {
			text = t
		}
	}
	return values{}, fatalError{s.name + ": " + text}
}

// operand expands the word after an operator, keeping what is quoted in it.
func (sh *Shell) operand(w *syntax.Word, ctx context) (values, error) {
	if w == nil {
		return one(""), nil
	}
	if ctx == inWord {
		// "$@" in the word gives several fields, also here
		if len(w.Parts) == 1 {
			if q, ok := w.Parts[0].(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
				v, err := sh.values(q.Parts[0], inQuotes)
				if err != nil {
					return values{}, err
				}
				if v.list && !v.star {
					for i := range v.elems {
						v.elems[i] = []frag{{join(v.elems[i]), true}}
					}
					return v, nil
				}
				text := make([]string, len(v.elems))
				for i := range v.elems {
					text[i] = join(v.elems[i])
				}
				return values{elems: [][]frag{{{strings.Join(text, sh.ifsFirst()), true}}}}, nil
			}
		}
	} else if len(w.Parts) == 1 {
		if pe, ok := w.Parts[0].(*syntax.ParamExp); ok {
			return sh.values(pe, ctx)
		}
	}
	frags, err := sh.plain(w.Parts, ctx)
	return values{elems: [][]frag{frags}}, err
}

// slice is ${x:offset:length}.
func (sh *Shell) slice(pe *syntax.ParamExp, s paramSource) (values, error) {
	var off, length int64
	var err error
	if pe.Slice.Offset != nil {
		if off, err = sh.arith(pe.Slice.Offset); err != nil {
			return values{}, err
		}
	}
	if pe.Slice.Length != nil {
		if length, err = sh.arith(pe.Slice.Length); err != nil {
			return values{}, err
		}
	}
	hasLength := pe.Slice.Length != nil
	if !s.list {
		rs := []rune(s.elem())
		lo, hi, ok := bounds(off, length, hasLength, int64(len(rs)))
		if !ok {
			return values{}, expandError{strconv.FormatInt(length, 10) + ": substring expression < 0"}
		}
		return one(string(rs[lo:hi])), nil
	}
	if hasLength && length < 0 {
		return values{}, expandError{strconv.FormatInt(length, 10) + ": substring expression < 0"}
	}
	elems := s.elems
	if s.base == "@" || s.base == "*" {
		elems = append([]string{sh.name0()}, s.elems...)
		if off < 0 {
			off += int64(len(elems))
			if off < 0 {
				off = int64(len(elems))
			}
		}
	} else if s.v != nil && s.v.Kind == indexed {
		if off < 0 {
			off += int64(s.v.next())
			if off < 0 {
				off = int64(s.v.next())
			}
		}
		off = int64(sort.SearchInts(s.v.Keys, int(off)))
	} else if s.v != nil && s.v.Kind == assoc && off > 0 {
		off--
	}
	lo, hi, _ := bounds(off, length, hasLength, int64(len(elems)))
	s.elems = elems[lo:hi]
	return s.values(), nil
}

// bounds turns an offset and a length into a range of n elements; ok is false when a negative length ends before the start.
func bounds(off, length int64, hasLength bool, n int64) (lo, hi int64, ok bool) {
	if off < 0 {
		off += n
	}
	if off < 0 || off > n {
		return n, n, true
	}
	hi = n
	if hasLength {
		if length < 0 {
			hi = n + length
			if hi < off {
				return 0, 0, false
			}
		} else if length < n-off {
			hi = off + length
		}
	}
	return off, hi, true
}

// replace is ${x/pattern/with}.
func (sh *Shell) replace(r *syntax.Replace, s paramSource) (values, error) {
	var parts []syntax.WordPart
	if r.Orig != nil {
		parts = r.Orig.Parts
	}
	frags, err := sh.plain(parts, inWord)
	if err != nil {
		return values{}, err
	}
	anchor := byte(0)
	if !r.All && len(frags) > 0 && !frags[0].quoted && frags[0].text != "" && (frags[0].text[0] == '#' || frags[0].text[0] == '%') {
		anchor = frags[0].text[0]
		frags[0].text = frags[0].text[1:]
	}
	pat := globText(frags)
	var with []frag
	if r.With != nil {
		if with, err = sh.plain(r.With.Parts, inWord); err != nil {
			return values{}, err
		}
	}
	if pat == "" && anchor == 0 {
		return s.values(), nil
	}
	expr, err := globRegexp(pat, 0, sh.shopt["nocasematch"])
	if err != nil {
		return s.values(), nil
	}
	switch anchor {
	case '#':
		expr = "^(?:" + expr + ")"
	case '%':
		expr = "(?:" + expr + ")$"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return s.values(), nil
	}
	re.Longest()
	n := 1
	if r.All {
		n = -1
	}
	plainWith := join(with)
	amp := sh.shopt["patsub_replacement"] && strings.Contains(plainWith, "&")
	size := 0
	out := s.mapped(func(e string) string {
		var b strings.Builder
		last := 0
		for _, loc := range re.FindAllStringIndex(e, n) {
			if pat != "" && loc[0] == loc[1] && anchor == 0 {
				continue
			}
			b.WriteString(e[last:loc[0]])
			if !amp {
				b.WriteString(plainWith)
			} else {
				for _, f := range with {
					if f.quoted {
						b.WriteString(f.text)
					} else {
						b.WriteString(strings.ReplaceAll(f.text, "&", e[loc[0]:loc[1]]))
					}
				}
			}
			last = loc[1]
			if size += b.Len(); b.Len() > maxValue {
				return b.String()
			}
		}
		b.WriteString(e[last:])
		return b.String()
	})
	for _, e := range out.elems {
		if len(join(e)) > maxValue {
			return values{}, sh.outOfMemory(len(join(e)))
		}
	}
	return out, nil
}

// transform is removal of a pattern, change of case, and the @ operators.
func (sh *Shell) transform(pe *syntax.ParamExp, s paramSource) (values, error) {
	switch op := pe.Exp.Op; op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		pat, err := sh.patternOf(pe.Exp.Word)
		if err != nil {
			return values{}, err
		}
		suffix := op == syntax.RemSmallSuffix || op == syntax.RemLargeSuffix
		shortest := op == syntax.RemSmallSuffix || op == syntax.RemSmallPrefix
		cut, err := remover(pat, suffix, shortest)
		if err != nil {
			return s.values(), nil
		}
		return s.mapped(cut), nil
	case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		pat, err := sh.patternOf(pe.Exp.Word)
		if err != nil {
			return values{}, err
		}
		if pat == "" {
			pat = "?"
		}
		match, err := compileGlob(pat, false)
		if err != nil {
			return s.values(), nil
		}
		change := unicode.ToLower
		if op == syntax.UpperFirst || op == syntax.UpperAll {
			change = unicode.ToUpper
		}
		all := op == syntax.UpperAll || op == syntax.LowerAll
		return s.mapped(func(e string) string {
			rs := []rune(e)
			for i, r := range rs {
				if match(string(r)) {
					rs[i] = change(r)
				}
				if !all {
					break
				}
			}
			return string(rs)
		}), nil
	case syntax.OtherParamOps:
		return sh.atOperator(pe.Exp.Word.Lit(), s)
	}
	return values{}, expandError{sh.textOf(pe) + ": bad substitution"}
}

func (sh *Shell) atOperator(op string, s paramSource) (values, error) {
	if !s.set && !(s.v != nil && (op == "a" || op == "A")) {
		return s.values(), nil
	}
	switch op {
	case "Q":
		return s.mapped(singleQuote), nil
	case "E":
		return s.mapped(func(e string) string { r, _ := unescape(e, ansiC); return r }), nil
	case "P":
		return s.mapped(sh.prompt), nil
	case "U":
		return s.mapped(strings.ToUpper), nil
	case "L":
		return s.mapped(strings.ToLower), nil
	case "u":
		return s.mapped(func(e string) string {
			r, n := utf8.DecodeRuneInString(e)
			if n == 0 {
				return e
			}
			return string(unicode.ToUpper(r)) + e[n:]
		}), nil
	case "a":
		if s.v == nil {
			return one(""), nil
		}
		return one(s.v.flags()), nil
	case "A":
		if s.v == nil {
			return one(s.base + "=" + singleQuote(s.elem())), nil
		}
		if s.v.Kind == scalar {
			if f := s.v.flags(); f != "" {
				return one("declare -" + f + " " + s.base + "=" + singleQuote(s.elem())), nil
			}
			return one(s.base + "=" + singleQuote(s.elem())), nil
		}
		return one(s.v.declaration(s.base)), nil
	case "K", "k":
		if s.v == nil || s.v.Kind == scalar {
			return s.mapped(singleQuote), nil
		}
		keys, vals := s.v.subscripts(), s.v.elements()
		if op == "k" {
			out := values{list: true}
			for i := range keys {
				out.elems = append(out.elems, []frag{{text: keys[i]}}, []frag{{text: vals[i]}})
			}
			return out, nil
		}
		var b []string
		for i := range keys {
			b = append(b, quoteSubscript(keys[i])+" "+doubleQuote(vals[i]))
		}
		return one(strings.Join(b, " ")), nil
	}
	return values{}, expandError{"${" + s.base + "@" + op + "}: bad substitution"}
}

// remover returns the function that removes a pattern from the start or the end of a string.
func remover(pat string, suffix, shortest bool) (func(string) string, error) {
	if !pattern.HasMeta(pat, 0) && !strings.ContainsAny(pat, `\(`) {
		if suffix {
			return func(s string) string { return strings.TrimSuffix(s, pat) }, nil
		}
		return func(s string) string { return strings.TrimPrefix(s, pat) }, nil
	}
	mode := pattern.Mode(0)
	if shortest {
		mode = pattern.Shortest
	}
	expr, err := globRegexp(pat, mode, false)
	if err != nil {
		return nil, err
	}
	switch {
	case suffix && shortest:
		expr = "^((?s:.*))(?:" + expr + ")$"
	case suffix:
		expr = "(?:" + expr + ")$"
	default:
		expr = "^(?:" + expr + ")"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	if !shortest {
		re.Longest()
	}
	return func(s string) string {
		m := re.FindStringSubmatchIndex(s)
		switch {
		case m == nil:
			return s
		case suffix && shortest:
			return s[:m[3]]
		case suffix:
			return s[:m[0]]
		}
		return s[m[1]:]
	}, nil
}
