// Package front is the side of the user: it starts workers, shows what their worlds print, answers what they ask the
// terminal for, and keeps the session on disk. It survives whatever happens to a worker.
package front

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
	"ckadrill/sim/wire/early"
)

// IsWorker says whether this process was started as a worker.
func IsWorker() bool { return early.IsWorker() }

// Worker is a running worker process and the world in it.
type Worker struct {
	process *os.Process
	in, out *os.File
	conn    *wire.Conn
	sendMu  sync.Mutex
	stderr  tail
	said    chan struct{} // closed when its standard error has ended

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan wire.Event
	runs    map[int]Handler
	streams map[int]*Stream
	err     error
	dead    chan struct{}
	ready   chan wire.Ready
	// OnOutside answers what the world itself asks the user's side for; see [kernel.World.Outside].
	OnOutside func(a *wire.Ask) wire.Answer
	// OnStall is told when simulated time stands still.
	OnStall func(text string)
	onDoor  func(wire.DoorState)
}

// Handler receives what a run prints and asks for. Ask is called in a goroutine of its own.
type Handler interface {
	Output(fd int, data []byte)
	Ask(w *Worker, a *wire.Ask) wire.Answer
}

// Dead is the error of every call to a worker that has ended.
type Dead struct{ Why string }

func (d *Dead) Error() string { return "the simulation's worker process ended: " + d.Why }

// Start starts a worker and boots or thaws its world. It returns before the world is ready.
func Start(b wire.Boot) (*Worker, error) {
	e, err := early.Start()
	if err != nil {
		return nil, err
	}
	w := &Worker{process: e.Process, in: e.In, out: e.Out, said: make(chan struct{}), waiting: map[int]chan wire.Event{}, runs: map[int]Handler{}, streams: map[int]*Stream{},
		dead: make(chan struct{}), ready: make(chan wire.Ready, 1)}
	go func() {
		defer close(w.said)
		defer e.Err.Close()
		io.Copy(&w.stderr, e.Err)
	}()
	w.conn = wire.NewConn(e.Out, w.in)
	go w.receive()
	return w, w.send(&wire.Request{Boot: &b})
}

func (w *Worker) send(r *wire.Request) error {
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	if err := w.conn.Send(r); err != nil {
		select { // the reason is at the other end
		case <-w.dead:
			return w.err
		case <-time.After(time.Second):
			return &Dead{err.Error()}
		}
	}
	return nil
}

func (w *Worker) receive() {
	why := "it said nothing"
	for {
		var e wire.Event
		if err := w.conn.Receive(&e); err != nil {
			if !errors.Is(err, io.EOF) {
				why = err.Error()
			}
			break
		}
		if e.Fail != nil {
			why = e.Fail.Text
			continue
		}
		w.dispatch(&e)
	}
	<-w.said
	w.out.Close()
	if state, err := w.process.Wait(); why == "it said nothing" && (err != nil || !state.Success()) {
		if why = fmt.Sprint(state); err != nil {
			why = err.Error()
		}
		if s := w.stderr.summary(); s != "" {
			why += ": " + s
		}
	}
	w.mu.Lock()
	w.err = &Dead{why}
	streams := w.streams
	w.streams = map[int]*Stream{}
	w.mu.Unlock()
	close(w.dead)
	for _, s := range streams {
		s.handle(&wire.Stream{Close: true, Error: w.err.Error()})
	}
}

func (w *Worker) dispatch(e *wire.Event) {
	deliver := func(id int) {
		w.mu.Lock()
		c := w.waiting[id]
		delete(w.waiting, id)
		w.mu.Unlock()
		if c != nil {
			c <- *e
		}
	}
	switch {
	case e.Ready != nil:
		w.ready <- *e.Ready
	case e.Output != nil:
		w.mu.Lock()
		h := w.runs[e.Output.Run]
		w.mu.Unlock()
		if h != nil {
			h.Output(e.Output.FD, e.Output.Data)
		}
	case e.Ask != nil && e.Ask.Kind == wire.AskOutside:
		go func() {
			a := wire.Answer{Error: "nobody is there to answer " + e.Ask.Prompt}
			if w.OnOutside != nil {
				a = w.OnOutside(e.Ask)
			}
			a.ID = e.Ask.ID
			w.send(&wire.Request{Answer: &a})
		}()
	case e.Ask != nil:
		w.mu.Lock()
		h := w.runs[e.Ask.Run]
		w.mu.Unlock()
		if h != nil {
			go func() {
				a := h.Ask(w, e.Ask)
				a.ID = e.Ask.ID
				w.send(&wire.Request{Answer: &a})
			}()
		}
	case e.Done != nil:
		deliver(e.Done.ID)
	case e.Reply != nil:
		deliver(e.Reply.ID)
	case e.Door != nil:
		w.mu.Lock()
		f := w.onDoor
		w.mu.Unlock()
		f(*e.Door)
	case e.Stream != nil:
		w.mu.Lock()
		s := w.streams[e.Stream.ID]
		w.mu.Unlock()
		if s != nil {
			s.handle(e.Stream)
		}
	case e.Stall != nil:
		if w.OnStall != nil {
			w.OnStall(e.Stall.Text)
		}
	}
}

