package kubectl

import (
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	_ "ckadrill/shell/kubectl/english" // before the packages above
	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// Register provides the program "kubectl", and its completion to shells.
func Register(w *kernel.World) {
	w.Programs.Register("kubectl", Main)
	registerCompletion()
}

// invocation is one run of kubectl.
type invocation struct {
	p       *kernel.Process
	m       *mirror
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	f       cmdutil.Factory
	root    *cobra.Command
	level   int // -v
	// typedCacheDir is the value of --cache-dir.
	typedCacheDir string
	warned        warnings

	mu         sync.Mutex
	transports map[string]*network.Transport
}

type invocationKey struct{}

// stderrOf is where a process's errors go, without the names of private copies.
func stderrOf(p *kernel.Process) io.Writer {
	if i, ok := p.Value(invocationKey{}).(*invocation); ok {
		return i.streams.ErrOut
	}
	return p.Stderr
}

// building serialises the making of command trees: upstream keeps some of it in variables of the host process.
var building sync.Mutex

// Main is the program "kubectl".
func Main(p *kernel.Process) int {
	Tame()
	i := &invocation{p: p, m: newMirror(p), transports: map[string]*network.Transport{}}
	i.streams = genericiooptions.IOStreams{In: p.Stdin, Out: cleaner{i.m, p.Stdout}, ErrOut: cleaner{i.m, p.Stderr}}
	if p.TTY != nil {
		// "run -it" and "debug -it" ask the host for a terminal, and say that there is none.
		i.m.call("Unable to use a TTY - input is not a terminal or the right kind of file\n", "")
	}
	p.Log = nameless{cleaner{i.m, p.Log}}
	i.warned = rest.NewWarningWriter(i.streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	p.SetValue(invocationKey{}, i)
	p.OnExit(i.m.close)
	defer i.writeBack()
	p.OnExit(func() {
		if i.root != nil {
			forgetFlags(i.root)
		}
	})
	i.build()
	if code, done := i.plugin(); done {
		return code
	}
	if err := i.execute(); err != nil {
		cmdutil.CheckErr(err)
		return 1
	}
	return 0
}

func (i *invocation) writeBack() {
	if err := i.m.finish(); err != nil {
		fatal("error: "+err.Error(), 1)
	}
}

// build makes upstream's command tree and puts our own commands where upstream's would touch the host.
func (i *invocation) build() {
	building.Lock()
	defer building.Unlock()
	i.flags = genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50.0).WithWarningPrinter(i.streams)
	cache, config := noCache, i.kubeconfig()
	i.flags.CacheDir, i.flags.KubeConfig = &cache, &config
	i.flags.WrapConfigFn = i.wrapConfig
	i.cacheDiscovery()
	args := i.p.Argv
	if len(args) > 0 {
		args = append([]string{"kubectl"}, args[1:]...)
	}
	i.root = cmd.NewKubectlCommand(cmd.KubectlOptions{Arguments: i.preferences(args), ConfigFlags: i.flags, IOStreams: i.streams})
	i.f = cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(i.flags))
	i.root.SetArgs(i.p.Argv[1:])
	i.root.SetIn(i.streams.In)
	i.root.SetOut(i.streams.Out)
	i.root.SetErr(i.streams.ErrOut)
	i.showDefault("kubeconfig", "")
	i.showDefault("cache-dir", path.Join(i.home(), ".kube", "cache"))
	logs.AddFlags(i.root.PersistentFlags())
	i.hideForeignFlags()
	i.replaceCommands()
	i.mapFlags(i.root)
	if found, _, _ := i.root.Find(i.p.Argv[1:]); found != nil {
		i.mapFlags(found)
		i.showArguments(found)
	}
}

// showDefault is the default value that help shows for a flag.
func (i *invocation) showDefault(name, value string) {
	if f := i.root.PersistentFlags().Lookup(name); f != nil {
		f.DefValue = value
	}
}

// preferences has kubectl read ~/.kube/kuberc of the machine.
func (i *invocation) preferences(args []string) []string {
	for _, a := range args {
		if a == "--kuberc" || strings.HasPrefix(a, "--kuberc=") || a == "--" {
			return args
		}
	}
	file := i.p.Getenv("KUBERC")
	if file == "off" || len(args) < 2 {
		return args
	}
	if file == "" {
		file = path.Join(i.home(), ".kube", "kuberc")
	}
	if _, err := i.p.Files.Stat(i.p.Path(file)); err != nil {
		return args
	}
	return append([]string{args[0], "--kuberc=" + i.m.file(file)}, args[1:]...)
}

func (i *invocation) home() string {
	if h := i.p.Getenv("HOME"); h != "" {
		return h
	}
	return "/"
}

// execute is component-base/cli.RunNoErrOutput without its start of klog, which belongs to the host process.
func (i *invocation) execute() error {
	i.root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	if !i.root.SilenceUsage {
		i.root.SilenceUsage = true
		i.root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
			c.SilenceUsage = false
			return err
		})
	}
	i.root.SilenceErrors = true
	return i.root.Execute()
}

// find returns a command of the tree by its path. It does not ask cobra for the list of commands, which would sort them:
// the order in which upstream added them shows in its suggestions.
func (i *invocation) find(names ...string) *cobra.Command {
	c, rest, err := i.root.Find(names)
	if err != nil || len(rest) > 0 {
		panic(fmt.Sprintf("kubectl: upstream has no command %q any more", names))
	}
	return c
}

// refuse says that something is not simulated and ends the process.
func refuse(what string) { fatal("error: ckadrill does not simulate "+what+" yet", 1) }
