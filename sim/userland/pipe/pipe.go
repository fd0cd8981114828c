// Package pipe is the simulated kernel's pipe(2): a bounded buffer between processes of one bubble. Unlike os.Pipe it holds
// no simulated time, and unlike io.Pipe it buffers as Linux does, so that a writer need not wait for its reader.
package pipe

import (
	"io"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// Capacity is how many bytes a pipe holds before its writer waits, as on Linux.
const Capacity = 64 << 10

type buffer struct {
	mu      sync.Mutex
	data    []byte
	readers int
	writers int
	wake    chan struct{} // closed and replaced whenever something changes
	owner   *kernel.Process
}

// Reader is the read end. Its reads end early, with an error, when the reading process dies: it must not swallow what
// the next reader should get.
type Reader struct {
	b      *buffer
	once   sync.Once
	closed chan struct{}
}

// Writer is the write end.
type Writer struct {
	b    *buffer
	once sync.Once
}

// New makes a pipe. A process that writes to it when nobody can read any more gets SIGPIPE; only owner, whose goroutines
// may stand for several processes, gets EPIPE instead.
func New(owner *kernel.Process) (*Reader, *Writer) {
	b := &buffer{readers: 1, writers: 1, wake: make(chan struct{}), owner: owner}
	return &Reader{b: b, closed: make(chan struct{})}, &Writer{b: b}
}

// changed wakes whoever waits. The buffer is locked.
func (b *buffer) changed() {
	close(b.wake)
	b.wake = make(chan struct{})
}

// wait unlocks, waits for a change and locks again. It reports whether the calling process may go on.
func (b *buffer) wait(stop <-chan struct{}, timer <-chan time.Time) error {
	wake := b.wake
	b.mu.Unlock()
	defer b.mu.Lock()
	var dead <-chan struct{}
	if p := kernel.Current(); p != nil {
		dead = p.Done()
	}
	select {
	case <-wake:
		return nil
	case <-stop:
		return syscall.EBADF
	case <-dead:
		return kernel.ErrDead
	case <-timer:
		return ErrTimeout
	}
}

// ErrTimeout is what [Reader.ReadTimeout] returns when nothing came in time.
var ErrTimeout error = syscall.ETIMEDOUT

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) { return r.read(p, nil) }

// ReadTimeout is Read that gives up after d of simulated time.
func (r *Reader) ReadTimeout(p []byte, d time.Duration) (int, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	return r.read(p, t.C)
}

func (r *Reader) read(p []byte, timer <-chan time.Time) (int, error) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case len(b.data) > 0:
			n := copy(p, b.data)
			b.data = b.data[n:]
			if len(b.data) == 0 {
				b.data = nil
			}
			b.changed()
			return n, nil
		case b.writers == 0:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if err := b.wait(r.closed, timer); err != nil {
			return 0, err
		}
	}
}

// Close closes the read end.
func (r *Reader) Close() error {
	r.once.Do(func() {
		r.b.mu.Lock()
		r.b.readers--
		r.b.changed()
		r.b.mu.Unlock()
		close(r.closed)
	})
	return nil
}

// Write implements io.Writer. It waits while the pipe is full.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.write(p)
	if err == syscall.EPIPE {
		if cur := kernel.Current(); cur != nil && cur != w.b.owner {
			cur.Signal(kernel.SIGPIPE) // by default this does not return
		}
	}
	return n, err
}

func (w *Writer) write(p []byte) (int, error) {
	b := w.b
	n := 0
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(p) > 0 {
		if b.readers == 0 {
			return n, syscall.EPIPE
		}
		if room := Capacity - len(b.data); room > 0 {
			k := min(room, len(p))
			b.data = append(b.data, p[:k]...)
			p, n = p[k:], n+k
			b.changed()
			continue
		}
		if err := b.wait(nil, nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close closes the write end: the reader gets what is left, and then EOF.
func (w *Writer) Close() error {
	w.once.Do(func() {
		w.b.mu.Lock()
		w.b.writers--
		w.b.changed()
		w.b.mu.Unlock()
	})
	return nil
}
