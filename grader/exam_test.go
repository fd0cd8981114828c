package grader

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/session"
	"ckadrill/sim/wire"
)

func TestEmbeddedExamsNameDrills(t *testing.T) {
	known, err := scenarios.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	l, err := scenarios.EmbeddedExams()
	if err != nil || len(l) == 0 {
		t.Fatal(err)
	}
	for _, e := range l {
		if _, err := e.Drills(known); err != nil {
			t.Error(err)
		}
	}
}

// The full exam weighs the domains as the CKA's curriculum does.
func TestFullExamIsWeightedAsTheCurriculum(t *testing.T) {
	e, err := scenarios.FindExam("second")
	if err != nil {
		t.Fatal(err)
	}
	known, err := scenarios.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	drills, err := e.Drills(known)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for i, d := range drills {
		got[d.Metadata.Domain] += e.Tasks[i].Weight
	}
	want := map[string]int{"troubleshooting": 30, "cluster-architecture": 25, "services-networking": 20, "workloads-scheduling": 15, "storage": 10}
	if d := cmp.Diff(want, got); d != "" || len(drills) < 16 {
		t.Errorf("%d tasks, weights (-want +got):\n%s", len(drills), d)
	}
}

func newExam(t *testing.T) (*Exam, []*scenarios.Scenario, *time.Time) {
	t.Helper()
	known, err := scenarios.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	paper, err := scenarios.FindExam("first")
	if err != nil {
		t.Fatal(err)
	}
	drills, err := paper.Drills(known)
	if err != nil {
		t.Fatal(err)
	}
	e, err := BeginExam(filepath.Join(t.TempDir(), "exam"), paper, drills, 30)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	e.now = func() time.Time { return now }
	return e, known, &now
}

func do(t *testing.T, e *Exam, line string) (string, int) {
	t.Helper()
	return e.Answer(&front.Play{}, strings.Fields(line), 80)
}

func TestExamGoesFromTaskToTask(t *testing.T) {
	e, known, now := newExam(t)
	if _, code := do(t, e, "previous"); code == 0 || e.Moved() {
		t.Error("there is a task before the first")
	}
	do(t, e, "next")
	do(t, e, "flag")
	if !e.Moved() || e.Moved() || e.Current() != 1 {
		t.Error("next does not lead to the second task, once")
	}
	do(t, e, "goto 8")
	if out, code := do(t, e, "next"); code == 0 || !strings.Contains(out, "last task") {
		t.Error(out)
	}
	for _, bad := range []string{"goto", "goto x", "goto 9", "goto 0", "submit", "dance"} {
		if _, code := do(t, e, bad); code == 0 {
			t.Errorf("exam %s is taken", bad)
		}
	}
	*now = now.Add(20*time.Minute + 5*time.Second)
	if p := e.Prompt("$ "); p != "[8/8 9:55] $ " {
		t.Error(p)
	}
	out, _ := do(t, e, "status")
	if !strings.Contains(out, ">  8") || !strings.Contains(out, "2   10 %  "+e.Drills[1].Metadata.Title+"  not begun  flagged") {
		t.Error(out)
	}
	// The process may be killed at any moment: everything is in the directory.
	again, err := ResumeExam(e.dir, known)
	if err != nil {
		t.Fatal(err)
	}
	again.now = e.now
	if again.Current() != 7 || !again.state.Flags[1] || again.Left() != e.Left() {
		t.Errorf("%+v", again.state)
	}
	*now = now.Add(10 * time.Minute)
	if !e.Over() || e.Left() != 0 {
		t.Error("its time is up and it goes on")
	}
	if out, code := do(t, e, "previous"); code == 0 {
		t.Error(out)
	}
}

func TestExamDirectoriesOfOthers(t *testing.T) {
	e, known, _ := newExam(t)
	if _, err := BeginExam(e.dir, e.Paper, e.Drills, 0); err == nil {
		t.Error("an exam was begun over another")
	}
	if _, err := ResumeExam(t.TempDir(), known); !errors.Is(err, ErrNoExam) {
		t.Error(err)
	}
	for _, bad := range []string{"", "{", `{"paper":""}`, `{"minutes":-1}`} {
		os.WriteFile(filepath.Join(e.dir, examFile), []byte(bad), 0o600)
		if _, err := ResumeExam(e.dir, known); err == nil {
			t.Errorf("%q is an exam", bad)
		}
	}
}

