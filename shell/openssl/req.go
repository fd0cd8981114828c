package openssl

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// loadRequest reads a certificate request or prints why it cannot.
func (t *tool) loadRequest(what, name string) *x509.CertificateRequest {
	data, err := t.input(name)
	if err != nil {
		t.bioError(name, "reading", "r", err)
		t.Errorf("Unable to load %s\n", what)
		return nil
	}
	der := data
	for rest := data; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if strings.HasSuffix(b.Type, "CERTIFICATE REQUEST") {
			der = b.Bytes
			break
		}
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Errorf("Unable to load %s\n", what)
		t.stack("0480006C:PEM routines:get_name:no start line:../crypto/pem/pem_lib.c:763:Expecting: CERTIFICATE REQUEST")
		return nil
	}
	return r
}

const reqFlags = "new noout text subject pubkey verify modulus x509 nodes noenc batch utf8 verbose sha256 sha384 sha512 sha1"

const reqValues = "in out inform outform key keyout newkey subj days addext config extensions reqexts set_serial nameopt passin passout pkeyopt CA CAkey copy_extensions section"

func (t *tool) req(args []string) int {
	o, code := t.parse(args, reqFlags, reqValues)
	if o == nil {
		return code
	}
	if len(o.args) > 0 {
		return t.usage("Extra arguments given.")
	}
	if o.has("new") || o.has("newkey") || o.has("x509") && !o.has("in") {
		return t.newRequest(o)
	}
	if o.has("x509") {
		t.Errorf("ckadrill does not simulate `openssl req -x509 -in` yet\n")
		return 1
	}
	r := t.loadRequest("X509 request", o.get("in"))
	if r == nil {
		return 1
	}
	return t.showRequest(r, o)
}

// showRequest prints what was asked for, and the request itself unless -noout is given.
func (t *tool) showRequest(r *x509.CertificateRequest, o *options) int {
	if o.has("verify") {
		if r.CheckSignature() != nil {
			t.Errorf("Certificate request self-signature verify failure\n")
			return 1
		}
		t.Errorf("Certificate request self-signature verify OK\n")
	}
	var b strings.Builder
	names := parseNameOptions(o.list("nameopt"))
	if o.has("pubkey") {
		b.Write(encodePublicKey(r.PublicKey))
	}
	if o.has("text") {
		b.WriteString(requestText(r, names))
	}
	if o.has("subject") {
		fmt.Fprintf(&b, "subject=%s\n", names.format(r.RawSubject))
	}
	if k, ok := r.PublicKey.(*rsa.PublicKey); ok && o.has("modulus") {
		fmt.Fprintf(&b, "Modulus=%X\n", k.N)
	}
	if !o.has("noout") {
		if strings.EqualFold(o.get("outform"), "DER") {
			b.Write(r.Raw)
		} else {
			b.Write(requestPEM(r.Raw))
		}
	}
	return t.output(o.get("out"), []byte(b.String()), false)
}

// newRequest makes a request, or with -x509 a self-signed certificate.
func (t *tool) newRequest(o *options) int {
	var cfg config
	if o.has("config") {
		data, err := t.input(o.get("config"))
		if err != nil {
			t.bioError(o.get("config"), "reading", "r", err)
			return 1
		}
		cfg = parseConfig(data)
	}
	var subject []byte
	if o.has("subj") {
		raw, skipped, err := parseSubject(o.get("subj"))
		if err != nil {
			t.Errorf("req: %v\n", err)
			return 1
		}
		for _, s := range skipped {
			t.Errorf("req warning: %s\n", s)
		}
		subject = raw
	}
	key := t.requestKey(o)
	if key == nil {
		return 1
	}
	if subject == nil {
		if subject = t.askSubject(o, cfg); subject == nil {
			t.Errorf("Error making certificate request\n")
			return 1
		}
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Errorf("%v\n", err)
		return 1
	}
	extensions, ok := t.configuredExtensions(o, cfg, spki)
	if !ok {
		return 1
	}
	if o.has("x509") {
		return t.selfSigned(o, key, subject, spki, extensions)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{RawSubject: subject, ExtraExtensions: extensions}, key)
	if err != nil {
		t.Errorf("%v\n", err)
		return 1
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Errorf("%v\n", err)
		return 1
	}
	return t.showRequest(r, o)
}

