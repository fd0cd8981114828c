package filesystem

import (
	"io/fs"
	"time"

	"ckadrill/sim/kernel"
)

// FirstGenerated is the least number of a generated file's inode.
const FirstGenerated = 1 << 40

// Generator makes files when they are looked at, such as the directories of processes below /proc. It is called while the
// package's lock is held, so it must not use a tree. Its files can not be changed and are no part of a freeze.
type Generator interface {
	// Root are the entries that the tree's root has beside its own: names, and numbers from [FirstGenerated] on.
	Root() map[string]uint64
	// File describes one of them; ok is false where it is not there any more.
	File(id uint64) (f Generated, ok bool)
}

// Generated is a file that a [Generator] makes: a directory when Entries is set, a symbolic link when Target is, else a
// file of that content.
type Generated struct {
	Mode     fs.FileMode // permissions
	UID, GID int
	Time     time.Time
	Entries  map[string]uint64
	Target   string
	Content  func() []byte
	Write    func([]byte) error // nil: the file cannot be written
}

// SetGenerator gives a tree generated files.
func (t *Tree) SetGenerator(g Generator) {
	mu.Lock()
	defer mu.Unlock()
	t.generated = g
}

// SetOfKernel makes a tree what procfs is: its files are the kernel's, so that nobody, not even root, can add one (ENOENT) or
// remove one (EPERM). It is called when the tree is complete.
func (t *Tree) SetOfKernel() {
	mu.Lock()
	defer mu.Unlock()
	t.ofKernel = true
}

// KernelFiles is a tree as the kernel itself sees it: it may add and remove names where [Tree.SetOfKernel] forbids it.
func (t *Tree) KernelFiles() (kernel.Files, error) {
	v, err := NewView([]Mount{{Target: "/", Tree: t}})
	if err != nil {
		return nil, err
	}
	return &files{v: v, umask: 0o022, byKernel: true}, nil
}

func (t *Tree) generate(id uint64) *inode {
	if t.generated == nil {
		return nil
	}
	f, ok := t.generated.File(id)
	if !ok {
		return nil
	}
	i := &inode{id: id, mode: f.Mode.Perm(), uid: f.UID, gid: f.GID, nlink: 1, mtime: f.Time, atime: f.Time, ctime: f.Time}
	switch {
	case f.Entries != nil:
		i.mode |= fs.ModeDir
		i.entries, i.nlink = f.Entries, 2
	case f.Target != "":
		i.mode |= fs.ModeSymlink
		i.target = f.Target
	default:
		i.dynamic = &Dynamic{Read: f.Content, Write: f.Write}
	}
	return i
}

// entry finds a name in a directory.
func (t *Tree) entry(dir *inode, name string) (uint64, bool) {
	if id, ok := dir.entries[name]; ok {
		return id, true
	}
	if t.generated != nil && dir.id == rootInode {
		id, ok := t.generated.Root()[name]
		return id, ok
	}
	return 0, false
}
