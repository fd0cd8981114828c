package worker

import (
	"fmt"
	"io"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// run is one thing that the front had started: a shell with a script, or with the user at its terminal.
type run struct {
	id             int
	server         *server
	process        *kernel.Process
	terminal       *terminal
	stdout, stderr io.Writer

	mu        sync.Mutex
	questions []*question
	waiting   int // questions that the front has and has not answered
	ended     bool
	attention chan struct{}
	signalled bool
	stopped   bool // by ckadrill
	// disconnected is set when the machine has gone down under it.
	disconnected bool
	cleared      chan struct{} // closed when a stopped run has left nothing behind
}

func newRun(s *server, q *wire.Run) *run {
	r := &run{id: q.ID, server: s, attention: make(chan struct{}), cleared: make(chan struct{})}
	r.stdout, r.stderr = output{s.box, q.ID, 1}, output{s.box, q.ID, 2}
	if q.TTY {
		r.terminal = &terminal{r: r, columns: q.Columns, rows: q.Rows}
	}
	return r
}

func (r *run) tty() kernel.Terminal {
	if r.terminal == nil {
		return nil
	}
	return r.terminal
}

func (r *run) interrupt() {
	if r.terminal != nil {
		r.terminal.interrupt()
		return
	}
	r.process.Signal(kernel.SIGINT)
}

// stoppedStatus is the exit status of a run that ckadrill has stopped, as that of timeout(1).
const stoppedStatus = 124

// disconnectedStatus is the exit status of a run whose machine went down, as that of ssh(1).
const disconnectedStatus = 255

// lastChance is the simulated time that a shell has to end after Ctrl-C, before it is killed with all that it started.
const lastChance = 2 * time.Second

// giveUp ends the run and says why: first as Ctrl-C does, so that the shell keeps what it knows.
func (r *run) giveUp(why string) {
	defer close(r.cleared)
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	fmt.Fprintf(r.stderr, "ckadrill: %s\n", why)
	processes := r.process.Host().Processes
	r.interrupt()
	processes.KillDescendants(r.process)
	kernel.SleepContext(r.process.Context(), lastChance)
	r.process.Signal(kernel.SIGKILL)
	processes.KillDescendants(r.process)
}

// disconnect says that the machine has gone down.
func (r *run) disconnect(machine string) {
	fmt.Fprintf(r.stderr, "Connection to %s closed by remote host.\n", machine)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disconnected = true
}

// wait waits for the run's end: that of its shell, and of what a stopped one had started, whose places in the user's process
// limit the next run may need.
func (r *run) wait() {
	r.process.Wait()
	r.mu.Lock()
	stopped := r.stopped
	r.mu.Unlock()
	if stopped {
		<-r.cleared
	}
}

// outcome is the run's exit status, and whether it ended because its machine went down.
func (r *run) outcome() (exit int, disconnected bool) {
	exit = r.process.Wait().ExitCode()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped:
		exit = stoppedStatus
	case r.disconnected:
		exit = disconnectedStatus
	}
	return exit, r.disconnected
}

// quiet is closed as soon as the run has ended or asks for something.
func (r *run) quiet() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attention
}

func (r *run) wake() {
	if !r.signalled {
		r.signalled = true
		close(r.attention)
	}
}

func (r *run) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wake()
}

func (r *run) ask(q *question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.questions = append(r.questions, q)
	r.wake()
}

// take returns the next question, or that the run has ended, and makes quiet wait for the next thing.
func (r *run) take() (q *question, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.questions) > 0 {
		q = r.questions[0]
		r.questions = r.questions[1:]
		r.waiting++
	} else if r.ended {
		return nil, true
	}
	r.attention, r.signalled = make(chan struct{}), false
	if len(r.questions) > 0 || r.ended {
		r.wake()
	}
	return q, false
}

func (r *run) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
}

// asking says that the front has an unanswered question, so that time need not run for this run.
func (r *run) asking() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0
}

// output is a standard stream of a run.
type output struct {
	box *outbox
	run int
	fd  int
}

func (o output) Write(b []byte) (int, error) {
	if len(b) > 0 {
		o.box.send(wire.Event{Output: &wire.Output{Run: o.run, FD: o.fd, Data: append([]byte(nil), b...)}})
	}
	return len(b), nil
}
