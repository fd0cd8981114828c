package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// ErrDead is returned by the seams of a process that has ended.
var ErrDead = errors.New("process has ended")

// Spec describes a process to start.
type Spec struct {
	Argv []string
	Env  []string // KEY=VALUE, a later one wins
	Dir  string   // working directory, "/" if empty
	Cred Credential
	// Hostname differs from the host's in a container's own UTS namespace.
	Hostname string
	Files    Files
	Net      Network
	Stdin    io.Reader // nil reads as /dev/null
	Stdout   io.Writer // nil discards
	Stderr   io.Writer
	// Log receives the lines that upstream's klog writes; nil means Stderr.
	Log io.Writer
	TTY Terminal
	// Container is the id of the container that the process belongs to, "" on the machine itself.
	Container string
	// NamespacePID is the pid that the process sees itself, when it is not that of the machine's table.
	NamespacePID int
	// Parent is the process that waits for it; nil is init.
	Parent *Process
	// PID is set only at a thaw, to give a process its number back.
	PID int
	// Started is set only at a thaw: when the process was first started. Such a process carries on silently: it prints no
	// start-up line, waits no start-up time, announces nothing.
	Started time.Time
	// Unit is the systemd unit (cgroup) that the process belongs to; children inherit it.
	Unit string
	// Cgroup limits and accounts for the process; children inherit it, as they do Container.
	Cgroup Cgroup
}

// Process is a running program: a tree of goroutines that carry its label. Whatever a goroutine starts belongs to the
// same process.
type Process struct {
	Spec
	host      *Host
	pid       int
	label     unsafe.Pointer
	labelName string
	ctx       context.Context
	cancel    context.CancelCauseFunc
	done      chan struct{}
	dead      atomic.Bool
	resumed   bool
	turn      time.Time // of a resumed one to connect
	logFilter func([]byte) bool

	mu       sync.Mutex
	env      []string
	dir      string
	status   Status
	onExit   []func()
	handlers map[Signal]func()
	values   map[any]any
	name     string
	lag      lag
	memory   int64
	cpu      *CPUMeter
	steady   float64 // processors used all the time
	pidns    *pidNamespace
	execs    int
}

// ID is the process id in the machine's table.
func (p *Process) ID() int { return p.pid }

// Host is the machine that the process runs on.
func (p *Process) Host() *Host { return p.host }

// World is the world that the process lives in.
func (p *Process) World() *World { return p.host.World }

// OwnPID is the process id that the process itself sees: 1 for the main process of a container.
func (p *Process) OwnPID() int {
	if p.NamespacePID != 0 {
		return p.NamespacePID
	}
	return p.pid
}

// Resumed says that the process runs on after a thaw: it must not announce itself.
func (p *Process) Resumed() bool { return p.resumed }

// StartTime is when the process was started, before any freeze.
func (p *Process) StartTime() time.Time { return p.Started }

// Context is cancelled when the process ends; its cause is [ErrDead].
func (p *Process) Context() context.Context { return p.ctx }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive says whether the process still runs.
func (p *Process) Alive() bool { return !p.dead.Load() }

