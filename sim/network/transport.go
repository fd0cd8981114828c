package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ckadrill/sim/kernel"
)

// Transport is the HTTP client side of the world's network, an [http.RoundTripper]. It dials as its process, makes the TLS
// handshake, and then, if the other end is a [Server], hands requests to its handler directly, with the identity of that
// connection. To any other server, and for upgrades (SPDY, websocket), it speaks HTTP over the connection by net/http.
//
// One connection to a server is shared by all requests, as in HTTP/2.
type Transport struct {
	p   *kernel.Process
	cfg *tls.Config
	// DialContext replaces the process's Dial.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout is the time-out of a dial, 30 s if 0 (client-go's and net/http's).
	DialTimeout time.Duration
	// HTTP1 forbids HTTP/2.
	HTTP1 bool
	// Sessions makes connections that follow each other resume the TLS session of the one before, which spares both ends
	// the handshake; nil makes full handshakes.
	Sessions *TLSSessions

	mu      sync.Mutex
	conns   map[string]*clientConn
	real    *http.Transport
	upgrade *http.Transport
	stash   map[string][]net.Conn
	closed  bool
}

// tlsHandshakeTimeout is net/http's and client-go's.
const tlsHandshakeTimeout = 10 * time.Second

// NewTransport makes a transport of a process. cfg may be nil; it is not changed.
func NewTransport(p *kernel.Process, cfg *tls.Config) *Transport {
	return &Transport{p: p, cfg: cfg, conns: map[string]*clientConn{}, stash: map[string][]net.Conn{}}
}

// clientConn is a connection that is made, or has been.
type clientConn struct {
	ready  chan struct{}
	err    error
	conn   *Conn
	s      *session // nil if the other end must be spoken to in bytes
	state  *tls.ConnectionState
	stream atomic.Uint32
}

func (c *clientConn) usable() bool {
	select {
	case <-c.ready:
	default:
		return true
	}
	if c.err != nil {
		return false
	}
	select {
	case <-c.conn.ended:
		return false
	default:
	}
	if c.s == nil {
		return true
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return !c.s.draining
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil || r.URL.Host == "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return t.bytes().RoundTrip(r) // net/http words the error
	}
	if err := r.Context().Err(); err != nil {
		closeBody(r)
		return nil, context.Cause(r.Context())
	}
	if isUpgrade(r.Header) {
		return t.upgrades().RoundTrip(r)
	}
	address := canonical(r.URL)
	for {
		c, err := t.get(r.Context(), r.URL.Scheme, address)
		if err != nil {
			closeBody(r)
			return nil, err
		}
		if c.s == nil {
			return t.bytes().RoundTrip(r)
		}
		res, err, again := t.exchange(c, r)
		if !again {
			return res, err
		}
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

func isUpgrade(h http.Header) bool {
	for _, v := range h["Connection"] {
		for _, f := range strings.Split(v, ",") {
			if strings.EqualFold(strings.TrimSpace(f), "upgrade") {
				return true
			}
		}
	}
	return false
}

func canonical(u *url.URL) string {
	port := u.Port()
	if port == "" {
		if port = "80"; u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// get returns the connection to a server, a new one if there is none that can be used.
func (t *Transport) get(ctx context.Context, scheme, address string) (*clientConn, error) {
	key := scheme + "://" + address
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(address)
	}
	t.mu.Lock()
	c, reused := t.conns[key], true
	if c == nil || !c.usable() {
		reused = false
		if c != nil && c.conn != nil {
			// Its server has ended it: an open end here would keep all of that server.
			old := c.conn
			defer old.Close()
		}
		c = &clientConn{ready: make(chan struct{})}
		t.conns[key] = c
		dial := context.WithoutCancel(ctx)
		t.p.Go(func() { t.connect(dial, c, key, scheme == "https", address) })
		if !t.p.Alive() {
			delete(t.conns, key)
			t.mu.Unlock()
			return nil, kernel.ErrDead
		}
	}
	t.mu.Unlock()
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-t.p.Done():
		return nil, kernel.ErrDead
	}
	if c.err != nil {
		return nil, c.err
	}
	if trace != nil && trace.GotConn != nil && c.s != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.conn, Reused: reused})
	}
	return c, nil
}

