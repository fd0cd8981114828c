package systemd

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// searchPath is where unit files are looked for; the first one wins.
var searchPath = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}

// Setting is one assignment of a unit file.
type Setting struct{ Section, Key, Value string }

// Definition is a unit as it was read from its file and drop-ins.
type Definition struct {
	Name     string
	Fragment string // "" when there is no file
	DropIns  []string
	Settings []Setting
	Masked   bool
	// Problems are the lines that systemd complains about in the journal.
	Problems []string
	// Fatal is set when one of them keeps the unit from being started; Broken is why the file could not be read at all.
	Fatal  bool
	Broken string
	// stamp changes when any of the files does.
	Stamp string
}

// read finds and reads a unit. Found is false when there is neither a file nor a mask.
func read(files kernel.Files, name string) (d *Definition, found bool) {
	d = &Definition{Name: name}
	var stamp strings.Builder
	for _, dir := range searchPath {
		f := path.Join(dir, name)
		if target, err := files.Readlink(f); err == nil && target == "/dev/null" {
			d.Fragment, d.Masked = f, true
			return d, true
		}
		b, err := files.ReadFile(f)
		if err != nil {
			continue
		}
		if real, err := files.EvalSymlinks(f); err == nil {
			f = real
		}
		d.Fragment = f
		d.parse(f, b)
		fmt.Fprintf(&stamp, "%s %x ", f, b)
		break
	}
	// drop-ins of all directories are read in the order of their names; of equal names the first directory's counts
	dropins := map[string]string{}
	for _, dir := range searchPath {
		l, err := files.ReadDir(path.Join(dir, name+".d"))
		if err != nil {
			continue
		}
		for _, e := range l {
			if _, ok := dropins[e.Name()]; !ok && strings.HasSuffix(e.Name(), ".conf") {
				dropins[e.Name()] = path.Join(dir, name+".d", e.Name())
			}
		}
	}
	names := make([]string, 0, len(dropins))
	for n := range dropins {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		b, err := files.ReadFile(dropins[n])
		if err != nil {
			continue
		}
		d.DropIns = append(d.DropIns, dropins[n])
		d.parse(dropins[n], b)
		fmt.Fprintf(&stamp, "%s %x ", dropins[n], b)
	}
	d.Stamp = stamp.String()
	return d, d.Fragment != ""
}

