package libc

import (
	"regexp"
	"strings"
)

// Glob is a pattern of fnmatch(3) without FNM_PATHNAME: * and ? match slashes and leading dots too.
type Glob struct{ re *regexp.Regexp }

// NewGlob compiles a pattern. One that is malformed matches itself alone.
func NewGlob(pattern string, fold bool) Glob {
	var b strings.Builder
	b.WriteString("(?s")
	if fold {
		b.WriteByte('i')
	}
	b.WriteString(")^")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '\\':
			if i++; i < len(pattern) {
				b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			}
		case '[':
			end := i + 1
			if end < len(pattern) && (pattern[end] == '!' || pattern[end] == '^') {
				end++
			}
			if end < len(pattern) && pattern[end] == ']' {
				end++
			}
			for end < len(pattern) && pattern[end] != ']' {
				if strings.HasPrefix(pattern[end:], "[:") {
					if k := strings.Index(pattern[end:], ":]"); k > 0 {
						end += k + 1
					}
				}
				end++
			}
			if end >= len(pattern) {
				b.WriteString(`\[`)
				continue
			}
			inner := pattern[i+1 : end]
			if inner[0] == '!' {
				inner = "^" + inner[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(inner, `\`, `\\`) + "]")
			i = end
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteByte('$')
	re, err := regexp.Compile(b.String())
	if err != nil {
		re = regexp.MustCompile("^" + regexp.QuoteMeta(pattern) + "$")
	}
	return Glob{re}
}

// Match says whether the whole of s matches.
func (g Glob) Match(s string) bool { return g.re.MatchString(s) }
