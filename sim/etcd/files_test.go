package etcd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// memFiles is the least file system that etcd runs on: inodes with a mode, no links, everybody is root.
type memFiles struct {
	*memTree
}

type memTree struct {
	mu    sync.Mutex
	nodes map[string]*memNode
	next  uint64
}

type memNode struct {
	inode uint64
	mode  fs.FileMode
	data  []byte
	time  time.Time
}

func newMemFiles() memFiles {
	return memFiles{&memTree{nodes: map[string]*memNode{"/": {mode: fs.ModeDir | 0o755}}}}
}

func perr(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

type memInfo struct {
	name string
	n    *memNode
}

func (i memInfo) Name() string       { return path.Base(i.name) }
func (i memInfo) Size() int64        { return int64(len(i.n.data)) }
func (i memInfo) Mode() fs.FileMode  { return i.n.mode }
func (i memInfo) ModTime() time.Time { return i.n.time }
func (i memInfo) IsDir() bool        { return i.n.mode.IsDir() }
func (i memInfo) Sys() any           { return &kernel.FileStat{Inode: i.n.inode, Nlink: 1} }

func (m memFiles) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[name]
	if n == nil {
		return nil, perr("stat", name, syscall.ENOENT)
	}
	return memInfo{name, n}, nil
}

func (m memFiles) Lstat(name string) (fs.FileInfo, error) { return m.Stat(name) }

func (m memFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[name] == nil {
		return nil, perr("open", name, syscall.ENOENT)
	}
	var l []fs.DirEntry
	for k, n := range m.nodes {
		if k != "/" && path.Dir(k) == name {
			l = append(l, fs.FileInfoToDirEntry(memInfo{k, n}))
		}
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Name() < l[j].Name() })
	return l, nil
}

func (m memFiles) OpenFile(name string, flag int, perm fs.FileMode) (kernel.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[name]
	if n == nil {
		if flag&os.O_CREATE == 0 || m.nodes[path.Dir(name)] == nil {
			return nil, perr("open", name, syscall.ENOENT)
		}
		m.next++
		n = &memNode{inode: m.next, mode: perm, time: time.Now()}
		m.nodes[name] = n
	}
	if m.nodes[path.Dir(name)].mode&0o200 == 0 {
		return nil, perr("open", name, syscall.EACCES)
	}
	if flag&os.O_TRUNC != 0 {
		n.data = nil
	}
	return &memFile{m: m.memTree, n: n, name: name}, nil
}

func (m memFiles) ReadFile(name string) ([]byte, error) {
	f, err := m.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

func (m memFiles) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := m.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return err
}

func (m memFiles) Mkdir(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[path.Dir(name)] == nil || path.Dir(name) == "/proc" {
		return perr("mkdir", name, syscall.ENOENT)
	}
	m.next++
	m.nodes[name] = &memNode{inode: m.next, mode: fs.ModeDir | perm}
	return nil
}

func (m memFiles) MkdirAll(name string, perm fs.FileMode) error {
	if _, err := m.Stat(name); err == nil {
		return nil
	}
	if err := m.MkdirAll(path.Dir(name), perm); err != nil {
		return err
	}
	return m.Mkdir(name, perm)
}

func (m memFiles) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
	return nil
}

func (m memFiles) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.nodes {
		if k == name || strings.HasPrefix(k, name+"/") {
			delete(m.nodes, k)
		}
	}
	return nil
}

// copyTree is cp -r; with move it is mv.
func (m memFiles) copyTree(from, to string, move bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, n := range m.nodes {
		if k != from && !strings.HasPrefix(k, from+"/") {
			continue
		}
		c := n
		if !move {
			x := *n
			m.next++
			x.inode, x.data = m.next, append([]byte(nil), n.data...)
			c = &x
		}
		defer func() { m.nodes[to+strings.TrimPrefix(k, from)] = c }()
		if move {
			defer delete(m.nodes, k)
		}
	}
}

var errUnused = errors.New("not used by these tests")

func (m memFiles) Readlink(string) (string, error)            { return "", errUnused }
func (m memFiles) EvalSymlinks(n string) (string, error)      { return n, nil }
func (m memFiles) Rename(string, string) error                { return errUnused }
func (m memFiles) Symlink(string, string) error               { return errUnused }
func (m memFiles) Link(string, string) error                  { return errUnused }
func (m memFiles) Chmod(string, fs.FileMode) error            { return errUnused }
func (m memFiles) Chown(string, int, int) error               { return errUnused }
func (m memFiles) Lchown(string, int, int) error              { return errUnused }
func (m memFiles) Chtimes(string, time.Time, time.Time) error { return errUnused }
func (m memFiles) Truncate(string, int64) error               { return errUnused }
func (m memFiles) Watch(string) (kernel.Watch, error)         { return nil, errUnused }
func (m memFiles) InodeUsage(string) (int64, int64, error)    { return 0, 0, errUnused }
func (m memFiles) Usage(string) (int64, int64, error)         { return 0, 0, errUnused }
func (m memFiles) SetUmask(fs.FileMode)                       {}
func (m memFiles) As(kernel.Credential) kernel.Files          { return m }

type memFile struct {
	m    *memTree
	n    *memNode
	name string
	at   int64
}

func (f *memFile) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.at)
	f.at += int64(n)
	return n, err
}

func (f *memFile) ReadAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	return copy(b, f.n.data[at:]), nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	end := f.at + int64(len(b))
	if int64(len(f.n.data)) < end {
		f.n.data = append(f.n.data, make([]byte, end-int64(len(f.n.data)))...)
	}
	copy(f.n.data[f.at:], b)
	f.at = end
	return len(b), nil
}

func (f *memFile) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekStart {
		return 0, errUnused
	}
	f.at = off
	return off, nil
}

func (f *memFile) Close() error                       { return nil }
func (f *memFile) Name() string                       { return f.name }
func (f *memFile) Stat() (fs.FileInfo, error)         { return memInfo{f.name, f.n}, nil }
func (f *memFile) ReadDir(int) ([]fs.DirEntry, error) { return nil, errUnused }

func (f *memFile) Truncate(n int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.data = f.n.data[:n]
	return nil
}
