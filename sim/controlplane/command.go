package controlplane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
)

// command is a component's command line, as its upstream main function makes it: flags in sections, no arguments.
type command struct {
	name, long string
	// silenceUsage keeps a flag error from printing the usage.
	silenceUsage bool
	flags        *cliflag.NamedFlagSets
	registry     basecompatibility.ComponentGlobalsRegistry
	run          func() error
}

// execute parses the process's arguments and runs the command, with the output and exit codes of component-base/cli.Run.
func execute(p *kernel.Process, c command) int {
	cmd := &cobra.Command{Use: c.name, Long: c.long, SilenceErrors: true, SilenceUsage: true}
	started, asked := false, false // asked: for the version
	var version versionFlag
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		started = true
		return setFeatureGates(c.registry)
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if asked = version.print(p); asked {
			return nil
		}
		return c.run()
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		for _, a := range args {
			if len(a) > 0 {
				return fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args)
			}
		}
		return nil
	}
	if !c.silenceUsage {
		cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
			cmd.SilenceUsage = false
			return err
		})
	}
	global := c.flags.FlagSet("global")
	global.Var(&version, "version", "--version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the reported version")
	global.Lookup("version").NoOptDefVal = "true"
	globalflag.AddGlobalFlags(global, c.name, logs.SkipLoggingConfigurationFlags())
	for _, f := range c.flags.FlagSets {
		cmd.Flags().AddFlagSet(f)
	}
	cmd.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	cliflag.SetUsageAndHelpFunc(cmd, *c.flags, 0)
	cmd.SetOut(p.Stderr)
	cmd.SetErr(p.Stderr)
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.SetOut(p.Stdout)
		help(cmd, args)
	})
	cmd.SetArgs(append([]string{}, p.Argv[1:]...))
	err := cmd.Execute()
	switch {
	case err == nil:
		return 0
	case !started:
		p.Errorf("Error: %v\n", err)
	default:
		logLine(p, 'E', "run.go:72", keysAndValues("command failed", "err", err.Error()))
	}
	return 1
}

// versionFlag is upstream's --version, whose value is process-wide there.
type versionFlag struct{ value string }

func (f *versionFlag) String() string { return f.value }
func (f *versionFlag) Type() string   { return "version" }
func (f *versionFlag) IsBoolFlag() bool {
	return true
}

// Set implements pflag.Value.
func (f *versionFlag) Set(s string) error {
	if s == "raw" {
		f.value = s
		return nil
	}
	if strings.HasPrefix(s, "v") {
		return errors.New("ckadrill does not simulate --version=vX.Y.Z yet")
	}
	b, err := strconv.ParseBool(s)
	if err == nil {
		f.value = strconv.FormatBool(b)
	}
	return err
}

// print prints the version if it was asked for.
func (f *versionFlag) print(p *kernel.Process) bool {
	switch f.value {
	case "raw":
		p.Printf("%#v\n", versionInfo(p))
	case "true":
		p.Printf("Kubernetes %s\n", versionOf(p))
	default:
		return false
	}
	return true
}
