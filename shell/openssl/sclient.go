package openssl

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ckadrill/sim/network"
)

// count is a connection that counts its bytes.
type count struct {
	net.Conn
	read, written atomic.Int64
}

func (c *count) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func (c *count) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

func (t *tool) sClient(args []string) int {
	o, code := t.parse(args, "showcerts quiet brief prexit tls1_2 tls1_3 verify_return_error noservername ign_eof no_ign_eof state debug msg status",
		"connect host port servername CAfile CApath cert key verify alpn name nameopt")
	if o == nil {
		return code
	}
	address := o.get("connect")
	if address == "" && len(o.args) > 0 {
		address = o.args[0]
	}
	if address == "" {
		address = "localhost:4433"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return t.usage("-connect argument or target parameter malformed or ambiguous")
	}
	if host == "" {
		host = "localhost"
	}
	trusted, ok := t.trusted(o.get("CAfile"))
	if !ok {
		return 1
	}
	cfg := &tls.Config{InsecureSkipVerify: true, ServerName: o.get("servername")} // the chain is checked and reported below
	if cfg.ServerName == "" && !o.has("noservername") {
		if _, err := netip.ParseAddr(host); err != nil {
			cfg.ServerName = host
		}
	}
	if o.has("tls1_2") {
		cfg.MaxVersion = tls.VersionTLS12
	}
	if o.has("tls1_3") {
		cfg.MinVersion = tls.VersionTLS13
	}
	if o.has("alpn") {
		cfg.NextProtos = strings.Split(o.get("alpn"), ",")
	}
	if o.has("cert") {
		pair, ok := t.clientPair(o)
		if !ok {
			return 1
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	var acceptable [][]byte
	cfg.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		acceptable = r.AcceptableCAs
		if len(cfg.Certificates) > 0 {
			return &cfg.Certificates[0], nil
		}
		return &tls.Certificate{}, nil
	}
	raw, code := t.connect(host, port)
	if raw == nil {
		return code
	}
	defer raw.Close()
	c := &count{Conn: raw}
	conn := tls.Client(c, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = conn.HandshakeContext(ctx)
	state := conn.ConnectionState()
	if err != nil && len(state.PeerCertificates) == 0 {
		return t.handshakeFailed(c, err)
	}
	var bad *verifyError
	var l []*x509.Certificate
	if len(state.PeerCertificates) > 0 {
		l, bad = chain(state.PeerCertificates[0], state.PeerCertificates[1:], trusted, time.Now())
	}
	number, text := t.verifyCallback(l, bad)
	if o.has("brief") {
		t.brief(state, number, text)
	} else if !o.has("quiet") {
		t.report(o, state, c, acceptable, number, text)
	}
	if o.has("verify_return_error") && number != 0 {
		return 1
	}
	return t.talk(conn, o)
}

// trusted loads the CA file.
func (t *tool) trusted(name string) ([]*x509.Certificate, bool) {
	if name == "" {
		return nil, true
	}
	data, err := t.input(name)
	if err != nil {
		t.bioStack(name, "r", err)
		return nil, false
	}
	return certificates(data), true
}

func (t *tool) clientPair(o *options) (tls.Certificate, bool) {
	c := t.loadCertificate("client certificate", o.get("cert"))
	if c == nil {
		return tls.Certificate{}, false
	}
	name := o.get("key")
	if name == "" {
		name = o.get("cert")
	}
	k := t.loadPrivateKey("client certificate private key", name)
	if k == nil {
		return tls.Certificate{}, false
	}
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: k, Leaf: c}, true
}

// connect dials every address of a host in turn.
func (t *tool) connect(host, port string) (net.Conn, int) {
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = network.Resolve(t.Context(), t.Process, host); err != nil {
		t.stack("10080002:BIO routines:BIO_lookup_ex:system lib:../crypto/bio/bio_addr.c:738:Name or service not known")
		t.Errorf("connect:errno=0\n")
		return nil, 1
	}
	var last error
	for _, a := range addrs {
		c, err := t.Dial(t.Context(), "tcp", net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, 0
		}
		last = err
	}
	errno := syscall.ECONNREFUSED
	errors.As(last, &errno)
	text := map[syscall.Errno]string{
		syscall.ECONNREFUSED: "Connection refused", syscall.EHOSTUNREACH: "No route to host", syscall.ETIMEDOUT: "Connection timed out", syscall.ENETUNREACH: "Network is unreachable",
	}[errno]
	t.stack(fmt.Sprintf("8%07X:system library:BIO_connect:%s:../crypto/bio/bio_sock2.c:114:calling connect()", linuxErrno[errno], text),
		"10000067:BIO routines:BIO_connect:connect error:../crypto/bio/bio_sock2.c:116:")
	t.Errorf("connect:errno=%d\n", linuxErrno[errno])
	return nil, 1
}

// linuxErrno are Linux's numbers, whatever system this runs on.
var linuxErrno = map[syscall.Errno]int{syscall.ECONNREFUSED: 111, syscall.EHOSTUNREACH: 113, syscall.ETIMEDOUT: 110, syscall.ENETUNREACH: 101}

// handshakeFailed reports a connection that does not speak TLS, or a refusal.
func (t *tool) handshakeFailed(c *count, err error) int {
	t.Printf("CONNECTED(00000003)\n")
	var header tls.RecordHeaderError
	if errors.As(err, &header) {
		t.stack("0A00010B:SSL routines:ssl3_get_record:wrong version number:../ssl/record/ssl3_record.c:354:")
	} else {
		t.stack("0A000126:SSL routines:ssl3_read_n:unexpected eof while reading:../ssl/record/rec_layer_s3.c:322:")
	}
	t.Printf("---\n%s\n---\nNo client certificate CA names sent\n---\nSSL handshake has read %d bytes and written %d bytes\nVerification: OK\n---\n"+
		"New, (NONE), Cipher is (NONE)\nSecure Renegotiation IS NOT supported\nCompression: NONE\nExpansion: NONE\nNo ALPN negotiated\nEarly data was not sent\nVerify return code: 0 (ok)\n---\n",
		errNoPeer, c.read.Load(), c.written.Load())
	return 1
}

// cipherNames are OpenSSL's names of the cipher suites of TLS 1.2; those of 1.3 have the same everywhere.
func cipherName(id uint16) string {
	n := tls.CipherSuiteName(id)
	if !strings.Contains(n, "_WITH_") {
		return n
	}
	n = strings.TrimSuffix(strings.TrimPrefix(n, "TLS_"), "_SHA256")
	n = strings.NewReplacer("_WITH_", "-", "AES_", "AES", "_", "-").Replace(n)
	if strings.Contains(n, "AES128-GCM") {
		n += "-SHA256"
	}
	return strings.TrimPrefix(n, "RSA-")
}

func keyDescription(c *x509.Certificate) (kind string, bits int) {
	switch k := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return "rsaEncryption", k.N.BitLen()
	case *ecdsa.PublicKey:
		return "id-ecPublicKey", k.Curve.Params().BitSize
	}
	return "ED25519", 256
}

