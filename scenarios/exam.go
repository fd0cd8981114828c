package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"ckadrill/scenarios/strict"
)

//go:embed exams
var exams embed.FS

// Exam is a timed set of drills.
type Exam struct {
	File    string
	Source  []byte
	Name    string
	Title   string
	Minutes int
	// Pass is the score in per cent from which on it is passed.
	Pass  int
	Tasks []ExamTask
}

// ExamTask is a drill of an exam and what it is worth there.
type ExamTask struct {
	Drill  string
	Weight int
	Line   int
}

// DefaultPass is the CKA's pass mark in per cent.
const DefaultPass = 66

// ParseExam reads an exam. All problems are in the error; the exam is nil then.
func ParseExam(file string, content []byte) (*Exam, error) {
	reader, root, err := strict.Open(file, "an exam", content)
	if err != nil {
		return nil, err
	}
	d := &decoder{reader}
	e := &Exam{File: file, Source: content, Pass: DefaultPass}
	var version, kind string
	if d.Mapping(root, "an exam", strict.Fields{
		"apiVersion": d.Text(&version), "kind": d.Text(&kind), "name": d.Text(&e.Name), "title": d.Text(&e.Title),
		"minutes": d.Number(&e.Minutes), "pass": d.Number(&e.Pass),
		"tasks": d.List("tasks", func(n *yaml.Node) {
			t := ExamTask{Weight: 1, Line: n.Line}
			d.Mapping(n, "a task", strict.Fields{"drill": d.Text(&t.Drill), "weight": d.Number(&t.Weight)})
			e.Tasks = append(e.Tasks, t)
		}),
	}) {
		d.validateExam(e, version, kind, root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return e, nil
}

func (d *decoder) validateExam(e *Exam, version, kind string, root *yaml.Node) {
	if version != APIVersion {
		d.Fail(root, "apiVersion must be %s, not %q", APIVersion, version)
	}
	if kind != "Exam" {
		d.Fail(root, "kind must be Exam, not %q", kind)
	}
	if !nameForm.MatchString(e.Name) {
		d.Fail(root, "name must be lower-case letters, digits and dashes, not %q", e.Name)
	}
	if e.Title == "" {
		d.Fail(root, "title is missing")
	}
	if e.Minutes < 1 || e.Minutes > 24*60 {
		d.Fail(root, "minutes must be from 1 to %d, not %d", 24*60, e.Minutes)
	}
	if e.Pass < 1 || e.Pass > 100 {
		d.Fail(root, "pass must be from 1 to 100 per cent, not %d", e.Pass)
	}
	if len(e.Tasks) == 0 {
		d.Fail(root, "tasks are missing")
	}
	seen := map[string]bool{}
	for _, t := range e.Tasks {
		if t.Drill == "" || t.Weight == 0 {
			d.FailAt(t.Line, "a task needs drill, and a weight of 1 or more")
		}
		if seen[t.Drill] {
			d.FailAt(t.Line, "the drill %q stands twice", t.Drill)
		}
		seen[t.Drill] = true
	}
}

// Drills finds an exam's drills among l, in the exam's order.
func (e *Exam) Drills(l []*Scenario) ([]*Scenario, error) {
	var drills []*Scenario
	var problems []error
	for _, t := range e.Tasks {
		s, err := Find(l, t.Drill)
		if err != nil {
			problems = append(problems, strict.Problem{File: e.File, Line: t.Line, Column: 1, Text: err.Error()})
			continue
		}
		drills = append(drills, s)
	}
	return drills, errors.Join(problems...)
}

// EmbeddedExams returns the exams that come with the program, in order of their names.
func EmbeddedExams() ([]*Exam, error) {
	var l []*Exam
	entries, err := fs.ReadDir(exams, "exams")
	if err != nil {
		return nil, err
	}
	for _, f := range entries {
		name := path.Join("exams", f.Name())
		b, err := exams.ReadFile(name)
		if err != nil {
			return nil, err
		}
		e, err := ParseExam(name, b)
		if err != nil {
			return nil, err
		}
		l = append(l, e)
	}
	slices.SortFunc(l, func(a, b *Exam) int { return strings.Compare(a.Name, b.Name) })
	return l, nil
}

// FindExam returns an exam by its name, or reads it from a file of the host.
func FindExam(name string) (*Exam, error) {
	if isScenarioFile(name) {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if info.Size() > strict.MaxFile {
			return nil, strict.TooLarge(name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return ParseExam(name, b)
	}
	l, err := EmbeddedExams()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range l {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("there is no exam %q; there are: %s", name, strings.Join(names, ", "))
}
