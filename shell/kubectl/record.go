package kubectl

import (
	"os"

	"github.com/spf13/cobra"
)

// showArguments lets a command that has --record see what was typed: upstream makes the change cause of the host process's
// arguments, which it reads at the beginning of the command's run.
func (i *invocation) showArguments(c *cobra.Command) {
	run := c.Run
	if run == nil || c.Flags().Lookup("record") == nil {
		return
	}
	c.Run = func(c *cobra.Command, args []string) {
		os.Args = append([]string{"kubectl"}, i.p.Argv[1:]...)
		run(c, args)
	}
}
