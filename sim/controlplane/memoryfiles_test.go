package controlplane

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// memoryFiles is just enough of a file system for the control plane: files by name.
type memoryFiles struct {
	kernel.Files // what is not here panics
	mu           sync.Mutex
	files        map[string]*memoryFile
	watches      map[*memoryWatch]bool
}

type memoryFile struct {
	data []byte
	mode fs.FileMode
}

func newMemoryFiles() *memoryFiles {
	return &memoryFiles{files: map[string]*memoryFile{}, watches: map[*memoryWatch]bool{}}
}

func (m *memoryFiles) put(name, data string, mode fs.FileMode) {
	m.mu.Lock()
	m.files[name] = &memoryFile{[]byte(data), mode}
	var l []*memoryWatch
	for w := range m.watches {
		if w.dir == path.Dir(name) {
			l = append(l, w)
		}
	}
	m.mu.Unlock()
	for _, w := range l {
		w.c <- kernel.FileEvent{Name: name, Op: kernel.FileWrite}
	}
}

func (m *memoryFiles) get(name string) []byte {
	b, err := m.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return b
}

func (m *memoryFiles) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return bytes.Clone(f.data), nil
}

func (m *memoryFiles) WriteFile(name string, data []byte, perm fs.FileMode) error {
	m.put(name, string(data), perm)
	return nil
}

func (m *memoryFiles) MkdirAll(string, fs.FileMode) error { return nil }

type memoryInfo struct {
	name string
	mode fs.FileMode
	size int
}

func (i memoryInfo) Name() string       { return path.Base(i.name) }
func (i memoryInfo) Size() int64        { return int64(i.size) }
func (i memoryInfo) Mode() fs.FileMode  { return i.mode }
func (i memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memoryInfo) Sys() any           { return nil }

func (m *memoryFiles) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.files[name]; ok {
		return memoryInfo{name, f.mode, len(f.data)}, nil
	}
	for n := range m.files {
		if strings.HasPrefix(n, name+"/") {
			return memoryInfo{name, fs.ModeDir | 0o755, 0}, nil
		}
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.ENOENT}
}

func (m *memoryFiles) OpenFile(name string, flag int, _ fs.FileMode) (kernel.File, error) {
	b, err := m.ReadFile(name)
	if err != nil && flag&os.O_CREATE == 0 {
		return nil, err
	}
	return &memoryOpen{m: m, name: name, Reader: bytes.NewReader(b)}, nil
}

type memoryOpen struct {
	kernel.File
	*bytes.Reader
	m    *memoryFiles
	name string
}

func (f *memoryOpen) Read(b []byte) (int, error)            { return f.Reader.Read(b) }
func (f *memoryOpen) ReadAt(b []byte, o int64) (int, error) { return f.Reader.ReadAt(b, o) }
func (f *memoryOpen) Seek(o int64, w int) (int64, error)    { return f.Reader.Seek(o, w) }
func (f *memoryOpen) Close() error                          { return nil }
func (f *memoryOpen) Write(b []byte) (int, error) {
	old, _ := f.m.ReadFile(f.name)
	f.m.put(f.name, string(old)+string(b), 0o600)
	return len(b), nil
}

type memoryWatch struct {
	m   *memoryFiles
	dir string
	c   chan kernel.FileEvent
}

func (m *memoryFiles) Watch(name string) (kernel.Watch, error) {
	if _, err := m.Stat(name); err != nil {
		return nil, err
	}
	w := &memoryWatch{m, name, make(chan kernel.FileEvent, 100)}
	m.mu.Lock()
	m.watches[w] = true
	m.mu.Unlock()
	return w, nil
}

func (w *memoryWatch) Events() <-chan kernel.FileEvent { return w.c }
func (w *memoryWatch) Close() error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.m.watches[w] {
		delete(w.m.watches, w)
		close(w.c)
	}
	return nil
}
