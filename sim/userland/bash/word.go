package bash

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// frag is a piece of an expanded word; what was quoted is neither split nor taken for a pattern.
type frag struct {
	text   string
	quoted bool
}

func join(fs []frag) string {
	switch len(fs) {
	case 0:
		return ""
	case 1:
		return fs[0].text
	}
	var b strings.Builder
	for _, f := range fs {
		b.WriteString(f.text)
	}
	return b.String()
}

// globText is a pattern in which what was quoted stands for itself.
func globText(fs []frag) string {
	var b strings.Builder
	for _, f := range fs {
		if f.quoted {
			b.WriteString(pattern.QuoteMeta(f.text, 0))
		} else {
			b.WriteString(f.text)
		}
	}
	return b.String()
}

// context says where a word part stands.
type context uint8

const (
	inWord    context = iota // nothing around it
	inQuotes                 // "..."
	inHeredoc                // the body of a here-document
)

// literal expands a word to one string: no splitting, no globbing.
func (sh *Shell) literal(w *syntax.Word) (string, error) {
	if w == nil {
		return "", nil
	}
	frags, err := sh.plain(w.Parts, inWord)
	return join(frags), err
}

// assignment expands the value of an assignment, in which a tilde may also follow a colon.
func (sh *Shell) assignment(w *syntax.Word) (string, error) {
	if w == nil {
		return "", nil
	}
	parts := w.Parts
	for i, part := range parts {
		l, ok := part.(*syntax.Lit)
		if !ok || !strings.Contains(l.Value, ":~") {
			continue
		}
		c := *l
		var b strings.Builder
		for j, piece := range strings.Split(l.Value, ":") {
			if j > 0 {
				b.WriteByte(':')
				piece = sh.tilde(piece)
			}
			b.WriteString(piece)
		}
		c.Value = b.String()
		parts = append(append(append([]syntax.WordPart(nil), parts[:i]...), &c), parts[i+1:]...)
	}
	frags, err := sh.plain(parts, inWord)
	s := join(frags)
	if err == nil && len(s) > maxValue {
		err = sh.outOfMemory(len(s))
	}
	return s, err
}

// patternOf expands a word to a pattern.
func (sh *Shell) patternOf(w *syntax.Word) (string, error) {
	if w == nil {
		return "", nil
	}
	frags, err := sh.plain(w.Parts, inWord)
	return globText(frags), err
}

// plain expands parts without splitting them.
func (sh *Shell) plain(parts []syntax.WordPart, ctx context) ([]frag, error) {
	var out []frag
	for i, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			out = append(out, sh.lit(part.Value, ctx, i == 0, len(parts) > 1)...)
		case *syntax.SglQuoted:
			out = append(out, frag{singleQuoted(part), true})
		case *syntax.DblQuoted:
			inner, err := sh.plain(part.Parts, inQuotes)
			if err != nil {
				return nil, err
			}
			out = append(out, frag{join(inner), true})
		default:
			vals, err := sh.values(part, ctx)
			if err != nil {
				return nil, err
			}
			sep := " "
			if vals.star {
				sep = sh.ifsFirst()
			}
			for j, v := range vals.elems {
				if j > 0 {
					out = append(out, frag{sep, ctx != inWord})
				}
				for _, f := range v {
					out = append(out, frag{f.text, f.quoted || ctx != inWord})
				}
			}
		}
	}
	return out, nil
}

func singleQuoted(q *syntax.SglQuoted) string {
	if !q.Dollar {
		return q.Value
	}
	s, _ := unescape(q.Value, ansiC)
	return s
}

