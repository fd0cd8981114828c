package worker

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// server handles the front's requests. All of its state belongs to the gate's goroutine, but for the runs, which are also
// interrupted while that waits.
type server struct {
	urgent    *kernel.Urgent
	mu        sync.Mutex // guards runs and streams
	box       *outbox
	gate      *kernel.Gate
	pacer     *pacer
	pace      wire.Pace
	w         *kernel.World
	rec       *kernel.Recorder
	world     World
	runs      map[int]*run
	questions map[int]*question
	lastAsk   int
	// outside counts the questions to the front that no run's terminal asked.
	outside int
	asking  chan *question
	door    Door // nil until the front wants it
	streams map[int]*stream
}

// receive lives outside of the bubble and hands every request in through the gate.
func (s *server) receive(conn *wire.Conn) {
	for {
		var r wire.Request
		if err := conn.Receive(&r); err != nil {
			kernel.Exit(0) // the front is gone; whatever had finished is on its disk
		}
		if i := r.Interrupt; i != nil {
			// The gate may be waiting for a program that computes and never ends. It hears of it as well, since nothing but what
			// comes in through it wakes it, and since the run may not have begun.
			s.urgent.Do(func() {
				if run := s.running(i.Run); run != nil {
					run.interrupt()
					s.gate.Do(func() {})
				} else {
					s.gate.Do(func() { s.handle(&r) })
				}
			})
			continue
		}
		s.gate.Do(func() { s.handle(&r) })
	}
}

func (s *server) handle(r *wire.Request) {
	switch {
	case r.Run != nil:
		s.start(r.Run)
	case r.Answer != nil:
		s.answer(r.Answer)
	case r.Interrupt != nil:
		if run := s.running(r.Interrupt.Run); run != nil {
			run.interrupt()
		}
	case r.Pace != nil:
		s.setPace(*r.Pace)
	case r.Skip != nil:
		s.skip(r.Skip)
	case r.Query != nil:
		s.query(r.Query)
	case r.Door != nil:
		s.openDoor()
	case r.Stream != nil:
		s.stream(r.Stream)
	case r.Stop != nil:
		s.gate.Quit()
	}
}

func (s *server) running(id int) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

func (s *server) setPace(p wire.Pace) {
	s.pace = p
	s.pacer.set(p)
}

// free says that time runs by itself while something is in the foreground.
func (s *server) free() bool { return s.pace.Speed == 0 && !s.pace.Paused && s.outside == 0 }

// listen hands the world's own questions on to the front.
func (s *server) listen() {
	s.asking = make(chan *question)
	s.w.Outside = func(name string, payload []byte) ([]byte, error) {
		q := &question{ask: wire.Ask{Kind: wire.AskOutside, Prompt: name, Content: payload}, answer: make(chan wire.Answer, 1)}
		s.asking <- q
		a := <-q.answer
		if a.Error != "" {
			return a.Text, errors.New(a.Error)
		}
		return a.Text, nil
	}
	s.next()
}

func (s *server) next() {
	got := make(chan struct{})
	var q *question
	go func() { q = <-s.asking; close(got); s.gate.Kick() }()
	s.gate.When(got, func() bool { return false }, func() {
		s.outside++
		s.lastAsk++
		q.ask.ID, q.ask.Date = s.lastAsk, time.Now()
		q.ask.Delta = s.freeze()
		s.questions[q.ask.ID] = q
		s.box.send(wire.Event{Ask: &q.ask})
		s.next()
	})
}

// freeze reports what has changed since the last report. All goroutines of the bubble are blocked: the gate has seen to it.
func (s *server) freeze() kernel.Delta {
	kernel.Settle()
	return s.w.Freeze(s.rec)
}

func (s *server) start(q *wire.Run) {
	if up := s.world.Await(q); up != nil {
		s.gate.When(up, s.free, func() { s.login(q) })
		return
	}
	s.login(q)
}

func (s *server) login(q *wire.Run) {
	r := newRun(s, q)
	p, err := s.world.Open(q, r.tty(), bytes.NewReader(q.Stdin), r.stdout, r.stderr)
	if err != nil {
		s.box.send(wire.Event{Done: &wire.Done{ID: q.ID, Exit: 1, Date: time.Now(), Error: err.Error()}})
		return
	}
	r.process = p
	s.mu.Lock()
	s.runs[q.ID] = r
	s.mu.Unlock()
	q.Limit.Watch(p, func(why string) { r.giveUp("the script was stopped: " + why) })
	go func() {
		r.wait()
		if name, ok := s.world.Disconnected(p); ok {
			r.disconnect(name)
		}
		s.w.AwaitCalm()
		r.finish()
	}()
	s.await(r)
}

// await waits, by the gate, until the run has ended or asks its terminal for something.
func (s *server) await(r *run) {
	s.gate.When(r.quiet(), func() bool { return s.free() && !r.asking() }, func() {
		q, ended := r.take()
		switch {
		case ended:
			s.mu.Lock()
			delete(s.runs, r.id)
			s.mu.Unlock()
			exit, lost := r.outcome()
			s.box.send(wire.Event{Done: &wire.Done{ID: r.id, Exit: exit, Disconnected: lost, Date: time.Now(), Delta: s.freeze()}})
		case q != nil:
			s.lastAsk++
			q.ask.ID, q.ask.Run, q.ask.Date = s.lastAsk, r.id, time.Now()
			if q.ask.Command {
				q.ask.Delta = s.freeze()
			}
			s.questions[q.ask.ID] = q
			s.box.send(wire.Event{Ask: &q.ask})
			s.await(r) // it may also end while it waits for the user
		}
	})
}

func (s *server) answer(a *wire.Answer) {
	q := s.questions[a.ID]
	if q == nil {
		return // the process that asked is gone
	}
	delete(s.questions, a.ID)
	q.answer <- *a
	if q.ask.Kind == wire.AskOutside {
		s.outside--
		return
	}
	if r := s.running(q.ask.Run); r != nil {
		r.answered()
	}
}

func (s *server) skip(q *wire.Skip) {
	done := make(chan struct{})
	go func() {
		time.Sleep(q.By)
		if q.Calm {
			s.w.AwaitCalm()
		}
		close(done)
	}()
	s.gate.When(done, kernel.Freely, func() {
		s.box.send(wire.Event{Done: &wire.Done{ID: q.ID, Date: time.Now(), Delta: s.freeze()}})
	})
}

// complete is the query that a terminal makes while the user types; its payload is the cursor's place, a colon and the line.
const complete = "complete"

func (s *server) query(q *wire.Query) {
	done := make(chan struct{})
	var payload []byte
	var err error
	go func() {
		defer close(done)
		if q.Name == complete {
			payload, err = s.complete(q.Payload)
			return
		}
		payload, err = s.world.Query(q.Name, q.Payload)
	}()
	s.gate.When(done, kernel.Freely, func() {
		r := &wire.Reply{ID: q.ID, Payload: payload}
		if err != nil {
			r.Error = err.Error()
		}
		s.box.send(wire.Event{Reply: r})
	})
}

func (s *server) complete(payload []byte) ([]byte, error) {
	var ask, cursor int
	head, line, _ := bytes.Cut(payload, []byte(" "))
	if _, err := fmt.Sscanf(string(head), "%d:%d", &ask, &cursor); err != nil {
		return nil, err
	}
	q := s.questions[ask]
	if q == nil || q.completer == nil || cursor > len(line) {
		return kernel.Encode([]kernel.Completion{})
	}
	return kernel.Encode(q.completer(string(line), cursor))
}
