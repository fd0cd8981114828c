package grader

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"ckadrill/sim/kernel"
)

// Names of the programs by which a candidate talks to the examiner, and of the questions that they ask the user's side.
const (
	programDrill = "drill"
	programExam  = "exam"
)

// BinDir is where the programs lie on every machine.
const BinDir = "/usr/local/bin"

// question is what a program asks the front process, see [kernel.World.Outside].
type question struct {
	Args    []string
	Columns int
}

// reply is what the program then prints, and its exit status.
type reply struct {
	Text string
	Exit int
}

const drillHelp = `Usage: drill COMMAND

  task              print the task again
  check             judge the cluster as it is now; consequences are tried out in copies
  hint              print the next hint
  solution [--yes]  print the solution
  trace KIND/NAME   print what led to an object and what followed from it (-n NAMESPACE)
  skip DURATION     let simulated time pass: 90s, 5m, 1h
  time              print the simulated time
  undo              take back the last command and everything that has happened since
  reset             go back to the beginning of the drill
  quit              end the drill; the session is kept
`

// Register adds the programs drill and exam to a world.
func Register(w *kernel.World) {
	w.Programs.Register(programDrill, drillMain)
	w.Programs.Register(programExam, examMain)
}

// Install writes the programs' files to a machine.
func Install(f kernel.Files) error {
	for _, n := range []string{programDrill, programExam} {
		if err := f.WriteFile(BinDir+"/"+n, kernel.Executable(n), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func drillMain(p *kernel.Process) int {
	args := p.Argv[1:]
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		p.Printf("%s", drillHelp)
		return 0
	}
	switch args[0] {
	case "trace":
		// Only an exam has something against it.
		if a, err := outside(p.World(), programDrill, question{Args: args[:1], Columns: 80}); err == nil && a.Exit != 0 {
			p.Errorf("%s", a.Text)
			return a.Exit
		}
		return traceMain(p, args[1:])
	case "check":
		if p.TTY != nil {
			p.Errorf("Looking, and trying out in copies of the cluster what follows ...\n")
		}
	case "solution":
		if len(args) == 1 {
			if !confirm(p, "Show the solution? The session notes it. [y/N] ") {
				return 1
			}
			args = append(args, "--yes")
		}
	case "task", "hint", "skip", "undo", "reset", "time", "quit":
	default:
		p.Errorf("drill: unknown command %q\n%s", args[0], drillHelp)
		return 2
	}
	return ask(p, programDrill, args)
}

// ask asks the user's side and prints its answer.
func ask(p *kernel.Process, program string, args []string) int {
	q := question{Args: args, Columns: 80}
	if p.TTY != nil {
		q.Columns, _ = p.TTY.Size()
	}
	a, err := outside(p.World(), program, q)
	if err != nil {
		p.Errorf("%s: %v\n", program, err)
		return 1
	}
	if a.Exit != 0 && strings.HasPrefix(a.Text, program+": ") {
		p.Errorf("%s", a.Text)
	} else {
		p.Printf("%s", a.Text)
	}
	return a.Exit
}

func outside(w *kernel.World, name string, q question) (a reply, err error) {
	if w.Outside == nil {
		return a, errors.New("nobody is there to answer")
	}
	b, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	out, err := w.Outside(name, b)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(out, &a)
}

// confirm asks whoever is at standard input.
func confirm(p *kernel.Process, prompt string) bool {
	var line string
	if p.TTY != nil {
		line, _ = p.TTY.ReadLine(prompt, nil)
	} else {
		p.Errorf("%s", prompt)
		var b [1]byte
		for len(line) < 100 {
			if _, err := io.ReadFull(p.Stdin, b[:]); err != nil || b[0] == '\n' {
				break
			}
			line += string(b[:])
		}
		p.Errorf("\n")
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	p.Errorf("drill: not shown; drill solution --yes does not ask\n")
	return false
}

const examHelp = `Usage: exam COMMAND

  status    print the time left and all tasks
  task      print the current task again
  next      go on to the next task
  previous  go back to the task before
  goto N    go to task N
  flag      mark the current task, or take the mark away
  submit    hand in; --yes does not ask
`

func examMain(p *kernel.Process) int {
	args := p.Argv[1:]
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		p.Printf("%s", examHelp)
		return 0
	}
	if args[0] == "submit" && len(args) == 1 {
		a, err := outside(p.World(), programExam, question{Args: []string{"status"}, Columns: 80})
		if err != nil {
			p.Errorf("exam: %v\n", err)
			return 1
		}
		if a.Exit != 0 {
			p.Errorf("%s", a.Text)
			return a.Exit
		}
		if !confirm(p, fmt.Sprintf("%sHand in all tasks? [y/N] ", a.Text)) {
			return 1
		}
		args = append(args, "--yes")
	}
	return ask(p, programExam, args)
}
