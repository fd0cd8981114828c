package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/chzyer/readline"
	"github.com/spf13/cobra"

	"ckadrill/grader"
	"ckadrill/scenarios"
)

func verifyCommand() *cobra.Command {
	var f worldFlags
	var jobs int
	var pattern string
	var verbose bool
	c := &cobra.Command{
		Use:   "verify [PATH...]",
		Short: "Prove that drills keep their promises",
		Long: `Plays each drill: an untouched cluster must not pass, the solution must score 100 %, and after each trap the checks
that it names must fail. It takes no real time to wait. Without a path it verifies the drills that come with the program.`,
		Example: `  ckadrill verify
  ckadrill verify --run 'kubelet-.*' -v
  ckadrill verify my-drills/`,
		RunE: func(_ *cobra.Command, args []string) error {
			re, err := regexp.Compile(pattern)
			if err != nil {
				return fmt.Errorf("--run: %w", err)
			}
			l, err := load(args)
			broken := err != nil
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			var chosen []*scenarios.Scenario
			for _, s := range l {
				if re.MatchString(s.Metadata.Name) {
					chosen = append(chosen, s)
				}
			}
			if len(chosen) == 0 && !broken {
				return fmt.Errorf("no drill is called like %q", pattern)
			}
			var progress io.Writer
			if readline.IsTerminal(int(os.Stderr.Fd())) {
				progress = os.Stderr
			}
			results := verifyAll(grader.NewLab(f.boot(), jobs), chosen, jobs, progress)
			if !printVerified(os.Stdout, results, verbose) || broken {
				return exitError(1)
			}
			return nil
		},
	}
	c.Flags().Uint64Var(&f.seed, "seed", 1, "what all randomness of the worlds comes from")
	c.Flags().IntVarP(&jobs, "jobs", "j", runtime.GOMAXPROCS(0), "how many worlds live at once")
	c.Flags().StringVar(&pattern, "run", "", "verify only drills whose name matches this regular expression")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what was seen")
	f.preset = "reference"
	return c
}

// verifyAll verifies scenarios, some at a time, and returns the results in their order.
func verifyAll(lab *grader.Lab, l []*scenarios.Scenario, jobs int, progress io.Writer) []*grader.Verification {
	results := make([]*grader.Verification, len(l))
	turns := make(chan struct{}, max(jobs, 1))
	var mu sync.Mutex
	finished, bad := 0, 0
	show := func() {
		if progress != nil {
			fmt.Fprintf(progress, "\r\x1b[K%d of %d verified, %d failed", finished, len(l), bad)
		}
	}
	show()
	var wg sync.WaitGroup
	for i, s := range l {
		wg.Add(1)
		turns <- struct{}{}
		go func() {
			defer wg.Done()
			defer func() { <-turns }()
			v := lab.Verify(s)
			results[i] = v
			mu.Lock()
			defer mu.Unlock()
			if finished++; !v.OK() {
				bad++
			}
			show()
		}()
	}
	wg.Wait()
	if progress != nil {
		fmt.Fprint(progress, "\r\x1b[K")
	}
	return results
}

// printVerified prints a table and what is wrong, and says whether nothing is.
func printVerified(w io.Writer, l []*grader.Verification, verbose bool) bool {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DRILL\tRESULT\tCHECKS\tTRAPS\tWORLDS\tTIME")
	bad := 0
	for _, v := range l {
		word := "ok"
		if !v.OK() {
			word = "FAILED"
			bad++
		}
		s := v.Scenario
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.1fs\n", s.Metadata.Name, word, len(s.Checks), len(s.Traps), v.Worlds, v.Took.Round(100*time.Millisecond).Seconds())
	}
	t.Flush()
	for _, v := range l {
		if !v.OK() || verbose {
			fmt.Fprintf(w, "\n%s (%s)\n", v.Scenario.Metadata.Name, v.Scenario.File)
		}
		for _, p := range v.Problems {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(p, "\n", "\n    "))
		}
		if verbose {
			for _, e := range v.Evidence {
				fmt.Fprintln(w, "  "+strings.ReplaceAll(e, "\n", "\n  "))
			}
		}
	}
	fmt.Fprintf(w, "\n%d verified, %d failed\n", len(l), bad)
	return bad == 0
}