// connect makes a connection.
func (t *Transport) connect(ctx context.Context, c *clientConn, key string, secure bool, address string) {
	c.err = t.handshake(ctx, c, secure, address)
	t.mu.Lock()
	if c.err != nil && t.conns[key] == c {
		delete(t.conns, key)
	}
	late := t.closed
	t.mu.Unlock()
	if late && c.conn != nil {
		c.conn.Close()
	}
	close(c.ready)
}

func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	timeout := t.DialTimeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.ConnectStart != nil {
		trace.ConnectStart(network, address)
	}
	dial := t.DialContext
	if dial == nil {
		dial = t.p.Dial
	}
	c, err := dial(ctx, network, address)
	if trace != nil && trace.ConnectDone != nil {
		trace.ConnectDone(network, address, err)
	}
	return c, err
}

func (t *Transport) handshake(ctx context.Context, c *clientConn, secure bool, address string) error {
	hint := httpHint{tls: secure}
	if secure {
		hint.last = t.last(address)
	}
	raw, err := t.dial(withHint(ctx, hint), "tcp", address)
	if err != nil {
		return err
	}
	conn, ok := raw.(*Conn)
	if !ok {
		raw.Close()
		return errors.New("network: the transport's dialer gave it a connection of another network")
	}
	c.conn = conn
	timer := time.NewTimer(tlsHandshakeTimeout)
	defer timer.Stop()
	late := timer.C
	if !secure {
		late = nil // a request would now be sent, and wait for its answer
	}
	select {
	case <-conn.p.mode:
	case <-conn.ended:
		conn.Close()
		return conn.endedErr
	case <-late:
		conn.Close()
		return errHandshakeTimeout
	}
	s := conn.p.session
	if s == nil {
		t.mu.Lock()
		t.stash[address] = append(t.stash[address], conn)
		t.mu.Unlock()
		return nil
	}
	if !secure {
		<-s.ready
		c.s = s
		return nil
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	state, err := t.handshakeTLS(conn, s, address)
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(state, err)
	}
	if err != nil {
		conn.Close()
		return err
	}
	c.s, c.state = s, &state
	return nil
}

var errHandshakeTimeout error = handshakeTimeout{}

type handshakeTimeout struct{}

func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }
func (handshakeTimeout) Error() string   { return "net/http: TLS handshake timeout" }

func (t *Transport) config(address string, protos ...string) *tls.Config {
	cfg := t.cfg.Clone()
	if cfg == nil {
		cfg = &tls.Config{}
	}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	if len(cfg.NextProtos) == 0 {
		cfg.NextProtos = protos
	}
	if cfg.CurvePreferences == nil {
		cfg.CurvePreferences = curves
	}
	return cfg
}

// curves are Go's defaults without those that withstand quantum computers, which are half of a handshake: nobody records
// what is said in this world.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

