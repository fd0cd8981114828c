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
// recorder is given the old event instead, and goes on with it. memory is what the process has recorded; where it is nil
// the API is asked, once for each kind, which not everybody may do.
func RememberEvents(p *kernel.Process, rt http.RoundTripper, memory *EventMemory) http.RoundTripper {
	if !p.Resumed() && memory == nil {
		return rt
	}
	return &rememberedEvents{p: p, rt: rt, memory: memory, known: map[string]bool{}}
}

type rememberedEvents struct {
	p      *kernel.Process
	rt     http.RoundTripper
	memory *EventMemory

	mu    sync.Mutex
	known map[string]bool // kinds of events that the recorder knows
}

// EventMemory is what a process has recorded, the latest event of each kind.
type EventMemory struct {
	mu     sync.Mutex
	byKind map[string]*recordedEvent
	order  []string // of the kinds, oldest first
}

type recordedEvent struct {
	Kind, Name string
	Count      int32
}

// maxEventKinds is upstream's maxLruCacheEntries.
const maxEventKinds = 4096

// Freeze is the memory as data.
func (m *EventMemory) Freeze() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := make([]recordedEvent, 0, len(m.order))
	for _, k := range m.order {
		l = append(l, *m.byKind[k])
	}
	b, err := kernel.Encode(l)
	if err != nil {
		panic(err) // only a type that gob cannot encode
	}
	return b
}

// Thaw gives a new memory what [EventMemory.Freeze] returned.
func (m *EventMemory) Thaw(b []byte) error {
	var l []recordedEvent
	if err := kernel.Decode(b, &l); err != nil {
		return err
	}
	for _, e := range l {
		m.keep(e)
	}
	return nil
}

func (m *EventMemory) keep(e recordedEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKind == nil {
		m.byKind = map[string]*recordedEvent{}
	}
	if m.byKind[e.Kind] == nil {
		m.order = append(m.order, e.Kind)
		if len(m.order) > maxEventKinds {
			delete(m.byKind, m.order[0])
			m.order = m.order[1:]
		}
	}
	m.byKind[e.Kind] = &e
}

// counted notes the new count of an event.
func (m *EventMemory) counted(name string, count int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.byKind {
		if e.Name == name {
			e.Count = count
		}
	}
}

func (m *EventMemory) find(kind string) *recordedEvent {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKind[kind]; e != nil {
		c := *e
		return &c
	}
	return nil
}

// maxEventBody bounds the answers that are read.
const maxEventBody = 16 << 20

func (m *rememberedEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	const prefix = "/api/v1/namespaces/"
	if r.Body == nil || !strings.HasPrefix(r.URL.Path, prefix) {
		return m.rt.RoundTrip(r)
	}
	dir, name, named := strings.Cut(r.URL.Path[len(prefix):], "/events/")
	switch {
	case r.Method == http.MethodPatch && named && !strings.Contains(dir, "/") && m.memory != nil:
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
	default:
		return m.rt.RoundTrip(r)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(b))
	if named {
		resp, err := m.rt.RoundTrip(again)
		var patch struct{ Count int32 }
		if err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(b, &patch) == nil && patch.Count > 0 {
			m.memory.counted(name, patch.Count)
		}
		return resp, err
	}
	e := decodeEvent(b)
	if old := m.find(r, e); old != nil {
		resp, err := m.count(r, e, old)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	resp, err := m.rt.RoundTrip(again)
	if err == nil && resp.StatusCode == http.StatusCreated && e != nil && m.memory != nil {
		m.memory.keep(recordedEvent{kindOf(e), e.Name, max(e.Count, 1)})
	}
	return resp, err
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
func (m *rememberedEvents) find(r *http.Request, e *v1.Event) *recordedEvent {
	if e == nil || e.Count > 1 || !m.p.Resumed() {
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
	if m.memory != nil {
		return m.memory.find(kind)
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
	if found == nil {
		return nil
	}
	return &recordedEvent{kind, found.Name, found.Count}
}

// count counts an event on, as upstream's recorder does.
func (m *rememberedEvents) count(r *http.Request, e *v1.Event, old *recordedEvent) (*http.Response, error) {
	b, err := json.Marshal(map[string]any{"count": old.Count + 1, "lastTimestamp": e.LastTimestamp})
	if err != nil {
		return nil, err
	}
	patch := r.Clone(r.Context())
	patch.Method, patch.Body, patch.ContentLength = http.MethodPatch, io.NopCloser(bytes.NewReader(b)), int64(len(b))
	patch.URL.Path += "/" + old.Name
	patch.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	resp, err := m.rt.RoundTrip(patch)
	if err == nil && resp.StatusCode == http.StatusOK && m.memory != nil {
		m.memory.counted(old.Name, old.Count+1)
	}
	return resp, err
}
