package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// loopback is the apiserver's connection to itself: a RoundTripper that calls its own handler, so that its informers and
// hooks cost neither a handshake nor HTTP/2. They authenticate with the loopback token, as upstream's do.
type loopback struct {
	handler atomic.Pointer[http.Handler]
	// host is the address that requests seem to come from.
	host string
	done <-chan struct{}
}

func (t *loopback) serve(h http.Handler) { t.handler.Store(&h) }

// RoundTrip implements [http.RoundTripper].
func (t *loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	h := t.handler.Load()
	if h == nil {
		return nil, fmt.Errorf("dial tcp %s: connect: connection refused", r.URL.Host)
	}
	body, pw := io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	w := &loopbackResponse{header: http.Header{}, body: pw, ready: make(chan struct{})}
	res := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: cancelOnClose{body, cancel}, Request: r, ContentLength: -1}
	req := r.Clone(ctx)
	if req.Body == nil {
		req.Body = http.NoBody
	}
	req.RequestURI, req.RemoteAddr = r.URL.RequestURI(), t.host
	stop := context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
	go func() {
		defer cancel()
		defer stop()
		defer func() { // as net/http's server does: upstream aborts a response that timed out by a panic
			if e := recover(); e != nil {
				w.WriteHeader(http.StatusInternalServerError)
				pw.CloseWithError(io.ErrUnexpectedEOF)
			}
		}()
		(*h).ServeHTTP(w, req)
		w.WriteHeader(http.StatusOK)
		pw.Close()
	}()
	select {
	case <-w.ready:
		res.StatusCode, res.Status, res.Header = w.code, fmt.Sprintf("%d %s", w.code, http.StatusText(w.code)), w.sent
		return res, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-t.done:
		cancel()
		body.Close()
		return nil, io.ErrUnexpectedEOF
	}
}

type cancelOnClose struct {
	io.ReadCloser
	cancel func()
}

func (c cancelOnClose) Close() error {
	err := c.ReadCloser.Close()
	c.cancel()
	return err
}

type loopbackResponse struct {
	header, sent http.Header
	code         int
	body         *io.PipeWriter
	once         sync.Once
	ready        chan struct{}
}

func (w *loopbackResponse) Header() http.Header { return w.header }

func (w *loopbackResponse) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.ready)
	})
}

func (w *loopbackResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *loopbackResponse) Flush() { w.WriteHeader(http.StatusOK) }

// CloseNotify must exist: upstream's wrappers of ResponseWriters hide Flush from those without, and watches then fail.
func (w *loopbackResponse) CloseNotify() <-chan bool { return make(chan bool) }