// lit is literal text: outside of quotes a backslash quotes the next character, inside only some.
func (sh *Shell) lit(s string, ctx context, first, more bool) []frag {
	if first && ctx == inWord && strings.HasPrefix(s, "~") {
		if slash := strings.IndexByte(s, '/'); slash >= 0 || !more {
			if slash < 0 {
				slash = len(s)
			}
			if t := sh.tilde(s[:slash]); t != s[:slash] {
				return append([]frag{{t, true}}, sh.lit(s[slash:], ctx, false, more)...)
			}
		}
	}
	if strings.IndexByte(s, '\\') < 0 {
		if s == "" {
			return nil
		}
		return []frag{{s, ctx != inWord}}
	}
	if ctx != inWord {
		var b strings.Builder
		for i := 0; i < len(s); i++ {
			if s[i] == '\\' && i+1 < len(s) {
				switch c := s[i+1]; {
				case c == '\n':
					i++
					continue
				case c == '\\' || c == '$' || c == '`' || c == '"' && ctx == inQuotes:
					i++
				}
			}
			b.WriteByte(s[i])
		}
		return []frag{{b.String(), true}}
	}
	var out []frag
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i == len(s)-1 {
			if s != "" {
				out = append(out, frag{s, false})
			}
			return out
		}
		if i > 0 {
			out = append(out, frag{s[:i], false})
		}
		_, n := utf8.DecodeRuneInString(s[i+1:])
		if s[i+1] != '\n' {
			out = append(out, frag{s[i+1 : i+1+n], true})
		}
		s = s[i+1+n:]
	}
}

// tilde expands ~, ~user, ~+ and ~- at the start of s, up to its first slash.
func (sh *Shell) tilde(s string) string {
	if !strings.HasPrefix(s, "~") {
		return s
	}
	name, rest := s[1:], ""
	if i := strings.IndexByte(s, '/'); i >= 0 {
		name, rest = s[1:i], s[i:]
	}
	switch name {
	case "":
		if home, ok := sh.param("HOME"); ok {
			return home + rest
		}
		if u, ok := sh.user(""); ok {
			return u.Home + rest
		}
		return s
	case "+":
		return sh.getStr("PWD") + rest
	case "-":
		if old, ok := sh.param("OLDPWD"); ok {
			return old + rest
		}
		return s
	}
	if u, ok := sh.user(name); ok {
		return u.Home + rest
	}
	return s
}

func (sh *Shell) ifs() string {
	if v := sh.get("IFS"); v != nil && v.Set {
		return v.Str
	}
	return " \t\n"
}

func (sh *Shell) ifsFirst() string {
	s := sh.ifs()
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

// splitter collects the fields that a word becomes.
type splitter struct {
	ifs     string
	out     [][]frag
	cur     []frag
	has     bool // the current field exists even if it is empty
	afterWS bool // the last field was ended by white space of IFS, so a separator may still belong to it
}

func (s *splitter) add(f frag) {
	if f.text == "" && !f.quoted {
		return
	}
	s.cur = append(s.cur, f)
	s.has, s.afterWS = true, false
}

func (s *splitter) flush() {
	s.out = append(s.out, s.cur)
	s.cur, s.has = nil, false
}

// split adds unquoted text, which IFS divides.
func (s *splitter) split(text string) {
	start := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !strings.ContainsRune(s.ifs, r) {
			i += n
			continue
		}
		if start < i {
			s.add(frag{text[start:i], false})
		}
		if r == ' ' || r == '\t' || r == '\n' {
			if s.has {
				s.flush()
				s.afterWS = true
			}
		} else if s.afterWS {
			s.afterWS = false
		} else {
			s.flush()
		}
		i += n
		start = i
	}
	if start < len(text) {
		s.add(frag{text[start:], false})
	}
}

// word adds the parts of one word.
func (sh *Shell) word(s *splitter, parts []syntax.WordPart) error {
	for i, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			for _, f := range sh.lit(part.Value, inWord, i == 0, len(parts) > 1) {
				s.add(f)
			}
		case *syntax.SglQuoted:
			s.add(frag{singleQuoted(part), true})
		case *syntax.DblQuoted:
			if err := sh.quotedWord(s, part.Parts); err != nil {
				return err
			}
		default:
			vals, err := sh.values(part, inWord)
			if err != nil {
				return err
			}
			for j, v := range vals.elems {
				if j > 0 && (s.has || len(s.cur) > 0) {
					s.flush()
				}
				for _, f := range v {
					if f.quoted {
						s.add(f)
					} else {
						s.split(f.text)
					}
				}
			}
		}
	}
	return nil
}

