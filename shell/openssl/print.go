package openssl

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// signatureNames are OpenSSL's names of the signature algorithms.
var signatureNames = map[x509.SignatureAlgorithm]string{
	x509.MD5WithRSA: "md5WithRSAEncryption", x509.SHA1WithRSA: "sha1WithRSAEncryption", x509.SHA256WithRSA: "sha256WithRSAEncryption",
	x509.SHA384WithRSA: "sha384WithRSAEncryption", x509.SHA512WithRSA: "sha512WithRSAEncryption", x509.ECDSAWithSHA1: "ecdsa-with-SHA1",
	x509.ECDSAWithSHA256: "ecdsa-with-SHA256", x509.ECDSAWithSHA384: "ecdsa-with-SHA384", x509.ECDSAWithSHA512: "ecdsa-with-SHA512",
	x509.PureEd25519: "ED25519",
}

// date prints a time as OpenSSL does.
func date(t time.Time) string { return t.UTC().Format("Jan _2 15:04:05 2006") + " GMT" }

// dump writes bytes in hex with colons, so many to a line.
func dump(b *strings.Builder, indent string, data []byte, perLine int) {
	for i, c := range data {
		if i%perLine == 0 {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(indent)
		}
		fmt.Fprintf(b, "%02x", c)
		if i < len(data)-1 {
			b.WriteByte(':')
		}
	}
	b.WriteByte('\n')
}

// positive is a number's two's complement, as in DER: a zero byte keeps the sign.
func positive(n *big.Int) []byte {
	b := n.Bytes()
	if len(b) == 0 || b[0]&0x80 != 0 {
		b = append([]byte{0}, b...)
	}
	return b
}

// curveNames are the names of a NIST curve.
func curveNames(c elliptic.Curve) (asn1Name, nist string) {
	switch c.Params().BitSize {
	case 224:
		return "secp224r1", "P-224"
	case 256:
		return "prime256v1", "P-256"
	case 384:
		return "secp384r1", "P-384"
	}
	return "secp521r1", "P-521"
}

// printPublicKey writes the part below "Subject Public Key Info:".
func printPublicKey(b *strings.Builder, key any, indent string) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		fmt.Fprintf(b, "%sPublic Key Algorithm: rsaEncryption\n%s    Public-Key: (%d bit)\n%s    Modulus:\n", indent, indent, k.N.BitLen(), indent)
		dump(b, indent+"        ", positive(k.N), 15)
		fmt.Fprintf(b, "%s    Exponent: %d (0x%x)\n", indent, k.E, k.E)
	case *ecdsa.PublicKey:
		name, nist := curveNames(k.Curve)
		fmt.Fprintf(b, "%sPublic Key Algorithm: id-ecPublicKey\n%s    Public-Key: (%d bit)\n%s    pub:\n", indent, indent, k.Curve.Params().BitSize, indent)
		if point, err := k.Bytes(); err == nil {
			dump(b, indent+"        ", point, 15)
		}
		fmt.Fprintf(b, "%s    ASN1 OID: %s\n%s    NIST CURVE: %s\n", indent, name, indent, nist)
	case ed25519.PublicKey:
		fmt.Fprintf(b, "%sPublic Key Algorithm: ED25519\n%s    ED25519 Public-Key:\n%s    pub:\n", indent, indent, indent)
		dump(b, indent+"        ", k, 15)
	default:
		fmt.Fprintf(b, "%sUnable to load Public Key\n", indent)
	}
}

func printExtensions(b *strings.Builder, l []pkix.Extension, indent string) {
	for _, e := range l {
		_, long := extensionName(e.Id)
		critical := ""
		if e.Critical {
			critical = "critical"
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, long, critical)
		for _, line := range strings.Split(extensionText(e), "\n") {
			fmt.Fprintf(b, "%s    %s\n", indent, line)
		}
	}
}

func printSignature(b *strings.Builder, a x509.SignatureAlgorithm, value []byte) {
	fmt.Fprintf(b, "    Signature Algorithm: %s\n    Signature Value:\n", signatureNames[a])
	dump(b, "        ", value, 18)
}

