package etcd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
)

// tlsFiles are the files of one of etcd's two listeners.
type tlsFiles struct {
	Cert, Key, ClientCert, ClientKey, CA string
	CertAuth                             bool
	CRL                                  string
}

func (t tlsFiles) empty() bool { return t.Cert == "" && t.Key == "" }

func (t tlsFiles) String() string {
	return fmt.Sprintf("cert = %s, key = %s, client-cert=%s, client-key=%s, trusted-ca = %s, client-cert-auth = %v, crl-file = %s",
		t.Cert, t.Key, t.ClientCert, t.ClientKey, t.CA, t.CertAuth, t.CRL)
}

// config is what etcd's command line says. Flags that change nothing in this store are parsed and checked all the same.
type config struct {
	name, dataDir, walDir                                        string
	listenPeer, listenClient, listenHTTP, listenMetrics          urlList
	advertisePeer, advertiseClient                               urlList
	initialCluster, token, clusterState                          string
	client, peer                                                 tlsFiles
	tickMs, electionMs, maxTxnOps, maxRequest, maxSnaps, maxWALs uint
	snapshotCount, catchUp                                       uint64
	quota                                                        int64
	compactionMode, compactionRetention                          string
	progress, compactHashCheck, corruptCheck, downgradeCheck     time.Duration
	tickAdvance, preVote, forceNew, version, strict, skipSAN     bool
	gates, logLevel, logFormat                                   string
	logOutputs                                                   string
	discovery, discoverySRV, discoveryEndpoints, discoveryToken  string
	configFile                                                   string
	tlsMin, tlsMax                                               string
	set                                                          map[string]bool
	fs                                                           *flag.FlagSet
	ignoredWarnings                                              []string
}

// urlList is a flag of comma-separated URLs; it is kept sorted and each once, as etcd's UniqueURLs.
type urlList []url.URL

func (l *urlList) Set(s string) error {
	if s == "" {
		*l = nil
		return nil
	}
	us, err := types.NewURLs(strings.Split(s, ","))
	if err != nil {
		return err
	}
	*l = nil
	for _, u := range us {
		if !slices.Contains(*l, u) {
			*l = append(*l, u)
		}
	}
	return nil
}

func (l *urlList) String() string { return strings.Join(l.strings(), ",") }

func (l *urlList) strings() []string {
	s := make([]string, 0, len(*l))
	for _, u := range *l {
		s = append(s, u.String())
	}
	return s
}

func mustURLs(s string) urlList {
	var l urlList
	if err := l.Set(s); err != nil {
		panic(err) // only for the constants below
	}
	return l
}

// oneOf is a flag with a few valid values.
type oneOf struct {
	p     *string
	valid []string
}

func (o oneOf) Set(s string) error {
	if slices.Contains(o.valid, s) {
		*o.p = s
		return nil
	}
	return errors.New("invalid value")
}

func (o oneOf) String() string {
	if o.p == nil {
		return ""
	}
	return *o.p
}

// ignored is a flag of old releases that etcd accepts and warns of.
type ignored struct {
	c    *config
	name string
}

func (i ignored) Set(string) error {
	i.c.ignoredWarnings = append(i.c.ignoredWarnings, fmt.Sprintf("flag %q is no longer supported - ignoring.", i.name))
	return nil
}
func (i ignored) String() string   { return "" }
func (i ignored) IsBoolFlag() bool { return true }

// deprecatedFlags are the flags that etcd 3.6 warns of.
var deprecatedFlags = map[string]string{
	"snapshot-count": "--snapshot-count is deprecated in 3.6 and will be decommissioned in 3.7.",
	"max-snapshots":  "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.7.",
	"v2-deprecation": "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, ignoring user input.",
	"experimental-compact-hash-check-enabled":        "--experimental-compact-hash-check-enabled is deprecated in 3.6 and will be decommissioned in 3.7. Use '--feature-gates=CompactHashCheck=true' instead.",
	"experimental-txn-mode-write-with-shared-buffer": "--experimental-txn-mode-write-with-shared-buffer is deprecated in v3.6 and will be decommissioned in v3.7. Use '--feature-gates=TxnModeWriteWithSharedBuffer=true' instead.",
}

