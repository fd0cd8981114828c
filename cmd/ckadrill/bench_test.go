package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckadrill/grader"
	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
)

// All figures are of the whole program: the front is this process, its workers are processes of their own. With
// CKADRILL_PROFILE=/some/prefix a worker of the benchmark writes what it does to prefix.cpu.PID and what it
// holds to prefix.heap.PID.

// benchWorld opens a world as a user's command does.
func benchWorld(b *testing.B, dir string) *front.Play {
	b.Helper()
	f := worldFlags{seed: 1, preset: "reference"}
	p := &front.Play{Boot: f.boot()}
	if prefix := os.Getenv("CKADRILL_PROFILE"); prefix != "" {
		p.Boot.Options[optionCPUProfile], p.Boot.Options[optionHeapProfile] = prefix+".cpu", prefix+".heap"
	}
	if dir != "" {
		s, err := session.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		p.Session = s
	}
	if err := p.Open(); err != nil {
		b.Fatal(err)
	}
	return p
}

// closeWorld ends a world after it has written its profiles.
func closeWorld(b *testing.B, p *front.Play) {
	b.Helper()
	if _, err := p.Worker().Query(queryProfile, nil); err != nil {
		b.Fatal(err)
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}

// play runs a script that must succeed.
func play(b *testing.B, p *front.Play, script string) string {
	b.Helper()
	out, exit := run(b, p, script)
	if exit != 0 {
		b.Fatalf("%s: exit status %d\n%s", script, exit, out)
	}
	return out
}

// systemPods fails the benchmark unless all Pods of kube-system run and are ready.
func systemPods(b *testing.B, p *front.Play) {
	b.Helper()
	out := play(b, p, "kubectl get pods -n kube-system --no-headers")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if !strings.Contains(l, "1/1") || !strings.Contains(l, "Running") {
			b.Fatalf("not all of kube-system runs:\n%s", out)
		}
	}
	if len(lines) < 9 {
		b.Fatalf("kube-system has too few Pods:\n%s", out)
	}
}

func perOp(b *testing.B, total float64, unit string) { b.ReportMetric(total/float64(b.N), unit) }

const mib = 1 << 20

// BenchmarkBoot is from nothing to the answer that a ready cluster gives to its first command.
func BenchmarkBoot(b *testing.B) {
	var wall, cpuTime, memory, heap float64
	for range b.N {
		start := time.Now()
		p := benchWorld(b, "")
		systemPods(b, p)
		wall += time.Since(start).Seconds()
		u := used(b, p.Worker(), false)
		cpuTime += u.CPU.Seconds()
		memory += float64(u.Anonymous) / mib
		heap += float64(used(b, p.Worker(), true).Heap) / mib
		closeWorld(b, p)
	}
	perOp(b, wall, "wall-s")
	perOp(b, cpuTime, "cpu-s")
	perOp(b, memory, "RssAnon-MiB")
	perOp(b, heap, "heap-MiB")
}

// BenchmarkThaw is a session that goes on, from the front's start to the answer of its first command.
func BenchmarkThaw(b *testing.B) {
	dir := b.TempDir()
	p := benchWorld(b, dir)
	play(b, p, "kubectl create deploy web --image=nginx --replicas=3; kubectl rollout status deploy/web")
	p.Close()
	var wall, open, cpuTime float64
	for range b.N {
		start := time.Now()
		p := benchWorld(b, dir)
		open += time.Since(start).Seconds()
		play(b, p, "kubectl get deploy web")
		wall += time.Since(start).Seconds()
		cpuTime += used(b, p.Worker(), false).CPU.Seconds()
		closeWorld(b, p)
	}
	perOp(b, open, "open-s")
	perOp(b, wall, "wall-s")
	perOp(b, cpuTime, "cpu-s")
}

// BenchmarkKubectl is what one "kubectl get pods" of a script costs.
func BenchmarkKubectl(b *testing.B) {
	const calls = 100
	p := benchWorld(b, "")
	play(b, p, "kubectl create deploy web --image=nginx --replicas=3; kubectl rollout status deploy/web; kubectl get pods")
	var wall, cpuTime float64
	for range b.N {
		before, start := used(b, p.Worker(), false), time.Now()
		play(b, p, fmt.Sprintf("for i in $(seq %d); do kubectl get pods > /dev/null || exit 1; done", calls))
		wall += float64(time.Since(start).Milliseconds()) / calls
		cpuTime += float64((used(b, p.Worker(), false).CPU - before.CPU).Milliseconds()) / calls
	}
	closeWorld(b, p)
	perOp(b, wall, "wall-ms/call")
	perOp(b, cpuTime, "cpu-ms/call")
}

