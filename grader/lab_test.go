package grader

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// backstage starts worlds whose whole state is one word. Scripts replace the word; a check passes when its command's text
// is in the word.
type backstage struct {
	mu             sync.Mutex
	started        int
	living, most   int
	judged         []string // the word, the consequences and the checks of each judgement
	hang, crash    string   // a script that never ends, one that kills its world
	setupFails     bool
	consequence    map[string]string // what a consequence makes of a word
	failConsequent bool
}

type puppet struct {
	b      *backstage
	parts  kernel.Parts
	killed chan struct{}
	once   sync.Once
}

func (b *backstage) start(boot wire.Boot) (World, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started++
	b.living++
	b.most = max(b.most, b.living)
	w := &puppet{b: b, parts: kernel.Parts{}, killed: make(chan struct{})}
	for k, v := range boot.Parts {
		w.parts[k] = v
	}
	if boot.Parts == nil {
		w.parts["word"] = []byte("healthy")
	}
	return w, nil
}

func (w *puppet) word() string { return string(w.parts["word"]) }

func (w *puppet) delta() kernel.Delta {
	return kernel.Delta{Changed: kernel.Parts{"word": []byte(w.word())}}
}

func (w *puppet) Ready() (wire.Ready, error) { return wire.Ready{Delta: w.delta()}, nil }

func (w *puppet) Skip(time.Duration) (*wire.Done, error) { return &wire.Done{Delta: w.delta()}, nil }

func (w *puppet) Kill() {
	w.once.Do(func() {
		close(w.killed)
		w.b.mu.Lock()
		w.b.living--
		w.b.mu.Unlock()
	})
}

func (w *puppet) Run(r wire.Run, _ front.Handler) (*wire.Done, error) {
	switch r.Script {
	case w.b.hang:
		<-w.killed
		return nil, &front.Dead{Why: "killed"}
	case w.b.crash:
		return nil, &front.Dead{Why: "panic: oh"}
	}
	w.parts["word"] = []byte(r.Script)
	return &wire.Done{Delta: w.delta()}, nil
}

func (w *puppet) Query(name string, payload []byte) ([]byte, error) {
	if name == querySetup {
		if w.b.setupFails {
			return nil, errors.New("line 3: the script ended with exit status 1")
		}
		w.parts["word"] = []byte("broken")
		return nil, nil
	}
	var j judgement
	if err := json.Unmarshal(payload, &j); err != nil {
		return nil, err
	}
	word := w.word()
	log := word
	for _, s := range j.After {
		log += " after " + s.Reboot
		if to, ok := w.b.consequence[word]; ok {
			word = to
		}
	}
	var l []CheckResult
	for _, c := range j.Checks {
		log += " " + c.Name
		r := CheckResult{Name: c.Name, Points: c.Points, Passed: strings.Contains(word, c.Command.Run)}
		if !r.Passed {
			r.Says = c.Says
		}
		l = append(l, r)
	}
	w.b.mu.Lock()
	w.b.judged = append(w.b.judged, log)
	w.b.mu.Unlock()
	return json.Marshal(l)
}

func lab(b *backstage, jobs int) *Lab {
	l := NewLab(wire.Boot{}, jobs)
	l.Start = b.start
	return l
}

func check(name, passesWith string, reboot ...string) scenarios.Check {
	c := scenarios.Check{Name: name, Points: 1, Says: name + " failed", Command: &scenarios.Command{Script: scenarios.Script{Run: passesWith}}}
	for i, m := range reboot {
		c.After = append(c.After, scenarios.Step{Reboot: m, Line: 100*len(name) + i})
	}
	return c
}

func scene1() *scenarios.Scenario {
	return &scenarios.Scenario{
		Metadata: scenarios.Metadata{Name: "x", Domain: "storage"},
		Checks:   []scenarios.Check{check("persists", "enabled", "w1"), check("runs", "started"), check("again", "enabled", "w1"), check("other", "started", "w2")},
		Solution: scenarios.Script{Run: "started enabled"},
		Traps:    []scenarios.Trap{{Name: "half", Script: scenarios.Script{Run: "started"}, Fails: []string{"persists"}}},
	}
}

