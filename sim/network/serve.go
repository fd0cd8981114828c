package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
	"weak"

	"ckadrill/sim/kernel"
)

// httpHint travels with a dialled connection of a [Transport]: it says that requests may be handed over directly, and
// whether they will come over TLS, and which session with the server the client would go on with.
type httpHint struct {
	tls  bool
	last *tlsSession
}

type hintKey struct{}

// ForTransport marks a context with which a connection is dialled that will be given to a [Transport], by its DialContext.
// Over a connection dialled without the mark HTTP is spoken in bytes.
func ForTransport(ctx context.Context, tls bool) context.Context {
	return withHint(ctx, httpHint{tls: tls})
}

func withHint(ctx context.Context, h httpHint) context.Context {
	return context.WithValue(ctx, hintKey{}, &h)
}

func hintOf(ctx context.Context) *httpHint {
	h, _ := ctx.Value(hintKey{}).(*httpHint)
	return h
}

// session is the serving end of a connection over which requests are handed over directly.
type session struct {
	server *Server
	conn   *Conn
	owner  *kernel.Process
	tls    *tls.ConnectionState
	http2  bool
	ctx    context.Context
	cancel context.CancelFunc
	remote string
	// resumed is the earlier session that this one goes on with, nil if there was a handshake of its own.
	resumed *tlsSession
	// ready is closed when the handshake is done on the serving end too; failed says that it went wrong.
	ready  chan struct{}
	failed bool

	mu       sync.Mutex
	active   int
	draining bool
}

// release lets go of the server when the connection has ended. A client keeps its end until it needs another connection,
// which may be never, and must not keep all of a dead server with it.
func (n *session) release() {
	n.end()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.draining = nil, true
	n.ctx, n.cancel = ended, func() {}
}

// end ends the session's context.
func (n *session) end() {
	n.mu.Lock()
	cancel := n.cancel
	n.mu.Unlock()
	cancel()
}

// ended is a context that is done.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (n *session) done() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctx.Done()
}

// decide settles once how the accepting end serves the connection; nil is: by reading and writing bytes.
func (p *pair) decide(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.mode:
		return
	default:
	}
	p.session = s
	close(p.mode)
}

// Server serves HTTP on the network of the world. Requests of a [Transport] are handed to the handler directly, in a
// goroutine of the process that owns the listener, once the connection and its TLS handshake are real; everybody else is
// served by net/http over the bytes of the connection, HTTP/2 included.
type Server struct {
	Handler   http.Handler
	TLSConfig *tls.Config // nil serves without TLS
	// ErrorLog gets the lines that net/http would log ("http: TLS handshake error from ..."); nil drops them.
	ErrorLog *log.Logger
	// ConnContext may change the context of a new connection, as in net/http.
	ConnContext func(ctx context.Context, c net.Conn) context.Context

	mu        sync.Mutex
	real      *http.Server
	listeners []net.Listener
	sessions  map[*session]bool
	closed    bool
}

// Serve serves h on l until l is closed. It is the short form of [Server.Serve].
func Serve(l net.Listener, cfg *tls.Config, h http.Handler) error {
	return (&Server{Handler: h, TLSConfig: cfg}).Serve(l)
}

type accepter interface {
	accept() (*Conn, error)
	Addr() net.Addr
}

// Serve accepts connections until the listener or the server is closed. It returns the error of Accept, or
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return http.ErrServerClosed
	}
	s.setUp()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	inner := newChanListener()
	go s.real.Serve(inner)
	defer inner.Close()
	defer l.Close()
	var owner *kernel.Process
	direct, _ := l.(accepter)
	switch l := l.(type) {
	case *Listener:
		owner = l.owner
	case *UnixListener:
		owner = l.owner
	}
	for {
		var c net.Conn
		var err error
		if direct != nil && owner != nil {
			var k *Conn
			if k, err = direct.accept(); err == nil {
				if h := k.p.hint; h != nil && h.tls == (s.TLSConfig != nil) {
					go s.serveDirect(k, owner)
					continue
				}
				k.p.decide(nil)
				c = k
			}
		} else {
			c, err = l.Accept()
		}
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return http.ErrServerClosed
			}
			return err
		}
		if s.TLSConfig != nil {
			c = tls.Server(c, s.TLSConfig)
		}
		inner.put(c)
	}
}

// requestCPU is the processor time that a server needs for a request, beside what its handler says.
const requestCPU = 150 * time.Microsecond

// serveCounted serves a request, whose cost it counts.
func (s *Server) serveCounted(w http.ResponseWriter, r *http.Request) {
	if p := kernel.Current(); p != nil {
		p.SpendCPU(requestCPU)
	}
	s.Handler.ServeHTTP(w, r)
}

