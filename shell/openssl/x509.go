package openssl

import (
	"bytes"
	"crypto/md5"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"path"
	"strconv"
	"strings"
	"time"
)

// certificates reads all certificates of a PEM or DER file.
func certificates(data []byte) (l []*x509.Certificate) {
	for rest := data; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" && b.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(b.Bytes); err == nil {
			l = append(l, c)
		}
	}
	if len(l) == 0 {
		if c, err := x509.ParseCertificate(data); err == nil {
			l = append(l, c)
		}
	}
	return l
}

// loadCertificate reads the first certificate of a file or prints why it cannot.
func (t *tool) loadCertificate(what, name string) *x509.Certificate {
	data, err := t.input(name)
	if err != nil {
		t.storeError(what, name, err)
		t.Errorf("Unable to load %s\n", what)
		return nil
	}
	l := certificates(data)
	if len(l) == 0 {
		t.Errorf("Could not read %s from %s\n", what, shown(name))
		if bytes.Contains(data, []byte("-----BEGIN")) {
			t.stack("1608010C:STORE routines:ossl_store_handle_load_result:unsupported:../crypto/store/store_result.c:151:")
		}
		t.Errorf("Unable to load %s\n", what)
		return nil
	}
	return l[0]
}

const x509Flags = "noout text subject issuer dates startdate enddate serial fingerprint pubkey modulus hash subject_hash issuer_hash email req new " +
	"CAcreateserial md5 sha1 sha256 sha384 sha512 clrext preserve_dates nocert purpose"

const x509Values = "in out inform outform ext checkend nameopt certopt days CA CAkey CAserial signkey key set_serial extfile extensions copy_extensions subj passin dateopt"

func (t *tool) x509(args []string) int {
	o, code := t.parse(args, x509Flags, x509Values)
	if o == nil {
		return code
	}
	if len(o.args) > 0 {
		return t.usage("Extra arguments given.")
	}
	var c *x509.Certificate
	var made []byte
	if o.has("req") || o.has("new") {
		if c = t.signRequest(o); c == nil {
			return 1
		}
		made = c.Raw
	} else {
		if c = t.loadCertificate("certificate", o.get("in")); c == nil {
			return 1
		}
		made = c.Raw
	}
	out := t.show(c, o)
	exit := 0
	if o.has("checkend") {
		n, err := strconv.ParseInt(o.get("checkend"), 10, 64)
		if err != nil {
			return t.usage("checkend is out of range %s", o.get("checkend"))
		}
		if time.Until(c.NotAfter) < time.Duration(n)*time.Second {
			out += "Certificate will expire\n"
			exit = 1
		} else {
			out += "Certificate will not expire\n"
		}
	}
	if !o.has("noout") && !o.has("nocert") && !o.has("checkend") {
		if strings.EqualFold(o.get("outform"), "DER") {
			out += string(made)
		} else {
			out += string(certificatePEM(made))
		}
	}
	if code := t.output(o.get("out"), []byte(out), false); code != 0 {
		return code
	}
	return exit
}

