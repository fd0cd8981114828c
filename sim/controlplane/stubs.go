package controlplane

import "ckadrill/sim/kernel"

func runControllerManager(p *kernel.Process) int { return 1 }
func runScheduler(p *kernel.Process) int         { return 1 }
