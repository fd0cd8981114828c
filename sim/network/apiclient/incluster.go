package apiclient

import (
	"net"

	"ckadrill/sim/kernel"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster is the configuration of a process in a Pod: its ServiceAccount's token and CA, and the API server that its
// environment names.
func InCluster(p *kernel.Process) (*rest.Config, error) {
	c, err := LoadInCluster(p)
	if err != nil {
		return nil, err
	}
	return c, ConfigureREST(p, c)
}

// LoadInCluster is rest.InClusterConfig over the process's own files and environment, with its errors.
// [ConfigureREST] makes it use the network of the world.
func LoadInCluster(p *kernel.Process) (*rest.Config, error) {
	host, port := p.Getenv("KUBERNETES_SERVICE_HOST"), p.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, rest.ErrNotInCluster
	}
	if _, err := p.ReadFile(serviceAccountDir + "/token"); err != nil {
		return nil, err
	}
	// The token is read from the file, again when it changes.
	c := &rest.Config{Host: "https://" + net.JoinHostPort(host, port), BearerTokenFile: serviceAccountDir + "/token"}
	if ca, err := p.ReadFile(serviceAccountDir + "/ca.crt"); err != nil {
		klog.Errorf("Expected to load root CA config from %s, but got err: %v", serviceAccountDir+"/ca.crt", err)
	} else {
		c.CAData = ca
	}
	return c, nil
}