// setUp makes net/http's server for the connections that are served by their bytes.
func (s *Server) setUp() {
	if s.real != nil {
		return
	}
	s.sessions = map[*session]bool{}
	if s.TLSConfig != nil {
		s.TLSConfig = s.TLSConfig.Clone()
		if len(s.TLSConfig.NextProtos) == 0 {
			s.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
		}
	}
	errorLog := s.ErrorLog
	if errorLog == nil {
		errorLog = log.New(io.Discard, "", 0)
	}
	s.real = &http.Server{Handler: http.HandlerFunc(s.serveCounted), TLSConfig: s.TLSConfig, ErrorLog: errorLog, ConnContext: s.ConnContext}
	if s.TLSConfig != nil && !slices.Contains(s.TLSConfig.NextProtos, "h2") {
		s.real.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
}

// serveDirect makes a session of a connection whose other end is a [Transport], and keeps it until it ends.
func (s *Server) serveDirect(c *Conn, owner *kernel.Process) {
	n := &session{server: s, conn: c, owner: owner, ready: make(chan struct{}), remote: c.RemoteAddr().String()}
	ctx := context.WithValue(owner.Context(), http.ServerContextKey, s.real)
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.LocalAddr())
	n.ctx, n.cancel = context.WithCancel(ctx)
	defer n.release()
	if k := c.p.hint.last; k != nil && k.with == weak.Make(s) {
		n.resumed = k
	}
	c.p.decide(n)
	if n.resumed != nil {
		state := n.resumed.server
		n.tls, n.http2 = &state, state.NegotiatedProtocol == "h2"
	} else if s.TLSConfig != nil {
		tc := tls.Server(c, s.TLSConfig)
		if err := tc.HandshakeContext(n.ctx); err != nil {
			s.real.ErrorLog.Printf("http: TLS handshake error from %s: %v", n.remote, err)
			n.failed = true
			c.CloseWrite() // the alert must be read before the end
			close(n.ready)
			c.SetReadDeadline(time.Now().Add(5 * time.Second))
			io.Copy(io.Discard, c)
			c.Close()
			return
		}
		state := tc.ConnectionState()
		n.tls, n.http2 = &state, state.NegotiatedProtocol == "h2"
	}
	n.mu.Lock()
	if s.ConnContext != nil {
		n.ctx = s.ConnContext(n.ctx, c)
	}
	n.mu.Unlock()
	s.mu.Lock()
	if s.closed {
		n.draining = true
	}
	s.sessions[n] = true
	s.mu.Unlock()
	close(n.ready)
	select {
	case <-c.ended:
	case <-n.ctx.Done():
	}
	s.mu.Lock()
	delete(s.sessions, n)
	s.mu.Unlock()
	if owner.Alive() { // else the kernel closes it, after the listeners
		c.Close()
	}
}

// begin counts a request in and returns who serves it, nil if the session takes no more.
func (n *session) begin() (*Server, context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.draining || n.ctx.Err() != nil {
		return nil, nil
	}
	n.active++
	return n.server, n.ctx
}

func (n *session) finish() {
	n.mu.Lock()
	n.active--
	idle := n.draining && n.active == 0
	n.mu.Unlock()
	if idle {
		n.end()
	}
}

func (n *session) drain() {
	n.mu.Lock()
	n.draining = true
	idle := n.active == 0
	n.mu.Unlock()
	if idle {
		n.end()
	}
}

// Shutdown closes the listeners and waits until all requests have been answered, as [http.Server.Shutdown] does.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	listeners := s.listeners
	s.listeners = nil
	var l []*session
	for n := range s.sessions {
		l = append(l, n)
	}
	real := s.real
	s.mu.Unlock()
	for _, k := range listeners {
		k.Close()
	}
	for _, n := range l {
		n.drain()
	}
	for _, n := range l {
		select {
		case <-n.done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if real == nil {
		return nil
	}
	return real.Shutdown(ctx)
}

// Close closes listeners and connections at once, as [http.Server.Close] does.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
	s.mu.Lock()
	var l []*session
	for n := range s.sessions {
		l = append(l, n)
	}
	real := s.real
	s.mu.Unlock()
	for _, n := range l {
		n.end()
	}
	if real == nil {
		return nil
	}
	return real.Close()
}

// chanListener hands accepted connections to net/http's server.
type chanListener struct {
	mu     sync.Mutex
	cond   *sync.Cond
	conns  []net.Conn
	closed bool
}

func newChanListener() *chanListener {
	l := &chanListener{}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *chanListener) put(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return
	}
	l.conns = append(l.conns, c)
	l.cond.Signal()
}

func (l *chanListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.conns) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

func (l *chanListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.cond.Broadcast()
	return nil
}

func (l *chanListener) Addr() net.Addr { return &net.TCPAddr{} }

var errClientConnectionLost = errors.New("http2: client connection lost")
