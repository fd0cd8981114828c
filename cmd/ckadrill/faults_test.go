package main

import (
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ckadrill/faults"
	"ckadrill/grader"
	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/ready"
	"ckadrill/sim/wire"
)

// faultTable is the table as it stands in the source.
func faultTable(t testing.TB) []*faults.Fault {
	t.Helper()
	l, err := faults.Load(os.DirFS("../../faults/table"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// staged is the state of a healthy cluster with workloads, which every play begins with.
var staged = sync.OnceValues(func() (kernel.Parts, error) {
	f := worldFlags{seed: 1, preset: "reference"}
	parts, err := ready.State(f.preset)
	if err != nil {
		return nil, err
	}
	w, r, err := startWorld(f.boot())
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	r.Delta.Apply(parts)
	if _, err := move(w, faults.Move{Stage: true}); err != nil {
		return nil, err
	}
	d, err := w.Skip(0)
	if err != nil {
		return nil, err
	}
	d.Delta.Apply(parts)
	return parts, nil
})

// stagedWorld thaws a copy of the healthy cluster with workloads.
func stagedWorld(t testing.TB) *front.Worker {
	t.Helper()
	parts, err := staged()
	if err != nil {
		t.Fatal(err)
	}
	b := (&worldFlags{seed: 1, preset: "reference"}).boot()
	b.Parts, b.Pace = parts, wire.Pace{}
	w, _, err := startWorld(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	// What was resumed says nothing, for a while, of what it does again.
	if _, err := w.Skip(21 * time.Second); err != nil {
		t.Fatal(err)
	}
	return w
}

// playMoves makes moves one after the other in a world, and reports what is not as it should be.
func playMoves(t *testing.T, w *front.Worker, moves ...faults.Move) {
	t.Helper()
	before := used(t, w, false).CPU
	for _, m := range moves {
		r, err := move(w, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Problems {
			t.Error(p)
		}
		if testing.Verbose() {
			t.Logf("healthy after %v\n%s", r.Recovery, strings.Join(r.Seen, "\n"))
		}
	}
	if testing.Verbose() {
		t.Logf("%v of processor time", used(t, w, false).CPU-before)
	}
}

// someFaults are those that every run of the tests plays, all in one world.
var someFaults = []string{"apiserver-unknown-flag", "etcd-data-dir", "scheduler-kubeconfig-missing", "controller-manager-unknown-flag", "admin-server-port",
	"kubelet-stopped", "kubelet-swap", "containerd-cri-disabled", "cni-plugin-missing", "service-selector", "coredns-selector", "node-tainted",
	"workload-config-map", "workload-image", "rbac-verb"}

func someFault(name string) bool { return slices.Contains(someFaults, name) }

// Every fault shows what the table says, at the time that it says, and is undone by its fix.
func TestFaults(t *testing.T) {
	table := faultTable(t)
	if os.Getenv(soak) != "" {
		for _, f := range table {
			t.Run(f.Name, func(t *testing.T) {
				t.Parallel()
				playMoves(t, stagedWorld(t), faults.Move{Whole: f}, faults.Move{Healthy: true})
			})
		}
		return
	}
	t.Parallel()
	w := stagedWorld(t)
	for _, name := range someFaults {
		i := slices.IndexFunc(table, func(f *faults.Fault) bool { return f.Name == name })
		if i < 0 {
			t.Fatalf("there is no fault %s", name)
		}
		t.Run(name, func(t *testing.T) { playMoves(t, w, faults.Move{Whole: table[i]}) })
	}
	playMoves(t, w, faults.Move{Healthy: true})
}

// No symptom shows on a healthy cluster.
func TestNoSymptomWithoutItsFault(t *testing.T) {
	t.Parallel()
	playMoves(t, stagedWorld(t), faults.Move{Absent: faultTable(t)}, faults.Move{Healthy: true})
}

// Whatever has been broken, in whatever order it is undone, the cluster becomes healthy again.
func TestAnyFaultsAreUndone(t *testing.T) {
	seeds := 6
	if os.Getenv(soak) != "" {
		seeds = 1000
	}
	table := faultTable(t)
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			undoInAnyOrder(t, table, rand.New(rand.NewPCG(uint64(seed), 0)))
		})
	}
}

func undoInAnyOrder(t *testing.T, table []*faults.Fault, r *rand.Rand) {
	w := stagedWorld(t)
	made := faults.Pick(r, table, 1+r.IntN(4))
	var names []string
	for _, f := range made {
		names = append(names, f.Name)
		pass(t, w, r, 30)
		playMoves(t, w, faults.Move{Inject: f})
	}
	pass(t, w, r, 180)
	r.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
	var undone []string
	// What needs another fault undone before is tried again after that.
	for round := 0; len(made) > 0; round++ {
		var left []*faults.Fault
		for _, f := range made {
			pass(t, w, r, 30)
			report, err := move(w, faults.Move{Fix: f})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Problems) == 0 {
				undone = append(undone, f.Name)
				continue
			}
			left = append(left, f)
			if round > 20 {
				t.Fatalf("%v: %v undone; %v", names, undone, report.Problems)
			}
		}
		made = left
	}
	playMoves(t, w, faults.Move{Healthy: true})
	if t.Failed() || testing.Verbose() {
		t.Logf("broken: %v, undone: %v", names, undone)
	}
}

// A seed draws the same drill each time, and another seed another. Over many seeds they keep the promises of every other drill.
func TestRandomDrills(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) *scenarios.Scenario {
		t.Helper()
		s, err := randomDrill(worldFlags{seed: seed, preset: "reference"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := draw(7)
	if !reflect.DeepEqual(first, draw(7)) {
		t.Error("seed 7 draws two drills")
	}
	if reflect.DeepEqual(first.Setup, draw(8).Setup) {
		t.Error("seeds 7 and 8 draw the same drill")
	}
	if os.Getenv(soak) == "" {
		return
	}
	for seed := range uint64(200) {
		f := worldFlags{seed: seed, preset: "reference"}
		for _, p := range grader.NewLab(f.boot(), 2).Verify(draw(seed)).Problems {
			t.Errorf("seed %d: %s", seed, p)
		}
	}
}

// pass lets some seconds pass.
func pass(t *testing.T, w *front.Worker, r *rand.Rand, most int) {
	t.Helper()
	if _, err := w.Skip(time.Duration(1+r.IntN(most)) * time.Second); err != nil {
		t.Fatal(err)
	}
}
