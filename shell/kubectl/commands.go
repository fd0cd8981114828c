package kubectl

import (
	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/auth"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// replaceCommands puts our own run in the place of upstream's where that would touch the host. Flags, help and completion
// stay upstream's.
func (i *invocation) replaceCommands() {
	for _, a := range i.p.Argv[1:] {
		if a == "config" { // its files are copied only when they may be wanted
			i.replaceConfig()
			break
		}
	}
	i.find("auth", "can-i").Run = i.canI
	i.replaceVersion()
	i.replaceExec()
	i.replaceDiff()
	i.replaceEdit()
	i.replaceProxy()
	i.replacePortForward()
	i.replacePlugin()
	i.replaceCopy()
	kustomize := i.find("kustomize")
	if run := kustomize.RunE; run != nil {
		kustomize.RunE = func(c *cobra.Command, args []string) error { return run(c, i.kustomizeArgs(args)) }
	}
	if run := kustomize.Run; run != nil {
		kustomize.Run = func(c *cobra.Command, args []string) { run(c, i.kustomizeArgs(args)) }
	}
	post := i.root.PersistentPostRunE
	i.root.PersistentPostRunE = func(c *cobra.Command, args []string) error {
		if err := post(c, args); err != nil {
			return err
		}
		if on, _ := i.root.PersistentFlags().GetBool("warnings-as-errors"); on {
			return i.warningsAsErrors()
		}
		return nil
	}
}

// canI is "auth can-i", whose no is an exit code of 1.
func (i *invocation) canI(c *cobra.Command, args []string) {
	o := &auth.CanIOptions{IOStreams: i.streams}
	o.AllNamespaces, o.Quiet, o.List, o.NoHeaders = boolFlag(c, "all-namespaces"), boolFlag(c, "quiet"), boolFlag(c, "list"), boolFlag(c, "no-headers")
	o.Subresource = stringFlag(c, "subresource")
	cmdutil.CheckErr(o.Complete(i.f, args))
	cmdutil.CheckErr(o.Validate())
	if o.List {
		cmdutil.CheckErr(o.RunAccessList())
		return
	}
	allowed, err := o.RunAccessCheck()
	cmdutil.CheckErr(err)
	if !allowed {
		i.p.Exit(1)
	}
}

func boolFlag(c *cobra.Command, name string) bool {
	b, err := c.Flags().GetBool(name)
	cmdutil.CheckErr(err)
	return b
}

func stringFlag(c *cobra.Command, name string) string {
	f := c.Flags().Lookup(name)
	if f == nil {
		return ""
	}
	return f.Value.String()
}
