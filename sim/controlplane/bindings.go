package controlplane

import (
	"net/http"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// bindingWork is what a scheduler needs from the event that makes a Pod fit to the binding: a cycle over its plugins and two
// requests, which take next to no simulated time here. Without it a Pod would be on a node in the very instant in which the
// node lost a NoExecute taint, while the controllers' caches still have it, and be evicted at once.
const bindingWork = 4 * time.Millisecond

// slowBindings delays the bindings of a scheduler.
type slowBindings struct{ http.RoundTripper }

func (b slowBindings) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") {
		if err := kernel.SleepContext(r.Context(), bindingWork); err != nil {
			return nil, err
		}
	}
	return b.RoundTripper.RoundTrip(r)
}
