package kubelet

import (
	"testing"
	"testing/synctest"

	"ckadrill/sim/kernel"
)

// All clients of a kubelet record into one memory, which is what a freeze keeps; the next kubelet begins with none.
func TestOneMemoryOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := kernel.NewWorld(1).NewHost("cka-w1")
		s := Install(h)
		for range 2 {
			before := s.events
			h.Processes.Start(kernel.Spec{Argv: []string{"kubelet"}}, func(p *kernel.Process) int {
				if a, b := recorded(p), recorded(p); a == before || a != b || a != s.events {
					t.Errorf("memories %p and %p, kept is %p, the last kubelet's was %p", a, b, s.events, before)
				}
				return 0
			}).Wait()
		}
	})
}