func (t *Transport) protos() []string {
	if t.HTTP1 {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

func (t *Transport) handshakeTLS(conn *Conn, s *session, address string) (tls.ConnectionState, error) {
	if s.resumed != nil {
		<-s.ready
		return s.resumed.client, nil
	}
	tc := tls.Client(conn, t.config(address, t.protos()...))
	ctx, cancel := context.WithTimeoutCause(t.p.Context(), tlsHandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		if context.Cause(ctx) == errHandshakeTimeout {
			err = errHandshakeTimeout
		}
		return tls.ConnectionState{}, err
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return tls.ConnectionState{}, context.Cause(ctx)
	}
	if s.failed {
		// The server did not like the client's certificate; in TLS 1.3 a client learns of it with its first read.
		_, err := tc.Read(make([]byte, 1))
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return tls.ConnectionState{}, err
	}
	state := tc.ConnectionState()
	t.remember(address, s, state)
	return state, nil
}

// bytes is net/http's transport, for servers that are not handed requests directly.
func (t *Transport) bytes() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.real == nil {
		t.real = &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				t.mu.Lock()
				if l := t.stash[address]; len(l) > 0 {
					delete(t.stash, address)
					t.mu.Unlock()
					for _, c := range l[1:] {
						c.Close()
					}
					if c, ok := l[0].(*Conn); ok && c.alive() {
						return c, nil
					}
				} else {
					t.mu.Unlock()
				}
				return t.dial(ctx, network, address)
			},
			TLSClientConfig: t.cfg.Clone(), TLSHandshakeTimeout: tlsHandshakeTimeout, ForceAttemptHTTP2: !t.HTTP1, IdleConnTimeout: 90 * time.Second,
			DisableCompression: true,
			// as client-go, see h2PingTimeout
			HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		}
	}
	return t.real
}

func (c *Conn) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// Upgrades is net/http's transport for requests that leave HTTP (SPDY, websocket): over fresh connections of the same process
// and identity, HTTP/1.1 only. It is what upstream's spdy.RoundTripperConfig takes as UpgradeTransport.
func (t *Transport) Upgrades() *http.Transport { return t.upgrades() }

func (t *Transport) upgrades() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.upgrade == nil {
		cfg := t.cfg.Clone()
		if cfg == nil {
			cfg = &tls.Config{}
		}
		cfg.NextProtos = []string{"http/1.1"}
		t.upgrade = &http.Transport{DialContext: t.dial, TLSClientConfig: cfg, TLSHandshakeTimeout: tlsHandshakeTimeout,
			IdleConnTimeout: time.Second}
	}
	return t.upgrade
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	var idle []*clientConn
	for key, c := range t.conns {
		select {
		case <-c.ready:
		default:
			continue
		}
		if c.s == nil {
			delete(t.conns, key)
			continue
		}
		c.conn.p.mu.Lock()
		busy := len(c.conn.p.hooks) > 0
		c.conn.p.mu.Unlock()
		if !busy {
			delete(t.conns, key)
			idle = append(idle, c)
		}
	}
	real, upgrade := t.real, t.upgrade
	t.mu.Unlock()
	for _, c := range idle {
		c.conn.Close()
	}
	if real != nil {
		real.CloseIdleConnections()
	}
	if upgrade != nil {
		upgrade.CloseIdleConnections()
	}
}

// Close closes all connections, also those that requests use or that are still being made. The transport is of no use
// any more.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	l := t.conns
	t.conns = map[string]*clientConn{}
	t.mu.Unlock()
	for _, c := range l {
		select {
		case <-c.ready:
			if c.s != nil {
				c.conn.Close()
			}
		default: // connect closes it
		}
	}
	t.CloseIdleConnections()
}

// exchange hands one request over. again says that the connection could not take it and another must be found.
func (t *Transport) exchange(c *clientConn, r *http.Request) (res *http.Response, err error, again bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		defer t.p.World().Changing()()
	}
	s := c.s
	server, serves := s.begin()
	if server == nil {
		t.forget(c)
		return nil, nil, true
	}
	ctx, cancel := context.WithCancel(serves)
	x := &exchange{s: s, p: c.conn.p, r: r, id: c.stream.Add(1)*2 - 1, head: make(chan struct{}), header: http.Header{}, length: -1}
	x.by.Store(&serving{server, serves, cancel})
	x.cond = sync.NewCond(&x.mu)
	req := s.request(ctx, r)
	err = x.register(func() {
		s.owner.Go(func() {
			time.Sleep(latency(t.p, r))
			x.run(server, req)
		})
	})
	if err != nil {
		cancel()
		s.finish()
		t.forget(c)
		return nil, nil, true
	}
	// A client that gives up ends the request on the serving side too.
	stopWatching := func() bool { return true }
	if r.Context().Done() != nil {
		stopWatching = context.AfterFunc(r.Context(), func() { x.abandon(context.Cause(r.Context())) })
	}
	select {
	case <-x.head:
	case <-r.Context().Done():
	}
	x.mu.Lock()
	sent, failure := x.sent && !x.gone && !x.cut, x.err
	x.mu.Unlock()
	if !sent || r.Context().Err() != nil {
		stopWatching()
		if err := r.Context().Err(); err != nil {
			failure = context.Cause(r.Context())
		}
		if failure == nil {
			failure = io.ErrUnexpectedEOF
		}
		x.abandon(failure)
		return nil, failure, false
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		if trace.WroteRequest != nil {
			trace.WroteRequest(httptrace.WroteRequestInfo{})
		}
		if trace.GotFirstResponseByte != nil {
			trace.GotFirstResponseByte()
		}
	}
	return x.response(c, stopWatching), nil, false
}

