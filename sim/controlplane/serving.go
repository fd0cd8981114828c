package controlplane

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
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/selfsigned"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// listen opens the secure port, with the errors of genericoptions.CreateListener.
func (s *apiServer) listen() (net.Listener, error) {
	l, err := listenSecure(s.p, s.opts.SecureServing.SecureServingOptions)
	if err != nil {
		return nil, err
	}
	s.listener = newFacade(l)
	return s.listener, nil
}

func listenSecure(p *kernel.Process, o *genericoptions.SecureServingOptions) (net.Listener, error) {
	network := o.BindNetwork
	if network == "" {
		network = "tcp"
	}
	addr := net.JoinHostPort(o.BindAddress.String(), strconv.Itoa(o.BindPort))
	l, err := p.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("failed to create listener: failed to listen on %v: %v", addr, err)
	}
	return l, nil
}

// servingTLS is SecureServingInfo.tlsConfig, which is not exported.
func servingTLS(ctx context.Context, s *genericapiserver.SecureServingInfo) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if s.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	if s.MinTLSVersion > 0 {
		c.MinVersion = s.MinTLSVersion
	}
	if len(s.CipherSuites) > 0 {
		c.CipherSuites = s.CipherSuites
	}
	if s.ClientCA != nil {
		c.ClientAuth = tls.RequestClientCert
	}
	if s.ClientCA == nil && s.Cert == nil && len(s.SNICerts) == 0 {
		return c, nil
	}
	controller := dynamiccertificates.NewDynamicServingCertificateController(c, s.ClientCA, s.Cert, s.SNICerts, nil)
	type notifier interface {
		AddListener(dynamiccertificates.Listener)
	}
	follow := func(content any, isNil bool) {
		if isNil {
			return
		}
		content.(notifier).AddListener(controller)
		if r, ok := content.(dynamiccertificates.ControllerRunner); ok {
			_ = r.RunOnce(ctx) // if it fails, handshakes do
			go r.Run(ctx, 1)
		}
	}
	follow(s.ClientCA, s.ClientCA == nil)
	follow(s.Cert, s.Cert == nil)
	for _, sni := range s.SNICerts {
		follow(sni, sni == nil)
	}
	if err := controller.RunOnce(); err != nil {
		return nil, err
	}
	go controller.Run(1, ctx.Done())
	c.GetConfigForClient = controller.GetConfigForClient
	return c, nil
}

// completeServing does what needs the host in Options.Complete: the address of the default interface, and a self-signed
// certificate in --cert-dir when none is given.
func (s *apiServer) completeServing(o *options.ServerRunOptions) error {
	g, sec := o.GenericServerRunOptions, o.SecureServing
	if g.AdvertiseAddress == nil || g.AdvertiseAddress.IsUnspecified() {
		g.AdvertiseAddress = sec.BindAddress
		if g.AdvertiseAddress == nil || g.AdvertiseAddress.IsUnspecified() || g.AdvertiseAddress.IsLoopback() {
			ip, err := hostAddress(s.p)
			if err != nil {
				return fmt.Errorf("Unable to find suitable network address.error='%v'. Try to set the AdvertiseAddress directly or provide a valid BindAddress to fix this.", err) //nolint:staticcheck // upstream's words
			}
			g.AdvertiseAddress = ip
		}
	}
	pair := &sec.ServerCert.CertKey
	if pair.CertFile != "" || pair.KeyFile != "" {
		return nil
	}
	cert, key := path.Join(sec.ServerCert.CertDirectory, sec.ServerCert.PairName+".crt"), path.Join(sec.ServerCert.CertDirectory, sec.ServerCert.PairName+".key")
	_, certErr := s.p.ReadFile(cert)
	_, keyErr := s.p.ReadFile(key)
	if certErr != nil || keyErr != nil {
		c, k, err := selfsigned.Certificate(s.p, g.AdvertiseAddress.String(), []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"}, nil)
		if err != nil {
			return fmt.Errorf("error creating self-signed certificates: %v", err)
		}
		if err := s.p.Files.MkdirAll(s.p.Path(sec.ServerCert.CertDirectory), 0o755); err != nil {
			return fmt.Errorf("error creating self-signed certificates: %v", err)
		}
		if err := s.p.Files.WriteFile(s.p.Path(cert), c, 0o644); err != nil {
			return fmt.Errorf("error creating self-signed certificates: %v", err)
		}
		if err := s.p.Files.WriteFile(s.p.Path(key), k, 0o600); err != nil {
			return fmt.Errorf("error creating self-signed certificates: %v", err)
		}
		logLine(s.p, 'I', "serving.go:382", fmt.Sprintf("Generated self-signed cert (%s, %s)", cert, key))
	}
	pair.CertFile, pair.KeyFile = s.files.file(cert), s.files.file(key)
	return nil
}

// offerSelfSigned lies a certificate ready where upstream's MaybeDefaultWithSelfSignedCerts looks before it makes two RSA
// keys, which cost more than all the rest of a start.
func (d *private) offerSelfSigned(o *genericoptions.SecureServingOptions) error {
	if o.BindPort == 0 || o.ServerCert.CertKey.CertFile != "" || o.ServerCert.CertKey.KeyFile != "" || o.ServerCert.CertDirectory != "" {
		return nil
	}
	loopback := net.IPv4(127, 0, 0, 1)
	names, ips := []string{}, []net.IP{loopback}
	if o.BindAddress.IsUnspecified() {
		names = append(names, "localhost")
	} else {
		ips = append(ips, o.BindAddress)
	}
	cert, key, err := selfsigned.Certificate(d.p, "localhost", names, ips)
	if err != nil {
		return fmt.Errorf("error creating self-signed certificates: unable to generate self signed cert: %v", err)
	}
	// The name is that of certutil's fixtures.
	var texts []string
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}
	name := filepath.Join(d.root, "localhost_"+strings.Join(texts, "-")+"_"+strings.Join(names, "-"))
	if err := os.WriteFile(name+".crt", cert, 0o600); err != nil {
		return err
	}
	o.ServerCert.FixtureDirectory = d.root
	return os.WriteFile(name+".key", key, 0o600)
}

// loopbackAddresses are the addresses that upstream asks a self-signed certificate for.
var loopbackAddresses = []net.IP{net.IPv4(127, 0, 0, 1).To4()}

// serveSecure is SecureServingInfo.Serve.
func serveSecure(ctx context.Context, p *kernel.Process, s *genericapiserver.SecureServingInfo, h http.Handler) error {
	c, err := servingTLS(ctx, s)
	if err != nil {
		return err
	}
	logLine(p, 'I', "secure_serving.go:211", "Serving securely on "+s.Listener.Addr().String())
	serveHTTP(p, s.Listener, c, h)
	return nil
}

// hostAddress is the first address by which others reach the machine.
func hostAddress(p *kernel.Process) (net.IP, error) {
	if p.Net != nil {
		for _, i := range p.Net.Interfaces() {
			for _, a := range i.Addresses {
				if a.Addr().IsGlobalUnicast() {
					return net.IP(a.Addr().AsSlice()), nil
				}
			}
		}
	}
	return nil, fmt.Errorf("no default routes found in \"/proc/net/route\" or \"/proc/net/ipv6_route\"")
}
