package grader

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/session"
)

// Report is the judgement of an exam.
type Report struct {
	Exam     string    `json:"exam"`
	Title    string    `json:"title"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Minutes  int       `json:"minutes"`
	// Pass is the pass mark, Percent the score: both in per cent. The score is rounded down.
	Pass    int          `json:"pass"`
	Percent int          `json:"percent"`
	Passed  bool         `json:"passed"`
	Domains []DomainPart `json:"domains"`
	Tasks   []TaskPart   `json:"tasks"`
}

// DomainPart is the score in one of the exam's domains.
type DomainPart struct {
	Domain  string `json:"domain"`
	Weight  int    `json:"weight"` // of its tasks in this exam
	Percent int    `json:"percent"`
}

// TaskPart is the score of one task.
type TaskPart struct {
	Number  int     `json:"number"`
	Weight  int     `json:"weight"`
	Begun   bool    `json:"begun"`
	Flagged bool    `json:"flagged"`
	Result  *Result `json:"result"`
}

// Names of the reports in an exam's directory.
const (
	ReportJSON = "report.json"
	ReportText = "report.txt"
)

// Report is the report of an exam that was judged before, nil if it was not.
func (e *Exam) Report() (*Report, error) {
	b, err := os.ReadFile(filepath.Join(e.dir, ReportJSON))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(e.dir, ReportJSON), err)
	}
	return r, nil
}

// Grade judges every task by the state that its session ended with, and writes the reports. progress is told how many
// tasks are judged.
func (e *Exam) Grade(lab *Lab, progress func(done, of int)) (*Report, error) {
	e.mu.Lock()
	st := e.state
	e.mu.Unlock()
	r := &Report{Exam: e.Paper.Name, Title: e.Paper.Title, Started: st.Started, Minutes: st.Minutes, Pass: e.Paper.Pass, Finished: st.Submitted}
	if r.Finished.IsZero() {
		r.Finished = st.Started.Add(time.Duration(st.Minutes) * time.Minute)
	}
	r.Tasks = make([]TaskPart, len(e.Drills))
	errs := make([]error, len(e.Drills))
	var mu sync.Mutex
	done := 0
	var wg sync.WaitGroup
	for i, s := range e.Drills {
		r.Tasks[i] = TaskPart{Number: i + 1, Weight: e.Paper.Tasks[i].Weight, Flagged: st.Flags[i], Result: newResult(s)}
		wg.Add(1)
		go func() {
			defer wg.Done()
			parts, err := taskState(e.TaskDir(i))
			if err == nil && parts != nil {
				r.Tasks[i].Begun = true
				r.Tasks[i].Result, err = lab.Grade(parts, s)
			}
			if err != nil {
				errs[i] = fmt.Errorf("task %d: %w", i+1, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress(done, len(e.Drills))
		}()
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r.sum()
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeWhole(filepath.Join(e.dir, ReportJSON), append(b, '\n')); err != nil {
		return nil, err
	}
	return r, writeWhole(filepath.Join(e.dir, ReportText), []byte(r.Text()))
}

// taskState is the state that a task's session ended with, nil if the task was not begun.
func taskState(dir string) (kernel.Parts, error) {
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil, nil
	}
	s, err := session.Open(dir)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Empty() || ready(s) == 0 { // killed before its setup was made
		return nil, nil
	}
	return s.State()
}

// weighted sums scores that count by weights. Tasks count by the share of their points, not by their number of points.
type weighted struct {
	weight int
	score  float64
}

func (w *weighted) add(t TaskPart) {
	w.weight += t.Weight
	if p := t.Result.Points(); p > 0 {
		w.score += float64(t.Weight) * float64(t.Result.Score()) / float64(p)
	}
}

func (w *weighted) percent() int {
	if w.weight == 0 {
		return 0
	}
	const rounding = 1e-9 // of the division above
	return int(w.score*100/float64(w.weight) + rounding)
}

func (r *Report) sum() {
	var all weighted
	domains := map[string]*weighted{}
	for _, t := range r.Tasks {
		all.add(t)
		d := domains[t.Result.Domain]
		if d == nil {
			d = &weighted{}
			domains[t.Result.Domain] = d
		}
		d.add(t)
	}
	r.Percent = all.percent()
	r.Passed = r.Percent >= r.Pass
	r.Domains = nil
	for _, n := range slices.Sorted(maps.Keys(domains)) {
		r.Domains = append(r.Domains, DomainPart{n, domains[n].weight, domains[n].percent()})
	}
}

// Text shows the report to the candidate.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nstarted %s, took %v of %d minutes\n\n", r.Title, r.Started.Format("2006-01-02 15:04"), r.Finished.Sub(r.Started).Round(time.Second), r.Minutes)
	for _, t := range r.Tasks {
		note := ""
		if !t.Begun {
			note = ", not begun"
		}
		fmt.Fprintf(&b, "Task %d: %s  %d %% (weight %d%s)\n", t.Number, t.Result.Title, t.Result.Percent(), t.Weight, note)
		if t.Begun {
			lines := strings.Split(strings.TrimSpace(t.Result.Text(false)), "\n")
			for _, l := range lines[:len(lines)-1] {
				fmt.Fprintln(&b, "   "+l)
			}
		}
	}
	fmt.Fprintln(&b)
	for _, d := range r.Domains {
		fmt.Fprintf(&b, "%-24s %3d %%\n", d.Domain, d.Percent)
	}
	word := "FAILED"
	if r.Passed {
		word = "PASSED"
	}
	fmt.Fprintf(&b, "\nScore: %d %%, pass mark %d %%: %s\n", r.Percent, r.Pass, word)
	return b.String()
}
