package kubeadm

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"

	"ckadrill/sim/kubeadm/host"
)

// A phase's command has only some of its workflow's flags. One that it does not have has no value.

func stringFlag(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

func boolFlag(cmd *cobra.Command, name string) bool { return stringFlag(cmd, name) == "true" }

func stringsFlag(cmd *cobra.Command, name string) []string {
	l, _ := cmd.Flags().GetStringSlice(name)
	return l
}

// criSocket is the flag --cri-socket, else the socket that is found on the machine, if the command has the flag at all.
func (c *command) criSocket(cmd *cobra.Command) (string, error) {
	f := cmd.Flags().Lookup(options.NodeCRISocket)
	if f == nil {
		return host.ContainerdSocket, nil
	}
	if f.Value.String() != "" {
		return f.Value.String(), nil
	}
	return host.DetectCRISocket(c.p)
}

// hostName is the machine's name as a node's.
func (c *command) hostName() string { return strings.ToLower(strings.TrimSpace(c.p.HostName())) }

// stdin is the command's standard input.
func (c *command) stdin() io.Reader {
	if c.p.Stdin == nil {
		return strings.NewReader("")
	}
	return c.p.Stdin
}

// copyFlags sets the flags of one set to what was given for the other's of the same names.
func copyFlags(from, to *pflag.FlagSet) error {
	var err error
	to.VisitAll(func(f *pflag.Flag) {
		given := from.Lookup(f.Name)
		if given == nil || !given.Changed || err != nil {
			return
		}
		if l, ok := given.Value.(pflag.SliceValue); ok {
			err = f.Value.(pflag.SliceValue).Replace(l.GetSlice())
		} else {
			err = f.Value.Set(given.Value.String())
		}
	})
	return err
}
