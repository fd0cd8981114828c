package systemctl

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
	"ckadrill/sim/machine/systemd"
)

// glyph is the mark before a unit's name, by its state.
func (t *tool) glyph(active string) string {
	switch active {
	case systemd.Inactive:
		return "○"
	case systemd.Failed:
		return t.color(red, "×")
	case systemd.Active:
		return t.color(green, "●")
	}
	return "●"
}

func (t *tool) paint(active, s string) string {
	switch active {
	case systemd.Failed:
		return t.color(red, s)
	case systemd.Active:
		return t.color(green, s)
	}
	return s
}

func (t *tool) status(args []string) int {
	if len(args) == 0 {
		t.systemStatus()
		if !t.all {
			return 0
		}
		args = t.manager.Loaded()
	}
	ret, first, cut := 0, true, false
	var names []string
	for _, a := range args {
		if pid, err := strconv.Atoi(a); err == nil {
			p := t.Host().Processes.Find(pid)
			if p == nil || p.Unit == "" {
				t.Errorf("Failed to get unit for PID %d: PID %d does not belong to any loaded unit.\n", pid, pid)
				ret = 1
				continue
			}
			names = append(names, p.Unit)
			continue
		}
		names = append(names, t.names([]string{a})...)
	}
	for _, n := range names {
		s := t.manager.Status(n)
		if s.LoadState == "not-found" && s.Active == systemd.Inactive {
			t.Errorf("Unit %s could not be found.\n", n)
			if ret == 0 {
				ret = statusUnknown
			}
			continue
		}
		if !first {
			t.printf("\n")
		}
		first = false
		cut = t.statusOf(s) || cut
		if s.Active != systemd.Active && ret == 0 {
			ret = statusNotRunning
		}
	}
	if cut && !t.quiet {
		t.printf("Hint: Some lines were ellipsized, use -l to show in full.\n")
	}
	return ret
}

// statusOf prints one unit, in the order of systemd's print_status_info; it says whether a line was cut.
func (t *tool) statusOf(s systemd.Status) (cut bool) {
	d := s.Definition
	t.printf("%s %s", t.glyph(s.Active), s.Name)
	if desc := d.Description(); desc != s.Name {
		t.printf(" - %s", desc)
	}
	t.printf("\n")
	t.loaded(s)
	t.dropIns(d.DropIns)
	t.printf("     Active: %s", t.paint(s.Active, s.Active+map[bool]string{true: " (" + s.Sub + ")"}[s.Sub != s.Active]))
	if s.Result != "" && s.Result != "success" {
		t.printf(" (Result: %s)", s.Result)
	}
	if at := s.Since(); !at.IsZero() {
		t.printf(" since %s; %s", systemd.FormatTimestamp(at), systemd.FormatRelative(now(), at))
	}
	t.printf("\n")
	if s.Active != systemd.Active && s.ActiveExit.After(s.ActiveEnter) && !s.ActiveEnter.IsZero() {
		t.printf("   Duration: %s\n", systemd.FormatTimespan(s.ActiveExit.Sub(s.ActiveEnter), time.Millisecond))
	}
	if c := s.Condition; c.Key != "" {
		kind := "  Condition: start " + t.color(yellow, "condition unmet")
		if strings.HasPrefix(c.Key, "Assert") {
			kind = "     Assert: start " + t.color(red, "assertion failed")
		}
		t.printf("%s at %s; %s\n", kind, systemd.FormatTimestamp(c.At), systemd.FormatRelative(now(), c.At))
		t.printf("             └─ %s=%s was not met\n", c.Key, c.Value)
	}
	for i, doc := range d.Documentation() {
		t.printf("   %9s %s\n", map[bool]string{true: "Docs:"}[i == 0], doc)
	}
	for _, x := range s.Control {
		t.printf("    Process: %d %s=%s %s\n", x.PID, x.Kind, x.Line, t.ended(x.Status))
	}
	starts := d.All("Service", "ExecStart")
	if s.MainPID != 0 {
		if !s.Running && !s.MainExit.IsZero() && len(starts) > 0 {
			t.printf("    Process: %d ExecStart=%s %s\n", s.MainPID, strings.TrimLeft(starts[0], "-@:+!"), t.ended(s.ExitStatus))
		}
		t.printf("   Main PID: %d", s.MainPID)
		if s.Running {
			t.printf(" (%s)", s.MainProgram)
		} else if !s.MainExit.IsZero() {
			t.printf(" %s", ended(s.ExitStatus))
		}
		t.printf("\n")
	}
	if s.Text != "" {
		t.printf("     Status: \"%s\"\n", s.Text)
	}
	if len(s.Processes) > 0 {
		t.printf("      Tasks: %d (limit: %d)\n", len(s.Processes), t.tasksMax())
		t.printf("     Memory: %s (peak: %s)\n", formatBytes(s.Memory), formatBytes(s.MemoryPeak))
	}
	if s.CPU > 0 {
		t.printf("        CPU: %s\n", systemd.FormatTimespan(s.CPU, time.Millisecond))
	}
	if len(s.Processes) > 0 {
		t.printf("     CGroup: /%s/%s\n", d.Get("Service", "Slice", "system.slice"), s.Name)
		cut = t.cgroup(s.Processes, "             ") || cut
	}
	cut = t.journal(s) || cut
	if s.NeedReload {
		if t.onTerminal() && !t.paged() {
			t.Out.Write(t.out.Bytes())
			t.out.Reset()
		}
		t.warnChanged(s.Name)
	}
	return cut
}

