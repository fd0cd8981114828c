package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ckadrill/sim/kernel"

	"golang.org/x/net/http2"
)

// How much of a response waits for its reader: the header and a short body go out together, as net/http's buffer makes them,
// and a handler that writes faster than the client reads waits.
const (
	responseBuffer = 4 << 10
	responseWindow = 1 << 20
)

// exchange is one request and its response over a session.
type exchange struct {
	s       *session
	by      atomic.Pointer[serving]
	p       *pair
	r       *http.Request // the client's
	id      uint32        // HTTP/2 stream
	head    chan struct{} // closed when the response's header is there, or err is set
	startUp func()        // what a cut connection keeps from starting

	mu     sync.Mutex
	cond   *sync.Cond
	cut    bool
	gone   bool  // the client wants no more
	err    error // what the client sees after the buffered bytes
	done   bool  // the handler has returned
	header http.Header
	sent   bool // the header was published
	status int
	snap   http.Header
	length int64 // of the body as declared, -1 if it was not
	wrote  int64
	buf    []byte
	off    int
	dead   time.Time
	timer  *time.Timer
	notify chan bool
}

// serving is the server's end of an exchange.
type serving struct {
	server *Server
	conn   context.Context // the connection's
	cancel context.CancelFunc
}

// stop tells the handler that nobody waits for it any more, or that it has ended. Afterwards the exchange keeps nothing of
// the server: clients keep the bodies of watches for long after the server has ended them.
func (x *exchange) stop() {
	if by := x.by.Swap(nil); by != nil {
		by.cancel()
	}
}

// register makes the exchange hear of the connection's fate, and starts it, unless the connection is cut: then it starts
// when packets get through again. It fails with what the connection ended with.
func (x *exchange) register(start func()) error {
	p := x.p
	p.mu.Lock()
	if c := &p.side[0]; c.endedErr != nil {
		p.mu.Unlock()
		return c.endedErr
	}
	p.hooks[x] = true
	if p.cut {
		x.cut, x.startUp = true, start
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	start()
	return nil
}

func (x *exchange) unregister() {
	x.p.mu.Lock()
	delete(x.p.hooks, x)
	x.p.mu.Unlock()
}

// wake tells the exchange that the connection was cut or mended. The pair's lock is held.
func (x *exchange) wake() {
	x.mu.Lock()
	x.cut = x.p.cut
	start := x.startUp
	if !x.cut {
		x.startUp = nil
		x.publish()
	} else {
		start = nil
	}
	x.cond.Broadcast()
	x.mu.Unlock()
	if start != nil {
		start()
	}
}

// connEnded tells the exchange that one end of the connection sees no more of the other. The pair's lock is held.
func (x *exchange) connEnded(client bool, err error) {
	if !client {
		x.stop()
		return
	}
	if errors.Is(err, io.EOF) {
		if err = io.EOF; x.s.http2 {
			err = io.ErrUnexpectedEOF
		}
	}
	x.fail(err, true)
}

// fail ends the response for the client with an error.
func (x *exchange) fail(err error, now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil && !(x.done && !x.cut) {
		x.err = err
	}
	if now && x.cut {
		x.cut = false
	}
	x.publish()
	x.cond.Broadcast()
}

// abandon is called when the client is not interested any more.
func (x *exchange) abandon(err error) {
	x.mu.Lock()
	x.gone = true
	if x.err == nil {
		x.err = err
	}
	x.buf, x.off = nil, 0
	x.cond.Broadcast()
	x.mu.Unlock()
	x.stop()
	x.unregister()
}

// publish lets the client see the response, if it may. The lock is held.
func (x *exchange) publish() {
	if x.cut || (!x.sent && x.err == nil) {
		return
	}
	select {
	case <-x.head:
	default:
		close(x.head)
	}
}

// run calls the handler. It is the body of a goroutine of the serving process.
func (x *exchange) run(server *Server, req *http.Request) {
	normal := false
	defer func() {
		if !x.s.owner.Alive() {
			// Nobody is left to answer. The client learns it from the end of the connection, which the kernel closes now.
			recover()
			x.stop()
			if req.Body != nil {
				req.Body.Close()
			}
			return
		}
		if e := recover(); e != nil {
			if e != http.ErrAbortHandler {
				proto := "http"
				if x.s.http2 {
					proto = "http2"
				}
				server.real.ErrorLog.Printf("%s: panic serving %v: %v\n%s", proto, x.s.remote, e, debug.Stack())
			}
		} else if normal {
			x.finish()
			x.end(req)
			return
		}
		x.fail(x.aborted(), false)
		x.end(req)
	}()
	server.serveCounted(x, req)
	normal = true
}

func (x *exchange) end(req *http.Request) {
	x.stop()
	if req.Body != nil {
		req.Body.Close()
	}
	x.mu.Lock()
	x.done = true
	stop(&x.timer)
	cut := x.cut
	x.cond.Broadcast()
	x.mu.Unlock()
	if !cut {
		x.unregister()
	}
	x.s.finish()
}

// aborted is what a client sees of a handler that gave up.
func (x *exchange) aborted() error {
	if x.s.http2 {
		return http2.StreamError{StreamID: x.id, Code: http2.ErrCodeInternal, Cause: errors.New("received from peer")}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// finish completes a response whose handler has returned.
func (x *exchange) finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.writeHeader(http.StatusOK)
	}
	if !x.sent {
		if x.length < 0 && bodyAllowed(x.status) && (x.r.Method != http.MethodHead || x.wrote > 0) {
			x.length = x.wrote
			x.snap.Set("Content-Length", strconv.FormatInt(x.wrote, 10))
		}
		x.send()
	} else if x.length >= 0 && x.wrote < x.length && x.r.Method != http.MethodHead && x.err == nil {
		x.err = io.ErrUnexpectedEOF
	}
	x.done = true
	x.publish()
	x.cond.Broadcast()
}

func bodyAllowed(status int) bool { return status >= 200 && status != 204 && status != 304 }

// send publishes the header. The lock is held.
func (x *exchange) send() {
	if x.sent {
		return
	}
	if x.snap.Get("Content-Type") == "" && x.snap.Get("Content-Encoding") == "" && len(x.buf) > 0 {
		if _, set := x.snap["Content-Type"]; !set {
			x.snap.Set("Content-Type", http.DetectContentType(x.buf))
		}
	}
	if _, set := x.snap["Date"]; !set {
		x.snap.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	x.sent = true
	x.publish()
}

// Header implements [http.ResponseWriter].
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(code int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.writeHeader(code)
}

func (x *exchange) writeHeader(code int) {
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	if x.status != 0 || code < 200 {
		return
	}
	x.status = code
	x.snap = x.header.Clone()
	if x.snap == nil {
		x.snap = http.Header{}
	}
	x.length = -1
	if v := x.snap.Get("Content-Length"); v != "" {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 {
			x.length = n
		} else {
			x.snap.Del("Content-Length")
		}
	}
	for _, k := range []string{"Connection", "Transfer-Encoding", "Keep-Alive"} {
		if x.s.http2 {
			delete(x.snap, k)
		}
	}
}

// Write implements [http.ResponseWriter].
func (x *exchange) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.writeHeader(http.StatusOK)
	}
	if !bodyAllowed(x.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if x.length >= 0 && x.wrote+int64(len(b)) > x.length {
		return 0, http.ErrContentLength
	}
	n := 0
	for {
		switch {
		case !x.s.owner.Alive():
			return n, kernel.ErrDead
		case x.gone:
			return n, errStreamClosed
		case x.err != nil:
			return n, x.err
		case past(x.dead):
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		}
		if x.r.Method == http.MethodHead {
			x.wrote += int64(len(b))
			return n + len(b), nil
		}
		if k := min(len(b), responseWindow-(len(x.buf)-x.off)); k > 0 {
			x.buf = append(x.buf, b[:k]...)
			b = b[k:]
			n += k
			x.wrote += int64(k)
			if len(x.buf)-x.off > responseBuffer {
				x.send()
			}
			if x.sent {
				x.cond.Broadcast()
			}
			continue
		}
		x.cond.Wait()
	}
}

var errStreamClosed = errors.New("http2: stream closed")

// Flush implements [http.Flusher].
func (x *exchange) Flush() { x.FlushError() }

// FlushError sends what has been written, for [http.ResponseController].
func (x *exchange) FlushError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.writeHeader(http.StatusOK)
	}
	x.send()
	x.cond.Broadcast()
	if x.gone {
		return errStreamClosed
	}
	return nil
}

