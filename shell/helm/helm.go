package helm

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"ckadrill/sim/kernel"
)

// Register provides the program "helm", and its completion to shells.
func Register(w *kernel.World) {
	w.Programs.Register("helm", Main)
	registerCompletion()
}

// DefaultVersion is the release of the helm whose executable does not say.
const DefaultVersion = "v4.1.4"

// Executable is the content of helm's executable file.
func Executable() []byte { return kernel.VersionedExecutable("helm", DefaultVersion) }

// invocation is one run of helm.
type invocation struct {
	p      *kernel.Process
	m      *mirror
	out    io.Writer
	errOut io.Writer
	turn   turn

	settings *cli.EnvSettings
	config   *action.Configuration
	root     *cobra.Command
	debug    bool
}

type invocationKey struct{}

// invocationOf is the run of helm that a process is.
func invocationOf(p *kernel.Process) *invocation {
	if p == nil {
		return nil
	}
	i, _ := p.Value(invocationKey{}).(*invocation)
	return i
}

// Main is the program "helm".
func Main(p *kernel.Process) int {
	tame()
	i := &invocation{p: p, m: newMirror(p)}
	i.out, i.errOut = cleaner{i.m, p.Stdout}, cleaner{i.m, p.Stderr}
	i.turn.i = i
	p.SetValue(invocationKey{}, i)
	p.OnExit(i.m.close)
	p.OnExit(i.turn.drop)
	args, err := i.m.mirrorArguments(p.Argv[1:])
	if err != nil {
		return i.fail(err)
	}
	i.turn.take()
	defer i.turn.drop()
	err = i.run(args)
	if back := i.m.writeBack(); back != nil && err == nil {
		return i.fail(back)
	}
	if err == nil {
		return 0
	}
	var c helmcmd.CommandError
	if errors.As(err, &c) {
		return c.ExitCode
	}
	return 1
}

func (i *invocation) fail(err error) int {
	fmt.Fprintf(i.errOut, "Error: %v\n", err)
	return 1
}

// run makes upstream's command tree and executes it. Errors have been printed.
func (i *invocation) run(args []string) error {
	i.config = action.NewConfiguration()
	var err error
	i.root, err = newRootCommand(i.config, i.out, args, func(debug bool) { i.debug = debug })
	if err != nil {
		fmt.Fprintf(i.errOut, "level=WARN msg=\"command failed\" error=%q\n", err)
		return err
	}
	i.root.SetArgs(args)
	i.root.SetIn(i.p.Stdin)
	i.root.SetOut(i.out)
	i.root.SetErr(i.errOut)
	i.hideForeignFlags()
	i.showDefaults()
	i.replaceCommands()
	i.root.PersistentPostRun = nil // profiles of the host process
	i.root.PersistentPreRunE, i.root.PersistentPreRun = i.connect, nil
	return i.root.Execute()
}

// connect gives upstream its clients, when all flags are known.
func (i *invocation) connect(c *cobra.Command, _ []string) error {
	if err := refuseFlags(c); err != nil {
		return err
	}
	if c.Name() == "env" {
		return nil
	}
	config, err := i.kubeconfig()
	if err != nil {
		return err
	}
	i.settings.KubeConfig = config
	if flags, ok := i.settings.RESTClientGetter().(*genericclioptions.ConfigFlags); ok {
		none, upstream := noCache, flags.WrapConfigFn
		flags.CacheDir = &none
		flags.WrapConfigFn = i.wrapConfig(upstream)
	}
	driver := i.p.Getenv("HELM_DRIVER")
	if driver == "sql" || driver == "memory" {
		return notSimulated("helm's storage driver " + driver)
	}
	if err := i.config.Init(i.settings.RESTClientGetter(), i.settings.Namespace(), driver); err != nil {
		return err
	}
	i.config.KubeClient = i.patient(i.config.KubeClient)
	i.config.SetHookOutputFunc(func(_, _, _ string) io.Writer { return hookLog{i} })
	return nil
}

func notSimulated(what string) error {
	return fmt.Errorf("ckadrill does not simulate %s yet", what)
}

// hideForeignFlags keeps flags of other programs in this host process away: cobra adds all of pflag.CommandLine to every
// command, where the real helm has nothing.
func (i *invocation) hideForeignFlags() {
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) {
		if i.root.PersistentFlags().Lookup(f.Name) == nil {
			i.root.PersistentFlags().AddFlag(&pflag.Flag{Name: f.Name, Hidden: true, NoOptDefVal: f.NoOptDefVal, Value: unknownFlag{f.Name}})
		}
	})
}

// unknownFlag is a flag that helm does not have.
type unknownFlag struct{ name string }

func (unknownFlag) String() string     { return "" }
func (unknownFlag) Type() string       { return "string" }
func (f unknownFlag) Set(string) error { return errors.New("unknown flag") }

// showDefaults has help show the machine's names of files.
func (i *invocation) showDefaults() {
	strip := func(f *pflag.Flag) { f.DefValue = string(i.m.clean([]byte(f.DefValue))) }
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		c.Flags().VisitAll(strip)
		c.PersistentFlags().VisitAll(strip)
		if f := c.Flags().Lookup("keyring"); f != nil {
			f.DefValue = path.Join(i.m.home(), ".gnupg", "pubring.gpg")
		}
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(i.root)
}

// environment is what upstream finds in the host's environment during its turn.
func (i *invocation) environment() map[string]string {
	env := map[string]string{"HELM_NO_PLUGINS": "1", "TMPDIR": i.m.temporary()}
	for _, kv := range i.p.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		switch {
		case k == "HELM_NO_PLUGINS" || !strings.HasPrefix(k, "HELM_") && k != "NO_COLOR":
		case k == "HELM_KUBECAFILE", k == "HELM_REGISTRY_CONFIG", k == "HELM_REPOSITORY_CONFIG", k == "HELM_REPOSITORY_CACHE", k == "HELM_CONTENT_CACHE", k == "HELM_PLUGINS":
			env[k] = i.m.host(i.p.Path(v))
		case k == "HELM_PPROF_CPU_PROFILE" || k == "HELM_PPROF_MEM_PROFILE" || k == "HELM_DRIVER_SQL_CONNECTION_STRING":
		default:
			env[k] = v
		}
	}
	for k, dir := range i.m.homes() {
		env[k] = i.m.host(dir)
	}
	return env
}
