// Package etcdctl is the programs "etcdctl" and "etcdutl" of etcd 3.6. etcdctl speaks etcd's gRPC API over the process's network
// with etcd's own client; etcdutl works on database files and data directories. Commands, flags, formats and error texts are
// those of go.etcd.io/etcd/etcdctl/v3/ctlv3 and go.etcd.io/etcd/etcdutl/v3, whose own code can only use the host's files,
// network and standard streams.
package etcdctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"

	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
)

// Register adds both programs to the world.
func Register(w *kernel.World) {
	w.Programs.Register("etcdctl", func(p *kernel.Process) int { return run(p, newCtl) })
	w.Programs.Register("etcdutl", func(p *kernel.Process) int { return run(p, newUtl) })
}

// Exit codes of pkg/cobrautl.
const (
	exitError         = 1
	exitBadConnection = 2
	exitBadFeature    = 4
	exitInterrupted   = 5
	exitBadArgs       = 128
)

// tool is one run of a program.
type tool struct {
	*kernel.Process
	format string // -w
	hex    bool
	// valueOnly is --print-value-only of the command get.
	valueOnly bool
	global    globalFlags
}

// globalFlags are etcdctl's persistent flags.
type globalFlags struct {
	endpoints                                []string
	debug                                    bool
	dialTimeout, commandTimeout              time.Duration
	keepAliveTime, keepAliveTimeout          time.Duration
	maxSend, maxRecv                         int
	insecureTransport, insecureDiscovery     bool
	insecureSkipVerify                       bool
	cert, key, caCert                        string
	user, password, discovery, discoveryName string
}

func run(p *kernel.Process, tree func(*tool) *cobra.Command) int {
	// gRPC, as a library of this process, logs by klog; in etcdctl its lines are discarded.
	p.SetLogFilter(func([]byte) bool { return false })
	t := &tool{Process: p}
	root := tree(t)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetArgs(p.Argv[1:])
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpTemplate(`{{.UsageString}}`)
	if err := root.ExecuteContext(p.Context()); err != nil {
		return exitError
	}
	return 0
}

// fail ends the program with a message.
func (t *tool) fail(code int, err error) {
	t.Errorf("Error: %v\n", err)
	t.Exit(code)
}

func (t *tool) failf(code int, format string, a ...any) { t.fail(code, fmt.Errorf(format, a...)) }

// context is limited by --command-timeout.
func (t *tool) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), t.global.commandTimeout)
}

func newCtl(t *tool) *cobra.Command {
	root := &cobra.Command{Use: "etcdctl", Short: "A simple command line client for etcd3.", SuggestFor: []string{"etcdctl"}}
	f, g := root.PersistentFlags(), &t.global
	f.StringSliceVar(&g.endpoints, "endpoints", []string{"127.0.0.1:2379"}, "gRPC endpoints")
	f.BoolVar(&g.debug, "debug", false, "enable client-side debug logging")
	f.StringVarP(&t.format, "write-out", "w", "simple", "set the output format (fields, json, protobuf, simple, table)")
	f.BoolVar(&t.hex, "hex", false, "print byte strings as hex encoded strings")
	f.DurationVar(&g.dialTimeout, "dial-timeout", 2*time.Second, "dial timeout for client connections")
	f.DurationVar(&g.commandTimeout, "command-timeout", 5*time.Second, "timeout for short running command (excluding dial timeout)")
	f.DurationVar(&g.keepAliveTime, "keepalive-time", 2*time.Second, "keepalive time for client connections")
	f.DurationVar(&g.keepAliveTimeout, "keepalive-timeout", 6*time.Second, "keepalive timeout for client connections")
	f.IntVar(&g.maxSend, "max-request-bytes", 0, "client-side request send limit in bytes (if 0, it defaults to 2.0 MiB (2 * 1024 * 1024).)")
	f.IntVar(&g.maxRecv, "max-recv-bytes", 0, "client-side response receive limit in bytes (if 0, it defaults to \"math.MaxInt32\")")
	f.BoolVar(&g.insecureTransport, "insecure-transport", true, "disable transport security for client connections")
	f.BoolVar(&g.insecureDiscovery, "insecure-discovery", true, "accept insecure SRV records describing cluster endpoints")
	f.BoolVar(&g.insecureSkipVerify, "insecure-skip-tls-verify", false, "skip server certificate verification (CAUTION: this option should be enabled only for testing purposes)")
	f.StringVar(&g.cert, "cert", "", "identify secure client using this TLS certificate file")
	f.StringVar(&g.key, "key", "", "identify secure client using this TLS key file")
	f.StringVar(&g.caCert, "cacert", "", "verify certificates of TLS-enabled secure servers using this CA bundle")
	f.StringVar(&g.user, "user", "", "username[:password] for authentication (prompt if password is not supplied)")
	f.StringVar(&g.password, "password", "", "password for authentication (if this option is used, --user option shouldn't include password)")
	f.StringVarP(&g.discovery, "discovery-srv", "d", "", "domain name to query for SRV records describing cluster endpoints")
	f.StringVar(&g.discoveryName, "discovery-srv-name", "", "service name to query when using DNS discovery")
	root.AddCommand(t.getCommand(), t.putCommand(), t.delCommand(), t.compactionCommand(), t.alarmCommand(), t.defragCommand(),
		t.endpointCommand(), t.moveLeaderCommand(), t.watchCommand(), t.versionCommand("etcdctl"), t.leaseCommand(), t.memberCommand(), t.snapshotSaveCommand())
	for _, c := range [][2]string{
		{"txn [options]", "Txn processes all the requests in one transaction"},
		{"make-mirror [options] <destination>", "Makes a mirror at the destination etcd cluster"},
		{"lock <lockname> [exec-command arg1 arg2 ...]", "Acquires a named lock"},
		{"elect <election-name> [proposal]", "Observes and participates in leader election"},
		{"auth <enable or disable>", "Enable or disable authentication"},
		{"user <subcommand>", "User related commands"},
		{"role <subcommand>", "Role related commands"},
		{"check <subcommand>", "commands for checking properties of the etcd cluster"},
		{"completion [bash|zsh|fish|powershell]", "Generate completion script"},
		{"downgrade <TARGET_VERSION>", "Downgrade related commands"},
	} {
		root.AddCommand(t.notSimulated(c[0], c[1]))
	}
	root.SetUsageFunc(func(c *cobra.Command) error { return t.usage(c, programVersion(t.Process)) })
	return root
}

func (t *tool) notSimulated(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, DisableFlagParsing: true, Run: func(c *cobra.Command, _ []string) {
		t.Errorf("Error: ckadrill does not simulate `%s` yet\n", c.CommandPath())
		t.Exit(exitError)
	}}
}

func (t *tool) versionCommand(program string) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Prints the version of " + program, Run: func(*cobra.Command, []string) {
		t.Printf("%s version: %s\nAPI version: %s\n", program, programVersion(t.Process), version.APIVersion)
	}}
}

// programVersion reads the version from the executable's second line, "version 3.6.6".
func programVersion(p *kernel.Process) string {
	const ours = etcd.Version
	if p.Files == nil {
		return ours
	}
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), p.Argv[0])
	if err != nil {
		return ours
	}
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return ours
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if v, ok := strings.CutPrefix(rest, "version "); ok {
		v, _, _ = strings.Cut(v, "\n")
		return strings.TrimPrefix(v, "v")
	}
	return ours
}
