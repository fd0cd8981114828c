package transcript

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"time"

	"ckadrill/shell/terminal"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// Result is how a recording went.
type Result struct {
	Recording *Recording
	// Seed is what the world was made with.
	Seed  uint64
	Steps []Outcome
	// Exceptions is how many were used; Unneeded are those that were not.
	Exceptions int
	Unneeded   []error
	// Err is set when the recording could not be played to its end.
	Err  error
	Took time.Duration
}

// Outcome is how one step went.
type Outcome struct {
	Step *Step
	// Hidden are the steps that were found to have been hidden before it.
	Hidden  []string
	Printed string
	// Diff is empty when the step is equal.
	Diff string
}

// Equal says whether everything was as recorded.
func (r *Result) Equal() bool {
	if r.Err != nil || len(r.Unneeded) > 0 {
		return false
	}
	for _, o := range r.Steps {
		if o.Diff != "" {
			return false
		}
	}
	return true
}

// Differing counts the steps that are not equal.
func (r *Result) Differing() int {
	n := 0
	for _, o := range r.Steps {
		if o.Diff != "" {
			n++
		}
	}
	return n
}

// Bounds of playing.
const (
	stepTimeout  = time.Hour       // of simulated time
	stepPatience = 5 * time.Minute // of the host's
	stepOutput   = MaxSize         // bytes
)

// typing is the simulated time between two commands: about what a real kubectl takes to start.
const typing = 100 * time.Millisecond

// pauses are steps that only let time pass.
var pauses = regexp.MustCompile(`^sleep [\d.]+$`)

// Names of the shells: the recording's own, and the one of what the recorder did behind the scenes.
const (
	recorded = "recorded"
	recorder = "recorder"
)

// Machine is where a recording was made; see the truth's own description.
func (r *Recording) Machine() string {
	switch {
	case r.Area == "troubleshooting" && regexp.MustCompile(`^(kubelet|containerd|cni)-`).MatchString(r.Name):
		return "cka-w1"
	case r.Area == "troubleshooting" && strings.HasPrefix(r.Name, "node-notready-"):
		return "cka-w2"
	}
	return "cka-cp1"
}

const controlPlane = "cka-cp1"

// performance is a recording that is being played.
type performance struct {
	recording *Recording
	machine   string
	play      *front.Play
	bindings  []binding
	index     int // of the step
	thaw      bool
}

// Play plays a recording on a fresh cluster. The seed of its exceptions, if it has one, takes the place of the boot's. With
// thaw the world is frozen after each command and goes on in a new worker.
func Play(boot wire.Boot, r *Recording, exceptions Exceptions, thaw bool) *Result {
	began := time.Now()
	res := &Result{Recording: r}
	if exceptions.Seed != 0 {
		boot.Seed = exceptions.Seed
		res.Exceptions++
	}
	res.Seed = boot.Seed
	p := &performance{recording: r, machine: r.Machine(), bindings: bindings(r.Steps), play: &front.Play{Boot: boot}, thaw: thaw}
	defer func() { p.play.Close() }()
	if res.Err = p.play.Open(); res.Err == nil {
		if res.Err = p.prepare(); res.Err == nil {
			res.Err = p.perform(res, exceptions)
		}
	}
	res.Took = time.Since(began)
	return res
}

func (p *performance) perform(res *Result, exceptions Exceptions) error {
	// before are the states before this step and before the pauses that come just before it, of which from is the first.
	var before []kernel.Parts
	from := 0
	for i := range p.recording.Steps {
		s := &p.recording.Steps[i]
		p.index = i
		if i == 0 || !pauses.MatchString(p.recording.Steps[i-1].Command) {
			before, from = nil, i
		}
		before = append(before, p.play.State())
		printed, err := p.step(s)
		if err != nil {
			return fmt.Errorf("line %d: %w", s.Line, err)
		}
		o := Outcome{Step: s, Printed: printed}
		var unneeded []error
		o.Diff, unneeded = Compare(s, printed, exceptions.At(s.Line))
		if o.Diff != "" {
			for _, h := range hiddenSteps {
				if !h.plausible(p, s, printed) {
					continue
				}
				again, ok, err := p.try(before, from, h, exceptions.At(s.Line))
				if err != nil {
					return fmt.Errorf("line %d: %w", s.Line, err)
				}
				if ok {
					o.Hidden, o.Printed, o.Diff = append(o.Hidden, h.What), again, ""
					_, unneeded = Compare(s, again, exceptions.At(s.Line))
					break
				}
			}
		}
		res.Exceptions += len(exceptions.At(s.Line))
		res.Unneeded = append(res.Unneeded, unneeded...)
		res.Steps = append(res.Steps, o)
	}
	return nil
}

// try plays this step again with a hidden step before it: before the pauses first, if there are any, then right before it.
func (p *performance) try(before []kernel.Parts, from int, h hiddenStep, exceptions []*Exception) (printed string, ok bool, err error) {
	if printed, ok, err = p.retry(before[0], from, h, exceptions); ok || err != nil || len(before) == 1 {
		return printed, ok, err
	}
	return p.retry(before[len(before)-1], p.index, h, exceptions)
}

