package main

import (
	"fmt"
	"os"

	"ckadrill/faults"
	"ckadrill/grader"
	"ckadrill/shell/crictl"
	"ckadrill/shell/etcdctl"
	"ckadrill/shell/helm"
	"ckadrill/shell/journalctl"
	"ckadrill/shell/kubectl"
	"ckadrill/shell/openssl"
	"ckadrill/shell/ssh"
	"ckadrill/shell/systemctl"
	"ckadrill/sim"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm/presets"
	"ckadrill/sim/ready"
	"ckadrill/sim/wire"
	"ckadrill/sim/worker"
)

// runWorker makes this process a worker, which makes its world by the given functions: standard input and output are the
// front's.
func runWorker(prepare worker.Prepare, assemble worker.Assemble) {
	in, out, err := wireFiles()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ckadrill:", err)
		os.Exit(1)
	}
	// What upstream prints to the host's streams must not get between the messages.
	os.Stdout = os.Stderr
	worker.Main(in, out, prepare, assemble)
}

// prepare loads the embedded state of a preset, unless the front sent a state or wants the cluster built.
func prepare(b *wire.Boot) error {
	if b.Parts != nil || b.Fresh {
		return nil
	}
	parts, err := ready.State(b.Preset)
	b.Parts, b.Reseed = parts, true
	return err
}

// assemble builds the world of a boot message with the programs of all rooms.
func assemble(w *kernel.World, b *wire.Boot, thawed func()) (worker.World, error) {
	spec, err := presets.Get(b.Preset)
	if err != nil {
		return nil, err
	}
	kubectl.Register(w)
	crictl.Register(w)
	openssl.Register(w)
	etcdctl.Register(w)
	helm.Register(w)
	systemctl.Register(w.Programs)
	journalctl.Register(w.Programs)
	ssh.Register(w.Programs)
	grader.Register(w)
	c, err := sim.New(w, spec)
	if err != nil {
		return nil, err
	}
	grader.Handle(c)
	faults.Handle(c)
	if b.Parts == nil {
		if err := c.Build(); err != nil {
			return nil, err
		}
		return c, installGrader(c)
	}
	if err := c.Thaw(b.Parts, thawed); err != nil {
		return nil, err
	}
	if b.Reseed { // the embedded state: the candidate has not begun yet
		w.Reseed(b.Seed)
		return c, installGrader(c)
	}
	return c, nil
}

// installGrader writes the programs that a candidate talks to the examiner with.
func installGrader(c *sim.Cluster) error {
	for _, m := range c.Machines() {
		if err := grader.Install(m.Files(kernel.Root)); err != nil {
			return err
		}
	}
	return nil
}
