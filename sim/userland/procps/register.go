// Package procps holds the commands that show and signal processes, and what a machine's memory, load and settings are: ps,
// top, kill, free, watch, sysctl and their like, as procps-ng 4.0 and busybox print them.
package procps

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Commands are the programs of this package by name.
var Commands = map[string]func(c *libc.Prog) int{
	"ps": ps, "kill": kill, "pgrep": pgrep, "pkill": pgrep, "pidof": pidof, "killall": killall, "top": top, "htop": htop, "free": free, "uptime": uptime, "w": w, "who": who, "watch": watch,
	"sysctl": sysctl, "systemd-sysctl": systemdSysctl, "dmesg": dmesg, "vmstat": notSimulated, "strace": notSimulated, "fuser": notSimulated, "iostat": notSimulated,
}

// Register adds the programs, and busybox's variants under "busybox-" and their names.
func Register(ps *kernel.Programs) {
	for name, run := range Commands {
		ps.Register(name, libc.Main(name, run))
		ps.Register("busybox-"+name, libc.Applet(name, run))
	}
}

func notSimulated(c *libc.Prog) int { return c.Fail("ckadrill does not simulate %s yet", c.Name) }
