package network

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
)

// pki holds a CA and certificates signed by it.
type pki struct {
	pool   *x509.CertPool
	server tls.Certificate
	client tls.Certificate
}

func newPKI(t testing.TB, useRSA bool) *pki {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key := func() any {
		if useRSA {
			k, err := rsa.GenerateKey(rand.Reader, 2048)
			must(err)
			return k
		}
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		return k
	}
	public := func(k any) any {
		if r, ok := k.(*rsa.PrivateKey); ok {
			return &r.PublicKey
		}
		return &k.(*ecdsa.PrivateKey).PublicKey
	}
	caKey := key()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, public(caKey), caKey)
	must(err)
	parsed, _ := x509.ParseCertificate(der)
	p := &pki{pool: x509.NewCertPool()}
	p.pool.AddCert(parsed)
	leaf := func(name string) tls.Certificate {
		k := key()
		d, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
			IPAddresses: []net.IP{net.IPv4(192, 168, 122, 11)}}, parsed, public(k), caKey)
		must(err)
		return tls.Certificate{Certificate: [][]byte{d}, PrivateKey: k}
	}
	p.server, p.client = leaf("kube-apiserver"), leaf("admin")
	return p
}

func (p *pki) serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.server}, ClientCAs: p.pool, ClientAuth: tls.VerifyClientCertIfGiven}
}

func (p *pki) clientConfig() *tls.Config {
	return &tls.Config{RootCAs: p.pool, Certificates: []tls.Certificate{p.client}}
}

func get(ctx context.Context, rt http.RoundTripper, url string) (string, error) {
	r, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	res, err := rt.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%s %s %s", res.Proto, res.Status, b), err
}

func TestDirectRequests(t *testing.T) {
	ca := newPKI(t, false)
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		k := l.listen(server, "tcp", ":6443")
		var seen *http.Request
		var ran *kernel.Process
		mux := http.NewServeMux()
		mux.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
			seen, ran = r, kernel.Current()
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.TLS.PeerCertificates[0].Subject.CommonName, r.Proto, b)
		})
		mux.HandleFunc("/abort", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
		mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) { panic("oops") })
		var logged bytes.Buffer
		s := &Server{Handler: mux, TLSConfig: ca.serverConfig(), ErrorLog: log.New(&logged, "", 0)}
		server.Go(func() { s.Serve(k) })
		tr := NewTransport(client, ca.clientConfig())
		ctx := context.Background()
		got, err := get(ctx, tr, "https://192.168.122.11:6443/who?x=1")
		if err != nil || got != "HTTP/2.0 200 OK admin HTTP/2.0 " {
			t.Fatal(got, err)
		}
		if ran != server || !strings.HasPrefix(seen.RemoteAddr, "192.168.122.12:") || seen.RequestURI != "/who?x=1" || seen.Host != "192.168.122.11:6443" || seen.Header.Get("User-Agent") != "Go-http-client/2.0" {
			t.Errorf("ran %v, %+v", ran, seen)
		}
		first := seen.RemoteAddr
		r, _ := http.NewRequest("POST", "https://192.168.122.11:6443/who", strings.NewReader("body"))
		res, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if string(b) != "admin HTTP/2.0 body" || seen.RemoteAddr != first || seen.ContentLength != 4 || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" || res.ContentLength != int64(len(b)) || res.TLS == nil {
			t.Errorf("%s, %+v", b, res)
		}
		if _, err := get(ctx, tr, "https://192.168.122.11:6443/abort"); err == nil || err.Error() != "stream error: stream ID 5; INTERNAL_ERROR; received from peer" {
			t.Error(err)
		}
		get(ctx, tr, "https://192.168.122.11:6443/panic")
		if !strings.HasPrefix(logged.String(), "http2: panic serving "+first+": oops\n") {
			t.Error(logged.String())
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := get(short, tr, "https://192.168.122.11:6443/hang"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// The server dies: what is under way breaks off, what comes next is refused.
		time.AfterFunc(time.Second, func() { server.Signal(kernel.SIGKILL) })
		if _, err := get(ctx, tr, "https://192.168.122.11:6443/hang"); err != io.ErrUnexpectedEOF {
			t.Error(err)
		}
		if _, err := get(ctx, tr, "https://192.168.122.11:6443/hang"); err == nil || err.Error() != "dial tcp 192.168.122.11:6443: connect: connection refused" {
			t.Error(err)
		}
	})
}

