// Package dpkg is Debian's package manager as Ubuntu 24.04 has it (dpkg 1.22): dpkg, dpkg-query and dpkg-deb. What is
// installed is what the files below /var/lib/dpkg say, and a package is what its archive holds.
package dpkg

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// version is dpkg's own.
const version = "1.22.6"

// Register adds the programs.
func Register(ps *kernel.Programs) {
	for name, run := range map[string]func(c *libc.Prog) int{"dpkg": dpkg, "dpkg-query": query, "dpkg-deb": dpkgDeb} {
		ps.Register(name, libc.Main(name, run))
	}
}
