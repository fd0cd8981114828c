// Package extension gives API servers that run in Pods, behind kube-apiserver's aggregation layer, what they stand on: a
// port of the process's network, a serving certificate, and clients that review tokens and rights for them. The servers
// themselves are upstream's.
package extension

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
	"ckadrill/sim/network/selfsigned"
)

// Options are the sections of an extension API server's flags that a machine's files and network stand behind.
type Options struct {
	Serving        *genericoptions.SecureServingOptions
	Authentication *genericoptions.DelegatingAuthenticationOptions
	Authorization  *genericoptions.DelegatingAuthorizationOptions
}

// Apply does what the sections' own ApplyTo do for a process of a Pod, in their order and with their errors. The
// configuration's loopback client leads nowhere: upstream only asks that there is one.
func (o Options) Apply(p *kernel.Process, c *genericapiserver.Config) error {
	if err := o.refuse(); err != nil {
		return err
	}
	pair, err := o.certificate(p)
	if err != nil {
		return err
	}
	if o.Serving.Listener, err = listen(p, o.Serving); err != nil {
		return err
	}
	o.Serving.ServerCert.CertKey, o.Serving.ServerCert.GeneratedCert = genericoptions.CertKey{}, pair
	if err := o.Serving.ApplyTo(&c.SecureServing); err != nil {
		return err
	}
	c.LoopbackClientConfig = &rest.Config{Host: "https://localhost"}
	if err := o.delegate(p); err != nil {
		return err
	}
	if err := o.Authentication.ApplyTo(&c.Authentication, c.SecureServing, nil); err != nil {
		return err
	}
	return o.Authorization.ApplyTo(&c.Authorization)
}

func (o Options) refuse() error {
	for flag, value := range map[string]string{
		"--client-ca-file":               o.Authentication.ClientCert.ClientCA,
		"--requestheader-client-ca-file": o.Authentication.RequestHeader.ClientCAFile,
		"--authentication-kubeconfig":    o.Authentication.RemoteKubeConfigFile,
		"--authorization-kubeconfig":     o.Authorization.RemoteKubeConfigFile,
	} {
		if value != "" {
			return fmt.Errorf("ckadrill does not simulate %s of an extension API server yet", flag)
		}
	}
	if len(o.Serving.SNICertKeys) > 0 {
		return fmt.Errorf("ckadrill does not simulate --tls-sni-cert-key of an extension API server yet")
	}
	return nil
}

func listen(p *kernel.Process, o *genericoptions.SecureServingOptions) (net.Listener, error) {
	address := net.JoinHostPort(o.BindAddress.String(), strconv.Itoa(o.BindPort))
	l, err := p.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("failed to create listener: failed to listen on %v: %v", address, err)
	}
	return l, nil
}

// certificate is what the process serves with: the files that its flags name, else a self-signed one, which it keeps in
// --cert-dir (SecureServingOptions.MaybeDefaultWithSelfSignedCerts).
func (o Options) certificate(p *kernel.Process) (dynamiccertificates.CertKeyContentProvider, error) {
	own := o.Serving.ServerCert
	pair := own.CertKey
	if pair.CertFile == "" && pair.KeyFile == "" {
		pair.CertFile, pair.KeyFile = path.Join(own.CertDirectory, own.PairName+".crt"), path.Join(own.CertDirectory, own.PairName+".key")
		_, certErr := p.ReadFile(pair.CertFile)
		_, keyErr := p.ReadFile(pair.KeyFile)
		if certErr != nil || keyErr != nil {
			if err := makePair(p, own.CertDirectory, pair); err != nil {
				return nil, fmt.Errorf("error creating self-signed certificates: %v", err)
			}
		}
	}
	cert, err := p.ReadFile(pair.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := p.ReadFile(pair.KeyFile)
	if err != nil {
		return nil, err
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return nil, err
	}
	return dynamiccertificates.NewStaticCertKeyContent("serving-cert::"+pair.CertFile+"::"+pair.KeyFile, cert, key)
}

func makePair(p *kernel.Process, dir string, to genericoptions.CertKey) error {
	cert, key, err := selfsigned.Certificate(p, "localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	if err := p.Files.MkdirAll(p.Path(dir), 0o755); err != nil {
		return err
	}
	if err := p.Files.WriteFile(p.Path(to.CertFile), cert, 0o644); err != nil {
		return err
	}
	if err := p.Files.WriteFile(p.Path(to.KeyFile), key, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(p.Log, "I%s %7d serving.go:386] Generated self-signed cert (%s, %s)\n", time.Now().UTC().Format("0102 15:04:05.000000"), p.OwnPID(), to.CertFile, to.KeyFile)
	return nil
}

// delegate makes upstream's reviewers call kube-apiserver as the Pod's ServiceAccount. They take their client from the
// environment and files of the host or from a kubeconfig: they are given one, and a transport that takes all of its place.
func (o Options) delegate(p *kernel.Process) error {
	c, err := apiclient.InCluster(p)
	if err != nil {
		return fmt.Errorf("failed to get delegated authentication kubeconfig: failed to get delegated authentication kubeconfig: %v", err)
	}
	dir, err := kernel.Scratch("delegated-")
	if err != nil {
		return err
	}
	p.OnExit(func() { os.RemoveAll(dir) })
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: c.Host}
	config.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster"}
	config.CurrentContext = "context"
	name := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		return err
	}
	own := func(rt http.RoundTripper) http.RoundTripper { return c.WrapTransport(rt) }
	o.Authentication.RemoteKubeConfigFile, o.Authorization.RemoteKubeConfigFile = name, name
	o.Authentication.WithCustomRoundTripper(own)
	o.Authorization.WithCustomRoundTripper(own)
	return nil
}

// Until is done when the process is told to end, as genericapiserver.SetupSignalHandler's channel is.
func Until(p *kernel.Process) context.Context {
	ctx, stop := context.WithCancel(context.Background())
	p.OnExit(stop)
	p.Notify(kernel.SIGTERM, stop)
	p.Notify(kernel.SIGINT, stop)
	return ctx
}
