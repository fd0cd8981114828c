package regex

import "testing"

// FuzzCompile compiles and matches what somebody may type; nothing may panic or run away.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{`a*b\(c\|d\)\{1,3\}`, `^(a|b)+\1$`, `[[:alpha:]_-]`, `\<x\>`, `(?<=a)b\K`, `a**`, `[`, `\`, `(()*)*\1`, `x{2,1}`} {
		f.Add(s, "abcabc", true)
		f.Add(s, "aa\nbb", false)
	}
	f.Fuzz(func(t *testing.T, expr, text string, extended bool) {
		if len(expr) > 200 || len(text) > 200 {
			return
		}
		for _, fl := range []Flags{{Extended: extended}, {Perl: true}, {Literal: true, Fold: true}} {
			re, err := Compile(expr, fl)
			if err != nil {
				continue
			}
			for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
				if len(m) != 2*(re.NumSubexp()+1) || m[0] < 0 || m[1] > len(text) || m[0] > m[1] {
					t.Errorf("%q in %q: %v", expr, text, m)
				}
			}
			re.Match([]byte(text))
		}
	})
}

func TestBackReferences(t *testing.T) {
	for _, c := range []struct {
		expr, text string
		extended   bool
		want       string
	}{
		{`\(.\)\1`, "abccd", false, "cc"}, {`(a+)b\1`, "aabaa", true, "aabaa"}, {`^(.*)\n?\1$`, "xx", true, "xx"}, {`(a)(b)?\2c`, "ac", true, ""}, {`(x|y)\1`, "xyyx", true, "yy"},
	} {
		re, err := Compile(c.expr, Flags{Extended: c.extended})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		got := ""
		if m := re.FindStringSubmatch(c.text); m != nil {
			got = m[0]
		}
		if got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.expr, c.text, got, c.want)
		}
	}
	if _, err := Compile(`(a)\2`, Flags{Extended: true}); err == nil || err.Error() != "Invalid back reference" {
		t.Errorf("%v", err)
	}
}
