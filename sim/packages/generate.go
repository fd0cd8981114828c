//go:build ignore

// This program makes keys.asc and tls.pem anew: the public keys of the simulated internet.
package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"os"
	"time"

	"golang.org/x/crypto/openpgp"
	"golang.org/x/crypto/openpgp/armor"
	"golang.org/x/crypto/openpgp/packet"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func main() {
	born := time.Date(2022, 8, 18, 12, 0, 0, 0, time.UTC)
	var keys bytes.Buffer
	keys.WriteString("PUBLIC TEST KEYS of a simulated internet. They are part of a published program and protect nothing.\n")
	for _, u := range [][3]string{{"isv:kubernetes OBS Project", "", "isv:kubernetes@build.opensuse.org"}, {"Docker Release", "CE deb", "docker@docker.com"}, {"Ubuntu Archive Automatic Signing Key", "2018", "ftpmaster@ubuntu.com"}} {
		e := must(openpgp.NewEntity(u[0], u[1], u[2], &packet.Config{RSABits: 2048, DefaultHash: crypto.SHA256, Time: func() time.Time { return born }}))
		keys.WriteByte('\n')
		w := must(armor.Encode(&keys, openpgp.PrivateKeyType, nil))
		if err := e.SerializePrivate(w, &packet.Config{Time: func() time.Time { return born }}); err != nil {
			log.Fatal(err)
		}
		w.Close()
		keys.WriteByte('\n')
	}
	if err := os.WriteFile("keys.asc", keys.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
	until := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	caKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{Country: []string{"US"}, Organization: []string{"ckadrill"}, CommonName: "ckadrill Root of the Simulated Internet"},
		NotBefore: born, NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	caDER := must(x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey))
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	names := []string{"pkgs.k8s.io", "prod-cdn.packages.k8s.io", "download.docker.com", "github.com", "archive.ubuntu.com", "security.ubuntu.com", "charts.ckadrill.example", "raw.githubusercontent.com"}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotBefore: born, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der := must(x509.CreateCertificate(rand.Reader, leaf, must(x509.ParseCertificate(caDER)), &key.PublicKey, caKey))
	var b bytes.Buffer
	b.WriteString("PUBLIC TEST KEYS of a simulated internet. They are part of a published program and protect nothing.\n\n")
	pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	pem.Encode(&b, &pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(key))})
	if err := os.WriteFile("tls.pem", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o644); err != nil {
		log.Fatal(err)
	}
}
