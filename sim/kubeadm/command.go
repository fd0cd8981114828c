package kubeadm

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmcmd "k8s.io/kubernetes/cmd/kubeadm/app/cmd"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm/keys"
)

// command is one run of the program kubeadm: upstream's own command tree, with a private directory for the machine's files.
type command struct {
	p *kernel.Process
	// d stands for the machine's root, own for files that are not the machine's.
	d, own privateDir
	// mirrored are the files of the machine that have been copied to d, and the directories (nil) that exist there.
	mirrored map[string][]byte
	// mu guards unreadable and given, which what is printed is changed by.
	mu sync.Mutex
	// unreadable are the files and directories of the machine that were asked for and may not be read.
	unreadable []string
	verbosity  int
	// given are the names by which copies were asked for, where they were not absolute, by the copies' own.
	given []givenName
	// unknownFlag is a flag that was given and that only other programs of this host process have.
	unknownFlag string
}

// simulated says which of kubeadm's commands can run here, by their full names. The others need more of a machine than they
// are given yet; their help is there for all.
var simulated = map[string]func(*command, *cobra.Command) error{
	"kubeadm":                               nil,
	"kubeadm version":                       nil,
	"kubeadm completion":                    nil,
	"kubeadm token":                         nil,
	"kubeadm token create":                  (*command).useKubeconfig,
	"kubeadm token delete":                  (*command).useKubeconfig,
	"kubeadm token list":                    (*command).useKubeconfig,
	"kubeadm certs":                         nil,
	"kubeadm certs certificate-key":         nil,
	"kubeadm certs check-expiration":        (*command).useCertificates,
	"kubeadm certs renew":                   nil,
	"kubeadm certs generate-csr":            (*command).useOwnCertificates,
	"kubeadm config":                        nil,
	"kubeadm config print":                  nil,
	"kubeadm config print init-defaults":    nil,
	"kubeadm config print reset-defaults":   nil,
	"kubeadm config print upgrade-defaults": nil,
	"kubeadm config images":                 nil,
	"kubeadm config images list":            (*command).useImages,
	"kubeadm config validate":               (*command).useConfigFile,
	"kubeadm init phase":                    nil,
	"kubeadm join phase":                    nil,
	"kubeadm reset phase":                   nil,
	"kubeadm upgrade":                       nil,
	"kubeadm kubeconfig":                    nil,
	"kubeadm kubeconfig user":               (*command).useOwnCertificates,
}

// inPlace are the commands that are run by functions of ours, since upstream's ask the host too much.
var inPlace = map[string]func(c *command, cmd *cobra.Command, args []string) error{
	"kubeadm token generate": func(c *command, _ *cobra.Command, _ []string) error {
		fmt.Println(newToken(c.p.World()))
		return nil
	},
	"kubeadm config print join-defaults": (*command).printJoinDefaults,
	"kubeadm config migrate":             (*command).migrateConfiguration,
	"kubeadm config images pull":         (*command).pullControlPlaneImages,
	"kubeadm upgrade plan":               (*command).upgradePlan,
	"kubeadm upgrade diff":               (*command).upgradeDiff,
}

