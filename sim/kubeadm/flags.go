package kubeadm

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
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
