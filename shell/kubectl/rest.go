package kubectl

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/websocket"

	"ckadrill/sim/network/apiclient"
)

// warnings prints what the API server warns of, each once.
type warnings interface {
	rest.WarningHandler
	WarningCount() int
}

// wrapConfig makes a client of the world out of the configuration that upstream has read from the copies.
func (i *invocation) wrapConfig(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	if i.inCluster() {
		if in, err := apiclient.InCluster(i.p); err == nil {
			in.Timeout, in.Impersonate, in.WarningHandler = c.Timeout, c.Impersonate, i.warned
			i.upgrades(in)
			return in
		}
	}
	switch {
	case c.ExecProvider != nil:
		refuse("credential plugins of a kubeconfig")
	case c.AuthProvider != nil:
		refuse("auth providers of a kubeconfig")
	}
	if err := inline(c); err != nil {
		fatal("error: "+err.Error(), 1)
	}
	c.WarningHandler = i.warned
	if err := apiclient.ConfigureREST(i.p, c); err != nil {
		fatal("error: "+err.Error(), 1)
	}
	i.upgrades(c)
	return c
}

// upgrades lets exec, attach, cp and port-forward connect through the process's network. Upstream gives the round tripper
// that dials for them to WrapTransport, so it can be exchanged there. WebSockets are refused, which makes upstream go on
// with SPDY as it does with a server that lacks them.
func (i *invocation) upgrades(c *rest.Config) {
	wrap := c.WrapTransport
	tlsConfig, err := rest.TLSConfigFor(c)
	if err != nil {
		fatal("error: "+err.Error(), 1)
	}
	p := i.p
	c.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
		switch rt := rt.(type) {
		case *spdy.SpdyRoundTripper:
			t := &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}
			t.DialContext = p.Dial
			if tlsConfig != nil {
				t.TLSClientConfig = tlsConfig.Clone()
				t.TLSClientConfig.NextProtos = []string{"http/1.1"}
			}
			ours, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: t, PingPeriod: 5 * time.Second})
			if err == nil {
				*rt = *ours
			}
			return rt
		case *websocket.RoundTripper:
			return noWebSocket{}
		}
		return i.debug(wrap(rt))
	}
}

type noWebSocket struct{}

func (noWebSocket) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &httpstream.UpgradeFailureError{Cause: fmt.Errorf("websocket: bad handshake")}
}

// debug logs requests as -v asks, by the rules of client-go's transport.DebugByContext.
func (i *invocation) debug(rt http.RoundTripper) http.RoundTripper {
	switch {
	case i.level >= 10:
		return transport.NewDebuggingRoundTripper(rt, transport.DebugCurlCommand, transport.DebugURLTiming, transport.DebugDetailedTiming, transport.DebugResponseHeaders)
	case i.level >= 9:
		return transport.NewDebuggingRoundTripper(rt, transport.DebugCurlCommand, transport.DebugURLTiming, transport.DebugResponseHeaders)
	case i.level >= 8:
		return transport.NewDebuggingRoundTripper(rt, transport.DebugJustURL, transport.DebugRequestHeaders, transport.DebugResponseStatus, transport.DebugResponseHeaders)
	case i.level >= 7:
		return transport.NewDebuggingRoundTripper(rt, transport.DebugJustURL, transport.DebugRequestHeaders, transport.DebugResponseStatus)
	case i.level >= 6:
		return transport.NewDebuggingRoundTripper(rt, transport.DebugURLTiming)
	}
	return rt
}

// warningsAsErrors is --warnings-as-errors over the warnings of this process.
func (i *invocation) warningsAsErrors() error {
	switch n := i.warned.WarningCount(); n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%d warning received", n)
	default:
		return fmt.Errorf("%d warnings received", n)
	}
}