func (c *command) run() int {
	upstream.Lock()
	defer upstream.Unlock()
	root, err := os.MkdirTemp("", "ckadrill-kubeadm-")
	if err != nil {
		c.p.Errorf("error: %v\n", err)
		return 1
	}
	defer os.RemoveAll(root)
	c.own, c.d = privateDir{filepath.Join(root, "own")}, privateDir{filepath.Join(root, "tree")}
	for _, dir := range []privateDir{c.own, c.d} {
		if err := os.Mkdir(dir.root, 0o700); err != nil {
			c.p.Errorf("error: %v\n", err)
			return 1
		}
	}
	defer c.asUpstream()()
	// Some commands fill in a default configuration, though they use nothing of it that depends on the machine. Upstream then
	// looks for a default route of the host and may find none; the simulated machine has one.
	c.p.SetLogFilter(func(line []byte) bool {
		return !bytes.Contains(line, []byte("could not obtain a bind address for the API Server")) &&
			!bytes.Contains(line, []byte("] [core] [")) // gRPC's, which says nothing in kubeadm
	})
	err = withStdout(c.p.Stdout, c.strip, func(out *capture) error {
		// What goes to standard error comes after what was printed before it.
		c.p.Stderr = out.after(c.p.Stderr)
		c.p.Log = out.after(c.p.Log)
		tree := c.tree()
		tree.SetArgs(c.p.Argv[1:])
		return tree.ExecuteContext(c.p.Context())
	})
	if err == nil {
		return 0
	}
	msg := string(c.strip([]byte(err.Error())))
	if c.unknownFlag != "" {
		msg = "unknown flag: --" + c.unknownFlag
	}
	if c.verbosity > 4 {
		msg += "\n" + kubeadmerrors.StackTrace(err)
	} else {
		msg += "\nTo see the stack trace of this error execute with --v=5 or higher\n"
	}
	var n notSimulated
	if errors.As(err, &n) {
		msg = string(n) + "\n"
	}
	c.p.Errorf("error: %s", msg)
	return 1
}

// strip takes the private names out of what upstream prints.
func (c *command) strip(b []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.given {
		b = bytes.ReplaceAll(b, []byte(g.private), []byte(g.name))
	}
	for _, dir := range []string{connectableDir, configDir} {
		b = bytes.ReplaceAll(b, []byte(c.own.path(dir)), nil)
	}
	return c.denials(c.d.strip(b))
}

type notSimulated string

func (n notSimulated) Error() string { return string(n) }

// asUpstream sets what is process-wide in kubeadm for this run, and returns what sets it back.
func (c *command) asUpstream() func() {
	oldStart, oldVolumes, oldKey, oldRelease := startTime, caCertsExtraVolumePaths, pkiutil.NewPrivateKey, kubeadmutil.KubernetesReleaseVersion
	startTime, caCertsExtraVolumePaths = time.Now(), nil
	pkiutil.NewPrivateKey = func(kubeadmapi.EncryptionAlgorithmType) (crypto.Signer, error) { return keys.New(c.p.World(), 2048) }
	kubeadmutil.KubernetesReleaseVersion = func(v string) (string, error) {
		return kubernetesReleaseVersion(v, c.fetchRelease)
	}
	version := setVersion(programVersion(c.p))
	timeouts := &kubeadmapi.Timeouts{}
	kubeadmapi.SetDefaultTimeouts(&timeouts)
	kubeadmapi.SetActiveTimeouts(timeouts)
	return func() {
		startTime, caCertsExtraVolumePaths, pkiutil.NewPrivateKey, kubeadmutil.KubernetesReleaseVersion = oldStart, oldVolumes, oldKey, oldRelease
		version()
	}
}

//go:linkname kubernetesReleaseVersion k8s.io/kubernetes/cmd/kubeadm/app/util.kubernetesReleaseVersion
func kubernetesReleaseVersion(version string, fetcher func(string, time.Duration) (string, error)) (string, error)

//go:linkname newCmdCertsExpiration k8s.io/kubernetes/cmd/kubeadm/app/cmd.newCmdCertsExpiration
func newCmdCertsExpiration(out io.Writer, kdir string) *cobra.Command

//go:linkname getRenewSubCommands k8s.io/kubernetes/cmd/kubeadm/app/cmd.getRenewSubCommands
func getRenewSubCommands(out io.Writer, kdir string) []*cobra.Command

