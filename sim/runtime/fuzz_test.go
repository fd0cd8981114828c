package runtime

import (
	"strings"
	"testing"

	"ckadrill/sim/runtime/registry"
)

// What is typed comes out line by line, and no control character but the line's end.
func FuzzTerminal(f *testing.F) {
	f.Add("ls\r\n\x7f\x7fa\x03b\x04")
	f.Add("\x04")
	f.Fuzz(func(t *testing.T, keys string) {
		if len(keys) > 1<<10 {
			return
		}
		in := newPipe()
		var out strings.Builder
		term := newTerminal(in, &out, nil)
		term.feed(strings.NewReader(keys))
		for range len(keys) + 1 {
			line, err := term.ReadLine("", nil)
			if err != nil {
				return
			}
			if strings.ContainsAny(line, "\n\x03\x04\x7f") {
				t.Errorf("line %q of %q", line, keys)
			}
		}
	})
}

func FuzzReference(f *testing.F) {
	f.Add("nginx:1.27")
	f.Add("a@sha256:b")
	f.Fuzz(func(t *testing.T, name string) {
		r, err := registry.Parse(name)
		if err != nil {
			return
		}
		if again, err := registry.Parse(r.String()); err != nil || again != r {
			t.Errorf("%q is %s, and that %s (%v)", name, r, again, err)
		}
	})
}
