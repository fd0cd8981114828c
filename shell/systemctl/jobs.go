package systemctl

import (
	"errors"
	"fmt"
	"strings"

	"ckadrill/sim/machine/systemd"
)

// job makes the verbs that ask the manager for a job.
func job(kind string) func(*tool, []string) int {
	return func(t *tool, args []string) int { return t.jobs(kind, t.names(args)) }
}

func (t *tool) jobs(kind string, names []string) int {
	ret := 0
	var wait []func() error
	for _, n := range names {
		before := t.manager.Status(n)
		if t.denied() {
			t.Errorf("Failed to %s %s: %s\nSee system logs and 'systemctl status %s' for details.\n", kind, n, authenticate, n)
			ret = 1
			continue
		}
		do, ok := t.action(kind, n, before)
		if !ok {
			continue
		}
		if before.LoadState != "not-found" && before.NeedReload {
			t.warnChanged(before.Name)
		}
		wait = append(wait, func() error { return t.refine(kind, n, do()) })
	}
	if t.noBlock {
		for _, f := range wait {
			t.detach(f)
		}
		return ret
	}
	// the jobs of one command run side by side
	results := make([]chan error, len(wait))
	for i, f := range wait {
		results[i] = make(chan error, 1)
		go func() { results[i] <- f() }()
	}
	for _, c := range results {
		if err := <-c; err != nil {
			if code := t.say(err); ret == 0 {
				ret = code
			}
		}
	}
	return ret
}

// detach leaves a job to the manager.
func (t *tool) detach(f func() error) {
	if init := t.Host().Processes.Find(1); init != nil {
		init.Go(func() { f() })
	}
}

// action chooses what a verb means for a unit in its state; ok is false when there is nothing to do.
func (t *tool) action(kind, name string, s systemd.Status) (do func() error, ok bool) {
	m := t.manager
	up := s.Active == systemd.Active || s.Active == systemd.Activating
	reloads := len(s.Definition.All("Service", "ExecReload")) > 0
	switch kind {
	case "start":
		return func() error { return m.Start(name) }, true
	case "stop":
		return func() error { return m.Stop(name) }, true
	case "reload":
		return func() error { return m.ReloadUnit(name) }, true
	case "try-restart", "try-reload-or-restart":
		if !up {
			return nil, s.LoadState == "not-found"
		}
	}
	if strings.Contains(kind, "reload") && reloads && s.Active == systemd.Active {
		return func() error { return m.ReloadUnit(name) }, true
	}
	return func() error { return m.Restart(name) }, true
}

// refine puts what systemctl says about a refused job before the manager's text. A job that ran and failed speaks for itself.
func (t *tool) refine(kind, name string, err error) error {
	var e *systemd.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, own := range []string{"Job for ", "A dependency job", "Warning!", "Assertion failed on job"} {
		if strings.HasPrefix(e.Text, own) {
			return e
		}
	}
	if strings.HasSuffix(e.Text, "cannot reload.") {
		return e
	}
	text := fmt.Sprintf("Failed to %s %s: %s", kind, name, e.Text)
	if !strings.HasSuffix(e.Text, "not found.") && !strings.HasSuffix(e.Text, "not loaded.") && !strings.HasSuffix(e.Text, "is masked.") && !strings.Contains(e.Text, "is not applicable") {
		text += fmt.Sprintf("\nSee system logs and 'systemctl status %s' for details.", name)
	}
	return &systemd.Error{Text: text, Code: e.Code}
}

// warnChanged warns that systemd does not know a unit's files as they are.
func (t *tool) warnChanged(name string) {
	t.Out.Flush()
	t.Errorf("%s The unit file, source configuration file or drop-ins of %s changed on disk. Run 'systemctl daemon-reload' to reload units.\n", t.color(red, "Warning:"), name)
}

func (t *tool) kill(args []string) int {
	ret := 0
	sig, ok := systemd.ParseSignal(t.signal)
	if !ok {
		t.Errorf("Failed to parse signal string %s.\n", t.signal)
		return 1
	}
	for _, n := range t.names(args) {
		if t.denied() {
			t.Errorf("Failed to kill unit %s: %s\n", n, authenticate)
			ret = 1
			continue
		}
		if err := t.manager.Kill(n, t.whom, sig); err != nil {
			t.Errorf("Failed to kill unit %s: %v\n", n, err)
			ret = 1
		}
	}
	return ret
}

func (t *tool) daemonReload([]string) int {
	if t.denied() {
		t.Errorf("Failed to reload daemon: %s\n", authenticate)
		return 1
	}
	return t.reload()
}

func (t *tool) reload() int {
	if t.noReload {
		return 0
	}
	if err := t.manager.Reload(t.Process); err != nil {
		t.Errorf("Failed to reload daemon: %v\n", err)
		return 1
	}
	return 0
}

func (t *tool) resetFailed(args []string) int {
	if t.denied() {
		if len(args) == 0 {
			t.Errorf("Failed to reset failed state: %s\n", authenticate)
		}
		for _, n := range t.names(args) {
			t.Errorf("Failed to reset failed state of unit %s: %s\n", n, authenticate)
		}
		return 1
	}
	if len(args) == 0 {
		t.manager.ResetFailed()
		return 0
	}
	ret := 0
	for _, n := range t.names(args) {
		if err := t.manager.ResetFailed(n); err != nil {
			ret = t.say(err)
		}
	}
	return ret
}
