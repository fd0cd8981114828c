package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckadrill/shell/terminal"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm/presets"
	"ckadrill/sim/ready"
	"ckadrill/sim/wire"
)

// presetCommand makes the states that are embedded in the program: a cluster is built by kubeadm's phases, comes to rest,
// and is frozen.
func presetCommand() *cobra.Command {
	var rest time.Duration
	c := &cobra.Command{
		Use:    "preset DIR [NAME...]",
		Short:  "Build the embedded clusters",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			names := args[1:]
			if len(names) == 0 {
				names = presets.Names()
			}
			for _, name := range names {
				var err error
				for seed := range uint64(presetAttempts) {
					if err = buildPreset(name, seed+1, args[0], rest); err == nil {
						break
					}
					fmt.Fprintln(os.Stderr, name, "with seed", seed+1, "is not as it shall be:", firstLine(err))
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		},
	}
	c.Flags().DurationVar(&rest, "rest", 15*time.Minute, "how long a new cluster rests before it is frozen, in simulated time")
	return c
}

// presetAttempts is with how many seeds a preset is tried: its nodes' Pod networks must come in the machines' order, which
// upstream does not promise.
const presetAttempts = 8

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

func buildPreset(name string, seed uint64, dir string, rest time.Duration) error {
	f := worldFlags{seed: seed, preset: name, fresh: true}
	w, r, err := startWorld(f.boot())
	if err != nil {
		return err
	}
	defer w.Close()
	parts := kernel.Parts{}
	r.Delta.Apply(parts)
	done, err := w.Skip(rest)
	if err != nil {
		return err
	}
	done.Delta.Apply(parts)
	if err := inOrder(f, parts); err != nil {
		return err
	}
	b, err := ready.Pack(parts)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name+".state")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d parts, %d KiB, %s\n", file, len(parts), len(b)>>10, done.Date.UTC().Format(time.RFC3339))
	return nil
}

// inOrder checks in a copy of a cluster that its nodes have the Pod networks that the preset names.
func inOrder(f worldFlags, parts kernel.Parts) error {
	cluster, err := presets.Get(f.preset)
	if err != nil {
		return err
	}
	boot := f.boot()
	boot.Parts, boot.Fresh = parts, false
	w, _, err := startWorld(boot)
	if err != nil {
		return err
	}
	defer w.Kill()
	var script strings.Builder
	for _, m := range cluster.Machines {
		if m.PodCIDR.IsValid() {
			fmt.Fprintf(&script, "kubectl get node %s -o jsonpath='{.metadata.name} {.spec.podCIDR}' | grep -v ' %s$'\n", m.Name, m.PodCIDR)
		}
	}
	out := terminal.Batch{Limit: 1 << 20, Stop: w.Kill}
	if _, err := w.Run(wire.Run{Shell: "main", Script: script.String()}, &out); err != nil {
		return err
	}
	if t := strings.TrimSpace(string(out.Text())); t != "" {
		return fmt.Errorf("a node has another Pod network: %s", t)
	}
	return nil
}
