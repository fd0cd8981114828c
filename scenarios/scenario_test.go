package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckadrill/scenarios/strict"
)

func TestEmbedded(t *testing.T) {
	l, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range l {
		if len(s.Traps) == 0 || len(s.Hints) == 0 {
			t.Errorf("%s: a drill needs hints and at least one trap", s.File)
		}
		if dir := filepath.Base(filepath.Dir(s.File)); dir != s.Metadata.Domain {
			t.Errorf("%s lies in %s, its domain is %s", s.File, dir, s.Metadata.Domain)
		}
		if strings.TrimSuffix(filepath.Base(s.File), ".yaml") != s.Metadata.Name {
			t.Errorf("%s is called %s", s.File, s.Metadata.Name)
		}
	}
}

const good = `apiVersion: ckadrill/v1
kind: Scenario
metadata: {name: x, title: X, domain: storage, difficulty: easy, minutes: 3}
task: do it
checks:
- name: a
  says: no
  cel: {resource: pods, expression: "objects.size() == 1"}
solution: kubectl get pods
`

// Every problem names its file, line and column.
func TestProblemsNameTheirPlace(t *testing.T) {
	if _, err := Parse("x.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"syntax", "task: do it", "task: [do it", "x.yaml:"},
		{"unknown field", "task: do it", "taks: do it", `x.yaml:4:1: unknown field "taks"`},
		{"unknown field deep", "says: no", "say: no", `x.yaml:7:3: unknown field "say" in a check (did you mean "says"?)`},
		{"twice", "task: do it", "task: do it\ntask: again", `x.yaml:5:1: field "task" stands twice`},
		{"version", "ckadrill/v1", "ckadrill/v2", `apiVersion must be ckadrill/v1, not "ckadrill/v2"`},
		{"domain", "storage", "stroage", "x.yaml:1:1: metadata.domain must be one of"},
		{"cel syntax", "objects.size() == 1", "objects.size( == 1", "x.yaml:8:"},
		{"cel type", "objects.size() == 1", "objects.size()", "yields int, not true or false"},
		{"cel variable", "objects.size() == 1", "pods.size() == 1", "undeclared reference to 'pods'"},
		{"bash", "kubectl get pods", `"echo 'x"`, "x.yaml:9:1: bash: 1:6: reached EOF without closing quote"},
		{"number", "minutes: 3", "minutes: three", "x.yaml:3:75: a whole number of 0 or more is expected here"},
		{"no check", "checks:\n- name: a\n  says: no\n  cel: {resource: pods, expression: \"objects.size() == 1\"}\n", "", "checks are missing"},
		{"two kinds of check", "  says: no", "  says: no\n  probe: {from: machine/a, to: tcp://b:1, expect: open}", "exactly one of cel, command, probe"},
		{"duration", "  says: no", "  says: no\n  within: 3 minutes", "a duration such as 90s"},
		{"endless", "  says: no", "  says: no\n  hold: 99999h", "at most 168h"},
		{"bomb", "task: do it", "task: &a x\nhints: [*a, *a]", "aliases and anchors are not allowed"},
		{"trap", "solution:", "traps: [{name: t, run: \"true\", fails: [b]}]\nsolution:", `trap "t" names the check "b", which does not exist`},
		{"binary", good, "\x00\x01\xff\xfe", "x.yaml"},
		{"empty", good, "", "the file is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse("x.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
			if err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Parse("x.yaml", []byte(good+"# "+strings.Repeat("x", strict.MaxFile))); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge file: %v", err)
	}
}

func TestLoadReadsOnAfterABadFile(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(good), 0o600)
	os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("kind: [\n"), 0o600)
	os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(strings.Replace(good, "name: x", "name: y", 1)), 0o600)
	os.WriteFile(filepath.Join(dir, "d.yaml"), []byte(good), 0o600)
	l, err := Load(dir)
	if len(l) != 3 || err == nil || !strings.Contains(err.Error(), "b.yaml") || !strings.Contains(err.Error(), `the name "x" is taken`) {
		t.Errorf("%d scenarios, %v", len(l), err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty directory is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse("x.yaml", b)
		if (s == nil) == (err == nil) {
			t.Errorf("scenario %v, error %v", s, err)
		}
	})
}
