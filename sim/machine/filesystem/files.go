package filesystem

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// files is a view as somebody sees it. It implements [kernel.Files].
type files struct {
	v     *View
	c     kernel.Credential
	umask fs.FileMode
	// byKernel is set for what the kernel itself does to its trees.
	byKernel bool
}

func (f *files) As(c kernel.Credential) kernel.Files { return &files{v: f.v, c: c, umask: f.umask} }

func (f *files) SetUmask(m fs.FileMode) {
	mu.Lock()
	defer mu.Unlock()
	f.umask = m & 0o777
}

// View is the mount namespace that some [kernel.Files] of this package belong to.
func ViewOf(k kernel.Files) (*View, bool) {
	for {
		switch f := k.(type) {
		case *files:
			return f.v, true
		case interface{ Unwrap() kernel.Files }: // a layer over the tree, such as a shell's open descriptors
			k = f.Unwrap()
		default:
			return nil, false
		}
	}
}

func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// exists resolves a path that must lead somewhere.
func (f *files) exists(name string, follow bool) (*place, *inode, error) {
	p, err := f.walk(name, follow)
	if err != nil {
		return nil, nil, err
	}
	if p.id == 0 {
		return nil, nil, syscall.ENOENT
	}
	i := p.tree.get(p.id)
	if i == nil {
		return nil, nil, syscall.ENOENT
	}
	return p, i, nil
}

// writable says why a place's file system cannot be changed.
func (p *place) writable() error {
	if p.readOnly || p.tree.sealed {
		return syscall.EROFS
	}
	if p.id >= FirstGenerated {
		return syscall.EPERM
	}
	return nil
}

// parent returns the directory in which a name may be added or removed.
func (f *files) parent(p *place) (*place, *inode, error) {
	if p.dir == nil || p.mounted && p.dir.tree.get(p.dir.id).entries[p.base] == 0 {
		return nil, nil, syscall.EBUSY
	}
	if p.id >= FirstGenerated {
		return nil, nil, syscall.EPERM
	}
	d := p.dir
	if err := d.writable(); err != nil {
		return nil, nil, err
	}
	if d.tree.ofKernel && !f.byKernel {
		if p.id == 0 {
			return nil, nil, syscall.ENOENT
		}
		return nil, nil, syscall.EPERM
	}
	i := d.tree.get(d.id)
	if i == nil {
		return nil, nil, syscall.ENOENT
	}
	if !f.may(i, 3) {
		return nil, nil, syscall.EACCES
	}
	return d, d.tree.edit(d.id), nil
}

// removable adds the sticky bit's rule: in such a directory only the owner of a file, or of the directory, may remove it.
func (f *files) removable(dir, i *inode) error {
	if dir.mode&fs.ModeSticky != 0 && f.c.UID != 0 && f.c.UID != i.uid && f.c.UID != dir.uid {
		return syscall.EPERM
	}
	return nil
}

// create makes an inode at a free place.
func (f *files) create(p *place, mode fs.FileMode) (*inode, error) {
	if p.base == "" {
		return nil, syscall.EEXIST
	}
	d, dir, err := f.parent(p)
	if err != nil {
		return nil, err
	}
	if err := d.tree.quota.takeInode(mode); err != nil {
		return nil, err
	}
	gid := f.c.GID
	if dir.mode&fs.ModeSetgid != 0 {
		gid = dir.gid
		if mode.IsDir() {
			mode |= fs.ModeSetgid
		}
	}
	i := d.tree.newInode(mode, f.c.UID, gid)
	if mode.IsDir() {
		i.nlink = 2
		dir.nlink++
	}
	dir.entries[p.base] = i.id
	dir.mtime, dir.ctime = i.mtime, i.mtime
	p.tree, p.id = d.tree, i.id
	tell(dir, p.base, kernel.FileCreate)
	return i, nil
}

