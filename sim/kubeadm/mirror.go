package kubeadm

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// mirror copies a file of the machine into the private directory and returns its name there. A file that does not exist is
// none there either, so that upstream says so.
func (c *command) mirror(name string) (string, error) {
	name = c.p.Path(name)
	private := c.d.path(name)
	if c.mirrored[name] != nil {
		return private, nil
	}
	b, err := c.p.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return private, nil
	case errors.Is(err, fs.ErrPermission):
		return private, c.mirrorUnreadable(name)
	case err != nil:
		return "", err
	}
	if err := c.mirrorDirectory(path.Dir(name)); err != nil {
		return "", err
	}
	c.mirrored[name] = b
	return private, os.WriteFile(private, b, 0o600)
}

// mirrorUnreadable makes a directory. In the place of a file that the process may not read it can be found and not read; its
// error is taken for the machine's, see [command.strip].
func (c *command) mirrorUnreadable(name string) error {
	c.mu.Lock()
	if !slices.Contains(c.unreadable, name) {
		c.unreadable = append(c.unreadable, name)
	}
	c.mu.Unlock()
	return c.mirrorDirectory(name)
}

// denials puts the machine's errors for those of what stands for unreadable files. The lock is held.
func (c *command) denials(b []byte) []byte {
	for _, name := range c.unreadable {
		for _, op := range []string{"read ", "open "} {
			b = bytes.ReplaceAll(b, []byte(op+name+": "+syscall.EISDIR.Error()), []byte("open "+name+": "+syscall.EACCES.Error()))
		}
	}
	return b
}

// mirrorDirectory makes a directory, without what is in it.
func (c *command) mirrorDirectory(dir string) error {
	if c.mirrored == nil {
		c.mirrored = map[string][]byte{}
	}
	for d := dir; d != "/" && d != "."; d = path.Dir(d) {
		c.mirrored[d] = nil
	}
	return os.MkdirAll(c.d.path(dir), 0o700)
}

// mirrorAll copies files and whole directories of the machine, as far as they exist. What lies in kubeadm's directory for
// backups and dry runs is copied only if it is named itself: backups of etcd's data lie there.
func (c *command) mirrorAll(names ...string) error {
	for _, name := range names {
		i, err := c.p.Files.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // in a directory that may not be searched
			continue
		}
		if err != nil {
			return err
		}
		if !i.IsDir() {
			if _, err := c.mirror(name); err != nil {
				return err
			}
			continue
		}
		entries, err := c.p.Files.ReadDir(name)
		if errors.Is(err, fs.ErrPermission) {
			if err := c.mirrorUnreadable(name); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			err = c.mirrorDirectory(name)
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			below := path.Join(name, e.Name())
			if below == tempDir || !e.IsDir() && !e.Type().IsRegular() {
				continue
			}
			if err := c.mirrorAll(below); err != nil {
				return err
			}
		}
	}
	return nil
}

// onMirror runs f, which works on files of the host, on copies of the machine's files and directories, and then does to the
// machine what f did to them, also when f fails.
func (c *command) onMirror(names []string, f func() error) error {
	if err := c.emptyMirror(); err != nil {
		return err
	}
	if err := c.mirrorAll(names...); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, c.export())
}

func (c *command) emptyMirror() error {
	c.mirrored = nil
	if err := os.RemoveAll(c.d.root); err != nil {
		return err
	}
	return os.Mkdir(c.d.root, 0o700)
}

// export does to the machine what has been done to the copies: files and directories that are new, changed or gone.
func (c *command) export() error {
	t, err := c.d.read()
	if err != nil {
		return err
	}
	for _, f := range t.Files() {
		old, known := c.mirrored[f.Path]
		switch {
		case known && f.Mode.IsDir():
			continue
		case f.Mode.IsDir():
			err = c.p.Files.MkdirAll(f.Path, f.Mode.Perm())
		default:
			f.Content = c.restoreCredentials(f.Content)
			if known && bytes.Equal(old, f.Content) {
				continue
			}
			if err = c.p.Files.WriteFile(f.Path, f.Content, f.Mode.Perm()); err == nil && !known {
				err = c.p.Files.Chmod(f.Path, f.Mode.Perm()) // the umask may have taken bits away
			}
		}
		if err != nil {
			return err
		}
		if c.mirrored == nil {
			c.mirrored = map[string][]byte{}
		}
		c.mirrored[f.Path] = f.Content
	}
	var gone []string
	for name := range c.mirrored {
		if _, ok := t.File(name); !ok {
			gone = append(gone, name)
		}
	}
	slices.SortFunc(gone, func(a, b string) int { return strings.Compare(b, a) }) // what is in a directory before the directory
	for _, name := range gone {
		delete(c.mirrored, name)
		if err := c.p.Files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
