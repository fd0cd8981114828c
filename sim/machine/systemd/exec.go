package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/journal"
)

// stage is why systemd's child could not become the service: the step, its exit code, the error.
type stage struct {
	step string
	code int
	err  error
	path string
}

// prepare makes the environment and the frame of a service's processes. A stage is what will fail in the child.
func (m *Manager) prepare(d *Definition) (kernel.Spec, *stage, error) {
	spec := kernel.Spec{Unit: d.Name, Parent: m.init.Load(), Dir: d.get("Service", "WorkingDirectory", "/")}
	var fails *stage
	user, home := d.get("Service", "User", ""), ""
	if user != "" {
		c, h, ok := m.cfg.LookupUser(user)
		if !ok {
			fails = &stage{"USER", exitUser, syscall.ESRCH, ""}
		}
		spec.Cred, home = c, h
	}
	dir, optional := strings.CutPrefix(spec.Dir, "-")
	if dir == "~" {
		if dir = home; dir == "" {
			dir = "/root"
		}
	}
	spec.Dir = dir
	if i, err := m.cfg.Files.Stat(dir); err != nil || !i.IsDir() {
		if err == nil {
			err = syscall.ENOTDIR
		}
		if optional {
			spec.Dir = "/"
		} else if fails == nil {
			fails = &stage{"CHDIR", exitChdir, reason(err), ""}
		}
	}
	env, err := environment(m.cfg.Files, d, home, user)
	spec.Env = env
	return spec, fails, err
}

// output gives a process its streams into the journal.
func (m *Manager) output(spec *kernel.Spec, d *Definition, program string) {
	id := d.get("Service", "SyslogIdentifier", path.Base(program))
	e := journal.Entry{Unit: d.Name, Identifier: id, Priority: journal.Info, UID: spec.Cred.UID}
	stream := func(key, def string) string {
		v := d.get("Service", key, def)
		return strings.TrimSuffix(v, "+console")
	}
	out := stream("StandardOutput", "journal")
	if out != "null" {
		spec.Stdout = &stdio{m.cfg.Journal.Writer(e)}
	}
	switch stream("StandardError", "inherit") {
	case "null":
	case "inherit":
		spec.Stderr = spec.Stdout
	default:
		spec.Stderr = &stdio{m.cfg.Journal.Writer(e)}
	}
}

// stdio notes which process writes.
type stdio struct{ w *journal.Writer }

func (s *stdio) Write(b []byte) (int, error) {
	pid := 0
	if p := kernel.Current(); p != nil {
		pid = p.ID()
	}
	return s.w.WriteAs(pid, b)
}

// child starts a process of a unit. When it can not be started, it says so as systemd's child does, and failed is the
// status that child ends with; pid is the number it had.
func (m *Manager) child(d *Definition, c command, spec kernel.Spec, fails *stage) (p *kernel.Process, failed *kernel.Status, pid int) {
	spec.Argv = slices.Clone(c.argv)
	m.output(&spec, d, c.path)
	if fails == nil {
		var err error
		if p, err = m.execute(c, spec); err == nil {
			return p, nil, p.ID()
		}
		fails = &stage{"EXEC", exitExec, reason(err), c.path}
	}
	// systemd has forked already, so the child has a number and a name
	pid = m.cfg.Host.Processes.Next()
	m.cfg.Host.Processes.SetNext(pid + 1)
	say := func(format string, a ...any) {
		m.add(journal.Entry{Unit: d.Name, Identifier: "(" + tail(path.Base(c.path)) + ")", PID: pid, Priority: journal.Err, Message: d.Name + ": " + fmt.Sprintf(format, a...)})
	}
	text := strerror(fails.err)
	switch fails.step {
	case "USER":
		say("Failed to determine user credentials: %s", text)
	case "CHDIR":
		say("Changing to the requested working directory failed: %s", text)
	case "EXEC":
		if errors.Is(fails.err, fs.ErrNotExist) || errors.Is(fails.err, fs.ErrPermission) {
			say("Unable to locate executable '%s': %s", c.path, text)
		} else {
			say("Failed to execute %s: %s", c.path, text)
		}
	}
	say("Failed at step %s spawning %s: %s", fails.step, c.path, text)
	return nil, &kernel.Status{Code: fails.code}, pid
}