// unlink removes a name and what no other name leads to.
func (f *files) unlink(p *place, dir, i *inode) {
	delete(dir.entries, p.base)
	now := time.Now()
	dir.mtime, dir.ctime = now, now
	i.ctime = now
	if i.mode.IsDir() {
		i.nlink = 0
		dir.nlink--
	} else {
		i.nlink--
	}
	tell(dir, p.base, kernel.FileRemove)
	if i.nlink == 0 {
		tellSelf(i, kernel.FileRemove)
	} else {
		tellSelf(i, kernel.FileChmod)
	}
	p.tree.drop(i)
}

const kinds = fs.ModeSocket | fs.ModeDevice | fs.ModeCharDevice | fs.ModeNamedPipe

func (f *files) OpenFile(name string, flag int, perm fs.FileMode) (kernel.File, error) {
	mu.Lock()
	defer mu.Unlock()
	o, err := f.open(name, flag, perm)
	if err != nil {
		return nil, fail("open", name, err)
	}
	return o, nil
}

func (f *files) open(name string, flag int, perm fs.FileMode) (*file, error) {
	follow := flag&(os.O_CREATE|os.O_EXCL) != os.O_CREATE|os.O_EXCL
	p, err := f.walk(name, follow)
	if err != nil {
		return nil, err
	}
	write := flag&(os.O_WRONLY|os.O_RDWR) != 0
	o := &file{f: f, name: name, place: p, flag: flag}
	var i *inode
	if p.id == 0 {
		if flag&os.O_CREATE == 0 {
			return nil, syscall.ENOENT
		}
		if strings.HasSuffix(name, "/") {
			return nil, syscall.EISDIR
		}
		mode := perm & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | kinds) &^ f.umask
		if mode&(fs.ModeDevice|fs.ModeCharDevice) != 0 && f.c.UID != 0 {
			return nil, syscall.EPERM
		}
		if i, err = f.create(p, mode); err != nil {
			return nil, err
		}
		i.open++
		o.id, o.counted = i.id, true
		return o, nil
	}
	i = p.tree.get(p.id)
	switch {
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case i.mode&fs.ModeSymlink != 0:
		return nil, syscall.ELOOP
	case i.mode&fs.ModeSocket != 0:
		return nil, syscall.ENXIO
	case i.mode&fs.ModeNamedPipe != 0:
		return nil, errors.New("ckadrill does not simulate named pipes yet")
	case i.mode.IsDir() && (write || flag&os.O_CREATE != 0):
		return nil, syscall.EISDIR
	}
	if flag&os.O_WRONLY == 0 && !f.may(i, 4) || write && !f.may(i, 2) {
		return nil, syscall.EACCES
	}
	if i.dynamic != nil {
		switch {
		case write && p.readOnly:
			return nil, syscall.EROFS
		case write && i.dynamic.Write == nil:
			return nil, syscall.EACCES
		}
		o.dynamic = i.dynamic
	} else if i.mode&fs.ModeCharDevice != 0 {
		o.device = i.rdev
	} else if write {
		if err := p.writable(); err != nil {
			return nil, err
		}
		i = p.tree.edit(p.id)
		if flag&os.O_TRUNC != 0 && i.size > 0 {
			if err := p.tree.truncate(i, 0); err != nil {
				return nil, err
			}
			o.modified(i)
		}
	}
	if j := p.tree.inodes[p.id]; j != nil {
		j.open++
		o.counted = true
	}
	o.id = p.id
	return o, nil
}

func (f *files) Stat(name string) (fs.FileInfo, error)  { return f.stat("stat", name, true) }
func (f *files) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *files) stat(op, name string, follow bool) (fs.FileInfo, error) {
	mu.RLock()
	defer mu.RUnlock()
	p, i, err := f.exists(name, follow)
	if err != nil {
		return nil, fail(op, name, err)
	}
	return p.tree.info(path.Base(path.Clean(name)), i), nil
}

func (f *files) ReadDir(name string) ([]fs.DirEntry, error) {
	mu.RLock()
	defer mu.RUnlock()
	p, i, err := f.exists(name, true)
	switch {
	case err != nil:
		return nil, fail("open", name, err)
	case !i.mode.IsDir():
		return nil, fail("readdirent", name, syscall.ENOTDIR)
	case !f.may(i, 4):
		return nil, fail("open", name, syscall.EACCES)
	}
	return f.list(p, i), nil
}