// show prints what was asked for, in the order of the options. Only -ext comes where it is found, as in OpenSSL.
func (t *tool) show(c *x509.Certificate, o *options) string {
	var b strings.Builder
	names := parseNameOptions(o.list("nameopt"))
	for _, opt := range o.order {
		switch opt {
		case "text":
			b.WriteString(certificateText(c, names))
		case "subject":
			fmt.Fprintf(&b, "subject=%s\n", names.format(c.RawSubject))
		case "issuer":
			fmt.Fprintf(&b, "issuer=%s\n", names.format(c.RawIssuer))
		case "dates":
			fmt.Fprintf(&b, "notBefore=%s\nnotAfter=%s\n", date(c.NotBefore), date(c.NotAfter))
		case "startdate":
			fmt.Fprintf(&b, "notBefore=%s\n", date(c.NotBefore))
		case "enddate":
			fmt.Fprintf(&b, "notAfter=%s\n", date(c.NotAfter))
		case "serial":
			fmt.Fprintf(&b, "serial=%s\n", serialHex(c.SerialNumber))
		case "fingerprint":
			b.WriteString(fingerprint(c, o))
		case "pubkey":
			b.Write(encodePublicKey(c.PublicKey))
		case "modulus":
			if k, ok := c.PublicKey.(*rsa.PublicKey); ok {
				fmt.Fprintf(&b, "Modulus=%X\n", k.N)
			} else {
				b.WriteString("Modulus=No modulus for this public key type\n")
			}
		case "email":
			for _, m := range c.EmailAddresses {
				b.WriteString(m + "\n")
			}
		case "ext":
			l := extensionsByName(c.Extensions, o.get("ext"))
			if len(l) == 0 {
				t.Errorf("No extensions in certificate\n")
			}
			printExtensions(&b, l, "")
		case "hash", "subject_hash", "issuer_hash", "purpose":
			t.Errorf("ckadrill does not simulate `openssl x509 -%s` yet\n", opt)
		}
	}
	return b.String()
}

func serialHex(n *big.Int) string {
	s := fmt.Sprintf("%X", n)
	if len(s)%2 == 1 {
		s = "0" + s
	}
	return s
}

func fingerprint(c *x509.Certificate, o *options) string {
	name, sum := "SHA1", func() []byte { s := sha1.Sum(c.Raw); return s[:] }
	for _, d := range o.order {
		switch d {
		case "md5":
			name, sum = "md5", func() []byte { s := md5.Sum(c.Raw); return s[:] }
		case "sha1":
			name, sum = "sha1", func() []byte { s := sha1.Sum(c.Raw); return s[:] }
		case "sha256":
			name, sum = "sha256", func() []byte { s := sha256.Sum256(c.Raw); return s[:] }
		case "sha384":
			name, sum = "sha384", func() []byte { s := sha512.Sum384(c.Raw); return s[:] }
		case "sha512":
			name, sum = "sha512", func() []byte { s := sha512.Sum512(c.Raw); return s[:] }
		}
	}
	return name + " Fingerprint=" + colons(sum()) + "\n"
}

// signRequest is "x509 -req": it makes a certificate of a request.
func (t *tool) signRequest(o *options) *x509.Certificate {
	if o.has("new") && !o.has("req") {
		t.Errorf("ckadrill does not simulate `openssl x509 -new` yet\n")
		return nil
	}
	csr := t.loadRequest("certificate request input", o.get("in"))
	if csr == nil {
		return nil
	}
	if err := csr.CheckSignature(); err != nil {
		t.Errorf("Certificate request self-signature did not match the contents\n")
		return nil
	}
	t.Errorf("Certificate request self-signature ok\nsubject=%s\n", parseNameOptions(o.list("nameopt")).format(csr.RawSubject))

	days := 30
	if o.has("days") {
		n, err := strconv.Atoi(o.get("days"))
		if err != nil {
			t.usage("Can't parse \"%s\" as a number", o.get("days"))
			return nil
		}
		days = n
	}
	now := time.Now()
	c := certificate{subject: csr.RawSubject, publicKey: csr.RawSubjectPublicKeyInfo, notBefore: now, notAfter: now.AddDate(0, 0, days)}
	if o.has("subj") {
		raw, _, err := parseSubject(o.get("subj"))
		if err != nil {
			t.Errorf("%s: %v\n", t.cmd, err)
			return nil
		}
		c.subject = raw
	}
	var caKey []byte // SPKI
	keyFile := o.get("signkey")
	if o.has("key") {
		keyFile = o.get("key")
	}
	signerWhat := "private key"
	var ca *x509.Certificate
	if o.has("CA") {
		if ca = t.loadCertificate("CA certificate", o.get("CA")); ca == nil {
			return nil
		}
		c.issuer, caKey = ca.RawSubject, ca.RawSubjectPublicKeyInfo
		keyFile, signerWhat = o.get("CAkey"), "CA private key"
		if keyFile == "" {
			keyFile = o.get("CA")
		}
	} else {
		c.issuer, caKey = c.subject, csr.RawSubjectPublicKeyInfo
	}
	if keyFile == "" {
		t.Errorf("%s: We need a private key to sign with, use -key or -CA or -CAkey or -force_pubkey\n", t.cmd)
		return nil
	}
	key := t.loadPrivateKey(signerWhat, keyFile)
	if key == nil {
		return nil
	}
	if ca != nil && !samePublicKey(ca, key) {
		t.Errorf("CA certificate and CA private key do not match\n")
		t.stack("05800074:x509 certificate routines:X509_check_private_key:key values mismatch:../crypto/x509/x509_cmp.c:405:")
		return nil
	}
	if c.serial = t.serialFor(o); c.serial == nil {
		return nil
	}
	if !t.requestExtensions(o, csr, &c, caKey) {
		return nil
	}
	der, err := c.sign(key)
	if err != nil {
		t.Errorf("%v\n", err)
		return nil
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Errorf("%v\n", err)
		return nil
	}
	return cert
}

