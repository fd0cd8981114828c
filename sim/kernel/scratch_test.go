package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestScratchOfTheDeadIsSwept(t *testing.T) {
	gone := exec.Command(os.Args[0], "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	dead := filepath.Join(dir, fmt.Sprintf("%s%d-1", scratchPrefix, gone.Process.Pid))
	alive := filepath.Join(dir, fmt.Sprintf("%s%d-1", scratchPrefix, os.Getpid()))
	other := filepath.Join(dir, scratchPrefix+"mine")
	for _, d := range []string{dead, alive, other} {
		if err := os.MkdirAll(filepath.Join(d, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweepScratch(dir)
	if _, err := os.Stat(dead); err == nil {
		t.Error("a dead process's directory is still there")
	}
	for _, d := range []string{alive, other} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("%s has gone", d)
		}
	}
}