func (f *files) list(p *place, i *inode) []fs.DirEntry {
	names := make([]string, 0, len(i.entries))
	for n := range i.entries {
		names = append(names, n)
	}
	if p.tree.generated != nil && p.id == rootInode {
		names = slices.AppendSeq(names, maps.Keys(p.tree.generated.Root()))
	}
	names = append(names, f.v.below(p.name)...)
	slices.Sort(names)
	names = slices.Compact(names)
	l := make([]fs.DirEntry, 0, len(names))
	for _, n := range names {
		tree := p.tree
		id, _ := tree.entry(i, n)
		if m, ok := f.v.at(path.Join(p.name, n)); ok {
			tree, id = m.Tree, m.root
		}
		if e := tree.get(id); e != nil {
			l = append(l, tree.info(n, e))
		}
	}
	return l
}

func (f *files) ReadFile(name string) ([]byte, error) {
	o, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(io.LimitReader(o, maxRead))
}

// maxRead bounds what one ReadFile returns: /dev/zero has no end.
const maxRead = 1 << 30

func (f *files) WriteFile(name string, data []byte, perm fs.FileMode) error {
	o, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = o.Write(data)
	return errors.Join(err, o.Close())
}

func (f *files) Readlink(name string) (string, error) {
	mu.RLock()
	defer mu.RUnlock()
	_, i, err := f.exists(name, false)
	if err == nil && i.mode&fs.ModeSymlink == 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", fail("readlink", name, err)
	}
	return i.target, nil
}

func (f *files) EvalSymlinks(name string) (string, error) {
	mu.RLock()
	defer mu.RUnlock()
	p, _, err := f.exists(name, true)
	if err != nil {
		return "", fail("lstat", name, err)
	}
	return p.name, nil
}

func (f *files) Mkdir(name string, perm fs.FileMode) error {
	mu.Lock()
	defer mu.Unlock()
	return fail("mkdir", name, f.mkdir(name, perm))
}

func (f *files) mkdir(name string, perm fs.FileMode) error {
	p, err := f.walk(strings.TrimRight(name, "/"), false)
	if err != nil {
		return err
	}
	if p.id != 0 {
		return syscall.EEXIST
	}
	_, err = f.create(p, fs.ModeDir|perm&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid)&^f.umask)
	return err
}

func (f *files) MkdirAll(name string, perm fs.FileMode) error {
	mu.Lock()
	defer mu.Unlock()
	name = path.Clean("/" + name)
	at := ""
	for _, part := range strings.Split(name[1:], "/") {
		at += "/" + part
		p, err := f.walk(at, true)
		if err != nil {
			return fail("mkdir", at, err)
		}
		if p.id == 0 {
			if p.base == "" {
				return fail("mkdir", at, syscall.EEXIST)
			}
			if _, err := f.create(p, fs.ModeDir|perm&(fs.ModePerm|fs.ModeSticky)&^f.umask); err != nil {
				return fail("mkdir", at, err)
			}
		} else if i := p.tree.get(p.id); !i.mode.IsDir() {
			return fail("mkdir", at, syscall.ENOTDIR)
		}
	}
	return nil
}

func (f *files) Remove(name string) error {
	mu.Lock()
	defer mu.Unlock()
	return fail("remove", name, f.remove(name))
}

func (f *files) remove(name string) error {
	p, i, err := f.exists(strings.TrimRight(name, "/"), false)
	if err != nil {
		return err
	}
	if p.mounted {
		return syscall.EBUSY
	}
	_, dir, err := f.parent(p)
	if err != nil {
		return err
	}
	if err := f.removable(dir, i); err != nil {
		return err
	}
	if i.mode.IsDir() && (len(i.entries) > 0 || len(f.v.below(p.name)) > 0) {
		return syscall.ENOTEMPTY
	}
	f.unlink(p, dir, p.tree.edit(p.id))
	return nil
}

