package openssl

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// verifyError is a reason why a chain does not verify: OpenSSL's number and text, and where in the chain.
type verifyError struct {
	number, depth int
	text          string
	at            *x509.Certificate
}

func (e *verifyError) Error() string { return e.text }

// chain builds the chain of a certificate from untrusted and trusted ones and checks it, as OpenSSL does: it goes on from issuer
// to issuer and reports the first thing that is wrong.
func chain(leaf *x509.Certificate, untrusted, trusted []*x509.Certificate, now time.Time) ([]*x509.Certificate, *verifyError) {
	find := func(of *x509.Certificate, in []*x509.Certificate) *x509.Certificate {
		for _, c := range in {
			if bytes.Equal(c.RawSubject, of.RawIssuer) && issued(c, of) {
				return c
			}
		}
		return nil
	}
	l := []*x509.Certificate{leaf}
	contains := func(in []*x509.Certificate, c *x509.Certificate) bool {
		for _, x := range in {
			if x.Equal(c) {
				return true
			}
		}
		return false
	}
	anchored := contains(trusted, leaf) && selfIssued(leaf)
	for !anchored && len(l) < 100 {
		last := l[len(l)-1]
		if selfIssued(last) {
			text, number := "self-signed certificate in certificate chain", 19
			if len(l) == 1 {
				text, number = "self-signed certificate", 18
			}
			return l, &verifyError{number, len(l) - 1, text, last}
		}
		if c := find(last, trusted); c != nil {
			l = append(l, c)
			anchored = selfIssued(c)
			continue
		}
		c := find(last, untrusted)
		if c == nil {
			return l, &verifyError{20, len(l) - 1, "unable to get local issuer certificate", last}
		}
		l = append(l, c)
	}
	for depth := len(l) - 1; depth >= 0; depth-- {
		c := l[depth]
		switch {
		case depth > 0 && c.BasicConstraintsValid && !c.IsCA, depth > 0 && c.Version == 3 && !c.BasicConstraintsValid:
			return l, &verifyError{79, depth, "invalid CA certificate", c}
		case depth < len(l)-1 && l[depth+1].CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) != nil:
			return l, &verifyError{7, depth, "certificate signature failure", c}
		case now.Before(c.NotBefore):
			return l, &verifyError{9, depth, "certificate is not yet valid", c}
		case now.After(c.NotAfter):
			return l, &verifyError{10, depth, "certificate has expired", c}
		}
	}
	return l, nil
}

func selfIssued(c *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, c.RawIssuer) && issued(c, c)
}

// issued says whether by its identifiers a certificate can have issued another.
func issued(ca, c *x509.Certificate) bool {
	return len(c.AuthorityKeyId) == 0 || len(ca.SubjectKeyId) == 0 || bytes.Equal(c.AuthorityKeyId, ca.SubjectKeyId)
}

func (t *tool) verify(args []string) int {
	o, code := t.parse(args, "show_chain verbose partial_chain no-CAfile no-CApath x509_strict", "CAfile CApath untrusted trusted purpose verify_hostname verify_ip nameopt")
	if o == nil {
		return code
	}
	var trusted, untrusted []*x509.Certificate
	for _, f := range []struct {
		opt  string
		list *[]*x509.Certificate
	}{{"CAfile", &trusted}, {"trusted", &trusted}, {"untrusted", &untrusted}} {
		for _, name := range o.list(f.opt) {
			data, err := t.input(name)
			if err != nil {
				if f.opt == "CAfile" {
					t.Errorf("Error loading file %s\n", name)
					t.bioStack(name, "r", err)
					t.stack("05880002:x509 certificate routines:X509_load_cert_crl_file_ex:system lib:../crypto/x509/by_file.c:232:")
				} else {
					t.storeError(f.opt+" certificates", name, err)
				}
				return 1
			}
			*f.list = append(*f.list, certificates(data)...)
		}
	}
	files := o.args
	if len(files) == 0 {
		files = []string{""}
	}
	exit := 0
	for _, f := range files {
		leaf := t.loadCertificate("certificate file", f)
		if leaf == nil {
			exit = 2
			continue
		}
		l, bad := chain(leaf, untrusted, trusted, time.Now())
		if bad == nil && o.has("verify_hostname") && leaf.VerifyHostname(o.get("verify_hostname")) != nil {
			bad = &verifyError{62, 0, "hostname mismatch", leaf}
		}
		if bad != nil {
			t.Errorf("%s\nerror %d at %d depth lookup: %s\nerror %s: verification failed\n", nameOptions{}.format(bad.at.RawSubject), bad.number, bad.depth, bad.text, shown(f))
			exit = 2
			continue
		}
		t.Printf("%s: OK\n", shown(f))
		if o.has("show_chain") {
			t.Printf("Chain:\n")
			for i, c := range l {
				note := ""
				if i < len(l)-1 {
					note = " (untrusted)"
				}
				t.Printf("depth=%d: %s%s\n", i, nameOptions{}.format(c.RawSubject), note)
			}
		}
	}
	return exit
}

// verifyCallback prints what s_client prints while it verifies, and returns the number and text of the result.
func (t *tool) verifyCallback(l []*x509.Certificate, bad *verifyError) (number int, text string) {
	line := func(depth int, c *x509.Certificate) {
		t.Errorf("depth=%d %s\n", depth, nameOptions{}.format(c.RawSubject))
	}
	if bad == nil {
		for i := len(l) - 1; i >= 0; i-- {
			line(i, l[i])
			t.Errorf("verify return:1\n")
		}
		return 0, "ok"
	}
	number, text = bad.number, bad.text
	line(bad.depth, bad.at)
	t.Errorf("verify error:num=%d:%s\n", bad.number, bad.text)
	if bad.number == 10 {
		t.Errorf("notAfter=%s\n", date(bad.at.NotAfter))
	}
	t.Errorf("verify return:1\n")
	if bad.number == 20 {
		// Without an issuer the signature can not be checked either.
		number, text = 21, "unable to verify the first certificate"
		if len(l) == 1 {
			line(0, l[0])
			t.Errorf("verify error:num=21:%s\nverify return:1\n", text)
		} else {
			number, text = bad.number, bad.text
		}
	}
	for i := bad.depth; i >= 0; i-- {
		line(i, l[i])
		t.Errorf("verify return:1\n")
	}
	return number, text
}

var errNoPeer = errors.New("no peer certificate available")

func numbered(n int, text string) string { return fmt.Sprintf("%d (%s)", n, text) }
