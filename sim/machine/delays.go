package machine

import "time"

// How long what is ours takes, in simulated time: measured on the virtual machines of a lab, rounded.
const (
	// bootDelay is from power-on to systemd: firmware, boot loader, kernel, initramfs.
	bootDelay = 8 * time.Second
	// haltDelay is from the last service's end to the moment the machine is off.
	haltDelay = 2 * time.Second
)
