// Package kubelet is the program "kubelet": upstream's own Kubelet, its sync loop, Pod workers, status generation, probes,
// volume manager and server, standing on a simulated machine.
//
// Upstream's constructor, NewMainKubelet, can not be called here: it opens /dev/kmsg, runs getsubids and starts informers
// that never end. So assemble.go puts the same parts into the same struct in the same order, and everything that upstream
// would ask of Linux is answered by the machine: its files (files.go, volumes), its hardware (hardware.go), its network
// (clients.go, prober.go, server.go) and its container runtime (runtime.go). upstream.go lists every unexported name that
// this takes.
package kubelet
