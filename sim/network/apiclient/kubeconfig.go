package apiclient

import (
	"fmt"

	"ckadrill/sim/kernel"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is the configuration that a kubeconfig file of the process describes, with its current context. Files that it
// names are relative to it, as for clientcmd. Errors are clientcmd's.
func Kubeconfig(p *kernel.Process, name string) (*rest.Config, error) {
	c, err := LoadKubeconfig(p, name)
	if err != nil {
		return nil, err
	}
	return FromConfig(p, c, &clientcmd.ConfigOverrides{})
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

// FromConfig makes a client configuration of a loaded kubeconfig, as clientcmd.NewDefaultClientConfig does, but reads the
// files that it names from the process's tree. c is changed: the contents of files take the place of their names.
func FromConfig(p *kernel.Process, c *clientcmdapi.Config, overrides *clientcmd.ConfigOverrides) (*rest.Config, error) {
	tokenFile, err := Inline(p, c, overrides)
	if err != nil {
		return nil, err
	}
	r, err := clientcmd.NewDefaultClientConfig(*c, overrides).ClientConfig()
	if err != nil {
		return nil, err
	}
	if tokenFile != "" && r.BearerToken == "" {
		if _, err := p.ReadFile(tokenFile); err != nil {
			return nil, err
		}
		r.BearerTokenFile = tokenFile
	}
	return r, ConfigureREST(p, r)
}

// Inline replaces the files that the chosen context's cluster and user name by their contents. The user's token file, which
// is read again when it changes, is taken out and returned. Files that cannot be read are an error in clientcmd's words.
func Inline(p *kernel.Process, c *clientcmdapi.Config, overrides *clientcmd.ConfigOverrides) (tokenFile string, err error) {
	name := c.CurrentContext
	if overrides != nil && overrides.CurrentContext != "" {
		name = overrides.CurrentContext
	}
	cluster, user := "", ""
	if k := c.Contexts[name]; k != nil {
		cluster, user = k.Cluster, k.AuthInfo
	}
	if overrides != nil && overrides.Context.Cluster != "" {
		cluster = overrides.Context.Cluster
	}
	if overrides != nil && overrides.Context.AuthInfo != "" {
		user = overrides.Context.AuthInfo
	}
	var errs []error
	inline := func(file *string, data *[]byte, what, of string) {
		if *file == "" {
			return
		}
		b, err := p.ReadFile(*file)
		if err != nil {
			errs = append(errs, fmt.Errorf("unable to read %s %v for %v due to %w", what, *file, of, err))
			return
		}
		if len(*data) == 0 {
			*data = b
		}
		*file = ""
	}
	if k := c.Clusters[cluster]; k != nil {
		inline(&k.CertificateAuthority, &k.CertificateAuthorityData, "certificate-authority", cluster)
	}
	if u := c.AuthInfos[user]; u != nil {
		inline(&u.ClientCertificate, &u.ClientCertificateData, "client-cert", user)
		inline(&u.ClientKey, &u.ClientKeyData, "client-key", user)
		tokenFile, u.TokenFile = u.TokenFile, ""
	}
	if len(errs) > 0 {
		return "", fmt.Errorf("invalid configuration: %w", utilerrors.NewAggregate(errs))
	}
	return tokenFile, nil
}
