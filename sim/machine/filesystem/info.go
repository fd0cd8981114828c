package filesystem

import (
	"io/fs"
	"time"

	"ckadrill/sim/kernel"
)

// info is an inode at one instant.
type info struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
	stat  kernel.FileStat
}

func (t *Tree) info(name string, i *inode) *info {
	x := &info{name: name, size: i.size, mode: i.mode, mtime: i.mtime, stat: kernel.FileStat{
		Inode: i.id, Nlink: i.nlink, UID: i.uid, GID: i.gid, Atime: i.atime, Ctime: i.ctime, Device: t.device, Rdev: i.rdev,
	}}
	switch {
	case i.mode.IsDir():
		x.size = 4096
	case i.mode&fs.ModeSymlink != 0:
		x.size = int64(len(i.target))
	}
	return x
}

func (i *info) Name() string               { return i.name }
func (i *info) Size() int64                { return i.size }
func (i *info) Mode() fs.FileMode          { return i.mode }
func (i *info) ModTime() time.Time         { return i.mtime }
func (i *info) IsDir() bool                { return i.mode.IsDir() }
func (i *info) Sys() any                   { return &i.stat }
func (i *info) Type() fs.FileMode          { return i.mode.Type() }
func (i *info) Info() (fs.FileInfo, error) { return i, nil }