// requestKey loads -key or makes a new key and writes it to -keyout.
func (t *tool) requestKey(o *options) crypto.Signer {
	if o.has("key") {
		return t.loadPrivateKey("private key", o.get("key"))
	}
	if !o.has("nodes") && !o.has("noenc") {
		t.Errorf("ckadrill does not simulate encrypted private keys yet: use -nodes\n")
		return nil
	}
	algorithm, size, sized := strings.Cut(o.get("newkey"), ":")
	if algorithm == "" {
		algorithm = "rsa"
	}
	settings := o.list("pkeyopt")
	if sized && strings.EqualFold(algorithm, "rsa") {
		settings = append(settings, "rsa_keygen_bits:"+size)
	}
	k := t.generate(algorithm, settings)
	if k == nil {
		return nil
	}
	file := o.get("keyout")
	if file == "" {
		file = "privkey.pem"
	}
	t.Errorf("-----\n")
	if t.output(file, encodePrivateKey(k, false), true) != 0 {
		return nil
	}
	return k
}

// configuredExtensions are those of -addext and of the configuration's section.
func (t *tool) configuredExtensions(o *options, cfg config, spki []byte) (l []pkix.Extension, ok bool) {
	section := cfg.get("req", "req_extensions")
	if o.has("x509") {
		section = cfg.get("req", "x509_extensions")
	}
	for _, opt := range []string{"extensions", "reqexts"} {
		if o.has(opt) {
			section = o.get(opt)
		}
	}
	if section != "" {
		if !cfg.has(section) {
			t.Errorf("Error checking x509 extension section %s\n", section)
			return nil, false
		}
		e, err := cfg.extensions(section, spki, spki)
		if err != nil {
			t.Errorf("Error adding request extensions from section %s\n", section)
			return nil, false
		}
		l = append(l, e...)
	}
	for _, a := range o.list("addext") {
		name, value, given := strings.Cut(a, "=")
		if !given {
			t.Errorf("req: Value not given in extension: \"%s\"\n", a)
			return nil, false
		}
		e, err := cfg.extension(strings.TrimSpace(name), strings.TrimSpace(value), spki, spki)
		if err != nil {
			t.Errorf("Error adding request extensions defined via -addext\n")
			return nil, false
		}
		if e != nil {
			l = append(l, *e)
		}
	}
	return l, true
}

// selfSigned makes the certificate of "req -x509", with the extensions of Ubuntu's openssl.cnf (section v3_ca) if no
// configuration is given.
func (t *tool) selfSigned(o *options, key crypto.Signer, subject, spki []byte, extensions []pkix.Extension) int {
	days := 30
	if o.has("days") {
		n, err := strconv.Atoi(o.get("days"))
		if err != nil {
			return t.usage("Can't parse \"%s\" as a number", o.get("days"))
		}
		days = n
	}
	serial := t.newSerial()
	if o.has("set_serial") {
		if serial = t.serialFor(o); serial == nil {
			return 1
		}
	}
	has := map[string]bool{}
	for _, e := range extensions {
		has[e.Id.String()] = true
	}
	l := []pkix.Extension{}
	if !has[oidSubjectKeyID.String()] {
		l = append(l, subjectKeyID(spki))
	}
	if !has[oidAuthorityKeyID.String()] {
		l = append(l, authorityKeyID(keyID(spki)))
	}
	if !has[oidBasicConstraints.String()] && !o.has("config") {
		e, err := config{}.extension("basicConstraints", "critical,CA:true", spki, spki)
		if err != nil {
			return 1
		}
		l = append(l, *e)
	}
	now := time.Now()
	der, err := certificate{
		serial: serial, issuer: subject, subject: subject, publicKey: spki, extensions: append(l, extensions...),
		notBefore: now, notAfter: now.AddDate(0, 0, days),
	}.sign(key)
	if err != nil {
		t.Errorf("%v\n", err)
		return 1
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Errorf("%v\n", err)
		return 1
	}
	out := ""
	if o.has("text") {
		out = certificateText(c, parseNameOptions(o.list("nameopt")))
	}
	if o.has("subject") {
		out += "subject=" + parseNameOptions(o.list("nameopt")).format(c.RawSubject) + "\n"
	}
	if !o.has("noout") {
		out += string(certificatePEM(der))
	}
	return t.output(o.get("out"), []byte(out), false)
}

