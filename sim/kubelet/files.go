package kubelet

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// machineFiles is upstream's kubecontainer.OSInterface over the machine's tree. Upstream's paths may carry the host's
// separator or begin in the private directory (see [privateRoot]): both are undone by [machinePath].
type machineFiles struct {
	p    *kernel.Process
	root *roots
}

// roots are the kubelet's root directory on the machine and the private one that stands in for it in upstream's struct.
//
// Some of upstream's Kubelet methods make and list directories below its root directory with package os, with no seam.
// They get an empty private directory of the host, where nothing is kept that anybody reads; all content (volumes,
// /etc/hosts, termination logs) is written to the machine's tree, and every path that leaves upstream is translated.
type roots struct{ machine, private string }

// machinePath translates a path of upstream's into one of the machine.
func (r *roots) machinePath(name string) string {
	name = filepath.ToSlash(name)
	if rest, ok := strings.CutPrefix(name, filepath.ToSlash(r.private)); ok && r.private != "" {
		name = r.machine + rest
	}
	return path.Clean(name)
}

// privateRoot makes the private directory of one kubelet process, which goes when the process does.
func privateRoot(p *kernel.Process) (string, error) {
	dir, err := os.MkdirTemp("", "ckadrill-kubelet-")
	if err != nil {
		return "", err
	}
	p.OnExit(func() { os.RemoveAll(dir) })
	return dir, os.Mkdir(filepath.Join(dir, "pods"), 0o750)
}

var errNoHostFile = errors.New("ckadrill: there is no host file behind a machine's file")

func (f machineFiles) MkdirAll(name string, perm os.FileMode) error {
	return f.p.Files.MkdirAll(f.root.machinePath(name), perm)
}

func (f machineFiles) Symlink(oldname, newname string) error {
	return f.p.Files.Symlink(f.root.machinePath(oldname), f.root.machinePath(newname))
}

func (f machineFiles) Stat(name string) (os.FileInfo, error) {
	return f.p.Files.Stat(f.root.machinePath(name))
}

func (f machineFiles) Remove(name string) error { return f.p.Files.Remove(f.root.machinePath(name)) }

func (f machineFiles) RemoveAll(name string) error {
	return f.p.Files.RemoveAll(f.root.machinePath(name))
}

// Create makes an empty file. The *os.File is nil: upstream only closes it.
func (f machineFiles) Create(name string) (*os.File, error) {
	return nil, f.p.Files.WriteFile(f.root.machinePath(name), nil, 0o666)
}

func (f machineFiles) Chmod(name string, mode os.FileMode) error {
	return f.p.Files.Chmod(f.root.machinePath(name), mode)
}

func (f machineFiles) Hostname() (string, error) { return f.p.HostName(), nil }

func (f machineFiles) Chtimes(name string, atime, mtime time.Time) error {
	return f.p.Files.Chtimes(f.root.machinePath(name), atime, mtime)
}

func (machineFiles) Pipe() (r, w *os.File, err error) { return nil, nil, errNoHostFile }

func (f machineFiles) ReadDir(dir string) ([]os.DirEntry, error) {
	return f.p.Files.ReadDir(f.root.machinePath(dir))
}

// Glob knows the one form that upstream uses: a pattern in the last element.
func (f machineFiles) Glob(pattern string) ([]string, error) {
	pattern = f.root.machinePath(pattern)
	entries, err := f.p.Files.ReadDir(path.Dir(pattern))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var l []string
	for _, e := range entries {
		ok, err := path.Match(path.Base(pattern), e.Name())
		if err != nil {
			return nil, err
		}
		if ok {
			l = append(l, path.Join(path.Dir(pattern), e.Name()))
		}
	}
	return l, err
}

func (machineFiles) Open(string) (*os.File, error) { return nil, errNoHostFile }

func (machineFiles) OpenFile(string, int, os.FileMode) (*os.File, error) { return nil, errNoHostFile }

func (f machineFiles) Rename(from, to string) error {
	return f.p.Files.Rename(f.root.machinePath(from), f.root.machinePath(to))
}