// renamedFlags were experimental before 3.6; both names are accepted, one at a time.
var renamedFlags = []string{
	"compact-hash-check-time", "corrupt-check-time", "compaction-batch-limit", "watch-progress-notify-interval",
	"warning-apply-duration", "bootstrap-defrag-threshold-megabytes", "memory-mlock", "snapshot-catchup-entries",
	"compaction-sleep-interval", "downgrade-check-time", "enable-distributed-tracing", "distributed-tracing-address",
	"distributed-tracing-service-name", "distributed-tracing-instance-id", "distributed-tracing-sampling-rate",
	"peer-skip-client-san-verification",
}

const usageLine = `Usage:

  etcd [flags]
    Start an etcd server.

  etcd --version
    Show the version of etcd.

  etcd -h | --help
    Show the help information about etcd.

  etcd --config-file
    Path to the server configuration file. Note that if a configuration file is provided, other command line flags and environment variables will be ignored.

  etcd gateway
    Run the stateless pass-through etcd TCP connection forwarding proxy.

  etcd grpc-proxy
    Run the stateless etcd v3 gRPC L7 reverse proxy.
`

const (
	defaultName           = "default"
	defaultPeerURL        = "http://localhost:2380"
	defaultClientURL      = "http://localhost:2379"
	maxElectionMs    uint = 50000
)

