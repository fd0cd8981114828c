package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ckadrill/scenarios"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
)

func resume(s *session.Session, f worldFlags) error {
	p := &front.Play{Boot: f.boot(), Say: say, Session: s}
	return play(p, false, "", nil)
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
