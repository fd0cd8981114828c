package kubeadm

import (
	"path"
	"strings"

	"github.com/spf13/cobra"
)

// useKubeconfig lets --kubeconfig name a private copy, of the file that kubeadm would have taken: the flag's, else the first
// that exists of $KUBECONFIG or ~/.kube/config and admin.conf.
func (c *command) useKubeconfig(cmd *cobra.Command) error {
	if err := c.useConfigFile(cmd); err != nil {
		return err
	}
	f := cmd.Flags().Lookup("kubeconfig")
	if f == nil {
		return nil
	}
	name := f.Value.String()
	if name == "" {
		name = c.defaultKubeconfig()
	}
	private, err := c.connectable(c.p.Path(name))
	if err != nil {
		return err
	}
	return f.Value.Set(private)
}

func (c *command) defaultKubeconfig() string {
	candidates := []string{path.Join(c.p.Getenv("HOME"), ".kube/config")}
	if env := c.p.Getenv("KUBECONFIG"); env != "" {
		candidates = strings.Split(env, ":")
	}
	candidates = append(candidates, kubernetesDir+"/admin.conf")
	for _, f := range candidates {
		if _, err := c.p.Files.Stat(c.p.Path(f)); err == nil {
			return f
		}
	}
	return candidates[0]
}
