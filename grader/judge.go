package grader

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"ckadrill/scenarios"
)

// Cluster is what the judge needs of a world. Its methods take simulated time and are called in the bubble.
type Cluster interface {
	// Exec runs a bash script on a machine as a user and returns its exit code and what it printed.
	Exec(machine, user, script string, timeout time.Duration) (exit int, output []byte, err error)
	Reboot(machine string) error
	RestartUnit(machine, unit string) error
	// Probe tries to reach an address from a machine or Pod, see [scenarios.Probe]; outcome is in its words.
	Probe(from, to string, timeout time.Duration) (outcome string, body []byte, err error)
	// ControlPlane is the machine that the candidate works on.
	ControlPlane() string
}

// CheckResult is the judgement of one check.
type CheckResult struct {
	Name   string `json:"name"`
	Points int    `json:"points"`
	Passed bool   `json:"passed"`
	// Says is the sentence for the candidate, set when it failed.
	Says string `json:"says,omitempty"`
	// Evidence is what was seen last, for an author and for the curious.
	Evidence string        `json:"evidence,omitempty"`
	Took     time.Duration `json:"took"`
}

// scriptTimeout bounds every script of a scenario, in simulated time.
const scriptTimeout = 30 * time.Minute

// scriptPatience bounds it in the host's time.
const scriptPatience = 5 * time.Minute

// checkTimeout bounds one look of a check.
const checkTimeout = 30 * time.Second

// RunSteps plays the steps of a setup, or consequences.
func RunSteps(c Cluster, steps []scenarios.Step) error {
	for _, s := range steps {
		if err := runStep(c, s); err != nil {
			return fmt.Errorf("line %d: %w", s.Line, err)
		}
	}
	return nil
}

func runStep(c Cluster, s scenarios.Step) error {
	switch {
	case s.Wait > 0:
		time.Sleep(s.Wait)
	case s.Reboot != "":
		return c.Reboot(s.Reboot)
	case s.Restart != nil:
		return c.RestartUnit(s.Restart.Machine, s.Restart.Name)
	case s.Script != nil:
		user := s.Script.User
		if user == "" {
			user = "root"
		}
		exit, out, err := c.Exec(machineOr(c, s.Script.Machine), user, s.Script.Run, scriptTimeout)
		if err != nil {
			return err
		}
		if exit != 0 {
			return fmt.Errorf("the script ended with exit status %d: %s", exit, lastLines(out, 5))
		}
	}
	return nil
}

func machineOr(c Cluster, name string) string {
	if name == "" {
		return c.ControlPlane()
	}
	return name
}

func lastLines(b []byte, n int) string {
	l := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(l) > n {
		l = l[len(l)-n:]
	}
	return strings.Join(l, "\n")
}

// judge makes all checks at once, each with its own deadline. Consequences (After) are not played here: the caller plays
// those that the given checks share before.
func judge(c Cluster, checks []scenarios.Check, until extent) []CheckResult {
	type made struct {
		index  int
		result CheckResult
	}
	results := failAll(checks, "it was not looked at to its end: another check had failed")
	finished := make(chan made, len(checks))
	for i, ch := range checks {
		go func() {
			start := time.Now()
			ok, evidence := settle(ch, func() (bool, string) { return look(c, ch) })
			r := CheckResult{Name: ch.Name, Points: ch.Points, Passed: ok, Evidence: evidence, Took: time.Since(start)}
			if !ok {
				r.Says = ch.Says
			}
			finished <- made{i, r}
		}()
	}
	for range checks {
		m := <-finished
		results[m.index] = m.result
		if !m.result.Passed && until == firstFailure {
			break
		}
	}
	return results
}

// period is how often a check is looked at.
func period(ch scenarios.Check) time.Duration {
	return min(max(2*time.Second, ch.Hold/8), 15*time.Second)
}

// settle looks until the check has been true for its Hold without a break. The first look of that time must lie within its
// deadline, so that a state about to break does not pass and nothing flickers.
func settle(ch scenarios.Check, look func() (bool, string)) (bool, string) {
	deadline := time.Now().Add(ch.Within)
	for {
		ok, evidence := look()
		if ok {
			held := time.Now().Add(ch.Hold)
			for ok && time.Now().Before(held) {
				time.Sleep(min(period(ch), time.Until(held)))
				ok, evidence = look()
			}
			if ok {
				return true, evidence
			}
			evidence = "it did not stay so: " + evidence
		}
		if !time.Now().Add(period(ch)).Before(deadline) && !time.Now().Before(deadline) || ch.Within == 0 {
			return false, evidence
		}
		time.Sleep(min(period(ch), max(time.Until(deadline), time.Millisecond)))
	}
}

// look makes a check once.
func look(c Cluster, ch scenarios.Check) (bool, string) {
	switch {
	case ch.CEL != nil:
		return lookCEL(c, ch.CEL)
	case ch.Command != nil:
		return lookCommand(c, ch.Command)
	default:
		return lookProbe(c, ch.Probe)
	}
}

func lookCommand(c Cluster, cmd *scenarios.Command) (bool, string) {
	user := cmd.User
	if user == "" {
		user = "root"
	}
	exit, out, err := c.Exec(machineOr(c, cmd.Machine), user, cmd.Run, checkTimeout)
	if err != nil {
		return false, err.Error()
	}
	evidence := fmt.Sprintf("exit status %d\n%s", exit, lastLines(out, 20))
	return exit == cmd.Exit && matches(cmd.Output, out) && (cmd.Not == "" || !matches(cmd.Not, out)), evidence
}

// matches says whether text has a match of the pattern, in which ^ and $ stand for a line's ends.
func matches(pattern string, text []byte) bool {
	if pattern == "" {
		return true
	}
	re, err := regexp.Compile("(?m)" + pattern)
	return err == nil && re.Match(text)
}