// newConfig is etcd 3.6's set of flags with its defaults.
func newConfig(stderr io.Writer) *config {
	c := &config{
		listenPeer: mustURLs(defaultPeerURL), listenClient: mustURLs(defaultClientURL),
		advertisePeer: mustURLs(defaultPeerURL), advertiseClient: mustURLs(defaultClientURL),
		clusterState: "new", set: map[string]bool{},
	}
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, usageLine, "\n") }
	c.fs = fs
	for _, f := range []struct {
		p        *string
		name, or string
	}{
		{&c.dataDir, "data-dir", ""}, {&c.walDir, "wal-dir", ""}, {&c.name, "name", defaultName},
		{&c.initialCluster, "initial-cluster", ""}, {&c.token, "initial-cluster-token", "etcd-cluster"},
		{&c.client.Cert, "cert-file", ""}, {&c.client.Key, "key-file", ""}, {&c.client.ClientCert, "client-cert-file", ""},
		{&c.client.ClientKey, "client-key-file", ""}, {&c.client.CRL, "client-crl-file", ""}, {&c.client.CA, "trusted-ca-file", ""},
		{&c.peer.Cert, "peer-cert-file", ""}, {&c.peer.Key, "peer-key-file", ""}, {&c.peer.ClientCert, "peer-client-cert-file", ""},
		{&c.peer.ClientKey, "peer-client-key-file", ""}, {&c.peer.CA, "peer-trusted-ca-file", ""}, {&c.peer.CRL, "peer-crl-file", ""},
		{&c.logLevel, "log-level", "info"}, {&c.logFormat, "log-format", "json"},
		{&c.logOutputs, "log-outputs", "default"}, {&c.compactionMode, "auto-compaction-mode", "periodic"},
		{&c.compactionRetention, "auto-compaction-retention", "0"}, {&c.configFile, "config-file", ""},
		{&c.discovery, "discovery", ""}, {&c.discoverySRV, "discovery-srv", ""}, {&c.discoveryEndpoints, "discovery-endpoints", ""},
		{&c.discoveryToken, "discovery-token", ""}, {&c.tlsMin, "tls-min-version", "TLS1.2"}, {&c.tlsMax, "tls-max-version", ""},
	} {
		fs.StringVar(f.p, f.name, f.or, "")
	}
	for _, n := range strings.Fields(`backend-bbolt-freelist-type discovery-cert discovery-key discovery-cacert discovery-user
		discovery-password discovery-proxy discovery-srv-name client-cert-allowed-hostname peer-cert-allowed-cn
		peer-cert-allowed-hostname cipher-suites cors host-whitelist logger log-rotation-config-json metrics
		distributed-tracing-address distributed-tracing-service-name distributed-tracing-instance-id auth-token v2-deprecation
		discovery-fallback`) {
		fs.String(n, "", "")
	}
	for _, f := range []struct {
		p    *bool
		name string
		or   bool
	}{
		{&c.client.CertAuth, "client-cert-auth", false}, {&c.peer.CertAuth, "peer-client-cert-auth", false},
		{&c.tickAdvance, "initial-election-tick-advance", true}, {&c.preVote, "pre-vote", true}, {&c.forceNew, "force-new-cluster", false},
		{&c.strict, "strict-reconfig-check", true}, {&c.skipSAN, "peer-skip-client-san-verification", false}, {&c.version, "version", false},
	} {
		fs.BoolVar(f.p, f.name, f.or, "")
	}
	for _, n := range strings.Fields(`socket-reuse-port socket-reuse-address discovery-insecure-transport discovery-insecure-skip-tls-verify
		auto-tls peer-auto-tls enable-log-rotation enable-pprof enable-distributed-tracing
		enable-grpc-gateway experimental-initial-corrupt-check experimental-compact-hash-check-enabled
		experimental-enable-lease-checkpoint experimental-enable-lease-checkpoint-persist memory-mlock
		experimental-txn-mode-write-with-shared-buffer experimental-stop-grpc-service-on-defrag unsafe-no-fsync`) {
		fs.Bool(n, false, "")
	}
	for _, f := range []struct {
		p    *uint
		name string
		or   uint
	}{
		{&c.maxSnaps, "max-snapshots", 5}, {&c.maxWALs, "max-wals", 5}, {&c.tickMs, "heartbeat-interval", 100},
		{&c.electionMs, "election-timeout", 1000}, {&c.maxTxnOps, "max-txn-ops", DefaultMaxTxnOps},
		{&c.maxRequest, "max-request-bytes", DefaultMaxRequestBytes},
	} {
		fs.UintVar(f.p, f.name, f.or, "")
	}
	for _, n := range strings.Fields(`self-signed-cert-validity bcrypt-cost auth-token-ttl bootstrap-defrag-threshold-megabytes max-concurrent-streams`) {
		fs.Uint(n, 0, "")
	}
	for _, n := range strings.Fields(`backend-batch-limit distributed-tracing-sampling-rate compaction-batch-limit max-learners`) {
		fs.Int(n, 0, "")
	}
	fs.Uint64Var(&c.snapshotCount, "snapshot-count", 10000, "")
	fs.Uint64Var(&c.catchUp, "snapshot-catchup-entries", 5000, "")
	fs.Int64Var(&c.quota, "quota-backend-bytes", 0, "")
	for _, f := range []struct {
		p    *time.Duration
		name string
		or   time.Duration
	}{
		{&c.progress, "watch-progress-notify-interval", 10 * time.Minute}, {&c.compactHashCheck, "compact-hash-check-time", time.Minute},
		{&c.corruptCheck, "corrupt-check-time", 0}, {&c.downgradeCheck, "downgrade-check-time", 5 * time.Second},
	} {
		fs.DurationVar(f.p, f.name, f.or, "")
	}
	for _, n := range strings.Fields(`backend-batch-interval grpc-keepalive-min-time grpc-keepalive-interval grpc-keepalive-timeout
		raft-read-timeout raft-write-timeout discovery-dial-timeout discovery-request-timeout discovery-keepalive-time
		discovery-keepalive-timeout compaction-sleep-interval warning-apply-duration warning-unary-request-duration
		experimental-warning-unary-request-duration`) {
		fs.Duration(n, 0, "")
	}
	fs.Var(gateList{&c.gates}, "feature-gates", "")
	fs.Var(&c.listenPeer, "listen-peer-urls", "")
	fs.Var(&c.listenClient, "listen-client-urls", "")
	fs.Var(&c.listenHTTP, "listen-client-http-urls", "")
	fs.Var(&c.listenMetrics, "listen-metrics-urls", "")
	fs.Var(&c.advertisePeer, "initial-advertise-peer-urls", "")
	fs.Var(&c.advertiseClient, "advertise-client-urls", "")
	fs.Var(oneOf{&c.clusterState, []string{"new", "existing"}}, "initial-cluster-state", "")
	for _, n := range renamedFlags {
		fs.Var(fs.Lookup(n).Value, "experimental-"+n, "")
	}
	for _, n := range strings.Fields(`cluster-active-size cluster-remove-delay cluster-sync-interval config force max-result-buffer
		max-retry-attempts peer-heartbeat-interval peer-election-timeout retry-interval snapshot v vv`) {
		fs.Var(ignored{c, n}, n, "")
	}
	return c
}

