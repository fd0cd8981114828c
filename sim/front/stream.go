package front

import (
	"errors"
	"io"
	"sync"

	"ckadrill/sim/wire"
)

// Stream is the front's end of a connection to the world's API server. It holds no more than a window of bytes, whatever the
// other end does.
type Stream struct {
	w  *Worker
	id int

	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte // not read yet
	taken  int    // read, but not given credit for
	credit int    // how much the world takes
	end    bool   // the world sends no more
	over   bool
	err    error
}

// OpenDoor lets clients from outside in: from then on [Worker.Connect] works, and f is told whether the API server listens.
func (w *Worker) OpenDoor(f func(wire.DoorState)) error {
	w.mu.Lock()
	w.onDoor = f
	w.mu.Unlock()
	return w.send(&wire.Request{Door: &wire.Door{}})
}

// Connect begins a connection to the world's API server. It returns before there is one.
func (w *Worker) Connect(o wire.Open) (*Stream, error) {
	s := &Stream{w: w, credit: wire.StreamWindow}
	s.cond = sync.NewCond(&s.mu)
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return nil, w.err
	}
	w.nextID++
	s.id = w.nextID
	w.streams[s.id] = s
	w.mu.Unlock()
	return s, w.send(&wire.Request{Stream: &wire.Stream{ID: s.id, Open: &o}})
}

func (s *Stream) handle(m *wire.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = append(s.buf, m.Data...)
	s.credit += m.Credit
	s.end = s.end || m.End
	if m.Close && !s.over {
		s.over = true
		if s.err = io.ErrClosedPipe; m.Error != "" {
			s.err = errors.New(m.Error)
		}
		s.w.forget(s)
	}
	s.cond.Broadcast()
}

func (w *Worker) forget(s *Stream) {
	w.mu.Lock()
	delete(w.streams, s.id)
	w.mu.Unlock()
}

// Read implements [io.Reader]. Its error is what the connection in the world broke with.
func (s *Stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	for len(s.buf) == 0 && !s.end && !s.over {
		s.cond.Wait()
	}
	n := copy(b, s.buf)
	s.buf = s.buf[n:]
	if len(s.buf) == 0 {
		s.buf = nil
	}
	s.taken += n
	var grant int
	if !s.over && !s.end && (len(s.buf) == 0 || s.taken >= wire.StreamWindow/2) {
		grant, s.taken = s.taken, 0
	}
	err := s.err
	if s.end {
		err = io.EOF
	}
	s.mu.Unlock()
	if grant > 0 {
		s.send(wire.Stream{Credit: grant})
	}
	if n > 0 || len(b) == 0 {
		return n, nil
	}
	return 0, err
}

// Write implements [io.Writer]. It waits while the world does not take more.
func (s *Stream) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		s.mu.Lock()
		for s.credit == 0 && !s.over {
			s.cond.Wait()
		}
		if s.over {
			err := s.err
			s.mu.Unlock()
			return done, err
		}
		n := min(len(b)-done, s.credit)
		s.credit -= n
		s.mu.Unlock()
		if err := s.send(wire.Stream{Data: b[done : done+n]}); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// CloseWrite says that no more is written.
func (s *Stream) CloseWrite() error { return s.send(wire.Stream{End: true}) }

// Close ends the connection.
func (s *Stream) Close() error {
	s.mu.Lock()
	was := s.over
	if !was {
		s.over, s.err, s.buf = true, io.ErrClosedPipe, nil
		s.cond.Broadcast()
	}
	s.mu.Unlock()
	if was {
		return nil
	}
	s.w.forget(s)
	return s.send(wire.Stream{Close: true})
}

func (s *Stream) send(m wire.Stream) error {
	m.ID = s.id
	return s.w.send(&wire.Request{Stream: &m})
}