// CloseNotify implements [http.CloseNotifier]; without it kube-apiserver's wrappers hide Flush, and watches fail.
func (x *exchange) CloseNotify() <-chan bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.notify == nil {
		x.notify = make(chan bool, 1)
		c := x.notify
		if by := x.by.Load(); by != nil {
			context.AfterFunc(by.conn, func() { c <- true })
		} else {
			c <- true
		}
	}
	return x.notify
}

// SetReadDeadline does nothing: what a [Transport] sends has arrived.
func (x *exchange) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline serves [http.ResponseController].
func (x *exchange) SetWriteDeadline(t time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dead = t
	stop(&x.timer)
	if !t.IsZero() {
		x.timer = time.AfterFunc(time.Until(t), func() { x.mu.Lock(); x.cond.Broadcast(); x.mu.Unlock() })
	}
	return nil
}

// EnableFullDuplex serves [http.ResponseController]: requests are always read while the response is written.
func (x *exchange) EnableFullDuplex() error { return nil }

// responseBody is the client's view of the response's body.
type responseBody struct {
	x    *exchange
	stop func() bool
}

func (b *responseBody) Read(d []byte) (int, error) {
	x := b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		switch {
		case x.gone && x.err == nil:
			return 0, http.ErrBodyReadAfterClose
		case x.cut && !x.gone:
		case len(x.buf) > x.off:
			n := copy(d, x.buf[x.off:])
			x.off += n
			if x.off == len(x.buf) {
				x.buf, x.off = x.buf[:0], 0
			}
			x.cond.Broadcast()
			return n, nil
		case x.err != nil:
			return 0, x.err
		case x.done:
			return 0, io.EOF
		}
		if len(d) == 0 {
			return 0, nil
		}
		x.cond.Wait()
	}
}

func (b *responseBody) Close() error {
	b.stop()
	b.x.abandon(nil)
	return nil
}
