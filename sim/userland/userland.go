// Package userland is the everyday commands of a simulated system, and what installs them.
package userland

import (
	"fmt"
	"path"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/admin"
	"ckadrill/sim/userland/apt"
	"ckadrill/sim/userland/archive"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/coreutils"
	"ckadrill/sim/userland/dpkg"
	"ckadrill/sim/userland/gnupg"
	"ckadrill/sim/userland/kmod"
	"ckadrill/sim/userland/layout"
	"ckadrill/sim/userland/netfilter"
	"ckadrill/sim/userland/nettools"
	"ckadrill/sim/userland/perl"
	"ckadrill/sim/userland/procps"
	"ckadrill/sim/userland/text"
	"ckadrill/sim/userland/yq"
)

// Register adds the shells and commands to the world.
func Register(ps *kernel.Programs) {
	bash.Register(ps)
	nettools.Register(ps)
	coreutils.Register(ps)
	text.Register(ps)
	procps.Register(ps)
	admin.Register(ps)
	kmod.Register(ps)
	netfilter.Register(ps)
	dpkg.Register(ps)
	apt.Register(ps)
	gnupg.Register(ps)
	archive.Register(ps)
	perl.Register(ps)
	yq.Register(ps)
}

// Install writes the executables and links of a system ("ubuntu", "busybox", "alpine", "debian-slim") where that system has
// them. A file that exists already is somebody else's and stays.
func Install(files kernel.Files, system string) error {
	commands, ok := layout.Commands(system)
	if !ok {
		return fmt.Errorf("userland: no system %q", system)
	}
	for _, c := range commands {
		if err := files.MkdirAll(path.Dir(c.Path), 0o755); err != nil {
			return err
		}
		if _, err := files.Lstat(c.Path); err == nil {
			continue
		}
		if c.Link != "" {
			if err := files.Symlink(c.Link, c.Path); err != nil {
				return err
			}
			continue
		}
		if err := files.WriteFile(c.Path, kernel.Executable(c.Program), 0o755); err != nil {
			return err
		}
		if c.Mode != 0 {
			if err := files.Chmod(c.Path, c.Mode); err != nil {
				return err
			}
		}
	}
	return nil
}