// fromEnv reads ETCD_* variables for the flags that the command line does not set.
func (c *config) fromEnv(lookup func(string) (string, bool)) error {
	set := map[string]bool{}
	c.fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	var err error
	c.fs.VisitAll(func(f *flag.Flag) {
		key := "ETCD_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := lookup(key)
		if set[f.Name] || !ok || v == "" || err != nil {
			return
		}
		if serr := c.fs.Set(f.Name, v); serr != nil {
			err = fmt.Errorf("invalid value %q for %s: %v", v, key, serr)
		}
	})
	c.fs.Visit(func(f *flag.Flag) { c.set[f.Name] = true })
	if c.set["listen-client-urls"] && !c.set["advertise-client-urls"] {
		c.advertiseClient = nil
	}
	if (c.discovery != "" || c.discoverySRV != "" || c.discoveryEndpoints != "") && !c.set["initial-cluster"] {
		c.initialCluster = ""
	} else if !c.set["initial-cluster"] {
		c.initialCluster = c.clusterFromName()
	}
	return err
}

func (c *config) clusterFromName() string {
	var l []string
	for _, u := range c.advertisePeer.strings() {
		l = append(l, c.name+"="+u)
	}
	return strings.Join(l, ",")
}

// featureGates are those of etcd 3.6.
var featureGates = []string{
	"AllAlpha", "AllBeta", "CompactHashCheck", "InitialCorruptCheck", "LeaseCheckpoint", "LeaseCheckpointPersist",
	"SetMemberLocalAddr", "StopGRPCServiceOnDefrag", "TxnModeWriteWithSharedBuffer",
}

// gateList is the flag --feature-gates.
type gateList struct{ p *string }

func (g gateList) String() string {
	if g.p == nil {
		return ""
	}
	return *g.p
}

func (g gateList) Set(s string) error {
	*g.p = s
	for _, kv := range strings.Split(s, ",") {
		if kv = strings.TrimSpace(kv); kv == "" {
			continue
		}
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return fmt.Errorf("missing bool value for %s", k)
		}
		if _, err := strconv.ParseBool(strings.TrimSpace(v)); err != nil {
			return fmt.Errorf("invalid value of %s=%s, err: %v", k, v, err)
		}
		if !slices.Contains(featureGates, strings.TrimSpace(k)) {
			return fmt.Errorf("unrecognized feature gate: %s", k)
		}
	}
	return nil
}

func (c *config) gate(name string) bool {
	on := name == "TxnModeWriteWithSharedBuffer"
	for _, kv := range strings.Split(c.gates, ",") {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.TrimSpace(k) == name {
			on, _ = strconv.ParseBool(strings.TrimSpace(v))
		}
	}
	return on
}

// errUnsetAdvertise is embed.ErrUnsetAdvertiseClientURLsFlag.
var errUnsetAdvertise = errors.New("--advertise-client-urls is required when --listen-client-urls is set explicitly")