func (t *tool) loaded(s systemd.Status) {
	state := s.LoadState
	if state == "not-found" || state == "bad-setting" || state == "error" {
		state = t.color(red, state)
	}
	switch {
	case s.LoadError != "":
		t.printf("     Loaded: %s (Reason: %s)\n", state, s.LoadError)
	case s.FileState == "":
		t.printf("     Loaded: %s (%s)\n", state, s.Definition.Fragment)
	default:
		preset := ""
		if s.FileState == "enabled" || s.FileState == "disabled" {
			preset = "; preset: " + t.color(green, "enabled") // Ubuntu's presets enable everything
		}
		t.printf("     Loaded: %s (%s; %s%s)\n", state, s.Definition.Fragment, t.fileStateColor(s.FileState), preset)
	}
}

func (t *tool) fileStateColor(state string) string {
	switch state {
	case "enabled", "alias":
		return t.color(green, state)
	case "disabled":
		return t.color(yellow, state)
	}
	return state
}

func (t *tool) dropIns(files []string) {
	for i, f := range files {
		dir := path.Dir(f)
		if i == 0 || path.Dir(files[i-1]) != dir {
			t.printf("%s%s\n             └─", map[bool]string{true: "    Drop-In: ", false: "             "}[i == 0], dir)
		}
		t.printf("%s", path.Base(f))
		if i+1 < len(files) && path.Dir(files[i+1]) == dir {
			t.printf(", ")
		} else {
			t.printf("\n")
		}
	}
}

// ended is "(code=exited, status=1/FAILURE)"; for a signal systemctl names it.
func ended(st kernel.Status) string {
	code, status := systemd.DescribeStatus(st)
	if st.Signal != 0 {
		return fmt.Sprintf("(code=%s, signal=%s)", code, strings.TrimPrefix(st.Signal.String(), "SIG"))
	}
	return fmt.Sprintf("(code=%s, status=%s)", code, strings.TrimSuffix(status, "/n/a"))
}

func (t *tool) ended(st kernel.Status) string {
	if st == (kernel.Status{}) {
		return ended(st)
	}
	return t.color(red, ended(st))
}

// tasksMax is DefaultTasksMax=, 15 % of the kernel's limit.
func (t *tool) tasksMax() int {
	v, _ := t.machine.Sysctl().Get("kernel.threads-max")
	n, _ := strconv.Atoi(v)
	return n * 15 / 100
}