// retry plays the steps from one to this again, from the state before them, with a hidden step in between. If this one is
// then equal, the play goes on from there.
func (p *performance) retry(before kernel.Parts, from int, h hiddenStep, exceptions []*Exception) (printed string, ok bool, err error) {
	boot := p.play.Boot
	boot.Parts = before
	q := *p
	q.play = &front.Play{Boot: boot}
	if err := q.play.Open(); err != nil {
		return "", false, err
	}
	_, _, err = q.run(recorder, p.machine, kubeConfig+h.Script)
	for q.index = from; err == nil && q.index <= p.index; q.index++ {
		printed, err = q.step(&p.recording.Steps[q.index])
	}
	s := &p.recording.Steps[p.index]
	if diff := ""; err == nil {
		diff, _ = Compare(s, printed, exceptions)
		ok = diff == ""
	}
	if !ok {
		return "", false, q.play.Close()
	}
	old := p.play
	p.play = q.play
	return printed, true, old.Close()
}

// kubeConfig lets the recorder's shell read what the recording's shell is set to.
const kubeConfig = "export KUBECONFIG=/root/.kube/config\n"

// phase is how long after the world's beginning the first command is typed. Much happens once in a second or in ten seconds
// on a node, and what a command meets depends on it.
func (p *performance) phase() time.Duration {
	return time.Duration((p.play.Boot.Seed-1)*phaseStep%10000) * time.Millisecond
}

// phaseStep is how far apart the phases of neighbouring seeds are, in milliseconds.
const phaseStep = 1370

// prepare makes what the recording's shell found.
func (p *performance) prepare() error {
	config, exit, err := p.run(recorder, controlPlane, "cat /etc/kubernetes/admin.conf")
	if err != nil || exit != 0 {
		return fmt.Errorf("the administrator's kubeconfig: %s %v", config, err)
	}
	shell := recorder
	if script := p.recording.clusterScript(); script != "" {
		if out, exit, err := p.run(recorder, controlPlane, "export KUBECONFIG=/etc/kubernetes/admin.conf\n"+script); err != nil || exit != 0 {
			return fmt.Errorf("preparing the cluster: %s %v", out, err)
		}
	}
	if p.machine != controlPlane {
		shell += " on " + p.machine
	}
	script := "mkdir -p /root/.kube\ncat > /root/.kube/config <<'END OF FILE'\n" + config + "END OF FILE\nchmod 600 /root/.kube/config\n" + writeKubeletLog + "\n" + saveFiles + "\n"
	copies := hiddenCopies(p.recording.Steps)
	var names []string
	for n := range copies {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		script += fmt.Sprintf("cp -p %s %s\n", copies[n], n)
	}
	if phase := p.phase(); phase > 0 {
		script += fmt.Sprintf("sleep %.3f\n", phase.Seconds())
	}
	out, exit, err := p.run(shell, p.machine, script)
	if err == nil && exit != 0 {
		err = fmt.Errorf("preparing %s: %s", p.machine, out)
	}
	return err
}

// changes lists the saved files that are not as they were.
func (p *performance) changes() string {
	out, _, err := p.run(recorder+" on "+p.machine, p.machine, changedFiles)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// step plays one step, after the variables that were set before it behind the scenes.
func (p *performance) step(s *Step) (string, error) {
	if strings.Contains(s.Command, kubeletLog) || p.bindsLog() {
		if _, _, err := p.run(recorder+" on "+p.machine, p.machine, writeKubeletLog); err != nil {
			return "", err
		}
	}
	for _, b := range p.bindings {
		if b.Before != p.index {
			continue
		}
		machine := p.machine
		if b.ControlPlane {
			machine = controlPlane
		}
		value, _, err := p.run(recorder+" on "+machine, machine, kubeConfig+b.Script)
		if err != nil {
			return "", err
		}
		value = strings.TrimSpace(value)
		if _, _, err := p.run(recorded, p.machine, b.Name+"="+quote(value)); err != nil {
			return "", err
		}
	}
	if err := p.pause(); err != nil {
		return "", err
	}
	out, exit, err := p.run(recorded, p.machine, s.Command)
	if err != nil {
		return "", err
	}
	if p.thaw {
		p.play.Worker().Close()
		if err := p.play.Revive(); err != nil {
			return "", err
		}
	}
	got := Step{Output: out, Exit: exit}
	return got.Text(), nil
}

func (p *performance) bindsLog() bool {
	for _, b := range p.bindings {
		if b.Before == p.index && strings.Contains(b.Script, kubeletLog) {
			return true
		}
	}
	return false
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (p *performance) pause() error {
	done, err := p.play.Worker().Skip(typing)
	if err != nil {
		return err
	}
	p.play.Keep(done.Delta, done.Date)
	return nil
}

// run runs a script in a shell of root.
func (p *performance) run(shell, machine, script string) (output string, exit int, err error) {
	var b bytes.Buffer
	h := &terminal.Batch{Stdout: &b, Limit: stepOutput}
	w := p.play.Worker()
	h.Stop = w.Kill
	running, err := w.Start(wire.Run{Shell: shell, Script: script, Machine: machine, User: "root", Plain: true, Limit: kernel.Limit{Simulated: stepTimeout, Host: stepPatience}}, h)
	if err != nil {
		return "", 1, err
	}
	done, err := running.Wait()
	if h.Overflowed() {
		return "", 1, fmt.Errorf("the command printed more than %d MiB", stepOutput>>20)
	}
	if err != nil {
		return "", 1, err
	}
	return b.String(), done.Exit, p.play.Step(script, nil, done.Exit, done.Delta, done.Date)
}