func TestExamReport(t *testing.T) {
	e, _, _ := newExam(t)
	for i := range e.Drills {
		e.Drills[i] = scene1()
	}
	e.Drills[1].Metadata.Domain = "troubleshooting"
	for i, word := range []string{"started enabled", "started"} {
		e.Drills[i].Metadata.Name = word[:4]
		s, err := session.Open(e.TaskDir(i))
		if err != nil {
			t.Fatal(err)
		}
		s.Append(session.Record{Kind: session.Boot, Changed: kernel.Parts{"word": []byte("broken")}})
		s.Append(session.Record{Kind: session.Note, Meta: map[string]string{metaReady: "yes"}})
		s.Append(session.Record{Kind: session.Command, Changed: kernel.Parts{"word": []byte(word)}})
		s.Close()
	}
	do(t, e, "submit --yes")
	r, err := e.Grade(lab(&backstage{}, 2), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	// tasks of weight 10 and 10 out of 100, with all and with half of their points
	if r.Percent != 15 || r.Passed {
		t.Errorf("%d %%, passed: %v", r.Percent, r.Passed)
	}
	if len(r.Domains) != 2 || r.Domains[1] != (DomainPart{"troubleshooting", 10, 50}) || r.Domains[0] != (DomainPart{"storage", 90, 11}) {
		t.Errorf("%+v", r.Domains)
	}
	b, err := os.ReadFile(filepath.Join(e.dir, ReportJSON))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Percent, Pass int
		Tasks         []struct {
			Begun  bool
			Result struct {
				Score, Points int
				Checks        []CheckResult
			}
		}
	}
	if err := json.Unmarshal(b, &file); err != nil || file.Percent != 15 || file.Pass != 66 || len(file.Tasks) != 8 || file.Tasks[1].Result.Score != 2 || file.Tasks[2].Begun || len(file.Tasks[2].Result.Checks) != 4 {
		t.Errorf("%v\n%s", err, b)
	}
	if again, err := e.Report(); err != nil || again.Text() != r.Text() {
		t.Errorf("the report that was kept: %v", err)
	}
	if text := r.Text(); !strings.Contains(text, "Score: 15 %, pass mark 66 %: FAILED") || !strings.Contains(text, "not begun") {
		t.Error(text)
	}
}

// asked is what the front answers to a program's question.
func asked(t *testing.T, d *Drill, p *front.Play, program string, args ...string) (string, int) {
	t.Helper()
	b, err := json.Marshal(question{Args: args, Columns: 60})
	if err != nil {
		t.Fatal(err)
	}
	a := d.Answer(p, &wire.Ask{Prompt: program, Content: b})
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	var r reply
	if err := json.Unmarshal(a.Text, &r); err != nil {
		t.Fatal(err)
	}
	return r.Text, r.Exit
}

func TestDrillCommands(t *testing.T) {
	dir := t.TempDir()
	s, err := session.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenarios.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	d := &Drill{Scenario: sc[0]}
	s.Append(session.Record{Kind: session.Boot, Meta: d.Options()})
	p := &front.Play{Session: s}
	n := len(d.Scenario.Hints)
	for i := range n {
		out, code := asked(t, d, p, "drill", "hint")
		if code != 0 || !strings.HasPrefix(out, "Hint ") || i > 0 && strings.HasPrefix(out, "Hint 1 ") {
			t.Error(out)
		}
	}
	if out, code := asked(t, d, p, "drill", "hint"); code == 0 || !strings.Contains(out, "no more hints") {
		t.Error(out)
	}
	if _, code := asked(t, d, p, "drill", "solution"); code == 0 {
		t.Error("the solution was shown unasked")
	}
	if out, code := asked(t, d, p, "drill", "solution", "--yes"); code != 0 || !strings.Contains(out, strings.SplitN(d.Scenario.Solution.Run, "\n", 2)[0]) {
		t.Error(out)
	}
	for _, bad := range [][]string{{"skip"}, {"skip", "-5m"}, {"skip", "9999h"}, {"skip", "soon"}, {"undo"}, {"reset"}, {"dance"}} {
		if out, code := asked(t, d, p, "drill", bad...); code == 0 {
			t.Errorf("%v: %s", bad, out)
		}
	}
	if _, code := asked(t, d, p, "exam", "status"); code == 0 {
		t.Error("there is an exam in a drill")
	}
	if _, code := asked(t, d, p, "drill", "quit"); code != 0 || !p.Leaving() {
		t.Error("quit does not leave")
	}
	s.Close()
	// A session knows its scenario and what was shown, whatever has become of the file.
	if s, err = session.Open(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	again, err := FromSession(s)
	if err != nil || again.Scenario.Metadata.Name != d.Scenario.Metadata.Name || again.hints != n || !again.solution {
		t.Errorf("%v, %+v", err, again)
	}
	if out, code := asked(t, &Drill{}, p, "drill", "check"); code == 0 || !strings.Contains(out, "free shell") {
		t.Error(out)
	}
	d.Exam = func(*front.Play, []string, int) (string, int) { return "", 0 }
	for _, c := range []string{"hint", "check", "solution", "trace"} {
		if _, code := asked(t, d, p, "drill", c); code == 0 {
			t.Errorf("an exam allows drill %s", c)
		}
	}
}
