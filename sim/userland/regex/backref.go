package regex

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A back-reference is not regular, so that Go's engine lacks it. In translated expressions it stands as a character of a
// private plane, and expressions that have one are matched by backtracking, within a bounded number of steps.
const backReference = 0xF0000

// maxSteps bounds one search. An expression that needs more is taken not to match.
const maxSteps = 2_000_000

func hasBackReference(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > backReference && r <= backReference+9 })
}

// Renumber adds n to the back-references of a translated expression, for who puts groups before its own.
func Renumber(text string, n int) string {
	return strings.Map(func(r rune) rune {
		if r > backReference && r <= backReference+9 {
			return r + rune(n)
		}
		return r
	}, text)
}

// backtracker matches an expression with back-references: the leftmost match, with greedy repetitions.
type backtracker struct {
	re     *syntax.Regexp
	groups int
}

func newBacktracker(text string) (*backtracker, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return &backtracker{re, re.MaxCap()}, nil
}

// search is one search in one text.
type search struct {
	s     string
	caps  []int
	steps int
}

// find returns the positions of the leftmost match at or after from, as FindStringSubmatchIndex does.
func (b *backtracker) find(s string, from int) []int {
	for start := from; start <= len(s); {
		m := &search{s: s, caps: make([]int, 2*(b.groups+1))}
		for i := range m.caps {
			m.caps[i] = -1
		}
		end := -1
		if m.match(b.re, start, func(i int) bool { end = i; return true }) {
			m.caps[0], m.caps[1] = start, end
			return m.caps
		}
		if m.steps > maxSteps {
			return nil
		}
		_, n := utf8.DecodeRuneInString(s[start:])
		start += max(n, 1)
	}
	return nil
}

func sameRune(a, b rune, fold bool) bool {
	if a == b {
		return true
	}
	return fold && unicode.ToLower(a) == unicode.ToLower(b)
}

// match calls next with every end of a match of re at i, in order of preference, until next is content.
func (m *search) match(re *syntax.Regexp, i int, next func(int) bool) bool {
	if m.steps++; m.steps > maxSteps {
		return false
	}
	fold := re.Flags&syntax.FoldCase != 0
	switch re.Op {
	case syntax.OpNoMatch:
		return false
	case syntax.OpEmptyMatch:
		return next(i)
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r > backReference && r <= backReference+9 {
				g := int(r - backReference)
				if 2*g+1 >= len(m.caps) || m.caps[2*g] < 0 {
					return false
				}
				text := m.s[m.caps[2*g]:m.caps[2*g+1]]
				if len(m.s)-i < len(text) || !(m.s[i:i+len(text)] == text || fold && strings.EqualFold(m.s[i:i+len(text)], text)) {
					return false
				}
				i += len(text)
				continue
			}
			c, n := utf8.DecodeRuneInString(m.s[i:])
			if n == 0 || !sameRune(c, r, fold) {
				return false
			}
			i += n
		}
		return next(i)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		c, n := utf8.DecodeRuneInString(m.s[i:])
		if n == 0 || re.Op == syntax.OpAnyCharNotNL && c == '\n' || re.Op == syntax.OpCharClass && !inClass(re.Rune, c) {
			return false
		}
		return next(i + n)
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return m.assert(re.Op, i) && next(i)
	case syntax.OpCapture:
		lo, hi := m.caps[2*re.Cap], m.caps[2*re.Cap+1]
		if m.match(re.Sub[0], i, func(j int) bool {
			a, b := m.caps[2*re.Cap], m.caps[2*re.Cap+1]
			m.caps[2*re.Cap], m.caps[2*re.Cap+1] = i, j
			if next(j) {
				return true
			}
			m.caps[2*re.Cap], m.caps[2*re.Cap+1] = a, b
			return false
		}) {
			return true
		}
		m.caps[2*re.Cap], m.caps[2*re.Cap+1] = lo, hi
		return false
	case syntax.OpConcat:
		return m.sequence(re.Sub, i, next)
	case syntax.OpAlternate:
		for _, s := range re.Sub {
			if m.match(s, i, next) {
				return true
			}
		}
		return false
	case syntax.OpStar:
		return m.repeat(re.Sub[0], 0, -1, i, next)
	case syntax.OpPlus:
		return m.repeat(re.Sub[0], 1, -1, i, next)
	case syntax.OpQuest:
		return m.repeat(re.Sub[0], 0, 1, i, next)
	case syntax.OpRepeat:
		return m.repeat(re.Sub[0], re.Min, re.Max, i, next)
	}
	return false
}

func (m *search) sequence(l []*syntax.Regexp, i int, next func(int) bool) bool {
	if len(l) == 0 {
		return next(i)
	}
	return m.match(l[0], i, func(j int) bool { return m.sequence(l[1:], j, next) })
}

func (m *search) repeat(re *syntax.Regexp, least, most, i int, next func(int) bool) bool {
	if most != 0 && m.match(re, i, func(j int) bool {
		if j == i && least <= 0 {
			return false // an empty round leads nowhere
		}
		return m.repeat(re, max(0, least-1), most-1, j, next)
	}) {
		return true
	}
	return least <= 0 && next(i)
}

func inClass(class []rune, c rune) bool {
	for i := 0; i+1 < len(class); i += 2 {
		if c >= class[i] && c <= class[i+1] {
			return true
		}
	}
	return false
}

func (m *search) assert(op syntax.Op, i int) bool {
	word := func(k int) bool {
		return k >= 0 && k < len(m.s) && (m.s[k] == '_' || m.s[k] >= '0' && m.s[k] <= '9' || m.s[k] >= 'a' && m.s[k] <= 'z' || m.s[k] >= 'A' && m.s[k] <= 'Z')
	}
	switch op {
	case syntax.OpBeginText:
		return i == 0
	case syntax.OpEndText:
		return i == len(m.s)
	case syntax.OpBeginLine:
		return i == 0 || m.s[i-1] == '\n'
	case syntax.OpEndLine:
		return i == len(m.s) || m.s[i] == '\n'
	case syntax.OpWordBoundary:
		return word(i-1) != word(i)
	}
	return word(i-1) == word(i)
}
