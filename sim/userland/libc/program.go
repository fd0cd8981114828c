package libc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// Prog is a running command-line program: its process, its buffered standard output and its exit status so far.
type Prog struct {
	*kernel.Process
	// Name is the program's own name, Called the one that it was started under, which error messages begin with.
	Name, Called string
	// Args are the arguments without the program's name.
	Args []string
	// Out is the buffered standard output; it is flushed before each error message and at the end.
	Out *bufio.Writer
	// Status is the exit status that [Prog.Fail] has set.
	Status int
	// FailStatus is what [Prog.Fail] sets, 1 unless changed.
	FailStatus int
	// Busybox says that the program speaks as busybox's applet does.
	Busybox bool

	mu    sync.Mutex
	spent time.Duration // computed, but not slept yet
}

// startCost is the simulated time that loading and starting a program takes. Without it an endless loop of commands
// would hold the world.
const startCost = time.Millisecond

// Main makes a program out of a function that returns the exit status.
func Main(name string, run func(c *Prog) int) kernel.Program { return program(name, false, run) }

// Applet is [Main] for busybox's variant of a program.
func Applet(name string, run func(c *Prog) int) kernel.Program { return program(name, true, run) }

func program(name string, busybox bool, run func(c *Prog) int) kernel.Program {
	return func(p *kernel.Process) int {
		if p.Sleep(p.ConsumeLag(startCost)) != nil {
			return 1
		}
		c := &Prog{Process: p, Name: name, Called: name, FailStatus: 1, Busybox: busybox}
		size := 32 << 10
		if len(p.Argv) > 1 {
			c.Args = p.Argv[1:]
		}
		if len(p.Argv) > 0 && !busybox && !shortNamed[name] {
			c.Called = p.Argv[0]
		}
		if c.IsTerminal(p.Stdout) {
			size = 4 << 10
		}
		c.Out = bufio.NewWriterSize(&pacedOutput{c: c}, size)
		status := run(c)
		if err := c.Out.Flush(); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, kernel.ErrDead) {
			p.Errorf("%s: write error: %s\n", c.Called, Strerror(err))
			return max(status, c.FailStatus)
		}
		return status
	}
}

// shortNamed programs leave the directory out of their name, or are scripts around another program.
var shortNamed = map[string]bool{"grep": true, "egrep": true, "fgrep": true, "gzip": true, "awk": true, "sudo": true, "su": true, "swapon": true, "swapoff": true, "vim": true}

// Fail prints an error message that begins with the program's name and sets the exit status.
func (c *Prog) Fail(format string, a ...any) int {
	c.Warn(format, a...)
	c.Status = c.FailStatus
	return c.Status
}

// Warn prints a message that begins with the program's name.
func (c *Prog) Warn(format string, a ...any) {
	c.Out.Flush()
	c.Errorf("%s: %s\n", c.Called, fmt.Sprintf(format, a...))
}

// FailFile prints "name: file: error".
func (c *Prog) FailFile(file string, err error) int { return c.Fail("%s: %s", file, Strerror(err)) }

// Usage prints an error of the command line as GNU programs do, and returns the exit status.
func (c *Prog) Usage(err error) int {
	c.Warn("%s", err)
	return c.TryHelp()
}

// TryHelp prints the line that follows a usage error.
func (c *Prog) TryHelp() int {
	c.Out.Flush()
	c.Errorf("Try '%s --help' for more information.\n", c.Called)
	return c.FailStatus
}

// Put writes to the buffered standard output.
func (c *Prog) Put(format string, a ...any) { fmt.Fprintf(c.Out, format, a...) }

// maxWhole bounds what a program reads at once.
const maxWhole = 64 << 20

// ErrTooLarge is returned for inputs that exceed what a simulated program keeps in memory.
var ErrTooLarge error = syscall.ENOMEM

// ReadAll reads a whole input, within what a simulated program may hold in memory.
func ReadAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
	if err == nil && len(b) > maxWhole {
		err = ErrTooLarge
	}
	return b, err
}

// InputAll reads a whole operand.
func (c *Prog) InputAll(name string) ([]byte, error) {
	f, err := c.Input(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f)
}

// IsTerminal says whether a stream of the process is its terminal.
func (c *Prog) IsTerminal(stream any) bool { return IsTerminal(c.Process, stream) }

// IsTerminal is isatty(3) for p's Stdin, Stdout or Stderr.
func IsTerminal(p *kernel.Process, stream any) bool {
	if p.TTY == nil || stream == nil {
		return false
	}
	for range 8 {
		if stream == any(p.TTY) {
			return true
		}
		u, ok := stream.(interface{ Unwrap() io.Writer })
		if !ok {
			return false
		}
		stream = u.Unwrap()
	}
	return false
}

// Wait sleeps in simulated time, or makes up for a past in which it slept already.
func (c *Prog) Wait(d time.Duration) error { return c.Sleep(c.ConsumeLag(d)) }

