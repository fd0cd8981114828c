package controlplane

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type takenNames map[string]bool

func (t takenNames) RoundTrip(r *http.Request) (*http.Response, error) {
	b, _ := io.ReadAll(r.Body)
	status := http.StatusCreated
	if t[string(b)] {
		status = http.StatusConflict
	}
	t[string(b)] = true
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
}

func TestEventsOfOneInstantAreAllRecorded(t *testing.T) {
	taken := takenNames{}
	for range 3 {
		r, _ := http.NewRequest(http.MethodPost, "https://x/api/v1/namespaces/default/events", strings.NewReader("k8s\x00\n\x16web.18a3f00000000fff\x12"))
		resp, err := distinctEvents{taken}.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatal(resp, err)
		}
	}
	if len(taken) != 3 || !taken["k8s\x00\n\x16web.18a3f00000001001\x12"] {
		t.Errorf("%v", taken)
	}
	r, _ := http.NewRequest(http.MethodPost, "https://x/api/v1/namespaces/default/pods", strings.NewReader("k8s\x00\n\x16web.18a3f00000000fff\x12"))
	if resp, _ := (distinctEvents{taken}).RoundTrip(r); resp.StatusCode != http.StatusConflict {
		t.Error("a conflict that is none of an event was hidden")
	}
}
