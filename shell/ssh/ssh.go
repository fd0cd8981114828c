// Package ssh is OpenSSH 9.6 between the machines of a lab: the commands ssh and scp, and the daemon sshd. The connection,
// the banners and what fails on the way are those of the simulated network; what is said after the banners is a protocol
// of the simulation's own. Nothing is encrypted, and no keys are kept: a lab's users reach each other's machines without a
// password, as in an exam.
package ssh

import "ckadrill/sim/kernel"

// Register adds the programs ssh, scp and sshd to the world.
func Register(ps *kernel.Programs) {
	ps.Register("ssh", client)
	ps.Register("scp", scp)
	ps.Register("sshd", daemon)
}

const (
	release  = "OpenSSH_9.6p1 Ubuntu-3ubuntu13.14"
	banner   = "SSH-2.0-" + release + "\r\n"
	fullName = release + ", OpenSSL 3.0.13 30 Jan 2024"
)

// failure is ssh's exit status when it is ssh itself that failed.
const failure = 255
