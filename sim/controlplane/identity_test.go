package controlplane

import (
	"testing"
	"testing/synctest"

	"ckadrill/sim/kernel"
)

// A leader of an embedded cluster must find itself in its lease whatever seed the world goes on with.
func TestInstanceIDIsNotTheSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		h := w.NewHost("cka-cp1")
		p := h.Processes.Start(kernel.Spec{Argv: []string{"kube-scheduler"}, Container: "c1"}, func(p *kernel.Process) int { <-p.Done(); return 0 })
		defer func() { p.Signal(kernel.SIGKILL); p.Wait() }()
		before := instanceID(p)
		w.Reseed(7)
		if after := instanceID(p); after != before {
			t.Errorf("%s became %s", before, after)
		}
	})
}
