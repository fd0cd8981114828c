package kubectl

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
)

// mirror is the one place where kubectl touches the host. Upstream opens many files itself (-f, -k, --from-file, kubeconfigs
// and the certificates that they name, cp ...), so those of the simulated machine are copied into a private directory of
// the host, under their full names, and upstream is given the copies. In everything that kubectl prints the copies' names
// are replaced by the ones that were typed, and files that upstream changes are written back when it ends.
type mirror struct {
	p *kernel.Process

	mu    sync.Mutex
	root  string            // the private directory, "" until it is needed
	names map[string]string // copy -> name as typed
	order []string          // of the copies, longest first
	back  []string          // simulated files or directories to write back, absolute
	was   map[string]string // content of the copies that may be written back
	size  int64
	stdin string
}

// maxMirror bounds what one command can have copied, in bytes.
const maxMirror = 256 << 20

func newMirror(p *kernel.Process) *mirror {
	return &mirror{p: p, names: map[string]string{}, was: map[string]string{}}
}

// private is the host process's own directory for copies, with every link in its name followed.
var private = sync.OnceValues(func() (string, error) {
	d, err := kernel.Scratch("kubectl-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(d)
})

// dir makes the private directory.
func (m *mirror) dir() string {
	if m.root == "" {
		d, err := private()
		if err == nil {
			d, err = os.MkdirTemp(d, "")
		}
		if err != nil {
			m.failLocked(fmt.Errorf("no private directory: %w", err))
		}
		m.root = d
	}
	return m.root
}

// shared is a copy of content that upstream only reads. It is named after the content and kept, so that the next command
// finds it.
func (m *mirror) shared(name string, b []byte) string {
	d, err := private()
	if err != nil {
		m.fail(fmt.Errorf("no private directory: %w", err))
	}
	host := filepath.Join(d, fmt.Sprintf("%x", sha256.Sum256(b)))
	if _, err := os.Stat(host); err != nil {
		f, err := os.CreateTemp(d, "")
		if err == nil {
			_, err = f.Write(b)
			f.Close()
		}
		if err == nil {
			err = os.Rename(f.Name(), host)
		}
		if err != nil {
			m.fail(err)
		}
	}
	m.note(host, name)
	return host
}

// fail ends the command with an error that upstream had no chance to find.
func (m *mirror) fail(err error) {
	fatal("error: "+err.Error(), 1)
}

// failLocked is fail for who holds mu: the process's end, and what it prints, need it.
func (m *mirror) failLocked(err error) {
	m.mu.Unlock()
	defer m.mu.Lock()
	m.fail(err)
}

// close removes the private directory.
func (m *mirror) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.root != "" {
		os.RemoveAll(m.root)
		m.root = ""
	}
}

// hostName is the copy's name of an absolute simulated name.
func (m *mirror) hostName(abs string) string { return filepath.Join(m.dir(), filepath.FromSlash(abs)) }

// file mirrors what a typed name stands for, a file or a directory with all below it, and returns the copy's name. A name
// that does not exist is returned as the name of a copy that does not exist either.
func (m *mirror) file(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.add(name)
}

func (m *mirror) add(name string) string {
	abs := m.p.Path(name)
	host := m.hostName(abs)
	m.call(host, name)
	if err := m.copyIn(abs, host, 0); err != nil {
		m.failLocked(err)
	}
	return host
}