// opensslSignature is how a chain's line names a signature algorithm: RSA-SHA256.
func opensslSignature(a x509.SignatureAlgorithm) string {
	switch a {
	case x509.SHA256WithRSA:
		return "RSA-SHA256"
	case x509.SHA384WithRSA:
		return "RSA-SHA384"
	case x509.SHA512WithRSA:
		return "RSA-SHA512"
	}
	return signatureNames[a]
}

// report is the long form of what s_client says about a connection.
func (t *tool) report(o *options, s tls.ConnectionState, c *count, acceptable [][]byte, number int, text string) {
	var b strings.Builder
	b.WriteString("CONNECTED(00000003)\n---\nCertificate chain\n")
	for i, cert := range s.PeerCertificates {
		kind, bits := keyDescription(cert)
		fmt.Fprintf(&b, "%2d s:%s\n   i:%s\n   a:PKEY: %s, %d (bit); sigalg: %s\n   v:NotBefore: %s; NotAfter: %s\n", i, nameOptions{}.format(cert.RawSubject), nameOptions{}.format(cert.RawIssuer),
			kind, bits, opensslSignature(cert.SignatureAlgorithm), date(cert.NotBefore), date(cert.NotAfter))
		if o.has("showcerts") {
			b.Write(certificatePEM(cert.Raw))
		}
	}
	b.WriteString("---\n")
	if len(s.PeerCertificates) > 0 {
		leaf := s.PeerCertificates[0]
		b.WriteString("Server certificate\n")
		if !o.has("showcerts") {
			b.Write(certificatePEM(leaf.Raw))
		}
		fmt.Fprintf(&b, "subject=%s\nissuer=%s\n---\n", nameOptions{}.format(leaf.RawSubject), nameOptions{}.format(leaf.RawIssuer))
	}
	if len(acceptable) == 0 {
		b.WriteString("No client certificate CA names sent\n")
	} else {
		b.WriteString("Acceptable client certificate CA names\n")
		for _, a := range acceptable {
			b.WriteString(nameOptions{}.format(a) + "\n")
		}
	}
	b.WriteString("Peer signing digest: SHA256\nPeer signature type: RSA-PSS\nServer Temp Key: X25519, 253 bits\n---\n")
	fmt.Fprintf(&b, "SSL handshake has read %d bytes and written %d bytes\n", c.read.Load(), c.written.Load())
	if number == 0 {
		b.WriteString("Verification: OK\n")
	} else {
		fmt.Fprintf(&b, "Verification error: %s\n", text)
	}
	bits := 0
	if len(s.PeerCertificates) > 0 {
		_, bits = keyDescription(s.PeerCertificates[0])
	}
	fmt.Fprintf(&b, "---\nNew, %s, Cipher is %s\nServer public key is %d bit\nSecure Renegotiation IS NOT supported\nCompression: NONE\nExpansion: NONE\n", protocol(s), cipherName(s.CipherSuite), bits)
	if s.NegotiatedProtocol != "" {
		fmt.Fprintf(&b, "ALPN protocol: %s\n", s.NegotiatedProtocol)
	} else {
		b.WriteString("No ALPN negotiated\n")
	}
	fmt.Fprintf(&b, "Early data was not sent\nVerify return code: %s\n---\n", numbered(number, text))
	t.Stdout.Write([]byte(b.String()))
}

