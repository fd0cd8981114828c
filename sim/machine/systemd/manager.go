package systemd

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
)

// Config is what a manager needs of its machine.
type Config struct {
	World   *kernel.World
	Host    *kernel.Host
	Files   kernel.Files // as root
	Journal *journal.Journal
	// Start starts a process on the machine, see [kernel.Spec]; its error is an *fs.PathError when the file cannot be run.
	Start func(kernel.Spec) (*kernel.Process, error)
	// LookupUser finds a user of the machine.
	LookupUser func(name string) (c kernel.Credential, home string, ok bool)
	// Reboot and PowerOff do that to the machine; they return at once.
	Reboot, PowerOff func()
}

// Manager is a machine's systemd.
type Manager struct {
	cfg   Config
	mu    sync.Mutex
	units map[string]*unit
	init  atomic.Pointer[kernel.Process]
}

type hostKey struct{}

// New makes the manager of a machine and attaches it to the host.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, units: map[string]*unit{}}
	cfg.Host.Attach(hostKey{}, m)
	return m
}

// Of returns the manager of a host, nil if it has none.
func Of(h *kernel.Host) *Manager {
	m, _ := h.Attached(hostKey{}).(*Manager)
	return m
}

// Error is a refusal with systemd's text, such as "Unit foo.service not found.". Code is systemctl's exit status.
type Error struct {
	Text string
	Code int
}

func (e *Error) Error() string { return e.Text }

// States of a unit (ActiveState) as systemctl shows them.
const (
	Active, Inactive, Activating, Deactivating, Failed = "active", "inactive", "activating", "deactivating", "failed"
)

// unit is a loaded unit.
type unit struct {
	name        string
	def         *Definition
	active, sub string
	result      string
	main        *kernel.Process
	mainPID     int
	mainStart   time.Time
	mainExit    time.Time
	status      kernel.Status
	exec        bool // status 203 and the like: systemd's own exit codes
	activeSince time.Time
	changed     time.Time
	restarts    int
	starts      []time.Time
	stopping    bool
	restartAt   time.Time
	abortWait   chan struct{} // closed to call off a pending restart
	ended       chan struct{} // closed when the main process has ended and the state has settled
	ready       chan struct{}
	invocation  string
	version     uint64
}

func (u *unit) set(w *kernel.World, active, sub string) {
	if u.active != active {
		u.changed = time.Now()
		if active == Active {
			u.activeSince = u.changed
		}
	} else if u.sub != sub {
		u.changed = time.Now()
	}
	u.active, u.sub = active, sub
	u.version = w.Version()
}

// Canonical adds ".service" to a name without a unit type.
func Canonical(name string) string {
	for _, s := range []string{".service", ".socket", ".target", ".timer", ".mount", ".path", ".slice", ".device", ".swap", ".scope"} {
		if strings.HasSuffix(name, s) {
			return name
		}
	}
	return name + ".service"
}

// load returns a unit, reading its files unless that was done before. Callers hold mu.
func (m *Manager) load(name string) (*unit, error) {
	if u, ok := m.units[name]; ok {
		if u.def.Masked {
			return u, &Error{fmt.Sprintf("Unit %s is masked.", name), 1}
		}
		return u, nil
	}
	d, found := read(m.cfg.Files, name)
	if !found {
		// an alias is a symlink to the unit's file under another name
		return nil, &Error{fmt.Sprintf("Unit %s not found.", name), 5}
	}
	if real := path.Base(d.Fragment); !d.Masked && real != name && Canonical(real) == real {
		return m.load(real)
	}
	u := &unit{name: name, def: d, active: Inactive, sub: "dead", result: "success", version: m.cfg.World.Version()}
	m.units[name] = u
	for _, p := range d.Problems {
		m.log("", journal.Warning, "%s", p)
	}
	if d.Masked {
		return u, &Error{fmt.Sprintf("Unit %s is masked.", name), 1}
	}
	return u, nil
}

// log writes a line of systemd itself.
func (m *Manager) log(unit string, priority int, format string, a ...any) {
	m.cfg.Journal.Add(journal.Entry{Unit: unit, Identifier: "systemd", PID: 1, Priority: priority, Message: fmt.Sprintf(format, a...)})
}

// Reload reads all loaded units' files again, as systemctl daemon-reload does.
func (m *Manager) Reload() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log("init.scope", journal.Info, "Reloading...")
	for _, name := range m.names() {
		u := m.units[name]
		d, found := read(m.cfg.Files, name)
		if !found && u.active == Inactive {
			delete(m.units, name)
			continue
		}
		u.def, u.version = d, m.cfg.World.Version()
		for _, p := range d.Problems {
			m.log("", journal.Warning, "%s", p)
		}
	}
}

