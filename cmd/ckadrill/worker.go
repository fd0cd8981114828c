package main

import (
	"os"

	"ckadrill/shell/crictl"
	"ckadrill/shell/kubectl"
	"ckadrill/shell/openssl"
	"ckadrill/sim"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm/presets"
	"ckadrill/sim/wire"
	"ckadrill/sim/worker"
)

// runWorker makes this process a worker: standard input and output are the front's.
func runWorker() {
	in, out := os.Stdin, os.Stdout
	// What upstream prints to the host's streams must not get between the messages.
	os.Stdout = os.Stderr
	worker.Main(in, out, assemble)
}

// assemble builds the world of a boot message with the programs of all rooms.
func assemble(w *kernel.World, b *wire.Boot) (worker.World, error) {
	spec, err := presets.Get(b.Preset)
	if err != nil {
		return nil, err
	}
	kubectl.Register(w)
	crictl.Register(w)
	openssl.Register(w)
	c, err := sim.New(w, spec)
	if err != nil {
		return nil, err
	}
	if b.Parts != nil {
		return c, c.Thaw(b.Parts)
	}
	return c, c.Build()
}
