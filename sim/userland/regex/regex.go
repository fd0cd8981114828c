// Package regex compiles POSIX basic and extended regular expressions, with GNU's additions, for Go's engine: leftmost
// longest, in linear time. Expressions with back-references, which are not regular, are matched by backtracking.
package regex

import (
	"fmt"
	"regexp"
	"strings"
)

// Flags says how an expression is read.
type Flags struct {
	Extended  bool // ERE, else BRE
	Perl      bool // grep -P: as far as Go's syntax goes
	Fold      bool // ignore case
	Literal   bool // grep -F
	MultiLine bool // ^ and $ match at newlines inside the text
}

// Regexp is a compiled expression.
type Regexp struct {
	re   *regexp.Regexp
	back *backtracker // for expressions with back-references
	// Group is the number of the group that is the match proper: 0, or 1 where Perl's \K or a look-around cut the rest off.
	Group int
}

// Compile compiles an expression. Errors read as glibc's regcomp(3) words them, without a program's name.
func Compile(expr string, f Flags) (*Regexp, error) {
	var text string
	group := 0
	switch {
	case f.Literal:
		text = regexp.QuoteMeta(expr)
	case f.Perl:
		var err error
		if text, group, err = perl(expr); err != nil {
			return nil, err
		}
	default:
		var err error
		if text, err = Translate(expr, f.Extended); err != nil {
			return nil, err
		}
	}
	mode := "s"
	if f.Perl {
		mode = ""
	}
	if f.Fold {
		mode += "i"
	}
	if f.MultiLine {
		mode += "m"
	}
	if mode != "" {
		text = "(?" + mode + ")" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, message(err)
	}
	if !f.Perl {
		re.Longest()
	}
	r := &Regexp{re: re, Group: group}
	if hasBackReference(text) {
		if r.back, err = newBacktracker(text); err != nil {
			return nil, message(err)
		}
		for _, c := range text {
			if n := int(c - backReference); n >= 1 && n <= 9 && n > re.NumSubexp() {
				return nil, fmt.Errorf("Invalid back reference")
			}
		}
	}
	return r, nil
}

// String is the expression in Go's syntax, with its flags, as [Flags].Perl takes it.
func (r *Regexp) String() string { return r.re.String() }

// NumSubexp is the number of groups.
func (r *Regexp) NumSubexp() int { return r.re.NumSubexp() }

// Longest makes a Perl expression prefer longer matches.
func (r *Regexp) Longest() { r.re.Longest() }

// MatchString says whether s has a match.
func (r *Regexp) MatchString(s string) bool {
	if r.back != nil {
		return r.back.find(s, 0) != nil
	}
	return r.re.MatchString(s)
}

// FindStringSubmatch is the leftmost match with its groups.
func (r *Regexp) FindStringSubmatch(s string) []string {
	if r.back == nil {
		return r.re.FindStringSubmatch(s)
	}
	m := r.back.find(s, 0)
	if m == nil {
		return nil
	}
	l := make([]string, len(m)/2)
	for i := range l {
		if m[2*i] >= 0 {
			l[i] = s[m[2*i]:m[2*i+1]]
		}
	}
	return l
}

// FindAllStringSubmatchIndex lists at most n matches (all for -1) that do not overlap.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	if r.back == nil {
		return r.re.FindAllStringSubmatchIndex(s, n)
	}
	var l [][]int
	last := -1
	for at := 0; at <= len(s) && n != len(l); {
		m := r.back.find(s, at)
		if m == nil {
			break
		}
		if m[1] > m[0] || m[0] != last { // no empty match right behind another
			l = append(l, m)
		}
		last = m[1]
		if at = m[1]; m[1] == m[0] {
			at++
		}
	}
	return l
}

// Match is the match proper at or after start, nil if there is none; its groups follow as in FindSubmatchIndex.
func (r *Regexp) Match(s []byte) []int {
	var m []int
	if r.back != nil {
		m = r.back.find(string(s), 0)
	} else {
		m = r.re.FindSubmatchIndex(s)
	}
	if m != nil && r.Group > 0 {
		return m[2*r.Group:]
	}
	return m
}

