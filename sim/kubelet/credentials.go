package kubelet

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"ckadrill/sim/kernel"
)

// clientConfig finds the kubelet's identity as buildKubeletClientConfig of cmd/kubelet/app and
// pkg/kubelet/certificate/bootstrap do: the kubeconfig if its client certificate is still valid, else the bootstrap
// kubeconfig, with which a certificate is requested in the background.
func clientConfig(p *kernel.Process, s *options.KubeletServer, nodeName types.NodeName, connect Connector) (*rest.Config, error) {
	if s.RotateCertificates {
		logAt(p, "server.go", 951).Info("Client rotation is on, will bootstrap in background")
	}
	if s.BootstrapKubeconfig == "" {
		c, err := loadKubeconfig(p, s.KubeConfig)
		if err != nil {
			if s.RotateCertificates {
				return nil, fmt.Errorf("unable to load kubeconfig: %v", err)
			}
			return nil, fmt.Errorf("invalid kubeconfig: %w", err)
		}
		return c, nil
	}
	valid, err := stillValid(p, s.KubeConfig)
	if err != nil {
		return nil, err
	}
	if !valid {
		return bootstrap(p, s, nodeName, connect)
	}
	c, err := loadKubeconfig(p, s.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("unable to load kubeconfig: %v", err)
	}
	current := path.Join(s.CertDirectory, currentPair)
	if s.RotateCertificates && !p.Resumed() {
		if err := rotateInline(p, s, nodeName, connect, c, current); err != nil {
			return nil, err
		}
	}
	if _, err := p.Files.Stat(current); err == nil {
		logAt(p, "certificate_store.go", 147).Info("Loading cert/key pair from a file", "filePath", current)
		// The rotated pair in the certificate directory is newer than what the kubeconfig may hold inline.
		if pair, err := readPair(p, current, current); err == nil {
			c.CertData, c.KeyData = pair[0], pair[1]
		}
	}
	return c, nil
}

// loadKubeconfig reads a kubeconfig and every file that it names, so that upstream opens none itself.
func loadKubeconfig(p *kernel.Process, name string) (*rest.Config, error) {
	name = p.Path(name)
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := clientcmd.Load(b)
	if err != nil {
		return nil, fmt.Errorf("error loading config file %q: %v", name, err)
	}
	inline := func(file *string, data *[]byte, format string) error {
		if *file == "" || len(*data) > 0 {
			return nil
		}
		f := *file
		if !path.IsAbs(f) {
			f = path.Join(path.Dir(name), f)
		}
		b, err := p.Files.ReadFile(f)
		if err != nil {
			return fmt.Errorf(format, f, err)
		}
		*file, *data = "", b
		return nil
	}
	context := c.Contexts[c.CurrentContext]
	if context != nil {
		var problems []error
		if cl := c.Clusters[context.Cluster]; cl != nil {
			problems = append(problems, inline(&cl.CertificateAuthority, &cl.CertificateAuthorityData,
				"unable to read certificate-authority %v for "+context.Cluster+" due to %w"))
		}
		if a := c.AuthInfos[context.AuthInfo]; a != nil {
			problems = append(problems,
				inline(&a.ClientCertificate, &a.ClientCertificateData, "unable to read client-cert %v for "+context.AuthInfo+" due to %w"),
				inline(&a.ClientKey, &a.ClientKeyData, "unable to read client-key %v for "+context.AuthInfo+" due to %w"))
			var token []byte
			if a.TokenFile != "" && a.Token == "" {
				problems = append(problems, inline(&a.TokenFile, &token, "unable to read tokenFile %v due to %w"))
				a.Token = string(token)
			}
		}
		if err := utilerrors.NewAggregate(problems); err != nil {
			return nil, fmt.Errorf("invalid configuration: %w", err)
		}
	}
	return clientcmd.NewNonInteractiveClientConfig(*c, c.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
}

// stillValid is upstream's isClientConfigStillValid: whether the kubeconfig has a client certificate that has not expired.
func stillValid(p *kernel.Process, name string) (bool, error) {
	if _, err := p.Files.Stat(p.Path(name)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("error reading existing bootstrap kubeconfig %s: %v", name, err)
	}
	c, err := loadKubeconfig(p, name)
	if err != nil {
		unhandled(p, 232, fmt.Errorf("unable to read existing bootstrap client config from %s: %v", name, err))
		return false, nil
	}
	if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil {
		unhandled(p, 243, fmt.Errorf("unable to load TLS configuration from existing bootstrap client config read from %s: %v", name, err))
		return false, nil
	}
	certs, err := certutil.ParseCertsPEM(c.CertData)
	if err != nil {
		unhandled(p, 248, fmt.Errorf("unable to load TLS certificates from existing bootstrap client config read from %s: %v", name, err))
		return false, nil
	}
	now := time.Now()
	for _, cert := range certs {
		if now.After(cert.NotAfter) {
			unhandled(p, 265, fmt.Errorf("part of the existing bootstrap client certificate in %s is expired: %v", name, cert.NotAfter))
			return false, nil
		}
	}
	return true, nil
}

// unhandled is upstream's utilruntime.HandleError, at a line of its bootstrap.go.
func unhandled(p *kernel.Process, line int, err error) {
	logAt(p, "bootstrap.go", line).WithName("UnhandledError").Error(err, "Unhandled Error")
}

// bootstrap writes the kubeconfig and has a client certificate requested with the bootstrap kubeconfig's credentials, as
// upstream's LoadClientConfig and certificate manager do between them. Until it is there the kubelet works without.
func bootstrap(p *kernel.Process, s *options.KubeletServer, nodeName types.NodeName, connect Connector) (*rest.Config, error) {
	boot, err := p.Files.Stat(p.Path(s.BootstrapKubeconfig))
	if err != nil || boot.IsDir() {
		return nil, fmt.Errorf("unable to load bootstrap kubeconfig: %v", statError(s.BootstrapKubeconfig, err))
	}
	bc, err := loadKubeconfig(p, s.BootstrapKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("unable to load bootstrap kubeconfig: %v", err)
	}
	if err := writeKubeconfig(p, s, bc); err != nil {
		return nil, err
	}
	api, err := connect(p, bc, s)
	if err != nil {
		return nil, fmt.Errorf("unable to create certificates signing request client: %v", err)
	}
	key, keyPEM, err := newKey(p, nodeName)
	if err != nil {
		return nil, err
	}
	c, identity, err := newLateIdentity(p, bc)
	if err != nil {
		return nil, err
	}
	go func() {
		// The certificate manager tries for ever, a bit later each time.
		for wait := certificateRetry; ; wait = min(2*wait, certificateRetryMax) {
			certPEM, err := requestCertificate(p.Context(), api.Kube, key, nodeName)
			if err == nil {
				_, err = updatePair(p, s, clientPair, certPEM, keyPEM)
			}
			if err == nil {
				err = identity.use(certPEM, keyPEM)
			}
			if err == nil || !p.Alive() {
				return
			}
			logAt(p, "certificate_manager.go", 596).WithName("kubernetes.io/kube-apiserver-client-kubelet.UnhandledError").Error(err, "Failed while requesting a signed certificate from the control plane")
			if p.Sleep(wait) != nil {
				return
			}
		}
	}()
	return c, nil
}

func statError(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: "stat", Path: name, Err: pe.Err}
	}
	return err
}

