package kubectl

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"

	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// Tame brings what kubectl's code shares with the whole host process under the world's rule, once.
var Tame = sync.OnceFunc(func() {
	// A fatal error ends the simulated process that it happens in.
	cmdutil.BehaviorOnFatal(fatal)
	// Upstream names itself after the host's program in a few messages.
	os.Args = []string{"kubectl"}
	// Upstream looks for plugins, for git and for a home directory where these say; the machine's own are used instead.
	for _, kv := range []string{"PATH=", "HOME=/nonexistent", "KUBECONFIG=", "KUBERNETES_MASTER=", "KUBECACHEDIR=" + noCache, "KUBERC="} {
		k, v, _ := strings.Cut(kv, "=")
		os.Setenv(k, v)
	}
	// Manifests by URL are fetched with the process-wide client: it dials as the process that asks.
	t := http.DefaultTransport.(*http.Transport)
	t.Proxy = nil
	t.DisableKeepAlives = true
	t.DialContext = func(ctx context.Context, netw, address string) (net.Conn, error) {
		p := kernel.Current()
		if p == nil {
			return nil, kernel.ErrDead
		}
		return network.DialHost(ctx, p, netw, address)
	}
	t.DialTLSContext = func(ctx context.Context, netw, address string) (net.Conn, error) {
		p := kernel.Current()
		if p == nil {
			return nil, kernel.ErrDead
		}
		return network.DialTLS(ctx, p, netw, address, nil)
	}
	wrapLogs()
})

// noCache is a directory that can't be made, so upstream keeps nothing on the host: what is discovered is
// kept by [cachedDiscovery].
const noCache = "/dev/null/ckadrill"

// fatal prints an error as upstream does and ends the process of the calling goroutine.
func fatal(msg string, code int) {
	p := kernel.Current()
	if p == nil || !p.Alive() {
		runtime.Goexit() // what a process leaves behind must not go on as if nothing had happened
	}
	if len(msg) > 0 {
		if !strings.HasSuffix(msg, "\n") {
			msg += "\n"
		}
		fmt.Fprint(stderrOf(p), msg)
	}
	p.Exit(code)
}
