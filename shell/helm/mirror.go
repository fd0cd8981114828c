package helm

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
	"slices"
	"sort"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
)

// mirror is the one place where helm touches the host. Upstream opens files itself, so those of the simulated machine that a
// command may read are copied into a private directory of the host, under their full names: helm's own directories, the
// working directory's entries, and what the arguments name. Upstream works there. In what it prints the directory's name is
// taken away, and what it changed is written back when it ends.
type mirror struct {
	p *kernel.Process

	mu    sync.Mutex
	root  string
	names map[string]string // copy -> name as typed
	order []string          // of names, longest first
	was   map[string]entry  // what was copied
	size  int64
	stdin bool // upstream may want standard input
}

// entry is a copy as it was made.
type entry struct {
	dir bool
	sum [sha256.Size]byte
}

// maxMirror bounds what one command can have copied, in bytes; maxStray the size of a file that no argument names.
const (
	maxMirror = 256 << 20
	maxStray  = 1 << 20
)

// private is the directory among the copies for what is no file of the machine.
const private = "-"

func newMirror(p *kernel.Process) *mirror {
	return &mirror{p: p, names: map[string]string{}, was: map[string]entry{}}
}

// scratch is the host process's own directory for copies, with every link in its name followed.
var scratch = sync.OnceValues(func() (string, error) {
	d, err := kernel.Scratch("helm-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(d)
})

func (m *mirror) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.root != "" {
		os.RemoveAll(m.root)
	}
}

// host is the copy's name of an absolute simulated name.
func (m *mirror) host(abs string) string {
	return filepath.Join(m.root, filepath.FromSlash(path.Clean("/"+abs)))
}

// clientName is the simulated name of a copy.
func (m *mirror) clientName(host string) string {
	if rel, ok := strings.CutPrefix(host, m.root); ok && m.root != "" {
		return filepath.ToSlash(rel)
	}
	return host
}

func (m *mirror) home() string {
	if h := m.p.Getenv("HOME"); h != "" {
		return h
	}
	return "/"
}

// homes are helm's directories by the variables that name them (pkg/helmpath).
func (m *mirror) homes() map[string]string {
	l := map[string]string{}
	for _, d := range [][3]string{{"HELM_CACHE_HOME", "XDG_CACHE_HOME", ".cache"}, {"HELM_CONFIG_HOME", "XDG_CONFIG_HOME", ".config"}, {"HELM_DATA_HOME", "XDG_DATA_HOME", ".local/share"}} {
		switch own, xdg := m.p.Getenv(d[0]), m.p.Getenv(d[1]); {
		case own != "":
			l[d[0]] = m.p.Path(own)
		case xdg != "":
			l[d[0]] = path.Join(m.p.Path(xdg), "helm")
		default:
			l[d[0]] = path.Join(m.home(), d[2], "helm")
		}
	}
	return l
}

func (m *mirror) workingDirectory() string { return m.host(m.p.Dir()) }

// temporary is a directory for what upstream makes beside the machine's files.
func (m *mirror) temporary() string { return filepath.Join(m.root, private, "tmp") }

func (m *mirror) standardInput() string { return filepath.Join(m.root, private, "stdin") }

// content makes a file that is not the machine's.
func (m *mirror) content(name string, b []byte) (string, error) {
	host := filepath.Join(m.root, private, name)
	return host, os.WriteFile(host, b, 0o600)
}

// setFlags have values that name no files.
var setFlags = []string{"--set", "--set-string", "--set-json", "--set-literal", "--description", "--namespace", "-n", "--version", "--filter", "-l", "--selector", "--labels", "--kubeconfig",
	"--kube-context", "--username", "--password", "--template", "--app-version", "--api-versions", "-a", "--kube-version", "--timeout", "--output", "-o", "--regexp", "-r"}

// mirrorArguments makes the private directory and returns the arguments with the names in it.
func (m *mirror) mirrorArguments(args []string) ([]string, error) {
	d, err := scratch()
	if err == nil {
		m.root, err = os.MkdirTemp(d, "")
	}
	if err == nil {
		err = os.MkdirAll(m.temporary(), 0o700)
	}
	if err == nil {
		err = os.MkdirAll(m.workingDirectory(), 0o700)
	}
	if err != nil {
		return nil, err
	}
	for _, dir := range m.homes() {
		if err := m.tree(dir, 0); err != nil {
			return nil, err
		}
	}
	for _, k := range []string{"HELM_REGISTRY_CONFIG", "HELM_REPOSITORY_CONFIG", "HELM_REPOSITORY_CACHE", "HELM_CONTENT_CACHE", "HELM_KUBECAFILE"} {
		if v := m.p.Getenv(k); v != "" {
			if err := m.tree(m.p.Path(v), 0); err != nil {
				return nil, err
			}
		}
	}
	if err := m.shallow(m.p.Dir()); err != nil {
		return nil, err
	}
	out := slices.Clone(args)
	for n, a := range args {
		if n > 0 && slices.Contains(setFlags, args[n-1]) {
			continue
		}
		if out[n], err = m.argument(a, n > 0 && args[n-1] == "--set-file"); err != nil {
			return nil, err
		}
	}
	var stdin []byte
	if m.stdin && m.p.Stdin != nil {
		if stdin, err = io.ReadAll(io.LimitReader(m.p.Stdin, maxMirror)); err != nil {
			return nil, err
		}
	}
	if _, err := m.content("stdin", stdin); err != nil {
		return nil, err
	}
	return out, m.rewriteRepositories()
}