func requestCertificate(ctx context.Context, api kubernetes.Interface, key crypto.Signer, nodeName types.NodeName) ([]byte, error) {
	subject := &pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + string(nodeName)}
	request, err := certutil.MakeCSR(key, subject, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("unable to generate certificate request: %v", err)
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	name, uid, err := csr.RequestCertificateWithContext(ctx, api, request, "", certificatesv1.KubeAPIServerClientKubeletSignerName, nil, usages, key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, certificateWait)
	defer cancel()
	return csr.WaitForCertificate(ctx, api, name, uid)
}

// clientPair is how the files of upstream's certificate store begin, currentPair the symbolic link that it keeps.
const clientPair, currentPair = "kubelet-client", "kubelet-client-current.pem"

// updatePair writes a dated pair and lets the symbolic link lead to it, as upstream's certificate store does.
func updatePair(p *kernel.Process, s *options.KubeletServer, name string, cert, key []byte) (current string, err error) {
	if err := p.Files.MkdirAll(s.CertDirectory, 0o755); err != nil {
		return "", err
	}
	dated := path.Join(s.CertDirectory, name+"-"+time.Now().Format("2006-01-02-15-04-05")+".pem")
	current = path.Join(s.CertDirectory, name+"-current.pem")
	if err := p.Files.WriteFile(dated, append(append([]byte(nil), cert...), key...), 0o600); err != nil {
		return "", err
	}
	if err := p.Files.Remove(current); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return current, p.Files.Symlink(dated, current)
}

// rotateInline takes a certificate that the kubeconfig holds itself, which kubeadm gives to the kubelet of a control plane, into
// the certificate directory, if there is none that is valid, and has it replaced at once, in the background.
func rotateInline(p *kernel.Process, s *options.KubeletServer, nodeName types.NodeName, connect Connector, c *rest.Config, current string) error {
	if pair, err := readPair(p, current, current); err == nil {
		if certs, err := certutil.ParseCertsPEM(pair[0]); err == nil && time.Now().Before(certs[0].NotAfter) {
			return nil
		}
	}
	if inline, err := hasInlineCertificate(p, s.KubeConfig); err != nil || !inline {
		return err
	}
	if _, err := updatePair(p, s, clientPair, c.CertData, c.KeyData); err != nil {
		unhandled(p, 538, fmt.Errorf("unable to set the cert/key pair to the bootstrap certificate: %v", err))
	}
	api, err := connect(p, rest.CopyConfig(c), s)
	if err != nil {
		return fmt.Errorf("unable to create certificates signing request client: %v", err)
	}
	key, keyPEM, err := newKey(p, nodeName)
	if err != nil {
		return err
	}
	go func() {
		for wait := certificateRetry; ; wait = min(2*wait, certificateRetryMax) {
			certPEM, err := requestCertificate(p.Context(), api.Kube, key, nodeName)
			if err == nil {
				_, err = updatePair(p, s, clientPair, certPEM, keyPEM)
			}
			if err == nil || p.Sleep(wait) != nil {
				return
			}
		}
	}()
	return nil
}

