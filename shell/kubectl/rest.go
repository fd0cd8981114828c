package kubectl

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/websocket"

	"ckadrill/sim/network"
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
	switch {
	case c.ExecProvider != nil:
		refuse("credential plugins of a kubeconfig")
	case c.AuthProvider != nil:
		refuse("auth providers of a kubeconfig")
	}
	if err := inline(c); err != nil {
		fatal("error: "+err.Error(), 1)
	}
	t := i.transport(c)
	if !strings.Contains(c.Host, "://") && (c.Insecure || len(c.CAData)+len(c.CertData) > 0) {
		c.Host = "https://" + c.Host
	}
	if c.UserAgent == "" { // client-go would take the host process's name, of which the API server makes a field manager's
		c.UserAgent = "kubectl/" + versionOf(i.p) + " (linux/amd64) kubernetes/" + strings.Repeat("0", 7)
	}
	// The transport has the certificates; client-go would parse them again for each of its clients.
	c.TLSClientConfig = rest.TLSClientConfig{}
	c.Transport, c.WarningHandler = t, i.warned
	c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	wrap := c.WrapTransport
	c.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
		// Exec, attach, cp and port-forward bring the round tripper that dials for them, so it can be exchanged here.
		// WebSockets are refused, which makes upstream go on with SPDY as it does with a server that lacks them.
		switch rt := rt.(type) {
		case *spdy.SpdyRoundTripper:
			ours, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: t.Upgrades(), PingPeriod: 5 * time.Second})
			if err == nil {
				*rt = *ours
			}
			return rt
		case *websocket.RoundTripper:
			return noWebSocket{}
		}
		if wrap != nil {
			rt = wrap(rt)
		}
		return i.debug(rt)
	}
	return c
}

// transport is the process's transport for a configuration's certificates. Upstream makes several clients of one
// configuration; parsing a key takes a millisecond.
func (i *invocation) transport(c *rest.Config) *network.Transport {
	key := fmt.Sprintf("%q %q %q %q %v", c.CAData, c.CertData, c.KeyData, c.ServerName, c.Insecure)
	i.mu.Lock()
	defer i.mu.Unlock()
	if t := i.transports[key]; t != nil {
		return t
	}
	t, err := apiclient.TransportFor(i.p, c)
	if err != nil {
		fatal("error: "+err.Error(), 1)
	}
	i.transports[key] = t
	return t
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
