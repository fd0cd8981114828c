package filesystem

import (
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// file is an open file.
type file struct {
	f       *files
	name    string
	place   *place
	id      uint64
	flag    int
	counted bool
	dynamic *Dynamic
	device  string

	mu      sync.Mutex
	off     int64
	closed  bool
	content []byte // of a dynamic file, as it was at the first read
	loaded  bool
	written []byte // to a dynamic file, handed over at close
	listed  int
}

func (o *file) Name() string { return o.name }

func (o *file) tree() *Tree { return o.place.tree }

// inode finds the inode anew: a clone may have copied it since.
func (o *file) inode() *inode { return o.tree().get(o.id) }

func (o *file) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.readAt("read", b, o.off)
	o.off += int64(n)
	return n, err
}

func (o *file) ReadAt(b []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.readAt("read", b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (o *file) readAt(op string, b []byte, off int64) (int, error) {
	switch {
	case o.closed:
		return 0, fail(op, o.name, fs.ErrClosed)
	case o.flag&os.O_WRONLY != 0:
		return 0, fail(op, o.name, syscall.EBADF)
	case o.dynamic != nil:
		if !o.loaded {
			o.loaded = true
			if o.dynamic.Read != nil {
				o.content = o.dynamic.Read()
			}
		}
		if off >= int64(len(o.content)) {
			return 0, io.EOF
		}
		return copy(b, o.content[off:]), nil
	case o.device != "":
		return readDevice(o.tree().w, o.device, b)
	}
	mu.RLock()
	defer mu.RUnlock()
	i := o.inode()
	if i == nil {
		return 0, fail(op, o.name, syscall.ESTALE)
	}
	if i.mode.IsDir() {
		return 0, fail(op, o.name, syscall.EISDIR)
	}
	n := i.readAt(b, off)
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (o *file) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return 0, fail("write", o.name, fs.ErrClosed)
	case o.flag&(os.O_WRONLY|os.O_RDWR) == 0:
		return 0, fail("write", o.name, syscall.EBADF)
	case o.dynamic != nil:
		if len(o.written)+len(b) > chunkSize {
			return 0, fail("write", o.name, syscall.EINVAL)
		}
		o.written = append(o.written, b...)
		return len(b), nil
	case o.device != "":
		n, err := writeDevice(o.device, b)
		return n, fail("write", o.name, err)
	}
	mu.Lock()
	defer mu.Unlock()
	i := o.tree().edit(o.id)
	if i == nil {
		return 0, fail("write", o.name, syscall.ESTALE)
	}
	if o.flag&os.O_APPEND != 0 {
		o.off = i.size
	}
	n, err := o.tree().writeAt(i, b, o.off)
	o.off += int64(n)
	if n > 0 {
		o.modified(i)
	}
	return n, fail("write", o.name, err)
}

// modified notes a change of content. Callers hold the package's mu.
func (o *file) modified(i *inode) {
	i.mtime = time.Now()
	i.ctime = i.mtime
	if d := o.place.dir; d != nil && !o.place.mounted {
		tell(d.tree.get(d.id), o.place.base, kernel.FileWrite)
	}
	tellSelf(i, kernel.FileWrite)
}

func (o *file) Seek(offset int64, whence int) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := offset
	switch whence {
	case io.SeekCurrent:
		at += o.off
	case io.SeekEnd:
		mu.RLock()
		if i := o.inode(); i != nil {
			at += i.size
		}
		mu.RUnlock()
	}
	if at < 0 {
		return 0, fail("seek", o.name, syscall.EINVAL)
	}
	o.off = at
	return at, nil
}

func (o *file) Truncate(size int64) error {
	if o.flag&(os.O_WRONLY|os.O_RDWR) == 0 || size < 0 || o.dynamic != nil {
		return fail("truncate", o.name, syscall.EINVAL)
	}
	mu.Lock()
	defer mu.Unlock()
	i := o.tree().edit(o.id)
	if i == nil {
		return fail("truncate", o.name, syscall.ESTALE)
	}
	if err := o.tree().truncate(i, size); err != nil {
		return fail("truncate", o.name, err)
	}
	o.modified(i)
	return nil
}

func (o *file) Stat() (fs.FileInfo, error) {
	mu.RLock()
	defer mu.RUnlock()
	i := o.inode()
	if i == nil {
		return nil, fail("stat", o.name, syscall.ESTALE)
	}
	return o.tree().info(path.Base(o.name), i), nil
}

func (o *file) ReadDir(n int) ([]fs.DirEntry, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	mu.RLock()
	defer mu.RUnlock()
	i := o.inode()
	if i == nil || !i.mode.IsDir() {
		return nil, fail("readdirent", o.name, syscall.ENOTDIR)
	}
	l := o.f.list(o.place, i)
	l = l[min(o.listed, len(l)):]
	if n > 0 {
		if len(l) == 0 {
			return nil, io.EOF
		}
		l = l[:min(n, len(l))]
	}
	o.listed += len(l)
	return l, nil
}

func (o *file) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fail("close", o.name, fs.ErrClosed)
	}
	o.closed = true
	if o.dynamic != nil {
		if len(o.written) > 0 {
			return fail("write", o.name, o.dynamic.Write(o.written))
		}
		return nil
	}
	mu.Lock()
	defer mu.Unlock()
	if i := o.tree().inodes[o.id]; i != nil && o.counted {
		i.open--
		o.tree().drop(i)
	}
	return nil
}