func TestGradeMakesCopiesOnlyForDifferentConsequences(t *testing.T) {
	b := &backstage{}
	r, err := lab(b, 2).Grade(kernel.Parts{"word": []byte("started")}, scene1())
	if err != nil {
		t.Fatal(err)
	}
	if b.started != 3 || b.most > 2 || b.living != 0 {
		t.Errorf("%d worlds, at most %d at once, %d left", b.started, b.most, b.living)
	}
	var got []string
	for _, c := range r.Checks {
		got = append(got, c.Name+":"+map[bool]string{true: "ok", false: c.Says}[c.Passed])
	}
	if s := strings.Join(got, " "); s != "persists:persists failed runs:ok again:again failed other:ok" {
		t.Error(s)
	}
	if r.Score() != 2 || r.Points() != 4 || r.Percent() != 50 || r.Passed() {
		t.Errorf("%d of %d", r.Score(), r.Points())
	}
}

func TestGradeLeavesTheStateAlone(t *testing.T) {
	b := &backstage{consequence: map[string]string{"started": "lost"}}
	parts := kernel.Parts{"word": []byte("started")}
	r, err := lab(b, 1).Grade(parts, scene1())
	if err != nil || string(parts["word"]) != "started" {
		t.Fatal(err, string(parts["word"]))
	}
	if !r.Checks[1].Passed || r.Checks[3].Passed {
		t.Error("consequences reached the wrong checks")
	}
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *scenarios.Scenario, b *backstage)
		want   string
	}{
		{"keeps its promises", func(*scenarios.Scenario, *backstage) {}, ""},
		{"untouched passes", func(s *scenarios.Scenario, b *backstage) {
			for i := range s.Checks {
				s.Checks[i].Command.Run = "e"
			}
			s.Solution.Run, s.Traps = "e", nil
			b.setupFails = false
			s.Setup = nil
		}, "an untouched world passes every check"},
		{"solution is not enough", func(s *scenarios.Scenario, _ *backstage) { s.Solution.Run = "started" }, "the solution scores 50 %: failed are persists, again"},
		{"trap passes", func(s *scenarios.Scenario, _ *backstage) { s.Traps[0].Run = "started enabled" }, "trap half passes the check persists"},
		{"setup fails", func(_ *scenarios.Scenario, b *backstage) { b.setupFails = true }, "setup: line 3: the script ended with exit status 1"},
		{"script that never ends", func(s *scenarios.Scenario, b *backstage) { b.hang = s.Solution.Run }, "solution: the world was stopped: it did not come to an end within 100ms"},
		{"world that dies", func(s *scenarios.Scenario, b *backstage) { b.crash = "started" }, "trap half: the simulation's worker process ended: panic: oh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, b := scene1(), &backstage{hang: "-", crash: "-"}
			c.change(s, b)
			l := lab(b, 2)
			l.Limit = 100 * time.Millisecond
			v := l.Verify(s)
			got := strings.Join(v.Problems, "\n")
			if !strings.Contains(got, c.want) || v.OK() != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if b.living != 0 || b.most > 2 {
				t.Errorf("%d worlds left, at most %d at once", b.living, b.most)
			}
		})
	}
}

// A trap is judged by nothing but what it names, and each script is played once.
func TestVerifyIsThrifty(t *testing.T) {
	b := &backstage{}
	v := lab(b, 1).Verify(scene1())
	if v.Worlds != 4 || b.started != 4 {
		t.Errorf("%d worlds, %d started; want 4: setup, solution, the first of two consequences, trap", v.Worlds, b.started)
	}
	for _, j := range b.judged {
		if strings.HasPrefix(j, "started after w2") || strings.HasPrefix(j, "broken after") {
			t.Errorf("judged needlessly: %s", j)
		}
	}
}
