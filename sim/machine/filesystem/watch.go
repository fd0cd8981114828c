package filesystem

import (
	"io/fs"
	"path"
	"sync"
	"syscall"

	"ckadrill/sim/kernel"
)

// watch is one inotify watch: on a directory (events of its entries) or on one file.
type watch struct {
	name   string // as it was asked for
	tree   *Tree
	id     uint64
	events chan kernel.FileEvent

	mu     sync.Mutex
	cond   *sync.Cond
	queue  []kernel.FileEvent
	closed bool
	stop   chan struct{}
}

func (f *files) Watch(name string) (kernel.Watch, error) {
	mu.Lock()
	defer mu.Unlock()
	p, err := f.walk(name, true)
	switch {
	case err == nil && p.id == 0:
		err = syscall.ENOENT
	case err == nil && p.id >= FirstGenerated:
		err = syscall.EPERM
	}
	if err != nil {
		return nil, &fs.PathError{Op: "inotify_add_watch", Path: name, Err: err}
	}
	i := p.tree.watchable(p.id)
	if !f.may(i, 4) {
		return nil, &fs.PathError{Op: "inotify_add_watch", Path: name, Err: syscall.EACCES}
	}
	w := &watch{name: path.Clean(name), tree: p.tree, id: p.id, events: make(chan kernel.FileEvent), stop: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	i.watches = append(i.watches, w)
	go w.deliver()
	return w, nil
}

// watchable is an inode that a watch can be hung on. One of a sealed base must be the clone's own first.
func (t *Tree) watchable(id uint64) *inode {
	if i := t.inodes[id]; i != nil {
		return i
	}
	return t.edit(id)
}

func (w *watch) Events() <-chan kernel.FileEvent { return w.events }

func (w *watch) Close() error {
	mu.Lock()
	if i := w.tree.get(w.id); i != nil {
		for k, x := range i.watches {
			if x == w {
				i.watches = append(i.watches[:k:k], i.watches[k+1:]...)
				break
			}
		}
	}
	mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.stop)
		w.cond.Signal()
	}
	return nil
}

func (w *watch) deliver() {
	defer close(w.events)
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.cond.Wait()
		}
		if w.closed {
			w.mu.Unlock()
			return
		}
		e := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		select {
		case w.events <- e:
		case <-w.stop:
			return
		}
	}
}

func (w *watch) add(e kernel.FileEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// inotify joins an event with an equal one that is still in the queue's tail
	if n := len(w.queue); n > 0 && w.queue[n-1] == e {
		return
	}
	w.queue = append(w.queue, e)
	w.cond.Signal()
}

// tell reports that something happened to an entry of a directory. Callers hold mu.
func tell(dir *inode, base string, op kernel.FileOp) {
	if dir == nil {
		return
	}
	for _, w := range dir.watches {
		w.add(kernel.FileEvent{Name: path.Join(w.name, base), Op: op})
	}
}

// tellSelf reports that something happened to a file that is watched itself.
func tellSelf(i *inode, op kernel.FileOp) {
	for _, w := range i.watches {
		w.add(kernel.FileEvent{Name: w.name, Op: op})
	}
}
