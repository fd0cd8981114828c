package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ckadrill/sim/kernel"
)

// eventServer is an API that only knows events: it notes what it is asked, and answers 404 for those that have expired.
type eventServer struct {
	asked   []string
	expired []string
}

func (s *eventServer) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, []byte(nil)
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	line := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "events"):]
	var change struct {
		Count  int32
		Series struct{ Count int32 }
	}
	json.Unmarshal(body, &change)
	if n := change.Count + change.Series.Count; n > 0 && r.Method == http.MethodPatch {
		line += fmt.Sprintf(" count=%d", n)
	}
	if r.Method == http.MethodPost {
		code = http.StatusCreated
	} else if slices.ContainsFunc(s.expired, func(n string) bool { return strings.HasSuffix(r.URL.Path, "/"+n) }) {
		code = http.StatusNotFound
	}
	s.asked = append(s.asked, line)
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// A process that carries on after a thaw counts its old events on; a process that starts anew does not.
func TestRememberedEvents(t *testing.T) {
	core := func(name, pod, message string) event {
		return coreEvent{&v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: pod}, Reason: "Killing", Message: message, Count: 1}}
	}
	series := func(name, pod string) event {
		return newEvent{&eventsv1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Regarding: v1.ObjectReference{Kind: "Pod", Name: pod}, Reason: "FailedScheduling", ReportingController: "default-scheduler"}}
	}
	send := func(rt http.RoundTripper, method, path string, o any) {
		t.Helper()
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(method, "https://api:6443"+path, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if _, err := rt.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
	}
	post := func(rt http.RoundTripper, e event) {
		t.Helper()
		if _, ok := e.(coreEvent); ok {
			send(rt, http.MethodPost, "/api/v1/namespaces/default/events", e)
		} else {
			send(rt, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events", e)
		}
	}
	for _, c := range []struct {
		name    string
		resumed bool
		want    []string
	}{
		{"resumed", true, []string{"PATCH events/a.1 count=4", "PATCH events/a.1 count=5", "POST events", "PATCH events/b.1 count=2", "GET events/c.1", "PATCH events/gone.1 count=2", "POST events"}},
		{"started anew", false, []string{"POST events", "PATCH events/a.2 count=2", "POST events", "POST events", "POST events", "POST events"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := kernel.NewWorld(1).NewHost("cka-cp1")
				idle := func(p *kernel.Process) int { <-p.Context().Done(); return 0 }
				first := h.Processes.Start(kernel.Spec{Argv: []string{"recorder"}}, idle)
				var s eventServer
				memory := &EventMemory{}
				rt := RememberEvents(first, &s, memory)
				post(rt, core("a.1", "a", "stop"))
				send(rt, http.MethodPatch, "/api/v1/namespaces/default/events/a.1", map[string]int{"count": 3})
				post(rt, series("b.1", "b"))
				post(rt, series("c.1", "c"))
				send(rt, http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/default/events/c.1", map[string]any{"series": map[string]int{"count": 2}})
				post(rt, core("gone.1", "gone", "stop"))
				if len(s.asked) != 6 || slices.ContainsFunc(s.asked, func(l string) bool { return strings.HasPrefix(l, "GET") }) {
					t.Errorf("the first process asked %q", s.asked)
				}

				var started time.Time
				if c.resumed {
					started = first.StartTime()
				}
				second := h.Processes.Start(kernel.Spec{Argv: []string{"recorder"}, Started: started}, idle)
				thawed := &EventMemory{}
				if err := thawed.Thaw(memory.Freeze()); err != nil {
					t.Fatal(err)
				}
				s = eventServer{expired: []string{"gone.1"}}
				rt = RememberEvents(second, &s, thawed)
				post(rt, core("a.2", "a", "stop"))
				if c.resumed {
					send(rt, http.MethodPatch, "/api/v1/namespaces/default/events/a.1", map[string]int{"count": 5})
				} else {
					send(rt, http.MethodPatch, "/api/v1/namespaces/default/events/a.2", map[string]int{"count": 2})
				}
				post(rt, core("a.3", "a", "another message"))
				post(rt, series("b.2", "b"))
				post(rt, series("c.2", "c"))
				post(rt, core("gone.2", "gone", "stop"))
				if !slices.Equal(s.asked, c.want) {
					t.Errorf("asked %q\nwant %q", s.asked, c.want)
				}
				first.Signal(kernel.SIGKILL)
				second.Signal(kernel.SIGKILL)
			})
		})
	}
}
