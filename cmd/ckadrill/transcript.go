package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ckadrill/sim/wire"
	"ckadrill/transcript"
)

// recordedCluster is the preset that is like the cluster of the recordings.
const recordedCluster = "recorded"

func transcriptCommand() *cobra.Command {
	f := worldFlags{preset: recordedCluster}
	var jobs, draws int
	var verbose, thaw bool
	c := &cobra.Command{
		Use:   "transcript FILE...",
		Short: "Compare recorded console sessions of a real cluster with the simulation",
		Long: `Plays the commands of recorded console sessions, each in one bash of root on a fresh cluster like that of the recordings,
and compares what is printed with what was recorded. It takes no real time to wait.

What no two clusters share - ages, dates, uids, generated names, addresses, ids, tokens, the node that was chosen - is made
equal first; then each command that differs is shown as a unified diff. A file NAME.exceptions beside NAME.console is a YAML
list of what may differ, each with a reason; one that is not needed is an error:

  - line: 12                  where the command stands in the recording
    command: kubectl get cm   how it begins
    recorded: ^kubeadm-       lines that only the recording has, and (or)
    printed: ^flannel         lines that only the simulation prints; or "whole: true"
    chance: true              it is drawn at random, so that it need not differ
    reason: why the recording is not the truth here

What a real cluster drew at random, such as how long a back-off lasts, cannot be known. --draws finds a seed with which the
simulation draws alike; an exception of "seed: N" and a reason keeps it.`,
		Example: `  ckadrill transcript recordings/workloads/crashloop.console
  ckadrill transcript -j 4 recordings/*/*.console
  ckadrill transcript -v --seed 7 recordings/cluster/mirror-pods.console`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			results, err := playTranscripts(f.boot(), args, playing{jobs: jobs, draws: draws, thaw: thaw}, func(r *transcript.Result) { printTranscript(os.Stdout, r, verbose) })
			if err != nil {
				return err
			}
			if !printTranscripts(os.Stdout, results) {
				return exitError(1)
			}
			return nil
		},
	}
	c.Flags().Uint64Var(&f.seed, "seed", 1, "what all randomness of the worlds comes from")
	c.Flags().IntVarP(&jobs, "jobs", "j", runtime.GOMAXPROCS(0), "how many worlds live at once")
	c.Flags().IntVar(&draws, "draws", 1, "how many seeds to try with a recording that is not equal")
	c.Flags().BoolVar(&thaw, "thaw", false, "freeze the world after each command and go on in a new process; it must change nothing")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the commands that are equal, and the steps that were found to be hidden, too")
	return c
}

// playing is how recordings are played.
type playing struct {
	// jobs is how many at once, draws with how many seeds at most.
	jobs, draws int
	// thaw goes on in a new worker after each command.
	thaw bool
}

// playTranscripts reads recordings and plays them, some at a time. It calls show for each, in their order, as soon as it
// has been played; an error is about a file that cannot be read, before anything is played.
func playTranscripts(boot wire.Boot, files []string, how playing, show func(*transcript.Result)) ([]*transcript.Result, error) {
	recordings := make([]*transcript.Recording, len(files))
	exceptions := make([]transcript.Exceptions, len(files))
	for i, file := range files {
		var err error
		if recordings[i], err = transcript.Read(file); err != nil {
			return nil, err
		}
		if exceptions[i], err = transcript.ReadExceptions(recordings[i]); err != nil {
			return nil, err
		}
	}
	results := make([]*transcript.Result, len(files))
	played := make([]chan struct{}, len(files))
	for i := range played {
		played[i] = make(chan struct{})
	}
	jobs := max(how.jobs, 1)
	boot.Processors = max(runtime.GOMAXPROCS(0)/jobs, 1)
	turns := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := range files {
			<-played[i]
			if show != nil {
				show(results[i])
			}
		}
	}()
	for i := range files {
		turns <- struct{}{}
		go func() {
			results[i] = playTranscript(boot, recordings[i], exceptions[i], how)
			close(played[i])
			<-turns
		}()
	}
	wg.Wait()
	return results, nil
}

// playTranscript plays a recording with up to so many seeds, until it is equal, and returns the best result.
func playTranscript(boot wire.Boot, r *transcript.Recording, e transcript.Exceptions, how playing) *transcript.Result {
	best := transcript.Play(boot, r, e, how.thaw)
	for i := 1; i < how.draws && !best.Equal() && e.Seed == 0; i++ {
		boot.Seed++
		if res := transcript.Play(boot, r, e, how.thaw); best.Err != nil || res.Equal() || res.Err == nil && res.Differing() < best.Differing() {
			best = res
		}
	}
	return best
}

// printTranscript prints how a recording went: a line when it is equal, else what differs.
func printTranscript(w io.Writer, r *transcript.Result, verbose bool) {
	word := "PASS"
	if !r.Equal() {
		word = "FAIL"
	}
	fmt.Fprintf(w, "%s %s/%s (%d commands", word, r.Recording.Area, r.Recording.Name, len(r.Recording.Steps))
	if n := r.Differing(); n > 0 {
		fmt.Fprintf(w, ", %d differ", n)
	}
	if r.Exceptions > 0 {
		fmt.Fprintf(w, ", %d exceptions", r.Exceptions)
	}
	if r.Seed != 1 {
		fmt.Fprintf(w, ", seed %d", r.Seed)
	}
	fmt.Fprintf(w, ", %.1fs)\n", r.Took.Round(100*time.Millisecond).Seconds())
	for _, o := range r.Steps {
		if o.Diff == "" && !verbose {
			continue
		}
		fmt.Fprintf(w, "  line %d: $ %s\n", o.Step.Line, transcript.Summary(o.Step.Command))
		for _, h := range o.Hidden {
			fmt.Fprintf(w, "    (hidden before it: %s)\n", h)
		}
		if o.Diff != "" {
			fmt.Fprint(w, "    "+strings.ReplaceAll(strings.TrimSuffix(o.Diff, "\n"), "\n", "\n    ")+"\n")
		}
	}
	for _, err := range r.Unneeded {
		fmt.Fprintf(w, "  %v\n", err)
	}
	if r.Err != nil {
		fmt.Fprintf(w, "  %v\n", r.Err)
	}
}

// printTranscripts prints the sum and says whether all recordings are equal.
func printTranscripts(w io.Writer, l []*transcript.Result) bool {
	bad, exceptions := 0, 0
	for _, r := range l {
		if !r.Equal() {
			bad++
		}
		exceptions += r.Exceptions
	}
	if exceptions > 0 {
		fmt.Fprintf(w, "%d exceptions were used\n", exceptions)
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", len(l)-bad, bad)
	return bad == 0
}
