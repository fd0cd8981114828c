package grader

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ckadrill/scenarios"
	"ckadrill/sim/kernel"
)

// Verification says whether a scenario keeps its promises: an untouched world does not pass, the solution scores all
// points, and after each trap the checks that it names fail.
type Verification struct {
	Scenario *scenarios.Scenario
	// Problems are broken promises, Evidence what was seen, for an author.
	Problems []string
	Evidence []string
	// Worlds is how many worlds it took, Took how long in the host's time.
	Worlds int
	Took   time.Duration

	mu sync.Mutex
}

// OK says that all promises are kept.
func (v *Verification) OK() bool { return len(v.Problems) == 0 }

func (v *Verification) problem(format string, a ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Problems = append(v.Problems, fmt.Sprintf(format, a...))
}

func (v *Verification) saw(what string, r *Result, output []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := what + "\n" + strings.TrimRight(r.Text(true), "\n")
	if len(output) > 0 {
		text += "\nprinted:\n" + lastLines(output, 40)
	}
	v.Evidence = append(v.Evidence, strings.ReplaceAll(text, "\n", "\n  "))
}

func (v *Verification) world() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Worlds++
}

// Verify verifies a scenario. Its world is booted and set up once; solution and traps are played in copies, each of which
// is judged where it is, and again copied only if there are several kinds of consequences.
func (l *Lab) Verify(s *scenarios.Scenario) *Verification {
	start := time.Now()
	v := &Verification{Scenario: s}
	defer func() { v.Took = time.Since(start) }()
	gs := groups(s.Checks)
	parts, err := l.untouched(s, gs, v)
	if err != nil {
		v.problem("%v", err)
		return v
	}
	var wg sync.WaitGroup
	play := func(name string, sc scenarios.Script, gs []group, judge func(r *Result)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := l.played(parts, s, sc, name, gs, v)
			if err != nil {
				v.problem("%s: %v", name, err)
				return
			}
			judge(r)
		}()
	}
	play("solution", s.Solution, gs, func(r *Result) {
		if r.Passed() {
			return
		}
		v.problem("the solution scores %d %%: failed are %s", r.Percent(), strings.Join(failed(r), ", "))
	})
	for _, t := range s.Traps {
		play("trap "+t.Name, t.Script, only(gs, t.Fails), func(r *Result) {
			for _, c := range r.Checks {
				if c.Passed && slices.Contains(t.Fails, c.Name) {
					v.problem("trap %s passes the check %s", t.Name, c.Name)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(v.Problems)
	slices.Sort(v.Evidence)
	return v
}

// untouched sets a world up, returns its state, and makes sure that it does not pass.
func (l *Lab) untouched(s *scenarios.Scenario, gs []group, v *Verification) (kernel.Parts, error) {
	r := newResult(s)
	v.world()
	w, err := l.open(s, nil)
	if err != nil {
		return nil, err
	}
	err = w.setup(s)
	if err == nil {
		err = w.judgeGroup(gs[0], r, firstFailure)
	}
	w.close()
	if err != nil {
		return nil, err
	}
	// One check that fails is enough; consequences are played only if all others pass.
	for i := 1; i < len(gs) && allPass(gs[:i], r); i++ {
		v.world()
		if err := l.judge(w.parts, s, gs[i:i+1], r); err != nil {
			return nil, err
		}
	}
	v.saw("untouched", r, nil)
	if r.Passed() {
		v.problem("an untouched world passes every check")
	}
	return w.parts, nil
}

func allPass(gs []group, r *Result) bool {
	for _, g := range gs {
		for _, i := range g.index {
			if !r.Checks[i].Passed {
				return false
			}
		}
	}
	return true
}

// played runs a script in a copy of the state and judges what it leads to.
func (l *Lab) played(parts kernel.Parts, s *scenarios.Scenario, sc scenarios.Script, name string, gs []group, v *Verification) (*Result, error) {
	r := newResult(s)
	v.world()
	w, err := l.open(s, parts)
	if err != nil {
		return nil, err
	}
	exit, out, err := w.run(sc)
	here, copies := inPlace(gs)
	for _, g := range here {
		if err == nil {
			err = w.judgeGroup(g, r, everyCheck)
		}
	}
	w.close()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, lastLines(out, 10))
	}
	for range copies {
		v.world()
	}
	if err := l.judge(w.parts, s, copies, r); err != nil {
		return nil, err
	}
	v.saw(fmt.Sprintf("%s (exit status %d)", name, exit), r, out)
	return r, nil
}

// inPlace are the groups that can be judged in the world itself, one after the other, and those that need a copy: whoever
// reboots a machine last spoils it for nobody.
func inPlace(gs []group) (here, copies []group) {
	for i, g := range gs {
		switch {
		case len(g.checks) == 0:
		case len(g.after) == 0 || i == len(gs)-1:
			here = append(here, g)
		default:
			copies = append(copies, g)
		}
	}
	return here, copies
}

// only keeps the checks that are named, group by group; the first group stays, even if it is empty.
func only(gs []group, names []string) []group {
	var l []group
	for i, g := range gs {
		k := group{after: g.after}
		for j, c := range g.checks {
			if slices.Contains(names, c.Name) {
				k.checks, k.index = append(k.checks, c), append(k.index, g.index[j])
			}
		}
		if i == 0 || len(k.checks) > 0 {
			l = append(l, k)
		}
	}
	return l
}

func failed(r *Result) []string {
	var l []string
	for _, c := range r.Checks {
		if !c.Passed {
			l = append(l, c.Name)
		}
	}
	return l
}
