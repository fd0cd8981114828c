package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// Size is a terminal's size in characters.
type Size struct{ Width, Height uint16 }

var errNotRunning = errors.New("container is not running")

// Exec describes a command to run in a container.
type Exec struct {
	Container string // id, or an unambiguous beginning of it
	Cmd       []string
	Stdin     io.Reader // nil: none
	Stdout    io.Writer
	Stderr    io.Writer // with a TTY everything goes to Stdout
	TTY       bool
	Resize    <-chan Size
	// Terminal is the user's own terminal, when the caller has one: a command with a TTY then uses it instead of Stdin and
	// Stdout, with its line editing. Without it a TTY is made over the streams.
	Terminal kernel.Terminal
	Timeout  time.Duration // 0: none
}

// gate lets output through to a caller's writer until the caller has gone.
type gate struct {
	closed  atomic.Bool
	written atomic.Int64 // orders finished writes before what the caller does after it has gone
}

func (g *gate) close() {
	g.closed.Store(true)
	g.written.Load()
}

// through is w behind the gate; nil stays nil.
func (g *gate) through(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return gatedWriter{g, w}
}

type gatedWriter struct {
	g *gate
	w io.Writer
}

func (w gatedWriter) Write(b []byte) (int, error) {
	if w.g.closed.Load() {
		return len(b), nil
	}
	n, err := w.w.Write(b)
	w.g.written.Add(1)
	return n, err
}

// ExecInContainer runs a command in a container through the daemon that the client is connected to, and returns its exit
// code. An error means that it could not be run; its text is containerd's.
func (r *RuntimeClient) ExecInContainer(ctx context.Context, e Exec) (int, error) {
	var g gate
	defer g.close()
	e.Stdout, e.Stderr = g.through(e.Stdout), g.through(e.Stderr)
	return call(ctx, r.ch, (*service).exec, e)
}

// CheckExec is what a CRI client's Exec does before it streams: it finds the container and sees that it runs.
func (r *RuntimeClient) CheckExec(ctx context.Context, id string, cmd []string) error {
	_, err := call(ctx, r.ch, func(s *service, _ context.Context, id string) (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		k, err := s.containerByID(id)
		if err != nil {
			return struct{}{}, fmt.Errorf("failed to find container %q in store: %w", id, err)
		}
		if st := k.state(); st != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return struct{}{}, fmt.Errorf("container is in %s state", stateName(st))
		}
		return struct{}{}, nil
	}, id)
	if err != nil {
		logFailure(err, "Exec cmd from runtime service failed", "containerID", id, "cmd", cmd)
	}
	return err
}

func (s *service) exec(ctx context.Context, e Exec) (int, error) {
	code, err := s.execIn(ctx, e)
	if err != nil {
		return 0, fmt.Errorf("failed to exec in container: %w", err)
	}
	return code, nil
}

// ExecSync implements the CRI.
func (s *service) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	var stdout, stderr capped
	code, err := s.execIn(ctx, Exec{Container: r.ContainerId, Cmd: r.Cmd, Stdout: &stdout, Stderr: &stderr, Timeout: time.Duration(r.Timeout) * time.Second})
	if err != nil {
		err = fmt.Errorf("failed to exec in container: %w", err)
		s.d.log.line("error", fmt.Sprintf("ExecSync for %q failed", r.ContainerId), "error", toGRPC(err))
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: int32(code)}, nil
}

// capped keeps the beginning of what is written, up to the CRI's limit of 16 MiB.
type capped struct{ bytes.Buffer }

