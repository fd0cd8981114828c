package kernel

import (
	"io"
	"io/fs"
	"time"
)

// Credential is who a process is to the file system: user, group and supplementary groups.
type Credential struct {
	UID, GID int
	Groups   []int
}

// Root is the superuser's credential.
var Root = Credential{}

// Files is a tree of files as one process sees it: a machine's root, or a container's root with its mounts. Names are
// absolute Linux paths ([Process.Path] makes them so). Errors are *fs.PathError (or *os.LinkError) around a syscall.Errno,
// with the texts that Linux prints ("no such file or directory", "permission denied", "no space left on device").
type Files interface {
	// OpenFile opens with the flags of package os (O_RDONLY, O_CREATE, O_TRUNC, O_APPEND, O_EXCL ...).
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Stat follows symbolic links, Lstat does not. Both return a [FileInfo] whose Sys is a *[FileStat].
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// ReadDir lists a directory in order of names.
	ReadDir(name string) ([]fs.DirEntry, error)
	ReadFile(name string) ([]byte, error)
	// WriteFile writes as os.WriteFile does: perm holds for a new file only.
	WriteFile(name string, data []byte, perm fs.FileMode) error
	Readlink(name string) (string, error)
	// EvalSymlinks returns the name with every symbolic link followed.
	EvalSymlinks(name string) (string, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	Symlink(target, name string) error
	Link(from, name string) error
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
	Truncate(name string, size int64) error
	// Watch reports changes below a directory's first level (or of one file) until it is closed, as inotify does.
	Watch(name string) (Watch, error)
	// Usage is the size and the free bytes of the file system that holds name.
	Usage(name string) (size, free int64, err error)
	// InodeUsage is how many inodes that file system has, and how many of them are free.
	InodeUsage(name string) (all, free int64, err error)
	// Umask is applied to the modes of new files and directories.
	SetUmask(mask fs.FileMode)
	// As is the same tree seen by somebody else.
	As(c Credential) Files
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Seeker
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	ReadDir(n int) ([]fs.DirEntry, error)
}

// FileStat is what [fs.FileInfo].Sys holds: the part of Linux's struct stat that io/fs leaves out.
type FileStat struct {
	Inode        uint64
	Nlink        int
	UID, GID     int
	Atime, Ctime time.Time
	Device       string
	Rdev         string // "major:minor" of a device node
}

// StatOf returns a FileInfo's owner, link count and times.
func StatOf(i fs.FileInfo) *FileStat {
	if s, ok := i.Sys().(*FileStat); ok {
		return s
	}
	return &FileStat{Nlink: 1}
}

// FileOp is a kind of file event.
type FileOp int

// File events, as fsnotify names inotify's.
const (
	FileCreate FileOp = 1 << iota
	FileWrite
	FileRemove
	FileRename
	FileChmod
)

// FileEvent says that something happened to the file Name (absolute).
type FileEvent struct {
	Name string
	Op   FileOp
}

// Watch delivers file events on a channel made in the world. A slow reader loses no event, it only reads later.
type Watch interface {
	Events() <-chan FileEvent
	Close() error
}

// Inodes is how many inodes a file system of so many bytes has: mkfs.ext4 makes one for each 16 KiB.
func Inodes(bytes int64) int64 { return bytes >> 14 }

// DiskUsage is the room that a file takes on an ext4 disk in bytes: whole blocks of 4 KiB, and none for a symbolic link, whose
// target lies in its inode.
func DiskUsage(mode fs.FileMode, size int64) int64 {
	switch {
	case mode.IsDir():
		return 4096
	case mode.IsRegular():
		return (size + 4095) &^ 4095
	}
	return 0
}