// BenchmarkIdleHour is an hour in which nobody does anything: leases, probes, the control loops.
func BenchmarkIdleHour(b *testing.B) {
	p := benchWorld(b, "")
	systemPods(b, p)
	var wall, cpuTime float64
	for range b.N {
		before, start := used(b, p.Worker(), false), time.Now()
		play(b, p, "sleep 3600")
		wall += time.Since(start).Seconds()
		cpuTime += (used(b, p.Worker(), false).CPU - before.CPU).Seconds()
	}
	systemPods(b, p)
	u := used(b, p.Worker(), false)
	closeWorld(b, p)
	perOp(b, wall, "wall-s")
	perOp(b, cpuTime, "cpu-s")
	b.ReportMetric(float64(u.Anonymous)/mib, "RssAnon-MiB")
}

// BenchmarkReplicas is a Deployment of 100 replicas until all are ready, beyond the boot.
func BenchmarkReplicas(b *testing.B) {
	var wall, cpuTime float64
	for range b.N {
		p := benchWorld(b, "")
		systemPods(b, p)
		before, start := used(b, p.Worker(), false), time.Now()
		play(b, p, "kubectl create deploy web --image=nginx --replicas=100; kubectl rollout status deploy/web")
		wall += time.Since(start).Seconds()
		cpuTime += (used(b, p.Worker(), false).CPU - before.CPU).Seconds()
		closeWorld(b, p)
	}
	perOp(b, wall, "wall-s")
	perOp(b, cpuTime, "cpu-s")
}

// editManifest gives kube-apiserver a label and waits until the API shows its successor ready.
const editManifest = `manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
sudo sed -i '/edit: /d; s/^    tier: control-plane$/&\n    edit: "%[1]d"/' $manifest
for n in $(seq 120); do
  sleep 2
  kubectl get pods -n kube-system -l edit=%[1]d --no-headers 2>/dev/null | grep -q 1/1 && exit 0
done
kubectl get pods -A; cat $manifest; exit 1`

// BenchmarkAPIServerRestarts edits the manifest of kube-apiserver 50 times in one session.
func BenchmarkAPIServerRestarts(b *testing.B) {
	const edits = 50
	var ratio, heapRatio, wall, goroutines float64
	for range b.N {
		p := benchWorld(b, "")
		systemPods(b, p)
		first, start := used(b, p.Worker(), true), time.Now()
		for i := range edits {
			play(b, p, fmt.Sprintf(editManifest, i))
			if testing.Verbose() && i%10 == 9 {
				u := used(b, p.Worker(), true)
				b.Logf("after %d edits: RssAnon %d MiB, heap %d MiB, %d goroutines", i+1, u.Anonymous/mib, u.Heap/mib, u.Goroutines)
			}
		}
		wall += time.Since(start).Seconds()
		last := used(b, p.Worker(), true)
		ratio += float64(last.Anonymous) / float64(first.Anonymous)
		heapRatio += float64(last.Heap) / float64(first.Heap)
		goroutines += float64(last.Goroutines) / float64(first.Goroutines)
		closeWorld(b, p)
	}
	perOp(b, wall/edits, "wall-s/restart")
	perOp(b, ratio, "RssAnon-ratio")
	perOp(b, heapRatio, "heap-ratio")
	perOp(b, goroutines, "goroutines-ratio")
}

// BenchmarkVerify is the proof of one drill with one trap.
func BenchmarkVerify(b *testing.B) {
	all, err := scenarios.Embedded()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range all {
		if len(s.Traps) != 1 {
			continue
		}
		b.Run(s.Metadata.Name, func(b *testing.B) {
			f := worldFlags{seed: 1, preset: "reference"}
			before, worlds := cpu(syscall.RUSAGE_CHILDREN), 0
			for range b.N {
				v := grader.NewLab(f.boot(), 0).Verify(s)
				if !v.OK() {
					b.Fatal(strings.Join(v.Problems, "\n"))
				}
				worlds += v.Worlds
			}
			perOp(b, (cpu(syscall.RUSAGE_CHILDREN) - before).Seconds(), "cpu-s")
			perOp(b, float64(worlds), "worlds")
		})
		return
	}
	b.Fatal("no drill has exactly one trap")
}
