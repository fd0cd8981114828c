package kubelet

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/network/apiclient"
)

// lateIdentity is the transport of a kubelet that waits for its first certificate: until it has one it asks as nobody, as
// upstream's UpdateTransport does (pkg/kubelet/certificate).
type lateIdentity struct {
	p      *kernel.Process
	config *rest.Config // without credentials

	mu        sync.Mutex
	transport *network.Transport
}

// newLateIdentity makes the client configuration of a kubelet with the bootstrap configuration's server.
func newLateIdentity(p *kernel.Process, boot *rest.Config) (*rest.Config, *lateIdentity, error) {
	l := &lateIdentity{p: p, config: rest.AnonymousClientConfig(boot)}
	var err error
	if l.transport, err = apiclient.TransportFor(p, rest.CopyConfig(l.config)); err != nil {
		return nil, nil, err
	}
	c := rest.CopyConfig(l.config)
	c.Transport = l
	return c, l, nil
}

// RoundTrip implements http.RoundTripper.
func (l *lateIdentity) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	t := l.transport
	l.mu.Unlock()
	return t.RoundTrip(r)
}

// use takes a certificate once it is noticed, and closes the connections that were made without one.
func (l *lateIdentity) use(certPEM, keyPEM []byte) error {
	c := rest.CopyConfig(l.config)
	c.CertData, c.KeyData = certPEM, keyPEM
	t, err := apiclient.TransportFor(l.p, c)
	if err != nil || l.p.Sleep(firstCertificateCheck-time.Duration(time.Now().UnixNano())%firstCertificateCheck) != nil {
		return err
	}
	logAt(l.p, "transport.go", 148).Info("Certificate rotation detected, shutting down client connections to start using new credentials")
	l.mu.Lock()
	old := l.transport
	l.transport = t
	l.mu.Unlock()
	old.CloseIdleConnections()
	return nil
}
