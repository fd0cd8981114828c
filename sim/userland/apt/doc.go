// Package apt is Ubuntu's package tools of apt 2.8: apt-get, apt, apt-cache and apt-mark. They know the repositories that
// /etc/apt names, fetch over the machine's network, check signatures with the keys on the machine, and have dpkg do the rest.
package apt

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// version is apt's own.
const version = "2.8.3"

const architecture = "amd64"

// Register adds the programs.
func Register(ps *kernel.Programs) {
	for name, run := range map[string]func(c *libc.Prog) int{"apt-get": aptGet, "apt": apt, "apt-cache": aptCache, "apt-mark": aptMark} {
		ps.Register(name, libc.Main(name, run))
	}
}
