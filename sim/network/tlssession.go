package network

import (
	"crypto/tls"
	"net"
	"os"
)

// TLSSessions keeps the TLS sessions of a client with the servers that it spoke to last. Several transports may share it.
type TLSSessions struct{ cache tls.ClientSessionCache }

// NewTLSSessions makes a cache of the sessions with at most n servers.
func NewTLSSessions(n int) *TLSSessions { return &TLSSessions{tls.NewLRUClientSessionCache(n)} }

// of is the part of the cache that belongs to a server's address. By itself crypto/tls tells servers apart by their names,
// and several at one address have the same.
func (s *TLSSessions) of(address string) tls.ClientSessionCache {
	return serverSessions{s.cache, address}
}

type serverSessions struct {
	tls.ClientSessionCache
	address string
}

func (s serverSessions) Get(key string) (*tls.ClientSessionState, bool) {
	return s.ClientSessionCache.Get(s.address + " " + key)
}

func (s serverSessions) Put(key string, state *tls.ClientSessionState) {
	s.ClientSessionCache.Put(s.address+" "+key, state)
}

// ticketReader is a client's end of a connection over which requests are handed over directly: nothing is ever read from
// it, so the tickets that the server has sent after the handshake must be fetched.
type ticketReader struct {
	net.Conn
	taking bool
}

// take lets the TLS client read what has arrived.
func (r *ticketReader) take(c *tls.Conn) {
	r.taking = true
	c.Read(make([]byte, 1)) // it ends with the error below
}

func (r *ticketReader) Read(b []byte) (int, error) {
	if r.taking && !r.Conn.(*Conn).readable() {
		return 0, os.ErrDeadlineExceeded
	}
	return r.Conn.Read(b)
}

// readable says whether a read would return at once.
func (c *Conn) readable() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.in.arrived() > 0 || c.closed || c.reset != 0 || c.in.fin
}
