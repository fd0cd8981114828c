package openssl

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"

	"ckadrill/sim/kubeadm/keys"
)

// parsePrivateKey reads the first private key of a PEM or DER file, nil if there is none.
func parsePrivateKey(data []byte) crypto.Signer {
	for rest := data; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if k := privateKeyOf(b.Bytes); k != nil {
			return k
		}
	}
	return privateKeyOf(data)
}

func privateKeyOf(der []byte) crypto.Signer {
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k
	}
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if s, ok := k.(crypto.Signer); ok {
			return s
		}
	}
	return nil
}

// parsePublicKey reads a public key.
func parsePublicKey(data []byte) any {
	if b, _ := pem.Decode(data); b != nil {
		data = b.Bytes
	}
	if k, err := x509.ParsePKIXPublicKey(data); err == nil {
		return k
	}
	if k, err := x509.ParsePKCS1PublicKey(data); err == nil {
		return k
	}
	return nil
}

// loadPrivateKey reads a key or prints why it cannot.
func (t *tool) loadPrivateKey(what, name string) crypto.Signer {
	data, err := t.input(name)
	if err != nil {
		t.storeError(what, name, err)
		return nil
	}
	if k := parsePrivateKey(data); k != nil {
		return k
	}
	if bytes.Contains(data, []byte("ENCRYPTED")) {
		t.Errorf("ckadrill does not simulate encrypted private keys yet\n")
	}
	t.Errorf("Could not read %s from %s\n", what, shown(name))
	return nil
}

// encodePrivateKey is the PEM that OpenSSL 3 writes: PKCS#8, or with -traditional the older form.
func encodePrivateKey(k crypto.Signer, traditional bool) []byte {
	if traditional {
		switch k := k.(type) {
		case *rsa.PrivateKey:
			return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
		case *ecdsa.PrivateKey:
			if der, err := x509.MarshalECPrivateKey(k); err == nil {
				return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
			}
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func encodePublicKey(k any) []byte {
	der, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// newRSA makes a key. Sizes that would take long are refused.
func (t *tool) newRSA(bits int) crypto.Signer {
	if bits < 512 || bits > 8192 {
		t.Errorf("ckadrill does not simulate RSA keys of %d bits\n", bits)
		return nil
	}
	if bits < 1024 {
		t.stack("0200007E:rsa routines:rsa_ossl_keygen:key size too small:../crypto/rsa/rsa_gen.c:435:") // Go refuses them too
		return nil
	}
	k, err := keys.New(t.World(), bits)
	if err != nil {
		t.Errorf("%s: %v\n", t.cmd, err)
		return nil
	}
	return k
}

func (t *tool) newEC(curve string) crypto.Signer {
	switch curve {
	case "prime256v1", "P-256", "secp256r1":
		k, err := keys.NewEC(t.World())
		if err == nil {
			return k
		}
	case "secp384r1", "P-384":
		if k, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader); err == nil {
			return k
		}
	case "secp521r1", "P-521":
		if k, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader); err == nil {
			return k
		}
	}
	t.Errorf("%s: Unknown curve name (%s)\n", t.cmd, curve)
	return nil
}

func (t *tool) genrsa(args []string) int {
	o, code := t.parse(args, "3 F4 f4 traditional verbose quiet aes128 aes192 aes256 des3", "out passout rand writerand primes")
	if o == nil {
		return code
	}
	bits := 2048
	if len(o.args) > 0 {
		n, err := strconv.Atoi(o.args[0])
		if err != nil {
			t.Errorf("%s: Can't parse \"%s\" as a number\n", t.cmd, o.args[0])
			return 1
		}
		bits = n
	}
	if t.encrypted(o) {
		return 1
	}
	k := t.newRSA(bits)
	if k == nil {
		return 1
	}
	return t.output(o.get("out"), encodePrivateKey(k, o.has("traditional")), true)
}

// encrypted complains about a request to encrypt a key.
func (t *tool) encrypted(o *options) bool {
	for _, c := range []string{"aes128", "aes192", "aes256", "des3", "aes-256-cbc"} {
		if o.has(c) {
			t.Errorf("ckadrill does not simulate encrypted private keys yet\n")
			return true
		}
	}
	return false
}

func (t *tool) genpkey(args []string) int {
	o, code := t.parse(args, "text quiet aes-256-cbc aes256", "out algorithm pkeyopt paramfile outform pass")
	if o == nil {
		return code
	}
	if t.encrypted(o) {
		return 1
	}
	k := t.generate(o.get("algorithm"), o.list("pkeyopt"))
	if k == nil {
		return 1
	}
	data := encodePrivateKey(k, false)
	if o.has("text") {
		data = append(data, privateKeyText(k)...)
	}
	return t.output(o.get("out"), data, true)
}

// generate makes a key of an algorithm with its -pkeyopt settings.
func (t *tool) generate(algorithm string, settings []string) crypto.Signer {
	get := func(key, other string) string {
		for _, s := range settings {
			if k, v, _ := strings.Cut(s, ":"); k == key {
				other = v
			}
		}
		return other
	}
	switch strings.ToUpper(algorithm) {
	case "RSA":
		bits, err := strconv.Atoi(get("rsa_keygen_bits", "2048"))
		if err != nil {
			t.Errorf("%s: Error setting rsa_keygen_bits parameter:\n", t.cmd)
			return nil
		}
		return t.newRSA(bits)
	case "EC":
		return t.newEC(get("ec_paramgen_curve", ""))
	case "":
		t.Errorf("%s: Error initializing context\n", t.cmd)
		return nil
	}
	t.Errorf("ckadrill does not simulate keys of the algorithm %s yet\n", algorithm)
	return nil
}

func (t *tool) ecparam(args []string) int {
	o, code := t.parse(args, "genkey noout", "name out")
	if o == nil {
		return code
	}
	if !o.has("genkey") {
		t.Errorf("ckadrill does not simulate `openssl ecparam` without -genkey yet\n")
		return 1
	}
	k := t.newEC(o.get("name"))
	if k == nil {
		return 1
	}
	var out []byte
	if !o.has("noout") {
		oid, err := asn1.Marshal(curveOID(k))
		if err != nil {
			return 1
		}
		out = pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: oid})
	}
	return t.output(o.get("out"), append(out, encodePrivateKey(k, true)...), true)
}

