package apt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/network"
)

// certificateFile holds the CAs that apt trusts for https.
const certificateFile = "/etc/ssl/certs/ca-certificates.crt"

// Time-outs of apt's http method.
const (
	connectTimeout = 30 * time.Second
	maxRedirects   = 10
	maxFetch       = 64 << 20
)

// fetched is what came of an address.
type fetched struct {
	content []byte
	// from is the address that gave it, after redirections.
	from      string
	unchanged bool // since the date that was named
	status    int
}

// fetchError is why there is nothing, in apt's words. Temporary ones may go away by themselves.
type fetchError struct {
	text      string
	temporary bool
}

func (e *fetchError) Error() string { return e.text }

// fetch gets an address over the machine's network. since is the date of what is here already; zero is nothing.
func (r *run) fetch(address string, since time.Time) (fetched, error) {
	for range maxRedirects {
		f, next, err := r.fetchOnce(address, since)
		if err != nil || next == "" {
			return f, err
		}
		address = next
	}
	return fetched{from: address}, &fetchError{text: "Redirection loop encountered"}
}

func (r *run) fetchOnce(address string, since time.Time) (f fetched, redirect string, err error) {
	f.from = address
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		scheme, _, _ := strings.Cut(address, ":")
		return f, "", &fetchError{text: fmt.Sprintf("ckadrill does not simulate apt's method %s yet", scheme)}
	}
	ctx, cancel := context.WithCancel(r.c.Context())
	defer cancel()
	conn, peer, err := r.connect(ctx, u)
	if err != nil {
		return f, "", err
	}
	defer conn.Close()
	var cfg *tls.Config
	if u.Scheme == "https" {
		pool := x509.NewCertPool()
		if b, err := r.c.Files.ReadFile(certificateFile); err == nil {
			pool.AppendCertsFromPEM(b)
		}
		cfg = &tls.Config{ServerName: u.Hostname(), RootCAs: pool}
	}
	t := network.NewTransport(r.c.Process, cfg)
	t.HTTP1 = true
	defer t.Close()
	t.DialContext = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return f, "", &fetchError{text: err.Error()}
	}
	q.Header.Set("User-Agent", "Debian APT-HTTP/1.3 ("+version+")")
	if !since.IsZero() {
		q.Header.Set("If-Modified-Since", since.UTC().Format(http.TimeFormat))
	}
	at := fmt.Sprintf("[IP: %s %s]", peer.Addr(), port(u))
	res, err := t.RoundTrip(q)
	if err != nil {
		return f, "", tlsError(err, at)
	}
	defer res.Body.Close()
	f.status = res.StatusCode
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotModified:
		f.unchanged = true
		return f, "", nil
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := u.Parse(res.Header.Get("Location"))
		if err != nil {
			return f, "", &fetchError{text: "Bad redirection " + at}
		}
		return f, next.String(), nil
	default:
		return f, "", &fetchError{text: fmt.Sprintf("%d  %s %s", res.StatusCode, http.StatusText(res.StatusCode), at), temporary: res.StatusCode >= 500}
	}
	if f.content, err = io.ReadAll(io.LimitReader(res.Body, maxFetch)); err != nil {
		return f, "", &fetchError{text: "Connection failed " + at, temporary: true}
	}
	return f, "", nil
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// connect finds the host and connects to it, in the words of apt's methods.
func (r *run) connect(ctx context.Context, u *url.URL) (net.Conn, netip.AddrPort, error) {
	host, p := u.Hostname(), port(u)
	addrs, err := network.ResolveLibc(ctx, r.c.Process, host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil, netip.AddrPort{}, &fetchError{text: fmt.Sprintf("Could not resolve '%s'", host)}
	case err != nil:
		return nil, netip.AddrPort{}, &fetchError{text: fmt.Sprintf("Temporary failure resolving '%s'", host), temporary: true}
	}
	var last error
	for _, a := range addrs {
		peer := netip.AddrPortFrom(a, portNumber(p))
		one, cancel := context.WithTimeout(ctx, connectTimeout)
		conn, err := r.c.Dial(network.ForTransport(one, u.Scheme == "https"), "tcp", peer.String())
		cancel()
		if err == nil {
			return conn, peer, nil
		}
		where := fmt.Sprintf("%s:%s (%s)", host, p, a)
		var n syscall.Errno
		switch {
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
			last = &fetchError{text: "Could not connect to " + where + ", connection timed out", temporary: true}
		case errors.As(err, &n) && n == syscall.ENETUNREACH:
			last = &fetchError{text: fmt.Sprintf("Cannot initiate the connection to %s. - connect (%d: %s)", where, int(n), errnoText(n)), temporary: true}
		case errors.As(err, &n):
			last = &fetchError{text: fmt.Sprintf("Could not connect to %s. - connect (%d: %s)", where, int(n), errnoText(n)), temporary: true}
		default:
			last = &fetchError{text: "Could not connect to " + where + ", connection timed out", temporary: true}
		}
	}
	return nil, netip.AddrPort{}, last
}

func portNumber(s string) (n uint16) {
	fmt.Sscan(s, &n)
	return n
}

func errnoText(n syscall.Errno) string {
	s := n.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// tlsError is what GnuTLS says of a handshake that failed.
func tlsError(err error, at string) error {
	const head = "Certificate verification failed: "
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	const tail = "Could not handshake: Error in the certificate verification. "
	switch {
	case errors.As(err, &unknown):
		return &fetchError{text: head + "The certificate is NOT trusted. The certificate issuer is unknown.  " + tail + at}
	case errors.As(err, &name):
		return &fetchError{text: head + "The certificate is NOT trusted. The name in the certificate does not match the expected.  " + tail + at}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &fetchError{text: head + "The certificate is NOT trusted. The certificate chain uses expired certificate.  " + tail + at}
	}
	return &fetchError{text: "Connection failed " + at, temporary: true}
}