// questions are what "req -new" asks without -subj, by Ubuntu's openssl.cnf: attribute, prompt, default.
var questions = [][3]string{
	{"C", "Country Name (2 letter code)", "AU"},
	{"ST", "State or Province Name (full name)", "Some-State"},
	{"L", "Locality Name (eg, city)", ""},
	{"O", "Organization Name (eg, company)", "Internet Widgits Pty Ltd"},
	{"OU", "Organizational Unit Name (eg, section)", ""},
	{"CN", "Common Name (e.g. server FQDN or YOUR name)", ""},
	{"emailAddress", "Email Address", ""},
}

// askSubject finds the subject in the configuration, or asks the user for it. It is nil when input ends early.
func (t *tool) askSubject(o *options, cfg config) []byte {
	if section := cfg.get("req", "distinguished_name"); section != "" && cfg.get("req", "prompt") == "no" {
		var b strings.Builder
		for _, kv := range cfg.section(section) {
			name := kv[0]
			if _, after, ok := strings.Cut(name, "."); ok {
				name = after // "0.O" and "1.O" are two organizations
			}
			fmt.Fprintf(&b, "/%s=%s", name, strings.NewReplacer("/", "\\/", "+", "\\+").Replace(kv[1]))
		}
		raw, _, err := parseSubject(b.String())
		if err != nil {
			return nil
		}
		return raw
	}
	if o.has("batch") {
		raw, _, err := parseSubject("/C=AU/ST=Some-State/O=Internet Widgits Pty Ltd")
		if err != nil {
			return nil
		}
		return raw
	}
	t.Errorf("You are about to be asked to enter information that will be incorporated\ninto your certificate request.\n" +
		"What you are about to enter is what is called a Distinguished Name or a DN.\nThere are quite a few fields but you can leave some blank\n" +
		"For some fields there will be a default value,\nIf you enter '.', the field will be left blank.\n-----\n")
	in := bufio.NewReader(t.Stdin)
	ask := func(prompt, fallback string) (string, bool) {
		prompt += " [" + fallback + "]:"
		var line string
		var err error
		if t.TTY != nil {
			line, err = t.TTY.ReadLine(prompt, nil)
		} else {
			t.Errorf("%s", prompt)
			line, err = in.ReadString('\n')
		}
		if err != nil && (err != io.EOF || line == "") {
			return "", false
		}
		line = strings.TrimSpace(line)
		switch line {
		case "":
			line = fallback
		case ".":
			line = ""
		}
		return line, true
	}
	var b bytes.Buffer
	for _, q := range questions {
		v, ok := ask(q[1], q[2])
		if !ok {
			return nil
		}
		if v != "" {
			fmt.Fprintf(&b, "/%s=%s", q[0], strings.NewReplacer("\\", "\\\\", "/", "\\/", "+", "\\+").Replace(v))
		}
	}
	if !o.has("x509") {
		t.Errorf("\nPlease enter the following 'extra' attributes\nto be sent with your certificate request\n")
		for _, q := range []string{"A challenge password", "An optional company name"} {
			if _, ok := ask(q, ""); !ok {
				return nil
			}
		}
	}
	if b.Len() == 0 {
		t.Errorf("Error: No objects specified in config file\n")
		return nil
	}
	raw, _, err := parseSubject(b.String())
	if err != nil {
		return nil
	}
	return raw
}
