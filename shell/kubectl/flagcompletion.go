package kubectl

import (
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// cobra keeps the completion functions of flags in a table of the whole host process, by flag, and never forgets one: made
// for a program that runs once, it would keep every command tree that was ever made, and with it all that its run used.
//
//go:linkname flagCompletionFunctions github.com/spf13/cobra.flagCompletionFunctions
var flagCompletionFunctions map[*pflag.Flag]cobra.CompletionFunc

//go:linkname flagCompletionMutex github.com/spf13/cobra.flagCompletionMutex
var flagCompletionMutex *sync.RWMutex

// forgetFlags takes a command and all below it out of cobra's table.
func forgetFlags(c *cobra.Command) {
	flagCompletionMutex.Lock()
	defer flagCompletionMutex.Unlock()
	var forget func(c *cobra.Command)
	forget = func(c *cobra.Command) {
		for _, s := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			s.VisitAll(func(f *pflag.Flag) { delete(flagCompletionFunctions, f) })
		}
		for _, sub := range c.Commands() {
			forget(sub)
		}
	}
	forget(c)
}
