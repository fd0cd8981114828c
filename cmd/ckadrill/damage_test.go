package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program runs the program with these arguments as a process of its own.
func program(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asFront+"=1")
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	return out.String(), problem.String(), cmd.ProcessState.ExitCode()
}

// copySession copies a session's directory with the given content of its file.
func copySession(t *testing.T, content []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "session.ckadrill"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A session whose end is missing goes on from its last whole record, and one that was altered is refused; a session that is
// open is nobody else's. The program says so in words.
func TestDamagedSessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, script := range []string{"echo one > /tmp/f", "x=2; ssh cka-w1", "echo two >> /tmp/g; y=3"} {
		if out, problem, exit := program(t, "shell", "--session", dir, "-c", script); exit != 0 || out+problem != "" {
			t.Fatalf("%s: %d, %q, %q", script, exit, out, problem)
		}
	}
	whole, err := os.ReadFile(filepath.Join(dir, "session.ckadrill"))
	if err != nil {
		t.Fatal(err)
	}

	cut := copySession(t, whole[:len(whole)-10])
	out, problem, exit := program(t, "shell", "--session", cut, "-c", "hostname; cat /tmp/g; exit; echo not here")
	if exit != 1 || out != "cka-w1\ncat: /tmp/g: No such file or directory\nlogout\nConnection to cka-w1 closed.\n" || !strings.Contains(problem, "ended in the middle of record") ||
		!strings.Contains(problem, `"echo two >> /tmp/g; y=3" had not finished`) {
		t.Errorf("cut short: %d, %q, %q", exit, out, problem)
	}
	out, problem, exit = program(t, "shell", "--session", cut, "-c", "hostname; echo $x; cat /tmp/f")
	if exit != 0 || out != "cka-cp1\n2\none\n" || problem != "" {
		t.Errorf("cut short, the next call: %d, %q, %q", exit, out, problem)
	}

	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	altered := copySession(t, flipped)
	for range 2 { // it is not repaired behind the user's back
		out, problem, exit = program(t, "shell", "--session", altered, "-c", "hostname")
		if exit != 1 || out != "" || !strings.Contains(problem, "is damaged") || !strings.Contains(problem, "the session was altered") {
			t.Errorf("altered: %d, %q, %q", exit, out, problem)
		}
	}
	if b, err := os.ReadFile(filepath.Join(altered, "session.ckadrill")); err != nil || !bytes.Equal(b, flipped) {
		t.Errorf("the altered session was changed: %v", err)
	}

	p := world(t, "reference", dir)
	out, problem, exit = program(t, "shell", "--session", dir, "-c", "hostname")
	if exit != 1 || out != "" || !strings.Contains(problem, "is open in another ckadrill") {
		t.Errorf("open twice: %d, %q, %q", exit, out, problem)
	}
	if out, _ := run(t, p, "echo $y $(cat /tmp/g) $(hostname)"); out != "3 two cka-w1\n" {
		t.Errorf("the session itself: %q", out)
	}
}