// certificateText is what "x509 -text" prints.
func certificateText(c *x509.Certificate, names nameOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Certificate:\n    Data:\n        Version: %d (0x%x)\n", c.Version, c.Version-1)
	if c.SerialNumber.IsInt64() {
		fmt.Fprintf(&b, "        Serial Number: %d (0x%x)\n", c.SerialNumber, c.SerialNumber)
	} else {
		b.WriteString("        Serial Number:\n")
		dump(&b, "            ", c.SerialNumber.Bytes(), 20)
	}
	fmt.Fprintf(&b, "        Signature Algorithm: %s\n        Issuer: %s\n        Validity\n            Not Before: %s\n            Not After : %s\n        Subject: %s\n        Subject Public Key Info:\n",
		signatureNames[c.SignatureAlgorithm], names.format(c.RawIssuer), date(c.NotBefore), date(c.NotAfter), names.format(c.RawSubject))
	printPublicKey(&b, c.PublicKey, "            ")
	if len(c.Extensions) > 0 {
		b.WriteString("        X509v3 extensions:\n")
		printExtensions(&b, c.Extensions, "            ")
	}
	printSignature(&b, c.SignatureAlgorithm, c.Signature)
	return b.String()
}

// requestText is what "req -text" prints.
func requestText(r *x509.CertificateRequest, names nameOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Certificate Request:\n    Data:\n        Version: %d (0x%x)\n        Subject: %s\n        Subject Public Key Info:\n", r.Version+1, r.Version, names.format(r.RawSubject))
	printPublicKey(&b, r.PublicKey, "            ")
	b.WriteString("        Attributes:\n")
	if len(r.Extensions) == 0 {
		b.WriteString("            (none)\n")
	}
	b.WriteString("            Requested Extensions:\n")
	printExtensions(&b, r.Extensions, "                ")
	printSignature(&b, r.SignatureAlgorithm, r.Signature)
	return b.String()
}

// privateKeyText is what "rsa -text" and "pkey -text" print.
func privateKeyText(key any) string {
	var b strings.Builder
	switch k := key.(type) {
	case *rsa.PrivateKey:
		fmt.Fprintf(&b, "Private-Key: (%d bit, %d primes)\n", k.N.BitLen(), len(k.Primes))
		part := func(name string, n *big.Int) {
			b.WriteString(name + ":\n")
			dump(&b, "    ", positive(n), 15)
		}
		part("modulus", k.N)
		fmt.Fprintf(&b, "publicExponent: %d (0x%x)\n", k.E, k.E)
		part("privateExponent", k.D)
		k.Precompute()
		part("prime1", k.Primes[0])
		part("prime2", k.Primes[1])
		part("exponent1", k.Precomputed.Dp)
		part("exponent2", k.Precomputed.Dq)
		part("coefficient", k.Precomputed.Qinv)
	case *ecdsa.PrivateKey:
		name, nist := curveNames(k.Curve)
		fmt.Fprintf(&b, "Private-Key: (%d bit)\npriv:\n", k.Curve.Params().BitSize)
		if raw, err := k.Bytes(); err == nil {
			dump(&b, "    ", raw, 15)
		}
		b.WriteString("pub:\n")
		if point, err := k.PublicKey.Bytes(); err == nil {
			dump(&b, "    ", point, 15)
		}
		fmt.Fprintf(&b, "ASN1 OID: %s\nNIST CURVE: %s\n", name, nist)
	}
	return b.String()
}

// publicKeyText is the same for a public key.
func publicKeyText(key any) string {
	var b strings.Builder
	printPublicKey(&b, key, "")
	_, rest, _ := strings.Cut(b.String(), "\n")
	lines := strings.Split(rest, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "    ")
	}
	return strings.Join(lines, "\n")
}

// extensionsByName picks extensions in the order of the certificate.
func extensionsByName(l []pkix.Extension, names string) (picked []pkix.Extension) {
	for _, e := range l {
		short, _ := extensionName(e.Id)
		for _, n := range strings.Split(names, ",") {
			if short == n {
				picked = append(picked, e)
			}
		}
	}
	return picked
}
