package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
)

func fill(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, r := range []Record{
		{Kind: Boot, Changed: kernel.Parts{"a": []byte("1"), "b": []byte("1")}, Meta: map[string]string{"preset": "reference"}},
		{Kind: Command, Typed: "one", Changed: kernel.Parts{"a": []byte("2")}},
		{Kind: Command, Typed: "two", Changed: kernel.Parts{"c": []byte("3")}, Removed: []string{"b"}},
	} {
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func state(t *testing.T, s *Session) map[string]string {
	t.Helper()
	p, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for k, v := range p {
		m[k] = string(v)
	}
	return m
}

func TestStateFollowsFromTheRecords(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d := cmp.Diff(map[string]string{"a": "2", "c": "3"}, state(t, s)); d != "" {
		t.Error(d)
	}
	back, _, ok := s.Before(none)
	if !ok || s.Undo(back) != nil {
		t.Fatal("no way back")
	}
	if d := cmp.Diff(map[string]string{"a": "2", "b": "1"}, state(t, s)); d != "" {
		t.Error("after one undo", d)
	}
	s.Append(Record{Kind: Command, Typed: "three", Changed: kernel.Parts{"d": []byte("4")}})
	if d := cmp.Diff(map[string]string{"a": "2", "b": "1", "d": "4"}, state(t, s)); d != "" {
		t.Error("a command after an undo", d)
	}
	for range 2 {
		back, _, ok = s.Before(none)
		if !ok || s.Undo(back) != nil {
			t.Fatal("no way back")
		}
	}
	if d := cmp.Diff(map[string]string{"a": "1", "b": "1"}, state(t, s)); d != "" {
		t.Error("back at the boot", d)
	}
	if _, _, ok := s.Before(none); ok {
		t.Error("there is a way back behind the boot")
	}
}

func TestCutShortGoesOnFromTheLastWholeRecord(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	name := filepath.Join(dir, fileName)
	whole, _ := os.ReadFile(name)
	second := 0
	for cut := len(whole) - 1; cut > len(magic); cut -= 7 {
		os.WriteFile(name, whole[:cut], 0o600)
		s, err := Open(dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if s.Recovered == "" && len(s.Records()) != second {
			t.Errorf("cut at %d of %d: nothing is said", cut, len(whole))
		}
		second = len(s.Records())
		if second > 2 {
			t.Errorf("cut at %d: %d records", cut, second)
		}
		if err := s.Append(Record{Kind: Note}); err != nil {
			t.Error(err)
		}
		s.Close()
		if s, err = Open(dir); err != nil || s.Recovered != "" {
			t.Fatalf("after the repair: %v", err)
		}
		s.Close()
	}
}

func TestAlteredSessionIsRefused(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	name := filepath.Join(dir, fileName)
	whole, _ := os.ReadFile(name)
	for at := len(magic) + 4; at < len(whole)-4; at += 11 {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x40
		os.WriteFile(name, b, 0o600)
		s, err := Open(dir)
		var d *Damaged
		if err == nil && s.Recovered == "" {
			t.Fatalf("byte %d was altered and nobody noticed", at)
		}
		if err != nil && !errors.As(err, &d) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if s != nil {
			s.Close()
		}
	}
	os.WriteFile(name, []byte("\x7fELF something else"), 0o600)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a ckadrill session") {
		t.Errorf("a foreign file: %v", err)
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "open in another") {
		t.Errorf("second open: %v", err)
	}
	s.Close()
	s, err = Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func none(string) bool { return false }

// What only looks is stepped over on the way back.
func TestBeforePassive(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, r := range []Record{{Kind: Boot}, {Kind: Command, Typed: "rm f"}, {Kind: Command, Typed: "look"}, {Kind: Note}, {Kind: Command, Typed: "look"}} {
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	seq, typed, ok := s.Before(func(s string) bool { return s == "look" })
	if seq != 0 || typed != "rm f" || !ok {
		t.Errorf("got %d, %q, %v", seq, typed, ok)
	}
	if seq, typed, _ := s.Before(none); seq != 3 || typed != "look" {
		t.Errorf("got %d, %q", seq, typed)
	}
}
