// Command conformance runs Kubernetes' own conformance specs against "ckadrill serve" and writes what came of them to
// docs/conformance.md.
//
// The suite is built in a scratch module outside of the project, which it would double the dependencies of. Groups of specs
// run side by side, each against a cluster of its own; those that demand a cluster for themselves run one group at a time.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	ck := flag.String("ckadrill", "bin/ckadrill", "the program")
	scratch := flag.String("scratch", filepath.Join(os.TempDir(), "ckadrill-conformance"), "directory for the suite, the clusters and the reports")
	speed := flag.Float64("speed", 10, "simulated seconds for one of the host's")
	jobs := flag.Int("jobs", 3, "how many groups run at once")
	only := flag.String("run", "", "run only the group of this name")
	reports := flag.Bool("reports", false, "run nothing, only write the document from the reports that are there")
	doc := flag.String("doc", "docs/conformance.md", "the document to write")
	flag.Parse()
	err := func() error {
		s, err := newSuite(*scratch, *ck, *speed)
		if err != nil {
			return err
		}
		if !*reports {
			if err := s.build(); err != nil {
				return err
			}
			if err := s.run(*jobs, *only); err != nil {
				return err
			}
		}
		results, err := readReports(s.reports())
		if err != nil {
			return err
		}
		return os.WriteFile(*doc, document(results), 0o644)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}
