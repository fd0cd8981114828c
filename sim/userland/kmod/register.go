// Package kmod is the package kmod of Ubuntu 24.04 (kmod 31), modprobe, lsmod and their like, and systemd-modules-load, which
// stands on the same library. Which modules there are is read from /lib/modules and /etc/modprobe.d.
package kmod

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Register adds the programs, and busybox's variants.
func Register(ps *kernel.Programs) {
	for name, run := range map[string]func(c *libc.Prog) int{
		"modprobe": modprobe, "rmmod": rmmod, "insmod": insmod, "lsmod": lsmod, "modinfo": modinfo, "depmod": depmod, "systemd-modules-load": modulesLoad,
	} {
		ps.Register(name, libc.Main(name, run))
		ps.Register("busybox-"+name, libc.Applet(name, run))
	}
}