func (d *Definition) parse(file string, b []byte) {
	section := ""
	lines := strings.Split(string(b), "\n")
	for n := 0; n < len(lines); n++ {
		start := n + 1
		problem := func(format string, a ...any) {
			d.Problems = append(d.Problems, fmt.Sprintf("%s:%d: ", file, start)+fmt.Sprintf(format, a...))
		}
		l := strings.TrimSpace(lines[n])
		if l == "" || l[0] == '#' || l[0] == ';' {
			continue
		}
		for strings.HasSuffix(l, "\\") && n+1 < len(lines) {
			n++
			next := strings.TrimSpace(lines[n])
			if next != "" && (next[0] == '#' || next[0] == ';') {
				continue
			}
			l = strings.TrimSuffix(l, "\\") + " " + next
		}
		if l[0] == '[' {
			if !strings.HasSuffix(l, "]") {
				problem("Invalid section header '%s'", l)
				d.Broken = "Bad message"
				return
			}
			section = l[1 : len(l)-1]
			if _, ok := knownKeys[section]; !ok && !strings.HasPrefix(section, "X-") {
				problem("Unknown section '%s'. Ignoring.", section)
			}
			continue
		}
		if section == "" {
			problem("Assignment outside of section. Ignoring.")
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			problem("Missing '=', ignoring line.")
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch p, fatal := check(section, key, value); {
		case !known(section, key):
			problem("Unknown key '%s' in section [%s], ignoring.", key, section)
		case p != "":
			problem("%s", p)
			d.Fatal = d.Fatal || fatal
		default:
			d.add(section, key, value)
		}
	}
}

// add takes up a setting: specifiers are replaced, and a line of several commands becomes several.
func (d *Definition) add(section, key, value string) {
	exec := strings.HasPrefix(key, "Exec")
	if exec || key == "Environment" || key == "EnvironmentFile" {
		value = d.specifiers().Replace(value)
	}
	if !exec {
		d.Settings = append(d.Settings, Setting{section, key, value})
		return
	}
	for _, v := range strings.Split(value, " ; ") {
		d.Settings = append(d.Settings, Setting{section, key, strings.TrimSpace(v)})
	}
}

// enumerations are what some settings may be, and how systemd calls them.
var enumerations = map[string]struct{ what, known string }{
	"Type":     {"service type", "simple exec forking oneshot dbus notify notify-reload idle"},
	"Restart":  {"service restart specifier", "no always on-success on-failure on-abnormal on-watchdog on-abort"},
	"KillMode": {"kill mode specification", "control-group process mixed none"},
}

// check says what systemd finds wrong with a value, "" for nothing, and whether the unit can not be started for it.
func check(section, key, value string) (problem string, fatal bool) {
	if section != "Service" || value == "" {
		return "", false
	}
	if e, ok := enumerations[key]; ok && !slices.Contains(strings.Fields(e.known), value) {
		return fmt.Sprintf("Failed to parse %s, ignoring: %s", e.what, value), false
	}
	switch key {
	case "RestartSec":
		if _, err := ParseTimespan(value); err != nil {
			return "Failed to parse sec value, ignoring: " + value, false
		}
	case "TimeoutStopSec", "TimeoutStartSec", "TimeoutSec":
		if _, err := ParseTimespan(value); err != nil {
			return "Failed to parse time value, ignoring: " + value, false
		}
	case "WorkingDirectory":
		if dir := strings.TrimPrefix(value, "-"); dir != "~" && !path.IsAbs(dir) {
			return "WorkingDirectory= path is not absolute: " + dir, true
		}
	}
	if !strings.HasPrefix(key, "Exec") {
		return "", false
	}
	line := strings.TrimLeft(value, "-@:+!")
	ignored := strings.Contains(value[:len(value)-len(line)], "-")
	words, err := split(line)
	switch {
	case err != nil:
		return fmt.Sprintf("Unbalanced quoting, ignoring: \"%s\"", value), !ignored
	case len(words) == 0:
		return "Empty path in command line, ignoring: " + value, !ignored
	case strings.Contains(words[0], "/") && !path.IsAbs(words[0]):
		return "Neither a valid executable name nor an absolute path: " + words[0], !ignored
	}
	return "", false
}

// specifiers replace the % of systemd.unit(5) that are known from the name alone.
func (d *Definition) specifiers() *strings.Replacer {
	prefix := strings.TrimSuffix(d.Name, path.Ext(d.Name))
	return strings.NewReplacer("%%", "%", "%n", d.Name, "%N", prefix, "%p", prefix, "%t", "/run", "%S", "/var/lib", "%C", "/var/cache", "%L", "/var/log", "%h", "/root", "%T", "/tmp")
}

// all returns the values of a list-like key: an empty assignment resets what came before.
func (d *Definition) all(section, key string) []string {
	var l []string
	for _, s := range d.Settings {
		if s.Section != section || s.Key != key {
			continue
		}
		if s.Value == "" {
			l = nil
			continue
		}
		l = append(l, s.Value)
	}
	return l
}

// get returns the last value of a key, or a default.
func (d *Definition) get(section, key, def string) string {
	for i := len(d.Settings) - 1; i >= 0; i-- {
		if s := d.Settings[i]; s.Section == section && s.Key == key {
			if s.Value == "" {
				return def
			}
			return s.Value
		}
	}
	return def
}

// Get is the last value of a key, or def.
func (d *Definition) Get(section, key, def string) string { return d.get(section, key, def) }

// All are the values of a key that holds a list; an empty assignment resets what came before.
func (d *Definition) All(section, key string) []string { return d.all(section, key) }

// words returns the names in all values of a key that holds a list of units.
func (d *Definition) words(section, key string) []string {
	var l []string
	for _, v := range d.all(section, key) {
		l = append(l, strings.Fields(v)...)
	}
	return l
}

// Description is what systemctl shows behind the unit's name.
func (d *Definition) Description() string { return d.get("Unit", "Description", d.Name) }

// Documentation lists the unit's documentation URIs.
func (d *Definition) Documentation() []string { return d.words("Unit", "Documentation") }

// Label is how systemd names the unit in its messages.
func (d *Definition) Label() string {
	if desc := d.Description(); desc != d.Name {
		return d.Name + " - " + desc
	}
	return d.Name
}

// unit file keys that are understood, or accepted because they do not show in a simulation. systemd logs any other.
var knownKeys = map[string][]string{
	"Unit": {"Description", "Documentation", "After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "PartOf", "Conflicts", "ConditionPathExists",
		"ConditionPathIsDirectory", "ConditionFileNotEmpty", "AssertPathExists", "StartLimitIntervalSec", "StartLimitInterval", "StartLimitBurst", "StartLimitAction", "DefaultDependencies", "IgnoreOnIsolate", "OnFailure",
		"AllowIsolate", "RefuseManualStart", "RefuseManualStop", "ConditionVirtualization", "ConditionCapability", "RequiresMountsFor", "StopWhenUnneeded", "SourcePath"},
	"Service": {"Type", "ExecStart", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload", "ExecCondition", "Environment", "EnvironmentFile", "PassEnvironment", "Restart", "RestartSec", "RestartSteps", "RestartMaxDelaySec", "StartLimitInterval", "StartLimitIntervalSec",
		"StartLimitBurst", "TimeoutStartSec", "TimeoutStopSec", "TimeoutSec", "KillMode", "KillSignal", "SendSIGKILL", "User", "Group", "WorkingDirectory", "RemainAfterExit", "PIDFile", "SuccessExitStatus", "RestartPreventExitStatus",
		"LimitNOFILE", "LimitNPROC", "LimitCORE", "LimitMEMLOCK", "TasksMax", "Delegate", "OOMScoreAdjust", "Slice", "Nice", "CPUAccounting", "MemoryAccounting", "IOAccounting", "MemoryMax", "MemoryHigh", "CPUQuota", "CPUWeight", "UMask", "StandardOutput",
		"StandardError", "StandardInput", "SyslogIdentifier", "PrivateTmp", "ProtectSystem", "ProtectHome", "NoNewPrivileges", "CapabilityBoundingSet", "AmbientCapabilities", "RuntimeDirectory", "StateDirectory", "LogsDirectory",
		"RuntimeDirectoryMode", "RuntimeDirectoryPreserve", "IgnoreSIGPIPE", "NotifyAccess", "WatchdogSec", "BusName", "RootDirectory", "ReadOnlyPaths", "BindPaths", "BindReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "DeviceAllow", "DevicePolicy", "Sockets", "GuessMainPID", "OOMPolicy", "SELinuxContext"},
	"Install": {"WantedBy", "RequiredBy", "Alias", "Also", "DefaultInstance"},
	"Socket":  nil, "Timer": nil, "Mount": nil, "Path": nil, "Swap": nil, "Slice": nil,
}

func known(section, key string) bool {
	if strings.HasPrefix(section, "X-") || strings.HasPrefix(key, "X-") {
		return true
	}
	keys, ok := knownKeys[section]
	if !ok {
		return true // systemd complains about the section itself, once; it ignores the key
	}
	return keys == nil || slices.Contains(keys, key)
}

// holds judges a Condition or Assert without its prefix; a "!" before the value asks for the opposite. Those of no file are
// taken to hold.
func holds(files kernel.Files, kind, v string) bool {
	v, not := strings.CutPrefix(strings.TrimPrefix(v, "|"), "!")
	i, err := files.Stat(v)
	ok := false
	switch kind {
	case "PathExists":
		ok = err == nil
	case "PathIsDirectory":
		ok = err == nil && i.IsDir()
	case "FileNotEmpty":
		ok = err == nil && i.Mode().IsRegular() && i.Size() > 0
	case "FileIsExecutable":
		ok = err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0
	case "DirectoryNotEmpty":
		l, err := files.ReadDir(v)
		ok = err == nil && len(l) > 0
	case "PathIsSymbolicLink":
		l, err := files.Lstat(v)
		ok = err == nil && l.Mode()&fs.ModeSymlink != 0
	default:
		return true
	}
	return ok != not
}

// wantLinks lists the symlinks in targets' directories, in all of the search path, that pull a unit in.
func wantLinks(files kernel.Files, name string) []string { return linksBelow(files, searchPath, name) }

// enabledLinks lists those that systemctl enable made.
func enabledLinks(files kernel.Files, name string) []string {
	return linksBelow(files, searchPath[:1], name)
}

func linksBelow(files kernel.Files, below []string, name string) []string {
	var l []string
	for _, top := range below {
		dirs, err := files.ReadDir(top)
		if err != nil {
			continue
		}
		for _, d := range dirs {
			if !d.IsDir() || !strings.HasSuffix(d.Name(), ".wants") && !strings.HasSuffix(d.Name(), ".requires") {
				continue
			}
			link := path.Join(top, d.Name(), name)
			if i, err := files.Lstat(link); err == nil && i.Mode()&fs.ModeSymlink != 0 {
				l = append(l, link)
			}
		}
	}
	return l
}

// bad says why a unit can not be started at all, as systemd logs it; "" when it can.
func (d *Definition) bad() string {
	if d.Masked || d.Fragment == "" || !strings.HasSuffix(d.Name, ".service") {
		return ""
	}
	if d.Fatal {
		return "Unit configuration has fatal error, unit will not be started."
	}
	start, oneshot := len(d.all("Service", "ExecStart")), d.get("Service", "Type", "") == "oneshot"
	switch {
	case start == 0 && len(d.all("Service", "ExecStop")) == 0:
		return "Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing."
	case start == 0 && !oneshot:
		return "Service has no ExecStart= setting, which is only allowed for Type=oneshot services. Refusing."
	case start > 1 && !oneshot:
		return "Service has more than one ExecStart= setting, which is only allowed for Type=oneshot services. Refusing."
	}
	if r := d.get("Service", "Restart", "no"); oneshot && (r == "always" || r == "on-success") {
		return "Service has Restart= set to either always or on-success, which isn't allowed for Type=oneshot services. Refusing."
	}
	return ""
}

// yes reads a boolean.
func yes(v string) bool {
	switch strings.ToLower(v) {
	case "1", "yes", "y", "true", "t", "on":
		return true
	}
	return false
}
