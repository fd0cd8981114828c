package runtime

import (
	"io"
	"io/fs"
	"os"
	"time"

	"ckadrill/sim/kernel"
)

// replayFiles is the tree of a container that runs on after a thaw. A program of it that makes up for its past, as a shell
// script does (see [kernel.Process.Lag]), has changed these files long ago: its changes are dropped until it has caught up.
type replayFiles struct{ kernel.Files }

// Unwrap is the tree below.
func (f replayFiles) Unwrap() kernel.Files { return f.Files }

func (f replayFiles) As(c kernel.Credential) kernel.Files { return replayFiles{f.Files.As(c)} }

// change calls f, unless the caller lives in its past.
func change(f func() error) error {
	if kernel.Replaying() {
		return nil
	}
	return f()
}

func (f replayFiles) OpenFile(name string, flag int, perm fs.FileMode) (kernel.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND) == 0 || !kernel.Replaying() {
		return f.Files.OpenFile(name, flag, perm)
	}
	below, err := f.Files.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		below = nil // it was there, and has been removed since
	}
	return &replayFile{name: name, below: below, flag: flag, perm: perm, files: f.Files}, nil
}

func (f replayFiles) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return change(func() error { return f.Files.WriteFile(name, data, perm) })
}

func (f replayFiles) Mkdir(name string, perm fs.FileMode) error {
	return change(func() error { return f.Files.Mkdir(name, perm) })
}

func (f replayFiles) MkdirAll(name string, perm fs.FileMode) error {
	return change(func() error { return f.Files.MkdirAll(name, perm) })
}

func (f replayFiles) Remove(name string) error {
	return change(func() error { return f.Files.Remove(name) })
}

func (f replayFiles) RemoveAll(name string) error {
	return change(func() error { return f.Files.RemoveAll(name) })
}

func (f replayFiles) Rename(from, to string) error {
	return change(func() error { return f.Files.Rename(from, to) })
}

func (f replayFiles) Symlink(target, name string) error {
	return change(func() error { return f.Files.Symlink(target, name) })
}

func (f replayFiles) Link(from, name string) error {
	return change(func() error { return f.Files.Link(from, name) })
}

func (f replayFiles) Chmod(name string, mode fs.FileMode) error {
	return change(func() error { return f.Files.Chmod(name, mode) })
}

func (f replayFiles) Chown(name string, uid, gid int) error {
	return change(func() error { return f.Files.Chown(name, uid, gid) })
}

func (f replayFiles) Lchown(name string, uid, gid int) error {
	return change(func() error { return f.Files.Lchown(name, uid, gid) })
}

func (f replayFiles) Chtimes(name string, atime, mtime time.Time) error {
	return change(func() error { return f.Files.Chtimes(name, atime, mtime) })
}

func (f replayFiles) Truncate(name string, size int64) error {
	return change(func() error { return f.Files.Truncate(name, size) })
}

// replayFile was opened for writing in the past. Once its process has caught up, it is the real file, behind what was
// written to it.
type replayFile struct {
	name  string
	below kernel.File // nil if there is none
	flag  int
	perm  fs.FileMode
	files kernel.Files
	real  bool
}

// catchUp opens the file for writing when the past is over. What the past wrote is there already, so the file is neither
// emptied nor written from its beginning.
func (f *replayFile) catchUp() error {
	if f.real || kernel.Replaying() {
		return nil
	}
	file, err := f.files.OpenFile(f.name, f.flag&^(os.O_TRUNC|os.O_EXCL), f.perm)
	if err != nil {
		return err
	}
	if f.flag&os.O_APPEND == 0 {
		if _, err := file.Seek(0, io.SeekEnd); err != nil {
			file.Close()
			return err
		}
	}
	if f.below != nil {
		f.below.Close()
	}
	f.below, f.real = file, true
	return nil
}

func (f *replayFile) Write(b []byte) (int, error) {
	if err := f.catchUp(); err != nil {
		return 0, err
	}
	if !f.real {
		return len(b), nil
	}
	return f.below.Write(b)
}

func (f *replayFile) Read(b []byte) (int, error) {
	if f.below == nil {
		return 0, io.EOF
	}
	return f.below.Read(b)
}

func (f *replayFile) ReadAt(b []byte, off int64) (int, error) {
	if f.below == nil {
		return 0, io.EOF
	}
	return f.below.ReadAt(b, off)
}

func (f *replayFile) Seek(offset int64, whence int) (int64, error) {
	if f.below == nil {
		return 0, nil
	}
	return f.below.Seek(offset, whence)
}

func (f *replayFile) Truncate(size int64) error {
	if err := f.catchUp(); err != nil || !f.real {
		return err
	}
	return f.below.Truncate(size)
}

func (f *replayFile) Name() string { return f.name }

func (f *replayFile) Stat() (fs.FileInfo, error) {
	if f.below == nil {
		return nil, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrNotExist}
	}
	return f.below.Stat()
}

func (f *replayFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if f.below == nil {
		return nil, io.EOF
	}
	return f.below.ReadDir(n)
}

func (f *replayFile) Close() error {
	if f.below == nil {
		return nil
	}
	return f.below.Close()
}
