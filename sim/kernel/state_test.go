package kernel

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type note struct {
	text    string
	version uint64
	encoded int
}

type notes struct {
	w *World
	m map[string]*note
}

func (n *notes) set(k, v string) { n.m[k] = &note{text: v, version: n.w.Version()} }

func (n *notes) Freeze(s *Snapshot) {
	for k, v := range n.m {
		s.Put(k, v.version, func() []byte { v.encoded++; return []byte(v.text) })
	}
}

func (n *notes) Thaw(p Parts) error {
	for k, v := range p {
		n.set(k, string(v))
	}
	return nil
}

func TestFreezeReportsOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		w := NewWorld(1)
		n := &notes{w, map[string]*note{}}
		w.Hold("notes", n)
		n.set("a", "1")
		n.set("b", "2")
		r := NewRecorder(nil)
		all := Parts{}
		w.Freeze(r).Apply(all)
		n.set("b", "3")
		delete(n.m, "a")
		n.set("c", "4")
		unchanged := n.m["b"]
		d := w.Freeze(r)
		if diff := cmp.Diff([]string{"notes/a"}, d.Removed); diff != "" {
			t.Error(diff)
		}
		d.Apply(all)
		w.Freeze(r)
		if unchanged.encoded != 1 {
			t.Errorf("an unchanged part was encoded %d times", unchanged.encoded)
		}
		w2 := NewWorld(2)
		n2 := &notes{w2, map[string]*note{}}
		w2.Hold("notes", n2)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		if len(n2.m) != 2 || n2.m["b"].text != "3" || n2.m["c"].text != "4" {
			t.Errorf("thawed %v", n2.m)
		}
		// a recorder that knows the parts sees no change in a world that was just thawed from them
		if d := w2.Freeze(NewRecorder(all)); len(d.Removed) != 0 || len(d.Changed) > 1 {
			t.Errorf("after a thaw: removed %v, changed %d", d.Removed, len(d.Changed))
		}
		// and one that was adopted does not even encode it, but notices what changes afterwards
		r = NewRecorder(all)
		w2.Adopt(r)
		encoded := n2.m["b"].encoded
		n2.set("c", "5")
		if d := w2.Freeze(r); len(d.Removed) != 0 || string(d.Changed["notes/c"]) != "5" || d.Changed["notes/b"] != nil || n2.m["b"].encoded != encoded {
			t.Errorf("after an adoption: removed %v, changed %d, encoded %d times", d.Removed, len(d.Changed), n2.m["b"].encoded-encoded)
		}
		if err := NewWorld(3).Thaw(all); err == nil || !strings.Contains(err.Error(), "notes/") {
			t.Errorf("state without a holder: %v", err)
		}
	})
}

func TestRandomStreamsSurviveAThaw(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		w := NewWorld(42)
		w.UUID("pods")
		all := Parts{}
		w.Freeze(NewRecorder(nil)).Apply(all)
		want := w.UUID("pods")
		if again := NewWorld(42).UUID("pods"); again == want {
			t.Error("a stream repeats itself")
		}
		w2 := NewWorld(0)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		if got := w2.UUID("pods"); got != want {
			t.Errorf("after the thaw %s, without it %s", got, want)
		}
	})
}

func TestReseedDrawsNothingTwice(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		w := NewWorld(42)
		first := w.UUID("pods")
		w.Reseed(42)
		second := w.UUID("pods")
		if second == first {
			t.Error("an id was drawn twice")
		}
		all := Parts{}
		w.Freeze(NewRecorder(nil)).Apply(all)
		want, other := w.UUID("pods"), w.UUID("other")
		w2 := NewWorld(0)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		if w2.UUID("pods") != want || w2.UUID("other") != other {
			t.Error("a thaw changes the streams")
		}
	})
}

func TestTraceSurvivesAThaw(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		w := NewWorld(1)
		for i := range 600 {
			w.Trace.Add(Step{Verb: "create", Subject: strings.Repeat("x", i%7)})
			time.Sleep(time.Second)
		}
		all := Parts{}
		r := NewRecorder(nil)
		w.Freeze(r).Apply(all)
		w.Trace.Add(Step{Verb: "delete"})
		d := w.Freeze(r)
		if len(d.Changed) > 2 {
			t.Errorf("one step changed %d parts", len(d.Changed))
		}
		d.Apply(all)
		w2 := NewWorld(1)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.Trace.Steps(), w2.Trace.Steps()); diff != "" {
			t.Error(diff)
		}
	})
}