func TestHandshakeErrors(t *testing.T) {
	ca, other := newPKI(t, false), newPKI(t, false)
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		k := l.listen(server, "tcp", ":6443")
		plain := l.listen(server, "tcp", ":80")
		l.listen(server, "tcp", ":81") // never served
		var logged bytes.Buffer
		cfg := ca.serverConfig()
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})
		server.Go(func() { (&Server{Handler: h, TLSConfig: cfg, ErrorLog: log.New(&logged, "", 0)}).Serve(k) })
		server.Go(func() { Serve(plain, nil, h) })
		for _, c := range []struct {
			cfg  *tls.Config
			url  string
			want string
		}{
			{other.clientConfig(), "https://192.168.122.11:6443/", `tls: failed to verify certificate: x509: certificate signed by unknown authority`},
			{&tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{other.client}}, "https://192.168.122.11:6443/", "remote error: tls: unknown certificate authority"},
			{&tls.Config{RootCAs: ca.pool}, "https://127.0.0.1:6443/", "dial tcp 127.0.0.1:6443: connect: connection refused"},
			{&tls.Config{RootCAs: ca.pool}, "https://192.168.122.11:80/", "http: server gave HTTP response to HTTPS client"},
			{&tls.Config{RootCAs: ca.pool}, "https://192.168.122.11:81/", "net/http: TLS handshake timeout"},
		} {
			got := ""
			res, err := (&http.Client{Transport: NewTransport(client, c.cfg)}).Get(c.url)
			if res != nil {
				got = res.Status
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %q, %v, want %s", c.url, got, err, c.want)
			}
		}
		got, err := get(context.Background(), NewTransport(client, nil), "http://192.168.122.11:6443/")
		if err != nil || !strings.Contains(got, "400 Bad Request Client sent an HTTP request to an HTTPS server.") {
			t.Error(got, err)
		}
		synctest.Wait()
		if !strings.Contains(logged.String(), "http: TLS handshake error from 192.168.122.12:") || !strings.Contains(logged.String(), "remote error: tls: bad certificate") {
			t.Error(logged.String())
		}
	})
}

func TestStreamingAndBytes(t *testing.T) {
	ca := newPKI(t, false)
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		k := l.listen(server, "tcp", ":6443")
		stopped := make(chan time.Time, 1)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				c, rw, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				rw.Flush()
				s, _ := rw.ReadString('\n')
				fmt.Fprintf(c, "you said %s", s)
				c.Close()
				return
			}
			if _, ok := w.(http.Hijacker); ok && r.ProtoMajor == 2 {
				t.Error("a direct response can be hijacked")
			}
			for i := 0; ; i++ {
				select {
				case <-r.Context().Done():
					stopped <- time.Now()
					return
				case <-time.After(time.Second):
					fmt.Fprintf(w, "event %d\n", i)
					w.(http.Flusher).Flush()
				}
			}
		})
		server.Go(func() { Serve(k, ca.serverConfig(), h) })
		start := time.Now()
		// A watch over a direct connection, and the same by net/http's HTTP/2.
		for _, rt := range []http.RoundTripper{NewTransport(client, ca.clientConfig()),
			&http.Transport{DialContext: client.Dial, TLSClientConfig: ca.clientConfig(), ForceAttemptHTTP2: true}} {
			start = time.Now()
			r, _ := http.NewRequest("GET", "https://192.168.122.11:6443/watch", nil)
			res, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, direct := rt.(*Transport); direct {
				start = start.Add(latency(client, r))
			}
			b := bufio.NewReader(res.Body)
			for i := range 3 {
				s, err := b.ReadString('\n')
				if s != fmt.Sprintf("event %d\n", i) || time.Since(start) != time.Duration(i+1)*time.Second {
					t.Error(s, err, time.Since(start))
				}
			}
			res.Body.Close()
			if d := (<-stopped).Sub(start); d != 3*time.Second {
				t.Error("stopped after", d)
			}
			rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		}
		r, _ := http.NewRequest("GET", "https://192.168.122.11:6443/exec", nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
		res, err := NewTransport(client, ca.clientConfig()).RoundTrip(r)
		if err != nil || res.StatusCode != 101 {
			t.Fatal(res, err)
		}
		rw := res.Body.(io.ReadWriteCloser)
		io.WriteString(rw, "hi\n")
		if b, err := io.ReadAll(rw); string(b) != "you said hi\n" {
			t.Error(string(b), err)
		}
		rw.Close()
	})
}

func TestCutOffWatch(t *testing.T) {
	ca := newPKI(t, false)
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		k := l.listen(server, "tcp", ":6443")
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			for r.Context().Err() == nil {
				time.Sleep(time.Second)
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
			}
		})
		server.Go(func() { Serve(k, ca.serverConfig(), h) })
		tr := NewTransport(client, ca.clientConfig())
		r, _ := http.NewRequest("GET", "https://192.168.122.11:6443/watch", nil)
		res, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.ReadFull(res.Body, make([]byte, 1))
		l.f.Machine("cka-cp1").ChangeLink(MachineLink, func(k *Link) { k.Up = false })
		start := time.Now()
		_, err = io.ReadAll(res.Body)
		if err == nil || err.Error() != "http2: client connection lost" || time.Since(start) != h2PingTimeout {
			t.Error(err, time.Since(start))
		}
		server.Signal(kernel.SIGKILL)
		time.Sleep(2 * time.Second)
	})
}

func TestShutdownDrains(t *testing.T) {
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		k := l.listen(server, "tcp", ":80")
		s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(5 * time.Second) })}
		server.Go(func() { s.Serve(k) })
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := get(context.Background(), NewTransport(client, nil), "http://192.168.122.11/"); err != nil {
				t.Error(got, err)
			}
		})
		r, _ := http.NewRequest("GET", "http://192.168.122.11/", nil)
		time.Sleep(latency(client, r) + time.Second)
		start := time.Now()
		if err := s.Shutdown(context.Background()); err != nil || time.Since(start) != 4*time.Second {
			t.Error(err, time.Since(start))
		}
		wg.Wait()
		synctest.Wait()
	})
}

