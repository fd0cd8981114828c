package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chzyer/readline"
	"github.com/spf13/cobra"

	"ckadrill/grader"
	"ckadrill/shell/console"
	"ckadrill/shell/terminal"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm/presets"
	"ckadrill/sim/session"
	"ckadrill/sim/wire"
)

// worldFlags are those of every command that starts a world.
type worldFlags struct {
	seed    uint64
	preset  string
	session string
	speed   float64
	fresh   bool
	limit   kernel.Limit
}

func (f *worldFlags) add(c *cobra.Command) {
	c.Flags().Uint64Var(&f.seed, "seed", 1, "what all randomness of the world comes from")
	c.Flags().StringVar(&f.preset, "cluster", "reference", presetUsage())
	c.Flags().StringVar(&f.session, "session", "", "directory that keeps the session; one that is there goes on")
	c.Flags().Float64Var(&f.speed, "speed", 0, "simulated seconds for one of yours; 0 lets waiting take no time")
	c.Flags().DurationVar(&f.limit.Simulated, "timeout", 24*time.Hour, "simulated time after which a script is stopped; 0 is none")
	c.Flags().DurationVar(&f.limit.Host, "patience", 10*time.Minute, "your time after which a script is stopped; 0 is none")
	c.Flags().BoolVar(&f.fresh, "fresh", false, "build the cluster by kubeadm's phases instead of starting from the embedded one")
	c.Flags().MarkHidden("fresh")
}

func presetUsage() string { return "cluster preset: " + strings.Join(presets.Names(), ", ") }

func (f *worldFlags) boot() wire.Boot {
	return wire.Boot{
		Preset: f.preset, Seed: f.seed, Date: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC), Pace: wire.Pace{Speed: f.speed}, Fresh: f.fresh,
		Options: map[string]string{metaCluster: f.preset, metaSeed: strconv.FormatUint(f.seed, 10)},
	}
}

// Keys of a session's first record: how its world was begun.
const (
	metaCluster = "cluster"
	metaSeed    = "seed"
)

// restore takes from a session what its world was begun with.
func (f *worldFlags) restore(s *session.Session) error {
	meta := s.Records()[0].Meta
	if c := meta[metaCluster]; c != "" {
		f.preset = c
	}
	if n := meta[metaSeed]; n != "" {
		seed, err := strconv.ParseUint(n, 10, 64)
		if err != nil {
			return fmt.Errorf("the session's seed: %w", err)
		}
		f.seed = seed
	}
	return nil
}

func shellCommand() *cobra.Command {
	var f worldFlags
	var script string
	c := &cobra.Command{
		Use:   "shell [FILE]",
		Short: "A shell on the reference cluster, as user candidate on cka-cp1",
		Long: `Opens a shell on a healthy cluster: user candidate on cka-cp1, sudo asks for no password, ssh cka-w1 works.

With -c, a FILE, or input from a pipe it runs a script instead, without waiting in real time, and exits with its status.
With --session the cluster and the shell go on where the last call with that directory ended.`,
		Example: `  ckadrill shell
  ckadrill shell -c 'kubectl create deploy web --image=nginx; kubectl rollout status deploy/web'
  ckadrill shell --session /tmp/s -c 'cd /etc/kubernetes'; ckadrill shell --session /tmp/s -c pwd`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			batch := c.Flags().Changed("command")
			if len(args) == 1 {
				if batch {
					return fmt.Errorf("a script comes from -c or from a file, not from both")
				}
				b, err := os.ReadFile(args[0])
				if err != nil {
					return err
				}
				script, batch = string(b), true
			}
			var stdin []byte
			piped := !readline.IsTerminal(int(os.Stdin.Fd()))
			if piped {
				b, err := io.ReadAll(io.LimitReader(os.Stdin, maxInput+1))
				if err != nil {
					return err
				}
				if len(b) > maxInput {
					return fmt.Errorf("standard input is larger than %d MiB", maxInput>>20)
				}
				if batch {
					stdin = b
				} else {
					script, batch = string(b), true
				}
			}
			if f.session == "" && batch {
				return playDrill(&grader.Drill{}, f, nil, input{batch, script, stdin})
			}
			s, err := openSession(f.session)
			if err != nil {
				return err
			}
			return resume(s, f, input{batch, script, stdin})
		},
	}
	f.add(c)
	c.Flags().StringVarP(&script, "command", "c", "", "run this script and exit with its status")
	return c
}

// maxInput bounds what a script may read from standard input.
const maxInput = 64 << 20

// say tells something about the simulation itself.
func say(format string, a ...any) { fmt.Fprintf(os.Stderr, "ckadrill: "+format+"\n", a...) }

// input is where a shell's commands come from: from a script, or from the user at the terminal.
type input struct {
	batch  bool
	script string
	stdin  []byte
}

// work runs a script in an open play, or lets the user work at the prompt, and closes the play.
func work(p *front.Play, in input) error {
	defer p.Close()
	var exit int
	var err error
	if in.batch {
		exit, err = console.Batch(p, in.script, in.stdin, os.Stdout, os.Stderr)
	} else {
		var t *terminal.Terminal
		if t, err = terminal.New(console.History(p.Session)); err != nil {
			return err
		}
		defer t.Close()
		exit, err = console.Interactive(p, t)
	}
	if err != nil {
		return err
	}
	if exit != 0 {
		return exitError(exit)
	}
	return nil
}

// openSession opens the session in a directory; without one it makes a new directory among the user's state.
func openSession(dir string) (*session.Session, error) {
	if dir == "" {
		base, err := stateDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(base, "sessions", time.Now().Format("2006-01-02-150405"))
		say("this session is kept in %s", dir)
	}
	return session.Open(dir)
}

// stateDir is where sessions go that were given no place.
func stateDir() (string, error) {
	if d := os.Getenv("XDG_STATE_HOME"); d != "" {
		return filepath.Join(d, "ckadrill"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "ckadrill"), nil
}

func resumeCommand() *cobra.Command {
	var f worldFlags
	c := &cobra.Command{
		Use:   "resume [DIR]",
		Short: "Go on with a session, the latest if none is named",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 1 {
				dir = args[0]
			} else {
				base, err := stateDir()
				if err != nil {
					return err
				}
				l, err := os.ReadDir(filepath.Join(base, "sessions"))
				if err != nil || len(l) == 0 {
					return fmt.Errorf("there is no session to go on with")
				}
				dir = filepath.Join(base, "sessions", l[len(l)-1].Name())
			}
			if _, err := os.Stat(dir); err != nil {
				return err
			}
			s, err := session.Open(dir)
			if err != nil {
				return err
			}
			if s.Empty() {
				s.Close()
				return fmt.Errorf("the session in %s is empty", dir)
			}
			return resume(s, f, input{})
		},
	}
	f.add(c)
	return c
}
