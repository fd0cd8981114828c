package apiclient

import (
	"net"

	"ckadrill/sim/kernel"

	"k8s.io/client-go/rest"
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
