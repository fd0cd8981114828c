// Package archive holds tar, gzip and their like.
package archive

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Commands are the programs of this package by name.
var Commands = map[string]func(c *libc.Prog) int{
	"tar": tar, "gzip": gzip, "gunzip": gzip, "zcat": gzip, "bzip2": notSimulated, "xz": notSimulated, "zip": notSimulated, "unzip": notSimulated, "bunzip2": notSimulated,
}

// Register adds the programs, and busybox's variants under "busybox-" and their names.
func Register(ps *kernel.Programs) {
	for name, run := range Commands {
		ps.Register(name, libc.Main(name, run))
		ps.Register("busybox-"+name, libc.Applet(name, run))
	}
}

func notSimulated(c *libc.Prog) int { return c.Fail("ckadrill does not simulate %s yet", c.Name) }