func message(err error) error {
	s := err.Error()
	switch {
	case strings.Contains(s, "missing closing ]"):
		return fmt.Errorf("Unmatched [, [^, [:, [., or [=")
	case strings.Contains(s, "missing closing )"):
		return fmt.Errorf("Unmatched ( or \\(")
	case strings.Contains(s, "unexpected )"):
		return fmt.Errorf("Unmatched ) or \\)")
	case strings.Contains(s, "invalid character class range"):
		return fmt.Errorf("Invalid range end")
	case strings.Contains(s, "invalid repeat count"):
		return fmt.Errorf("Regular expression too big")
	case strings.Contains(s, "missing argument to repetition"):
		return fmt.Errorf("Invalid preceding regular expression")
	case strings.Contains(s, "trailing backslash"):
		return fmt.Errorf("Trailing backslash")
	}
	return fmt.Errorf("Invalid regular expression")
}

// Translate rewrites a POSIX expression in Go's syntax.
func Translate(s string, extended bool) (string, error) {
	var b strings.Builder
	start := true // at the start of an expression, where * and ^ differ
	depth := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			i++
			if i >= len(s) {
				return "", fmt.Errorf("Trailing backslash")
			}
			c = s[i]
			switch {
			case !extended && c == '(':
				b.WriteByte('(')
				depth++
				start = true
				continue
			case !extended && c == ')':
				if depth == 0 {
					return "", fmt.Errorf("Unmatched ) or \\)")
				}
				depth--
				b.WriteByte(')')
			case !extended && c == '|':
				b.WriteByte('|')
				start = true
				continue
			case !extended && (c == '+' || c == '?'):
				if start {
					b.WriteString(`\` + string(c))
				} else {
					b.WriteByte(c)
				}
			case !extended && c == '{':
				n, err := interval(s[i:], `\}`)
				if err != nil {
					return "", err
				}
				b.WriteString(strings.TrimSuffix(s[i:i+n], `\}`) + "}")
				i += n - 1
			case c >= '1' && c <= '9':
				b.WriteRune(backReference + rune(c-'0'))
			case c == 'n':
				b.WriteString(`\n`)
			case c == 't':
				b.WriteString(`\t`)
			case c == '<' || c == '>' || c == 'b':
				b.WriteString(`\b`)
			case strings.IndexByte("wWsSB", c) >= 0:
				b.WriteString(`\` + string(c))
			case c == '`':
				b.WriteString(`\A`)
			case c == '\'':
				b.WriteString(`\z`)
			case c == 'd' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
				b.WriteByte(c)
			default:
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		case c == '[':
			text, n, err := bracket(s[i:])
			if err != nil {
				return "", err
			}
			b.WriteString(text)
			i += n - 1
		case c == '*':
			if start {
				b.WriteString(`\*`)
			} else if strings.HasSuffix(b.String(), "*") && !strings.HasSuffix(b.String(), `\*`) {
				// a** is a*
			} else {
				b.WriteByte('*')
			}
		case c == '^':
			if extended || start {
				b.WriteByte('^')
				if !extended {
					continue // still at the start
				}
			} else {
				b.WriteString(`\^`)
			}
		case c == '$':
			rest := s[i+1:]
			if extended || rest == "" || strings.HasPrefix(rest, `\)`) || strings.HasPrefix(rest, `\|`) {
				b.WriteByte('$')
			} else {
				b.WriteString(`\$`)
			}
		case extended && c == '(':
			b.WriteByte('(')
			depth++
			start = true
			continue
		case extended && c == ')':
			if depth == 0 {
				b.WriteString(`\)`)
				break
			}
			depth--
			b.WriteByte(')')
		case extended && c == '|':
			b.WriteByte('|')
			start = true
			continue
		case extended && (c == '+' || c == '?'):
			if start {
				b.WriteString(`\` + string(c))
			} else if last := b.String(); strings.HasSuffix(last, string(c)) || strings.HasSuffix(last, "*") || strings.HasSuffix(last, "+") || strings.HasSuffix(last, "?") || strings.HasSuffix(last, "}") {
				// a second repetition would be Go's lazy one
				text := b.String()
				b.Reset()
				b.WriteString(wrapLast(text) + string(c))
			} else {
				b.WriteByte(c)
			}
		case extended && c == '{':
			if n, err := interval(s[i:], "}"); err == nil && !start {
				b.WriteString(s[i : i+n])
				i += n - 1
			} else {
				b.WriteString(`\{`)
			}
		case strings.IndexByte(`+?{}|()`, c) >= 0:
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
		start = false
	}
	if depth > 0 {
		return "", fmt.Errorf("Unmatched ( or \\(")
	}
	return b.String(), nil
}

// wrapLast puts the last repeated atom into a group of its own. Only the simple case of one character or group matters.
func wrapLast(s string) string {
	return "(?:" + s + ")"
}

// interval checks {m,n} at the start of s and returns its length.
func interval(s, end string) (int, error) {
	i := strings.Index(s, end)
	if i < 0 {
		return 0, fmt.Errorf("Unmatched { or \\{")
	}
	inner := s[1:i]
	lo, hi, comma := strings.Cut(inner, ",")
	digits := func(t string) bool { return strings.Trim(t, "0123456789") == "" }
	if !digits(lo) || comma && !digits(hi) || lo == "" && !comma || lo == "" && hi == "" {
		return 0, fmt.Errorf("Invalid content of \\{\\}")
	}
	if lo == "" {
		return 0, fmt.Errorf("Invalid preceding regular expression")
	}
	return i + len(end), nil
}

// bracket translates a bracket expression and returns its length in s.
func bracket(s string) (string, int, error) {
	i := 1
	var b strings.Builder
	b.WriteByte('[')
	if i < len(s) && s[i] == '^' {
		b.WriteByte('^')
		i++
	}
	first := true
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == ']' && !first:
			b.WriteByte(']')
			return b.String(), i + 1, nil
		case c == '[' && i+1 < len(s) && strings.IndexByte(":.=", s[i+1]) >= 0:
			end := strings.Index(s[i+2:], string(s[i+1])+"]")
			if end < 0 {
				return "", 0, fmt.Errorf("Unmatched [, [^, [:, [., or [=")
			}
			name := s[i+2 : i+2+end]
			if s[i+1] == ':' {
				switch name {
				case "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph", "cntrl", "xdigit":
				default:
					return "", 0, fmt.Errorf("Invalid character class name")
				}
				b.WriteString("[:" + name + ":]")
			} else {
				b.WriteString(regexp.QuoteMeta(name))
			}
			i += end + 3
		case c == '\\' || c == '[' || c == ']' || c == '&' || c == '~' || c == '^':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '-' && (first || i+1 < len(s) && s[i+1] == ']'):
			b.WriteString(`\-`)
		default:
			b.WriteByte(c)
		}
		first = false
	}
	return "", 0, fmt.Errorf("Unmatched [, [^, [:, [., or [=")
}

// perl handles what Go lacks of Perl's syntax where it can: \K, a look-behind at the start, a look-ahead at the end.
func perl(s string) (string, int, error) {
	if i := strings.Index(s, `\K`); i >= 0 {
		return "(?:" + s[:i] + ")(" + s[i+2:] + ")", 1, nil
	}
	before, after, body := "", "", s
	if strings.HasPrefix(body, "(?<=") {
		end := closing(body)
		if end > 0 {
			before, body = "(?:"+body[4:end]+")", body[end+1:]
		}
	}
	if i := strings.LastIndex(body, "(?="); i >= 0 && closing(body[i:]) == len(body)-i-1 {
		after, body = "(?:"+body[i+3:len(body)-1]+")", body[:i]
	}
	if strings.Contains(body, "(?=") || strings.Contains(body, "(?!") || strings.Contains(body, "(?<!") || strings.Contains(body, "(?<=") {
		return "", 0, fmt.Errorf("ckadrill does not simulate this look-around of Perl's regular expressions")
	}
	if before+after == "" {
		return body, 0, nil
	}
	return before + "(" + body + ")" + after, 1, nil
}

// closing is the position of the parenthesis that closes the one at the start of s.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