// argument mirrors what one argument names.
func (m *mirror) argument(a string, keyed bool) (string, error) {
	prefix, value := "", a
	switch {
	case a == "-" || a == "--password-stdin" || a == "-f-" || a == "--values=-":
		m.stdin = true
		return a, nil
	case strings.HasPrefix(a, "--"):
		flag, v, ok := strings.Cut(a, "=")
		if !ok || slices.Contains(setFlags, flag) {
			return a, nil
		}
		prefix, value, keyed = flag+"=", v, flag == "--set-file"
	case strings.HasPrefix(a, "-f"), strings.HasPrefix(a, "-d"), strings.HasPrefix(a, "-p"):
		prefix, value = a[:2], a[2:]
		if v, ok := strings.CutPrefix(value, "="); ok {
			prefix, value = prefix+"=", v
		}
	case strings.HasPrefix(a, "-"):
		return a, nil
	}
	l := strings.Split(value, ",")
	for n, v := range l {
		key := ""
		if keyed {
			if k, f, ok := strings.Cut(v, "="); ok {
				key, v = k+"=", f
			}
		}
		if strings.HasPrefix(v, "oci://") {
			return "", notSimulated("OCI registries")
		}
		name, err := m.name(v)
		if err != nil {
			return "", err
		}
		l[n] = key + name
	}
	return prefix + strings.Join(l, ","), nil
}

// name mirrors what a name may stand for. The name is kept where upstream finds the copy by it, from its working directory.
func (m *mirror) name(v string) (string, error) {
	if v == "" || strings.Contains(v, "://") || strings.ContainsAny(v, "\n\x00") || len(v) > 4096 {
		return v, nil
	}
	abs := m.p.Path(v)
	if info, err := m.p.Files.Stat(path.Dir(abs)); err == nil && info.IsDir() {
		if err := m.shallowDir(path.Dir(abs)); err != nil {
			return "", err
		}
	}
	info, err := m.p.Files.Stat(abs)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid):
		return "", named(err, v)
	case err != nil:
	case !info.IsDir():
		if err := m.file(abs, info); err != nil {
			return "", named(err, v)
		}
	default:
		if _, err := m.p.Files.Stat(path.Join(abs, "Chart.yaml")); err == nil {
			err = m.chart(abs)
		} else {
			err = m.shallow(abs)
		}
		if err != nil {
			return "", err
		}
	}
	if path.IsAbs(v) || slices.Contains(strings.Split(v, "/"), "..") {
		host := m.host(abs)
		m.call(host, v)
		return host, nil
	}
	return v, nil
}

// named gives a file error the name that was typed.
func named(err error, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: "open", Path: name, Err: pe.Err}
	}
	return err
}