// tail is a name as systemd's child gives it to itself, in parentheses: the last bytes of what fits the kernel's 15.
func tail(s string) string { return s[max(0, len(s)-13):] }

// execute starts a process from a command whose argv[0] may differ from its path.
func (m *Manager) execute(c command, spec kernel.Spec) (*kernel.Process, error) {
	argv0 := spec.Argv[0]
	if argv0 == c.path {
		return m.cfg.Start(spec)
	}
	spec.Argv[0] = c.path
	p, err := m.cfg.Start(spec)
	if err == nil {
		p.Argv[0] = argv0
	}
	return p, err
}

// spawn starts the main process of a unit.
func (m *Manager) spawn(u *unit, c command, spec kernel.Spec, fails *stage) (failed *kernel.Status) {
	p, failed, pid := m.child(u.def, c, spec, fails)
	m.mu.Lock()
	defer m.mu.Unlock()
	u.version = m.cfg.World.Version()
	u.main, u.mainPID, u.mainStart, u.mainExit, u.status = p, pid, time.Now(), time.Time{}, kernel.Status{}
	u.command = execution{Path: c.path, Argv: c.argv, Env: spec.Env, Dir: spec.Dir, Cred: spec.Cred}
	if b, err := m.cfg.Files.ReadFile(c.path); err == nil {
		u.command.Program, _ = kernel.ExecutableProgram(b)
	}
	return failed
}

// respawn starts the main process of a unit again after a thaw, as what it was started, with its number.
func (m *Manager) respawn(u *unit) error {
	x := u.command
	if len(x.Argv) == 0 {
		return fmt.Errorf("%s cannot be resumed: the state does not say what it was started as", u.name)
	}
	spec := kernel.Spec{Unit: u.name, Parent: m.init.Load(), Argv: slices.Clone(x.Argv), Env: x.Env, Dir: x.Dir, Cred: x.Cred, PID: u.mainPID, Started: u.mainStart}
	m.output(&spec, u.def, x.Path)
	var p *kernel.Process
	var err error
	if main, ok := m.cfg.World.Programs.Find(x.Program); ok && x.Program != "" {
		p, err = m.cfg.StartProgram(spec, main)
	} else {
		p, err = m.execute(command{path: x.Path, argv: x.Argv}, spec)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be resumed: %w", u.name, err)
	}
	m.mu.Lock()
	u.main = p
	m.mu.Unlock()
	return nil
}

// control runs a command beside the main process (ExecStartPre= and the like) to its end. ok is false when the job that it
// belongs to fails with it.
func (m *Manager) control(u *unit, kind, line string, spec kernel.Spec, fails *stage, sub string) (st kernel.Status, ok bool) {
	c, err := parseCommand(line, spec.Env)
	if err != nil {
		return kernel.Status{Code: exitExec}, false
	}
	m.mu.Lock()
	if sub != "" {
		u.set(m.cfg.World, u.active, sub)
	}
	m.mu.Unlock()
	begin := time.Now()
	p, failed, pid := m.child(u.def, c, spec, fails)
	if failed != nil {
		st = *failed
	} else {
		st = p.Wait()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u.spent += execTime
	if p != nil {
		u.spent += p.CPU()
	}
	u.control = append(u.control, Exec{Kind: kind, Line: strings.TrimLeft(line, "-@:+!"), PID: pid, Start: begin, Exit: time.Now(), Status: st})
	u.version = m.cfg.World.Version()
	if st == (kernel.Status{}) || st.Signal == 0 && listed(u.def, "SuccessExitStatus", st) {
		return st, true
	}
	m.log(u.name, journal.Notice, "%s: Control process exited, %s%s", u.name, describe(st), map[bool]string{true: " (ignored)"}[c.ignoreResult])
	return st, c.ignoreResult
}

// reason is the error below the name of the file that it is about.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
