package systemctl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/machine/systemd"
)

// property is one line of systemctl show.
type property struct{ name, value string }

func (t *tool) show(args []string) int {
	if len(args) == 0 {
		t.printProperties([]property{{"Version", "255.4-1ubuntu8.11"}, {"Virtualization", "kvm"}, {"Architecture", "x86-64"}, {"UserspaceTimestamp", systemd.FormatTimestamp(t.machine.BootedAt())},
			{"NNames", fmt.Sprint(len(t.manager.Loaded()))}, {"NJobs", "0"}, {"SystemState", t.systemState()}, {"DefaultTimeoutStartUSec", "1min 30s"}, {"DefaultTimeoutStopUSec", "1min 30s"},
			{"DefaultRestartUSec", "100ms"}, {"DefaultStartLimitIntervalUSec", "10s"}, {"DefaultStartLimitBurst", "5"}})
		return 0
	}
	for i, n := range t.names(args) {
		if i > 0 {
			t.printf("\n")
		}
		t.printProperties(t.unitProperties(t.manager.Status(n)))
	}
	return 0
}

func (t *tool) printProperties(l []property) {
	print := func(p property) {
		if t.value {
			t.printf("%s\n", p.value)
		} else {
			t.printf("%s=%s\n", p.name, p.value)
		}
	}
	if len(t.properties) > 0 { // in the manager's order, not in that of the command line
		for _, p := range l {
			if slices.Contains(t.properties, p.name) {
				print(p)
			}
		}
		return
	}
	for _, p := range l {
		if p.value != "" || t.all {
			print(p)
		}
	}
}