func protocol(s tls.ConnectionState) string {
	if s.Version == tls.VersionTLS12 {
		return "TLSv1.2"
	}
	return "TLSv1.3"
}

func (t *tool) brief(s tls.ConnectionState, number int, text string) {
	t.Errorf("CONNECTION ESTABLISHED\nProtocol version: %s\nCiphersuite: %s\n", protocol(s), cipherName(s.CipherSuite))
	if len(s.PeerCertificates) > 0 {
		t.Errorf("Peer certificate: %s\n", nameOptions{}.format(s.PeerCertificates[0].RawSubject))
	}
	if number == 0 {
		t.Errorf("Verification: OK\n")
	} else {
		t.Errorf("Verification error: %s\n", text)
	}
}

// talk copies what is typed to the server and its answers back, until input or the server ends.
func (t *tool) talk(conn *tls.Conn, o *options) int {
	served := make(chan struct{})
	go func() {
		defer close(served)
		io.Copy(t.Stdout, conn)
	}()
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		in := bufio.NewReader(t.Stdin)
		for {
			line, err := in.ReadString('\n')
			if strings.HasPrefix(line, "Q") && !o.has("quiet") {
				return
			}
			if _, werr := conn.Write([]byte(line)); err != nil || werr != nil {
				return
			}
		}
	}()
	select {
	case <-typed:
		if o.has("ign_eof") || o.has("quiet") && !o.has("no_ign_eof") {
			<-served
		} else {
			t.Errorf("DONE\n")
		}
	case <-served:
		t.Printf("closed\n")
	case <-t.Context().Done():
	}
	return 0
}