// formatBytes writes a size as "36.4M".
func formatBytes(n int64) string {
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}} {
		if n >= u.factor {
			return fmt.Sprintf("%d.%d%s", n/u.factor, n%u.factor*10/u.factor, u.suffix)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// cgroup prints a tree of processes.
func (t *tool) cgroup(l []*kernel.Process, prefix string) (cut bool) {
	width := 0
	for _, p := range l {
		width = max(width, len(strconv.Itoa(p.ID())))
	}
	for i, p := range l {
		branch := "├─"
		if i == len(l)-1 {
			branch = "└─"
		}
		line := fmt.Sprintf("%s%s%*d %s", prefix, branch, width, p.ID(), strings.Join(p.CommandLine(), " "))
		line, c := t.ellipsize(line)
		cut = cut || c
		t.printf("%s\n", line)
	}
	return cut
}

// ellipsize cuts a line to the terminal's width.
func (t *tool) ellipsize(line string) (string, bool) {
	w := t.columns()
	if w <= 0 || utf8.RuneCountInString(line) <= w {
		return line, false
	}
	return string([]rune(line)[:w-1]) + "…", true
}

// journal prints the latest lines of a unit since it was last started.
func (t *tool) journal(s systemd.Status) (cut bool) {
	if t.lines == 0 {
		return false
	}
	if !t.readsJournal() {
		t.Errorf("Warning: some journal files were not opened due to insufficient permissions.\n")
		return false
	}
	boot := strings.ReplaceAll(t.machine.BootID(), "-", "")
	var l []journal.Entry
	for _, e := range t.machine.Journal().After(0) {
		if e.Unit == s.Name && e.Boot == boot && !e.Time.Before(s.InactiveExit) {
			l = append(l, e)
		}
	}
	if len(l) > t.lines {
		l = l[len(l)-t.lines:]
	}
	if len(l) > 0 {
		t.printf("\n")
	}
	for _, e := range l {
		text := e.Format(t.output, t.HostName())
		line, c := text, false
		if t.output != "cat" && !strings.HasPrefix(t.output, "json") {
			line, c = t.ellipsize(text)
		}
		cut = cut || c
		switch {
		case e.Priority <= journal.Err:
			line = t.color("0;1;31", line)
		case e.Priority == journal.Warning:
			line = t.color("0;1;38:5;185", line)
		case e.Priority == journal.Notice:
			line = t.color("0;1;39", line)
		}
		t.printf("%s\n", line)
	}
	return cut
}

// readsJournal says whether the user may read the system's journal: root, and members of adm and systemd-journal.
func (t *tool) readsJournal() bool { return t.machine.ReadsJournal(t.Cred) }

// systemStatus prints the whole system.
func (t *tool) systemStatus() {
	state, failed := t.systemState(), 0
	for _, n := range t.manager.Loaded() {
		if t.manager.Status(n).Active == systemd.Failed {
			failed++
		}
	}
	c := map[string]string{"degraded": red, "running": green}[state]
	if c == "" {
		c = yellow
	}
	boot := t.machine.BootedAt()
	t.printf("%s %s\n    State: %s\n    Units: %d loaded (incl. loaded aliases)\n     Jobs: 0 queued\n   Failed: %d units\n    Since: %s; %s\n  systemd: 255.4-1ubuntu8.11\n   CGroup: /\n",
		t.color(c, "●"), t.HostName(), t.color(c, state), len(t.manager.Loaded()), failed, systemd.FormatTimestamp(boot), systemd.FormatRelative(now(), boot))
	bySlice := map[string][]*kernel.Process{}
	var units []string
	for _, p := range t.Host().Processes.List() {
		unit := p.Unit
		switch {
		case p.ID() == 1:
			unit = "init.scope"
		case p.Container != "" || unit == "":
			continue
		}
		if bySlice[unit] == nil {
			units = append(units, unit)
		}
		bySlice[unit] = append(bySlice[unit], p)
	}
	var services []string
	for _, u := range units {
		if u == "init.scope" {
			t.printf("           ├─init.scope\n")
			t.cgroup(bySlice[u], "           │ ")
			continue
		}
		services = append(services, u)
	}
	t.printf("           └─system.slice\n")
	for i, u := range services {
		branch, below := "├─", "│ "
		if i == len(services)-1 {
			branch, below = "└─", "  "
		}
		t.printf("             %s%s\n", branch, u)
		t.cgroup(bySlice[u], "             "+below)
	}
}
