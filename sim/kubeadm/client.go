package kubeadm

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pubkeypin"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// loadKubeconfig reads a kubeconfig of the process's machine. Files that it names are read too, as data. Credentials that a
// program must be asked for are refused.
func loadKubeconfig(p *kernel.Process, name string) (*clientcmdapi.Config, error) {
	b, err := p.ReadFile(name)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.Load(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	inline := func(file *string, data *[]byte) error {
		if *file == "" || len(*data) > 0 {
			return nil
		}
		b, err := p.ReadFile(*file)
		if err != nil {
			return err
		}
		*file, *data = "", b
		return nil
	}
	for _, c := range cfg.Clusters {
		if err := inline(&c.CertificateAuthority, &c.CertificateAuthorityData); err != nil {
			return nil, err
		}
	}
	for _, u := range cfg.AuthInfos {
		if err := inline(&u.ClientCertificate, &u.ClientCertificateData); err != nil {
			return nil, err
		}
		if err := inline(&u.ClientKey, &u.ClientKeyData); err != nil {
			return nil, err
		}
		var token []byte
		if err := inline(&u.TokenFile, &token); err != nil {
			return nil, err
		}
		if len(token) > 0 {
			u.Token = strings.TrimSpace(string(token))
		}
	}
	if ctx := cfg.Contexts[cfg.CurrentContext]; ctx != nil {
		switch u := cfg.AuthInfos[ctx.AuthInfo]; {
		case u == nil:
		case u.Exec != nil:
			return nil, notSimulated("ckadrill does not simulate credential plugins of a kubeconfig yet")
		case u.AuthProvider != nil:
			return nil, notSimulated("ckadrill does not simulate auth providers of a kubeconfig yet")
		}
	}
	return cfg, nil
}

// restConfig is the client configuration of a kubeconfig for a process, over the simulated network.
func restConfig(p *kernel.Process, cfg *clientcmdapi.Config) (*rest.Config, error) {
	c, err := clientcmd.NewDefaultClientConfig(*cfg, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	c.UserAgent = "kubeadm"
	// A bootstrap or an upgrade sends many requests in a row, and kubeadm has its own pace.
	c.QPS, c.Burst = -1, 0
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return lifeline{p, rt, c.UserAgent} })
	if err := apiclient.ConfigureREST(p, c); err != nil {
		return nil, err
	}
	return c, nil
}

// clients are what a kubeconfig file of the process's machine gives.
func clients(p *kernel.Process, name string) (clientset.Interface, dynamic.Interface, error) {
	cfg, err := loadKubeconfig(p, name)
	if err != nil {
		return nil, nil, err
	}
	rc, err := restConfig(p, cfg)
	if err != nil {
		return nil, nil, err
	}
	typed, err := clientset.NewForConfig(rc)
	if err != nil {
		return nil, nil, err
	}
	dyn, err := dynamic.NewForConfig(rc)
	return typed, dyn, err
}

// caCertHash is the hash of a CA's public key that "kubeadm join --discovery-token-ca-cert-hash" takes.
func caCertHash(pem []byte) (string, error) {
	certs, err := certutil.ParseCertsPEM(pem)
	if err != nil {
		return "", err
	}
	return pubkeypin.Hash(certs[0]), nil
}
