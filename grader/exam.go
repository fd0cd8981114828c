package grader

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckadrill/scenarios"
	"ckadrill/sim/front"
)

// Exam is a mock exam in its directory: a file with what has happened, and a session for each task that was begun. Its
// clock is the host's; it runs on whether ckadrill runs or not, as in the real one.
type Exam struct {
	Paper  *scenarios.Exam
	Drills []*scenarios.Scenario

	dir   string
	now   func() time.Time
	mu    sync.Mutex
	state examState
	moved bool
}

// examState is what the directory keeps of an exam.
type examState struct {
	Paper     string    `json:"paper"` // its source
	File      string    `json:"file"`
	Minutes   int       `json:"minutes"`
	Started   time.Time `json:"started"`
	Current   int       `json:"current"` // from 0
	Flags     []bool    `json:"flags"`
	Submitted time.Time `json:"submitted,omitzero"`
}

const examFile = "exam.json"

// ErrNoExam says that a directory holds no exam.
var ErrNoExam = errors.New("there is no exam in this directory")

// BeginExam begins an exam in a directory that has none. minutes, if it is not 0, replaces the paper's time.
func BeginExam(dir string, paper *scenarios.Exam, drills []*scenarios.Scenario, minutes int) (*Exam, error) {
	e := &Exam{Paper: paper, Drills: drills, dir: dir, now: time.Now}
	if minutes == 0 {
		minutes = paper.Minutes
	}
	e.state = examState{Paper: string(paper.Source), File: paper.File, Minutes: minutes, Started: e.now(), Flags: make([]bool, len(paper.Tasks))}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, examFile)); err == nil {
		return nil, fmt.Errorf("there is an exam in %s already", dir)
	}
	return e, e.save()
}

// ResumeExam goes on with the exam in a directory; the error is [ErrNoExam] if there is none. known are the drills that
// its paper may name.
func ResumeExam(dir string, known []*scenarios.Scenario) (*Exam, error) {
	b, err := os.ReadFile(filepath.Join(dir, examFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoExam
	}
	if err != nil {
		return nil, err
	}
	e := &Exam{dir: dir, now: time.Now}
	if err := json.Unmarshal(b, &e.state); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, examFile), err)
	}
	if e.Paper, err = scenarios.ParseExam(e.state.File, []byte(e.state.Paper)); err != nil {
		return nil, err
	}
	if e.Drills, err = e.Paper.Drills(known); err != nil {
		return nil, err
	}
	if len(e.state.Flags) != len(e.Drills) || e.state.Current < 0 || e.state.Current >= len(e.Drills) || e.state.Minutes < 1 {
		return nil, fmt.Errorf("%s does not fit its exam", filepath.Join(dir, examFile))
	}
	return e, nil
}

// save writes the state so that it is whole whenever the process is killed.
func (e *Exam) save() error {
	b, err := json.MarshalIndent(e.state, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(e.dir, examFile), append(b, '\n'))
}

func writeWhole(name string, b []byte) error {
	tmp := name + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// Left is how much time is left; it is never negative.
func (e *Exam) Left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left()
}

func (e *Exam) left() time.Duration {
	end := e.state.Started.Add(time.Duration(e.state.Minutes) * time.Minute)
	return max(0, end.Sub(e.now()).Round(time.Second))
}

// Over says that it was handed in or that its time is up.
func (e *Exam) Over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over()
}

func (e *Exam) over() bool { return !e.state.Submitted.IsZero() || e.left() == 0 }

// Current is the number of the current task, from 0.
func (e *Exam) Current() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.Current
}

// Moved says whether the candidate has asked for another task since the last call.
func (e *Exam) Moved() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.moved
	e.moved = false
	return m
}

// TaskDir is where a task's session is kept.
func (e *Exam) TaskDir(i int) string {
	return filepath.Join(e.dir, fmt.Sprintf("task-%02d-%s", i+1, e.Drills[i].Metadata.Name))
}

// Prompt puts the task's number and the time left before a shell's prompt.
func (e *Exam) Prompt(prompt string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("[%d/%d %s] %s", e.state.Current+1, len(e.Drills), clock(e.left()), prompt)
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// Task is the current task's text.
func (e *Exam) Task(columns int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.task(columns)
}

func (e *Exam) task(columns int) string {
	i := e.state.Current
	return fmt.Sprintf("Task %d of %d, %d %% of the exam, time left %s\n%s", i+1, len(e.Drills), e.share(i), clock(e.left()), Task(e.Drills[i], columns))
}

// share is what a task is worth in per cent of the exam.
func (e *Exam) share(i int) int {
	sum := 0
	for _, t := range e.Paper.Tasks {
		sum += t.Weight
	}
	return (e.Paper.Tasks[i].Weight*100 + sum/2) / sum
}

// Answer answers the program exam.
func (e *Exam) Answer(p *front.Play, args []string, columns int) (string, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text, err := e.answer(args, columns)
	if err != nil {
		return fmt.Sprintf("exam: %v\n", err), 1
	}
	if e.moved || e.over() {
		p.Leave()
	}
	return text, 0
}

func (e *Exam) answer(args []string, columns int) (string, error) {
	if e.over() {
		return "", errors.New("the exam is over")
	}
	switch args[0] {
	case "status":
		return e.status(), nil
	case "task":
		return e.task(columns), nil
	case "next":
		return e.move(e.state.Current + 1)
	case "previous":
		return e.move(e.state.Current - 1)
	case "goto":
		if len(args) == 2 {
			if n, err := strconv.Atoi(args[1]); err == nil {
				return e.move(n - 1)
			}
		}
		return "", errors.New("goto takes a task's number")
	case "flag":
		i := e.state.Current
		e.state.Flags[i] = !e.state.Flags[i]
		word := map[bool]string{true: "flagged", false: "not flagged any more"}[e.state.Flags[i]]
		return fmt.Sprintf("Task %d is %s.\n", i+1, word), e.save()
	case "submit":
		if len(args) != 2 || args[1] != "--yes" {
			return "", errors.New("submit needs --yes")
		}
		e.state.Submitted = e.now()
		return "Handed in.\n", e.save()
	}
	return "", fmt.Errorf("unknown command %q; see exam help", args[0])
}

func (e *Exam) move(to int) (string, error) {
	switch {
	case to < 0:
		return "", errors.New("this is the first task")
	case to >= len(e.Drills):
		if e.state.Current == len(e.Drills)-1 {
			return "", errors.New("this is the last task; exam submit hands in")
		}
		return "", fmt.Errorf("there are %d tasks", len(e.Drills))
	}
	e.moved = e.moved || to != e.state.Current
	e.state.Current = to
	return fmt.Sprintf("Task %d of %d: %s\n", to+1, len(e.Drills), e.Drills[to].Metadata.Title), e.save()
}

func (e *Exam) status() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s left of %d minutes\n", e.Paper.Title, clock(e.left()), e.state.Minutes)
	for i, s := range e.Drills {
		mark, begun, flag := " ", "", ""
		if i == e.state.Current {
			mark = ">"
		}
		if _, err := os.Stat(e.TaskDir(i)); err != nil {
			begun = "  not begun"
		}
		if e.state.Flags[i] {
			flag = "  flagged"
		}
		fmt.Fprintf(&b, "%s %2d  %3d %%  %s%s%s\n", mark, i+1, e.share(i), s.Metadata.Title, begun, flag)
	}
	return b.String()
}