// Ready waits until the world lives and returns its date and state.
func (w *Worker) Ready() (wire.Ready, error) {
	select {
	case r := <-w.ready:
		return r, nil
	case <-w.dead:
		return wire.Ready{}, w.err
	}
}

func (w *Worker) expect() (int, chan wire.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextID++
	c := make(chan wire.Event, 1)
	w.waiting[w.nextID] = c
	return w.nextID, c
}

func (w *Worker) await(c chan wire.Event) (wire.Event, error) {
	select {
	case e := <-c:
		return e, nil
	case <-w.dead:
		select { // it may have answered with its last breath
		case e := <-c:
			return e, nil
		default:
			return wire.Event{}, w.err
		}
	}
}

// Running is a run that has been started.
type Running struct {
	w  *Worker
	id int
	c  chan wire.Event
}

// Start starts a run; its output and questions go to h.
func (w *Worker) Start(r wire.Run, h Handler) (*Running, error) {
	id, c := w.expect()
	r.ID = id
	w.mu.Lock()
	w.runs[id] = h
	w.mu.Unlock()
	if err := w.send(&wire.Request{Run: &r}); err != nil {
		return nil, err
	}
	return &Running{w, id, c}, nil
}

// Interrupt is Ctrl-C.
func (r *Running) Interrupt() { r.w.send(&wire.Request{Interrupt: &wire.Interrupt{Run: r.id}}) }

// Wait waits for the end of the run.
func (r *Running) Wait() (*wire.Done, error) {
	e, err := r.w.await(r.c)
	r.w.mu.Lock()
	delete(r.w.runs, r.id)
	r.w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if e.Done.Error != "" {
		return e.Done, errors.New(e.Done.Error)
	}
	return e.Done, nil
}

// Run runs something to its end.
func (w *Worker) Run(r wire.Run, h Handler) (*wire.Done, error) {
	running, err := w.Start(r, h)
	if err != nil {
		return nil, err
	}
	return running.Wait()
}

// Skip lets simulated time pass at once.
func (w *Worker) Skip(d time.Duration) (*wire.Done, error) { return w.skip(wire.Skip{By: d}) }

// Freeze reports the state of a world that goes on.
func (w *Worker) Freeze() (*wire.Done, error) { return w.skip(wire.Skip{Calm: true}) }

func (w *Worker) skip(q wire.Skip) (*wire.Done, error) {
	id, c := w.expect()
	q.ID = id
	if err := w.send(&wire.Request{Skip: &q}); err != nil {
		return nil, err
	}
	e, err := w.await(c)
	if err != nil {
		return nil, err
	}
	return e.Done, nil
}

// SetPace changes how time follows the host's.
func (w *Worker) SetPace(p wire.Pace) error { return w.send(&wire.Request{Pace: &p}) }

// Query asks the worker a question that a room registered under name.
func (w *Worker) Query(name string, payload []byte) ([]byte, error) {
	id, c := w.expect()
	if err := w.send(&wire.Request{Query: &wire.Query{ID: id, Name: name, Payload: payload}}); err != nil {
		return nil, err
	}
	e, err := w.await(c)
	if err != nil {
		return nil, err
	}
	if e.Reply.Error != "" {
		return e.Reply.Payload, errors.New(e.Reply.Error)
	}
	return e.Reply.Payload, nil
}

// Complete asks how the line that an open question reads could go on.
func (w *Worker) Complete(ask int, line string, cursor int) []kernel.Completion {
	b, err := w.Query("complete", fmt.Appendf(nil, "%d:%d %s", ask, cursor, line))
	if err != nil {
		return nil
	}
	var l []kernel.Completion
	if kernel.Decode(b, &l) != nil {
		return nil
	}
	return l
}

// Close ends the worker; nothing that was reported is lost by it.
func (w *Worker) Close() {
	w.in.Close()
	select {
	case <-w.dead:
	case <-time.After(2 * time.Second):
		w.Kill()
	}
}

// Kill ends the worker as kill -9 does.
func (w *Worker) Kill() {
	w.process.Kill()
	<-w.dead
}

// Err is why the worker has ended, nil if it has not.
func (w *Worker) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Dead is closed when the worker has ended.
func (w *Worker) Dead() <-chan struct{} { return w.dead }

// tail keeps the end of what a worker wrote to its standard error: Go's own last words.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailLimit = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The beginning matters most: a panic says first what it is.
	if len(t.buf) < tailLimit {
		t.buf = append(t.buf, b[:min(len(b), tailLimit-len(t.buf))]...)
	}
	return len(b), nil
}

func (t *tail) summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if os.Getenv("CKADRILL_DEBUG") != "" {
		return string(t.buf)
	}
	for _, l := range strings.Split(string(bytes.ToValidUTF8(t.buf, nil)), "\n") {
		if strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") || strings.HasPrefix(l, "ckadrill:") {
			return l
		}
	}
	return ""
}
