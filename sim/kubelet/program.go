package kubelet

import (
	"errors"
	"fmt"
	"io"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"ckadrill/sim/kernel"
)

// Register adds the program "kubelet" to the world.
func Register(w *kernel.World) {
	w.Programs.Register("kubelet", func(p *kernel.Process) int { return Main(p, Seams{API: Connect, CRI: ConnectRuntime}) })
}

// Seams are the two ways out of a kubelet, for tests to put something else there.
type Seams struct {
	API Connector
	CRI RuntimeConnector
}

// Main runs a kubelet in process p until the process is ended or the kubelet fails; it returns the exit code.
func Main(p *kernel.Process, seams Seams) int {
	tame()
	var quiet *hush
	if p.Resumed() {
		quiet = newHush(p)
	}
	err := command(p, seams)
	quiet.end()
	var done finished
	if errors.As(err, &done) {
		return int(done)
	}
	if err != nil {
		logAt(p, "run.go", 72).Error(err, "command failed")
		return 1
	}
	return 0
}

// finished ends a command that has said all there is to say; it is the exit code.
type finished int

func (f finished) Error() string { return fmt.Sprintf("exit %d", int(f)) }

// command is the RunE of upstream's NewKubeletCommand (cmd/kubelet/app/server.go): flags, configuration file, flags again,
// validation, then the kubelet itself. Its errors are upstream's.
func command(p *kernel.Process, seams Seams) error {
	args := p.Argv[1:]
	s, err := parse(p, args)
	if err != nil {
		return err
	}
	tlsOptions, err := initializeTLS(p, s)
	if err != nil {
		return fmt.Errorf("failed to construct kubelet dependencies: %w", err)
	}
	logAt(p, "server.go", 525).Info("Kubelet version", "kubeletVersion", version(p))
	logAt(p, "server.go", 527).Info("Golang settings", "GOGC", p.Getenv("GOGC"), "GOMAXPROCS", p.Getenv("GOMAXPROCS"), "GOTRACEBACK", p.Getenv("GOTRACEBACK"))
	if err := run(p, s, tlsOptions, seams); err != nil {
		return fmt.Errorf("failed to run Kubelet: %w", err)
	}
	return nil
}

// globalFlags are the flags that upstream's libraries add to every component. They set process-wide state of the host
// process (log verbosity, credential paths), which is every simulated process's, so they are accepted without effect.
func globalFlags(fs *pflag.FlagSet) {
	real := pflag.NewFlagSet("", pflag.ContinueOnError)
	real.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.AddGlobalFlags(real)
	real.VisitAll(func(f *pflag.Flag) {
		g := fs.VarPF(cliflag.NoOp{}, f.Name, f.Shorthand, f.Usage)
		g.NoOptDefVal = f.NoOptDefVal
		g.Hidden, g.Deprecated = f.Hidden, f.Deprecated
	})
}

const usage = "Usage:\n  %s\n\nFlags:\n%s"

func printHelp(w io.Writer, fs *pflag.FlagSet) {
	fmt.Fprintf(w, `The kubelet is the primary "node agent" that runs on each
node. It can register the node with the apiserver using one of: the hostname; a flag to
override the hostname; or specific logic for a cloud provider.

`+usage, "kubelet [flags]", fs.FlagUsagesWrapped(2))
}
