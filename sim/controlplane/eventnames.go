package controlplane

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// distinctEvents posts an event again under the name of the next nanosecond when its name is taken. An event is named after
// its object and the nanosecond; on a real machine no two are recorded in the same one, here time stands still while a
// controller computes.
type distinctEvents struct{ http.RoundTripper }

// eventName is what client-go calls an event: the object's name, a dot and the nanoseconds in hexadecimal.
var eventName = regexp.MustCompile(`[a-z0-9][a-z0-9.-]*\.([0-9a-f]{16})`)

// maxSameInstant bounds how many events of one object are recorded at one instant.
const maxSameInstant = 1000

func (d distinctEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Body == nil || !strings.HasSuffix(r.URL.Path, "/events") {
		return d.RoundTripper.RoundTrip(r)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	for i := 0; ; i++ {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(b))
		resp, err := d.RoundTripper.RoundTrip(again)
		if err != nil || resp.StatusCode != http.StatusConflict || i == maxSameInstant {
			return resp, err
		}
		next, ok := nextName(b)
		if !ok {
			return resp, nil
		}
		resp.Body.Close()
		b = next
	}
}

// nextName is a posted event, in whatever encoding, with the name of the next nanosecond, which is as long.
func nextName(event []byte) ([]byte, bool) {
	m := eventName.FindSubmatchIndex(event)
	if m == nil {
		return nil, false
	}
	n, err := strconv.ParseUint(string(event[m[2]:m[3]]), 16, 64)
	if err != nil {
		return nil, false
	}
	name := event[m[0]:m[1]]
	next := append(bytes.Clone(event[m[0]:m[2]]), fmt.Sprintf("%016x", n+1)...)
	return bytes.ReplaceAll(event, name, next), true
}
