package kubeadm

import (
	"ckadrill/sim/kernel"
)

// Register adds the program "kubeadm" to the world.
func Register(w *kernel.World) {
	w.Programs.Register("kubeadm", func(p *kernel.Process) int { return (&command{p: p}).run() })
}
