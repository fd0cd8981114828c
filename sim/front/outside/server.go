package outside

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"ckadrill/sim/front"
	"ckadrill/sim/wire"
)

// The protocols that a client's TLS may agree upon.
const (
	http2 = "h2"
	http1 = "http/1.1"
)

const (
	// maxConnections is how many clients may be connected; more wait to be accepted. One client-go has a hundred watches in each.
	maxConnections = 2000
	// handshakeTimeout is how long a client may take to begin.
	handshakeTimeout = 10 * time.Second
	// keepPeriod is how often the state of the cluster is kept while clients work on it.
	keepPeriod = 2 * time.Minute
	// rebindPeriod is how long to wait for a port that somebody else has taken meanwhile.
	rebindPeriod = time.Second
)

// Server lets clients of the host's network in to a play.
type Server struct {
	play *front.Play
	tls  *tls.Config
	port int
	say  func(format string, a ...any)

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	turns    chan struct{}
	accepts  bool // as the world says
	closed   bool
	used     bool // since the state was kept
	told     string
	changed  chan struct{}
}

// New opens the door of a play whose world is ready, listens on 127.0.0.1 at a port, any if 0, and writes the kubeconfig.
func New(p *front.Play, port int, kubeconfig string) (*Server, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	s := &Server{play: p, say: p.Say, conns: map[net.Conn]bool{}, turns: make(chan struct{}, maxConnections), changed: make(chan struct{}, 1)}
	if s.tls, err = a.serverTLS(); err != nil {
		return nil, err
	}
	l, err := listen(port)
	if err != nil {
		return nil, err
	}
	s.listener, s.port, s.accepts = l, l.Addr().(*net.TCPAddr).Port, true
	go s.accept(l)
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	b, err := a.kubeconfig("https://" + l.Addr().String())
	if err == nil {
		err = writePrivate(kubeconfig, b)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// writePrivate writes a file that only its owner may read, in the place of one that is there.
func writePrivate(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".kubeconfig-*") // its mode is 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// open opens the door of the current worker.
func (s *Server) open() error {
	w := s.play.Worker()
	first := make(chan wire.DoorState, 1)
	err := w.OpenDoor(func(d wire.DoorState) {
		select {
		case first <- d:
		default:
		}
		s.mu.Lock()
		s.accepts = d.Accepts
		s.mu.Unlock()
		s.look()
	})
	if err != nil {
		return err
	}
	select {
	case d := <-first:
		if d.Error != "" {
			return errors.New(d.Error)
		}
		return nil
	case <-w.Dead():
		return errors.New("the simulation's worker process ended")
	}
}

// look has [Server.Run] see to the listener.
func (s *Server) look() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Address is where it listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Run serves until ctx is done, then ends all connections and keeps the session. When a worker dies, another takes its place
// from the state that was kept last.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	keep := time.NewTicker(keepPeriod)
	defer keep.Stop()
	for {
		w := s.play.Worker()
		select {
		case <-ctx.Done():
			s.Close()
			return s.keep(true)
		case <-keep.C:
			if err := s.keep(false); err != nil && !front.Lost(err) {
				return err
			}
		case <-s.changed:
			s.follow()
		case <-w.Dead():
			s.say("%v", w.Err())
			if err := s.play.Revive(); err != nil {
				return err
			}
			if err := s.open(); err != nil {
				return err
			}
			s.say("the cluster goes on from the state of %s", s.play.Date().UTC().Format("2006-01-02 15:04:05"))
		}
	}
}

// keep writes what has changed to the session, last when the serving ends.
func (s *Server) keep(last bool) error {
	s.mu.Lock()
	used := s.used
	s.used = false
	s.mu.Unlock()
	if !used && !last {
		return nil
	}
	done, err := s.play.Worker().Freeze()
	if err != nil {
		return err
	}
	if last {
		return s.play.Step("ckadrill serve", nil, 0, done.Delta, done.Date)
	}
	s.play.Keep(done.Delta, done.Date)
	return s.play.Note(map[string]string{"serve": s.Address()})
}

// follow opens and closes the listener as the API server's own: where nobody listens in the world a client is refused, and it
// says so in its own words.
func (s *Server) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case s.accepts && s.listener == nil:
		l, err := listen(s.port)
		if err != nil {
			s.tell(err)
			time.AfterFunc(rebindPeriod, s.look)
			return
		}
		s.listener = l
		go s.accept(l)
	case !s.accepts && s.listener != nil:
		s.listener.Close()
		s.listener = nil
	}
}

// tell says once what went wrong. The lock is held.
func (s *Server) tell(err error) {
	if text := err.Error(); text != s.told {
		s.told = text
		s.say("%s", text)
	}
}

func (s *Server) accept(l net.Listener) {
	for {
		s.turns <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			<-s.turns
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // too many open files
			continue
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			<-s.turns
			return
		}
		s.conns[c] = true
		s.used = true
		s.mu.Unlock()
		go func() {
			defer func() { <-s.turns }()
			defer func() {
				c.Close()
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			}()
			s.serve(c)
		}()
	}
}

// serve joins a client with the world.
func (s *Server) serve(raw net.Conn) {
	c := tls.Server(raw, s.tls)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	err := c.HandshakeContext(ctx)
	cancel()
	if err != nil {
		answerPlain(err)
		return
	}
	state := c.ConnectionState()
	o := wire.Open{Protocol: state.NegotiatedProtocol, Admin: len(state.PeerCertificates) > 0}
	if o.Protocol == "" {
		o.Protocol = http1
	}
	t, err := s.play.Worker().Connect(o)
	if err != nil {
		reset(raw)
		return
	}
	defer t.Close()
	go func() {
		_, err := io.Copy(t, c)
		if err != nil {
			t.Close()
			return
		}
		t.CloseWrite()
	}()
	if n, err := io.Copy(c, t); err != nil {
		if n == 0 && !errors.Is(err, io.ErrClosedPipe) { // it never came to be
			s.mu.Lock()
			s.tell(fmt.Errorf("a client was turned away: %w", err))
			s.mu.Unlock()
		}
		reset(raw)
		return
	}
	c.CloseWrite()
}

// answerPlain answers a client that speaks HTTP without TLS, as net/http does.
func answerPlain(err error) {
	var h tls.RecordHeaderError
	if !errors.As(err, &h) || h.Conn == nil {
		return
	}
	switch string(h.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		io.WriteString(h.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
}

// reset ends a connection as one that broke.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// Close stops listening and ends all connections.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	for c := range s.conns {
		c.Close()
	}
}
