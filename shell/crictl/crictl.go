package crictl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"ckadrill/sim/kernel"
	"ckadrill/sim/runtime"
)

// defaultVersion is the release of cri-tools whose commands these are.
const defaultVersion = "1.35.0"

// versionOf reads from the executable which release it says that it is.
func versionOf(p *kernel.Process) string {
	if len(p.Argv) == 0 {
		return defaultVersion
	}
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), p.Argv[0])
	if err != nil {
		return defaultVersion
	}
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return defaultVersion
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if v, ok := strings.CutPrefix(strings.TrimSpace(rest), "version v"); ok {
		return v
	}
	return defaultVersion
}

var defaultEndpoints = []string{"unix:///run/containerd/containerd.sock", "unix:///run/crio/crio.sock", "unix:///var/run/cri-dockerd.sock"}

// Register adds the program "crictl" to the world.
func Register(w *kernel.World) { w.Programs.Register("crictl", main) }

// tool is one run of crictl.
type tool struct {
	p     *kernel.Process
	ctx   context.Context
	start time.Time

	runtimeEndpoint, imageEndpoint       string
	runtimeEndpointSet, imageEndpointSet bool
	timeout                              time.Duration
	configFile                           string
}

func main(p *kernel.Process) int {
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	t := &tool{p: p, ctx: ctx, start: time.Now()}
	// Of the signals crictl handles the first ends what it waits for, the second itself.
	interrupts := 0
	for _, s := range []kernel.Signal{kernel.SIGINT, kernel.SIGTERM} {
		p.Notify(s, func() {
			if interrupts++; interrupts > 1 {
				p.Exit(1)
			}
			cancel()
		})
	}
	app := t.app()
	argv := append([]string{"crictl"}, p.Argv[1:]...)
	if err := app.RunContext(ctx, argv); err != nil {
		t.fatal(err)
	}
	return 0
}

func (t *tool) printf(format string, a ...any)   { fmt.Fprintf(t.p.Stdout, format, a...) }
func (t *tool) println(a ...any)                 { fmt.Fprintln(t.p.Stdout, a...) }
func (t *tool) warn(format string, a ...any)     { t.log("warning", 33, fmt.Sprintf(format, a...)) }
func (t *tool) info(format string, a ...any)     { t.log("info", 36, fmt.Sprintf(format, a...)) }
func (t *tool) logError(format string, a ...any) { t.log("error", 31, fmt.Sprintf(format, a...)) }

// fatal logs an error and ends the process.
func (t *tool) fatal(err error) {
	t.log("fatal", 31, err.Error())
	t.p.Exit(1)
}

// log writes a line as logrus does: for people on a terminal, else as keys and values.
func (t *tool) log(level string, color int, msg string) {
	if onTerminal(t.p, t.p.Stderr) {
		fmt.Fprintf(t.p.Stderr, "\x1b[%dm%s\x1b[0m[%04d] %-44s \n", color, strings.ToUpper(level)[:4], int(time.Since(t.start).Seconds()), msg)
		return
	}
	fmt.Fprintf(t.p.Stderr, "time=%q level=%s msg=%s\n", time.Now().UTC().Format(time.RFC3339), level, quote(msg))
}

