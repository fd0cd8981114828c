package filesystem

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"ckadrill/sim/kernel"
)

// Mount puts a tree, or the part of it below Root, at Target.
type Mount struct {
	Target   string // absolute; symbolic links in it are followed when it is mounted
	Tree     *Tree
	Root     string // within the tree; "" and "/" are the whole. It may be a single file.
	ReadOnly bool
	// Source and Type are what mount(8) and /proc/mounts show.
	Source, Type string
	root         uint64
}

// View is a mount namespace: what a machine's processes, or a container's, see as "/".
type View struct {
	mu     sync.RWMutex
	mounts []Mount // in order of mounting; the last one for a target wins
}

// NewView makes a view. The first mount must be the root's.
func NewView(mounts []Mount) (*View, error) {
	v := &View{}
	for _, m := range mounts {
		if err := v.Mount(m); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Mount adds a mount over what is at its target. Its root must exist in its tree; the target need not exist below.
func (v *View) Mount(m Mount) error {
	mu.RLock()
	m.Target = v.real(path.Clean("/" + m.Target))
	id, err := m.Tree.find(m.Root)
	mu.RUnlock()
	if err != nil {
		return &fs.PathError{Op: "mount", Path: m.Root, Err: err}
	}
	m.root = id
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mounts = append(v.mounts, m)
	return nil
}

// real follows the symbolic links in a path as far as it exists. Callers hold the package's mu.
func (v *View) real(name string) string {
	f := &files{v: v}
	if p, err := f.walk(name, true); err == nil {
		return p.name
	}
	if name == "/" {
		return name
	}
	return path.Join(v.real(path.Dir(name)), path.Base(name))
}

// Unmount removes the newest mount at a target.
func (v *View) Unmount(target string) error {
	mu.RLock()
	real := v.real(path.Clean("/" + target))
	mu.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := len(v.mounts) - 1; i > 0; i-- {
		if v.mounts[i].Target == real {
			v.mounts = slices.Delete(v.mounts, i, i+1)
			return nil
		}
	}
	return &fs.PathError{Op: "umount", Path: target, Err: syscall.EINVAL}
}

// Mounts lists the mounts in order of mounting.
func (v *View) Mounts() []Mount {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Clone(v.mounts)
}

// at returns the mount whose target is exactly name.
func (v *View) at(name string) (Mount, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for i := len(v.mounts) - 1; i >= 0; i-- {
		if v.mounts[i].Target == name {
			return v.mounts[i], true
		}
	}
	return Mount{}, false
}

// below lists the names of mounts directly in a directory: they show in it even where nothing is under them.
func (v *View) below(dir string) []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var l []string
	for _, m := range v.mounts[min(1, len(v.mounts)):] {
		if path.Dir(m.Target) == dir && m.Target != "/" {
			l = append(l, path.Base(m.Target))
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// Files is the view as somebody sees it.
func (v *View) Files(c kernel.Credential) kernel.Files { return &files{v: v, c: c, umask: 0o022} }

// find walks a path within one tree, following no links.
func (t *Tree) find(name string) (uint64, error) {
	id := uint64(rootInode)
	for _, part := range strings.Split(path.Clean("/"+name), "/") {
		if part == "" {
			continue
		}
		i := t.get(id)
		if i == nil || i.entries == nil {
			return 0, syscall.ENOTDIR
		}
		next, ok := i.entries[part]
		if !ok {
			return 0, syscall.ENOENT
		}
		id = next
	}
	return id, nil
}

// place is where a path leads: an inode of a tree, or (id 0) a name that is free in the directory parent.
type place struct {
	tree     *Tree
	id       uint64
	name     string // absolute, without links
	readOnly bool
	// mounted says that the place is the root of a mount; its directory entry, if any, is another file.
	mounted bool
	dir     *place
	base    string
}

// maxLinks is how many symbolic links Linux follows in one path.
const maxLinks = 40

const maxPath, maxName = 4096, 255

// walk resolves a path. The last component may be missing: then id is 0 and dir says where it would be. Callers hold mu.
func (f *files) walk(name string, follow bool) (*place, error) {
	if len(name) > maxPath {
		return nil, syscall.ENAMETOOLONG
	}
	if strings.IndexByte(name, 0) >= 0 {
		return nil, syscall.EINVAL
	}
	root, ok := f.v.at("/")
	if !ok {
		return nil, syscall.ENOENT
	}
	at := &place{tree: root.Tree, id: root.root, name: "/", readOnly: root.ReadOnly, mounted: true}
	todo := strings.Split(name, "/")
	trailing := len(name) > 1 && strings.HasSuffix(name, "/")
	links := 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		if part == "" || part == "." {
			continue
		}
		if at.id == 0 {
			return nil, syscall.ENOENT
		}
		i := at.tree.get(at.id)
		if i == nil {
			return nil, syscall.ENOENT
		}
		if !i.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if !f.may(i, 1) {
			return nil, syscall.EACCES
		}
		if part == ".." {
			if at.dir != nil {
				at = at.dir
			}
			continue
		}
		if len(part) > maxName {
			return nil, syscall.ENAMETOOLONG
		}
		next := &place{tree: at.tree, name: path.Join(at.name, part), readOnly: at.readOnly, dir: at, base: part}
		if id, ok := at.tree.entry(i, part); ok {
			next.id = id
		}
		if m, ok := f.v.at(next.name); ok {
			next.tree, next.id, next.readOnly, next.mounted = m.Tree, m.root, m.ReadOnly, true
		}
		if next.id == 0 {
			for _, rest := range todo {
				if rest != "" && rest != "." {
					return nil, syscall.ENOENT
				}
			}
			return next, nil
		}
		n := next.tree.get(next.id)
		if n == nil {
			return nil, syscall.ENOENT
		}
		last := true
		for _, rest := range todo {
			if rest != "" {
				last = false
				break
			}
		}
		if n.mode&fs.ModeSymlink != 0 && (!last || follow || trailing) {
			if links++; links > maxLinks {
				return nil, syscall.ELOOP
			}
			target := strings.Split(n.target, "/")
			if path.IsAbs(n.target) {
				at = &place{tree: root.Tree, id: root.root, name: "/", readOnly: root.ReadOnly, mounted: true}
			}
			todo = append(target, todo...)
			continue
		}
		at = next
	}
	if trailing {
		if i := at.tree.get(at.id); i != nil && !i.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
	}
	return at, nil
}

// may checks a permission (4 read, 2 write, 1 execute or search) as Linux does.
func (f *files) may(i *inode, want fs.FileMode) bool {
	if f.c.UID == 0 {
		return want&1 == 0 || i.mode.IsDir() || i.mode&0o111 != 0
	}
	bits := i.mode.Perm()
	switch {
	case f.c.UID == i.uid:
		bits >>= 6
	case f.c.GID == i.gid || slices.Contains(f.c.Groups, i.gid):
		bits >>= 3
	}
	return bits&want == want
}

// owns says whether the process may change an inode's mode and times.
func (f *files) owns(i *inode) bool { return f.c.UID == 0 || f.c.UID == i.uid }