func (t *Transport) forget(c *clientConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, o := range t.conns {
		if o == c {
			delete(t.conns, k)
		}
	}
}

func (x *exchange) response(c *clientConn, stopWatching func() bool) *http.Response {
	x.mu.Lock()
	defer x.mu.Unlock()
	res := &http.Response{StatusCode: x.status, Status: strconv.Itoa(x.status) + " " + http.StatusText(x.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.snap, ContentLength: x.length, Request: x.r, TLS: c.state}
	if x.s.http2 {
		res.Proto, res.ProtoMajor, res.ProtoMinor = "HTTP/2.0", 2, 0
	}
	if x.r.Method == http.MethodHead || !bodyAllowed(x.status) || x.length == 0 && x.done {
		res.Body = http.NoBody
		if !bodyAllowed(x.status) {
			res.ContentLength = 0
		}
		stopWatching()
		return res
	}
	res.Body = &responseBody{x: x, stop: stopWatching}
	return res
}

// request is what the server sees of a client's request.
func (n *session) request(ctx context.Context, r *http.Request) *http.Request {
	u := &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	if u.Path == "" {
		u.Path = "/"
	}
	s := (&http.Request{Method: r.Method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.Header.Clone(), Host: r.Host,
		RemoteAddr: n.remote, RequestURI: u.RequestURI(), TLS: n.tls, ContentLength: r.ContentLength, Body: http.NoBody}).WithContext(ctx)
	if s.Method == "" {
		s.Method = http.MethodGet
	}
	if s.Host == "" {
		s.Host = r.URL.Host
	}
	if s.Header == nil {
		s.Header = http.Header{}
	}
	agent := "Go-http-client/1.1"
	if n.http2 {
		s.Proto, s.ProtoMajor, s.ProtoMinor = "HTTP/2.0", 2, 0
		agent = "Go-http-client/2.0"
	}
	if v, ok := s.Header["User-Agent"]; !ok {
		s.Header.Set("User-Agent", agent)
	} else if len(v) > 0 && v[0] == "" {
		s.Header.Del("User-Agent")
	}
	if r.Body != nil && r.Body != http.NoBody {
		s.Body = &requestBody{r: r.Body, ctx: ctx}
		if s.ContentLength == 0 {
			s.ContentLength = -1
		}
		if s.ContentLength > 0 {
			s.Header.Set("Content-Length", strconv.FormatInt(s.ContentLength, 10))
		}
	} else if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, s.Method) {
		s.Header.Set("Content-Length", "0")
	}
	return s
}

// requestBody is the server's view of the request's body. It ends with the request.
type requestBody struct {
	mu     sync.Mutex
	r      io.ReadCloser
	ctx    context.Context
	closed bool
}

func (b *requestBody) Read(d []byte) (int, error) {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.ctx.Err() != nil {
		return 0, errClientDisconnected
	}
	return b.r.Read(d)
}

var errClientDisconnected = errors.New("client disconnected")

func (b *requestBody) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	return b.r.Close()
}
