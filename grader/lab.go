package grader

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"ckadrill/scenarios"
	"ckadrill/shell/terminal"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	embedded "ckadrill/sim/ready"
	"ckadrill/sim/wire"
)

// World is a running world as the front process directs it; a [front.Worker] is one.
type World interface {
	Ready() (wire.Ready, error)
	Query(name string, payload []byte) ([]byte, error)
	Run(r wire.Run, h front.Handler) (*wire.Done, error)
	Skip(d time.Duration) (*wire.Done, error)
	Kill()
}

// Lab starts worlds to set up, judge and verify in. At most a number of them live at once.
type Lab struct {
	// Boot is how its worlds are started; Parts and Pace are set by the lab, and Preset by the scenario.
	Boot wire.Boot
	// Start starts a world; it is [front.Start] but in tests.
	Start func(b wire.Boot) (World, error)
	// Limit is how long, in the host's time, one world may take for what it is asked.
	Limit time.Duration
	slots chan struct{}
}

// defaultLimit is generous: a judgement of an hour of simulated time takes some ten seconds.
const defaultLimit = 10 * time.Minute

// scriptOutput bounds what a scenario's script may print.
const scriptOutput = 16 << 20

// NewLab makes a lab with at most jobs worlds at once; 0 means one for each processor.
func NewLab(b wire.Boot, jobs int) *Lab {
	if jobs <= 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	b.Processors = max(runtime.GOMAXPROCS(0)/jobs, 1)
	start := func(b wire.Boot) (World, error) { return front.Start(b) }
	return &Lab{Boot: b, Start: start, Limit: defaultLimit, slots: make(chan struct{}, jobs)}
}

// scene is a world of a lab, and its state after what was done in it.
type scene struct {
	World
	lab   *Lab
	parts kernel.Parts
	date  time.Time
	timer *time.Timer
	late  chan struct{}
}

// open starts a world for a scenario: thawed from parts, or afresh if they are nil. It waits for its turn.
func (l *Lab) open(s *scenarios.Scenario, parts kernel.Parts) (*scene, error) {
	l.slots <- struct{}{}
	b := l.Boot
	b.Parts, b.Pace, b.Options = parts, wire.Pace{}, nil
	if s.Cluster != "" {
		b.Preset = s.Cluster
	}
	w, err := l.Start(b)
	if err != nil {
		<-l.slots
		return nil, err
	}
	g := &scene{World: w, lab: l, parts: kernel.Parts{}, late: make(chan struct{})}
	g.timer = time.AfterFunc(l.Limit, func() { close(g.late); w.Kill() })
	for n, b := range parts {
		g.parts[n] = b
	}
	r, err := w.Ready()
	if err != nil {
		g.close()
		return nil, g.explain(err)
	}
	if r.Embedded {
		if g.parts, err = embedded.State(b.Preset); err != nil {
			g.close()
			return nil, err
		}
	}
	r.Delta.Apply(g.parts)
	g.date = r.Date
	return g, nil
}

// close ends the world and gives its place to the next.
func (g *scene) close() {
	g.timer.Stop()
	g.Kill()
	<-g.lab.slots
}

// explain says why a world ended when it was this lab that ended it.
func (g *scene) explain(err error) error {
	select {
	case <-g.late:
		return fmt.Errorf("the world was stopped: it did not come to an end within %v", g.lab.Limit)
	default:
		return err
	}
}

// setup makes a scenario's setup and keeps the state after it.
func (g *scene) setup(s *scenarios.Scenario) error {
	b, err := json.Marshal(s.Setup)
	if err != nil {
		return err
	}
	if _, err := g.Query(querySetup, b); err != nil {
		return fmt.Errorf("setup: %w", g.explain(err))
	}
	return g.keep()
}

// keep notes the state of the world as it is now.
func (g *scene) keep() error {
	d, err := g.Skip(0)
	if err != nil {
		return g.explain(err)
	}
	d.Delta.Apply(g.parts)
	g.date = d.Date
	return nil
}

// run runs a script as the candidate would and keeps the state after it. What it printed is returned with its exit status.
func (g *scene) run(s scenarios.Script) (exit int, output []byte, err error) {
	h := &terminal.Batch{Limit: scriptOutput, Stop: g.Kill}
	d, err := g.Run(wire.Run{Shell: "main", Script: s.Run, Machine: s.Machine, User: s.User, Limit: kernel.Limit{Simulated: scriptTimeout, Host: scriptPatience}}, h)
	if h.Overflowed() {
		return 1, h.Text(), fmt.Errorf("the script printed more than %d MiB and was stopped", scriptOutput>>20)
	}
	if err != nil {
		return 1, h.Text(), g.explain(err)
	}
	d.Delta.Apply(g.parts)
	g.date = d.Date
	return d.Exit, h.Text(), nil
}

// judge plays consequences and makes checks. The world is not the same afterwards; the state that was kept is.
func (g *scene) judge(j judgement) ([]CheckResult, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	out, err := g.Query(queryJudge, b)
	if err != nil {
		return nil, g.explain(err)
	}
	var l []CheckResult
	if err := json.Unmarshal(out, &l); err != nil {
		return nil, err
	}
	if len(l) != len(j.Checks) {
		return nil, errors.New("the world judged something else than what it was asked")
	}
	return l, nil
}
