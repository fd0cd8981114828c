package grader

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
	"ckadrill/sim/wire"
)

// Keys of what a session's records say beside the world.
const (
	// MetaScenario and MetaFile, in the first record, are the scenario's source and the file that it came from.
	MetaScenario = "scenario"
	MetaFile     = "file"
	// The others are notes.
	metaReady    = "ready"    // the setup has been made
	metaHint     = "hint"     // the number of the hint that was shown
	metaSolution = "solution" // the solution was shown
	metaResult   = "result"   // a check's result as JSON
)

// maxSkip bounds one skip of simulated time.
const maxSkip = 7 * 24 * time.Hour

// Drill is the examiner of a play: it answers what the program drill asks.
type Drill struct {
	// Scenario is nil in a free shell.
	Scenario *scenarios.Scenario
	Lab      *Lab
	// Interactive says that a user is at the prompt, so that the world can be replaced under the shell.
	Interactive bool
	// Exam, if set, answers the program exam; the drill then gives no help.
	Exam func(p *front.Play, args []string, columns int) (text string, exit int)

	mu       sync.Mutex
	hints    int
	solution bool
}

// FromSession finds the scenario that a session is about, nil if it is a free shell, and what was shown of it already.
func FromSession(s *session.Session) (*Drill, error) {
	d := &Drill{}
	if s == nil || s.Empty() {
		return d, nil
	}
	records := s.Records()
	if src, ok := records[0].Meta[MetaScenario]; ok {
		sc, err := scenarios.Parse(records[0].Meta[MetaFile], []byte(src))
		if err != nil {
			return nil, fmt.Errorf("the scenario in the session: %w", err)
		}
		d.Scenario = sc
	}
	for _, r := range records {
		if n, err := strconv.Atoi(r.Meta[metaHint]); err == nil {
			d.hints = max(d.hints, n)
		}
		d.solution = d.solution || r.Meta[metaSolution] != ""
	}
	return d, nil
}

// Options is what a session's first record keeps of the scenario.
func (d *Drill) Options() map[string]string {
	if d.Scenario == nil {
		return nil
	}
	return map[string]string{MetaScenario: string(d.Scenario.Source), MetaFile: d.Scenario.File}
}

// Setup makes the setup of a play that was just opened, unless its session says that it was made before.
func (d *Drill) Setup(p *front.Play) error {
	if d.Scenario == nil {
		return nil
	}
	if p.Session != nil && ready(p.Session) > 0 {
		return nil
	}
	b, err := json.Marshal(d.Scenario.Setup)
	if err != nil {
		return err
	}
	if _, err := p.Worker().Query(querySetup, b); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	done, err := p.Worker().Skip(0)
	if err != nil {
		return err
	}
	p.Keep(done.Delta, done.Date)
	return p.Note(map[string]string{metaReady: "yes"})
}

// ready is the record after which a session's drill began: that of its setup, or its first.
func ready(s *session.Session) int {
	for _, r := range s.Records() {
		if r.Meta[metaReady] != "" {
			return r.Seq
		}
	}
	return 0
}

// Answer answers a question of the world; it is a [front.Play]'s OnOutside.
func (d *Drill) Answer(p *front.Play, a *wire.Ask) wire.Answer {
	var q question
	if err := json.Unmarshal(a.Content, &q); err != nil || len(q.Args) == 0 {
		return wire.Answer{Error: "the question cannot be read"}
	}
	var r reply
	switch a.Prompt {
	case programDrill:
		r.Text, r.Exit = d.answer(p, q)
	case programExam:
		if d.Exam == nil {
			r.Text, r.Exit = "exam: there is no exam here; ckadrill exam begins one\n", 1
		} else {
			r.Text, r.Exit = d.Exam(p, q.Args, q.Columns)
		}
	default:
		return wire.Answer{Error: fmt.Sprintf("nobody answers %q", a.Prompt)}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return wire.Answer{Error: err.Error()}
	}
	return wire.Answer{Text: b}
}

func (d *Drill) answer(p *front.Play, q question) (string, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := map[string]func(p *front.Play, q question) (string, error){
		"task": d.task, "check": d.check, "hint": d.hint, "solution": d.showSolution, "skip": d.skip, "undo": d.undo, "reset": d.reset, "quit": d.quit, "time": d.time,
		"trace": func(*front.Play, question) (string, error) { return "", nil },
	}[q.Args[0]]
	if f == nil {
		return fmt.Sprintf("drill: unknown command %q\n", q.Args[0]), 2
	}
	if d.Scenario == nil && slices.Contains([]string{"task", "check", "hint", "solution"}, q.Args[0]) {
		return "drill: this is a free shell: there is no task. ckadrill drill begins one\n", 1
	}
	if d.Exam != nil && slices.Contains([]string{"check", "hint", "solution", "trace", "undo", "quit"}, q.Args[0]) {
		return fmt.Sprintf("drill: no %s in an exam; see exam help\n", q.Args[0]), 1
	}
	text, err := f(p, q)
	switch {
	case errors.Is(err, errFailed):
		return text, 1
	case err != nil:
		return fmt.Sprintf("drill: %v\n", err), 1
	}
	return text, 0
}

