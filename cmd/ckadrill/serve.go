package main

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"ckadrill/sim/front"
	"ckadrill/sim/front/outside"
	"ckadrill/sim/session"
)

func serveCommand() *cobra.Command {
	var f worldFlags
	var port int
	var kubeconfig string
	c := &cobra.Command{
		Use:   "serve",
		Short: "The cluster's API on 127.0.0.1, for kubectl, k9s, helm and other clients of yours",
		Long: `Starts a cluster, or goes on with a session, and lets programs of yours in to its API, over TLS on 127.0.0.1 alone.
It writes a kubeconfig that only you can read, and prints its path; your own ~/.kube/config is left alone unless --kubeconfig
names it. The certificates in it are made anew at each start, and only who has that file, or a token of the cluster, gets in.

Simulated time follows yours, or runs --speed times as fast. Ctrl-C or SIGTERM ends it, and the session is kept.`,
		Example: `  ckadrill serve
  KUBECONFIG=~/.local/state/ckadrill/.../kubeconfig kubectl get nodes
  ckadrill serve --session /tmp/s --speed 10 --kubeconfig /tmp/s.conf --port 16443
  ckadrill shell --session /tmp/s          afterwards, on the same cluster`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.speed <= 0 || f.speed > maxServeSpeed {
				return fmt.Errorf("--speed must be more than 0 and not more than %v: time passes for your programs too", maxServeSpeed)
			}
			if port < 0 || port > 65535 {
				return fmt.Errorf("--port must be from 0, which is any, to 65535")
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			s, err := openSession(f.session)
			if err != nil {
				return err
			}
			if kubeconfig == "" {
				kubeconfig = filepath.Join(s.Dir(), "kubeconfig")
			}
			if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
				s.Close()
				return err
			}
			return serve(ctx, s, f, port, kubeconfig)
		},
	}
	c.Flags().Uint64Var(&f.seed, "seed", 1, "what all randomness of the world comes from")
	c.Flags().StringVar(&f.preset, "cluster", "reference", presetUsage())
	c.Flags().StringVar(&f.session, "session", "", "directory that keeps the session; one that is there goes on")
	c.Flags().Float64Var(&f.speed, "speed", 1, "simulated seconds for one of yours")
	c.Flags().IntVar(&port, "port", 0, "port on 127.0.0.1; 0 takes a free one")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "where to write the kubeconfig (default: in the session's directory)")
	return c
}

const maxServeSpeed = 3600

func serve(ctx context.Context, s *session.Session, f worldFlags, port int, kubeconfig string) error {
	if !s.Empty() {
		if err := f.restore(s); err != nil {
			s.Close()
			return err
		}
	}
	p := &front.Play{Boot: f.boot(), Session: s, Say: say}
	if err := p.Open(); err != nil {
		s.Close()
		return err
	}
	defer p.Close()
	o, err := outside.New(p, port, kubeconfig)
	if err != nil {
		return err
	}
	fmt.Printf("The API of the cluster is at https://%s; Ctrl-C ends it.\n  export KUBECONFIG=%s\n", o.Address(), kubeconfig)
	if err := o.Run(ctx); err != nil {
		return err
	}
	fmt.Printf("The session is kept in %s.\n", s.Dir())
	return nil
}
