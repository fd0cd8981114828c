package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/kubectl/pkg/cmd/attach"
	"k8s.io/kubectl/pkg/cmd/exec"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"ckadrill/sim/kernel"
)

// replaceExec gives exec and attach the simulated terminal. Upstream asks the host whether its standard input is a
// terminal; without one on the simulated side its own code runs unchanged.
func (i *invocation) replaceExec() {
	x := i.find("exec")
	x.Run = func(c *cobra.Command, args []string) {
		o := &exec.ExecOptions{StreamOptions: exec.StreamOptions{IOStreams: i.streams, Stdin: boolFlag(c, "stdin"), TTY: boolFlag(c, "tty"), Quiet: boolFlag(c, "quiet"), ContainerName: stringFlag(c, "container")}}
		o.FilenameOptions.Filenames, _ = c.Flags().GetStringSlice("filename")
		o.Executor = translated{&exec.DefaultRemoteExecutor{}}
		if i.wantsTTY(c) {
			o.TTY, o.Executor = false, translated{ttySession{i}}
		}
		cmdutil.CheckErr(o.Complete(i.f, c, args, c.ArgsLenAtDash()))
		cmdutil.CheckErr(o.Validate())
		cmdutil.CheckErr(o.Run())
	}
	a := i.find("attach")
	plainAttach := a.Run
	a.Run = func(c *cobra.Command, args []string) {
		if !i.wantsTTY(c) {
			plainAttach(c, args)
			return
		}
		o := attach.NewAttachOptions(i.streams)
		// Quiet silences what upstream says of the terminal that it can't see; the rest is said here.
		o.Stdin, o.TTY, o.Quiet, o.ContainerName = true, true, true, stringFlag(c, "container")
		o.Attach = ttySession{i}
		quiet := boolFlag(c, "quiet")
		o.AttachFunc = func(o *attach.AttachOptions, container *corev1.Container, raw bool, q remotecommand.TerminalSizeQueue) func() error {
			if !quiet {
				fmt.Fprintln(i.streams.ErrOut, "All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.")
				fmt.Fprintln(i.streams.ErrOut, "If you don't see a command prompt, try pressing enter.")
			}
			return attach.DefaultAttachFunc(o, container, raw, q)
		}
		cmdutil.CheckErr(o.Complete(i.f, c, args))
		cmdutil.CheckErr(o.Validate())
		cmdutil.CheckErr(o.Run())
	}
}

// translated tells the failures of the kubelet's side as they come over a WebSocket: there the API server translates the
// stream to the kubelet, and reports what fails beyond it as an internal error (apiserver/pkg/util/proxy.StreamTranslatorHandler).
// Here the stream goes through untranslated.
type translated struct{ exec.RemoteExecutor }

func (t translated) Execute(u *url.URL, c *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, q remotecommand.TerminalSizeQueue) error {
	return internal(t.RemoteExecutor.Execute(u, c, stdin, stdout, stderr, tty, q))
}

func (t translated) ExecuteWithContext(ctx context.Context, u *url.URL, c *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, q remotecommand.TerminalSizeQueue) error {
	return internal(t.RemoteExecutor.ExecuteWithContext(ctx, u, c, stdin, stdout, stderr, tty, q))
}

// internal wraps an error that is neither the command's status nor an answer of the API server itself.
func internal(err error) error {
	var status apierrors.APIStatus
	var code utilexec.ExitError
	switch {
	case err == nil || errors.As(err, &status) || errors.As(err, &code):
		return err
	case strings.HasPrefix(err.Error(), "unable to upgrade connection: "), strings.HasPrefix(err.Error(), "Internal error occurred: "):
		return fmt.Errorf("Internal error occurred: %w", err) //nolint:staticcheck // upstream's words
	}
	return err
}

func (i *invocation) wantsTTY(c *cobra.Command) bool {
	return i.p.TTY != nil && boolFlag(c, "tty") && boolFlag(c, "stdin")
}

// ttySession runs a remote session with the process's terminal, where upstream asks for one without.
type ttySession struct{ i *invocation }

func (s ttySession) Execute(u *url.URL, c *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, q remotecommand.TerminalSizeQueue) error {
	return s.ExecuteWithContext(s.i.p.Context(), u, c, stdin, stdout, stderr, tty, q)
}

func (s ttySession) Attach(u *url.URL, c *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, q remotecommand.TerminalSizeQueue) error {
	return s.ExecuteWithContext(s.i.p.Context(), u, c, stdin, stdout, stderr, tty, q)
}

func (s ttySession) ExecuteWithContext(ctx context.Context, u *url.URL, c *rest.Config, stdin io.Reader, stdout, _ io.Writer, _ bool, _ remotecommand.TerminalSizeQueue) error {
	u2 := *u
	v := u2.Query()
	v.Set("tty", "true")
	v.Del("stderr")
	u2.RawQuery = v.Encode()
	e, err := remotecommand.NewSPDYExecutor(c, "POST", &u2)
	if err != nil {
		return err
	}
	return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Tty: true, TerminalSizeQueue: &size{p: s.i.p}})
}

// size tells the other side how large the terminal is, once.
type size struct {
	p    *kernel.Process
	once sync.Once
}

func (s *size) Next() (r *remotecommand.TerminalSize) {
	s.once.Do(func() {
		w, h := s.p.TTY.Size()
		r = &remotecommand.TerminalSize{Width: uint16(w), Height: uint16(h)}
	})
	if r == nil {
		<-s.p.Done()
	}
	return r
}
