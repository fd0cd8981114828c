package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"ckadrill/faults"
	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/wire"
)

const (
	// mostFaults is how many faults a random drill has at most.
	mostFaults = 3
	// seeds is how many there are to draw from, if none was given.
	seeds = 100_000
)

// randomDrill makes a drill of some faults of the table, which the seed draws.
func randomDrill(f worldFlags) (*scenarios.Scenario, error) {
	if f.preset != "reference" {
		return nil, fmt.Errorf("random drills are played on the cluster reference, not on %s", f.preset)
	}
	table, err := faults.Table()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(f.seed, 0))
	made := faults.Pick(r, table, 1+r.IntN(mostFaults))
	same, err := undisturbed(f, made)
	if err != nil {
		return nil, fmt.Errorf("the drill cannot be made: %w", err)
	}
	return faults.Drill(fmt.Sprintf("random-%d", f.seed), made, same)
}

// undisturbed looks in a world without the faults at what must be the same after their repair.
func undisturbed(f worldFlags, made []*faults.Fault) ([]faults.Look, error) {
	b := f.boot()
	b.Pace = wire.Pace{}
	w, _, err := startWorld(b)
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	if _, err := move(w, faults.Move{Stage: true}); err != nil {
		return nil, err
	}
	report, err := move(w, faults.Move{Print: made})
	if err != nil {
		return nil, err
	}
	return report.Prints, nil
}

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
