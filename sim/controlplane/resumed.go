package controlplane

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// quietAfterThaw is how long a process that carries on after a thaw says nothing: in that time it does again what the real
// one had done long ago. The controllers alone take five seconds to start, at the pace of their client.
const quietAfterThaw = 20 * time.Second

type thawKey struct{}

// thawed is when a resumed process began to carry on.
func thawed(p *kernel.Process) time.Time {
	t, ok := p.Value(thawKey{}).(time.Time)
	if !ok {
		t = time.Now()
		p.SetValue(thawKey{}, t)
	}
	return t
}

// refusals are lines that a start does not cause: a client does.
const refusals = "Unable to authenticate the request"

// muteResumed drops the log lines of a resumed process's start, but for fatal ones and what its clients cause.
func muteResumed(p *kernel.Process) {
	if !p.Resumed() {
		return
	}
	until := thawed(p).Add(quietAfterThaw)
	p.SetLogFilter(func(line []byte) bool {
		return bytes.HasPrefix(line, []byte("F")) || bytes.Contains(line, []byte(refusals)) || time.Now().After(until)
	})
}

// announcements are what controllers and leaders say of themselves when they start, in events.
var announcements = [][]byte{[]byte("RegisteredNode"), []byte("became leader")}

// withoutAnnouncements keeps a resumed process's start out of the cluster's events: it is told that they were recorded.
func withoutAnnouncements(p *kernel.Process, rt http.RoundTripper) http.RoundTripper {
	if !p.Resumed() {
		return rt
	}
	return quietEvents{rt, thawed(p).Add(quietAfterThaw)}
}

type quietEvents struct {
	http.RoundTripper
	until time.Time
}

func (q quietEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Body == nil || !strings.HasSuffix(r.URL.Path, "/events") || time.Now().After(q.until) {
		return q.RoundTripper.RoundTrip(r)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	for _, a := range announcements {
		if bytes.Contains(b, a) {
			return &http.Response{StatusCode: http.StatusCreated, Status: "201 Created", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
				Header: http.Header{"Content-Type": r.Header["Content-Type"]}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b))}, nil
		}
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(b))
	return q.RoundTripper.RoundTrip(again)
}
