package grader

import (
	"encoding/json"
	"fmt"
	"strings"

	"ckadrill/scenarios"
)

// Result is the judgement of a drill.
type Result struct {
	Drill  string        `json:"drill"`
	Title  string        `json:"title"`
	Domain string        `json:"domain"`
	Checks []CheckResult `json:"checks"`
}

// newResult is a result in which nothing has been checked yet, and so nothing passed.
func newResult(s *scenarios.Scenario) *Result {
	return &Result{Drill: s.Metadata.Name, Title: s.Metadata.Title, Domain: s.Metadata.Domain, Checks: failAll(s.Checks, "not checked")}
}

// Score is the sum of the passed checks' points.
func (r *Result) Score() int {
	n := 0
	for _, c := range r.Checks {
		if c.Passed {
			n += c.Points
		}
	}
	return n
}

// Points is the sum of all checks' points.
func (r *Result) Points() int {
	n := 0
	for _, c := range r.Checks {
		n += c.Points
	}
	return n
}

// Percent is the score in per cent, rounded down.
func (r *Result) Percent() int {
	if r.Points() == 0 {
		return 0
	}
	return r.Score() * 100 / r.Points()
}

// Passed says that every check passed.
func (r *Result) Passed() bool { return r.Score() == r.Points() }

// MarshalJSON adds the sums.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		*plain
		Score   int  `json:"score"`
		Points  int  `json:"points"`
		Percent int  `json:"percent"`
		Passed  bool `json:"passed"`
	}{(*plain)(r), r.Score(), r.Points(), r.Percent(), r.Passed()})
}

// Text shows the result to the candidate: a line for each check, with its sentence if it failed, and the score. evidence
// adds what was seen.
func (r *Result) Text(evidence bool) string {
	var b strings.Builder
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range r.Checks {
		mark, got, says := "✓", c.Points, ""
		if !c.Passed {
			mark, got, says = "✗", 0, "  "+c.Says
		}
		line := fmt.Sprintf("%s %-*s  %d/%d%s", mark, width, c.Name, got, c.Points, says)
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
		if evidence && c.Evidence != "" {
			fmt.Fprintln(&b, "    "+strings.ReplaceAll(c.Evidence, "\n", "\n    "))
		}
	}
	fmt.Fprintf(&b, "Score: %d of %d points, %d %%\n", r.Score(), r.Points(), r.Percent())
	return b.String()
}