// quotedWord adds what stands in double quotes; "$@" becomes several fields, or none.
func (sh *Shell) quotedWord(s *splitter, parts []syntax.WordPart) error {
	if len(parts) == 0 {
		s.add(frag{"", true})
		return nil
	}
	for _, part := range parts {
		if l, ok := part.(*syntax.Lit); ok {
			for _, f := range sh.lit(l.Value, inQuotes, false, true) {
				s.add(f)
			}
			continue
		}
		vals, err := sh.values(part, inQuotes)
		if err != nil {
			return err
		}
		if vals.list && !vals.star {
			if len(vals.elems) == 0 && len(parts) > 1 {
				s.add(frag{"", true})
			}
			for j, v := range vals.elems {
				if j > 0 {
					s.flush()
				}
				s.add(frag{join(v), true})
			}
			continue
		}
		var text []string
		for _, v := range vals.elems {
			text = append(text, join(v))
		}
		s.add(frag{strings.Join(text, sh.ifsFirst()), true})
	}
	return nil
}

// fields expands words to the fields of a command: braces, tilde, parameters, commands, arithmetic, splitting, globbing.
func (sh *Shell) fields(words []*syntax.Word) ([]string, error) {
	var out []string
	expandOne := func(w *syntax.Word) error {
		s := &splitter{ifs: sh.ifs()}
		if err := sh.word(s, w.Parts); err != nil {
			return err
		}
		if s.has {
			s.flush()
		}
		for _, f := range s.out {
			if matches, ok, err := sh.globField(f); err != nil {
				return err
			} else if ok {
				out = append(out, matches...)
			} else {
				out = append(out, join(f))
			}
		}
		if len(out) > maxElements {
			return sh.outOfMemory(len(out))
		}
		return nil
	}
	for _, w := range words {
		if w == nil {
			continue
		}
		if sh.style == bashStyle && sh.opt['B'] && mayHaveBraces(w) {
			c := *w
			if syntax.SplitBraces(&c) {
				for b, err := range expand.BracesSeq(nil, &c) {
					if err == nil {
						err = expandOne(b)
					}
					if err != nil {
						return nil, err
					}
				}
				continue
			}
		}
		if err := expandOne(w); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func mayHaveBraces(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.Contains(l.Value, "{") {
			return true
		}
	}
	return false
}

// values are what an expansion gives: one string, or the elements of a list.
type values struct {
	elems      [][]frag
	list, star bool
}

func one(s string) values { return values{elems: [][]frag{{{text: s}}}} }

func (sh *Shell) values(part syntax.WordPart, ctx context) (values, error) {
	switch part := part.(type) {
	case *syntax.ParamExp:
		return sh.paramExp(part, ctx)
	case *syntax.CmdSubst:
		s, err := sh.cmdSubst(part)
		return one(s), err
	case *syntax.ArithmExp:
		n, err := sh.arith(part.X)
		return one(strconv.FormatInt(n, 10)), err
	case *syntax.ProcSubst:
		s, err := sh.procSubst(part)
		return values{elems: [][]frag{{{s, true}}}}, err
	case *syntax.ExtGlob:
		return one(part.Op.String() + part.Pattern.Value + ")"), nil
	case *syntax.Lit:
		return values{elems: [][]frag{sh.lit(part.Value, ctx, false, true)}}, nil
	case *syntax.SglQuoted:
		return values{elems: [][]frag{{{singleQuoted(part), true}}}}, nil
	case *syntax.DblQuoted:
		inner, err := sh.plain(part.Parts, inQuotes)
		return values{elems: [][]frag{{{join(inner), true}}}}, err
	}
	return values{}, fmt.Errorf("ckadrill does not simulate the word part %T", part)
}
