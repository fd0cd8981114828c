package apiclient

import (
	"net/http"
	"strings"

	"ckadrill/sim/kernel"
)

// Hold keeps a resumed process from changing anything by the API before the date that its world was frozen at: a controller
// that starts in the world's warm-up finds work that was just begun, and would have done it before its time. What only
// keeps a process where it is goes through: leases, tokens, and reviews.
func Hold(p *kernel.Process, rt http.RoundTripper) http.RoundTripper {
	if !p.Resumed() {
		return rt
	}
	return held{p, rt}
}

type held struct {
	p  *kernel.Process
	rt http.RoundTripper
}

var passing = []string{"/leases", "/token", "/tokenreviews", "/subjectaccessreviews", "/selfsubjectaccessreviews", "/selfsubjectrulesreviews"}

func (h held) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !h.p.World().Warming() {
		return h.rt.RoundTrip(r)
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	for _, s := range passing {
		if strings.HasSuffix(path, s) || s == "/leases" && strings.Contains(path, "/leases/") {
			return h.rt.RoundTrip(r)
		}
	}
	if err := h.p.AwaitDate(); err != nil {
		return nil, err
	}
	return h.rt.RoundTrip(r)
}
