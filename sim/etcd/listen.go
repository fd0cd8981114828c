package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"ckadrill/sim/kernel"
)

// serverTLS builds a listener's TLS configuration from the process's files, with the errors of client/pkg/transport. The
// certificate is read anew for each connection, as etcd does; the CA only once.
func serverTLS(p *kernel.Process, f tlsFiles, minV, maxV string) (*tls.Config, error) {
	if f.Key == "" || f.Cert == "" {
		return nil, fmt.Errorf("KeyFile and CertFile must both be present[key: %v, cert: %v]", f.Key, f.Cert)
	}
	if _, err := keyPair(p, f.Cert, f.Key); err != nil {
		return nil, err
	}
	if (f.ClientKey == "") != (f.ClientCert == "") {
		return nil, fmt.Errorf("ClientKeyFile and ClientCertFile must both be present or both absent: key: %v, cert: %v]", f.ClientKey, f.ClientCert)
	}
	if f.ClientCert != "" {
		if _, err := keyPair(p, f.ClientCert, f.ClientKey); err != nil {
			return nil, err
		}
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return keyPair(p, f.Cert, f.Key) }
	if minV == "TLS1.3" {
		cfg.MinVersion = tls.VersionTLS13
	}
	if maxV == "TLS1.2" {
		cfg.MaxVersion = tls.VersionTLS12
	}
	if f.CA != "" || f.CertAuth {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if f.CA != "" {
		pool, err := certPool(p, f.CA)
		if err != nil {
			return nil, err
		}
		cfg.ClientCAs = pool
	}
	return cfg, nil
}

// keyPair reads a certificate and its key.
func keyPair(p *kernel.Process, cert, key string) (*tls.Certificate, error) {
	c, err := p.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	k, err := p.ReadFile(key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(c, k)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// certPool reads a CA file as tlsutil.NewCertPool does.
func certPool(p *kernel.Process, file string) (*x509.CertPool, error) {
	rest, err := p.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return pool, nil
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(c)
	}
}

// tlsListener does the handshake before it hands a connection on, so that a failed one is logged and hinders no other.
type tlsListener struct {
	net.Listener
	cfg    *tls.Config
	failed func(*tls.Conn, error)
	check  func(*tls.Conn) error // what else must be so; may be nil
	conns  chan net.Conn
	done   chan struct{}
	err    error
}

func newTLSListener(l net.Listener, cfg *tls.Config, failed func(*tls.Conn, error)) *tlsListener {
	return newCheckingListener(l, cfg, nil, failed)
}

func newCheckingListener(l net.Listener, cfg *tls.Config, check func(*tls.Conn) error, failed func(*tls.Conn, error)) *tlsListener {
	t := &tlsListener{Listener: l, cfg: cfg, failed: failed, check: check, conns: make(chan net.Conn), done: make(chan struct{})}
	go t.loop()
	return t
}

func (t *tlsListener) loop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		c, err := t.Listener.Accept()
		if err != nil {
			t.err = err
			close(t.done)
			return
		}
		go func() {
			tc := tls.Server(c, t.cfg)
			err := tc.HandshakeContext(ctx)
			if err == nil && t.check != nil {
				err = t.check(tc)
			}
			if err != nil {
				t.failed(tc, err)
				tc.Close()
				return
			}
			select {
			case t.conns <- tc:
			case <-t.done:
				tc.Close()
			}
		}()
	}
}

func (t *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.done:
		return nil, t.err
	}
}

// opaque hides that a connection is TLS, as etcd's multiplexer on the peer port does: HTTP/2 is not spoken there.
type opaque struct{ net.Listener }

type opaqueConn struct{ net.Conn }

func (o opaque) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return opaqueConn{c}, nil
}

func (srv *Server) handshakeFailed(msg string) func(*tls.Conn, error) {
	return func(c *tls.Conn, err error) {
		if errors.Is(err, io.EOF) || !srv.p.Alive() {
			return
		}
		st := c.ConnectionState()
		fields := []any{"remote-addr", c.RemoteAddr().String(), "server-name", st.ServerName}
		if len(st.PeerCertificates) > 0 {
			ips := []string{}
			for _, ip := range st.PeerCertificates[0].IPAddresses {
				ips = append(ips, ip.String())
			}
			fields = append(fields, "ip-addresses", ips, "dns-names", append([]string{}, st.PeerCertificates[0].DNSNames...))
		}
		srv.log.warn("embed/config_logging.go:194", msg, append(fields, "error", err)...)
	}
}

// server is a running HTTP server with its listener.
type server struct {
	http *http.Server
	grpc *grpc.Server
	l    net.Listener
}

func (s *server) close() {
	if s.grpc != nil {
		s.grpc.Stop()
	}
	s.http.Close()
	s.l.Close()
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// serveClients serves gRPC and HTTP on one listener, as etcd does without --listen-client-http-urls.
func (srv *Server) serveClients(l net.Listener, cfg *tls.Config, withGRPC, withHTTP bool) *server {
	s := &server{l: l}
	h := http.Handler(http.NotFoundHandler())
	if withHTTP {
		h = srv.handler()
	}
	if withGRPC {
		g := srv.grpcServer()
		s.grpc = g
		rest := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && strings.Contains(r.Header.Get("Content-Type"), "application/grpc") {
				g.ServeHTTP(w, r)
				return
			}
			rest.ServeHTTP(w, r)
		})
	}
	s.http = &http.Server{Handler: h, ErrorLog: quiet(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1 << 20}}
	var accept net.Listener = l
	if cfg != nil {
		s.http.TLSConfig = cfg.Clone()
		accept = newTLSListener(l, cfg, srv.handshakeFailed("rejected connection on client endpoint"))
	} else {
		s.http.Protocols = new(http.Protocols)
		s.http.Protocols.SetHTTP1(true)
		s.http.Protocols.SetUnencryptedHTTP2(true)
	}
	go s.http.Serve(accept)
	return s
}