// onTerminal says whether a stream leads to the process's terminal.
func onTerminal(p *kernel.Process, w io.Writer) bool {
	for p.TTY != nil {
		if w == io.Writer(p.TTY) {
			return true
		}
		u, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
	return false
}

func quote(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._/@^+", r) {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}

// app assembles the command line. The library's own outlets to the host are all replaced.
func (t *tool) app() *cli.App {
	app := &cli.App{
		Name: "crictl", HelpName: "crictl", Usage: "client for CRI", Version: versionOf(t.p),
		Reader: t.p.Stdin, Writer: t.p.Stdout, ErrWriter: t.p.Stderr,
		Commands:       t.commands(),
		Before:         t.before,
		ExitErrHandler: func(_ *cli.Context, err error) { t.exitCoded(err) },
	}
	app.Flags = []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Value: "/etc/crictl.yaml", Usage: "Location of the client config file. If not specified and the default does not exist, the program's directory is searched as well"},
		&cli.StringFlag{Name: "runtime-endpoint", Aliases: []string{"r"}, Usage: fmt.Sprintf("Endpoint of CRI container runtime service (default: uses in order the first successful one of %v). Default is now deprecated and the endpoint should be set instead.", defaultEndpoints)},
		&cli.StringFlag{Name: "image-endpoint", Aliases: []string{"i"}, Usage: "Endpoint of CRI image manager service (default: uses 'runtime-endpoint' setting)"},
		&cli.DurationFlag{Name: "timeout", Aliases: []string{"t"}, Value: 2 * time.Second, Usage: "Timeout of connecting to the server in seconds (e.g. 2s, 20s.). 0 or less is set to default"},
		&cli.BoolFlag{Name: "debug", Aliases: []string{"D"}, Usage: "Enable debug mode"},
		&cli.BoolFlag{Name: "enable-tracing", Usage: "Enable OpenTelemetry tracing."},
		&cli.IntFlag{Name: "tracing-sampling-rate-per-million", Usage: "Number of samples to collect per million OpenTelemetry spans. Set to 1000000 or -1 to always sample.", Value: -1},
		&cli.StringFlag{Name: "tracing-endpoint", Usage: "Address to which the gRPC tracing collector will send spans to.", Value: "127.0.0.1:4317"},
		&cli.StringFlag{Name: "profile-cpu", Usage: "Write a pprof CPU profile to the provided path."},
		&cli.StringFlag{Name: "profile-mem", Usage: "Write a pprof memory profile to the provided path."},
	}
	slices.SortFunc(app.Commands, func(a, b *cli.Command) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range app.Commands {
		sort.Sort(cli.FlagsByName(c.Flags))
	}
	sort.Sort(cli.FlagsByName(app.Flags))
	return app
}

// The variables of the environment that stand for flags. The library would look them up in the host's environment, so they
// are named to it in the help texts only.
var flagVariables = map[string]string{
	"config": "CRI_CONFIG_FILE", "runtime-endpoint": "CONTAINER_RUNTIME_ENDPOINT", "image-endpoint": "IMAGE_SERVICE_ENDPOINT", "creds": "CRICTL_CREDS", "auth": "CRICTL_AUTH",
	"pull-timeout": "CRICTL_PULL_TIMEOUT",
}

func init() {
	plain := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string {
		s := plain(f)
		if v := flagVariables[f.Names()[0]]; v != "" {
			s += " [$" + v + "]"
		}
		return s
	}
}

// exitCoded prints an error that brings its own exit code, or that joins several, and ends the process as the library does.
func (t *tool) exitCoded(err error) {
	var one cli.ExitCoder
	var many aggregate
	switch {
	case errors.As(err, &many):
		for _, e := range many {
			fmt.Fprintln(t.p.Stderr, e)
		}
		t.p.Exit(1)
	case errors.As(err, &one):
		if one.Error() != "" {
			fmt.Fprintln(t.p.Stderr, one)
		}
		t.p.Exit(one.ExitCode())
	}
}

// aggregate joins the errors of a command that was given several objects.
type aggregate []error

func (a aggregate) Error() string { return errors.Join(a...).Error() }

// each calls f for every id and joins the errors.
func each(ids []string, f func(id string) error) error {
	var errs aggregate
	for _, id := range ids {
		if err := f(id); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// setting is a flag's value, or that of its variable in the environment.
func (t *tool) setting(c *cli.Context, name string) (string, bool) {
	if c.IsSet(name) {
		return c.String(name), true
	}
	if v, ok := t.p.LookupEnv(flagVariables[name]); ok {
		return v, true
	}
	return c.String(name), false
}

// config is /etc/crictl.yaml.
type config struct {
	RuntimeEndpoint   string `yaml:"runtime-endpoint"`
	ImageEndpoint     string `yaml:"image-endpoint"`
	Timeout           int    `yaml:"timeout"`
	Debug             bool   `yaml:"debug"`
	PullImageOnCreate bool   `yaml:"pull-image-on-create"`
	DisablePullOnRun  bool   `yaml:"disable-pull-on-run"`
}

func (t *tool) readConfig(name string) (*config, error) {
	b, err := t.p.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c := &config{}
	if err := yaml.Unmarshal(b, c); err != nil {
		return nil, err
	}
	return c, nil
}

func (t *tool) writeConfig(name string, c *config) error {
	b, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := t.p.Files.MkdirAll(path.Dir(t.p.Path(name)), 0o755); err != nil {
		return err
	}
	return t.p.Files.WriteFile(t.p.Path(name), b, 0o644)
}

// serverConfig finds the configuration file, in the program's directory if it is not where it should be.
func (t *tool) serverConfig(name string) (*config, error) {
	if _, err := t.p.Files.Stat(t.p.Path(name)); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("load config file: %w", err)
		}
		exe, err := kernel.LookPath(t.p.Files, t.p.Dir(), t.p.Getenv("PATH"), t.p.Argv[0])
		if err != nil {
			exe = "/usr/bin/crictl"
		}
		next := path.Join(path.Dir(exe), "crictl.yaml")
		t.warn("Config %q does not exist, trying next: %q", name, next)
		if _, err := t.p.Files.Stat(next); err != nil {
			return nil, fmt.Errorf("load config file: %w", err)
		}
		name = next
	}
	c, err := t.readConfig(name)
	if err != nil {
		return nil, fmt.Errorf("load config file: %w", err)
	}
	return c, nil
}

func (t *tool) before(c *cli.Context) error {
	name, asked := t.setting(c, "config")
	t.configFile = name
	conf, err := t.serverConfig(name)
	if err != nil {
		if asked {
			t.fatal(err)
		}
		conf = nil
	}
	t.timeout = c.Duration("timeout")
	if c.IsSet("timeout") && t.timeout <= 0 {
		t.timeout = 2 * time.Second
	}
	t.runtimeEndpoint, t.runtimeEndpointSet = t.setting(c, "runtime-endpoint")
	t.imageEndpoint, t.imageEndpointSet = t.setting(c, "image-endpoint")
	if conf != nil {
		if !t.runtimeEndpointSet && conf.RuntimeEndpoint != "" {
			t.runtimeEndpoint, t.runtimeEndpointSet = conf.RuntimeEndpoint, true
		}
		if !t.imageEndpointSet && conf.ImageEndpoint != "" {
			t.imageEndpoint, t.imageEndpointSet = conf.ImageEndpoint, true
		}
		if !c.IsSet("timeout") && conf.Timeout > 0 {
			t.timeout = time.Duration(conf.Timeout) * time.Second
		}
	}
	return nil
}

const deprecatedDefaults = "%s connect using default endpoints: %v. As the default settings are now deprecated, you should set the endpoint instead."

// connect tries an endpoint, or the default ones in turn.
func connect[S any](t *tool, what, endpoint string, set bool, open func(string) (S, error)) (s S, err error) {
	if set {
		return open(endpoint)
	}
	t.warn(deprecatedDefaults, what, defaultEndpoints)
	for _, e := range defaultEndpoints {
		if s, err = open(e); err == nil {
			return s, nil
		}
		t.logError("%v", err)
	}
	return s, err
}

func (t *tool) runtime() (*runtime.RuntimeClient, error) {
	if t.runtimeEndpointSet && t.runtimeEndpoint == "" {
		return nil, errors.New("--runtime-endpoint is not set")
	}
	return connect(t, "runtime", t.runtimeEndpoint, t.runtimeEndpointSet, func(e string) (*runtime.RuntimeClient, error) { return runtime.ConnectRuntime(t.p, e, t.timeout) })
}

func (t *tool) images() (*runtime.ImageClient, error) {
	if t.imageEndpoint == "" {
		if t.runtimeEndpointSet && t.runtimeEndpoint == "" {
			return nil, errors.New("--image-endpoint is not set")
		}
		t.imageEndpoint, t.imageEndpointSet = t.runtimeEndpoint, t.runtimeEndpointSet
	}
	return connect(t, "Image", t.imageEndpoint, t.imageEndpointSet, func(e string) (*runtime.ImageClient, error) { return runtime.ConnectImages(t.p, e, t.timeout) })
}

func parseLabels(l []string) (map[string]string, error) {
	m := map[string]string{}
	for _, s := range l {
		k := strings.Split(s, "=")
		if len(k) != 2 {
			return nil, fmt.Errorf("incorrectly specified label: %v", s)
		}
		m[k[0]] = k[1]
	}
	return m, nil
}

func formatUint[N ~uint32 | ~uint64](n N) string { return strconv.FormatUint(uint64(n), 10) }
