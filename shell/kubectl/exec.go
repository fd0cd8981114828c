package kubectl

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubectl/pkg/cmd/attach"
	"k8s.io/kubectl/pkg/cmd/exec"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"ckadrill/sim/kernel"
)

// replaceExec gives exec and attach the simulated terminal. Upstream asks the host whether its standard input is a
// terminal; without one on the simulated side its own code runs unchanged.
func (i *invocation) replaceExec() {
	x := i.find("exec")
	plainExec := x.Run
	x.Run = func(c *cobra.Command, args []string) {
		if !i.wantsTTY(c) {
			plainExec(c, args)
			return
		}
		o := &exec.ExecOptions{StreamOptions: exec.StreamOptions{IOStreams: i.streams, Stdin: true, Quiet: boolFlag(c, "quiet"), ContainerName: stringFlag(c, "container")}}
		o.FilenameOptions.Filenames, _ = c.Flags().GetStringSlice("filename")
		o.Executor = ttySession{i}
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
