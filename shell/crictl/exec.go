package crictl

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	utilexec "k8s.io/utils/exec"

	"ckadrill/sim/runtime"
)

func (t *tool) execCommand() *cli.Command {
	return &cli.Command{Name: "exec", Usage: "Run a command in a running container", ArgsUsage: "[CONTAINER-ID] COMMAND [ARG...]", UseShortOptionHandling: true,
		Description: "The CONTAINER-ID is only required if none of the following filter flags are set:\n--image, --label, --last, --latest, --name, --pod, --state",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "sync", Aliases: []string{"s"}, Usage: "Run the command synchronously"},
			&cli.Int64Flag{Name: "timeout", Usage: "Timeout in seconds"},
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "Allocate a pseudo-TTY"},
			&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "Keep STDIN open"},
			&cli.StringFlag{Name: "transport", Aliases: []string{"r"}, Value: "spdy", Usage: "Transport protocol to use, one of: spdy|websocket"},
			&cli.StringFlag{Name: "name", Usage: "Exec command for all containers matching this name filter regular expression pattern"},
			&cli.StringFlag{Name: "pod", Aliases: []string{"p"}, Usage: "Exec command for all containers matching this pod ID filter"},
			&cli.StringFlag{Name: "image", Usage: "Exec command for all containers matching this container image filter"},
			&cli.StringFlag{Name: "state", Usage: "Exec command for all containers matching this container state filter"},
			&cli.StringSliceFlag{Name: "label", Usage: "Exec command for all containers matching this key=value label filter"},
			&cli.BoolFlag{Name: "latest", Aliases: []string{"l"}, Usage: "Exec command for the most recently created container"},
			&cli.IntFlag{Name: "last", Aliases: []string{"n"}, Usage: "Exec command for all last n containers, set to 0 for unlimited"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "Do not print the container ID if multiple containers are selected"},
			&cli.BoolFlag{Name: "ignore-errors", Aliases: []string{"e"}, Usage: "Ignore errors during command execution"},
			&cli.BoolFlag{Name: "parallel", Aliases: []string{"x"}, Usage: "Run the command in parallel if multiple containers are selected"},
			&cli.StringFlag{Name: "tls-sni", Aliases: []string{"tls-server-name"}, Value: "localhost", Usage: "Server name used in the TLS client to check server certificates against"},
			&cli.StringFlag{Name: "tls-ca", Usage: "Path to the streaming TLS CA certificate"},
			&cli.StringFlag{Name: "tls-cert", Usage: "Path to the streaming TLS certificate"},
			&cli.StringFlag{Name: "tls-key", Usage: "Path to the streaming TLS key"},
		},
		Action: t.exec}
}

func (t *tool) exec(c *cli.Context) error {
	if c.NArg() < 1 {
		return cli.ShowSubcommandHelp(c)
	}
	r, err := t.runtime()
	if err != nil {
		return err
	}
	i, err := t.images()
	if err != nil {
		return err
	}
	ids, cmd, titles := []string{c.Args().First()}, c.Args().Slice()[1:], false
	if c.Bool("ignore-errors") && !c.Bool("quiet") {
		t.warn("The `--ignore-errors` option has been set all errors returned by the command will be ignored.")
	}
	filtered := false
	for _, n := range []string{"name", "pod", "image", "state", "label", "latest", "last"} {
		filtered = filtered || c.IsSet(n)
	}
	if filtered {
		ids, cmd, titles = nil, c.Args().Slice(), !c.Bool("quiet") && !c.Bool("parallel")
		f, err := filterOf(c)
		if err != nil {
			return err
		}
		l, err := t.list(r, i, f)
		if err != nil {
			return fmt.Errorf("listing containers: %w", err)
		}
		for _, k := range l {
			ids = append(ids, k.Id)
		}
		if len(ids) == 0 {
			t.logError("No containers found per filter flags")
			return cli.ShowSubcommandHelp(c)
		}
	} else if c.NArg() < 2 {
		return cli.ShowSubcommandHelp(c)
	}
	err = each(ids, func(id string) error {
		if titles {
			t.println(id + ":")
		}
		if c.Bool("sync") {
			if err := t.execSync(r, id, cmd, c.Int64("timeout")); err != nil {
				return fmt.Errorf("execing command in container %s synchronously: %w", id, err)
			}
			return nil
		}
		if err := t.execStreams(r, id, cmd, c.Bool("interactive"), c.Bool("tty")); err != nil {
			return fmt.Errorf("execing command in container %s: %w", id, err)
		}
		return nil
	})
	if c.Bool("ignore-errors") {
		return nil
	}
	return err
}

func (t *tool) execSync(r *runtime.RuntimeClient, id string, cmd []string, timeout int64) error {
	stdout, stderr, err := r.ExecSync(t.ctx, id, cmd, time.Duration(timeout)*time.Second)
	if err != nil {
		return err
	}
	t.println(string(stdout))
	t.println(string(stderr))
	return nil
}

// execStreams runs a command with the tool's own streams, as through containerd's streaming server.
func (t *tool) execStreams(r *runtime.RuntimeClient, id string, cmd []string, stdin, tty bool) error {
	if err := r.CheckExec(t.ctx, id, cmd); err != nil {
		return err
	}
	if tty && !stdin {
		return errors.New("tty=true must be specified with interactive=true")
	}
	e := runtime.Exec{Container: id, Cmd: cmd, Stdout: t.p.Stdout, Stderr: t.p.Stderr, TTY: tty}
	if stdin {
		e.Stdin = t.p.Stdin
		if tty && t.p.TTY != nil {
			e.Terminal = t.p.TTY
		}
	}
	code, err := r.ExecInContainer(t.ctx, e)
	switch {
	case err != nil:
		return fmt.Errorf("Internal error occurred: error executing command in container: %s", unwrapStatus(err))
	case code != 0:
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return nil
}

func (t *tool) attachCommand() *cli.Command {
	return &cli.Command{Name: "attach", Usage: "Attach to a running container", ArgsUsage: "CONTAINER-ID", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "Allocate a pseudo-TTY"},
			&cli.BoolFlag{Name: "stdin", Aliases: []string{"i"}, Usage: "Keep STDIN open"},
			&cli.StringFlag{Name: "transport", Aliases: []string{"r"}, Value: "spdy", Usage: "Transport protocol to use, one of: spdy|websocket"},
		},
		Action: func(c *cli.Context) error {
			id := c.Args().First()
			if id == "" {
				return errors.New("ID cannot be empty")
			}
			if c.NArg() > 1 {
				return cli.ShowSubcommandHelp(c)
			}
			r, err := t.runtime()
			if err != nil {
				return err
			}
			in := t.p.Stdin
			if !c.Bool("stdin") {
				in = nil
			}
			if err := r.AttachContainer(t.ctx, id, in, t.p.Stdout, t.p.Stderr, c.Bool("tty"), nil); err != nil {
				return fmt.Errorf("attaching running container failed: %w", err)
			}
			return nil
		}}
}
