package images

import (
	"ckadrill/sim/kernel"
)

// pause holds a Pod's namespaces until it is told to stop.
func pause(p *kernel.Process) int {
	if len(p.Argv) > 1 && p.Argv[1] == "-v" {
		p.Printf("pause.c 3.10.1\n")
		return 0
	}
	stop := make(chan struct{}, 1)
	for _, s := range []kernel.Signal{kernel.SIGINT, kernel.SIGTERM} {
		p.Notify(s, func() {
			p.Errorf("Shutting down, got signal: Terminated\n")
			select {
			case stop <- struct{}{}:
			default:
			}
		})
	}
	p.Notify(kernel.SIGCHLD, func() {})
	select {
	case <-stop:
	case <-p.Context().Done():
	}
	return 0
}
