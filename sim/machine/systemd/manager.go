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
	// StartProgram does so with a program that is not looked for in the files.
	Start        func(kernel.Spec) (*kernel.Process, error)
	StartProgram func(kernel.Spec, kernel.Program) (*kernel.Process, error)
	// LookupUser finds a user of the machine.
	LookupUser func(name string) (c kernel.Credential, home string, ok bool)
	// Initialized is called at boot when the system has been set up, before services are started. It may be nil.
	Initialized func()
	// Reboot and PowerOff do that to the machine; they return at once.
	Reboot, PowerOff func()
}

// Manager is a machine's systemd.
type Manager struct {
	cfg   Config
	mu    sync.Mutex
	units map[string]*unit
	init  atomic.Pointer[kernel.Process]
	// booting is set until the default target has been reached.
	booting bool
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

// Exit statuses of systemctl that a manager's error stands for.
const (
	notImplemented = 3
	notFound       = 5
)

// load returns a unit, reading its files unless that was done before. Callers hold mu, and collect the unit when they are
// done with it.
func (m *Manager) load(name string) (*unit, error) {
	if u, ok := m.units[name]; ok {
		return u, u.loadError()
	}
	d, found := read(m.cfg.Files, name)
	if !found {
		return nil, &Error{fmt.Sprintf("Unit %s not found.", name), notFound}
	}
	// an alias is a symlink to the unit's file under another name
	if real := path.Base(d.Fragment); !d.Masked && real != name && Canonical(real) == real {
		return m.load(real)
	}
	u := &unit{name: name, def: d, active: Inactive, sub: "dead", result: success, version: m.cfg.World.Version()}
	m.units[name] = u
	m.complain(d)
	return u, u.loadError()
}

func (u *unit) loadError() error {
	switch {
	case u.def.Masked:
		return &Error{fmt.Sprintf("Unit %s is masked.", u.name), 1}
	case u.def.Fragment == "":
		return &Error{fmt.Sprintf("Unit %s not found.", u.name), notFound}
	case u.def.Broken != "":
		return &Error{fmt.Sprintf("Unit %s failed to load properly, please adjust/correct and reload service manager: %s", u.name, u.def.Broken), 1}
	}
	return nil
}

// complain logs what is wrong with a unit's files.
func (m *Manager) complain(d *Definition) {
	for _, p := range d.Problems {
		m.log(d.Name, journal.Warning, "%s", p)
	}
	if b := d.bad(); b != "" {
		m.log(d.Name, journal.Err, "%s: %s", d.Name, b)
	}
}

// collect forgets a unit that is inactive and that nothing refers to, as systemd does: its files are read anew the next
// time. Callers hold mu.
func (m *Manager) collect(u *unit) {
	if u.active != Inactive || u.starting != nil || u.stopping != nil || u.main != nil || m.units[u.name] != u || m.referenced(u.name) {
		return
	}
	delete(m.units, u.name)
}

// referenced says whether a loaded unit, or a target's directory of links, names a unit.
func (m *Manager) referenced(name string) bool {
	if len(wantLinks(m.cfg.Files, name)) > 0 {
		return true
	}
	for _, n := range m.names() {
		if n == name {
			continue
		}
		for _, k := range []string{"After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "PartOf", "Conflicts", "OnFailure"} {
			if slices.Contains(m.units[n].def.words("Unit", k), name) {
				return true
			}
		}
	}
	return false
}

// log writes a line of systemd itself.
func (m *Manager) log(unit string, priority int, format string, a ...any) {
	m.add(journal.Entry{Unit: unit, Identifier: "systemd", PID: 1, Priority: priority, Message: fmt.Sprintf(format, a...)})
}

// add writes to the journal, unless the machine has gone off under the job that does so.
func (m *Manager) add(e journal.Entry) {
	if p := kernel.Current(); p == nil || p.Alive() {
		m.cfg.Journal.Add(e)
	}
}

// reloadTime is how long systemd takes to read all units again, measured on a lab's machine.
const reloadTime = 140 * time.Millisecond

// Reload reads all loaded units' files again, and loads what is enabled, as systemctl daemon-reload does. client is the
// process that asked for it, nil for a signal.
func (m *Manager) Reload(client *kernel.Process) error {
	return m.run(func() error {
		if client != nil {
			from := fmt.Sprintf("client PID %d ('%s')", client.ID(), client.Name())
			if client.Unit != "" {
				from += " (unit " + client.Unit + ")"
			}
			m.log("", journal.Info, "Reloading requested from %s...", from)
		}
		m.log("", journal.Info, "Reloading...")
		time.Sleep(reloadTime)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, name := range m.names() {
			u := m.units[name]
			d, found := read(m.cfg.Files, name)
			if !found && u.active == Inactive {
				delete(m.units, name)
				continue
			}
			u.def, u.version = d, m.cfg.World.Version()
			m.complain(d)
		}
		m.loadEnabled()
		for _, name := range m.names() {
			if u := m.units[name]; u != nil {
				m.collect(u)
			}
		}
		m.log("", journal.Info, "Reloading finished in %d ms.", reloadTime.Milliseconds())
		return nil
	})
}

// loadEnabled loads what the loaded targets want. Callers hold mu.
func (m *Manager) loadEnabled() {
	for _, name := range m.names() {
		if strings.HasSuffix(name, ".target") {
			for _, n := range m.wanted(name) {
				m.load(n)
			}
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
			if u, err := m.load(n); u != nil {
				m.collect(u)
				continue
			} else if err != nil {
				return &Error{fmt.Sprintf("Failed to reset failed state of unit %s: Unit %s not loaded.", n, n), 1}
			}
		}
		u.starts, u.restarts, u.result = nil, 0, success
		if u.active == Failed {
			u.set(m.cfg.World, Inactive, "dead")
		}
		u.version = m.cfg.World.Version()
		m.collect(u)
	}
	return nil
}

// Reboot and PowerOff ask the machine for it.
func (m *Manager) Reboot()   { m.cfg.Reboot() }
func (m *Manager) PowerOff() { m.cfg.PowerOff() }

// FilesOf is the manager's view of the machine's files, as root.
func (m *Manager) FilesOf() kernel.Files { return m.cfg.Files }

// Notify is sd_notify(3): a service of Type=notify says READY=1 when it serves, and STATUS=... what it does.
func Notify(p *kernel.Process, state string) {
	m := Of(p.Host())
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.units[p.Unit]
	if u == nil {
		return
	}
	for _, l := range strings.Split(state, "\n") {
		k, v, _ := strings.Cut(l, "=")
		switch k {
		case "READY":
			if u.ready != nil && u.active == Activating && u.main == p {
				u.set(m.cfg.World, Active, "running")
				m.log(u.name, journal.Info, "Started %s.", u.def.Label())
				close(u.ready)
				u.ready = nil
			}
		case "STATUS":
			u.text, u.version = v, m.cfg.World.Version()
		}
	}
}
