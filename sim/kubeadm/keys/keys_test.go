package keys

import (
	"testing"
	"testing/synctest"

	"ckadrill/sim/kernel"
)

func TestPresetKeysDiffer(t *testing.T) {
	if n := len(blocks()); n <= Assigned {
		t.Fatalf("only %d preset keys", n)
	}
	seen := map[string]int{}
	for i := range blocks() {
		k := parse(i)
		if k.N.BitLen() != 2048 {
			t.Errorf("key %d has %d bits", i, k.N.BitLen())
		}
		if j, ok := seen[k.N.String()]; ok {
			t.Errorf("keys %d and %d are the same", i, j)
		}
		seen[k.N.String()] = i
	}
}

func TestKeysComeFromTheSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draw := func(seed uint64) (r, e, s string) {
			w := kernel.NewWorld(seed)
			rsa, err := New(w, 2048)
			if err != nil {
				t.Fatal(err)
			}
			ec, err := NewEC(w)
			if err != nil {
				t.Fatal(err)
			}
			return rsa.N.String(), ec.D.String(), Serial(w).String()
		}
		r1, e1, s1 := draw(7)
		r2, e2, s2 := draw(7)
		if r1 != r2 || e1 != e2 || s1 != s2 {
			t.Error("equal seeds gave different keys")
		}
		if _, e3, s3 := draw(8); e1 == e3 || s1 == s3 {
			t.Error("different seeds gave the same key")
		}
	})
}
