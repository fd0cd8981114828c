package outside

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// authority is the CA of one call of serve. Its key is never written down.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// validity is how long the certificates of a call are valid, by the host's clock; clockSkew is how far that may be behind.
const (
	validity  = 365 * 24 * time.Hour
	clockSkew = time.Hour
)

func newAuthority() (*authority, error) {
	a := &authority{}
	t := template(pkix.Name{CommonName: "ckadrill serve"})
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

func template(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity)}
}

// issue signs a certificate and returns it and its key in PEM.
func (a *authority) issue(t *x509.Certificate, usage x509.ExtKeyUsage) (cert, key []byte, err error) {
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &k.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	b, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b}), nil
}

// serverTLS is the configuration of the listener. A client's certificate is optional, but one that this CA has not signed is
// refused.
func (a *authority) serverTLS() (*tls.Config, error) {
	t := template(pkix.Name{CommonName: "kube-apiserver"})
	t.DNSNames, t.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	cert, key, err := a.issue(t, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{http2, http1},
		ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}, nil
}

// kubeconfig is the administrator's for a server address.
func (a *authority) kubeconfig(server string) ([]byte, error) {
	cert, key, err := a.issue(template(pkix.Name{CommonName: admin, Organization: []string{"kubeadm:cluster-admins"}}), x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	const cluster, context = "ckadrill", admin + "@ckadrill"
	c := clientcmdapi.NewConfig()
	c.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})}
	c.AuthInfos[admin] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.Contexts[context] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: admin}
	c.CurrentContext = context
	return clientcmd.Write(*c)
}

const admin = "kubernetes-admin"
