package apiclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"ckadrill/sim/kernel"
)

// RememberEvents lets a resumed process count an event on that it recorded before a thaw. Upstream's recorder knows its
// events only from memory (client-go/tools/record/events_cache.go) and would record another one of the same kind; here the
// API is asked once for each kind, and the recorder goes on with the event that it is given instead.
func RememberEvents(p *kernel.Process, rt http.RoundTripper) http.RoundTripper {
	if !p.Resumed() {
		return rt
	}
	return &rememberedEvents{p: p, rt: rt, known: map[string]bool{}}
}

type rememberedEvents struct {
	p  *kernel.Process
	rt http.RoundTripper

	mu    sync.Mutex
	known map[string]bool // kinds of events that the recorder knows
}

// maxEventBody bounds the answers that are read.
const maxEventBody = 16 << 20

func (m *rememberedEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Body == nil || !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") || !strings.HasSuffix(r.URL.Path, "/events") {
		return m.rt.RoundTrip(r)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	if old := m.find(r, b); old != nil {
		if resp, err := m.count(r, b, old); err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		} else if err == nil {
			resp.Body.Close()
		}
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(b))
	return m.rt.RoundTrip(again)
}

func decodeEvent(b []byte) *v1.Event {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
	if err != nil {
		return nil
	}
	e, _ := o.(*v1.Event)
	return e
}

// kindOf is what upstream's recorder takes for the same event (getEventKey).
func kindOf(e *v1.Event) string {
	o := e.InvolvedObject
	return strings.Join([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, o.FieldPath, string(o.UID), o.APIVersion, e.Type, e.Reason, e.Message}, "\x00")
}

// find is the event that the process had recorded of the same kind, nil if none or if the recorder knows it.
func (m *rememberedEvents) find(r *http.Request, body []byte) *v1.Event {
	e := decodeEvent(body)
	if e == nil || e.Count > 1 {
		return nil
	}
	kind := kindOf(e)
	m.mu.Lock()
	known := m.known[kind]
	m.known[kind] = true
	m.mu.Unlock()
	if known {
		return nil
	}
	list := r.Clone(r.Context())
	list.Method, list.Body, list.ContentLength = http.MethodGet, nil, 0
	list.URL.RawQuery = url.Values{"fieldSelector": {"involvedObject.uid=" + string(e.InvolvedObject.UID) + ",reason=" + e.Reason}}.Encode()
	list.Header.Set("Accept", "application/json")
	resp, err := m.rt.RoundTrip(list)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var l v1.EventList
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxEventBody))
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(b, &l) != nil {
		return nil
	}
	var found *v1.Event
	for i := range l.Items {
		x := &l.Items[i]
		if kindOf(x) == kind && !x.FirstTimestamp.Time.Before(m.p.StartTime().Truncate(1e9)) && (found == nil || found.LastTimestamp.Before(&x.LastTimestamp)) {
			found = x
		}
	}
	return found
}

// count counts an event on, as upstream's recorder does.
func (m *rememberedEvents) count(r *http.Request, body []byte, old *v1.Event) (*http.Response, error) {
	e := decodeEvent(body)
	b, err := json.Marshal(map[string]any{"count": old.Count + 1, "lastTimestamp": e.LastTimestamp})
	if err != nil {
		return nil, err
	}
	patch := r.Clone(r.Context())
	patch.Method, patch.Body, patch.ContentLength = http.MethodPatch, io.NopCloser(bytes.NewReader(b)), int64(len(b))
	patch.URL.Path += "/" + old.Name
	patch.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	return m.rt.RoundTrip(patch)
}
