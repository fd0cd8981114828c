package controlplane

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"ckadrill/sim/kernel"

	"github.com/fsnotify/fsnotify"
	"sigs.k8s.io/yaml"
)

// private holds copies of the files that one process's flags name, in a directory of the host that nobody else uses.
// Upstream can read most of them in no other way than by opening a host file. The copies follow the simulated files, and
// upstream's file watchers hear of each change. The directory's name is taken out of errors and log lines, so that these
// show the simulated names, as given.
type private struct {
	p    *kernel.Process
	root string
	// missing is what this host's os.ReadFile says of a file that does not exist.
	missing string

	mu      sync.Mutex
	files   map[string]*copied // by simulated absolute name
	dirs    map[string]kernel.Watch
	watches map[*watch]bool
	closed  bool
}

type copied struct {
	given   string // the name as the user wrote it
	private string
	err     error // why the simulated file could not be read
	rewrite func([]byte) []byte
}

type watch struct {
	name    string
	deliver func(fsnotify.Event)
}

// privates are the directories of all processes, for fsnotify, which knows only host names.
var privates sync.Map // root -> *private

// newPrivate makes the directory; it is removed when the process ends.
func newPrivate(p *kernel.Process) (*private, error) {
	root, err := kernel.Scratch("files-")
	if err != nil {
		return nil, err
	}
	d := &private{p: p, root: root, files: map[string]*copied{}, dirs: map[string]kernel.Watch{}, watches: map[*watch]bool{}}
	_, err = os.ReadFile(filepath.Join(root, "missing"))
	d.missing = cause(err).Error()
	privates.Store(root, d)
	p.OnExit(d.close)
	return d, nil
}

func (d *private) close() {
	d.mu.Lock()
	d.closed = true
	dirs := d.dirs
	d.dirs = nil
	d.mu.Unlock()
	for _, w := range dirs {
		w.Close()
	}
	privates.Delete(d.root)
	os.RemoveAll(d.root)
}

// path is where the copy of a simulated file lies, whether or not there is one.
func (d *private) path(name string) string {
	return filepath.Join(d.root, filepath.FromSlash(d.p.Path(name)))
}

// file copies a simulated file and returns the copy's name. "" stays "". A file that cannot be read has no copy:
// upstream finds out, and [private.plain] turns its error into the simulated one.
func (d *private) file(name string) string { return d.add(name, nil) }

// set copies the files that flags name and puts the copies' names in their place.
func (d *private) set(flags ...*string) {
	for _, f := range flags {
		*f = d.file(*f)
	}
}

// config copies a YAML file that names other files itself, under the given keys, at any depth: they are copied too.
func (d *private) config(name string, keys ...string) string {
	return d.add(name, func(b []byte) []byte {
		var doc any
		if yaml.Unmarshal(b, &doc) != nil || !d.follow(doc, filepath.Dir(d.p.Path(name)), keys) {
			return b
		}
		if out, err := yaml.Marshal(doc); err == nil {
			return out
		}
		return b
	})
}

// follow replaces file names in a document and reports whether there were any.
func (d *private) follow(doc any, dir string, keys []string) (found bool) {
	switch x := doc.(type) {
	case []any:
		for _, e := range x {
			found = d.follow(e, dir, keys) || found
		}
	case map[string]any:
		for k, e := range x {
			s, ok := e.(string)
			if !ok {
				found = d.follow(e, dir, keys) || found
				continue
			}
			for _, key := range keys {
				if k == key && s != "" {
					if !filepath.IsAbs(s) {
						s = filepath.ToSlash(filepath.Join(dir, s))
					}
					x[k] = d.config(s, kubeconfigFiles...)
					found = true
				}
			}
		}
	}
	return found
}

// kubeconfigFiles are the keys of a kubeconfig that name files.
var kubeconfigFiles = []string{"certificate-authority", "client-certificate", "client-key", "tokenFile"}

