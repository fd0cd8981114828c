// Package controlplane is the control plane's three programs, kube-apiserver, kube-controller-manager and kube-scheduler:
// upstream's own code, assembled in upstream's order from a process's flags and files. What differs from upstream is
// only what they stand on: files, network, host name, version and exit belong to the simulated process.
//
// How upstream is brought under the process:
//   - files that upstream opens itself are private copies (see private), kept up to date, and their names are taken out of
//     whatever is printed;
//   - what listens and dials goes through the process's network;
//   - state that upstream keeps once per host process (feature gates, version, capabilities, grpc's channel numbers) is
//     set anew by each program that starts (see processwide.go).
package controlplane

import (
	_ "ckadrill/sim/controlplane/quietqueues" // before upstream sets its metrics
	"ckadrill/sim/kernel"

	_ "k8s.io/component-base/logs/json/register" // --logging-format=json, as upstream's main packages have it
)

// Register adds the programs to the world and tames what upstream keeps process-wide. It is called inside the bubble.
func Register(w *kernel.World) {
	tame(w)
	w.Programs.Register("kube-apiserver", runAPIServer)
	recorded, events := holdEventMemories(w), holdEventsAPIs(w)
	w.Programs.Register("kube-controller-manager", func(p *kernel.Process) int {
		recorded.give(p)
		return runControllerManager(p)
	})
	w.Programs.Register("kube-scheduler", func(p *kernel.Process) int {
		recorded.give(p)
		return runScheduler(p, events)
	})
}
