package worker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"ckadrill/sim/wire"
)

// stream is the world's end of a connection of a client from outside. Its bytes come in through the gate and wait, no more
// than its window of them, for whoever they are meant for; so a slow server holds up its own client alone.
type stream struct {
	id     int
	s      *server
	cancel context.CancelFunc

	mu     sync.Mutex
	cond   *sync.Cond
	queue  []byte // from the client, not written yet
	end    bool   // the client sends no more
	over   bool
	credit int // how much the front takes
}

// errTooMuch ends a stream whose front does not keep to its credit.
var errTooMuch = errors.New("more was sent than the window holds")

// doorPeriod is how often the world looks whether the API server still listens.
const doorPeriod = time.Second

// openDoor begins to take streams.
func (s *server) openDoor() {
	if s.door != nil {
		return
	}
	d, err := s.world.Door()
	if err != nil {
		s.box.send(wire.Event{Door: &wire.DoorState{Error: err.Error()}})
		return
	}
	s.door = d
	accepts := d.Accepts()
	s.box.send(wire.Event{Door: &wire.DoorState{Accepts: accepts}})
	go func() {
		for {
			time.Sleep(doorPeriod)
			if now := d.Accepts(); now != accepts {
				accepts = now
				s.box.send(wire.Event{Door: &wire.DoorState{Accepts: accepts}})
			}
		}
	}()
}

// stream handles a message about a stream. It is called by the gate's goroutine.
func (s *server) stream(m *wire.Stream) {
	if m.Open != nil {
		s.connect(m.ID, m.Open)
		return
	}
	s.mu.Lock()
	t := s.streams[m.ID]
	s.mu.Unlock()
	if t == nil {
		return // it is over, and the front has not heard of it yet
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m.Close:
		t.over = true
		t.cancel()
	case len(t.queue)+len(m.Data) > wire.StreamWindow:
		go t.close(errTooMuch)
	default:
		t.queue = append(t.queue, m.Data...)
		t.end = t.end || m.End
		t.credit += m.Credit
	}
	t.cond.Broadcast()
}

func (s *server) connect(id int, o *wire.Open) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &stream{id: id, s: s, cancel: cancel, credit: wire.StreamWindow}
	t.cond = sync.NewCond(&t.mu)
	s.mu.Lock()
	s.streams[id] = t
	s.mu.Unlock()
	go func() {
		if s.door == nil {
			t.close(errors.New("the world has no door"))
			return
		}
		c, err := s.door.Connect(ctx, o)
		if err != nil {
			t.close(err)
			return
		}
		context.AfterFunc(ctx, func() { c.Close() })
		written := make(chan struct{})
		go func() { defer close(written); t.write(c) }()
		t.read(c)
		<-written
		t.close(nil)
	}()
}

// write hands on what the client sends.
func (t *stream) write(c Conn) {
	for {
		t.mu.Lock()
		for len(t.queue) == 0 && !t.end && !t.over {
			t.cond.Wait()
		}
		b := t.queue
		t.queue = nil
		over := t.over
		t.mu.Unlock()
		if over {
			return
		}
		if len(b) == 0 {
			c.CloseWrite()
			return
		}
		if _, err := c.Write(b); err != nil {
			t.close(err)
			return
		}
		t.send(wire.Stream{Credit: len(b)})
	}
}

// read hands on what the server sends.
func (t *stream) read(c Conn) {
	b := make([]byte, wire.StreamWindow/2)
	for {
		t.mu.Lock()
		for t.credit == 0 && !t.over {
			t.cond.Wait()
		}
		n := min(t.credit, len(b))
		over := t.over
		t.mu.Unlock()
		if over {
			return
		}
		n, err := c.Read(b[:n])
		if n > 0 {
			t.mu.Lock()
			t.credit -= n
			t.mu.Unlock()
			t.send(wire.Stream{Data: append([]byte(nil), b[:n]...)})
		}
		if errors.Is(err, io.EOF) {
			t.send(wire.Stream{End: true})
			return
		}
		if err != nil {
			t.close(err)
			return
		}
	}
}

func (t *stream) send(m wire.Stream) {
	m.ID = t.id
	t.s.box.send(wire.Event{Stream: &m})
}

// close ends the stream and tells the front, unless that has ended it itself.
func (t *stream) close(why error) {
	t.mu.Lock()
	told := t.over
	t.over = true
	t.cond.Broadcast()
	t.mu.Unlock()
	t.cancel()
	t.s.mu.Lock()
	delete(t.s.streams, t.id)
	t.s.mu.Unlock()
	if told {
		return
	}
	m := wire.Stream{Close: true}
	if why != nil {
		m.Error = why.Error()
	}
	t.send(m)
}
