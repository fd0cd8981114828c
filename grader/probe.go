package grader

import (
	"fmt"

	"ckadrill/scenarios"
)

func lookProbe(c Cluster, p *scenarios.Probe) (bool, string) {
	outcome, body, err := c.Probe(p.From, p.To, checkTimeout)
	if err != nil {
		return false, err.Error()
	}
	evidence := fmt.Sprintf("from %s to %s: %s", p.From, p.To, outcome)
	if len(body) > 0 {
		evidence += "\n" + lastLines(body, 10)
	}
	ok := outcome == p.Expect || p.Expect == "open" && isStatus(outcome)
	return ok && matches(p.Body, body), evidence
}

// isStatus says whether an outcome is an HTTP status: then the connection was open.
func isStatus(s string) bool { return len(s) == 3 && s[0] >= '1' && s[0] <= '5' }