func (d *private) add(name string, rewrite func([]byte) []byte) string {
	if name == "" {
		return ""
	}
	abs := d.p.Path(name)
	d.mu.Lock()
	c, ok := d.files[abs]
	if !ok {
		c = &copied{given: name, private: d.path(name), rewrite: rewrite}
		d.files[abs] = c
	}
	d.mu.Unlock()
	if !ok {
		d.copy(abs, c)
		d.watch(filepath.ToSlash(filepath.Dir(abs)))
	}
	return c.private
}

func (d *private) copy(abs string, c *copied) {
	b, err := d.p.Files.ReadFile(abs)
	d.mu.Lock()
	c.err = err
	d.mu.Unlock()
	if err != nil {
		os.Remove(c.private)
		return
	}
	if c.rewrite != nil {
		b = c.rewrite(b)
	}
	if err := os.MkdirAll(filepath.Dir(c.private), 0o700); err == nil {
		os.WriteFile(c.private, b, 0o600)
	}
}

// watch follows the simulated directory that holds a copied file.
func (d *private) watch(dir string) {
	d.mu.Lock()
	_, ok := d.dirs[dir]
	if d.closed || ok {
		d.mu.Unlock()
		return
	}
	d.dirs[dir] = nil
	d.mu.Unlock()
	w, err := d.p.Files.Watch(dir)
	d.mu.Lock()
	if err != nil || d.closed {
		delete(d.dirs, dir)
		d.mu.Unlock()
		if err == nil {
			w.Close()
		}
		return
	}
	d.dirs[dir] = w
	d.mu.Unlock()
	go func() {
		for e := range w.Events() {
			d.changed(e)
		}
	}()
}

func (d *private) changed(e kernel.FileEvent) {
	d.mu.Lock()
	c := d.files[e.Name]
	d.mu.Unlock()
	if c == nil {
		return
	}
	d.copy(e.Name, c)
	op := map[kernel.FileOp]fsnotify.Op{kernel.FileCreate: fsnotify.Create, kernel.FileWrite: fsnotify.Write, kernel.FileRemove: fsnotify.Remove,
		kernel.FileRename: fsnotify.Rename, kernel.FileChmod: fsnotify.Chmod}[e.Op]
	d.mu.Lock()
	var to []*watch
	for w := range d.watches {
		if w.name == c.private || w.name == filepath.Dir(c.private) {
			to = append(to, w)
		}
	}
	d.mu.Unlock()
	for _, w := range to {
		w.deliver(fsnotify.Event{Name: c.private, Op: op})
	}
}

// watchPrivate answers upstream's file watchers.
func watchPrivate(name string, deliver func(fsnotify.Event)) (func(), error) {
	var d *private
	privates.Range(func(root, v any) bool {
		if strings.HasPrefix(name, root.(string)+string(filepath.Separator)) {
			d = v.(*private)
		}
		return d == nil
	})
	if d == nil {
		return nil, nil
	}
	w := &watch{name, deliver}
	d.mu.Lock()
	d.watches[w] = true
	d.mu.Unlock()
	return func() {
		d.mu.Lock()
		delete(d.watches, w)
		d.mu.Unlock()
	}, nil
}

// plain turns the copies' names in a text into the simulated ones, and the host's reason for a missing copy into the
// simulated machine's.
func (d *private) plain(text string) string {
	if !strings.Contains(text, d.root) {
		return text
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.files {
		if !strings.Contains(text, c.private) {
			continue
		}
		if c.err != nil {
			text = strings.ReplaceAll(text, c.private+": "+d.missing, c.private+": "+cause(c.err).Error())
		}
		text = strings.ReplaceAll(text, c.private, c.given)
	}
	return strings.ReplaceAll(text, d.root, "")
}

// cause is the system's reason in a file error.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// writer passes on what is written to it in plain names.
func (d *private) writer(w io.Writer) io.Writer { return plainWriter{d, w} }

type plainWriter struct {
	d *private
	w io.Writer
}

func (w plainWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.d.plain(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// errNotSimulated says honestly that a flag's meaning is not part of the simulation.
func errNotSimulated(flag string) error {
	return fmt.Errorf("ckadrill does not simulate --%s yet", flag)
}