func (c *capped) Write(b []byte) (int, error) {
	if left := 16<<20 - c.Len(); left > 0 {
		c.Buffer.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

func (s *service) execIn(ctx context.Context, e Exec) (int, error) {
	k, err := s.find(e.Container)
	if err != nil {
		return 0, fmt.Errorf("failed to find container %q in store: %w", e.Container, errors.Unwrap(err))
	}
	s.mu.Lock()
	state, proc, b, root := k.state(), k.proc, s.sandboxes[k.SandboxID], k.root
	s.mu.Unlock()
	if state != runtimeapi.ContainerState_CONTAINER_RUNNING || proc == nil || b == nil {
		return 0, fmt.Errorf("container is in %s state", stateName(state))
	}
	if err := kernel.SleepContext(ctx, execDelay); err != nil {
		return 0, err
	}
	execID := s.newID()
	spec := k.Process
	spec.Args = e.Cmd
	spec.TTY = e.TTY
	files := root.files(spec)
	main, argv, err := s.loadProgram(files, spec)
	var late *lateExecError
	switch {
	case errors.As(err, &late):
		main, argv = late.program, e.Cmd
	case err != nil:
		return 0, fmt.Errorf("failed to start exec %q: OCI runtime exec failed: exec failed: unable to start container process: %w", execID, err)
	}
	env := s.processEnv(files, spec)
	if e.TTY {
		env = append(env, "TERM=xterm")
	}
	ks := kernel.Spec{
		Argv: argv, Env: env, Dir: spec.Cwd, Cred: kernel.Credential{UID: spec.UID, GID: spec.GID, Groups: spec.Groups}, Hostname: s.sandboxHostname(b), Files: files, Net: proc.Net,
		Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr, Container: k.ID, Parent: proc, Unit: proc.Unit, Cgroup: k.cgroup,
	}
	stop := func() {}
	switch {
	case e.TTY && e.Terminal != nil:
		ks.Stdin, ks.Stdout, ks.Stderr, ks.TTY = e.Terminal, e.Terminal, e.Terminal, e.Terminal
	case e.TTY:
		in := newPipe()
		t := newTerminal(in, e.Stdout, e.Resize)
		ks.Stdin, ks.Stdout, ks.Stderr, ks.TTY = t, t, t, t
		stop = in.closeWrite
		if e.Stdin != nil {
			go t.feed(e.Stdin)
		} else {
			in.closeWrite()
		}
	}
	p := s.host.Processes.Start(ks, main)
	defer stop()
	if ks.TTY != nil {
		old := ks.TTY.SetForeground(p)
		defer ks.TTY.SetForeground(old)
	}
	var timeout <-chan time.Time
	if e.Timeout > 0 {
		t := time.NewTimer(e.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-p.Done():
		return p.Wait().ExitCode(), nil
	case <-timeout:
		p.Signal(kernel.SIGKILL)
		<-p.Done()
		return 0, fmt.Errorf("timeout %v exceeded: %w", e.Timeout, context.DeadlineExceeded)
	case <-ctx.Done():
		p.Signal(kernel.SIGKILL)
		<-p.Done()
		return 0, fmt.Errorf("timeout %v exceeded: %w", e.Timeout, ctx.Err())
	}
}

// attachedStream is somebody who sees what a container writes.
type attachedStream struct {
	out, err io.Writer
	tty      bool
	done     chan struct{}
	once     chan struct{}
}

func (a *attachedStream) write(stream int, b []byte) {
	w := a.out
	if stream == 1 && !a.tty {
		w = a.err
	}
	if w != nil {
		w.Write(b)
	}
}

func (a *attachedStream) end() {
	select {
	case <-a.once:
		close(a.done)
	default:
	}
}

// AttachContainer joins the streams of a container's first process until that ends, the input ends it (StdinOnce), or ctx is
// done.
func (r *RuntimeClient) AttachContainer(ctx context.Context, id string, stdin io.Reader, stdout, stderr io.Writer, tty bool, resize <-chan Size) error {
	var g gate
	defer g.close()
	stdout, stderr = g.through(stdout), g.through(stderr)
	_, err := call(ctx, r.ch, func(s *service, ctx context.Context, id string) (struct{}, error) {
		return struct{}{}, s.attach(ctx, id, stdin, stdout, stderr, tty, resize)
	}, id)
	return unlessDone(ctx, err)
}

// unlessDone drops the error of a stream that its own client has ended.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *service) attach(ctx context.Context, id string, stdin io.Reader, stdout, stderr io.Writer, tty bool, resize <-chan Size) error {
	k, err := s.find(id)
	if err != nil {
		return fmt.Errorf("failed to find container in store: %w", errors.Unwrap(err))
	}
	s.mu.Lock()
	state, o := k.state(), k.io
	s.mu.Unlock()
	if state != runtimeapi.ContainerState_CONTAINER_RUNNING || o == nil {
		return fmt.Errorf("container is in %s state", stateName(state))
	}
	a := &attachedStream{out: stdout, err: stderr, tty: tty, done: make(chan struct{}), once: make(chan struct{}, 1)}
	a.once <- struct{}{}
	o.mu.Lock()
	closed := o.closed
	if !closed {
		o.attached[a] = true
	}
	o.mu.Unlock()
	if closed {
		return nil
	}
	defer func() {
		o.mu.Lock()
		delete(o.attached, a)
		o.mu.Unlock()
	}()
	if o.tty != nil && resize != nil {
		go o.tty.follow(resize, a.done)
	}
	if stdin != nil && o.stdin != nil {
		go func() {
			if o.tty != nil {
				o.tty.feed(stdin)
			} else {
				io.Copy(o.stdin, stdin)
			}
			if k.Config.StdinOnce {
				o.stdin.closeWrite()
				s.mu.Lock()
				k.StdinClosed = true
				s.touchContainer(k)
				s.mu.Unlock()
			}
		}()
	}
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	return nil
}

// PortForwardSandbox connects a stream with a port of a sandbox, as containerd does from inside its network namespace.
func (r *RuntimeClient) PortForwardSandbox(ctx context.Context, id string, port int32, stream io.ReadWriter) error {
	_, err := call(ctx, r.ch, func(s *service, ctx context.Context, id string) (struct{}, error) {
		return struct{}{}, s.portForward(ctx, id, port, stream)
	}, id)
	return unlessDone(ctx, err)
}

func (s *service) portForward(ctx context.Context, id string, port int32, stream io.ReadWriter) error {
	s.mu.Lock()
	b, err := s.sandboxByID(id)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("failed to find sandbox %q in store: %w", id, err)
	}
	s.d.log.infof("Executing port forwarding in network namespace %q", b.NetNS)
	space := "host"
	if b.NetNS != "" {
		if space = b.NetNS; b.NetNSClosed {
			return fmt.Errorf("failed to execute portforward in network namespace %q: network namespace for sandbox %q is closed", space, id)
		}
	}
	net := s.sandboxNetwork(b)
	if net == nil || b.pause == nil {
		return fmt.Errorf("failed to execute portforward in network namespace %q: network namespace for sandbox %q is closed", space, id)
	}
	conn, err := net.Dial(ctx, b.pause, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		if conn, err2 := net.Dial(ctx, b.pause, "tcp6", fmt.Sprintf("[::1]:%d", port)); err2 == nil {
			return copyBoth(ctx, conn, stream)
		}
		return fmt.Errorf("failed to execute portforward in network namespace %q: failed to connect to localhost:%d inside namespace %q, IPv4: %v IPv6 %s", space, port, b.ID, err,
			strings.Replace(strings.Replace(err.Error(), "tcp4", "tcp6", 1), "127.0.0.1", "[::1]", 1))
	}
	return copyBoth(ctx, conn, stream)
}

func copyBoth(ctx context.Context, conn io.ReadWriteCloser, stream io.ReadWriter) error {
	defer conn.Close()
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, stream)
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		}
		if err != nil {
			done <- err
		}
	}()
	go func() {
		_, err := io.Copy(stream, conn)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("failed to copy: %w", err)
		}
		return nil
	case <-ctx.Done():
		return nil
	}
}

// ReopenContainerLog implements the CRI.
func (s *service) ReopenContainerLog(_ context.Context, r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	k, err := s.find(r.ContainerId)
	if err != nil {
		return nil, err
	}
	if err := s.reopenLog(k); err != nil {
		return nil, err
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