func (f *files) RemoveAll(name string) error {
	info, err := f.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		l, err := f.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range l {
			if err := f.RemoveAll(path.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	err = f.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *files) Rename(from, to string) error {
	mu.Lock()
	defer mu.Unlock()
	if err := f.rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (f *files) rename(from, to string) error {
	a, i, err := f.exists(strings.TrimRight(from, "/"), false)
	if err != nil {
		return err
	}
	b, err := f.walk(strings.TrimRight(to, "/"), false)
	if err != nil {
		return err
	}
	if a.mounted || b.mounted {
		return syscall.EBUSY
	}
	if a.tree != b.tree {
		return syscall.EXDEV
	}
	_, adir, err := f.parent(a)
	if err != nil {
		return err
	}
	if err := f.removable(adir, i); err != nil {
		return err
	}
	_, bdir, err := f.parent(b)
	if err != nil {
		return err
	}
	if i.mode.IsDir() && (b.name == a.name || strings.HasPrefix(b.name, a.name+"/")) && b.id != a.id {
		return syscall.EINVAL
	}
	if b.id == a.id {
		return nil
	}
	if b.id != 0 {
		old := b.tree.get(b.id)
		switch {
		case old.mode.IsDir() && !i.mode.IsDir():
			return syscall.EISDIR
		case !old.mode.IsDir() && i.mode.IsDir():
			return syscall.ENOTDIR
		case old.mode.IsDir() && len(old.entries) > 0:
			return syscall.ENOTEMPTY
		}
		if err := f.removable(bdir, old); err != nil {
			return err
		}
		old = b.tree.edit(b.id)
		if old.mode.IsDir() {
			old.nlink, bdir.nlink = 0, bdir.nlink-1
		} else {
			old.nlink--
		}
		tellSelf(old, kernel.FileRemove)
		b.tree.drop(old)
	}
	i = a.tree.edit(a.id)
	delete(adir.entries, a.base)
	bdir.entries[b.base] = a.id
	if i.mode.IsDir() {
		adir.nlink--
		bdir.nlink++
	}
	now := time.Now()
	adir.mtime, adir.ctime, bdir.mtime, bdir.ctime, i.ctime = now, now, now, now, now
	tell(adir, a.base, kernel.FileRename)
	tell(bdir, b.base, kernel.FileCreate)
	tellSelf(i, kernel.FileRename)
	return nil
}

func (f *files) Symlink(target, name string) error {
	mu.Lock()
	defer mu.Unlock()
	p, err := f.walk(name, false)
	if err == nil && p.id != 0 {
		err = syscall.EEXIST
	}
	if err == nil && target == "" {
		err = syscall.ENOENT
	}
	var i *inode
	if err == nil {
		i, err = f.create(p, fs.ModeSymlink|0o777)
	}
	if err != nil {
		return &os.LinkError{Op: "symlink", Old: target, New: name, Err: err}
	}
	i.target = target
	return nil
}

func (f *files) Link(from, name string) error {
	mu.Lock()
	defer mu.Unlock()
	if err := f.link(from, name); err != nil {
		return &os.LinkError{Op: "link", Old: from, New: name, Err: err}
	}
	return nil
}

func (f *files) link(from, name string) error {
	a, i, err := f.exists(from, false)
	if err != nil {
		return err
	}
	if i.mode.IsDir() || a.id >= FirstGenerated {
		return syscall.EPERM
	}
	b, err := f.walk(name, false)
	if err != nil {
		return err
	}
	if b.id != 0 {
		return syscall.EEXIST
	}
	d, dir, err := f.parent(b)
	if err != nil {
		return err
	}
	if d.tree != a.tree {
		return syscall.EXDEV
	}
	i = a.tree.edit(a.id)
	i.nlink++
	i.ctime = time.Now()
	dir.entries[b.base] = a.id
	dir.mtime, dir.ctime = i.ctime, i.ctime
	tell(dir, b.base, kernel.FileCreate)
	return nil
}

// change edits an inode's attributes.
func (f *files) change(op, name string, follow bool, may func(i *inode) error, edit func(i *inode)) error {
	mu.Lock()
	defer mu.Unlock()
	p, i, err := f.exists(name, follow)
	if err == nil {
		err = p.writable()
	}
	if err == nil {
		err = may(i)
	}
	if err != nil {
		return fail(op, name, err)
	}
	i = p.tree.edit(p.id)
	edit(i)
	i.ctime = time.Now()
	if p.dir != nil && !p.mounted {
		tell(p.dir.tree.get(p.dir.id), p.base, kernel.FileChmod)
	}
	tellSelf(i, kernel.FileChmod)
	return nil
}

func (f *files) owner(i *inode) error {
	if !f.owns(i) {
		return syscall.EPERM
	}
	return nil
}

func (f *files) Chmod(name string, mode fs.FileMode) error {
	return f.change("chmod", name, true, f.owner, func(i *inode) {
		const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
		i.mode = i.mode&^bits | mode&bits
	})
}

func (f *files) Chown(name string, uid, gid int) error { return f.chown("chown", name, true, uid, gid) }
func (f *files) Lchown(name string, uid, gid int) error {
	return f.chown("lchown", name, false, uid, gid)
}

// chown lets only root give files away; an owner may choose among their own groups. -1 leaves an id as it is.
func (f *files) chown(op, name string, follow bool, uid, gid int) error {
	may := func(i *inode) error {
		if f.c.UID == 0 {
			return nil
		}
		if f.c.UID != i.uid || uid >= 0 && uid != i.uid || gid >= 0 && gid != f.c.GID && gid != i.gid && !slices.Contains(f.c.Groups, gid) {
			return syscall.EPERM
		}
		return nil
	}
	return f.change(op, name, follow, may, func(i *inode) {
		if uid >= 0 {
			i.uid = uid
		}
		if gid >= 0 {
			i.gid = gid
		}
		if f.c.UID != 0 && !i.mode.IsDir() {
			i.mode &^= fs.ModeSetuid | fs.ModeSetgid
		}
	})
}

func (f *files) Chtimes(name string, atime, mtime time.Time) error {
	may := func(i *inode) error {
		if f.owns(i) || f.may(i, 2) {
			return nil
		}
		return syscall.EACCES
	}
	return f.change("chtimes", name, true, may, func(i *inode) {
		if !atime.IsZero() {
			i.atime = atime
		}
		if !mtime.IsZero() {
			i.mtime = mtime
		}
	})
}

func (f *files) Truncate(name string, size int64) error {
	o, err := f.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return fail("truncate", name, err)
	}
	defer o.Close()
	return o.Truncate(size)
}

func (f *files) Usage(name string) (size, free int64, err error) {
	mu.RLock()
	defer mu.RUnlock()
	q, err := f.quota(name)
	if err != nil {
		return 0, 0, err
	}
	return q.limit, max(0, q.limit-q.used.Load()), nil
}

func (f *files) InodeUsage(name string) (all, free int64, err error) {
	mu.RLock()
	defer mu.RUnlock()
	q, err := f.quota(name)
	if err != nil {
		return 0, 0, err
	}
	all, used := q.Inodes()
	return all, max(0, all-used), nil
}

// quota is the space of the file system that holds name. The lock is held.
func (f *files) quota(name string) (*Quota, error) {
	p, _, err := f.exists(name, true)
	if err != nil {
		return nil, fail("statfs", name, err)
	}
	return p.tree.quota, nil
}

// SetDynamic makes a file whose content is made when it is read. It is for trees that are not frozen.
func (t *Tree) SetDynamic(f kernel.Files, name string, mode fs.FileMode, d Dynamic) error {
	o, err := f.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer o.Close()
	mu.Lock()
	defer mu.Unlock()
	t.inodes[o.(*file).id].dynamic = &d
	return nil
}

// SetDevice makes a character device, such as "1:3" for /dev/null.
func (t *Tree) SetDevice(f kernel.Files, name string, mode fs.FileMode, rdev string) error {
	o, err := f.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|fs.ModeDevice|fs.ModeCharDevice)
	if err != nil {
		return err
	}
	defer o.Close()
	mu.Lock()
	defer mu.Unlock()
	t.inodes[o.(*file).id].rdev = rdev
	return nil
}
