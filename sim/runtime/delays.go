package runtime

import "time"

// How long what is ours takes, in simulated time: measured on real machines with containerd and runc, rounded.
const (
	// bootDelay is from the start of the daemon to its first answer.
	bootDelay = 120 * time.Millisecond
	// sandboxDelay is for a sandbox's shim and pause process, beside its network.
	sandboxDelay = 180 * time.Millisecond
	// createDelay is for a container's snapshot and spec; startDelay from the creation to the running process.
	createDelay = 30 * time.Millisecond
	startDelay  = 70 * time.Millisecond
	// execDelay is for runc to join a container's namespaces.
	execDelay = 40 * time.Millisecond
	// pullLatency is for the token and the manifest of an image; pullRate is how many bytes of its layers come in a second.
	pullLatency = 600 * time.Millisecond
	pullRate    = 40 << 20
)
