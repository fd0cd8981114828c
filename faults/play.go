package faults

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Cluster is what a play needs of a world. Its methods take simulated time and are called in the bubble.
type Cluster interface {
	// Exec runs a bash script on a machine as a user and returns its exit code and what it printed.
	Exec(machine, user, script string, timeout time.Duration) (exit int, output []byte, err error)
	// ControlPlane is the machine where an observation is made that names none.
	ControlPlane() string
}

// Move is one step of a play; exactly one field is set.
type Move struct {
	// Stage sets the workloads up that faults are played on, and waits until the cluster is healthy.
	Stage bool
	// Whole is a fault's whole life: it is injected, observed, undone, and the cluster becomes healthy, as far as can be seen
	// without a trial, if none was needed to see that it was not.
	Whole *Fault
	// Inject and Fix do only that.
	Inject, Fix *Fault
	// Absent are faults of which no symptom may be seen.
	Absent []*Fault
	// Healthy waits until the cluster is healthy.
	Healthy bool
	// Print reports what is as it was when these faults have been undone.
	Print []*Fault
}

// Report is what a play found.
type Report struct {
	// Problems are where the cluster is not as the table says. Seen is what was looked at, for an author.
	Problems, Seen []string
	// Prints are the looks of a move Print with what they print.
	Prints []Look
	// Recovery is how long it took until the cluster was healthy, in simulated time.
	Recovery time.Duration
}

func (r *Report) problem(format string, a ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, a...))
}

//go:embed stage.sh
var stage string

const (
	// scriptTimeout bounds a script of the table, lookTimeout a look, both in simulated time.
	scriptTimeout = 10 * time.Minute
	lookTimeout   = 3 * time.Minute
	// healthyWithin is how long a cluster may take to become healthy when nothing is broken any more: the longest back-off of a
	// container or of a mount, and then some.
	healthyWithin = 20 * time.Minute
	healthyPeriod = 10 * time.Second
	// goneWithin is how long a symptom may still show on a cluster that counts as healthy.
	goneWithin = time.Minute
)

// Play makes a move.
func Play(c Cluster, m Move) (*Report, error) {
	r := &Report{}
	switch {
	case m.Stage:
		if exit, out, err := c.Exec(c.ControlPlane(), "root", stage, scriptTimeout); err != nil || exit != 0 {
			return nil, fmt.Errorf("the workloads cannot be set up: exit status %d, %v\n%s", exit, err, out)
		}
		return r, becomesHealthy(c, r, health, trial)
	case m.Whole != nil:
		return r, whole(c, m.Whole, r)
	case m.Inject != nil:
		return r, script(c, m.Inject, "inject", m.Inject.Inject, r)
	case m.Fix != nil:
		return r, script(c, m.Fix, "fix", m.Fix.Fix, r)
	case m.Absent != nil:
		absent(c, m.Absent, r)
	case m.Print != nil:
		l, err := lasting(m.Print)
		if err != nil {
			return nil, err
		}
		for _, o := range l {
			v := see(c, o.Observation)
			if v.err != nil {
				return nil, v.err
			}
			o.Output = "^" + strings.TrimSpace(string(v.output)) + "$"
			r.Prints = append(r.Prints, o)
		}
	case m.Healthy:
		return r, becomesHealthy(c, r, health, trial)
	}
	return r, nil
}

// absent looks for symptoms, once for all that are seen by the same command.
func absent(c Cluster, l []*Fault, r *Report) {
	looked := map[Observation]sight{}
	for _, f := range l {
		for _, o := range f.Symptoms {
			command := Observation{Machine: o.Machine, User: o.User, Run: o.Run}
			s, ok := looked[command]
			if !ok {
				s = see(c, o)
				looked[command] = s
			}
			if holds, text := s.is(o); holds != o.Unchanged {
				r.problem("%s:%d: %s: without the fault this is %v: %s", f.File, o.Line, f.Name, holds, text)
			}
		}
	}
}

func script(c Cluster, f *Fault, what, text string, r *Report) error {
	exit, out, err := c.Exec(f.Machine, "root", "set -e\n"+text, scriptTimeout)
	if err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", f.Name, what, err, out)
	}
	if exit != 0 {
		r.problem("%s:%d: %s: %s ended with exit status %d: %s", f.File, f.Line, f.Name, what, exit, out)
	}
	return nil
}