// Wait waits for the end of the process.
func (p *Process) Wait() Status {
	<-p.done
	if waiting := Current(); waiting != nil && waiting != p && waiting.Alive() {
		waiting.joinLag(p)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Go starts a goroutine of the process from outside of it; a goroutine that the process itself starts needs no Go.
func (p *Process) Go(f func()) {
	if p.dead.Load() {
		return
	}
	go p.labelled(f)
}

// Call runs f in a goroutine of the process and waits for it, or for the end of the process or ctx.
func (p *Process) Call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	if p.dead.Load() {
		return ErrDead
	}
	go p.labelled(func() { defer close(done); f() })
	select {
	case <-done:
		return nil
	case <-p.done:
		return ErrDead
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Exit ends the process with a code. Called from a goroutine of the process, it does not return.
func (p *Process) Exit(code int) { p.end(Status{Code: code}) }

// Signal sends a signal: a handler set with [Process.Notify] runs, else the process ends as by Linux's default action.
func (p *Process) Signal(s Signal) {
	if p.dead.Load() {
		return
	}
	p.mu.Lock()
	h := p.handlers[s]
	p.mu.Unlock()
	switch {
	case s == SIGKILL:
	case h != nil:
		p.Go(h)
		return
	case s == SIGCHLD || s == SIGCONT || s == SIGWINCH || s == SIGSTOP:
		return
	case p.NamespacePID == 1:
		return // the first process of a pid namespace ignores signals that it has no handler for
	}
	p.end(Status{Signal: s})
}

// Notify sets what the process does on a signal; nil restores the default.
func (p *Process) Notify(s Signal, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f == nil {
		delete(p.handlers, s)
		return
	}
	p.handlers[s] = f
}

// OnExit has f called once when the process ends, whatever ends it: listeners and connections close this way.
// The returned function withdraws it.
func (p *Process) OnExit(f func()) (forget func()) {
	p.mu.Lock()
	if p.dead.Load() {
		p.mu.Unlock()
		f()
		return func() {}
	}
	i := len(p.onExit)
	p.onExit = append(p.onExit, f)
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if i < len(p.onExit) {
			p.onExit[i] = nil
			for len(p.onExit) > 0 && p.onExit[len(p.onExit)-1] == nil {
				p.onExit = p.onExit[:len(p.onExit)-1]
			}
		}
	}
}

func (p *Process) end(s Status) {
	mine := getProfLabel() == p.label
	p.mu.Lock()
	if p.dead.Load() {
		p.mu.Unlock()
		if mine {
			runtime.Goexit()
		}
		return
	}
	p.status = s
	p.dead.Store(true)
	fs := p.onExit
	p.onExit = nil
	p.mu.Unlock()
	p.cancel(ErrDead)
	for i := len(fs) - 1; i >= 0; i-- {
		if fs[i] != nil {
			fs[i]()
		}
	}
	p.host.Processes.remove(p)
	p.SetSteady(0)
	if p.Cgroup != nil {
		p.Cgroup.Charge(p, 0)
	}
	close(p.done)
	labels.Store(p.label, gone)
	if mine {
		runtime.Goexit()
	}
}

// Sleep waits in simulated time and returns early, with an error, when the process ends.
func (p *Process) Sleep(d time.Duration) error { return SleepContext(p.ctx, d) }

// SleepContext waits for d or until ctx is done.
func SleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Path makes a name absolute against the working directory and cleans it.
func (p *Process) Path(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(p.Dir(), name)
	}
	return path.Clean(name)
}

// Dir is the working directory.
func (p *Process) Dir() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dir
}

// Chdir changes the working directory.
func (p *Process) Chdir(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dir = dir
}

// Getenv returns a variable of the environment, "" if it is not set.
func (p *Process) Getenv(key string) string {
	v, _ := p.LookupEnv(key)
	return v
}

// LookupEnv returns a variable of the environment.
func (p *Process) LookupEnv(key string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(p.env[i], "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// Setenv sets a variable of the process's own environment.
func (p *Process) Setenv(key, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.env {
		if k, _, _ := strings.Cut(p.env[i], "="); k == key {
			p.env[i] = key + "=" + value
			return
		}
	}
	p.env = append(p.env, key+"="+value)
}

// Environ is a copy of the environment, each key once.
func (p *Process) Environ() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.env...)
}

// HostName is the host name that the process sees.
func (p *Process) HostName() string {
	if p.Spec.Hostname != "" {
		return p.Spec.Hostname
	}
	return p.host.Name()
}

// SetValue keeps something with the process, under a key of a type that the caller's package owns.
func (p *Process) SetValue(key, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[key] = value
}

// Value returns what SetValue kept, or nil.
func (p *Process) Value(key any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[key]
}

