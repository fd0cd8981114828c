package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ckadrill/faults"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/ready"
	"ckadrill/sim/wire"
)

// faultTable is the table as it stands in the source.
func faultTable(t *testing.T) []*faults.Fault {
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
	w, err := front.Start(f.boot())
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	r, err := w.Ready()
	if err != nil {
		return nil, err
	}
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

// move makes a move in a world.
func move(w *front.Worker, m faults.Move) (*faults.Report, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if b, err = w.Query(faults.Query, b); err != nil {
		return nil, err
	}
	r := &faults.Report{}
	return r, json.Unmarshal(b, r)
}

// stagedWorld thaws a copy of the healthy cluster with workloads.
func stagedWorld(t *testing.T) *front.Worker {
	t.Helper()
	parts, err := staged()
	if err != nil {
		t.Fatal(err)
	}
	b := (&worldFlags{seed: 1, preset: "reference"}).boot()
	b.Parts, b.Pace = parts, wire.Pace{}
	w, err := front.Start(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	if _, err := w.Ready(); err != nil {
		t.Fatal(err)
	}
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
var someFaults = []string{"kubelet-stopped"}

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
	for _, f := range table {
		if slices.Contains(someFaults, f.Name) {
			t.Run(f.Name, func(t *testing.T) { playMoves(t, w, faults.Move{Whole: f}) })
		}
	}
	playMoves(t, w, faults.Move{Healthy: true})
}

// No symptom shows on a healthy cluster.
func TestNoSymptomWithoutItsFault(t *testing.T) {
	t.Parallel()
	playMoves(t, stagedWorld(t), faults.Move{Absent: faultTable(t)}, faults.Move{Healthy: true})
}
