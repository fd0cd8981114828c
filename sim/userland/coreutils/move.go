package coreutils

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

func sprintf(format string, a ...any) string { return fmt.Sprintf(format, a...) }

func mv(c *libc.Prog) int {
	opts, operands, ok := c.Options("bfint:TuvS:Z", "backup::", "force|f", "interactive|i", "no-clobber|n", "target-directory:|t", "no-target-directory|T", "update::|u", "verbose|v", "suffix:|S",
		"strip-trailing-slashes")
	if !ok {
		return c.Status
	}
	k := &copier{c: c, recursive: true, follow: 'P', preserveMode: true, preserveOwner: true, preserveTimes: true, links: map[uint64]string{}}
	target, noTarget := "", false
	for _, o := range opts {
		switch o.Name {
		case "b", "backup":
			k.backup = "~"
		case "S":
			k.backup = o.Value
		case "f":
			k.force, k.interactive, k.noClobber = true, false, false
		case "i":
			k.interactive, k.force, k.noClobber = true, false, false
		case "n":
			k.noClobber, k.interactive = true, false
		case "t":
			target = o.Value
		case "T":
			noTarget = true
		case "u":
			k.update = true
		case "v":
			k.verbose = true
		}
	}
	sources, dest, intoDir, ok := destination(c, operands, target, noTarget)
	if !ok {
		return c.Status
	}
	for _, s := range sources {
		to := dest
		if intoDir {
			to = joinName(dest, path.Base(path.Clean(s)))
		}
		k.move(s, to)
	}
	return c.Status
}

func (k *copier) move(from, to string) {
	c := k.c
	src, err := statName(c, from, false)
	if err != nil {
		if c.Busybox {
			c.Fail("can't rename '%s': %s", from, libc.Strerror(err))
		} else {
			c.Fail("cannot stat %s: %s", libc.Quote(from), libc.Strerror(err))
		}
		return
	}
	if dst, err := c.Files.Lstat(c.Path(to)); err == nil {
		switch {
		case sameFile(src, dst):
			c.Fail("%s and %s are the same file", libc.Quote(from), libc.Quote(to))
			return
		case dst.IsDir() && !src.IsDir():
			c.Fail("cannot overwrite directory %s with non-directory", libc.Quote(to))
			return
		case !dst.IsDir() && src.IsDir():
			c.Fail("cannot overwrite non-directory %s with directory %s", libc.Quote(to), libc.Quote(from))
			return
		case k.noClobber, k.update && !src.ModTime().After(dst.ModTime()):
			return
		case k.interactive:
			if !k.ask("overwrite %s? ", libc.Quote(to)) {
				return
			}
		case !k.force && c.IsTerminal(c.Stdin) && dst.Mode()&fs.ModeSymlink == 0 && !bash.Access(c.Cred, dst, 2):
			if !k.ask("replace %s, overriding mode %04o (%s)? ", libc.Quote(to), libc.ModeBits(dst.Mode()), libc.ModeString(dst.Mode())[1:]) {
				return
			}
		}
		if k.backup != "" {
			if err := c.Files.Rename(c.Path(to), c.Path(to)+k.backup); err != nil {
				c.Fail("cannot backup %s: %s", libc.Quote(to), libc.Strerror(err))
				return
			}
		}
	}
	if src.IsDir() && (c.Path(to) == c.Path(from) || strings.HasPrefix(c.Path(to), c.Path(from)+"/")) {
		c.Fail("cannot move %s to a subdirectory of itself, %s", libc.Quote(from), libc.Quote(to))
		return
	}
	err = c.Files.Rename(c.Path(from), c.Path(to))
	switch {
	case err == nil:
		if k.verbose {
			c.Put("renamed %s -> %s\n", libc.Quote(from), libc.Quote(to))
		}
	case errors.Is(err, syscall.EXDEV):
		k.moveAcross(from, to)
	case errors.Is(err, syscall.ENOTEMPTY):
		c.Fail("cannot overwrite %s: %s", libc.Quote(to), libc.Strerror(err))
	case c.Busybox:
		c.Fail("can't rename '%s': %s", from, libc.Strerror(err))
	default:
		c.Fail("cannot move %s to %s: %s", libc.Quote(from), libc.Quote(to), libc.Strerror(err))
	}
}

// moveAcross moves between file systems: a copy, and then the removal of the original.
func (k *copier) moveAcross(from, to string) {
	n := *k
	n.removeFirst, n.verbose = true, false
	if !n.copy(from, to, true) {
		return
	}
	if k.verbose {
		k.c.Put("copied %s -> %s\n", libc.Quote(from), libc.Quote(to))
	}
	r := &remover{c: k.c, recursive: true, force: true, verbose: k.verbose}
	r.remove(from)
}
