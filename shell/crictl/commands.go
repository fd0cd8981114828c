package crictl

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
)

// commands lists crictl's commands; the library sorts them.
func (t *tool) commands() []*cli.Command {
	return []*cli.Command{
		t.attachCommand(), t.psCommand(), t.podsCommand(), t.imagesCommand(), t.inspectCommand(), t.inspectpCommand(), t.inspectiCommand(), t.logsCommand(), t.execCommand(),
		t.stopCommand(), t.stoppCommand(), t.rmCommand(), t.rmpCommand(), t.rmiCommand(), t.pullCommand(), t.infoCommand(), t.versionCommand(), t.statsCommand(), t.statspCommand(),
		t.configCommand(), t.imagefsinfoCommand(), t.runtimeConfigCommand(), t.startCommand(), t.updateCommand(), t.eventsCommand(),
		t.refused("checkpoint", "Checkpoint one or more running containers", "CONTAINER-ID [CONTAINER-ID...]"),
		t.refused("completion", "Output shell completion code", "SHELL"),
		t.refused("create", "Create a new container", "POD container-config.[json|yaml] pod-config.[json|yaml]"),
		t.refused("metricdescs", "List metric descriptors. Returns information about the metrics available through the CRI.", ""),
		t.refused("metricsp", "List pod metrics. Metrics are unstructured key/value pairs gathered by CRI meant to replace cAdvisor's /metrics/cadvisor endpoint.", ""),
		t.refused("port-forward", "Forward local port to a pod", "POD-ID [LOCAL_PORT:]REMOTE_PORT"),
		t.refused("run", "Run a new container inside a sandbox", "container-config.[json|yaml] pod-config.[json|yaml]"),
		t.refused("runp", "Run a new pod", "pod-config.[json|yaml]"),
		t.refused("update-runtime-config", "Update the runtime configuration", ""),
	}
}

// refused is a command that exists in crictl and not here.
func (t *tool) refused(name, usage, args string) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: args, SkipFlagParsing: true, Action: func(c *cli.Context) error {
		if c.Args().First() == "--help" || c.Args().First() == "-h" {
			return cli.ShowSubcommandHelp(c)
		}
		return fmt.Errorf("ckadrill does not simulate crictl %s yet", name)
	}}
}

func (t *tool) versionCommand() *cli.Command {
	return &cli.Command{Name: "version", Usage: "Display runtime version information", Action: func(c *cli.Context) error {
		if c.NArg() != 0 {
			return cli.ShowSubcommandHelp(c)
		}
		r, err := t.runtime()
		if err != nil {
			return err
		}
		v, err := r.Version(t.ctx, "v1")
		if err != nil {
			return fmt.Errorf("getting the runtime version: %w", err)
		}
		t.println("Version: ", v.Version)
		t.println("RuntimeName: ", v.RuntimeName)
		t.println("RuntimeVersion: ", v.RuntimeVersion)
		t.println("RuntimeApiVersion: ", v.RuntimeApiVersion)
		return nil
	}}
}

func (t *tool) infoCommand() *cli.Command {
	return &cli.Command{Name: "info", Usage: "Display information of the container runtime", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "json", Usage: "Output format, One of: json|yaml|go-template"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "Do not show verbose information"},
			&cli.StringFlag{Name: "template", Usage: "The template string is only used when output is go-template; The Template format is golang template"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 0 {
				return cli.ShowSubcommandHelp(c)
			}
			r, err := t.runtime()
			if err != nil {
				return err
			}
			st, err := r.Status(t.ctx, !c.Bool("quiet"))
			if err != nil {
				return fmt.Errorf("getting status of runtime: %w", err)
			}
			status, err := statusMap(st.Status, nil)
			if err != nil {
				return fmt.Errorf("create status JSON: %w", err)
			}
			return t.outputStatus([]statusData{{status: status, handlers: plainJSON(st.RuntimeHandlers), features: plainJSON(st.Features), info: st.Info}}, c.String("output"), c.String("template"))
		}}
}

func (t *tool) runtimeConfigCommand() *cli.Command {
	return &cli.Command{Name: "runtime-config", Usage: "Retrieve the container runtime configuration", Action: func(c *cli.Context) error {
		if c.NArg() != 0 {
			return cli.ShowSubcommandHelp(c)
		}
		r, err := t.runtime()
		if err != nil {
			return err
		}
		conf, err := r.RuntimeConfig(t.ctx)
		if err != nil {
			return fmt.Errorf("getting runtime configuration: call RuntimeConfig RPC: %w", err)
		}
		return t.outputJSON(conf)
	}}
}