// validate checks in the order of embed.Config.Validate; warn is called where that warns.
func (c *config) validate(warn func(caller, msg string, fields ...any)) error {
	for _, n := range renamedFlags {
		if c.set[n] && c.set["experimental-"+n] {
			return fmt.Errorf("cannot set --experimental-%s and --%s at the same time, please use --%s only", n, n, n)
		}
	}
	for _, l := range []urlList{c.listenPeer, c.listenClient, c.listenHTTP} {
		if err := checkBind(l); err != nil {
			return err
		}
	}
	if len(c.listenHTTP) == 0 {
		warn("embed/config.go:1209", "Running http and grpc server on single port. This is not recommended for production.")
	}
	if err := checkBind(c.listenMetrics); err != nil {
		return err
	}
	if err := checkHosts(c.advertisePeer); err != nil {
		return fmt.Errorf(`--initial-advertise-peer-urls %q must be "host:port" (%w)`, c.advertisePeer.String(), err)
	}
	if err := checkHosts(c.advertiseClient); err != nil {
		return fmt.Errorf(`--advertise-client-urls %q must be "host:port" (%w)`, c.advertiseClient.String(), err)
	}
	n := 0
	for _, s := range []string{c.discovery, c.initialCluster, c.discoverySRV, c.discoveryEndpoints} {
		if s != "" {
			n++
		}
	}
	switch {
	case n > 1:
		return errors.New("multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", \"discovery\", \"discovery-endpoints\" or \"discovery-srv\"")
	case (c.discoveryToken != "") != (c.discoveryEndpoints != ""):
		return errors.New("both --discovery-token and --discovery-endpoints must be set")
	case c.tickMs == 0:
		return fmt.Errorf("--heartbeat-interval must be >0 (set to %dms)", c.tickMs)
	case c.electionMs == 0:
		return fmt.Errorf("--election-timeout must be >0 (set to %dms)", c.electionMs)
	case 5*c.tickMs > c.electionMs:
		return fmt.Errorf("--election-timeout[%vms] should be at least as 5 times as --heartbeat-interval[%vms]", c.electionMs, c.tickMs)
	case c.electionMs > maxElectionMs:
		return fmt.Errorf("--election-timeout[%vms] is too long, and should be set less than %vms", c.electionMs, maxElectionMs)
	case c.listenClient != nil && c.advertiseClient == nil:
		return errUnsetAdvertise
	case c.compactionMode == "":
		return errors.New("undefined auto-compaction-mode")
	case c.compactionMode != "periodic" && c.compactionMode != "revision":
		return fmt.Errorf("unknown auto-compaction-mode %q", c.compactionMode)
	case c.compactHashCheck <= 0:
		return fmt.Errorf("--compact-hash-check-time must be >0 (set to %v)", c.compactHashCheck)
	}
	if c.name == defaultName {
		warn("embed/config.go:1320", "it isn't recommended to use default name, please set a value for --name. Note that etcd might run into issue when multiple members have the same default name", "name", c.name)
	}
	for _, v := range []string{c.tlsMin, c.tlsMax} {
		if v != "" && v != "TLS1.2" && v != "TLS1.3" {
			return fmt.Errorf("unexpected TLS version %q, must be one of [TLS1.2, TLS1.3]", v)
		}
	}
	if c.tlsMin == "TLS1.3" && c.tlsMax == "TLS1.2" {
		return fmt.Errorf("min version (%s) is greater than max version (%s)", c.tlsMin, c.tlsMax)
	}
	return nil
}

func checkBind(l urlList) error {
	for _, u := range l {
		if u.Scheme == "unix" || u.Scheme == "unixs" {
			continue
		}
		host := u.Hostname()
		if host == "localhost" || host == "" {
			continue
		}
		if !isIP(host) {
			return fmt.Errorf("expected IP in URL for binding (%s)", u.String())
		}
	}
	return nil
}

func checkHosts(l urlList) error {
	for _, u := range l {
		if u.Hostname() == "" {
			return fmt.Errorf("unexpected empty host (%s)", u.String())
		}
	}
	return nil
}

// parseCluster reads --initial-cluster ("name=url,name=url") into members, in order of their names.
func parseCluster(s string) ([]Member, error) {
	urls := map[string][]string{}
	m, err := types.NewURLsMap(s)
	if err != nil {
		return nil, err
	}
	for name, us := range m {
		urls[name] = us.StringSlice()
	}
	names := make([]string, 0, len(urls))
	for n := range urls {
		names = append(names, n)
	}
	sort.Strings(names)
	l := make([]Member, 0, len(names))
	for _, n := range names {
		l = append(l, Member{Name: n, PeerURLs: urls[n]})
	}
	return l, nil
}
