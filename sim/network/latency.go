package network

import (
	"hash/fnv"
	"io"
	"net/http"
	"time"

	"ckadrill/sim/kernel"
)

// A request needs from minLatency to minLatency+latencySpread to reach its server's handler, as on a machine or a switch
// between two. What a client asks of a path takes always as long, and other clients and paths take differently long: so what
// many clients do upon one event happens one after the other, and in the same order in every run.
const (
	minLatency    = 200 * time.Microsecond
	latencySpread = 800 * time.Microsecond
)

// latency is how long a process's request is on its way.
func latency(p *kernel.Process, r *http.Request) time.Duration {
	h := fnv.New64a()
	for _, s := range [...]string{p.Host().Name(), p.Name(), r.Method, r.URL.Path} {
		io.WriteString(h, s)
		h.Write([]byte{0})
	}
	return minLatency + time.Duration(h.Sum64()%uint64(latencySpread))
}
