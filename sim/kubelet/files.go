package kubelet

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
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
// They get a private directory of the host, empty but for upstream's checkpoints, which are copied from and to the
// machine; all other content (volumes, /etc/hosts, termination logs) is written to the machine's tree itself, and every path
// that leaves upstream is translated.
type roots struct {
	machine, private string

	mu      sync.Mutex
	written map[string]time.Time // checkpoint -> the modification that the machine has
}

// Upstream's checkpoints below its root directory: what it allocated to Pods, and which images it pulled with which
// credentials.
var (
	checkpointFiles = []string{"allocated_pods_state", "actuated_pods_state"}
	checkpointDirs  = []string{"image_manager/pulling", "image_manager/pulled"}
)

// loadCheckpoints copies the machine's checkpoints to where upstream reads them.
func (r *roots) loadCheckpoints(files kernel.Files) error {
	names := append([]string(nil), checkpointFiles...)
	for _, d := range checkpointDirs {
		entries, err := files.ReadDir(path.Join(r.machine, d))
		if err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Join(r.private, d), 0o700); err != nil {
			return err
		}
		for _, e := range entries {
			names = append(names, path.Join(d, e.Name()))
		}
	}
	for _, n := range names {
		b, err := files.ReadFile(path.Join(r.machine, n))
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(r.private, n), b, 0o600); err != nil {
			return err
		}
		r.written[n] = time.Time{}
	}
	return nil
}

// saveCheckpoints copies what upstream has written since the last call to the machine.
func (r *roots) saveCheckpoints(files kernel.Files) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := append([]string(nil), checkpointFiles...)
	for _, d := range checkpointDirs {
		entries, err := os.ReadDir(filepath.Join(r.private, d))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				names = append(names, path.Join(d, e.Name()))
			}
		}
	}
	now := map[string]bool{}
	for _, n := range names {
		info, err := os.Stat(filepath.Join(r.private, n))
		if err != nil {
			continue
		}
		now[n] = true
		if t, ok := r.written[n]; ok && t.Equal(info.ModTime()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(r.private, n))
		if err != nil {
			continue
		}
		if err := files.MkdirAll(path.Dir(path.Join(r.machine, n)), 0o700); err != nil {
			return err
		}
		if err := files.WriteFile(path.Join(r.machine, n), b, 0o600); err != nil {
			return err
		}
		r.written[n] = info.ModTime()
	}
	for n := range r.written {
		if !now[n] {
			delete(r.written, n)
			if err := files.Remove(path.Join(r.machine, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// machinePath translates a path of upstream's into one of the machine.
func (r *roots) machinePath(name string) string {
	name = filepath.ToSlash(name)
	if rest, ok := strings.CutPrefix(name, filepath.ToSlash(r.private)); ok && r.private != "" {
		name = r.machine + rest
	}
	return path.Clean(name)
}

// newRoots makes the private directory of one kubelet process, which goes when the process does, and fills it with the
// checkpoints that the machine keeps.
func newRoots(p *kernel.Process, machine string) (*roots, error) {
	dir, err := kernel.Scratch("kubelet-")
	if err != nil {
		return nil, err
	}
	p.OnExit(func() { os.RemoveAll(dir) })
	// What upstream says of the private directory is said of the machine's, see [node.removeOrphans].
	p.SetLogFilter(func(line []byte) bool { return !bytes.Contains(line, []byte(dir)) && !hushOf(p).coversLine(line) })
	r := &roots{machine: path.Clean(machine), private: dir, written: map[string]time.Time{}}
	if err := os.Mkdir(filepath.Join(dir, "pods"), 0o750); err != nil {
		return nil, err
	}
	return r, r.loadCheckpoints(p.Files)
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
