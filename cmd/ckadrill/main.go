// Command ckadrill simulates a kubeadm cluster for exam drills.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckadrill/sim/front"
	"ckadrill/sim/wire/early"
)

// version is set by the build.
var version = "devel"

// exitError ends the program with a status and without a message: what there was to say has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	if front.IsWorker() {
		runWorker(prepare, assemble)
	}
	early.Over()
	// cobra adds the process-wide flags to every command, and Kubernetes' code registers its own there.
	pflag.CommandLine = pflag.NewFlagSet("ckadrill", pflag.ContinueOnError)
	err := root().Execute()
	var exit exitError
	switch {
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case err != nil:
		fmt.Fprintln(os.Stderr, "ckadrill:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:   "ckadrill",
		Short: "A Kubernetes cluster in one process, for exam drills",
		Long: `ckadrill runs a kubeadm cluster of three machines inside one process: Kubernetes' own control plane and kubectl on
a simulated kernel. It breaks the way a real cluster breaks, and is repaired with the commands of the exam.

Nothing leaves this process: no containers, no network, no file of yours is touched.`,
		Example: `  ckadrill drill                    choose a drill
  ckadrill shell                    a free cluster to play with
  ckadrill shell -c 'kubectl get nodes'
  ckadrill serve                    its API for your own kubectl`,
		SilenceUsage: true, SilenceErrors: true, Version: version,
	}
	c.AddCommand(shellCommand(), resumeCommand(), serveCommand(), drillCommand(), listCommand(), lintCommand(), verifyCommand(), examCommand(), transcriptCommand(), presetCommand())
	return c
}
