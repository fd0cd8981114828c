package systemd

import (
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// States of a unit (ActiveState) as systemctl shows them.
const (
	Active, Inactive, Activating, Deactivating, Failed = "active", "inactive", "activating", "deactivating", "failed"
)

// What a unit's Result may be (systemd.exec(5), $SERVICE_RESULT).
const (
	success       = "success"
	exitCode      = "exit-code"
	signaled      = "signal"
	timedOut      = "timeout"
	noResources   = "resources"
	startLimitHit = "start-limit-hit"
)

// unit is a loaded unit. Its fields are guarded by the manager's mu.
type unit struct {
	name        string
	def         *Definition
	active, sub string
	result      string
	times       times
	condition   Condition // of the last start, when it was not met

	main      *kernel.Process
	command   execution // what main was started as
	mainPID   int
	mainStart time.Time
	mainExit  time.Time
	status    kernel.Status
	control   []Exec        // finished control processes of the last start
	spent     time.Duration // processor time of processes that have ended, since the last start
	text      string        // STATUS= of sd_notify
	step      int           // commands of the start job that have been run
	// foreground says that the start job waits for main to end.
	foreground bool

	restarts   int
	starts     []time.Time // of the start limit's period
	restartAt  time.Time   // when an automatic restart is due
	invocation string
	peak       int64 // most memory that was seen
	version    uint64

	abortWait chan struct{} // closed to call off a pending restart
	ended     chan struct{} // closed when the main process has ended and the state has settled
	ready     chan struct{} // closed by READY=1
	starting  *job
	stopping  *job
}

// times are when a unit changed between the four kinds of states, as systemctl show's ...Timestamp properties.
type times struct{ ActiveEnter, ActiveExit, InactiveEnter, InactiveExit time.Time }

// Condition is a start condition that was not met.
type Condition struct {
	At         time.Time
	Key, Value string
}

// Exec is a control process that has ended.
type Exec struct {
	Kind        string // ExecStartPre, ExecStart ...
	Line        string // path and arguments, as the unit file has them
	PID         int
	Start, Exit time.Time
	Status      kernel.Status
}

// execution is what the main process was started as; after a thaw it is started as that again, whatever the files say by then.
type execution struct {
	Program string // that the executable held, "" for a script
	Path    string
	Argv    []string
	Env     []string
	Dir     string
	Cred    kernel.Credential
}

// job is a start or stop that others may wait for.
type job struct {
	done chan struct{}
	err  error
}

func (j *job) finish(err error) error {
	j.err = err
	close(j.done)
	return err
}

func dormant(active string) bool { return active == Inactive || active == Failed }

// set changes the state. Callers hold mu.
func (u *unit) set(w *kernel.World, active, sub string) {
	now := time.Now()
	if active == Active && u.active != Active {
		u.times.ActiveEnter = now
	}
	if active != Active && u.active == Active {
		u.times.ActiveExit = now
	}
	if dormant(active) && !dormant(u.active) {
		u.times.InactiveEnter = now
	}
	if !dormant(active) && dormant(u.active) {
		u.times.InactiveExit = now
	}
	u.active, u.sub = active, sub
	u.version = w.Version()
}

// Canonical adds ".service" to a name without a unit type.
func Canonical(name string) string {
	for _, s := range unitTypes {
		if strings.HasSuffix(name, "."+s) {
			return name
		}
	}
	return name + ".service"
}

var unitTypes = []string{"service", "socket", "target", "timer", "mount", "automount", "path", "slice", "device", "swap", "scope"}

// Status is what is known about a unit.
type Status struct {
	Name                string
	Definition          *Definition
	LoadState           string // loaded, not-found, masked, bad-setting
	LoadError           string
	Active, Sub, Result string
	FileState           string // enabled, disabled, static, masked, alias, or ""
	MainPID             int    // 0 when there was none
	Running             bool   // the main process runs
	MainProgram         string // the name of the main process
	MainStart, MainExit time.Time
	ExitStatus          kernel.Status
	Control             []Exec
	Text                string // what the service said about itself
	Condition           Condition
	Restarts            int
	NeedReload          bool
	Invocation          string
	Memory, MemoryPeak  int64         // bytes that the processes hold
	CPU                 time.Duration // that the unit has used since it was started
	// Entered and left states.
	ActiveEnter, ActiveExit, InactiveEnter, InactiveExit time.Time
	// Processes are the unit's processes on the machine itself, by pid.
	Processes []*kernel.Process
}

// Since is when the unit got into the state that it is in, zero if it has always been.
func (s Status) Since() time.Time {
	switch s.Active {
	case Active:
		return s.ActiveEnter
	case Activating:
		return s.InactiveExit
	case Deactivating:
		return s.ActiveExit
	}
	return s.InactiveEnter
}

// What the kernel needs for any process: the time of fork and execve, and its page tables and stack.
const (
	execTime      = 2 * time.Millisecond
	processMemory = 1 << 20
)

// Status tells about a unit; one that does not exist has LoadState not-found.
func (m *Manager) Status(name string) Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.load(name)
	if u == nil {
		return Status{Name: name, LoadState: "not-found", LoadError: err.Error(), Active: Inactive, Sub: "dead", Result: success, Definition: &Definition{Name: name}}
	}
	defer m.collect(u)
	s := Status{Name: u.name, Definition: u.def, LoadState: "loaded", Active: u.active, Sub: u.sub, Result: u.result, MainPID: u.mainPID, MainStart: u.mainStart, MainExit: u.mainExit,
		ExitStatus: u.status, Control: u.control, Text: u.text, Condition: u.condition, Restarts: u.restarts, Invocation: u.invocation, FileState: m.fileState(u.name), CPU: u.spent,
		ActiveEnter: u.times.ActiveEnter, ActiveExit: u.times.ActiveExit, InactiveEnter: u.times.InactiveEnter, InactiveExit: u.times.InactiveExit}
	switch {
	case u.def.Masked:
		s.LoadState, s.LoadError = "masked", "Unit "+u.name+" is masked."
	case u.def.Broken != "":
		s.LoadState, s.LoadError = "error", u.loadError().Error()
	case u.def.bad() != "":
		s.LoadState, s.LoadError = "bad-setting", "Unit "+u.name+" has a bad unit file setting."
	case u.def.Fragment == "":
		s.LoadState, s.LoadError = "not-found", "Unit "+u.name+" not found."
	}
	if u.main != nil {
		s.Running, s.MainProgram = true, u.main.Comm()
	}
	if d, found := read(m.cfg.Files, u.name); found != (u.def.Fragment != "") || d.Stamp != u.def.Stamp {
		s.NeedReload = true
	}
	for _, p := range m.cgroup(u.name) {
		s.Processes = append(s.Processes, p)
		s.Memory += max(p.Memory(), processMemory)
		s.CPU += p.CPU() + execTime
	}
	u.peak = max(u.peak, s.Memory)
	s.MemoryPeak = u.peak
	return s
}

// cgroup lists the processes of a unit on the machine itself.
func (m *Manager) cgroup(unit string) []*kernel.Process {
	var l []*kernel.Process
	for _, p := range m.cfg.Host.Processes.List() {
		if p.Unit == unit && p.Container == "" {
			l = append(l, p)
		}
	}
	return l
}
