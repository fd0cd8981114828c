package etcd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/xiang90/probing"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	stats "go.etcd.io/etcd/server/v3/etcdserver/api/v2stats"

	"ckadrill/sim/kernel"
)

// dialTimeout is how long a peer is dialled (config.PeerDialTimeout).
func (c *config) peerDialTimeout() time.Duration {
	return time.Second + time.Duration(c.electionMs)*time.Millisecond
}

// peerClientTLS is the TLS configuration with which a member calls its peers (transport.TLSInfo.ClientConfig). The certificate is
// read anew for each connection.
func peerClientTLS(p *kernel.Process, f tlsFiles) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if !f.empty() {
		if f.Key == "" || f.Cert == "" {
			return nil, fmt.Errorf("KeyFile and CertFile must both be present[key: %v, cert: %v]", f.Key, f.Cert)
		}
		cert, key := f.Cert, f.Key
		if f.ClientCert != "" {
			cert, key = f.ClientCert, f.ClientKey
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return keyPair(p, cert, key)
		}
	}
	if f.CA != "" {
		pool, err := certPool(p, f.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	return cfg, nil
}

// peerRoundTripper is rafthttp.NewRoundTripper and, with a time-out for each read and write, its round tripper for streams.
func peerRoundTripper(p *kernel.Process, c *config, timeout time.Duration) (*http.Transport, error) {
	cfg, err := peerClientTLS(p, c.peer)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{TLSClientConfig: cfg, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 1024}
	if timeout > 0 {
		t.MaxIdleConnsPerHost = -1 // a connection would be given up soon after its use
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.peerDialTimeout())
		defer cancel()
		conn, err := dialName(ctx, p, address)
		if err != nil || timeout == 0 {
			return conn, err
		}
		return impatient{conn, timeout}, nil
	}
	return t, nil
}

// impatient is a connection whose reads and writes have a time-out each, as those of etcd's peers (transport.timeoutConn).
type impatient struct {
	net.Conn
	timeout time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// impatientListener makes the accepted connections impatient.
type impatientListener struct {
	net.Listener
	timeout time.Duration
}

func (l impatientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return impatient{c, l.timeout}, nil
}

// prober is the round tripper with which a peer's health is asked. Upstream's makes a new connection every 4 s, whose handshake is
// most of what an idle member would cost. This one keeps its connection as long as a new one would end the same way: until
// the files of this member, or of the peer (see [Server.servePeers]), have changed, or a certificate has expired.
type prober struct {
	*http.Transport
	files func() [sha256.Size]byte

	mu      sync.Mutex
	seen    [sha256.Size]byte
	expires time.Time
}

func newProber(p *kernel.Process, c *config) (*prober, error) {
	t, err := peerRoundTripper(p, c, 0)
	if err != nil {
		return nil, err
	}
	x := &prober{Transport: t, files: func() [sha256.Size]byte { return c.peer.sum(p) }}
	t.TLSClientConfig.VerifyConnection = func(s tls.ConnectionState) error {
		x.until(s.PeerCertificates...)
		return nil
	}
	if own := t.TLSClientConfig.GetClientCertificate; own != nil {
		t.TLSClientConfig.GetClientCertificate = func(q *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := own(q)
			if err == nil {
				x.until(pair.Leaf)
			}
			return pair, err
		}
	}
	return x, nil
}

// until notes certificates that a connection depends on.
func (x *prober) until(certs ...*x509.Certificate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range certs {
		if x.expires.IsZero() || c.NotAfter.Before(x.expires) {
			x.expires = c.NotAfter
		}
	}
}

// RoundTrip implements [http.RoundTripper].
func (x *prober) RoundTrip(q *http.Request) (*http.Response, error) {
	now := x.files()
	x.mu.Lock()
	stale := now != x.seen || !x.expires.IsZero() && time.Now().After(x.expires)
	x.seen = now
	if stale {
		x.expires = time.Time{}
	}
	x.mu.Unlock()
	if stale {
		x.CloseIdleConnections()
	}
	return x.Transport.RoundTrip(q)
}

// sum is a checksum of the files' contents.
func (t tlsFiles) sum(p *kernel.Process) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range []string{t.Cert, t.Key, t.ClientCert, t.ClientKey, t.CA} {
		if f != "" {
			b, _ := p.ReadFile(f)
			fmt.Fprintf(h, "%d ", len(b))
			h.Write(b)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// connect gives a replica its transport. Upstream's dials from the host and reads the host's files; what it would dial with is
// replaced.
func (r *replica) connect() error {
	c := r.srv.c
	t := &rafthttp.Transport{Logger: r.zap, DialTimeout: c.peerDialTimeout(), ID: r.id(), URLs: types.URLs(c.advertisePeer), ClusterID: r.cl.ID(), Raft: r,
		ServerStats: stats.NewServerStats(c.name, r.id().String()), LeaderStats: stats.NewLeaderStats(r.zap, r.id().String()), ErrorC: r.srv.failed}
	if err := t.Start(); err != nil {
		return err
	}
	streams, err := peerRoundTripper(r.p, c, rafthttp.ConnReadTimeout)
	if err != nil {
		return err
	}
	pipeline, err := peerRoundTripper(r.p, c, 0)
	if err != nil {
		return err
	}
	probes, err := newProber(r.p, c)
	if err != nil {
		return err
	}
	v := reflect.ValueOf(t)
	*field[http.RoundTripper](v, "streamRt") = streams
	*field[http.RoundTripper](v, "pipelineRt") = pipeline
	*field[probing.Prober](v, "pipelineProber") = probing.NewProber(pipeline)
	*field[probing.Prober](v, "streamProber") = probing.NewProber(probes)
	r.tr, r.peerRT, r.raftHandler = t, pipeline, t.Handler()
	return nil
}
