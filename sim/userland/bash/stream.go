package bash

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/pipe"
)

// stream is an open file description behind a descriptor of the shell.
type stream struct {
	r    io.Reader
	w    io.Writer
	c    io.Closer
	refs *atomic.Int32 // how many shells and commands hold it; nil for what the shell did not open
}

func opened(r io.Reader, w io.Writer, c io.Closer) *stream {
	s := &stream{r: r, w: w, c: c, refs: &atomic.Int32{}}
	s.refs.Store(1)
	return s
}

func (s *stream) retain() *stream {
	if s != nil && s.refs != nil {
		s.refs.Add(1)
	}
	return s
}

func (s *stream) release() {
	if s != nil && s.refs != nil && s.refs.Add(-1) == 0 && s.c != nil {
		s.c.Close()
	}
}

// badDescriptor is what writes to a closed descriptor meet.
type badDescriptor struct{}

func (badDescriptor) Write([]byte) (int, error) { return 0, syscall.EBADF }
func (badDescriptor) Read([]byte) (int, error)  { return 0, syscall.EBADF }

type nullDevice struct{}

func (nullDevice) Write(b []byte) (int, error) { return len(b), nil }
func (nullDevice) Read([]byte) (int, error)    { return 0, io.EOF }

// openFile opens what a redirection names.
func (sh *Shell) openFile(name string, flag int) (*stream, error) {
	full := sh.abs(name)
	switch {
	case full == "/dev/null":
		return opened(nullDevice{}, nullDevice{}, nil), nil
	case full == "/dev/tty":
		if sh.p.TTY == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENXIO}
		}
		return opened(sh.p.TTY, sh.p.TTY, nil), nil
	case full == "/dev/stdin", full == "/dev/stdout", full == "/dev/stderr", strings.HasPrefix(full, "/dev/fd/"), strings.HasPrefix(full, "/proc/self/fd/"):
		n, ok := fdNumber(full)
		if s := sh.fds[n]; ok && s != nil {
			return s.retain(), nil
		}
		for _, f := range sh.substFiles {
			if f.name == full {
				return f.open(), nil
			}
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	case strings.HasPrefix(full, "/dev/tcp/"), strings.HasPrefix(full, "/dev/udp/"):
		return sh.dialFile(full)
	}
	if sh.files == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	if flag&os.O_TRUNC != 0 && sh.opt['C'] {
		if i, err := sh.files.Stat(full); err == nil && i.Mode().IsRegular() {
			return nil, errNoclobber
		}
	}
	if strings.HasSuffix(name, "/") && flag&os.O_CREATE != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	f, err := sh.files.OpenFile(full, flag, 0o666)
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err == nil && i.IsDir() && flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return opened(f, f, f), nil
}

var errNoclobber = errors.New("cannot overwrite existing file")

func fdNumber(full string) (int, bool) {
	switch full {
	case "/dev/stdin":
		return 0, true
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	n, err := strconv.Atoi(path.Base(full))
	return n, err == nil
}

// dialFile is bash's own /dev/tcp/HOST/PORT.
func (sh *Shell) dialFile(name string) (*stream, error) {
	f := strings.Split(strings.TrimPrefix(name, "/dev/"), "/")
	if len(f) != 3 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	host, err := Resolve(sh.p, f[1])
	if err != nil {
		sh.complain("%s: Name or service not known", f[1])
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	conn, err := sh.p.Dial(sh.p.Context(), f[0], netJoin(host, f[2]))
	if err != nil {
		sh.complain("connect: %s", libc.Strerror(err))
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return opened(conn, conn, conn), nil
}

// Resolve turns a host name into a numeric address, for /dev/tcp. The network room's resolver replaces it; by itself it
// knows numeric addresses and /etc/hosts.
var Resolve = func(p *kernel.Process, host string) (string, error) {
	if strings.Trim(host, "0123456789.") == "" || strings.Contains(host, ":") {
		return host, nil
	}
	b, _ := p.ReadFile("/etc/hosts")
	for _, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		for i := 1; i < len(f); i++ {
			if f[i] == host {
				return f[0], nil
			}
		}
	}
	return "", fs.ErrNotExist
}

func netJoin(host, port string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + port
	}
	return host + ":" + port
}

// substFile is the file behind a process substitution: the shell's and its commands' /dev/fd/N.
type substFile struct {
	name   string
	s      *stream
	isPipe bool
	done   chan struct{}
}

func (f *substFile) open() *stream { return f.s.retain() }

// childFiles is the tree of a command, with /dev/stdin, /dev/fd/N and the like standing for its own streams.
func (sh *Shell) childFiles() kernel.Files {
	if sh.files == nil {
		return nil
	}
	d := &descriptorFiles{Files: sh.files, open: map[string]*stream{}}
	for n, s := range sh.fds {
		d.open["/dev/fd/"+strconv.Itoa(n)] = s
	}
	for _, f := range sh.substFiles {
		d.open[f.name] = f.s
	}
	return d
}

// descriptorFiles lays a process's open descriptors over its tree.
type descriptorFiles struct {
	kernel.Files
	open map[string]*stream
}

func (d *descriptorFiles) find(name string) *stream {
	if !strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/proc/self/fd/") {
		return nil
	}
	if n, ok := fdNumber(name); ok && (strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/dev/std") || strings.HasPrefix(name, "/proc/")) {
		return d.open["/dev/fd/"+strconv.Itoa(n)]
	}
	return nil
}