// errFailed makes the program's exit status 1 without a message of its own.
var errFailed = errors.New("failed")

func (d *Drill) task(_ *front.Play, q question) (string, error) {
	return Task(d.Scenario, q.Columns), nil
}

func (d *Drill) check(p *front.Play, _ question) (string, error) {
	r, err := d.Lab.Grade(p.State(), d.Scenario)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	if err := p.Note(map[string]string{metaResult: string(b)}); err != nil {
		return "", err
	}
	text := r.Text(false)
	if n := d.hints; n > 0 {
		text += fmt.Sprintf("Hints used: %d of %d\n", n, len(d.Scenario.Hints))
	}
	if d.solution {
		text += "The solution was shown.\n"
	}
	if !r.Passed() {
		return text, errFailed
	}
	return text, nil
}

func (d *Drill) hint(p *front.Play, q question) (string, error) {
	n := len(d.Scenario.Hints)
	if d.hints >= n {
		return "", fmt.Errorf("there are no more hints: all %d were shown", n)
	}
	d.hints++
	if err := p.Note(map[string]string{metaHint: strconv.Itoa(d.hints)}); err != nil {
		return "", err
	}
	return fmt.Sprintf("Hint %d of %d: %s\n", d.hints, n, strings.TrimSpace(plain(d.Scenario.Hints[d.hints-1], q.Columns))), nil
}

func (d *Drill) showSolution(p *front.Play, q question) (string, error) {
	if !slices.Contains(q.Args[1:], "--yes") {
		return "", errors.New("solution needs --yes")
	}
	if !d.solution {
		d.solution = true
		if err := p.Note(map[string]string{metaSolution: "shown"}); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(d.Scenario.Solution.Run, "\n") + "\n", nil
}

func (d *Drill) skip(p *front.Play, q question) (string, error) {
	if len(q.Args) != 2 {
		return "", errors.New("skip takes a duration, such as 90s, 5m or 1h")
	}
	by, err := time.ParseDuration(q.Args[1])
	if err != nil || by < 0 || by > maxSkip {
		return "", fmt.Errorf("%q is no duration from 0s to %v; take for example 90s, 5m or 1h", q.Args[1], maxSkip)
	}
	done, err := p.Worker().Skip(by)
	if err != nil {
		return "", err
	}
	p.Keep(done.Delta, done.Date)
	return fmt.Sprintf("It is now %s.\n", done.Date.UTC().Format("15:04:05")), nil
}

// looksOnly says that a command was one of the drill's own which leave the cluster as it is.
func looksOnly(typed string) bool {
	f := strings.Fields(typed)
	return len(f) == 0 || f[0] == "drill" && (len(f) < 2 || f[1] != "skip")
}

func (d *Drill) undo(p *front.Play, _ question) (string, error) {
	if !d.Interactive {
		return "", errors.New("undo needs the prompt: a script cannot take itself back")
	}
	return "", p.Undo(looksOnly)
}

func (d *Drill) reset(p *front.Play, _ question) (string, error) {
	if !d.Interactive {
		return "", errors.New("reset needs the prompt: a script cannot take itself back")
	}
	if p.Session == nil {
		return "", errors.New("there is no session to go back in")
	}
	return "", p.GoTo(ready(p.Session), "back at the beginning")
}

func (d *Drill) quit(p *front.Play, _ question) (string, error) {
	p.Leave()
	return "", nil
}

func (d *Drill) time(p *front.Play, q question) (string, error) {
	text := fmt.Sprintf("%s simulated time\n", p.Date().UTC().Format("Mon 2006-01-02 15:04:05 MST"))
	if p.Session == nil || p.Session.Empty() {
		return text, nil
	}
	began := p.Session.Records()[ready(p.Session)]
	text += fmt.Sprintf("%v simulated since the beginning, %v of yours", p.Date().Sub(began.Date).Round(time.Second), time.Since(began.Wall).Round(time.Second))
	if d.Scenario != nil {
		text += fmt.Sprintf("; %d minutes are usual", d.Scenario.Metadata.Minutes)
	}
	return text + "\n", nil
}
