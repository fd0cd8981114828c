package apiclient

import (
	"fmt"
	"net"

	"ckadrill/sim/kernel"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
)

const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster is the configuration of a process in a Pod: its ServiceAccount's token and CA, and the API server that its
// environment names. It is rest.InClusterConfig over the process's own files and environment, with its errors.
func InCluster(p *kernel.Process) (*rest.Config, error) {
	host, port := p.Getenv("KUBERNETES_SERVICE_HOST"), p.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, rest.ErrNotInCluster
	}
	token, err := p.ReadFile(serviceAccountDir + "/token")
	if err != nil {
		return nil, err
	}
	c := &rest.Config{Host: "https://" + net.JoinHostPort(host, port), BearerToken: string(token), BearerTokenFile: serviceAccountDir + "/token"}
	if ca, err := p.ReadFile(serviceAccountDir + "/ca.crt"); err != nil {
		klog.Errorf("Expected to load root CA config from %s, but got err: %v", serviceAccountDir+"/ca.crt", err)
	} else {
		c.CAData = ca
	}
	c.BearerToken = "" // the file is read again when it changes
	return c, ConfigureREST(p, c)
}

// Kubeconfig is the configuration that a kubeconfig file of the process describes, with its current context. Files that it
// names are relative to it, as for clientcmd. Errors are clientcmd's.
func Kubeconfig(p *kernel.Process, name string) (*rest.Config, error) {
	c, err := LoadKubeconfig(p, name)
	if err != nil {
		return nil, err
	}
	r, err := clientcmd.NewDefaultClientConfig(*c, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("invalid configuration: %w", err)
	}
	return r, ConfigureREST(p, r)
}

// LoadKubeconfig reads a kubeconfig file of the process, with the names of files in it made absolute.
func LoadKubeconfig(p *kernel.Process, name string) (*clientcmdapi.Config, error) {
	b, err := p.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := clientcmd.Load(b)
	if err != nil {
		return nil, fmt.Errorf("error loading config file \"%s\": %w", name, err)
	}
	for _, o := range c.Clusters {
		o.LocationOfOrigin = p.Path(name)
	}
	for _, o := range c.AuthInfos {
		o.LocationOfOrigin = p.Path(name)
	}
	for _, o := range c.Contexts {
		o.LocationOfOrigin = p.Path(name)
	}
	return c, clientcmd.ResolveLocalPaths(c)
}
