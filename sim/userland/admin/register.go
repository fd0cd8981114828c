// Package admin holds the commands of a machine's administrator: sudo, su, mounts, swap, kernel modules, power, editors and
// the host's name, with the words of their originals on Ubuntu 24.04.
package admin

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Commands are the programs of this package by name.
var Commands = map[string]func(c *libc.Prog) int{
	"sudo": sudo, "sudoedit": sudo, "su": su,
	"mount": mount, "umount": umount, "findmnt": findmnt, "lsblk": lsblk, "swapon": swapon, "swapoff": swapoff,
	"reboot": power, "poweroff": power, "shutdown": power, "halt": power, "hostnamectl": hostnamectl, "timedatectl": timedatectl, "crontab": crontab,
	"lsb_release": lsbRelease, "lscpu": lscpu, "mountpoint": mountpoint, "losetup": losetup,
	"vi": editor, "vim": editor, "nano": editor, "editor": editor, "emacs": notSimulated,
	"snap": notSimulated, "add-apt-repository": notSimulated,
	"useradd": notSimulated, "usermod": notSimulated, "userdel": notSimulated, "groupadd": notSimulated, "passwd": notSimulated, "adduser": notSimulated, "visudo": notSimulated,
	"nft": notSimulated, "tcpdump": notSimulated, "tmux": notSimulated, "screen": notSimulated, "man": notSimulated, "git": notSimulated,
	"chroot": chroot, "nsenter": nsenter, "unshare": notSimulated, "logger": logger, "mkfs.ext4": notSimulated, "fdisk": notSimulated, "mkswap": mkswap, "fallocate": fallocate, "loginctl": notSimulated,
}

// Register adds the programs, and busybox's variants under "busybox-" and their names.
func Register(ps *kernel.Programs) {
	for name, run := range Commands {
		ps.Register(name, libc.Main(name, run))
		ps.Register("busybox-"+name, libc.Applet(name, run))
	}
}

// notSimulated says that a program exists on the machine but not in the simulation.
func notSimulated(c *libc.Prog) int { return c.Fail("ckadrill does not simulate %s yet", c.Name) }