func (t *tool) eventsCommand() *cli.Command {
	return &cli.Command{Name: "events", Aliases: []string{"event"}, Usage: "Stream the events of containers", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "json", Usage: "Output format, One of: json|yaml|go-template"},
			&cli.StringFlag{Name: "template", Usage: "The template string is only used when output is go-template; The Template format is golang template"},
		},
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			events := make(chan *containerEvent, 16)
			failed := make(chan error, 1)
			go func() { failed <- r.GetContainerEvents(t.ctx, events, nil) }()
			for {
				select {
				case e := <-events:
					if c.String("output") == "yaml" {
						err = t.outputYAML(e)
					} else {
						err = t.outputJSON(e)
					}
					if err != nil {
						return err
					}
				case err := <-failed:
					if t.ctx.Err() != nil {
						return nil
					}
					return err
				}
			}
		}}
}

func (t *tool) configCommand() *cli.Command {
	return &cli.Command{Name: "config", Usage: "Get, set and list crictl configuration options", UseShortOptionHandling: true,
		ArgsUsage: `[<crictl options>]

EXAMPLES:
   # Set the key "debug" to "true"
   crictl config --set debug=true

   # Set the key "debug" to "true"
   crictl config debug true

   # Get the value of "debug"
   crictl config --get debug

   # Show the full configuration
   crictl config --list

CRICTL OPTIONS:
	 runtime-endpoint:	Container Runtime Interface (CRI) runtime endpoint (default: "")
	 image-endpoint:	Container Runtime Interface (CRI) image endpoint (default: "")
	 timeout:	Timeout of connecting to server (default: 2)
	 debug:	Enable debug output (default: false)
	 pull-image-on-create:	Enable pulling image on create requests (default: false)
	 disable-pull-on-run:	Disable pulling image on run requests (default: false)`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "get", Usage: "Show the option value"},
			&cli.StringSliceFlag{Name: "set", Usage: "Set option (can specify multiple or separate values with commas: opt1=val1,opt2=val2)"},
			&cli.BoolFlag{Name: "list", Usage: "Show all option value"},
		},
		Action: t.configure}
}

func (t *tool) configure(c *cli.Context) error {
	if _, err := t.p.Files.Stat(t.p.Path(t.configFile)); err != nil {
		if err := t.writeConfig(t.configFile, &config{}); err != nil {
			return err
		}
	}
	conf, err := t.readConfig(t.configFile)
	if err != nil {
		return fmt.Errorf("load config file: %w", err)
	}
	switch {
	case c.IsSet("get"):
		v, ok := conf.values()[c.String("get")]
		if !ok {
			return fmt.Errorf("no configuration option named %s", c.String("get"))
		}
		t.println(v)
		return nil
	case c.IsSet("set"):
		for _, setting := range c.StringSlice("set") {
			key, value, ok := cutOnce(setting)
			if !ok {
				return fmt.Errorf("incorrectly specified option: %v", setting)
			}
			if err := conf.set(key, value); err != nil {
				return err
			}
		}
		return t.writeConfig(t.configFile, conf)
	case c.Bool("list"):
		tab := newTable(t.p.Stdout)
		tab.row("KEY", "VALUE")
		for _, k := range []string{"runtime-endpoint", "image-endpoint", "timeout", "debug", "pull-image-on-create", "disable-pull-on-run"} {
			tab.row(k, conf.values()[k])
		}
		t.clearScreen()
		return tab.w.Flush()
	}
	key, value := c.Args().First(), c.Args().Get(1)
	if key == "" {
		return cli.ShowSubcommandHelp(c)
	}
	t.info("No --get, --set or --list provided, setting key %q to value %q", key, value)
	if err := conf.set(key, value); err != nil {
		return fmt.Errorf("set %q to %q: %w", key, value, err)
	}
	return t.writeConfig(t.configFile, conf)
}

func (t *tool) startCommand() *cli.Command {
	return &cli.Command{Name: "start", Usage: "Start one or more created containers", ArgsUsage: "CONTAINER-ID [CONTAINER-ID...]", Action: func(c *cli.Context) error {
		if c.NArg() == 0 {
			return errors.New("ID cannot be empty")
		}
		r, err := t.runtime()
		if err != nil {
			return err
		}
		for _, id := range c.Args().Slice() {
			if err := r.StartContainer(t.ctx, id); err != nil {
				return fmt.Errorf("starting the container %q: %w", id, err)
			}
			t.println(id)
		}
		return nil
	}}
}