func curveOID(k crypto.Signer) asn1.ObjectIdentifier {
	switch k.(*ecdsa.PrivateKey).Curve.Params().BitSize {
	case 256:
		return asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}
	case 384:
		return asn1.ObjectIdentifier{1, 3, 132, 0, 34}
	}
	return asn1.ObjectIdentifier{1, 3, 132, 0, 35}
}

// rsa and pkey show a key or write it in another form. They differ in what they say about it.
func (t *tool) rsa(args []string) int { return t.showKey(args, true) }

func (t *tool) pkey(args []string) int { return t.showKey(args, false) }

func (t *tool) showKey(args []string, isRSA bool) int {
	o, code := t.parse(args, "noout text text_pub pubin pubout modulus check traditional aes256 des3", "in out inform outform passin passout")
	if o == nil {
		return code
	}
	if t.encrypted(o) {
		return 1
	}
	what := "key"
	if isRSA {
		what = "private key"
	}
	var public any
	var private crypto.Signer
	if o.has("pubin") {
		what = "public key"
		data, err := t.input(o.get("in"))
		if err != nil {
			t.storeError(what, o.get("in"), err)
			return 1
		}
		if public = parsePublicKey(data); public == nil {
			t.Errorf("Could not read %s from %s\n", what, shown(o.get("in")))
			return 1
		}
	} else {
		if private = t.loadPrivateKey(what, o.get("in")); private == nil {
			return 1
		}
		public = private.Public()
	}
	var out bytes.Buffer
	if o.has("text") {
		if private != nil && !o.has("pubout") {
			out.WriteString(privateKeyText(private))
		} else {
			out.WriteString(publicKeyText(public))
		}
	}
	if o.has("text_pub") {
		out.WriteString(publicKeyText(public))
	}
	if n, ok := public.(*rsa.PublicKey); ok && o.has("modulus") {
		fmt.Fprintf(&out, "Modulus=%X\n", n.N)
	}
	if o.has("check") {
		if isRSA {
			out.WriteString("RSA key ok\n")
		} else {
			out.WriteString("Key is valid\n")
		}
	}
	if o.has("noout") {
		return t.output(o.get("out"), out.Bytes(), false)
	}
	if isRSA {
		t.Errorf("writing RSA key\n")
	}
	der := strings.EqualFold(o.get("outform"), "DER")
	write := func(data []byte) {
		if b, _ := pem.Decode(data); b != nil && der {
			data = b.Bytes
		}
		out.Write(data)
	}
	if o.has("pubout") || private == nil {
		write(encodePublicKey(public))
		return t.output(o.get("out"), out.Bytes(), false)
	}
	write(encodePrivateKey(private, o.has("traditional")))
	return t.output(o.get("out"), out.Bytes(), true)
}
