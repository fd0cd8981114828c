package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"net"
	"path"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
)

// What upstream's package does not export.
//
//go:linkname addressesToHostnamesAndIPs k8s.io/kubernetes/pkg/kubelet/certificate.addressesToHostnamesAndIPs
func addressesToHostnamesAndIPs([]v1.NodeAddress) ([]string, []net.IP)

// servingPair is the symbolic link that upstream's store of serving certificates keeps.
const servingPair = "kubelet-server-current.pem"

// servingCertificate is that of a kubelet with serverTLSBootstrap: it is requested from the API, and somebody has to approve
// the request. Until then nobody can connect (upstream's NewKubeletServerCertificateManager).
type servingCertificate struct {
	n *node

	mu      sync.Mutex
	pending *servingRequest
}

// servingRequest is a request that waits to be approved.
type servingRequest struct {
	Key       []byte // in PEM form
	Name, UID string
}

// errNoServing is what upstream's certificate manager says to a handshake.
var errNoServing = errors.New("no serving certificate available for the kubelet")

func (s *servingCertificate) current() string { return path.Join(s.n.s.CertDirectory, servingPair) }

// get is the tls.Config's GetCertificate.
func (s *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := readPair(s.n.p, s.current(), s.current())
	if err != nil {
		return nil, errNoServing
	}
	c, err := tls.X509KeyPair(pair[0], pair[1])
	return &c, err
}

// renewAt is when the certificate is replaced: now, if there is none, else when eight tenths of its time are over (upstream draws between seven and nine).
func (s *servingCertificate) renewAt() time.Time {
	c, err := s.get(nil)
	if err != nil {
		return time.Time{}
	}
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	return c.Leaf.NotBefore.Add(life * 8 / 10)
}

// keep requests a certificate whenever there is none that is young enough.
func (s *servingCertificate) keep() {
	p := s.n.p
	for wait := certificateRetry; p.Alive(); {
		if d := time.Until(s.renewAt()); d > 0 {
			if p.Sleep(d) != nil {
				return
			}
			continue
		}
		err := s.obtain(p.Context())
		if err == nil {
			wait = certificateRetry
			continue
		}
		if !p.Alive() {
			return
		}
		logAt(p, "certificate_manager.go", 596).WithName("kubernetes.io/kubelet-serving.UnhandledError").Error(err, "Failed while requesting a signed certificate from the control plane")
		if p.Sleep(wait) != nil {
			return
		}
		wait = min(2*wait, certificateRetryMax)
	}
}

func (s *servingCertificate) obtain(ctx context.Context) error {
	r, err := s.request(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, certificateWait)
	defer cancel()
	cert, err := csr.WaitForCertificate(wait, s.n.clients.Kube, r.Name, types.UID(r.UID))
	s.mu.Lock()
	if ctx.Err() == nil {
		s.pending = nil
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = updatePair(s.n.p, s.n.s, "kubelet-server", cert, r.Key)
	return err
}

// request is the one that waits, else a new one.
func (s *servingCertificate) request(ctx context.Context) (*servingRequest, error) {
	n := s.n
	s.mu.Lock()
	r := s.pending
	s.mu.Unlock()
	if r != nil {
		return r, nil
	}
	key, pem, err := newKey(n.p, n.name)
	if err != nil {
		return nil, err
	}
	observed := &v1.Node{}
	if err := n.address()(ctx, observed); err != nil {
		return nil, err
	}
	names, ips := addressesToHostnamesAndIPs(observed.Status.Addresses)
	request, err := certutil.MakeCSR(key, &pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + string(n.name)}, names, ips)
	if err != nil {
		return nil, err
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	name, uid, err := csr.RequestCertificateWithContext(ctx, n.clients.Kube, request, "", certificatesv1.KubeletServingSignerName, nil, usages, key)
	if err != nil {
		return nil, err
	}
	r = &servingRequest{Key: pem, Name: name, UID: string(uid)}
	s.mu.Lock()
	s.pending = r
	s.mu.Unlock()
	return r, nil
}

// waiting is the request that waits, for a freeze.
func (s *servingCertificate) waiting() *servingRequest {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}
