package openssl

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificate is a certificate to be signed. crypto/x509 would always make version 3 and choose extensions by itself.
type certificate struct {
	serial              *big.Int
	issuer, subject     []byte // DER
	notBefore, notAfter time.Time
	publicKey           []byte // SPKI, DER
	extensions          []pkix.Extension
}

// sign returns the certificate in DER.
func (c certificate) sign(key crypto.Signer) ([]byte, error) {
	type validity struct{ NotBefore, NotAfter time.Time }
	algorithm, err := signatureAlgorithm(key)
	if err != nil {
		return nil, err
	}
	tbs := struct {
		Version    int `asn1:"optional,explicit,default:0,tag:0"`
		Serial     *big.Int
		Algorithm  pkix.AlgorithmIdentifier
		Issuer     asn1.RawValue
		Validity   validity
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Extensions []pkix.Extension `asn1:"omitempty,optional,explicit,tag:3"`
	}{
		Serial: c.serial, Algorithm: algorithm, Issuer: asn1.RawValue{FullBytes: c.issuer},
		Validity: validity{c.notBefore.UTC().Truncate(time.Second), c.notAfter.UTC().Truncate(time.Second)}, Subject: asn1.RawValue{FullBytes: c.subject},
		PublicKey: asn1.RawValue{FullBytes: c.publicKey}, Extensions: c.extensions,
	}
	if len(c.extensions) > 0 {
		tbs.Version = 2
	}
	der, err := asn1.Marshal(tbs)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: der}, algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
}

func signatureAlgorithm(key crypto.Signer) (pkix.AlgorithmIdentifier, error) {
	switch key.(type) {
	case *rsa.PrivateKey:
		return pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue}, nil
	case *ecdsa.PrivateKey:
		return pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}}, nil
	}
	return pkix.AlgorithmIdentifier{}, fmt.Errorf("ckadrill does not simulate signatures by a %T yet", key)
}

// samePublicKey says whether a certificate belongs to a private key.
func samePublicKey(c *x509.Certificate, k crypto.Signer) bool {
	p, ok := k.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && p.Equal(c.PublicKey)
}

// newSerial is a random serial number of 20 bytes, as OpenSSL draws them.
func (t *tool) newSerial() *big.Int {
	b := make([]byte, 20)
	t.World().Random("serials").Read(b)
	b[0] = b[0]&0x7f | 0x01
	return new(big.Int).SetBytes(b)
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func requestPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
