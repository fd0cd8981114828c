package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/chzyer/readline"
	"github.com/spf13/cobra"

	"ckadrill/grader"
	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
)

func drillCommand() *cobra.Command {
	var f worldFlags
	var script string
	var random bool
	c := &cobra.Command{
		Use:   "drill [NAME|FILE]",
		Short: "Solve a drill",
		Long: `Boots a cluster, breaks it as the drill says, prints the task and opens a shell as user candidate on cka-cp1.
Inside, "drill check" judges what you have done, and "drill help" tells what else there is.

Without a name it asks which drill. With --random it breaks one to three things of the list in docs/faults.md; all must work
again, and nothing else may be changed. --seed says which things; the same seed breaks the same.

With -c it runs a script instead and exits with the script's status.
With --session the drill goes on where the last call with that directory ended.`,
		Example: `  ckadrill drill
  ckadrill drill kubelet-stopped
  ckadrill drill kubelet-stopped -c 'ssh cka-w1 sudo systemctl enable --now kubelet; drill check'
  ckadrill drill --random
  ckadrill drill --random --seed 7`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := input{batch: c.Flags().Changed("command"), script: script}
			if f.session != "" && len(args) == 0 {
				if s, err := session.Open(f.session); err != nil {
					return err
				} else if !s.Empty() {
					return resume(s, f, in)
				} else if err := s.Close(); err != nil {
					return err
				}
			}
			var s *scenarios.Scenario
			var err error
			switch {
			case !random:
				s, err = choose(args)
			case len(args) > 0:
				err = fmt.Errorf("--random takes no drill: %s", args[0])
			default:
				if !c.Flags().Changed("seed") {
					f.seed = rand.Uint64N(seeds)
				}
				s, err = randomDrill(f)
			}
			if err != nil {
				return err
			}
			return runDrill(s, f, in)
		},
	}
	f.add(c)
	c.Flags().StringVarP(&script, "command", "c", "", "run this script and exit with its status")
	c.Flags().BoolVar(&random, "random", false, "break one to three things, which the seed draws, or chance without --seed")
	return c
}

// choose finds the drill that was named, by name or file, or asks the user.
func choose(args []string) (*scenarios.Scenario, error) {
	if len(args) == 1 && isFile(args[0]) {
		l, err := scenarios.Load(args[0])
		if err != nil {
			return nil, err
		}
		if len(l) != 1 {
			return nil, fmt.Errorf("%s holds %d drills; name one file", args[0], len(l))
		}
		return l[0], nil
	}
	l, err := scenarios.Embedded()
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		return scenarios.Find(l, args[0])
	}
	asks := readline.IsTerminal(int(os.Stdin.Fd()))
	if err := printNumbered(os.Stdout, l); err != nil {
		return nil, err
	}
	if !asks {
		fmt.Fprintln(os.Stderr, "ckadrill: which drill? Name one: ckadrill drill NAME")
		return nil, exitError(2)
	}
	return pick(l, os.Stdin, os.Stdout)
}

func isFile(name string) bool {
	return strings.ContainsAny(name, `/\.`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

func printNumbered(w io.Writer, l []*scenarios.Scenario) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, s := range l {
		m := s.Metadata
		fmt.Fprintf(t, "%3d\t%s\t%s\t%d min\t%s\n", i+1, m.Name, m.Difficulty, m.Minutes, m.Title)
	}
	return t.Flush()
}

// pick asks for a drill by its number or name.
func pick(l []*scenarios.Scenario, in io.Reader, out io.Writer) (*scenarios.Scenario, error) {
	r := bufio.NewReader(io.LimitReader(in, 64<<10))
	for {
		fmt.Fprint(out, "Which drill (number or name, empty to leave)? ")
		line, err := r.ReadString('\n')
		line = strings.TrimSpace(line)
		if line == "" {
			if err == nil {
				return nil, exitError(0)
			}
			fmt.Fprintln(out)
			return nil, exitError(2)
		}
		if n, e := strconv.Atoi(line); e == nil && n >= 1 && n <= len(l) {
			return l[n-1], nil
		}
		s, e := scenarios.Find(l, line)
		if e == nil {
			return s, nil
		}
		fmt.Fprintln(out, e)
		if err != nil {
			return nil, exitError(2)
		}
	}
}

// runDrill begins a drill, or goes on with it when the session is about the same one.
func runDrill(s *scenarios.Scenario, f worldFlags, in input) error {
	d := &grader.Drill{Scenario: s}
	var ses *session.Session
	if f.session != "" || !in.batch {
		var err error
		if ses, err = openSession(f.session); err != nil {
			return err
		}
		if !ses.Empty() {
			kept, err := grader.FromSession(ses)
			if err == nil && (kept.Scenario == nil || kept.Scenario.Metadata.Name != s.Metadata.Name) {
				err = fmt.Errorf("the session in %s is not about %s", f.session, s.Metadata.Name)
			}
			if err != nil {
				ses.Close()
				return err
			}
			return resume(ses, f, in)
		}
	}
	if s.Cluster != "" {
		f.preset = s.Cluster
	}
	return playDrill(d, f, ses, in)
}

// playDrill opens a drill's world, sets it up if that was not done before, and lets the user or a script work in it.
func playDrill(d *grader.Drill, f worldFlags, s *session.Session, in input) error {
	p := &front.Play{Boot: f.boot(), Limit: f.limit, Say: say, Session: s, OnOutside: d.Answer}
	for k, v := range d.Options() {
		p.Boot.Options[k] = v
	}
	d.Lab, d.Interactive = grader.NewLab(f.boot(), 0), !in.batch
	fresh := s == nil || s.Empty()
	if err := p.Open(); err != nil {
		if s != nil {
			s.Close()
		}
		return err
	}
	if err := d.Setup(p); err != nil {
		p.Close()
		return err
	}
	if d.Scenario != nil && !in.batch {
		columns := 80
		if w, _, err := readline.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
			columns = w
		}
		if fresh {
			fmt.Println()
		}
		fmt.Print(grader.Task(d.Scenario, columns), "\n", "drill check judges your work; drill help tells what else there is.\n\n")
	}
	return work(p, in)
}

// resume goes on with a session, whatever it is about; an empty one becomes a free shell's.
func resume(s *session.Session, f worldFlags, in input) error {
	d, err := grader.FromSession(s)
	if err == nil && !s.Empty() {
		err = f.restore(s)
	}
	if err != nil {
		s.Close()
		return err
	}
	return playDrill(d, f, s, in)
}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [PATH...]",
		Short: "List the drills",
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := load(args)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tDOMAIN\tDIFFICULTY\tMINUTES\tTITLE")
			for _, s := range l {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", s.Metadata.Name, s.Metadata.Domain, s.Metadata.Difficulty, s.Metadata.Minutes, s.Metadata.Title)
			}
			return w.Flush()
		},
	}
}

// load reads scenarios from paths, or the embedded ones.
func load(paths []string) ([]*scenarios.Scenario, error) {
	if len(paths) == 0 {
		return scenarios.Embedded()
	}
	return scenarios.Load(paths...)
}

func lintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint [PATH...]",
		Short: "Check scenario files without running them",
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := load(args)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return exitError(1)
			}
			fmt.Printf("%d scenarios are well-formed\n", len(l))
			return nil
		},
	}
}
