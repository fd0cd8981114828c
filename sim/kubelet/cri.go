package kubelet

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/status"
	"k8s.io/client-go/tools/remotecommand"
	internalapi "k8s.io/cri-api/pkg/apis"
	utilexec "k8s.io/utils/exec"

	"ckadrill/sim/kernel"
	"ckadrill/sim/runtime"
)

// ConnectRuntime is the [RuntimeConnector] of the program: the machine's containerd.
func ConnectRuntime(p *kernel.Process, endpoint string, timeout time.Duration) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
	r, i, err := runtime.ConnectTimeout(p, endpoint, timeout)
	if err != nil {
		return nil, nil, err
	}
	return r, i, nil
}

var errNoStreaming = errors.New("ckadrill: this container runtime has no direct way to stream")

// streamerOf is a runtime's direct way of streaming.
func streamerOf(r internalapi.RuntimeService) (streamer, error) {
	if c, ok := r.(*runtime.RuntimeClient); ok {
		return containerdStreams{c}, nil
	}
	return nil, errNoStreaming
}

// containerdStreams is containerd's streaming as the kubelet wants it.
type containerdStreams struct{ c *runtime.RuntimeClient }

// ExecInContainer implements streamer.
func (s containerdStreams) ExecInContainer(ctx context.Context, id string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	e := runtime.Exec{Container: id, Cmd: cmd, Stdin: in, TTY: tty, Resize: sizes(ctx, resize)}
	// A nil WriteCloser in an io.Writer would not be nil.
	if out != nil {
		e.Stdout = out
	}
	if errOut != nil {
		e.Stderr = errOut
	}
	code, err := s.c.ExecInContainer(ctx, e)
	if err == nil && code != 0 {
		return utilexec.CodeExitError{Err: errExit, Code: code}
	}
	return streamed(err)
}

// streamed is an error as containerd's streaming server tells it: it answers over HTTP, without the status of gRPC.
func streamed(err error) error {
	if st, ok := status.FromError(err); ok && err != nil {
		return errors.New(st.Message())
	}
	return err
}

var errExit = errors.New("command terminated with a non-zero exit code")

// AttachContainer implements streamer.
func (s containerdStreams) AttachContainer(ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	var o, e io.Writer
	if out != nil {
		o = out
	}
	if errOut != nil {
		e = errOut
	}
	return streamed(s.c.AttachContainer(ctx, id, in, o, e, tty, sizes(ctx, resize)))
}

// PortForward implements streamer.
func (s containerdStreams) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	return s.c.PortForwardSandbox(ctx, id, port, stream)
}

// sizes hands terminal sizes on in containerd's type.
func sizes(ctx context.Context, in <-chan remotecommand.TerminalSize) <-chan runtime.Size {
	if in == nil {
		return nil
	}
	out := make(chan runtime.Size)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case z, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- runtime.Size{Width: z.Width, Height: z.Height}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}
