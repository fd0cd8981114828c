package main

import (
	"testing"
	"time"

	"ckadrill/faults"
)

// BenchmarkFault is ten simulated minutes of a cluster with one fault, over some faults: their mean, and the worst.
func BenchmarkFault(b *testing.B) {
	table := faultTable(b)
	var wall, cpuTime, worst float64
	played := 0
	for range b.N {
		for _, f := range table {
			if !someFault(f.Name) {
				continue
			}
			w := stagedWorld(b)
			if _, err := move(w, faults.Move{Inject: f}); err != nil {
				b.Fatal(err)
			}
			before, start := used(b, w, false), time.Now()
			if _, err := w.Skip(10 * time.Minute); err != nil {
				b.Fatal(err)
			}
			took := time.Since(start).Seconds()
			wall, worst, played = wall+took, max(worst, took), played+1
			cpuTime += (used(b, w, false).CPU - before.CPU).Seconds()
			if testing.Verbose() {
				b.Logf("%-40s %.2f s", f.Name, took)
			}
			w.Kill()
		}
	}
	b.ReportMetric(wall/float64(played), "wall-s/fault")
	b.ReportMetric(worst, "worst-wall-s")
	b.ReportMetric(cpuTime/float64(played), "cpu-s/fault")
}

// BenchmarkCrashLoop is what a session needs after two simulated hours in which a container ends again and again, against
// its start.
func BenchmarkCrashLoop(b *testing.B) {
	var ratio, heap float64
	for range b.N {
		p := benchWorld(b, b.TempDir())
		systemPods(b, p)
		play(b, p, "kubectl run crash --image=busybox -- sh -c 'echo ends; exit 1'; sleep 30")
		first := used(b, p.Worker(), true)
		for range 24 {
			play(b, p, "sleep 300; kubectl get pod crash")
		}
		last := used(b, p.Worker(), true)
		ratio += float64(last.Anonymous) / float64(first.Anonymous)
		heap += float64(last.Heap) / float64(first.Heap)
		closeWorld(b, p)
	}
	perOp(b, ratio, "RssAnon-ratio")
	perOp(b, heap, "heap-ratio")
}
