package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	osexec "os/exec"
	"sync"

	utilsexec "k8s.io/utils/exec"

	"ckadrill/sim/kernel"
)

// Exec runs programs of a process's machine as its children, for code of upstream that takes a [utilsexec.Interface].
type Exec struct{ P *kernel.Process }

var _ utilsexec.Interface = Exec{}

// Command implements [utilsexec.Interface].
func (e Exec) Command(name string, args ...string) utilsexec.Cmd {
	return e.CommandContext(e.P.Context(), name, args...)
}

// CommandContext implements [utilsexec.Interface].
func (e Exec) CommandContext(ctx context.Context, name string, args ...string) utilsexec.Cmd {
	return &command{p: e.P, ctx: ctx, argv: append([]string{name}, args...)}
}

// LookPath implements [utilsexec.Interface], with the error of os/exec.
func (e Exec) LookPath(name string) (string, error) {
	file, err := kernel.LookPath(e.P.Files, e.P.Dir(), e.P.Getenv("PATH"), name)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = osexec.ErrNotFound
	}
	return "", &osexec.Error{Name: name, Err: err}
}

// command is a program that runs once.
type command struct {
	p              *kernel.Process
	ctx            context.Context
	argv           []string
	dir            string
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
	child          *kernel.Process
	forget         func()
}

var errNotSimulated = errors.New("ckadrill does not simulate pipes to programs that kubeadm starts")

func (c *command) SetDir(dir string)                  { c.dir = dir }
func (c *command) SetStdin(in io.Reader)              { c.stdin = in }
func (c *command) SetStdout(out io.Writer)            { c.stdout = out }
func (c *command) SetStderr(out io.Writer)            { c.stderr = out }
func (c *command) SetEnv(env []string)                { c.env = env }
func (c *command) StdoutPipe() (io.ReadCloser, error) { return nil, errNotSimulated }
func (c *command) StderrPipe() (io.ReadCloser, error) { return nil, errNotSimulated }

func (c *command) Start() error {
	p := c.p
	file, err := Exec{p}.LookPath(c.argv[0])
	if err != nil {
		return err
	}
	main, argv, err := p.World().Load(p.Files, file, append([]string{file}, c.argv[1:]...))
	if err != nil {
		return err
	}
	env, dir := c.env, c.dir
	if env == nil {
		env = p.Environ()
	}
	if dir == "" {
		dir = p.Dir()
	}
	c.child = p.Host().Processes.Start(kernel.Spec{Argv: argv, Env: env, Dir: dir, Cred: p.Cred, Hostname: p.Spec.Hostname, Files: p.Files, Net: p.Net,
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr, Container: p.Container, Parent: p}, main)
	c.forget = p.OnExit(c.Stop)
	return nil
}

func (c *command) Stop() { c.child.Signal(kernel.SIGKILL) }

func (c *command) Wait() error {
	done := context.AfterFunc(c.ctx, c.Stop)
	s := c.child.Wait()
	done()
	c.forget()
	if s.ExitCode() == 0 {
		return nil
	}
	text := fmt.Sprintf("exit status %d", s.Code)
	if s.Signal != 0 {
		text = "signal: " + s.Signal.String()
	}
	return utilsexec.CodeExitError{Err: errors.New(text), Code: s.ExitCode()}
}

func (c *command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

func (c *command) Output() ([]byte, error) {
	var out bytes.Buffer
	c.stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

func (c *command) CombinedOutput() ([]byte, error) {
	out := &both{}
	c.stdout, c.stderr = out, out
	err := c.Run()
	return out.b.Bytes(), err
}

// both takes two streams of a program, which it may write at the same time.
type both struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *both) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
