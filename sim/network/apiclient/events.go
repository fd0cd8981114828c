package apiclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"ckadrill/sim/kernel"
)

// RememberEvents lets a resumed process count an event on that it recorded before a thaw. Upstream's recorders know their
// events only from memory (client-go/tools/record/events_cache.go, client-go/tools/events) and would record another one of
// the same kind; here the recorder is given the old event instead, and goes on with it. memory is what the process has
// recorded.
func RememberEvents(p *kernel.Process, rt http.RoundTripper, memory *EventMemory) http.RoundTripper {
	if memory == nil {
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
	About      string // what is told of which object, see [EventMemory.Told]
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

// Told says whether an event with this reason and message has been recorded of an object.
func (m *EventMemory) Told(object types.UID, reason, message string) bool {
	if m == nil {
		return false
	}
	about := digest(object, reason, message)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.byKind {
		if e.About == about {
			return true
		}
	}
	return false
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

func (m *rememberedEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	name, ok := eventOf(r.URL.Path)
	switch {
	case !ok || r.Body == nil:
	case r.Method == http.MethodPatch && name != "":
		return m.patch(r, name)
	case r.Method == http.MethodPost && name == "":
		return m.post(r)
	}
	return m.rt.RoundTrip(r)
}

// eventOf says whether a path is that of a namespace's events, or of the one with this name.
func eventOf(path string) (name string, ok bool) {
	for _, prefix := range []string{"/api/v1/namespaces/", "/apis/events.k8s.io/v1/namespaces/"} {
		if rest, found := strings.CutPrefix(path, prefix); found {
			_, rest, _ = strings.Cut(rest, "/")
			rest, ok = strings.CutPrefix(rest, "events")
			name, named := strings.CutPrefix(rest, "/")
			return name, ok && (rest == "" || named && name != "" && !strings.Contains(name, "/"))
		}
	}
	return "", false
}

// patch counts an event on that the recorder knows.
func (m *rememberedEvents) patch(r *http.Request, name string) (*http.Response, error) {
	b, again, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	resp, err := m.rt.RoundTrip(again)
	var patch struct {
		Count  int32
		Series struct{ Count int32 }
	}
	if err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(b, &patch) == nil {
		if n := max(patch.Count, patch.Series.Count); n > 0 {
			m.memory.counted(name, n)
		}
	}
	return resp, err
}

// post records an event that is new to the recorder.
func (m *rememberedEvents) post(r *http.Request) (*http.Response, error) {
	b, again, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	e := decodeEvent(b)
	if e == nil {
		return m.rt.RoundTrip(again)
	}
	if old := m.find(e); old != nil {
		resp, err := e.goOn(m, r, old)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		if err == nil {
			resp.Body.Close() // it has expired
		}
	}
	resp, err := m.rt.RoundTrip(again)
	if err == nil && resp.StatusCode == http.StatusCreated {
		m.memory.keep(recordedEvent{e.kind(), e.name(), 1, e.about()})
	}
	return resp, err
}

// find is the event that the process had recorded of the same kind, nil if none or if the recorder knows it.
func (m *rememberedEvents) find(e event) *recordedEvent {
	if !m.p.Resumed() {
		return nil
	}
	kind := e.kind()
	m.mu.Lock()
	known := m.known[kind]
	m.known[kind] = true
	m.mu.Unlock()
	if known {
		return nil
	}
	return m.memory.find(kind)
}

// bodyOf is what a request says, and the request once more.
func bodyOf(r *http.Request) ([]byte, *http.Request, error) {
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, nil, err
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(b))
	return b, again, nil
}

// event is an event that is about to be recorded.
type event interface {
	// kind is the same for what upstream's recorder takes for the same event.
	kind() string
	name() string
	about() string
	// goOn counts an old event on, as upstream's recorder does, and returns it.
	goOn(m *rememberedEvents, r *http.Request, old *recordedEvent) (*http.Response, error)
}

func decodeEvent(b []byte) event {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
	if err != nil {
		return nil
	}
	switch e := o.(type) {
	case *v1.Event:
		return coreEvent{e}
	case *eventsv1.Event:
		return newEvent{e}
	}
	return nil
}

// digest makes what tells kinds of events apart short.
func digest(of ...any) string {
	b, err := json.Marshal(of)
	if err != nil {
		panic(err) // strings and object references
	}
	sum := sha256.Sum256(b)
	return string(sum[:16])
}

// coreEvent is an event as client-go/tools/record makes it.
type coreEvent struct{ *v1.Event }

// kind follows getEventKey.
func (e coreEvent) kind() string {
	o := e.InvolvedObject
	return digest(e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, o.FieldPath, o.UID, o.APIVersion, e.Type, e.Reason, e.Message, e.ReportingController, e.ReportingInstance)
}

func (e coreEvent) name() string { return e.Name }

func (e coreEvent) about() string { return digest(e.InvolvedObject.UID, e.Reason, e.Message) }

// goOn makes each repetition one more.
func (e coreEvent) goOn(m *rememberedEvents, r *http.Request, old *recordedEvent) (*http.Response, error) {
	return m.count(r, old, map[string]any{"count": old.Count + 1, "lastTimestamp": e.LastTimestamp})
}

// newEvent is an event as client-go/tools/events makes it.
type newEvent struct{ *eventsv1.Event }

// kind follows getKey.
func (e newEvent) kind() string {
	return digest("series", e.Type, e.Action, e.Reason, e.ReportingController, e.ReportingInstance, e.Regarding, e.Related)
}

func (e newEvent) name() string { return e.Name }

func (e newEvent) about() string { return digest(e.Regarding.UID, e.Reason, e.Note) }

// goOn begins a series with the first repetition. Later ones are counted in the recorder's memory, and written now and then.
func (e newEvent) goOn(m *rememberedEvents, r *http.Request, old *recordedEvent) (*http.Response, error) {
	if old.Count > 1 {
		get := r.Clone(r.Context())
		get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
		get.URL.Path += "/" + old.Name
		return m.rt.RoundTrip(get)
	}
	return m.count(r, old, map[string]any{"series": map[string]any{"count": 2, "lastObservedTime": e.EventTime}})
}

// count changes an old event.
func (m *rememberedEvents) count(r *http.Request, old *recordedEvent, change map[string]any) (*http.Response, error) {
	b, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	patch := r.Clone(r.Context())
	patch.Method, patch.Body, patch.ContentLength = http.MethodPatch, io.NopCloser(bytes.NewReader(b)), int64(len(b))
	patch.URL.Path += "/" + old.Name
	patch.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	resp, err := m.rt.RoundTrip(patch)
	if err == nil && resp.StatusCode == http.StatusOK {
		m.memory.counted(old.Name, old.Count+1)
	}
	return resp, err
}
