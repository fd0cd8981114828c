package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckadrill/sim/kernel"
)

func TestSuffixes(t *testing.T) {
	got, n := suffixes("kubectl get po", []kernel.Completion{{Text: "pods", Replace: 2}, {Text: "podtemplates", Replace: 2}, {Text: "other", Replace: 2}})
	if n != 2 || len(got) != 2 || string(got[0]) != "ds" || string(got[1]) != "dtemplates" {
		t.Errorf("%q, %d", got, n)
	}
	if got, n := suffixes("k ", []kernel.Completion{{Text: "get"}}); n != 0 || string(got[0]) != "get" {
		t.Errorf("%q, %d", got, n)
	}
}

// The copy that an editor gets lies in a private directory whatever the simulated file is called, and is gone afterwards.
func TestEditOnAPrivateCopy(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	ed := filepath.Join(dir, "ed")
	os.WriteFile(ed, []byte("#!/bin/sh\necho \"$1\" >> "+log+"\nstat -c %a \"$(dirname \"$1\")\" >> "+log+"\necho more >> \"$1\"\n"), 0o755)
	t.Setenv("VISUAL", ed)
	for _, name := range []string{"/etc/kubernetes/manifests/kube-apiserver.yaml", "../../../../etc/passwd", "-rf", "..", "", "a b;c\x00d"} {
		got, err := Edit(name, []byte("text\n"))
		if err != nil || string(got) != "text\nmore\n" {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	b, _ := os.ReadFile(log)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 12 {
		t.Fatalf("%q", lines)
	}
	for i := 0; i < len(lines); i += 2 {
		if !strings.HasPrefix(lines[i], filepath.Join(os.TempDir(), "ckadrill-edit-")) || lines[i+1] != "700" {
			t.Errorf("copy at %s, mode of its directory %s", lines[i], lines[i+1])
		}
		if _, err := os.Stat(lines[i]); !os.IsNotExist(err) {
			t.Errorf("%s is still there", lines[i])
		}
	}
}
