package kernel

import (
	"math/rand"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestDraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := globalRandGenerator.Load()
		defer globalRandGenerator.Store(old)
		perm := func() []int { return rand.Perm(20) }
		drawFrom(1)
		a, jitter := perm(), wait.Jitter(time.Second, 1)
		drawFrom(2)
		if b := perm(); slices.Equal(a, b) {
			t.Error("another seed draws the same")
		}
		drawFrom(1)
		if b := perm(); !slices.Equal(a, b) {
			t.Error("the same seed draws something else")
		}
		if b := perm(); slices.Equal(a, b) {
			t.Error("two draws of one instant are the same")
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if wait.Jitter(time.Second, 1) != jitter {
					t.Error("a jitter depends on who came first")
				}
			})
		}
		wg.Wait()
		time.Sleep(grain)
		if wait.Jitter(time.Second, 1) == jitter {
			t.Error("the jitter is the same a moment later")
		}
		w := NewWorld(1)
		var other time.Duration
		p := w.NewHost("cka-w1").Processes.Start(Spec{Argv: []string{"kubelet"}}, func(*Process) int { other = wait.Jitter(time.Second, 1); return 0 })
		p.Wait()
		if other == wait.Jitter(time.Second, 1) {
			t.Error("two processes draw the same jitter")
		}
		sum := 0.0
		for range 10000 {
			time.Sleep(time.Millisecond)
			sum += rand.Float64()
		}
		if sum < 4800 || sum > 5200 {
			t.Errorf("the mean of 10000 draws is %f", sum/10000)
		}
	})
}
