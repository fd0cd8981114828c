// Package userland is the everyday commands of a simulated system, and what installs them.
package userland

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/admin"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/coreutils"
	"ckadrill/sim/userland/nettools"
	"ckadrill/sim/userland/procps"
	"ckadrill/sim/userland/text"
)

// Register adds the shells and commands to the world.
func Register(ps *kernel.Programs) {
	bash.Register(ps)
	nettools.Register(ps)
	coreutils.Register(ps)
	text.Register(ps)
	procps.Register(ps)
	admin.Register(ps)
}

// netCommands are those of nettools that a machine has.
var netCommands = []string{"curl", "dig", "getent", "host", "ip", "nc", "netstat", "nslookup", "ping", "ss", "wget"}

// superuser lists the commands that Ubuntu has in /usr/sbin.
var superuser = []string{"adduser", "chroot", "fdisk", "groupadd", "halt", "iptables", "iptables-save", "lsmod", "mkfs.ext4", "mkswap", "modprobe", "nft", "poweroff", "reboot", "shutdown",
	"swapoff", "swapon", "sysctl", "tcpdump", "ufw", "useradd", "userdel", "usermod", "visudo"}

// Install writes the executables of a set where that system has them. The only set here is "ubuntu", a machine's; those of
// container images are data of the image catalogue.
func Install(files kernel.Files, set string) error {
	if set != "ubuntu" {
		return fmt.Errorf("userland: no set of commands %q", set)
	}
	names := slices.Concat(netCommands, []string{"bash", "dash"}, slices.Collect(maps.Keys(coreutils.Commands)), slices.Collect(maps.Keys(text.Commands)),
		slices.Collect(maps.Keys(procps.Commands)), slices.Collect(maps.Keys(admin.Commands)))
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		dir := "/usr/bin/"
		if slices.Contains(superuser, n) {
			dir = "/usr/sbin/"
		}
		if err := files.WriteFile(dir+n, kernel.Executable(n), 0o755); err != nil {
			return err
		}
	}
	for _, n := range []string{"sudo", "su", "mount", "umount", "passwd"} {
		if err := files.Chmod("/usr/bin/"+n, fs.ModeSetuid|0o755); err != nil {
			return err
		}
	}
	return files.Symlink("dash", "/usr/bin/sh")
}
