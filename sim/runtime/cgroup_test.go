package runtime

import (
	"context"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

func TestProcessorTime(t *testing.T) {
	inNode(t, func(n *node) {
		n.w.Programs.Register("hog", func(p *kernel.Process) int {
			for p.Alive() {
				p.SpendCPU(100 * time.Millisecond)
				if p.Sleep(100*time.Millisecond) != nil {
					break
				}
			}
			return 0
		})
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			for _, c := range []struct {
				name      string
				quota     int64
				low, high uint64 // millicores
			}{{"free", 0, 990, 1010}, {"limited", 20000, 195, 215}} {
				_, id, err := run(ctx, r, c.name, func(k *runtimeapi.ContainerConfig) {
					k.Linux.Resources.CpuQuota, k.Linux.Resources.CpuPeriod = c.quota, 100000
				}, "sh", "-c", "wait")
				if err != nil {
					t.Fatal(err)
				}
				n.c.mu.Lock()
				proc := n.c.containers[id].proc
				n.c.mu.Unlock()
				main, _ := n.w.Programs.Find("hog")
				n.m.Host().Processes.Start(kernel.Spec{Argv: []string{"hog"}, Parent: proc}, main)
				r.ContainerStats(ctx, id)
				time.Sleep(time.Minute)
				s, err := r.ContainerStats(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				if m := s.Cpu.UsageNanoCores.Value / 1e6; m < c.low || m > c.high {
					t.Errorf("%s: %d millicores", c.name, m)
				}
			}
		})
	})
}
