package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"

	"ckadrill/sim/kernel"
)

// systemCAs is where Go looks for CAs on Debian's systems.
const systemCAs = "/etc/ssl/certs/ca-certificates.crt"

// DialTLS is [DialHost] with a handshake. Without RootCAs in config, which may be nil, those of the process's system count.
func DialTLS(ctx context.Context, p *kernel.Process, network, address string, config *tls.Config) (net.Conn, error) {
	c, err := DialHost(ctx, p, network, address)
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	if config.RootCAs == nil {
		config.RootCAs = x509.NewCertPool()
		if b, err := p.ReadFile(systemCAs); err == nil {
			config.RootCAs.AppendCertsFromPEM(b)
		}
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}