// Run starts another program as a child, found on PATH, with the same streams, and waits for it. The status is 127 or 126
// with a message when it cannot be started.
func (c *Prog) Run(argv []string) int {
	p, status := c.StartChild(argv, nil)
	if p == nil {
		return status
	}
	return p.Wait().ExitCode()
}

// StartChild starts another program as a child with the same streams; change may alter its [kernel.Spec]. When it cannot be
// started it says so and returns the status that env(1) and its like exit with.
func (c *Prog) StartChild(argv []string, change func(*kernel.Spec)) (*kernel.Process, int) {
	c.Out.Flush()
	s := kernel.Spec{
		Argv: argv, Env: c.Environ(), Dir: c.Dir(), Cred: c.Cred, Hostname: c.Spec.Hostname, Files: c.Files, Net: c.Net,
		Stdin: c.Stdin, Stdout: Unwrap(c.Stdout), Stderr: Unwrap(c.Stderr), TTY: c.TTY, Parent: c.Process,
	}
	if change != nil {
		change(&s)
	}
	p, err := Exec(c.World(), c.Host(), s)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) {
			c.Fail("%s: %s", c.Quote(argv[0]), Strerror(err))
			return nil, 127
		}
		c.Fail("%s: %s", c.Quote(argv[0]), Strerror(err))
		return nil, 126
	}
	return p, 0
}

// Replace is execvp(3): another program takes this one's place in its process; change may alter its [kernel.Spec]. It returns
// the new program's exit status, or, when there is none, says so and returns what env(1) and its like exit with.
func (c *Prog) Replace(argv []string, change func(*kernel.Spec)) int {
	c.Out.Flush()
	s := kernel.Spec{Argv: argv, Env: c.Environ(), Dir: c.Dir(), Files: c.Files, Stdin: c.Stdin, Stdout: Unwrap(c.Stdout), Stderr: Unwrap(c.Stderr)}
	if change != nil {
		change(&s)
	}
	main, err := find(c.World(), &s)
	if err != nil {
		c.FailStatus = 126
		if errors.Is(err, syscall.ENOENT) {
			c.FailStatus = 127
		}
		if c.Busybox {
			return c.Fail("can't execute '%s': %s", argv[0], Strerror(err))
		}
		return c.Fail("%s: %s", c.Quote(argv[0]), Strerror(err))
	}
	c.Process.Exec(s)
	return main(c.Process)
}

// Relay passes the signals that ask a program to end on to its child, and waits for that.
func (c *Prog) Relay(child *kernel.Process) kernel.Status {
	for _, s := range []kernel.Signal{kernel.SIGINT, kernel.SIGTERM, kernel.SIGHUP, kernel.SIGQUIT, kernel.SIGUSR1, kernel.SIGUSR2} {
		c.Notify(s, func() {
			if s != kernel.SIGINT || c.TTY == nil { // a terminal's Ctrl-C reaches the child by itself
				child.Signal(s)
			}
		})
	}
	return child.Wait()
}

// Unwrap is the stream that the parent gave to a process, which lives on when the process has ended.
func Unwrap(w io.Writer) io.Writer {
	if u, ok := w.(interface{ Unwrap() io.Writer }); ok {
		return u.Unwrap()
	}
	return w
}

// Exec finds s.Argv[0] on the PATH of s.Env and starts it. A file that is executable but neither a program nor a script
// with a #! line is run by /bin/sh, as execvp(3) does.
func Exec(w *kernel.World, h *kernel.Host, s kernel.Spec) (*kernel.Process, error) {
	main, err := find(w, &s)
	if err != nil {
		return nil, err
	}
	return h.Processes.Start(s, main), nil
}

// find finds the program of s.Argv[0] and changes s.Argv to what it gets.
func find(w *kernel.World, s *kernel.Spec) (kernel.Program, error) {
	pathList := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, kv := range s.Env {
		if len(kv) > 5 && kv[:5] == "PATH=" {
			pathList = kv[5:]
		}
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	name, err := kernel.LookPath(s.Files, dir, pathList, s.Argv[0])
	if err != nil {
		return nil, err
	}
	return load(w, s, name)
}

func load(w *kernel.World, s *kernel.Spec, name string) (kernel.Program, error) {
	main, argv, err := w.Load(s.Files, name, s.Argv)
	if errors.Is(err, kernel.ErrNoExec) {
		argv = append([]string{"/bin/sh", name}, s.Argv[1:]...)
		main, argv, err = w.Load(s.Files, "/bin/sh", argv)
	}
	if err != nil {
		return nil, err
	}
	s.Argv = argv
	return main, nil
}

// ExecFile starts the program of a file, whatever s.Argv[0] says: a login shell is named "-bash".
func ExecFile(w *kernel.World, h *kernel.Host, file string, s kernel.Spec) (*kernel.Process, error) {
	main, err := load(w, &s, file)
	if err != nil {
		return nil, err
	}
	return h.Processes.Start(s, main), nil
}

// Base is the last element of a program's name.
func Base(argv0 string) string { return path.Base(argv0) }
