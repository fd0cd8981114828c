package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/wire"
)

// Candidate is the user that drills are solved as.
const Candidate = "candidate"

// Shells are the shells that stay open from one command to the next, by name: each with those that were opened inside of
// it, by ssh, sudo or su. They are the holder "shells".
type Shells struct {
	c  *Cluster
	mu sync.Mutex
	m  map[string]*openShell
}

type openShell struct {
	machine, user string
	frames        []bash.Frame // while no process runs it
	jobs          *bash.Jobs
	live          *bash.Nest // while a process runs it
}

type frozenShell struct {
	Machine, User string
	Frames        []bash.Frame
}

func newShells(c *Cluster) *Shells {
	s := &Shells{c: c, m: map[string]*openShell{}}
	c.w.Hold("shells", s)
	return s
}

// machineOf is where a run logs in.
func (s *Shells) machineOf(r *wire.Run) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := s.m[r.Shell]; {
	case o != nil:
		return o.machine
	case r.Machine != "":
		return r.Machine
	}
	return s.c.ControlPlane()
}

// await waits until a machine that comes back can be logged in to. Somebody switches on again the one whose shell a
// session lives in: it could not go on otherwise.
func (s *Shells) await(r *wire.Run) <-chan struct{} {
	m, err := s.c.Machine(s.machineOf(r))
	if err != nil {
		return nil
	}
	ready := make(chan struct{})
	switch {
	case m.ComingBack():
		go func() {
			for m.ComingBack() {
				time.Sleep(loginRetry)
			}
			close(ready)
		}()
	case !m.PoweredOn() && r.Machine == "":
		go func() { m.Boot(); close(ready) }()
	default:
		return nil
	}
	return ready
}

// loginRetry is how often a machine that is down is tried.
const loginRetry = time.Second

// open starts a process for the shell that a run names, or makes that shell. If other shells are open inside of it, the run
// is the innermost's.
func (s *Shells) open(r *wire.Run, tty kernel.Terminal, stdin io.Reader, stdout, stderr io.Writer) (*kernel.Process, error) {
	s.mu.Lock()
	o, known := s.m[r.Shell]
	if known && o.live != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("the shell %q is busy", r.Shell)
	}
	if !known {
		o = &openShell{machine: r.Machine, user: r.User}
		if o.machine == "" {
			o.machine = s.c.ControlPlane()
		}
		if o.user == "" {
			o.user = Candidate
		}
	}
	s.mu.Unlock()
	m, err := s.c.Machine(o.machine)
	if err != nil {
		return nil, err
	}
	if !m.PoweredOn() {
		return nil, fmt.Errorf("%s is switched off", o.machine)
	}
	u, ok := m.LookupUser(o.user)
	if !ok {
		return nil, fmt.Errorf("user %s does not exist on %s", o.user, o.machine)
	}
	// Batch or not, it is the shell of a candidate at a terminal: aliases work, and messages begin with -bash.
	argv, options := []string{"-bash"}, bash.Options{Name: "-bash", Login: true, Interactive: true}
	if r.Plain {
		argv, options = []string{"bash"}, bash.Options{}
	}
	nest := bash.NewNest(o.frames, o.jobs)
	var typed *typing
	if !r.Interactive && (r.Stay || len(o.frames) > 1) {
		typed = &typing{nest: nest, script: r.Script, nested: len(o.frames) > 1, out: stdout}
		tty = typed
	}
	tty = nest.On(tty)
	spec := kernel.Spec{
		Argv: argv, Env: append(loginEnvironment(u, r), r.Env...), Dir: u.Home, Cred: u.Cred,
		Files: m.Files(u.Cred), Net: m.Network(), Stdin: stdin, Stdout: stdout, Stderr: stderr, TTY: tty, Parent: m.Host().Processes.Find(1),
	}
	switch {
	case typed != nil:
		spec.Stdin, spec.Stderr = tty, onTerminal{stderr, tty}
	case tty != nil:
		spec.Stdin, spec.Stdout, spec.Stderr = tty, tty, tty
	}
	if l, ok := bash.ProcessOf(o.frames); ok && m.Host().Processes.Find(l.PID) == nil {
		spec.PID, spec.Started = l.PID, l.Started
	}
	return m.Host().Processes.Start(spec, func(p *kernel.Process) int {
		s.mu.Lock()
		o.live = nest
		s.m[r.Shell] = o
		s.mu.Unlock()
		p.OnExit(func() { s.closed(o, nest) })
		sh := nest.Open(p, options)
		switch {
		case r.Interactive:
			return sh.Interactive()
		case typed == nil || !sh.Continue() || !typed.taken():
			return sh.Run(r.Script)
		}
		return sh.Status()
	}), nil
}

// closed keeps what the shells know; the process has ended.
func (s *Shells) closed(o *openShell, nest *bash.Nest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.live == nest {
		o.frames, o.jobs, o.live = nest.Frames(), nest.Jobs(), nil
		if m, err := s.c.Machine(o.machine); err == nil && !m.PoweredOn() {
			o.frames, o.jobs = nil, nil // the next one is a new login
		}
	}
}

func loginEnvironment(u machine.User, r *wire.Run) []string {
	env := []string{"HOME=" + u.Home, "LOGNAME=" + u.Name, "USER=" + u.Name, "SHELL=" + u.Shell, "PATH=" + machine.DefaultPath, "LANG=C.UTF-8", "MAIL=/var/mail/" + u.Name}
	if r.TTY {
		env = append(env, "TERM=xterm-256color")
	}
	return env
}

// Freeze implements [kernel.Holder].
func (s *Shells) Freeze(snap *kernel.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.m)) {
		o := s.m[n]
		snap.Put(n, 0, func() []byte {
			frames := o.frames
			if o.live != nil {
				frames = o.live.Frames()
			}
			return encodeShell(frozenShell{o.machine, o.user, frames})
		})
	}
}

// Thaw implements [kernel.Holder].
func (s *Shells) Thaw(parts kernel.Parts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, b := range parts {
		f, err := decodeShell(b)
		if err != nil {
			return fmt.Errorf("shell %s: %w", n, err)
		}
		s.m[n] = &openShell{machine: f.Machine, user: f.User, frames: f.Frames}
	}
	return nil
}