// Transports that share their sessions resume them, each with its own server, until the server is another one.
func TestTransportResumesSessions(t *testing.T) {
	ca := newPKI(t, false)
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		resumed := make(chan bool, 1)
		serve := func(port string) net.Listener {
			k := l.listen(server, "tcp", port)
			server.Go(func() {
				Serve(k, ca.serverConfig(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { resumed <- r.TLS.DidResume }))
			})
			return k
		}
		ask := func(s *TLSSessions, port string) bool {
			t.Helper()
			tr := NewTransport(client, &tls.Config{InsecureSkipVerify: true})
			tr.Sessions = s
			defer tr.Close()
			if _, err := get(context.Background(), tr, "https://192.168.122.11"+port+"/"); err != nil {
				t.Fatal(err)
			}
			return <-resumed
		}
		first := serve(":6443")
		serve(":10257")
		s := NewTLSSessions(8)
		start := time.Now()
		for i, want := range []bool{false, true, true} {
			for _, port := range []string{":6443", ":10257"} {
				if got := ask(s, port); got != want {
					t.Errorf("connection %d to %s: resumed %v, want %v", i, port, got, want)
				}
			}
		}
		if ask(nil, ":6443") {
			t.Error("a transport without sessions resumes one")
		}
		r, _ := http.NewRequest("GET", "https://192.168.122.11/", nil)
		if d := time.Since(start) - 7*latency(client, r); d != 0 {
			t.Errorf("fetching tickets took %v", d)
		}
		first.Close()
		serve(":6443")
		if ask(s, ":6443") {
			t.Error("a new server knows the sessions of the old one")
		}
		if !ask(s, ":6443") {
			t.Error("the session with the new server is not resumed")
		}
	})
}

// A closed transport leaves no connection behind, whatever it was about.
func TestTransportClose(t *testing.T) {
	ca := newPKI(t, false)
	inLab(t, func(l *lab) {
		server, client := l.on("cka-cp1"), l.on("cka-w1")
		k := l.listen(server, "tcp", ":6443")
		ended := make(chan error, 1)
		server.Go(func() {
			Serve(k, ca.serverConfig(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				ended <- r.Context().Err()
			}))
		})
		tr := NewTransport(client, ca.clientConfig())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := get(ctx, tr, "https://192.168.122.11:6443/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that does not answer: %v", err)
		}
		tr.Close()
		<-ended
		silent := l.listen(server, "tcp", ":7000")
		accepted := make(chan net.Conn, 1)
		server.Go(func() {
			c, _ := silent.Accept()
			accepted <- c
		})
		tr = NewTransport(client, ca.clientConfig())
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := get(ctx, tr, "https://192.168.122.11:7000/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server without TLS: %v", err)
		}
		tr.Close()
		c := <-accepted
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("the connection is still open: %v", err)
		}
		c.Close()
	})
}

func BenchmarkDirectRequest(b *testing.B) {
	ca := newPKI(b, true)
	f := func(t *testing.T) {
		inLab(t, func(l *lab) {
			server, client := l.on("cka-cp1"), l.on("cka-w1")
			k := l.listen(server, "tcp", ":6443")
			server.Go(func() {
				Serve(k, ca.serverConfig(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
			})
			tr := NewTransport(client, ca.clientConfig())
			get(context.Background(), tr, "https://192.168.122.11:6443/")
			start := kernel.Wall()
			for range b.N {
				if _, err := get(context.Background(), tr, "https://192.168.122.11:6443/"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(kernel.WallSince(start).Nanoseconds())/float64(b.N), "wall-ns/op")
		})
	}
	testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "bench", F: f}})
}

func BenchmarkNewTLSConnection(b *testing.B) { benchmarkConnections(b, nil) }

func BenchmarkResumedTLSConnection(b *testing.B) { benchmarkConnections(b, NewTLSSessions(8)) }

func benchmarkConnections(b *testing.B, s *TLSSessions) {
	ca := newPKI(b, true)
	f := func(t *testing.T) {
		inLab(t, func(l *lab) {
			server, client := l.on("cka-cp1"), l.on("cka-w1")
			k := l.listen(server, "tcp", ":6443")
			server.Go(func() {
				Serve(k, ca.serverConfig(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
			})
			start := kernel.Wall()
			for range b.N {
				cfg := ca.clientConfig()
				if s != nil {
					cfg = &tls.Config{InsecureSkipVerify: true}
				}
				tr := NewTransport(client, cfg)
				tr.Sessions = s
				if _, err := get(context.Background(), tr, "https://192.168.122.11:6443/"); err != nil {
					b.Fatal(err)
				}
				tr.CloseIdleConnections()
			}
			b.ReportMetric(float64(kernel.WallSince(start).Nanoseconds())/float64(b.N), "wall-ns/op")
		})
	}
	testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "bench", F: f}})
}