// Unwrap is the tree below, without the descriptors.
func (d *descriptorFiles) Unwrap() kernel.Files { return d.Files }

// As implements kernel.Files.
func (d *descriptorFiles) As(c kernel.Credential) kernel.Files {
	return &descriptorFiles{Files: d.Files.As(c), open: d.open}
}

// OpenFile implements kernel.Files.
func (d *descriptorFiles) OpenFile(name string, flag int, perm fs.FileMode) (kernel.File, error) {
	if s := d.find(name); s != nil {
		return &descriptorFile{name: name, s: s.retain()}, nil
	}
	return d.Files.OpenFile(name, flag, perm)
}

// ReadFile implements kernel.Files.
func (d *descriptorFiles) ReadFile(name string) ([]byte, error) {
	if s := d.find(name); s != nil {
		f := &descriptorFile{name: name, s: s.retain()}
		defer f.Close()
		return libc.ReadAll(f)
	}
	return d.Files.ReadFile(name)
}

// Stat implements kernel.Files.
func (d *descriptorFiles) Stat(name string) (fs.FileInfo, error) {
	if s := d.find(name); s != nil {
		return pipeInfo(path.Base(name)), nil
	}
	return d.Files.Stat(name)
}

// Lstat implements kernel.Files.
func (d *descriptorFiles) Lstat(name string) (fs.FileInfo, error) {
	if s := d.find(name); s != nil {
		return pipeInfo(path.Base(name)), nil
	}
	return d.Files.Lstat(name)
}

// EvalSymlinks implements kernel.Files.
func (d *descriptorFiles) EvalSymlinks(name string) (string, error) {
	if d.find(name) != nil {
		return name, nil
	}
	return d.Files.EvalSymlinks(name)
}

// pipeInfo is what stat says of a pipe.
type pipeInfo string

func (i pipeInfo) Name() string     { return string(i) }
func (pipeInfo) Size() int64        { return 0 }
func (pipeInfo) Mode() fs.FileMode  { return fs.ModeNamedPipe | 0o600 }
func (pipeInfo) ModTime() time.Time { return now() }
func (pipeInfo) IsDir() bool        { return false }
func (pipeInfo) Sys() any           { return &kernel.FileStat{Nlink: 1, Device: "pipefs"} }

// descriptorFile is a file opened through /dev/fd.
type descriptorFile struct {
	name string
	s    *stream
	done atomic.Bool
}

func (f *descriptorFile) Read(b []byte) (int, error) {
	if f.s.r == nil {
		return 0, syscall.EBADF
	}
	return f.s.r.Read(b)
}

func (f *descriptorFile) Write(b []byte) (int, error) {
	if f.s.w == nil {
		return 0, syscall.EBADF
	}
	return f.s.w.Write(b)
}

func (f *descriptorFile) Close() error {
	if !f.done.Swap(true) {
		f.s.release()
	}
	return nil
}

func (f *descriptorFile) ReadAt([]byte, int64) (int, error)  { return 0, syscall.ESPIPE }
func (f *descriptorFile) Seek(int64, int) (int64, error)     { return 0, syscall.ESPIPE }
func (f *descriptorFile) Truncate(int64) error               { return syscall.EINVAL }
func (f *descriptorFile) ReadDir(int) ([]fs.DirEntry, error) { return nil, syscall.ENOTDIR }
func (f *descriptorFile) Name() string                       { return f.name }
func (f *descriptorFile) Stat() (fs.FileInfo, error)         { return pipeInfo(path.Base(f.name)), nil }

// newPipe makes a pipe of the shell's process as two streams.
func (sh *Shell) newPipe() (r, w *stream) {
	pr, pw := pipe.New(sh.p)
	return opened(pr, nil, pr), opened(nil, pw, pw)
}
