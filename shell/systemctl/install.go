package systemctl

import (
	"strings"

	"ckadrill/sim/machine/systemd"
)

// install makes the verbs that change links of unit files.
func install(kind string) func(*tool, []string) int {
	return func(t *tool, args []string) int {
		var names []string
		for _, a := range args {
			names = append(names, t.mangle(a))
		}
		if kind == "mask" || kind == "unmask" {
			for _, n := range names {
				if _, found := systemd.Read(t.Files, n); !found {
					t.Errorf("Unit %s does not exist, proceeding anyway.\n", n)
				}
			}
		}
		if t.denied() {
			t.Errorf("Failed to %s unit: %s\n", kind, authenticate)
			return 1
		}
		for _, n := range names {
			if code := t.installOne(kind, n); code != 0 {
				return code
			}
		}
		if code := t.reload(); code != 0 {
			return code
		}
		if !t.now {
			return 0
		}
		return t.jobs(map[string]string{"enable": "start", "unmask": "start", "disable": "stop", "mask": "stop", "reenable": "try-restart"}[kind], names)
	}
}

func (t *tool) installOne(kind, name string) int {
	var said []string
	var err error
	m := t.manager
	switch kind {
	case "enable", "preset":
		said, err = m.Enable(name)
	case "disable":
		said, err = m.Disable(name)
	case "reenable":
		if said, err = m.Disable(name); err == nil {
			var more []string
			more, err = m.Enable(name)
			said = append(said, more...)
		}
	case "mask":
		said, err = m.Mask(name)
	case "unmask":
		said, err = m.Unmask(name)
	}
	if !t.quiet {
		for _, l := range said {
			t.Errorf("%s\n", l)
		}
	}
	if err != nil {
		return t.say(err)
	}
	return 0
}

func (t *tool) isEnabled(args []string) int {
	enabled, found := false, false
	for _, a := range args {
		state := t.manager.FileState(t.mangle(a))
		if state == "" {
			if !t.quiet {
				t.printf("not-found\n")
			}
			continue
		}
		found = true
		switch state {
		case "enabled", "enabled-runtime", "static", "alias", "indirect", "generated":
			enabled = true
		}
		if !t.quiet {
			t.printf("%s\n", state)
		}
	}
	switch {
	case enabled:
		return 0
	case found:
		return 1
	}
	return statusUnknown
}

func (t *tool) isActive(args []string) int {
	return t.check(args, statusNotRunning, systemd.Active)
}

func (t *tool) isFailed(args []string) int {
	if len(args) == 0 {
		state := t.systemState()
		if !t.quiet {
			t.printf("%s\n", state)
		}
		if state == "degraded" {
			return 0
		}
		return 1
	}
	return t.check(args, 1, systemd.Failed)
}

// check prints the states of units; it is a success when one of them is the wanted one.
func (t *tool) check(args []string, code int, good string) int {
	ok, found := false, false
	for _, n := range t.names(args) {
		s := t.manager.Status(n)
		if !t.quiet {
			t.printf("%s\n", s.Active)
		}
		ok = ok || s.Active == good
		found = found || s.LoadState != "not-found"
	}
	switch {
	case ok:
		return 0
	case !found:
		return statusUnknown
	}
	return code
}

// systemState is what is-system-running prints.
func (t *tool) systemState() string {
	if t.manager.Booting() {
		return "starting"
	}
	for _, n := range t.manager.Loaded() {
		if t.manager.Status(n).Active == systemd.Failed {
			return "degraded"
		}
	}
	return "running"
}

func (t *tool) isSystemRunning([]string) int {
	state := t.systemState()
	if !t.quiet {
		t.printf("%s\n", state)
	}
	if state == "running" {
		return 0
	}
	return 1
}

func (t *tool) getDefault([]string) int {
	t.printf("%s\n", t.manager.DefaultTarget())
	return 0
}

func (t *tool) setDefault(args []string) int {
	if t.denied() {
		t.Errorf("Failed to set default target: %s\n", authenticate)
		return 1
	}
	name := args[0]
	if !strings.HasSuffix(name, ".target") {
		name += ".target"
	}
	said, err := t.manager.SetDefault(name)
	for _, l := range said {
		t.Errorf("%s\n", l)
	}
	if err != nil {
		return t.say(err)
	}
	return t.reload()
}

func (t *tool) showEnvironment([]string) int {
	t.printf("LANG=C.UTF-8\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/snap/bin\n")
	return 0
}
