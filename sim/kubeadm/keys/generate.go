//go:build ignore

// This program makes rsa2048.pem anew: the public keys of simulated clusters.
package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"log"
	"os"
)

func main() {
	var b bytes.Buffer
	b.WriteString("PUBLIC TEST KEYS of simulated clusters. They are part of a published program and protect nothing.\n\n")
	for range 160 {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			log.Fatal(err)
		}
		if err := pem.Encode(&b, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.WriteFile("rsa2048.pem", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
