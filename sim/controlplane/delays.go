package controlplane

import (
	"time"

	"ckadrill/sim/kernel"
)

// The simulated time that starts take, beside what upstream waits for anyhow (locks, retries, cache syncs). On the
// reference machine (2 cores, everything at once) kube-apiserver is ready after 3.1 to 4.0 s, both leases are held after
// 5.9 to 6.3 s and the default ServiceAccount exists after 9.8 to 11.5 s.
const (
	// execDelay is from exec to the first line.
	execDelay = 120 * time.Millisecond
	// apiServerBuildDelay is from the assembled servers to listening: upstream spends it on OpenAPI and on installing APIs.
	apiServerBuildDelay = 1500 * time.Millisecond
)

// startDelay lets a start-up step take its time, unless the process only carries on.
func startDelay(p *kernel.Process, d time.Duration) {
	if !p.Resumed() {
		p.Sleep(d) //nolint:errcheck // an ended process finds out at its next step
	}
}
