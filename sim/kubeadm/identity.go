package kubeadm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"path"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/controller/certificates/authority"

	"ckadrill/sim/kubeadm/keys"
)

// kubeletPKI is where the kubelet keeps its certificates.
const kubeletPKI = kubeletDir + "/pki"

// currentClient is the kubelet's client certificate and key: a symbolic link to the newest.
const currentClient = kubeletPKI + "/kubelet-client-current.pem"

// kubeletIdentity adds what the kubelet makes for itself at its first start: the client certificate that the cluster signed,
// a kubeconfig that names it, and the self-signed serving certificate.
func (b *builder) kubeletIdentity(t *Tree, m Machine) error {
	ca, err := b.authority()
	if err != nil {
		return err
	}
	t.Dir(kubeletPKI, 0o755)
	client, err := b.clientPEM(ca, m)
	if err != nil {
		return err
	}
	// The name is that of client-go's certificate store, in the machine's time zone.
	dated := path.Join(kubeletPKI, "kubelet-client-"+time.Now().Format("2006-01-02-15-04-05")+".pem")
	t.Write(dated, 0o600, client)
	t.Symlink(dated, currentClient)

	crt, key, err := b.servingPEM(m)
	if err != nil {
		return err
	}
	t.Write(kubeletPKI+"/kubelet.crt", 0o644, crt)
	t.Write(kubeletPKI+"/kubelet.key", 0o600, key)

	conf, err := b.kubeletConfig(t, m)
	if err != nil {
		return err
	}
	t.Write(kubernetesDir+"/kubelet.conf", 0o600, conf)
	return nil
}

// authority is the cluster's CA as the certificate signing controller uses it.
func (b *builder) authority() (*authority.CertificateAuthority, error) {
	crt, _ := b.first.File(certificatesDir + "/ca.crt")
	certs, err := certutil.ParseCertsPEM(crt.Content)
	if err != nil {
		return nil, err
	}
	k, _ := b.first.File(certificatesDir + "/ca.key")
	key, err := keyutil.ParsePrivateKeyPEM(k.Content)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the CA's key cannot sign: %T", key)
	}
	return &authority.CertificateAuthority{Certificate: certs[0], PrivateKey: signer}, nil
}

// clientPEM is a client certificate with its key, as the signer kubernetes.io/kube-apiserver-client-kubelet would issue it for
// the kubelet's request: usages from the request (for an EC key there is no key encipherment), backdated five minutes.
func (b *builder) clientPEM(ca *authority.CertificateAuthority, m Machine) ([]byte, error) {
	key, err := keys.NewEC(b.w)
	if err != nil {
		return nil, err
	}
	req, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + m.Name},
	}, key)
	if err != nil {
		return nil, err
	}
	der, err := ca.Sign(req, authority.PermissiveSigningPolicy{
		TTL:      365 * 24 * time.Hour, // --cluster-signing-duration
		Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		Backdate: 5 * time.Minute,
		Short:    8 * time.Hour,
	})
	if err != nil {
		return nil, err
	}
	return append(certificatePEM(der), ecKeyPEM(key)...), nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

func ecKeyPEM(k *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		panic(err) // only for a curve without a name
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: der})
}

// servingPEM is the kubelet's serving certificate, with the throw-away CA that signed it: the one that client-go's
// GenerateSelfSignedCertKey makes, whose key generation is too slow to be used here.
func (b *builder) servingPEM(m Machine) (crt, key []byte, err error) {
	caKey, err := b.newRSA()
	if err != nil {
		return nil, nil, err
	}
	servingKey, err := b.newRSA()
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	from := now.Add(-time.Hour)
	caTemplate := &x509.Certificate{
		SerialNumber:          keys.Serial(b.w),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s-ca@%d", m.Name, now.Unix())},
		NotBefore:             from,
		NotAfter:              from.Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, caTemplate, caTemplate, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          keys.Serial(b.w),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", m.Name, now.Unix())},
		NotBefore:             from,
		NotAfter:              from.Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(m.Name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{m.Name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &servingKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	return append(certificatePEM(der), certificatePEM(caDER)...), rsaKeyPEM(servingKey), nil
}

func (b *builder) newRSA() (*rsa.PrivateKey, error) {
	k, err := b.newKey()
	if err != nil {
		return nil, err
	}
	return k.(*rsa.PrivateKey), nil
}

func rsaKeyPEM(k *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.RSAPrivateKeyBlockType, Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

// kubeletConfig is kubelet.conf. On the first control plane kubeadm wrote it with a certificate in it, and at the end lets
// it point at the one that the kubelet rotates (phase kubelet-finalize); on every other machine the kubelet writes it when
// its TLS bootstrap is done.
func (b *builder) kubeletConfig(t *Tree, m Machine) ([]byte, error) {
	if f, ok := t.File(kubernetesDir + "/kubelet.conf"); ok {
		cfg, err := clientcmd.Load(f.Content)
		if err != nil {
			return nil, err
		}
		for _, u := range cfg.AuthInfos {
			u.ClientCertificateData, u.ClientKeyData = nil, nil
			u.ClientCertificate, u.ClientKey = currentClient, currentClient
		}
		return clientcmd.Write(*cfg)
	}
	ca, ok := t.File(certificatesDir + "/ca.crt")
	if !ok {
		return nil, fmt.Errorf("machine %s has no CA certificate", m.Name)
	}
	first, err := b.c.FirstControlPlane()
	if err != nil {
		return nil, err
	}
	server := "https://" + net.JoinHostPort(first.Address.String(), "6443")
	if b.c.Endpoint != "" {
		server = "https://" + b.c.Endpoint
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"default-cluster": {Server: server, CertificateAuthorityData: ca.Content}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: currentClient, ClientKey: currentClient}},
		Contexts:       map[string]*clientcmdapi.Context{"default-context": {Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}},
		CurrentContext: "default-context",
	})
}
