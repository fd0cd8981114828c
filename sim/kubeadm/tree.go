package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"

	"ckadrill/sim/kernel"
)

// File is a file, directory or symbolic link that a machine gets. Owner and group are ids.
type File struct {
	Path     string
	Mode     fs.FileMode // with fs.ModeDir or fs.ModeSymlink where it is one
	UID, GID int
	Content  []byte
	Target   string // of a symbolic link
}

// Tree is the set of files that a machine gets, by path.
type Tree struct {
	byPath map[string]File
}

// NewTree is an empty tree.
func NewTree() *Tree { return &Tree{byPath: map[string]File{}} }

func (t *Tree) put(f File) { t.byPath[f.Path] = f }

// Write adds a file, or replaces it.
func (t *Tree) Write(name string, mode fs.FileMode, content []byte) {
	t.put(File{Path: name, Mode: mode, Content: content})
}

// Dir adds a directory.
func (t *Tree) Dir(name string, mode fs.FileMode) { t.put(File{Path: name, Mode: mode | fs.ModeDir}) }

// Symlink adds a symbolic link.
func (t *Tree) Symlink(target, name string) {
	t.put(File{Path: name, Mode: 0o777 | fs.ModeSymlink, Target: target})
}

// Chown gives a file that is there to somebody.
func (t *Tree) Chown(name string, uid, gid int) {
	f := t.byPath[name]
	f.UID, f.GID = uid, gid
	t.byPath[name] = f
}

// File returns a file of the tree.
func (t *Tree) File(name string) (File, bool) {
	f, ok := t.byPath[name]
	return f, ok
}

// Files lists the tree in order of paths.
func (t *Tree) Files() []File {
	l := make([]File, 0, len(t.byPath))
	for _, f := range t.byPath {
		l = append(l, f)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Path < l[j].Path })
	return l
}

// Merge adds the files of another tree.
func (t *Tree) Merge(o *Tree) {
	for _, f := range o.byPath {
		t.put(f)
	}
}

// Install writes the tree to a machine. Directories that are not in the tree are made with mode 0755. It needs root's
// view of the files.
func (t *Tree) Install(files kernel.Files) error {
	for _, f := range t.Files() {
		if err := f.install(files); err != nil {
			return fmt.Errorf("install %s: %w", f.Path, err)
		}
	}
	return nil
}

func (f File) install(files kernel.Files) error {
	if err := files.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	switch {
	case f.Mode.IsDir():
		if err := files.MkdirAll(f.Path, f.Mode.Perm()); err != nil {
			return err
		}
	case f.Mode&fs.ModeSymlink != 0:
		if err := files.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := files.Symlink(f.Target, f.Path); err != nil {
			return err
		}
		return files.Lchown(f.Path, f.UID, f.GID)
	default:
		if err := files.WriteFile(f.Path, f.Content, f.Mode.Perm()); err != nil {
			return err
		}
	}
	// The umask may have taken bits away.
	if err := files.Chmod(f.Path, f.Mode.Perm()); err != nil {
		return err
	}
	return files.Chown(f.Path, f.UID, f.GID)
}
