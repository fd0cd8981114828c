package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chzyer/readline"
	"github.com/spf13/cobra"

	"ckadrill/grader"
	"ckadrill/scenarios"
	"ckadrill/shell/console"
	"ckadrill/shell/terminal"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
)

func examCommand() *cobra.Command {
	var f worldFlags
	var minutes int
	var script string
	c := &cobra.Command{
		Use:   "exam [NAME|FILE]",
		Short: "Sit a timed mock exam",
		Long: `Begins a mock exam, or goes on with the one in --session. Each task has a cluster of its own. The clock is yours: it
runs on when you leave. Inside, "exam help" tells how to go from task to task and how to hand in.

When the exam is handed in or its time is up, a report is printed and kept in the session's directory, as text and as JSON.

With -c, or with commands from a pipe, it runs a script in the current task instead; "exam next" in a script is for the
next call.

Exams that come with the program:
` + embeddedExams(),
		Example: `  ckadrill exam
  ckadrill exam second                               the one as long as the CKA
  ckadrill exam --session ~/exam1                    go on with it
  ckadrill exam first --session /tmp/e -c 'exam status'`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			l, _ := scenarios.EmbeddedExams()
			var names []string
			for _, e := range l {
				names = append(names, e.Name)
			}
			return names, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			in := input{batch: c.Flags().Changed("command"), script: script}
			if !in.batch && !readline.IsTerminal(int(os.Stdin.Fd())) {
				b, err := io.ReadAll(io.LimitReader(os.Stdin, maxInput))
				if err != nil {
					return err
				}
				in = input{batch: true, script: string(b)}
			}
			if minutes < 0 || minutes > 24*60 {
				return fmt.Errorf("--minutes must be from 1 to %d", 24*60)
			}
			dir := f.session
			if dir == "" {
				base, err := stateDir()
				if err != nil {
					return err
				}
				dir = filepath.Join(base, "exams", time.Now().Format("2006-01-02-150405"))
				say("this exam is kept in %s; ckadrill exam --session %s goes on with it", dir, dir)
			}
			e, err := openExam(dir, args, minutes)
			if err != nil {
				return err
			}
			return sit(e, f, in)
		},
	}
	f.add(c)
	c.Flags().IntVar(&minutes, "minutes", 0, "how long the exam takes, if not as long as it says itself")
	c.Flags().StringVarP(&script, "command", "c", "", "run this script in the current task and exit with its status")
	return c
}

// embeddedExams is a line for each exam that comes with the program.
func embeddedExams() string {
	var b strings.Builder
	l, err := scenarios.EmbeddedExams()
	if err != nil {
		return err.Error()
	}
	for _, e := range l {
		fmt.Fprintf(&b, "  %-10s %s (%d tasks, %d minutes)\n", e.Name, e.Title, len(e.Tasks), e.Minutes)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// openExam goes on with the exam in a directory, or begins one there.
func openExam(dir string, args []string, minutes int) (*grader.Exam, error) {
	known, err := scenarios.Embedded()
	if err != nil {
		return nil, err
	}
	e, err := grader.ResumeExam(dir, known)
	if err == nil && len(args) == 1 && args[0] != e.Paper.Name && args[0] != e.Paper.File {
		return nil, fmt.Errorf("the exam in %s is %s, not %s", dir, e.Paper.Name, args[0])
	}
	if !errors.Is(err, grader.ErrNoExam) {
		return e, err
	}
	name := "first"
	if len(args) == 1 {
		name = args[0]
	}
	paper, err := scenarios.FindExam(name)
	if err != nil {
		return nil, err
	}
	drills, err := paper.Drills(known)
	if err != nil {
		return nil, err
	}
	return grader.BeginExam(dir, paper, drills, minutes)
}

// sit lets the candidate go from task to task until the exam is over or they leave, and then judges it.
func sit(e *grader.Exam, f worldFlags, in input) error {
	var t *terminal.Terminal
	exit := 0
	if !in.batch && !e.Over() {
		var err error
		if t, err = terminal.New(nil); err != nil {
			return err
		}
		defer t.Close()
		t.Decorate = e.Prompt
	}
	for !e.Over() {
		var err error
		if exit, err = sitTask(e, f, in, t); err != nil {
			return err
		}
		moved := e.Moved()
		if in.batch || !moved && !e.Over() {
			break // the script has ended, or the candidate has left
		}
	}
	if !e.Over() {
		if !in.batch {
			say("the exam's clock runs on")
		}
		if exit != 0 {
			return exitError(exit)
		}
		return nil
	}
	return judgeExam(e, f)
}

// killPatience is how long a command may go on after the exam's time is up.
const killPatience = 2 * time.Second

// sitTask opens the current task and lets the candidate, or a script, work on it.
func sitTask(e *grader.Exam, f worldFlags, in input, t *terminal.Terminal) (int, error) {
	i := e.Current()
	s, err := session.Open(e.TaskDir(i))
	if err != nil {
		return 1, err
	}
	if !s.Empty() {
		if err := f.restore(s); err != nil {
			s.Close()
			return 1, err
		}
	} else if c := e.Drills[i].Cluster; c != "" {
		f.preset = c
	}
	d := &grader.Drill{Scenario: e.Drills[i], Exam: e.Answer, Interactive: !in.batch, Lab: grader.NewLab(f.boot(), 0)}
	p := &front.Play{Boot: f.boot(), Limit: f.limit, Say: say, Session: s, OnOutside: d.Answer}
	for k, v := range d.Options() {
		p.Boot.Options[k] = v
	}
	if err := p.Open(); err != nil {
		s.Close()
		return 1, err
	}
	defer p.Close()
	if err := d.Setup(p); err != nil {
		return 1, err
	}
	end := time.AfterFunc(e.Left(), func() {
		p.Leave()
		if t != nil {
			fmt.Println()
			say("the time is up")
			t.Cancel()
		}
		time.Sleep(killPatience)
		p.Worker().Kill()
	})
	defer end.Stop()
	if in.batch {
		exit, err := console.Batch(p, in.script, in.stdin, os.Stdout, os.Stderr)
		if err != nil && e.Over() && front.Lost(err) {
			say("the time is up")
			return exit, nil
		}
		return exit, err
	}
	columns, _ := t.Size()
	fmt.Printf("\n%s\nexam help tells how to go on.\n\n", e.Task(columns))
	return console.Interactive(p, t)
}

// judgeExam judges an exam that is over and prints the report; one that was judged before is not judged again.
func judgeExam(e *grader.Exam, f worldFlags) error {
	r, err := e.Report()
	if err != nil {
		return err
	}
	if r == nil {
		if r, err = gradeExam(e, f); err != nil {
			return err
		}
	}
	fmt.Print("\n", r.Text())
	if !r.Passed {
		return exitError(1)
	}
	return nil
}

func gradeExam(e *grader.Exam, f worldFlags) (*grader.Report, error) {
	terminal := readline.IsTerminal(int(os.Stderr.Fd()))
	r, err := e.Grade(grader.NewLab(f.boot(), 0), func(done, of int) {
		if terminal {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%d of %d tasks judged", done, of)
		}
	})
	if terminal {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	return r, err
}