// tree is upstream's command tree for this run.
func (c *command) tree() *cobra.Command {
	root := kubeadmcmd.NewKubeadmCommand(c.p.Stdin, os.Stdout, c.p.Stderr)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { // upstream's changes the root of the whole host process
		if f := root.PersistentFlags().Lookup("rootfs"); f != nil && f.Changed {
			return notSimulated("ckadrill does not simulate kubeadm --rootfs yet")
		}
		return nil
	}
	root.SetErr(c.p.Stderr)
	root.SetIn(c.p.Stdin)
	// The klog flags of kubeadm's main function.
	root.PersistentFlags().VarP((*level)(&c.verbosity), "v", "v", "number for the log level verbosity")
	root.PersistentFlags().Var(new(pattern), "vmodule", "comma-separated list of pattern=N settings for file-filtered logging")

	// cobra adds the flags of the whole host process to every command, and Kubernetes' code registers its own there.
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) {
		root.PersistentFlags().AddFlag(&pflag.Flag{Name: f.Name, Hidden: true, NoOptDefVal: f.NoOptDefVal, Value: foreignFlag{f.Name, c}})
	})

	kdir := c.d.path(kubernetesDir)
	if certs, _, err := root.Find([]string{"certs"}); err == nil {
		replace(certs, newCmdCertsExpiration(os.Stdout, kdir))
	}
	if renew, _, err := root.Find([]string{"certs", "renew"}); err == nil {
		for _, sub := range getRenewSubCommands(os.Stdout, kdir) {
			replace(renew, sub)
		}
	}
	c.guard(root)
	return root
}

// replace puts a subcommand in the place of the one of the same name.
func replace(parent, sub *cobra.Command) {
	for _, old := range parent.Commands() {
		if old.Name() == sub.Name() {
			parent.RemoveCommand(old)
		}
	}
	parent.AddCommand(sub)
}

// guard lets every command prepare the private directory before it runs and take its changes out afterwards, or say that it is
// not simulated.
func (c *command) guard(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.guard(sub)
	}
	run := cmd.RunE
	if run == nil && cmd.Run != nil {
		plain := cmd.Run
		run = func(cmd *cobra.Command, args []string) error { plain(cmd, args); return nil }
	}
	if run == nil {
		return
	}
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f, phase := flowOf(cmd); f != nil && (phase == "" || !cmd.HasSubCommands()) {
			return c.runFlow(f, phase, cmd, args)
		} else if f != nil {
			return run(cmd, args) // a phase of phases prints its help
		}
		if cmd.CommandPath() == "kubeadm token create" && len(args) == 0 && stringFlag(cmd, "config") == "" {
			args = []string{newToken(c.p.World())} // upstream's own would not come from the world's seed
		}
		if f := inPlace[cmd.CommandPath()]; f != nil {
			return f(c, cmd, args)
		}
		prepare, ok := simulated[cmd.CommandPath()]
		if parent := cmd.Parent(); !ok && parent != nil && parent.CommandPath() == "kubeadm certs renew" {
			prepare, ok = (*command).useCertificates, true
		}
		if !ok {
			return notSimulated(fmt.Sprintf("ckadrill does not simulate `%s` yet", cmd.CommandPath()))
		}
		if prepare != nil {
			if err := prepare(c, cmd); err != nil {
				return err
			}
		}
		err := run(cmd, args)
		return errors.Join(err, c.export())
	}
}

// foreignFlag is a flag that kubeadm does not have.
type foreignFlag struct {
	name string
	c    *command
}

func (foreignFlag) String() string { return "" }
func (foreignFlag) Type() string   { return "string" }
func (f foreignFlag) Set(string) error {
	f.c.unknownFlag = f.name
	return errors.New("unknown flag")
}

// level is the flag -v. Nothing of kubeadm's verbose log is printed: klog's verbosity is that of the whole host process.
type level int

func (l *level) String() string { return fmt.Sprint(int(*l)) }
func (l *level) Type() string   { return "Level" }
func (l *level) Set(s string) error {
	_, err := fmt.Sscan(s, (*int)(l))
	return err
}

// pattern is the flag --vmodule, which is accepted and has no effect here, as it has none without verbose lines.
type pattern string

func (m *pattern) String() string     { return string(*m) }
func (m *pattern) Type() string       { return "moduleSpec" }
func (m *pattern) Set(s string) error { *m = pattern(s); return nil }

var _ pflag.Value = (*level)(nil)
