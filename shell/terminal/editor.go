package terminal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Edit lets the user edit content in the editor of their own settings (VISUAL, EDITOR, else vim, vi or nano), on a copy in
// a private directory. name only gives the copy its name, so that the editor knows the syntax.
func Edit(name string, content []byte) ([]byte, error) {
	argv, err := program([]string{"VISUAL", "EDITOR"}, []string{"vim", "vi", "nano"})
	if err != nil {
		return nil, fmt.Errorf("no editor: %w; set EDITOR", err)
	}
	dir, err := os.MkdirTemp("", "ckadrill-edit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, safeName(name))
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}
	if err := run(append(argv, file)); err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxEdited {
		return nil, fmt.Errorf("the edited file is larger than %d MiB", maxEdited>>20)
	}
	return os.ReadFile(file)
}

const maxEdited = 16 << 20

// Page shows content in the user's pager (PAGER, else less or more), on a private copy.
func Page(content []byte) error {
	argv, err := program([]string{"PAGER"}, []string{"less", "more"})
	if err != nil {
		_, err := os.Stdout.Write(content)
		return err
	}
	dir, err := os.MkdirTemp("", "ckadrill-page-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "text")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	return run(append(argv, file))
}

// program is the first program that the user's settings name, or else the first usual one that is installed.
func program(settings, usual []string) ([]string, error) {
	for _, s := range settings {
		if f := strings.Fields(os.Getenv(s)); len(f) > 0 {
			if p, err := exec.LookPath(f[0]); err == nil {
				return append([]string{p}, f[1:]...), nil
			}
		}
	}
	for _, u := range usual {
		if p, err := exec.LookPath(u); err == nil {
			return []string{p}, nil
		}
	}
	return nil, errors.New("none of " + strings.Join(usual, ", ") + " is installed")
}

func run(argv []string) error {
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	return c.Run()
}

// safeName keeps of a simulated path what can do no harm as a file's name on any host.
func safeName(name string) string {
	name = filepath.Base(filepath.ToSlash(name))
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	clean = strings.TrimLeft(clean, ".-")
	if clean == "" {
		clean = "file"
	}
	return clean[:min(len(clean), 100)]
}
