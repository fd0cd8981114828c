package kubeadm

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
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
	p         *kernel.Process
	d         privateDir
	verbosity int
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
	"kubeadm token generate":                nil,
	"kubeadm certs":                         nil,
	"kubeadm certs certificate-key":         nil,
	"kubeadm certs check-expiration":        (*command).useCertificates,
	"kubeadm certs renew":                   nil,
	"kubeadm config":                        nil,
	"kubeadm config print":                  nil,
	"kubeadm config print init-defaults":    nil,
	"kubeadm config print join-defaults":    nil,
	"kubeadm config print reset-defaults":   nil,
	"kubeadm config print upgrade-defaults": nil,
	"kubeadm config images":                 nil,
	"kubeadm config images list":            (*command).useConfigFile,
	"kubeadm config validate":               (*command).useConfigFile,
	"kubeadm init phase":                    nil,
	"kubeadm join phase":                    nil,
	"kubeadm reset phase":                   nil,
	"kubeadm upgrade":                       nil,
	"kubeadm kubeconfig":                    nil,
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
	c.d = privateDir{root}
	defer c.asUpstream()()
	// Some commands fill in a default configuration, though they use nothing of it that depends on the machine. Upstream then
	// looks for a default route of the host and may find none; the simulated machine has one.
	c.p.SetLogFilter(func(line []byte) bool {
		return !bytes.Contains(line, []byte("could not obtain a bind address for the API Server"))
	})
	err = withStdout(c.p.Stdout, c.strip, func() error {
		tree := c.tree()
		tree.SetArgs(c.p.Argv[1:])
		return tree.ExecuteContext(c.p.Context())
	})
	if err == nil {
		return 0
	}
	msg := string(c.strip([]byte(err.Error())))
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
	return c.d.strip(bytes.ReplaceAll(b, []byte(c.d.path(connectableDir)), nil))
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
	root.SetErr(c.p.Stderr)
	root.SetIn(c.p.Stdin)
	// The klog flags of kubeadm's main function.
	root.PersistentFlags().VarP((*level)(&c.verbosity), "v", "v", "number for the log level verbosity")
	root.PersistentFlags().Var(new(pattern), "vmodule", "comma-separated list of pattern=N settings for file-filtered logging")

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
		if err := run(cmd, args); err != nil {
			return err
		}
		return c.export()
	}
}

// mirror copies a file of the machine into the private directory and returns its name there. A file that does not exist is
// none there either, so that upstream says so.
func (c *command) mirror(name string) (string, error) {
	name = c.p.Path(name)
	b, err := c.p.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return c.d.path(name), nil
	}
	if err != nil {
		return "", err
	}
	t := NewTree()
	t.Write(name, 0o600, b)
	return c.d.path(name), c.d.write(t, name)
}

// mirrorDir copies a directory of the machine, as far as it exists.
func (c *command) mirrorDir(dir string) error {
	entries, err := c.p.Files.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := dir + "/" + e.Name()
		if e.IsDir() {
			err = c.mirrorDir(name)
		} else if e.Type().IsRegular() {
			_, err = c.mirror(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// export writes to the machine what upstream changed below /etc/kubernetes.
func (c *command) export() error {
	t, err := c.d.read()
	if err != nil {
		return err
	}
	for _, f := range t.Files() {
		if f.Mode.IsDir() || !strings.HasPrefix(f.Path, kubernetesDir+"/") {
			continue
		}
		old, err := c.p.ReadFile(f.Path)
		if err == nil && bytes.Equal(old, f.Content) {
			continue
		}
		if err := f.install(c.p.Files); err != nil {
			return err
		}
	}
	return nil
}

// useConfigFile lets --config name a copy.
func (c *command) useConfigFile(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup("config")
	if f == nil || f.Value.String() == "" {
		return nil
	}
	name, err := c.mirror(f.Value.String())
	if err != nil {
		return err
	}
	return f.Value.Set(name)
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