// unitProperties are the properties that programs and people ask for, in systemd's names.
func (t *tool) unitProperties(s systemd.Status) []property {
	d := s.Definition
	var l []property
	add := func(name, value string) { l = append(l, property{name, value}) }
	yesNo := func(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
	stamp := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return systemd.FormatTimestamp(at)
	}
	span := func(key, def string) string {
		v, err := systemd.ParseTimespan(d.Get("Service", key, def))
		if err != nil {
			return def
		}
		return systemd.FormatTimespan(v, time.Microsecond)
	}
	if strings.HasSuffix(s.Name, ".service") {
		pid := s.MainPID
		if !s.Running {
			pid = 0
		}
		code := "0"
		if !s.MainExit.IsZero() && !s.Running {
			code = map[bool]string{true: "2", false: "1"}[s.ExitStatus.Signal != 0]
		}
		exit := s.ExitStatus.Code
		if s.ExitStatus.Signal != 0 {
			exit = int(s.ExitStatus.Signal)
		}
		add("Type", d.Get("Service", "Type", "simple"))
		add("Restart", d.Get("Service", "Restart", "no"))
		add("NotifyAccess", d.Get("Service", "NotifyAccess", map[bool]string{true: "main", false: "none"}[d.Get("Service", "Type", "") == "notify"]))
		add("RestartUSec", span("RestartSec", "100ms"))
		add("TimeoutStartUSec", span("TimeoutStartSec", "1min 30s"))
		add("TimeoutStopUSec", span("TimeoutStopSec", "1min 30s"))
		add("RemainAfterExit", d.Get("Service", "RemainAfterExit", "no"))
		add("MainPID", fmt.Sprint(pid))
		add("Result", s.Result)
		add("StatusText", s.Text)
		add("NRestarts", fmt.Sprint(s.Restarts))
		add("ExecMainStartTimestamp", stamp(s.MainStart))
		add("ExecMainExitTimestamp", stamp(s.MainExit))
		add("ExecMainPID", fmt.Sprint(s.MainPID))
		add("ExecMainCode", code)
		add("ExecMainStatus", fmt.Sprint(exit))
		for _, kind := range []string{"ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost"} {
			for _, line := range d.All("Service", kind) {
				ignore := strings.HasPrefix(line, "-")
				line = strings.TrimLeft(line, "-@:+!")
				file, _, _ := strings.Cut(line, " ")
				start, stop, p := "[n/a]", "[n/a]", 0
				if kind == "ExecStart" && !s.MainStart.IsZero() {
					start, p = "["+systemd.FormatTimestamp(s.MainStart)+"]", s.MainPID
					if !s.MainExit.IsZero() && !s.Running {
						stop = "[" + systemd.FormatTimestamp(s.MainExit) + "]"
					}
				}
				c, st := "(null)", "0/0"
				if stop != "[n/a]" {
					c, st = systemd.DescribeStatus(s.ExitStatus)
				}
				add(kind, fmt.Sprintf("{ path=%s ; argv[]=%s ; ignore_errors=%s ; start_time=%s ; stop_time=%s ; pid=%d ; code=%s ; status=%s }", file, line, yesNo(ignore), start, stop, p, c, st))
			}
		}
		add("Slice", d.Get("Service", "Slice", "system.slice"))
		group := ""
		if len(s.Processes) > 0 {
			group = "/" + d.Get("Service", "Slice", "system.slice") + "/" + s.Name
		}
		add("ControlGroup", group)
		memory, tasks := "[not set]", "[not set]"
		if len(s.Processes) > 0 {
			memory, tasks = fmt.Sprint(s.Memory), fmt.Sprint(len(s.Processes))
		}
		add("MemoryCurrent", memory)
		add("CPUUsageNSec", fmt.Sprint(s.CPU.Nanoseconds()))
		add("TasksCurrent", tasks)
		add("TasksMax", fmt.Sprint(t.tasksMax()))
		add("Delegate", d.Get("Service", "Delegate", "no"))
		add("Environment", strings.Join(d.All("Service", "Environment"), " "))
		for _, f := range d.All("Service", "EnvironmentFile") {
			name, optional := strings.CutPrefix(f, "-")
			add("EnvironmentFiles", fmt.Sprintf("%s (ignore_errors=%s)", name, yesNo(optional)))
		}
		add("LimitNOFILE", d.Get("Service", "LimitNOFILE", "524288"))
		add("WorkingDirectory", d.Get("Service", "WorkingDirectory", ""))
		add("User", d.Get("Service", "User", ""))
		add("KillMode", d.Get("Service", "KillMode", "control-group"))
		add("OOMScoreAdjust", d.Get("Service", "OOMScoreAdjust", "0"))
	}
	add("Id", s.Name)
	add("Names", s.Name)
	for _, k := range []string{"Requires", "Wants", "BindsTo", "PartOf", "Conflicts", "Before", "After"} {
		add(k, strings.Join(d.All("Unit", k), " "))
	}
	add("WantedBy", strings.Join(t.wantedBy(s.Name), " "))
	add("Documentation", strings.Join(d.Documentation(), " "))
	add("Description", d.Description())
	add("LoadState", s.LoadState)
	add("ActiveState", s.Active)
	add("FreezerState", "running")
	add("SubState", s.Sub)
	add("FragmentPath", d.Fragment)
	add("DropInPaths", strings.Join(d.DropIns, " "))
	add("UnitFileState", s.FileState)
	add("UnitFilePreset", map[bool]string{true: "enabled"}[s.FileState != ""])
	add("InactiveExitTimestamp", stamp(s.InactiveExit))
	add("ActiveEnterTimestamp", stamp(s.ActiveEnter))
	add("ActiveExitTimestamp", stamp(s.ActiveExit))
	add("InactiveEnterTimestamp", stamp(s.InactiveEnter))
	add("CanStart", yesNo(s.LoadState == "loaded"))
	add("CanStop", "yes")
	add("CanReload", yesNo(len(d.All("Service", "ExecReload")) > 0))
	add("NeedDaemonReload", yesNo(s.NeedReload))
	add("ConditionResult", yesNo(s.Condition.Key == "" && !s.InactiveExit.IsZero()))
	if s.LoadError != "" {
		add("LoadError", "org.freedesktop.systemd1.NoSuchUnit \""+s.LoadError+"\"")
	}
	add("StartLimitIntervalUSec", d.Get("Unit", "StartLimitIntervalSec", d.Get("Service", "StartLimitInterval", "10s")))
	add("StartLimitBurst", d.Get("Unit", "StartLimitBurst", "5"))
	add("InvocationID", s.Invocation)
	return l
}

// wantedBy lists the targets whose links lead to a unit.
func (t *tool) wantedBy(name string) []string {
	var l []string
	for _, n := range t.manager.Files() {
		if strings.HasSuffix(n, ".target") && slices.Contains(t.manager.Dependencies(n), name) {
			l = append(l, n)
		}
	}
	return l
}
