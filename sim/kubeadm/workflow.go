package kubeadm

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
)

// run is what a phase does, as upstream's.
type run = func(workflow.RunData) error

// stage makes of upstream's function of a phase what the phase does here.
type stage func(c *command, upstream run) run

// flow is one of kubeadm's workflows: "init", "join", "reset", "upgrade apply", "upgrade node".
type flow struct {
	// phases are upstream's, in its order.
	phases func() []workflow.Phase
	// stages says what each phase that does something does here, by the phase's path ("certs/ca"), or by that of a phase it
	// belongs to. A phase without a stage is not simulated.
	stages map[string]stage
	// data reads flags and files into what the phases share, and returns the phases that a configuration file skips.
	data func(c *command, cmd *cobra.Command, args []string) (data workflow.RunData, skip []string, err error)
	// begin and end are what the command does around the phases when it runs all of them.
	begin, end func(c *command, data workflow.RunData) error
}

// flows are the workflows by the full name of their command.
var flows = map[string]*flow{}

// flowOf finds the workflow that a command runs, and the path of the one phase that it runs of it, "" for all.
func flowOf(cmd *cobra.Command) (f *flow, phase string) {
	name, phase, _ := strings.Cut(cmd.CommandPath(), " phase ")
	return flows[name], strings.ReplaceAll(phase, " ", "/")
}

// runFlow runs the workflow of a command, or a part of it.
func (c *command) runFlow(f *flow, phase string, cmd *cobra.Command, args []string) error {
	r := workflow.NewRunner()
	for _, p := range f.phases() {
		r.AppendPhase(c.staged(f, p, "", phase))
	}
	data, skip, err := f.data(c, cmd, args)
	if err != nil {
		return err
	}
	if flag := cmd.Flags().Lookup("skip-phases"); flag != nil {
		if given, err := cmd.Flags().GetStringSlice(flag.Name); err == nil && len(given) > 0 {
			skip = given
		}
	}
	r.Options.SkipPhases = skip
	if phase != "" {
		r.Options.FilterPhases = []string{strings.TrimSuffix(phase, "/all")}
	}
	r.SetDataInitializer(func(*cobra.Command, []string) (workflow.RunData, error) { return data, nil })
	if f.begin != nil && phase == "" {
		if err := f.begin(c, data); err != nil {
			return err
		}
	}
	if err := r.Run(args); err != nil {
		return err
	}
	if f.end != nil && phase == "" {
		return f.end(c, data)
	}
	return nil
}

// staged is a phase, with those below it, as it runs here.
func (c *command) staged(f *flow, p workflow.Phase, above, wanted string) workflow.Phase {
	name, _, _ := strings.Cut(strings.ToLower(p.Name), " ")
	name = strings.TrimPrefix(above+"/"+name, "/")
	below := make([]workflow.Phase, 0, len(p.Phases))
	for _, q := range p.Phases {
		below = append(below, c.staged(f, q, name, wanted))
	}
	p.Phases = below
	if p.Run != nil {
		if s := f.stage(name); s != nil {
			p.Run = s(c, p.Run)
		} else {
			p.Run = func(workflow.RunData) error {
				return notSimulated(fmt.Sprintf("ckadrill does not simulate the phase `%s` yet", name))
			}
		}
	}
	return p
}

func (f *flow) stage(name string) stage {
	for {
		if s := f.stages[name]; s != nil {
			return s
		}
		i := strings.LastIndex(name, "/")
		if i < 0 {
			return nil
		}
		name = name[:i]
	}
}

// asIs is the stage of a phase whose function uses nothing but its data.
func asIs(_ *command, upstream run) run { return upstream }

// onFiles is the stage of a phase whose function reads and writes files below the directories that its data names.
func onFiles(c *command, upstream run) run {
	return func(d workflow.RunData) error {
		return c.onMirror(d.(interface{ files() []string }).files(), func() error { return upstream(d) })
	}
}

// own is the stage of a phase whose function asks the host too much: f takes its place.
func own[D any](f func(c *command, data D) error) stage {
	return func(c *command, _ run) run {
		return func(d workflow.RunData) error { return f(c, d.(D)) }
	}
}
