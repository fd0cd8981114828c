package helm

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"ckadrill/sim/network/apiclient"
)

// noCache is a directory that can't be made, so upstream keeps nothing on the host of what it discovers.
const noCache = "/dev/null/ckadrill"

// kubeconfig is a copy of the kubeconfig that upstream would find, with the files that it names put into it. Several are
// merged by upstream's rules into one.
func (i *invocation) kubeconfig() (string, error) {
	files := strings.Split(i.p.Getenv("KUBECONFIG"), ":")
	explicit := i.settings.KubeConfig
	if explicit != "" {
		files = []string{explicit}
	} else if strings.Trim(i.p.Getenv("KUBECONFIG"), ":") == "" {
		files = []string{path.Join(i.m.home(), ".kube", "config")}
	}
	merged := clientcmdapi.NewConfig()
	for _, f := range files {
		if f == "" {
			continue
		}
		c, err := apiclient.LoadKubeconfig(i.p, f)
		switch {
		case errors.Is(err, fs.ErrNotExist) && explicit == "":
			continue
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("Kubernetes cluster unreachable: stat %s: no such file or directory", f)
		case err != nil:
			return "", fmt.Errorf("Kubernetes cluster unreachable: error loading config file \"%s\": %w", f, err)
		}
		merge(merged.Clusters, c.Clusters)
		merge(merged.AuthInfos, c.AuthInfos)
		merge(merged.Contexts, c.Contexts)
		if merged.CurrentContext == "" {
			merged.CurrentContext = c.CurrentContext
		}
	}
	if _, err := apiclient.Inline(i.p, merged, &clientcmd.ConfigOverrides{CurrentContext: i.settings.KubeContext}); err != nil {
		return "", fmt.Errorf("Kubernetes cluster unreachable: %w", err)
	}
	b, err := clientcmd.Write(*merged)
	if err != nil {
		return "", err
	}
	return i.m.content("kubeconfig", b)
}

// merge adds what an earlier file has not.
func merge[V any](to, from map[string]V) {
	for k, v := range from {
		if _, ok := to[k]; !ok {
			to[k] = v
		}
	}
}

// wrapConfig makes a client of the world out of the configuration that upstream has read from the copy.
func (i *invocation) wrapConfig(upstream func(*rest.Config) *rest.Config) func(*rest.Config) *rest.Config {
	return func(c *rest.Config) *rest.Config {
		c = rest.CopyConfig(upstream(c))
		if c.ExecProvider != nil || c.AuthProvider != nil {
			fmt.Fprintln(i.errOut, "Error:", notSimulated("credential plugins of a kubeconfig"))
			i.p.Exit(1)
		}
		if f := c.CAFile; f != "" { // --kube-ca-file, which is the machine's
			c.CAFile = i.m.clientName(f)
		}
		if !strings.Contains(c.Host, "://") && (c.Insecure || len(c.CAData)+len(c.CertData)+len(c.CAFile) > 0) {
			c.Host = "https://" + c.Host
		}
		c.WarningHandler = rest.NewWarningWriter(i.errOut, rest.WarningWriterOptions{Deduplicate: true})
		if err := apiclient.ConfigureREST(i.p, c); err != nil {
			fmt.Fprintln(i.errOut, "Error:", err)
			i.p.Exit(1)
		}
		c.TLSClientConfig = rest.TLSClientConfig{}
		return c
	}
}