func whole(c Cluster, f *Fault, r *Report) error {
	if err := script(c, f, "inject", f.Inject, r); err != nil {
		return err
	}
	observe(c, f, "symptom", f.Symptoms, r)
	shows := []looking{health}
	bad, err := unhealthy(c, health)
	if err == nil && bad == "" {
		shows = append(shows, trial)
		bad, err = unhealthy(c, trial)
	}
	if err != nil {
		return err
	}
	if bad == "" {
		r.problem("%s:%d: %s: the cluster counts as healthy with the fault", f.File, f.Line, f.Name)
	}
	if err := script(c, f, "fix", f.Fix, r); err != nil {
		return err
	}
	observe(c, f, "recovery", f.Recovered, r)
	if err := becomesHealthy(c, r, shows...); err != nil {
		return err
	}
	for _, o := range f.Symptoms {
		if o.Unchanged || records.MatchString(o.Run) {
			continue
		}
		holds, text := look(c, o)
		// What has just started again may still wait for its turn, such as to lead.
		for start := time.Now(); holds && time.Since(start) < goneWithin; holds, text = look(c, o) {
			time.Sleep(healthyPeriod)
		}
		if holds {
			r.problem("%s:%d: %s: still seen when all is healthy again: %s", f.File, o.Line, f.Name, text)
		}
	}
	return nil
}

// records are commands that show what was, and not only what is.
var records = regexp.MustCompile(`journalctl|systemctl status|events|describe|logs|/var/log|restartCount`)

func observe(c Cluster, f *Fault, what string, l []Observation, r *Report) {
	start := time.Now()
	for _, o := range l {
		time.Sleep(time.Until(start.Add(o.After)))
		holds, text := look(c, o)
		text = fmt.Sprintf("%s:%d: %s: %s after %v: %s", f.File, o.Line, f.Name, what, o.After, text)
		r.Seen = append(r.Seen, text)
		if !holds {
			r.problem("not so: %s", text)
		}
	}
}

// look makes an observation and says whether it is as it says, and what was seen.
func look(c Cluster, o Observation) (bool, string) { return see(c, o).is(o) }

// sight is what a command showed.
type sight struct {
	machine string
	exit    int
	output  []byte
	err     error
}

func see(c Cluster, o Observation) sight {
	s := sight{machine: cmp.Or(o.Machine, c.ControlPlane())}
	s.exit, s.output, s.err = c.Exec(s.machine, cmp.Or(o.User, "root"), o.Run, lookTimeout)
	return s
}

// is says whether what was seen is what an observation says, and tells it.
func (s sight) is(o Observation) (bool, string) {
	text := fmt.Sprintf("%s$ %s\n%s[exit %d]", s.machine, strings.TrimSpace(o.Run), s.output, s.exit)
	if s.err != nil {
		return false, text + " " + s.err.Error()
	}
	holds := (o.Exit < 0 || s.exit == o.Exit) && (o.Output == "" || matches(o.Output, s.output)) && (o.Not == "" || !matches(o.Not, s.output))
	if !holds {
		text += fmt.Sprintf(" (output %q, not %q, exit %d)", o.Output, o.Not, o.Exit)
	}
	return holds, text
}

func matches(pattern string, text []byte) bool {
	return regexp.MustCompile("(?m)" + pattern).Match(text)
}

// becomesHealthy waits until every look of some files is as it should be, one round of all without a break.
func becomesHealthy(c Cluster, r *Report, looks ...looking) error {
	start := time.Now()
	for {
		bad, err := unhealthy(c, looks...)
		if err != nil {
			return err
		}
		if bad == "" {
			r.Recovery = time.Since(start)
			return nil
		}
		if time.Since(start) > healthyWithin {
			r.problem("the cluster does not become healthy within %v: %s", healthyWithin, bad)
			return nil
		}
		time.Sleep(healthyPeriod)
	}
}

// unhealthy makes the looks of some files, once, and returns the first that is not as it should be, "" if there is none.
func unhealthy(c Cluster, looks ...looking) (string, error) {
	l, err := together(looks...)
	if err != nil {
		return "", err
	}
	for _, o := range l {
		if ok, text := look(c, o.Observation); !ok {
			return fmt.Sprintf("%s:%d: %s", o.File, o.Line, text), nil
		}
	}
	return "", nil
}

// Query is the name of the question that a world answers with the report of a move.
const Query = "faults"

// Handle lets faults be played in a world.
func Handle(c interface {
	Cluster
	Handle(name string, f func(payload []byte) ([]byte, error))
}) {
	c.Handle(Query, func(payload []byte) ([]byte, error) {
		var m Move
		if err := json.Unmarshal(payload, &m); err != nil {
			return nil, err
		}
		r, err := Play(c, m)
		if err != nil {
			return nil, err
		}
		return json.Marshal(r)
	})
}
