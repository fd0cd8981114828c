package helm

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	_ "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/kube"

	"ckadrill/shell/kubectl"
	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// What helm shares with the whole host process, and how it is brought under the world's rule:
//
//   - the variables of its commands (settings), the environment, the working directory, os.Stdin, os.Stdout and os.Args
//     belong to the helm whose turn it is, see turn;
//   - its logger, slog's default, is replaced once by one that writes to the process of the calling goroutine;
//   - its HTTP clients dial as the process of the calling goroutine, see getterOption, and so does net/http's default
//     transport, see the package kubectl;
//   - its build information is that of a release.

//go:linkname newRootCommand helm.sh/helm/v4/pkg/cmd.newRootCmdWithConfig
func newRootCommand(*action.Configuration, io.Writer, []string, func(bool)) (*cobra.Command, error)

//go:linkname settings helm.sh/helm/v4/pkg/cmd.settings
var settings *cli.EnvSettings

//go:linkname getterDefaults helm.sh/helm/v4/pkg/getter.defaultOptions
var getterDefaults []getter.Option

//go:linkname buildVersion helm.sh/helm/v4/internal/version.version
var buildVersion string

//go:linkname buildCommit helm.sh/helm/v4/internal/version.gitCommit
var buildCommit string

//go:linkname buildTreeState helm.sh/helm/v4/internal/version.gitTreeState
var buildTreeState string

// commit is that of the release v4.1.4 (helm version).
const commit = "05fa37973dc9e42b76e1d2883494c87174b6074f"

// tame brings it about, once.
var tame = sync.OnceFunc(func() {
	kubectl.Tame()
	kube.ManagedFieldsManager = "helm"
	buildVersion, buildCommit, buildTreeState = DefaultVersion, commit, "clean"
	slog.SetDefault(slog.New(processLog{}))
	getterDefaults = append(getterDefaults, getterOption())
})

// dial connects to a host by name or address, as the process of the calling goroutine.
func dial(ctx context.Context, netw, address string) (net.Conn, error) {
	p := kernel.Current()
	if p == nil || !p.Alive() {
		return nil, kernel.ErrDead
	}
	return network.DialHost(ctx, p, netw, address)
}

// dialTLS is dial with a handshake, by the machine's certificates if config does not name others.
func dialTLS(ctx context.Context, netw, address string, config *tls.Config) (net.Conn, error) {
	p := kernel.Current()
	if p == nil || !p.Alive() {
		return nil, kernel.ErrDead
	}
	return network.DialTLS(ctx, p, netw, address, config)
}

// processLog is helm's logger (internal/logging): lines without a time, debug lines with --debug only. A line belongs to the
// process of the goroutine that writes it; what no helm writes goes where it would without helm.
type processLog struct {
	with func(slog.Handler) slog.Handler
}

func (processLog) Enabled(_ context.Context, l slog.Level) bool {
	i := invocationOf(kernel.Current())
	return l > slog.LevelDebug || i != nil && i.debug
}

func (h processLog) Handle(ctx context.Context, r slog.Record) error {
	i := invocationOf(kernel.Current())
	if i == nil {
		_, err := fmt.Fprintln(os.Stderr, r.Message)
		return err
	}
	var text slog.Handler = slog.NewTextHandler(i.errOut, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	if h.with != nil {
		text = h.with(text)
	}
	return text.Handle(ctx, r)
}

func (h processLog) derive(f func(slog.Handler) slog.Handler) slog.Handler {
	if h.with == nil {
		return processLog{f}
	}
	return processLog{func(s slog.Handler) slog.Handler { return f(h.with(s)) }}
}

func (h processLog) WithAttrs(a []slog.Attr) slog.Handler {
	return h.derive(func(s slog.Handler) slog.Handler { return s.WithAttrs(a) })
}

func (h processLog) WithGroup(name string) slog.Handler {
	return h.derive(func(s slog.Handler) slog.Handler { return s.WithGroup(name) })
}

// hookLog is what log.Writer is in helm: each line is logged.
type hookLog struct{ i *invocation }

func (l hookLog) Write(b []byte) (int, error) {
	msg := string(b)
	if n := len(msg); n > 0 && msg[n-1] == '\n' {
		msg = msg[:n-1]
	}
	fmt.Fprintf(l.i.errOut, "level=INFO msg=%q\n", msg)
	return len(b), nil
}