func (m *Manager) names() []string {
	l := make([]string, 0, len(m.units))
	for n := range m.units {
		l = append(l, n)
	}
	slices.Sort(l)
	return l
}

// Status is what is known about a unit.
type Status struct {
	Name                string
	Definition          *Definition
	LoadState           string // loaded, not-found, masked, bad-setting
	Active, Sub, Result string
	FileState           string // enabled, disabled, static, masked, alias, or ""
	MainPID             int
	MainProgram         string
	MainStart, MainExit time.Time
	ExitStatus          kernel.Status
	ActiveSince         time.Time
	Changed             time.Time
	Restarts            int
	NeedReload          bool
	Invocation          string
	// Processes are the unit's processes, by pid.
	Processes []*kernel.Process
}

// Status tells about a unit; one that does not exist has LoadState not-found.
func (m *Manager) Status(name string) Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, loaded := m.units[name]; !loaded {
		defer func() { // systemd keeps no unit that is inactive and that nobody refers to
			if u := m.units[name]; u != nil && u.active == Inactive {
				delete(m.units, name)
			}
		}()
	}
	u, err := m.load(name)
	if u == nil {
		return Status{Name: name, LoadState: "not-found", Active: Inactive, Sub: "dead", Definition: &Definition{Name: name}}
	}
	s := Status{Name: u.name, Definition: u.def, LoadState: "loaded", Active: u.active, Sub: u.sub, Result: u.result, MainPID: u.mainPID, MainStart: u.mainStart, MainExit: u.mainExit,
		ExitStatus: u.status, ActiveSince: u.activeSince, Changed: u.changed, Restarts: u.restarts, Invocation: u.invocation, FileState: m.fileState(u.name)}
	if err != nil {
		s.LoadState = "masked"
	}
	if c, err := m.mainCommand(u.def); err == nil {
		s.MainProgram = path.Base(c.path)
	}
	if d, found := read(m.cfg.Files, u.name); found && d.Stamp != u.def.Stamp || d.Masked != u.def.Masked {
		s.NeedReload = true
	}
	for _, p := range m.cfg.Host.Processes.List() {
		if p.Unit == u.name && p.Container == "" {
			s.Processes = append(s.Processes, p)
		}
	}
	return s
}

func (m *Manager) mainCommand(d *Definition) (command, error) {
	l := d.all("Service", "ExecStart")
	if len(l) == 0 {
		return command{}, fmt.Errorf("no ExecStart")
	}
	return parseCommand(l[0], nil)
}

// Loaded lists the names of the units that are loaded.
func (m *Manager) Loaded() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names()
}

// Files lists the names of all unit files.
func (m *Manager) Files() []string {
	seen := map[string]bool{}
	for _, dir := range searchPath {
		l, err := m.cfg.Files.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range l {
			if !e.IsDir() && Canonical(e.Name()) == e.Name() {
				seen[e.Name()] = true
			}
		}
	}
	l := make([]string, 0, len(seen))
	for n := range seen {
		l = append(l, n)
	}
	slices.Sort(l)
	return l
}

// IsFailed lists the failed units.
func (m *Manager) IsFailed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var l []string
	for _, n := range m.names() {
		if m.units[n].active == Failed {
			l = append(l, n)
		}
	}
	return l
}

// ResetFailed forgets failures and restart counts; no name means all.
func (m *Manager) ResetFailed(names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(names) == 0 {
		names = m.names()
	}
	for _, n := range names {
		u, ok := m.units[n]
		if !ok {
			return &Error{fmt.Sprintf("Failed to reset failed state of unit %s: Unit %s not loaded.", n, n), 1}
		}
		u.starts, u.restarts = nil, 0
		if u.active == Failed {
			u.result = "success"
			u.set(m.cfg.World, Inactive, "dead")
		}
	}
	return nil
}

// Reboot and PowerOff ask the machine for it.
func (m *Manager) Reboot()   { m.cfg.Reboot() }
func (m *Manager) PowerOff() { m.cfg.PowerOff() }

// FilesOf is the manager's view of the machine's files, as root.
func (m *Manager) FilesOf() kernel.Files { return m.cfg.Files }

// Notify is sd_notify(3): a service of Type=notify says READY=1 when it serves.
func Notify(p *kernel.Process, state string) {
	m := Of(p.Host())
	if m == nil || state != "READY=1" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.units[p.Unit]; u != nil && u.ready != nil {
		close(u.ready)
		u.ready = nil
	}
}
