package grader

import (
	"encoding/json"
	"fmt"

	"ckadrill/scenarios"
)

// Names of the queries that a world answers.
const (
	querySetup = "setup"
	queryJudge = "judge"
)

// Answerer is a world that queries can be registered in.
type Answerer interface {
	Cluster
	Handle(name string, f func(payload []byte) ([]byte, error))
}

// judgement is what a world is asked to judge: consequences are played first, and then all checks are made.
type judgement struct {
	After  []scenarios.Step
	Checks []scenarios.Check
	Until  extent
}

// extent is how far checks are made.
type extent string

const (
	everyCheck extent = ""
	// firstFailure ends with the first check that has failed; those that are still looked at count as failed, too.
	firstFailure extent = "first failure"
)

// Handle lets a world be set up and judged.
func Handle(c Answerer) {
	c.Handle(querySetup, func(payload []byte) ([]byte, error) {
		var steps []scenarios.Step
		if err := json.Unmarshal(payload, &steps); err != nil {
			return nil, err
		}
		return nil, RunSteps(c, steps)
	})
	c.Handle(queryJudge, func(payload []byte) ([]byte, error) {
		var j judgement
		if err := json.Unmarshal(payload, &j); err != nil {
			return nil, err
		}
		if err := RunSteps(c, j.After); err != nil {
			// A consequence that cannot be played is one that the world did not stand.
			return json.Marshal(failAll(j.Checks, fmt.Sprintf("what should follow could not be played: %v", err)))
		}
		return json.Marshal(judge(c, j.Checks, j.Until))
	})
}

func failAll(checks []scenarios.Check, evidence string) []CheckResult {
	l := make([]CheckResult, len(checks))
	for i, c := range checks {
		l[i] = CheckResult{Name: c.Name, Points: c.Points, Says: c.Says, Evidence: evidence}
	}
	return l
}