// requestExtensions fills in the extensions of a certificate made from a request.
func (t *tool) requestExtensions(o *options, csr *x509.CertificateRequest, c *certificate, issuer []byte) bool {
	if copied := o.get("copy_extensions"); copied == "copy" || copied == "copyall" {
		c.extensions = append(c.extensions, csr.Extensions...)
	}
	if o.has("extfile") {
		data, err := t.input(o.get("extfile"))
		if err != nil {
			t.bioError(o.get("extfile"), "reading", "r", err)
			return false
		}
		cfg := parseConfig(data)
		section := "default"
		if s := cfg.get("default", "extensions"); s != "" {
			section = s
		}
		if o.has("extensions") {
			section = o.get("extensions")
		}
		if !cfg.has(section) && section != "default" {
			t.Errorf("Error checking extension section %s\n", section)
			return false
		}
		l, err := cfg.extensions(section, csr.RawSubjectPublicKeyInfo, issuer)
		if err != nil {
			t.Errorf("Error adding extensions from section %s\n", section)
			return false
		}
		c.extensions = append(c.extensions, l...)
	}
	// OpenSSL 3 adds identifiers to version 3 certificates that do not have them.
	if len(c.extensions) > 0 {
		has := map[string]bool{}
		for _, e := range c.extensions {
			has[e.Id.String()] = true
		}
		if !has[oidSubjectKeyID.String()] {
			c.extensions = append(c.extensions, subjectKeyID(csr.RawSubjectPublicKeyInfo))
		}
		if !has[oidAuthorityKeyID.String()] {
			c.extensions = append(c.extensions, authorityKeyID(keyID(issuer)))
		}
	}
	return true
}

// serialFor is the serial number of a new certificate: given, counted in the CA's serial file, or random.
func (t *tool) serialFor(o *options) *big.Int {
	if o.has("set_serial") {
		n, ok := new(big.Int).SetString(o.get("set_serial"), 0)
		if !ok {
			t.usage("Can't parse \"%s\" as a number", o.get("set_serial"))
			return nil
		}
		return n
	}
	if !o.has("CA") || !o.has("CAserial") && !o.has("CAcreateserial") {
		return t.newSerial()
	}
	file := o.get("CAserial")
	if file == "" {
		file = strings.TrimSuffix(o.get("CA"), path.Ext(o.get("CA"))) + ".srl"
	}
	serial := t.newSerial()
	data, err := t.ReadFile(file)
	switch {
	case err == nil:
		old, ok := new(big.Int).SetString(strings.TrimSpace(string(data)), 16)
		if !ok {
			t.Errorf("unable to load number from %s\n", file)
			return nil
		}
		serial = old.Add(old, big.NewInt(1))
	case !o.has("CAcreateserial"):
		t.bioError(file, "reading", "r", err)
		return nil
	}
	if t.output(file, []byte(serialHex(serial)+"\n"), false) != 0 {
		return nil
	}
	return serial
}