func hasInlineCertificate(p *kernel.Process, name string) (bool, error) {
	b, err := p.Files.ReadFile(p.Path(name))
	if err != nil {
		return false, err
	}
	c, err := clientcmd.Load(b)
	if err != nil {
		return false, err
	}
	ctx := c.Contexts[c.CurrentContext]
	if ctx == nil || c.AuthInfos[ctx.AuthInfo] == nil {
		return false, nil
	}
	u := c.AuthInfos[ctx.AuthInfo]
	return len(u.ClientCertificateData) > 0 && len(u.ClientKeyData) > 0, nil
}

// newKey makes a key for a certificate request.
func newKey(p *kernel.Process, nodeName types.NodeName) (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), p.World().Random("kubelet/bootstrap/"+string(nodeName)))
	if err != nil {
		return nil, nil, err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, pem, err
}

// writeKubeconfig is upstream's writeKubeconfigFromBootstrapping: the kubeconfig names the certificate store's link.
func writeKubeconfig(p *kernel.Process, s *options.KubeletServer, boot *rest.Config) error {
	current := path.Join(s.CertDirectory, currentPair)
	c := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"default-cluster": {Server: boot.Host, InsecureSkipTLSVerify: boot.Insecure,
			CertificateAuthorityData: boot.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: current, ClientKey: current}},
		Contexts:       map[string]*clientcmdapi.Context{"default-context": {Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}},
		CurrentContext: "default-context",
	}
	b, err := clientcmd.Write(c)
	if err != nil {
		return err
	}
	return p.Files.WriteFile(p.Path(s.KubeConfig), b, 0o600)
}

// readPair reads certificate and key in PEM form.
func readPair(p *kernel.Process, certFile, keyFile string) ([2][]byte, error) {
	cert, err := p.Files.ReadFile(certFile)
	if err != nil {
		return [2][]byte{}, err
	}
	key, err := p.Files.ReadFile(keyFile)
	if err != nil {
		return [2][]byte{}, err
	}
	_, err = tls.X509KeyPair(cert, key)
	return [2][]byte{cert, key}, err
}

// initializeTLS is upstream's InitializeTLS: the serving pair, self-signed if there is none, and the CA of clients.
func initializeTLS(p *kernel.Process, s *options.KubeletServer) (*tls.Config, error) {
	kc := &s.KubeletConfiguration
	if !kc.ServerTLSBootstrap && kc.TLSCertFile == "" && kc.TLSPrivateKeyFile == "" {
		kc.TLSCertFile = path.Join(s.CertDirectory, "kubelet.crt")
		kc.TLSPrivateKeyFile = path.Join(s.CertDirectory, "kubelet.key")
		_, certErr := p.Files.Stat(kc.TLSCertFile)
		_, keyErr := p.Files.Stat(kc.TLSPrivateKeyFile)
		if certErr != nil || keyErr != nil {
			if err := selfSign(p, s, kc); err != nil {
				return nil, err
			}
		}
	}
	c := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	var err error
	if c.CipherSuites, err = cliflag.TLSCipherSuites(kc.TLSCipherSuites); err != nil {
		return nil, err
	}
	if c.MinVersion, err = cliflag.TLSVersion(kc.TLSMinVersion); err != nil {
		return nil, err
	}
	if ca := kc.Authentication.X509.ClientCAFile; ca != "" {
		b, err := p.Files.ReadFile(ca)
		if err == nil {
			var certs []*x509.Certificate
			if certs, err = certutil.ParseCertsPEM(b); err != nil {
				err = fmt.Errorf("error reading %s: %s", ca, err)
			}
			c.ClientCAs = x509.NewCertPool()
			for _, cert := range certs {
				c.ClientCAs.AddCert(cert)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("unable to load client CA file %s: %w", ca, err)
		}
		c.ClientAuth = tls.RequestClientCert
	}
	return c, nil
}

func selfSign(p *kernel.Process, s *options.KubeletServer, kc *kubeletconfig.KubeletConfiguration) error {
	host, err := hostname(p, s.HostnameOverride)
	if err != nil {
		return err
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return fmt.Errorf("unable to generate self signed cert: %w", err)
	}
	if err := p.Files.MkdirAll(s.CertDirectory, 0o755); err != nil {
		return err
	}
	if err := p.Files.WriteFile(kc.TLSCertFile, cert, 0o644); err != nil {
		return err
	}
	return p.Files.WriteFile(kc.TLSPrivateKeyFile, key, 0o600)
}
