// Package selfsigned makes the serving certificates that servers make for themselves when they are given none.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/keyutil"

	"ckadrill/sim/kernel"
)

// Certificate makes a serving certificate, valid for a year, that signs itself, and its key. Upstream's
// certutil.GenerateSelfSignedCertKey makes two RSA keys, which cost more than all the rest of a server's start.
func Certificate(p *kernel.Process, host string, names []string, ips []net.IP) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), p.World().Random("self-signed"))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	t := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: fmt.Sprintf("%s@%d", host, now.Unix())}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, DNSNames: names, IPAddresses: ips}
	if ip := net.ParseIP(host); ip != nil {
		t.IPAddresses = append(t.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(p.World().Random("self-signed"), t, t, &k.PublicKey, k)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(k)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, err
}
