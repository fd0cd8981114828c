package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
)

// dialer dials from the process's network namespace, after resolving a name as the machine's libc does.
func dialer(p *kernel.Process) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, netw, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil || net.ParseIP(host) != nil {
			return p.Dial(ctx, netw, address)
		}
		addrs, err := network.Resolve(ctx, p, host)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: netw, Err: err}
		}
		var c net.Conn
		for _, a := range addrs {
			if c, err = p.Dial(ctx, netw, net.JoinHostPort(a.String(), port)); err == nil {
				return c, nil
			}
		}
		return nil, err
	}
}

// serveHTTP serves in the background until the listener is closed or the process ends.
func serveHTTP(p *kernel.Process, l net.Listener, c *tls.Config, h http.Handler) {
	s := &network.Server{Handler: h, TLSConfig: c, ErrorLog: log.New(p.Stderr, "", 0)}
	go s.Serve(l) //nolint:errcheck // it ends when the listener does
	p.OnExit(func() { s.Close() })
}

var configureREST = func(p *kernel.Process, c *rest.Config) { c.Dial = dialer(p) }

var dialEtcd = func(p *kernel.Process, endpoints []string, c *tls.Config) (*clientv3.Client, error) {
	return nil, errors.New("no etcd")
}