// SetTitle replaces the command line that others see, as setproctitle(3) does. The name stays.
func (p *Process) SetTitle(argv ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Argv = argv
}

// Name is the program's short name.
func (p *Process) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name
}

// Comm is the program's name as Linux keeps it, and as ps and ss show it: at most 15 bytes.
func (p *Process) Comm() string {
	n := p.Name()
	return n[:min(len(n), 15)]
}

// maxExecs is how often a process can replace itself.
const maxExecs = 1000

// Exec makes the process what execve(2) would: it keeps its number, parent and signals' numbers, and takes argv, environment,
// directory, files and streams of s. The caller then runs the new program and ends the process with its exit code.
//
// The old program's stack stays below the new one's, so a process that does nothing but replace itself ends after
// [maxExecs] times.
func (p *Process) Exec(s Spec) {
	p.mu.Lock()
	if p.execs++; p.execs > maxExecs {
		p.mu.Unlock()
		p.Errorf("ckadrill does not simulate a process that replaces itself more than %d times\n", maxExecs)
		p.Exit(126)
		return
	}
	p.Argv, p.Files, p.Stdin = s.Argv, s.Files, s.Stdin
	p.Stdout, p.Stderr, p.Log = s.streams(p)
	p.env, p.dir = append([]string(nil), s.Env...), s.Dir
	if len(s.Argv) > 0 {
		p.name = path.Base(s.Argv[0])
	}
	p.handlers = map[Signal]func(){}
	p.mu.Unlock()
}

// CommandLine is a copy of the process's argv, as /proc/PID/cmdline shows it.
func (p *Process) CommandLine() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.Argv...)
}

// Dial connects from the process's network namespace.
func (p *Process) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.dead.Load() {
		return nil, ErrDead
	}
	if p.Net == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("network is unreachable")}
	}
	if err := p.waitTurn(ctx); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return p.Net.Dial(ctx, p, network, address)
}

// Listen listens in the process's network namespace.
func (p *Process) Listen(network, address string) (net.Listener, error) {
	if p.dead.Load() {
		return nil, ErrDead
	}
	if p.Net == nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: errors.New("network is unreachable")}
	}
	return p.Net.Listen(p, network, address)
}

// ListenPacket binds a datagram socket in the process's network namespace.
func (p *Process) ListenPacket(network, address string) (net.PacketConn, error) {
	if p.dead.Load() {
		return nil, ErrDead
	}
	if p.Net == nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: errors.New("network is unreachable")}
	}
	return p.Net.ListenPacket(p, network, address)
}

// Open opens a file for reading.
func (p *Process) Open(name string) (File, error) {
	return p.Files.OpenFile(p.Path(name), os.O_RDONLY, 0)
}

// ReadFile reads a file of the process's tree.
func (p *Process) ReadFile(name string) ([]byte, error) { return p.Files.ReadFile(p.Path(name)) }

// Printf writes to standard output.
func (p *Process) Printf(format string, a ...any) { fmt.Fprintf(p.Stdout, format, a...) }

// Errorf writes to standard error.
func (p *Process) Errorf(format string, a ...any) { fmt.Fprintf(p.Stderr, format, a...) }

// streams are the process's own streams over those that it is given.
func (s Spec) streams(p *Process) (stdout, stderr, log stream) {
	if s.Log == nil {
		s.Log = s.Stderr
	}
	return stream{p, s.Stdout}, stream{p, s.Stderr}, stream{p, s.Log}
}

// stream is a standard stream that falls silent when its process ends.
type stream struct {
	p *Process
	w io.Writer
}

func (s stream) Write(b []byte) (int, error) {
	if s.p.dead.Load() {
		return 0, ErrDead
	}
	if s.w == nil {
		return len(b), nil
	}
	return s.w.Write(b)
}

// Unwrap is the writer below, for programs that ask whether two streams are the same.
func (s stream) Unwrap() io.Writer { return s.w }

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
