package calico

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// healthAddress is where felix tells of its health.
const healthAddress = "localhost:9099"

// health is felix' server of its health.
type health struct{ ready atomic.Bool }

func (h *health) serve(p *kernel.Process) error {
	k, err := p.Listen("tcp", healthAddress)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/liveness", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
		if h.ready.Load() {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	p.Go(func() { network.Serve(k, nil, mux) })
	return nil
}

// ask is what the probe asks felix.
func ask(p *kernel.Process, what string) error {
	client := &http.Client{Transport: &http.Transport{DialContext: p.Dial, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+healthAddress+"/"+what, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return fmt.Errorf("%s probe reporting %d", what, resp.StatusCode)
	}
	return nil
}