// copyIn copies one file or directory.
func (m *mirror) copyIn(abs, host string, depth int) error {
	info, err := m.p.Files.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(filepath.Dir(host), 0o700)
	}
	if err != nil {
		return typed(err, m.names[host], abs)
	}
	if depth > 40 {
		return fmt.Errorf("%s: too many levels of directories", abs)
	}
	if info.IsDir() {
		if err := os.MkdirAll(host, 0o700); err != nil {
			return err
		}
		entries, err := m.p.Files.ReadDir(abs)
		if err != nil {
			return typed(err, m.names[host], abs)
		}
		for _, e := range entries {
			if err := m.copyIn(path.Join(abs, e.Name()), filepath.Join(host, e.Name()), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if !info.Mode().IsRegular() && depth > 0 {
		return nil
	}
	b, err := m.read(abs)
	if err != nil {
		return typed(err, m.names[host], abs)
	}
	if err := os.MkdirAll(filepath.Dir(host), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(host, b, 0o600); err != nil {
		return err
	}
	os.Chmod(host, info.Mode().Perm()|0o600)
	return os.Chtimes(host, info.ModTime(), info.ModTime())
}

// read returns what a file holds, or what comes out of a pipe.
func (m *mirror) read(abs string) ([]byte, error) {
	f, err := m.p.Files.OpenFile(abs, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	left := maxMirror - m.size
	b, err := io.ReadAll(io.LimitReader(f, left+1))
	if m.size += int64(len(b)); m.size > maxMirror {
		return nil, fmt.Errorf("%s: ckadrill hands at most %d MiB of files to one kubectl", abs, maxMirror>>20)
	}
	return b, err
}

// typed gives a file error the name that was typed.
func typed(err error, name, abs string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		if name == "" || pe.Path != abs {
			name = pe.Path
		}
		return &fs.PathError{Op: "open", Path: name, Err: pe.Err}
	}
	return err
}

// content makes a copy of content that is no file of the machine, which is called name in what is printed.
func (m *mirror) content(name, base string, b []byte) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	host := filepath.Join(m.dir(), "-", base)
	if err := os.MkdirAll(filepath.Dir(host), 0o700); err != nil {
		m.failLocked(err)
	}
	if err := os.WriteFile(host, b, 0o600); err != nil {
		m.failLocked(err)
	}
	m.call(host, name)
	return host
}

// manifest mirrors the value of -f: a file, a directory, a pattern, "-" or a URL.
func (m *mirror) manifest(name string) string {
	switch {
	case name == "-":
		return m.standardInput()
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"), name == "":
		return name
	}
	if _, err := m.p.Files.Stat(m.p.Path(name)); err != nil && strings.ContainsAny(name, "*?[") {
		dir, pattern := path.Split(m.p.Path(name))
		entries, _ := m.p.Files.ReadDir(path.Clean(dir))
		for _, e := range entries {
			if ok, _ := path.Match(pattern, e.Name()); ok {
				typedDir, _ := path.Split(name)
				m.file(typedDir + e.Name())
			}
		}
	}
	return m.file(name)
}

// standardInput is a copy of all of standard input, once.
func (m *mirror) standardInput() string {
	if m.stdin == "" {
		b, err := io.ReadAll(io.LimitReader(m.p.Stdin, maxMirror))
		if err != nil {
			m.fail(err)
		}
		m.stdin = m.content("STDIN", "stdin", b)
	}
	return m.stdin
}

// writeBack remembers that upstream may change what a typed name stands for.
func (m *mirror) writeBack(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	abs := m.p.Path(name)
	m.back = append(m.back, abs)
	filepath.WalkDir(m.hostName(abs), func(f string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, _ := os.ReadFile(f)
			m.was[f] = string(b)
		}
		return nil
	})
}

// finish writes changed files back to the machine.
func (m *mirror) finish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, abs := range m.back {
		top := m.hostName(abs)
		err := filepath.WalkDir(top, func(f string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasSuffix(f, ".lock") {
				return nil
			}
			rel, _ := filepath.Rel(m.root, f)
			name := "/" + filepath.ToSlash(rel)
			if d.IsDir() {
				return m.p.Files.MkdirAll(name, 0o755)
			}
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if old, ok := m.was[f]; ok && old == string(b) {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if err := m.p.Files.MkdirAll(path.Dir(name), 0o755); err != nil {
				return err
			}
			return m.p.Files.WriteFile(name, m.strip(b), info.Mode().Perm())
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// clean gives the copies in a text their own names again: the typed one for what was typed, else the full one.
func (m *mirror) clean(b []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, host := range m.order {
		if bytes.Contains(b, []byte(host)) {
			b = bytes.ReplaceAll(b, []byte(host), []byte(m.names[host]))
		}
	}
	return m.strip(b)
}

// strip gives the copies in a text their full names.
func (m *mirror) strip(b []byte) []byte {
	if m.root == "" || !bytes.Contains(b, []byte(m.root)) {
		return b
	}
	return bytes.ReplaceAll(b, []byte(m.root), nil)
}

// cleaner is a stream that shows no copy's name.
type cleaner struct {
	m *mirror
	w io.Writer
}

func (c cleaner) Write(b []byte) (int, error) {
	if _, err := c.w.Write(c.m.clean(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// note remembers what a copy is called in what is printed.
func (m *mirror) note(host, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.call(host, name)
}

// emptyDir makes a directory among the copies.
func (m *mirror) emptyDir(host string) {
	if err := os.MkdirAll(host, 0o700); err != nil {
		m.fail(err)
	}
}

func (m *mirror) call(host, name string) {
	if _, ok := m.names[host]; !ok {
		m.names[host] = name
		m.order = append(m.order, host)
		sort.Slice(m.order, func(i, j int) bool { return len(m.order[i]) > len(m.order[j]) })
	}
}

// nameless drops the names of loggers from klog's lines. kubectl has contextual logging off, which is a setting of the whole
// host process.
type nameless struct{ w io.Writer }

var loggerName = regexp.MustCompile(` logger="[^"]*"`)

func (n nameless) Write(b []byte) (int, error) {
	if _, err := n.w.Write(loggerName.ReplaceAll(b, nil)); err != nil {
		return 0, err
	}
	return len(b), nil
}
