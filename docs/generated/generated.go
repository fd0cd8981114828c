// Package generated keeps documents that the program writes itself true.
package generated

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the documents that a test checks anew")

// Check compares a file with the text that it should have, and writes it first with -update. target is the target of make that
// writes it.
func Check(t *testing.T, file string, text []byte, target string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, text) {
		t.Errorf("%s is not what the program says now: run make %s", file, target)
	}
}