// chart copies a chart's directory, and the charts beside it that it depends on.
func (m *mirror) chart(dir string) error {
	if _, ok := m.was[filepath.Join(m.host(dir), "Chart.yaml")]; ok {
		return nil
	}
	if err := m.tree(dir, 0); err != nil {
		return err
	}
	b, err := m.p.Files.ReadFile(path.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil // upstream says so
	}
	for _, l := range strings.Split(string(b), "\n") {
		_, v, ok := strings.Cut(l, "repository:")
		v = strings.Trim(strings.TrimSpace(v), `"'`)
		if strings.HasPrefix(v, "oci://") {
			return notSimulated("OCI registries")
		}
		rel, file := strings.CutPrefix(v, "file://")
		if !ok || !file {
			continue
		}
		if path.IsAbs(rel) || !strings.HasPrefix(filepath.Join(m.host(dir), filepath.FromSlash(rel)), m.root+string(filepath.Separator)) {
			return notSimulated("dependencies by a full name (" + v + ")")
		}
		sub := path.Join(dir, rel)
		if info, err := m.p.Files.Stat(sub); err == nil && info.IsDir() {
			if err := m.chart(sub); err != nil {
				return err
			}
		} else if err == nil {
			if err := m.file(sub, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// tree copies a file or a directory with all below it. What does not exist is left out.
func (m *mirror) tree(abs string, depth int) error {
	info, err := m.p.Files.Stat(abs)
	if err != nil {
		return nil
	}
	if !info.IsDir() {
		return m.file(abs, info)
	}
	if depth > 40 {
		return fmt.Errorf("%s: too many levels of directories", abs)
	}
	if err := m.shallowDir(abs); err != nil {
		return err
	}
	l, err := m.p.Files.ReadDir(abs)
	if err != nil {
		return err
	}
	for _, e := range l {
		if err := m.tree(path.Join(abs, e.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// shallow copies a directory's small files and the names of its directories: enough to see what is there.
func (m *mirror) shallow(abs string) error {
	if err := m.shallowDir(abs); err != nil {
		return err
	}
	l, err := m.p.Files.ReadDir(abs)
	if err != nil {
		return nil // upstream says so, if it wants to read it
	}
	for _, e := range l {
		name := path.Join(abs, e.Name())
		info, err := m.p.Files.Stat(name)
		switch {
		case err != nil:
		case info.IsDir():
			err = m.shallowDir(name)
		case info.Size() <= maxStray:
			err = m.file(name, info)
			if errors.Is(err, fs.ErrPermission) {
				err = nil
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m *mirror) shallowDir(abs string) error {
	host := m.host(abs)
	m.was[host] = entry{dir: true}
	return os.MkdirAll(host, 0o700)
}

func (m *mirror) file(abs string, info fs.FileInfo) error {
	host := m.host(abs)
	if _, ok := m.was[host]; ok || !info.Mode().IsRegular() {
		return nil
	}
	if m.size += info.Size(); m.size > maxMirror {
		return fmt.Errorf("%s: ckadrill hands at most %d MiB of files to one helm", abs, maxMirror>>20)
	}
	b, err := m.p.Files.ReadFile(abs)
	if err != nil {
		return err
	}
	m.was[host] = entry{sum: sha256.Sum256(b)}
	if err := os.MkdirAll(filepath.Dir(host), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(host, b, 0o600); err != nil {
		return err
	}
	os.Chmod(host, info.Mode().Perm()|0o600)
	return os.Chtimes(host, info.ModTime(), info.ModTime())
}

// rewriteRepositories gives the certificates that the list of repositories names the names of their copies.
func (m *mirror) rewriteRepositories() error {
	for host := range m.was {
		if filepath.Base(host) != "repositories.yaml" {
			continue
		}
		b, err := os.ReadFile(host)
		if err != nil {
			continue
		}
		lines := strings.Split(string(b), "\n")
		for n, l := range lines {
			key, v, _ := strings.Cut(strings.TrimLeft(l, " -"), ":")
			v = strings.Trim(strings.TrimSpace(v), `"'`)
			if !path.IsAbs(v) || key != "caFile" && key != "certFile" && key != "keyFile" {
				continue
			}
			if err := m.tree(v, 0); err != nil {
				return err
			}
			lines[n] = strings.Replace(l, v, m.host(v), 1)
		}
		if err := os.WriteFile(host, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeBack brings what upstream changed to the machine.
func (m *mirror) writeBack() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := os.Stat(m.root); err != nil {
		return nil
	}
	special := filepath.Join(m.root, private)
	err := filepath.WalkDir(m.root, func(f string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case f == special:
			return fs.SkipDir
		case f == m.root || d.Type()&fs.ModeSymlink != 0:
			return nil
		}
		name := m.clientName(f)
		was, old := m.was[f]
		if d.IsDir() {
			if old && was.dir {
				return nil
			}
			if _, err := m.p.Files.Stat(name); err == nil {
				return nil
			}
			return m.p.Files.MkdirAll(name, 0o755)
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		b = m.strip(b)
		if old && !was.dir && was.sum == sha256.Sum256(b) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return m.p.Files.WriteFile(name, b, info.Mode().Perm())
	})
	if err != nil {
		return err
	}
	gone := []string{}
	for f := range m.was {
		if _, err := os.Lstat(f); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, m.clientName(f))
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(gone))) // what is in a directory before it
	for _, name := range gone {
		if err := m.p.Files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m *mirror) call(host, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.names[host]; !ok {
		m.names[host] = name
		m.order = append(m.order, host)
		sort.Slice(m.order, func(i, j int) bool { return len(m.order[i]) > len(m.order[j]) })
	}
}

// clean gives the copies in a text their own names again: the typed one for what was typed, else the full one.
func (m *mirror) clean(b []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, host := range m.order {
		b = bytes.ReplaceAll(b, []byte(host), []byte(m.names[host]))
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
	if c.w == nil {
		return len(b), nil
	}
	if _, err := c.w.Write(c.m.clean(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}
