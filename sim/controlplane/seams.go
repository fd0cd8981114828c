package controlplane

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/network/apiclient"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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
func serveHTTP(p *kernel.Process, l net.Listener, c *tls.Config, h http.Handler) *network.Server {
	s := &network.Server{Handler: h, TLSConfig: c, ErrorLog: log.New(dropHandshakeErrors{p}, "", 0)}
	go s.Serve(l) //nolint:errcheck // it ends when the listener does
	p.OnExit(func() { s.Close() })
	return s
}

// dropHandshakeErrors is the components' error log: upstream shows failed handshakes only at verbosity 5.
type dropHandshakeErrors struct{ p *kernel.Process }

func (d dropHandshakeErrors) Write(b []byte) (int, error) {
	const prefix = "http: TLS handshake error"
	if len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix {
		return len(b), nil
	}
	return d.p.Stderr.Write(b)
}

// useNetwork makes a client configuration that upstream loaded from private copies use the process's network and files.
func (d *private) useNetwork(c *rest.Config) error {
	for _, f := range []*string{&c.CAFile, &c.CertFile, &c.KeyFile, &c.BearerTokenFile} {
		*f = d.plain(*f)
	}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return namedAgent{d.p, apiclient.Hold(d.p, withoutAnnouncements(d.p, apiclient.RememberEvents(d.p, distinctEvents{slowBindings{rt}}, eventMemory(d.p))))}
	})
	return apiclient.ConfigureREST(d.p, c)
}

// namedAgent puts the process's name into the user agent, of which the apiserver makes the name of a field manager.
// client-go puts the host process's there.
type namedAgent struct {
	p  *kernel.Process
	rt http.RoundTripper
}

func (a namedAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, rest, ok := strings.Cut(r.UserAgent(), ") kubernetes/"); ok {
		r = r.Clone(r.Context())
		_, component, named := strings.Cut(rest, "/")
		agent := userAgent(a.p)
		if named {
			agent += "/" + component
		}
		r.Header.Set("User-Agent", agent)
	}
	return a.rt.RoundTrip(r)
}

// delegate lets a component's delegated authentication and authorization call the apiserver through the process's network.
// A kubeconfig that cannot be loaded is left to upstream, which then says so.
func (d *private) delegate(authn *genericoptions.DelegatingAuthenticationOptions, authz *genericoptions.DelegatingAuthorizationOptions) {
	d.set(&authn.ClientCert.ClientCA, &authn.RequestHeader.ClientCAFile)
	authn.RemoteKubeConfigFile = d.config(authn.RemoteKubeConfigFile, kubeconfigFiles...)
	authz.RemoteKubeConfigFile = d.config(authz.RemoteKubeConfigFile, kubeconfigFiles...)
	authn.WithCustomRoundTripper(d.roundTripper(authn.RemoteKubeConfigFile))
	authz.WithCustomRoundTripper(d.roundTripper(authz.RemoteKubeConfigFile))
}

func (d *private) roundTripper(kubeconfig string) func(http.RoundTripper) http.RoundTripper {
	return func(rt http.RoundTripper) http.RoundTripper {
		c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return rt
		}
		c.BearerToken, c.BearerTokenFile = "", "" // upstream's own wrappers carry them
		if err := d.useNetwork(c); err != nil {
			return failing{err}
		}
		return c.WrapTransport(rt)
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }
