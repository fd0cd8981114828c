// Package fsnotify stands in for github.com/fsnotify/fsnotify in this binary (a replace directive in go.mod sees to it).
//
// Upstream's dynamic certificates, CA bundles, configuration files and plugin directories are watched through fsnotify,
// which waits for the host's kernel in a system call. A goroutine of a synctest bubble that waits so would hold simulated
// time for ever. This package has the same interface, and instead of the host it asks [Source], which the simulator sets:
// it reports what happens to files of the simulated machine.
package fsnotify

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// Errors of the real package.
var (
	ErrNonExistentWatch = errors.New("fsnotify: can't remove non-existent watch")
	ErrClosed           = errors.New("fsnotify: watcher already closed")
	ErrEventOverflow    = errors.New("fsnotify: queue or buffer overflow")
	ErrUnsupported      = errors.New("fsnotify: not supported with this backend")
)

// Op is a set of file operations.
type Op uint32

// The operations, with the values of the real package.
const (
	Create Op = 1 << iota
	Write
	Remove
	Rename
	Chmod
)

// Has says whether all operations of h are in o.
func (o Op) Has(h Op) bool { return o&h != 0 }

func (o Op) String() string {
	var l []string
	for i, n := range []string{"CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"} {
		if o.Has(1 << i) {
			l = append(l, n)
		}
	}
	if len(l) == 0 {
		return "[no events]"
	}
	return strings.Join(l, "|")
}

// Event says what happened to a file.
type Event struct {
	Name string
	Op   Op
}

// Has says whether the event is about an operation.
func (e Event) Has(op Op) bool { return e.Op.Has(op) }

func (e Event) String() string { return e.Op.String() + ` "` + e.Name + `"` }

// Source starts to report what happens to the host path name, which is a simulated file's private copy, or to files
// directly below it. deliver must not be called after stop has returned. While Source is nil, or when it returns no stop
// function, nothing ever happens to the path.
var Source func(name string, deliver func(Event)) (stop func(), err error)

// Watcher reports events on its channels, which are made by [NewWatcher], inside the bubble.
type Watcher struct {
	Events chan Event
	Errors chan error

	mu    sync.Mutex
	queue []Event
	wake  chan struct{}
	done  chan struct{}
	stops map[string]func()
}

// NewWatcher makes a watcher that watches nothing yet.
func NewWatcher() (*Watcher, error) { return NewBufferedWatcher(0) }

// NewBufferedWatcher makes a watcher whose Events channel is buffered.
func NewBufferedWatcher(n uint) (*Watcher, error) {
	w := &Watcher{Events: make(chan Event, n), Errors: make(chan error), wake: make(chan struct{}, 1), done: make(chan struct{}), stops: map[string]func(){}}
	go w.run()
	return w, nil
}

func (w *Watcher) run() {
	defer close(w.Events)
	for {
		select {
		case <-w.done:
			return
		case <-w.wake:
		}
		for {
			w.mu.Lock()
			if len(w.queue) == 0 {
				w.mu.Unlock()
				break
			}
			e := w.queue[0]
			w.queue = w.queue[1:]
			w.mu.Unlock()
			select {
			case w.Events <- e:
			case <-w.done:
				return
			}
		}
	}
}

func (w *Watcher) deliver(e Event) {
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) closed() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// Add starts to watch a file or a directory.
func (w *Watcher) Add(name string) error {
	if w.closed() {
		return ErrClosed
	}
	w.mu.Lock()
	_, ok := w.stops[name]
	w.mu.Unlock()
	if ok || Source == nil {
		return nil
	}
	stop, err := Source(name, w.deliver)
	if err != nil {
		return err
	}
	if stop == nil {
		stop = func() {}
	}
	w.mu.Lock()
	w.stops[name] = stop
	w.mu.Unlock()
	return nil
}

// AddWith is Add: the options of the real package size buffers that are not needed here.
func (w *Watcher) AddWith(name string, _ ...any) error { return w.Add(name) }

// Remove ends a watch.
func (w *Watcher) Remove(name string) error {
	w.mu.Lock()
	stop, ok := w.stops[name]
	delete(w.stops, name)
	w.mu.Unlock()
	if !ok {
		return ErrNonExistentWatch
	}
	stop()
	return nil
}

// Close ends all watches.
func (w *Watcher) Close() error {
	w.mu.Lock()
	if w.closed() {
		w.mu.Unlock()
		return nil
	}
	close(w.done)
	stops := w.stops
	w.stops = map[string]func(){}
	w.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	return nil
}

// WatchList are the watched names, sorted.
func (w *Watcher) WatchList() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []string
	for n := range w.stops {
		l = append(l, n)
	}
	slices.Sort(l)
	return l
}
