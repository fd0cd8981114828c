package grader

import (
	"encoding/json"
	"errors"
	"sync"

	"ckadrill/scenarios"
	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// group is checks that can be made together in one world.
type group struct {
	after  []scenarios.Step
	checks []scenarios.Check
	index  []int // their places in the scenario
}

// groups puts checks with equal consequences together. The first group is that without any; it may be empty.
func groups(checks []scenarios.Check) []group {
	l := []group{{}}
	at := map[string]int{"": 0}
	for i, c := range checks {
		k := consequences(c.After)
		g, ok := at[k]
		if !ok {
			g = len(l)
			at[k] = g
			l = append(l, group{after: c.After})
		}
		l[g].checks = append(l[g].checks, c)
		l[g].index = append(l[g].index, i)
	}
	return l
}

// consequences is equal for equal lists of steps, wherever in the file they stand.
func consequences(steps []scenarios.Step) string {
	if len(steps) == 0 {
		return ""
	}
	l := make([]scenarios.Step, len(steps))
	for i, s := range steps {
		s.Line = 0
		if s.Script != nil {
			c := *s.Script
			c.Line = 0
			s.Script = &c
		}
		l[i] = s
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // only a type that JSON cannot encode
	}
	return string(b)
}

// Grade judges a state by a scenario's checks, in thawed copies: checks without consequences in one, and those with equal
// consequences in one each.
func Grade(b wire.Boot, parts kernel.Parts, s *scenarios.Scenario) (*Result, error) {
	return NewLab(b, 0).Grade(parts, s)
}

// Grade judges a state by a scenario's checks, see [Grade].
func (l *Lab) Grade(parts kernel.Parts, s *scenarios.Scenario) (*Result, error) {
	r := newResult(s)
	return r, l.judge(parts, s, groups(s.Checks), r)
}

// judge makes each group's checks in a copy of its own and notes them in the result.
func (l *Lab) judge(parts kernel.Parts, s *scenarios.Scenario, gs []group, r *Result) error {
	errs := make([]error, len(gs))
	var wg sync.WaitGroup
	for i, g := range gs {
		if len(g.checks) == 0 {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			w, err := l.open(s, parts)
			if err != nil {
				errs[i] = err
				return
			}
			defer w.close()
			errs[i] = w.judgeGroup(g, r, everyCheck)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// judgeGroup makes the checks of a group in this world. Groups of one scenario may be judged at the same time.
func (g *scene) judgeGroup(q group, r *Result, until extent) error {
	l, err := g.judge(judgement{q.after, q.checks, until})
	if err != nil {
		return err
	}
	for i, c := range l {
		r.Checks[q.index[i]] = c
	}
	return nil
}
