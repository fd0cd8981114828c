package network

import (
	"crypto/tls"
	"weak"

	"k8s.io/utils/lru"
)

// TLSSessions are the TLS sessions of a client with the servers that it spoke to last: the next connection to one of them, as
// long as the same server listens there, goes on with what the last handshake agreed upon. Several transports may share
// it. It serves clients that verify nothing and show no certificate, such as a kubelet's probes, for whom no later
// handshake with the same server could end otherwise; other clients' handshakes are always full.
type TLSSessions struct{ cache *lru.Cache }

// NewTLSSessions makes a cache of the sessions with at most n servers.
func NewTLSSessions(n int) *TLSSessions { return &TLSSessions{lru.New(n)} }

// tlsSession is what a handshake agreed upon, as either end sees it.
type tlsSession struct {
	with           weak.Pointer[Server] // it must not keep a dead server, and all that belongs to it
	client, server tls.ConnectionState
}

// anonymous says whether a client neither verifies its server nor shows a certificate.
func anonymous(cfg *tls.Config) bool {
	return cfg != nil && cfg.InsecureSkipVerify && cfg.VerifyConnection == nil && cfg.VerifyPeerCertificate == nil &&
		len(cfg.Certificates) == 0 && cfg.GetClientCertificate == nil
}

type sessionKey struct {
	address string
	http1   bool
}

func (t *Transport) sessionKey(address string) sessionKey { return sessionKey{address, t.HTTP1} }

// last is the session with the server that was last spoken to at an address, nil if there is none.
func (t *Transport) last(address string) *tlsSession {
	if t.Sessions == nil || !anonymous(t.cfg) {
		return nil
	}
	k, _ := t.Sessions.cache.Get(t.sessionKey(address))
	last, _ := k.(*tlsSession)
	return last
}

// remember keeps the session that a handshake with an address has made.
func (t *Transport) remember(address string, s *session, client tls.ConnectionState) {
	if t.Sessions == nil || !anonymous(t.cfg) {
		return
	}
	s.mu.Lock()
	with := s.server
	s.mu.Unlock()
	if with == nil || s.tls == nil {
		return
	}
	k := &tlsSession{with: weak.Make(with), client: client, server: *s.tls}
	k.client.DidResume, k.server.DidResume = true, true
	t.Sessions.cache.Add(t.sessionKey(address), k)
}
