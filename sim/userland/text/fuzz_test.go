package text

import (
	"testing"

	"github.com/benhoyt/goawk/parser"
)

// FuzzSed parses scripts as somebody may type them.
func FuzzSed(f *testing.F) {
	for _, s := range []string{"s/a/b/g", "/x/,+2{d;p}", "$!N;P;D", "y/abc/xyz/", ":a;ta", "2i\\\nfoo", "1~2p", "s|x|y|3ge", "0,/a/Id", "}", "a\\", "s/\\(/"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, extended bool) {
		if len(s) < 500 {
			parseSed(s, extended)
		}
	})
}

// FuzzRewriteAwk rewrites programs; what is no program must not become one, nor the other way round.
func FuzzRewriteAwk(f *testing.F) {
	for _, s := range []string{`{print $1 > "f"}`, `{printf("%s\n", $1) | "sort"}`, `BEGIN{system("x");close("y")}`, `{print (a)(b), c >> f(1)}`, `/a/{print}`, `{print a>b?c:d}`} {
		f.Add(s)
	}
	functions := (&awkOutputs{}).functions()
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 500 {
			return
		}
		if _, err := parser.ParseProgram([]byte(s), nil); err != nil {
			rewriteAwk(s)
			return
		}
		if out := rewriteAwk(s); out != s {
			if _, err := parser.ParseProgram([]byte(out), &parser.ParserConfig{Funcs: functions}); err != nil {
				t.Errorf("%q became %q: %v", s, out, err)
			}
		}
	})
}
