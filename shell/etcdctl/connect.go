package etcdctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"ckadrill/sim/network"
)

// configure reads the environment, checks flags and makes the client's configuration. It ends the program on an error.
func (t *tool) configure(c *cobra.Command) clientv3.Config {
	t.setFromEnvironment(c.InheritedFlags())
	switch t.format {
	case "simple", "json", "fields", "table":
	case "protobuf":
		t.failf(exitBadFeature, "ckadrill does not simulate the output format protobuf yet")
	default:
		t.failf(exitBadFeature, "unsupported output format")
	}
	g := &t.global
	for _, f := range []struct{ name, value string }{{"cert", g.cert}, {"key", g.key}, {"cacert", g.caCert}} {
		if f.value == "" && c.Flags().Changed(f.name) {
			t.failf(exitBadArgs, "empty string is passed to --%s option", f.name)
		}
	}
	cfg := clientv3.Config{
		Context: t.Context(), Endpoints: g.endpoints, DialTimeout: g.dialTimeout, DialKeepAliveTime: g.keepAliveTime, DialKeepAliveTimeout: g.keepAliveTimeout,
		MaxCallSendMsgSize: g.maxSend, MaxCallRecvMsgSize: g.maxRecv, Logger: t.logger().Named("etcd-client"),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(t.dial)},
	}
	if g.user != "" {
		name, password, ok := strings.Cut(g.user, ":")
		if !ok && g.password == "" {
			if t.TTY == nil {
				t.failf(exitError, "inappropriate ioctl for device")
			}
			var err error
			if password, err = t.TTY.ReadPassword("Password: "); err != nil {
				t.fail(exitError, err)
			}
		}
		if g.password != "" {
			name, password = g.user, g.password
		}
		cfg.Username, cfg.Password = name, password
	}
	var err error
	if cfg.TLS, err = t.tlsConfig(); err != nil {
		t.fail(exitBadArgs, err)
	}
	return cfg
}

// setFromEnvironment sets flags from ETCDCTL_ variables, and warns of those that no flag has.
func (t *tool) setFromEnvironment(f *pflag.FlagSet) {
	known, shadowed := map[string]bool{}, map[string]bool{}
	f.VisitAll(func(f *pflag.Flag) {
		key := "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if f.Changed {
			shadowed[key] = true
			return
		}
		if v := t.Getenv(key); v != "" {
			known[key] = true
			if err := f.Value.Set(v); err == nil {
				f.Changed = true
			}
		}
	})
	for _, kv := range t.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		switch {
		case known[key] || !strings.HasPrefix(key, "ETCDCTL_"):
		case shadowed[key]:
			t.log("fatal", "", "flags/flag.go:85", "conflicting environment variable is shadowed by corresponding command-line flag (either unset environment variable or disable flag))", "environment-variable", key)
			t.Exit(exitError)
		case key == "ETCDCTL_WATCH_KEY" || key == "ETCDCTL_WATCH_RANGE_END":
		default:
			t.log("warn", "", "flags/flag.go:94", "unrecognized environment variable", "environment-variable", kv)
		}
	}
}

// tlsConfig is clientv3's newTLSConfig over the machine's files.
func (t *tool) tlsConfig() (*tls.Config, error) {
	g := &t.global
	server := g.discovery
	if g.insecureDiscovery {
		server = ""
	}
	var cfg *tls.Config
	if g.cert != "" || g.key != "" || g.caCert != "" || server != "" {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: server}
		if (g.cert == "") != (g.key == "") {
			return nil, fmt.Errorf("KeyFile and CertFile must both be present[key: %v, cert: %v]", g.key, g.cert)
		}
		if g.cert != "" {
			pair, err := t.keyPair(g.cert, g.key)
			if err != nil {
				return nil, err
			}
			cfg.Certificates = []tls.Certificate{pair}
		}
		if g.caCert != "" {
			b, err := t.ReadFile(g.caCert)
			if err != nil {
				return nil, err
			}
			cfg.RootCAs = x509.NewCertPool()
			if !cfg.RootCAs.AppendCertsFromPEM(b) && len(b) > 0 {
				return nil, errors.New("x509: malformed certificate")
			}
		}
	}
	if cfg == nil && !g.insecureTransport {
		cfg = &tls.Config{}
	}
	if g.insecureSkipVerify {
		if cfg == nil {
			cfg = &tls.Config{}
		}
		cfg.InsecureSkipVerify = true
	}
	return cfg, nil
}

func (t *tool) keyPair(cert, key string) (tls.Certificate, error) {
	c, err := t.ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := t.ReadFile(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}

// dial connects to an address or a name.
func (t *tool) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return t.Dial(ctx, "tcp", address)
	}
	addrs, err := network.Resolve(ctx, t.Process, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	for _, a := range addrs {
		var c net.Conn
		if c, err = t.Dial(ctx, "tcp", net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// client connects, which for etcd's client means to begin to. It ends the program on an error.
func (t *tool) client(cfg clientv3.Config) *clientv3.Client {
	c, err := clientv3.New(cfg)
	if err != nil {
		t.fail(exitBadConnection, err)
	}
	t.OnExit(func() { c.Close() })
	return c
}

// logger is the client's: JSON lines on standard error, as logutil.CreateDefaultZapLogger makes it.
func (t *tool) logger() *zap.Logger {
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", NameKey: "logger", CallerKey: "caller", MessageKey: "msg", LineEnding: "\n",
		EncodeLevel: zapcore.LowercaseLevelEncoder, EncodeDuration: zapcore.StringDurationEncoder,
		EncodeTime: zapcore.TimeEncoderOfLayout(logTime),
		EncodeCaller: func(c zapcore.EntryCaller, e zapcore.PrimitiveArrayEncoder) {
			// The library is of another patch release than the program.
			path := c.TrimmedPath()
			if _, after, ok := strings.Cut(path, "/"); ok && strings.HasPrefix(path, "v3@") {
				path = "v3@v" + programVersion(t.Process) + "/" + after
			}
			e.AppendString(path)
		},
	})
	return zap.New(zapcore.NewCore(enc, zapcore.AddSync(t.Stderr), zap.InfoLevel), zap.AddCaller())
}

const logTime = "2006-01-02T15:04:05.000000Z0700"
