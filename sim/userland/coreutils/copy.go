package coreutils

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

const (
	createFlag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	appendFlag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
)

// copier is one run of cp, or of mv between file systems, or of install.
type copier struct {
	c                                                                                        *libc.Prog
	recursive, force, interactive, noClobber, update, verbose, attributes, linkOnly, symlink bool
	preserveMode, preserveOwner, preserveTimes                                               bool
	follow                                                                                   byte // 'L' all links, 'H' those named, 'P' none
	removeFirst, parents                                                                     bool
	backup                                                                                   string
	answers                                                                                  *bufio.Reader
	links                                                                                    map[uint64]string
}

func cp(c *libc.Prog) int {
	opts, operands, ok := c.Options("abdfHilLnPprRst:TuvxS:Z", "archive|a", "backup::", "force|f", "interactive|i", "link|l", "dereference|L", "no-clobber|n", "no-dereference|P", "preserve::",
		"no-preserve:", "recursive|r", "symbolic-link|s", "target-directory:|t", "no-target-directory|T", "update::|u", "verbose|v", "one-file-system|x", "parents", "remove-destination", "suffix:|S",
		"reflink::", "sparse:", "attributes-only", "strip-trailing-slashes")
	if !ok {
		return c.Status
	}
	k := &copier{c: c, links: map[uint64]string{}}
	target, noTarget := "", false
	preserve := func(list string, on bool) {
		for _, a := range strings.Split(list, ",") {
			switch a {
			case "mode":
				k.preserveMode = on
			case "ownership":
				k.preserveOwner = on
			case "timestamps":
				k.preserveTimes = on
			case "all":
				k.preserveMode, k.preserveOwner, k.preserveTimes = on, on, on
			}
		}
	}
	for _, o := range opts {
		switch o.Name {
		case "a":
			k.recursive, k.follow = true, 'P'
			preserve("all", true)
		case "b":
			k.backup = "~"
		case "backup":
			k.backup = "~"
		case "S":
			k.backup = o.Value
		case "d":
			k.follow = 'P'
		case "f":
			k.force = true
		case "i":
			k.interactive, k.noClobber = true, false
		case "n":
			k.noClobber, k.interactive = true, false
		case "H", "L", "P":
			k.follow = o.Name[0]
		case "l":
			k.linkOnly = true
		case "s":
			k.symlink = true
		case "p":
			preserve("all", true)
		case "preserve":
			if o.Value == "" {
				o.Value = "all"
			}
			preserve(o.Value, true)
		case "no-preserve":
			preserve(o.Value, false)
		case "r", "R":
			k.recursive = true
		case "t":
			target = o.Value
		case "T":
			noTarget = true
		case "u":
			k.update = true
		case "v":
			k.verbose = true
		case "parents":
			k.parents = true
		case "remove-destination":
			k.removeFirst = true
		}
	}
	if k.follow == 0 {
		k.follow = 'L'
		if k.recursive {
			k.follow = 'P'
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
			if k.parents {
				to = joinName(dest, s)
				if err := c.Files.MkdirAll(c.Path(path.Dir(to)), 0o755); err != nil {
					c.Fail("cannot make directory %s: %s", libc.Quote(path.Dir(to)), libc.Strerror(err))
					continue
				}
			}
			if b := path.Base(path.Clean(s)); b == "." || b == ".." {
				to = dest
			}
		}
		k.copy(s, to, true)
	}
	return c.Status
}

// joinName joins names as GNU programs show them: dir/name.
func joinName(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// destination splits the operands of cp, mv and ln into sources and their destination.
func destination(c *libc.Prog, operands []string, target string, noTarget bool) (sources []string, dest string, intoDir, ok bool) {
	if target != "" {
		if len(operands) == 0 {
			c.Warn("missing file operand")
			c.Status = c.TryHelp()
			return nil, "", false, false
		}
		if i, err := c.Files.Stat(c.Path(target)); err != nil {
			c.Fail("target directory %s: %s", libc.Quote(target), libc.Strerror(err))
			return nil, "", false, false
		} else if !i.IsDir() {
			c.Fail("target directory %s: %s", libc.Quote(target), libc.Strerror(syscall.ENOTDIR))
			return nil, "", false, false
		}
		return operands, target, true, true
	}
	switch len(operands) {
	case 0:
		c.Warn("missing file operand")
		c.Status = c.TryHelp()
		return nil, "", false, false
	case 1:
		c.Warn("missing destination file operand after %s", libc.Quote(operands[0]))
		c.Status = c.TryHelp()
		return nil, "", false, false
	}
	sources, dest = operands[:len(operands)-1], operands[len(operands)-1]
	i, err := c.Files.Stat(c.Path(dest))
	isDir := err == nil && i.IsDir() && !noTarget
	if noTarget && len(sources) > 1 {
		c.Status = c.ExtraOperand(operands[2])
		return nil, "", false, false
	}
	if len(sources) > 1 && !isDir {
		if err == nil {
			err = syscall.ENOTDIR
		}
		c.Fail("target %s: %s", libc.Quote(dest), libc.Strerror(err))
		return nil, "", false, false
	}
	return sources, dest, isDir, true
}

// statName is stat(2) of a name as it was given: a trailing slash demands a directory.
func statName(c *libc.Prog, name string, follow bool) (fs.FileInfo, error) {
	if name == "" {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.ENOENT}
	}
	slash := strings.HasSuffix(name, "/")
	var i fs.FileInfo
	var err error
	if follow || slash {
		i, err = c.Files.Stat(c.Path(name))
	} else {
		i, err = c.Files.Lstat(c.Path(name))
	}
	if err == nil && slash && !i.IsDir() {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.ENOTDIR}
	}
	return i, err
}

func (k *copier) copy(from, to string, named bool) bool {
	c := k.c
	if !c.Alive() {
		return false
	}
	follow := k.follow == 'L' || named && k.follow == 'H'
	src, err := statName(c, from, follow)
	if err != nil {
		if c.Busybox {
			c.Fail("can't stat '%s': %s", from, libc.Strerror(err))
		} else {
			c.Fail("cannot stat %s: %s", libc.Quote(from), libc.Strerror(err))
		}
		return false
	}
	if src.IsDir() && !k.recursive {
		if c.Busybox {
			c.Fail("omitting directory '%s'", from)
		} else {
			c.Fail("-r not specified; omitting directory %s", libc.Quote(from))
		}
		return false
	}
	dst, dstErr := c.Files.Lstat(c.Path(to))
	if dstErr == nil {
		real := dst
		if i, err := c.Files.Stat(c.Path(to)); err == nil {
			real = i
		}
		if srcReal, err := c.Files.Stat(c.Path(from)); err == nil && sameFile(srcReal, real) && !(src.Mode()&fs.ModeSymlink != 0 && k.removeFirst) && k.backup == "" {
			c.Fail("%s and %s are the same file", libc.Quote(from), libc.Quote(to))
			return false
		}
		switch {
		case real.IsDir() && !src.IsDir():
			c.Fail("cannot overwrite directory %s with non-directory", libc.Quote(to))
			return false
		case !real.IsDir() && src.IsDir():
			c.Fail("cannot overwrite non-directory %s with directory %s", libc.Quote(to), libc.Quote(from))
			return false
		}
		if !src.IsDir() {
			if k.noClobber || k.update && !src.ModTime().After(real.ModTime()) {
				return true
			}
			if k.interactive && !k.ask("overwrite %s? ", libc.Quote(to)) {
				return true
			}
			if k.backup != "" {
				if err := c.Files.Rename(c.Path(to), c.Path(to)+k.backup); err != nil {
					c.Fail("cannot backup %s: %s", libc.Quote(to), libc.Strerror(err))
					return false
				}
				dstErr = fs.ErrNotExist
			} else if k.removeFirst || k.linkOnly && k.force || k.symlink && k.force {
				c.Files.Remove(c.Path(to))
				dstErr = fs.ErrNotExist
			}
		}
	}
	switch {
	case src.IsDir():
		return k.copyDir(from, to, src, dstErr == nil)
	case k.symlink:
		err = c.Files.Symlink(from, c.Path(to))
		return k.made("symbolic link", from, to, err)
	case k.linkOnly:
		err = c.Files.Link(c.Path(from), c.Path(to))
		if err != nil {
			c.Fail("cannot create hard link %s to %s: %s", libc.Quote(to), libc.Quote(from), libc.Strerror(err))
			return false
		}
		k.tell(from, to)
		return true
	case src.Mode()&fs.ModeSymlink != 0:
		target, err := c.Files.Readlink(c.Path(from))
		if err == nil {
			if dstErr == nil {
				c.Files.Remove(c.Path(to))
			}
			err = c.Files.Symlink(target, c.Path(to))
		}
		if err == nil && k.preserveOwner {
			st := libc.Stat(src)
			c.Files.Lchown(c.Path(to), st.UID, st.GID)
		}
		return k.made("symbolic link", from, to, err)
	case !src.Mode().IsRegular() && k.recursive && !k.readable(src):
		c.Fail("ckadrill does not simulate copying the special file %s", libc.Quote(from))
		return false
	}
	if st := libc.Stat(src); st.Nlink > 1 && k.preserveMode && k.recursive {
		if old, seen := k.links[st.Inode]; seen {
			if dstErr == nil {
				c.Files.Remove(c.Path(to))
			}
			err := c.Files.Link(c.Path(old), c.Path(to))
			return k.made("hard link", from, to, err)
		}
		k.links[st.Inode] = to
	}
	return k.copyFile(from, to, src, dstErr == nil)
}

// readable says that a special file can be read as data, as /dev/zero could be.
func (k *copier) readable(i fs.FileInfo) bool { return i.Mode()&fs.ModeCharDevice != 0 && !k.recursive }

func (k *copier) made(what, from, to string, err error) bool {
	if err != nil {
		k.c.Fail("cannot create %s %s: %s", what, libc.Quote(to), libc.Strerror(err))
		return false
	}
	k.tell(from, to)
	return true
}

func (k *copier) tell(from, to string) {
	if k.verbose {
		k.c.Put("%s -> %s\n", libc.Quote(from), libc.Quote(to))
	}
}

func (k *copier) copyFile(from, to string, src fs.FileInfo, exists bool) bool {
	c := k.c
	in, err := c.Open(from)
	if err != nil {
		if c.Busybox {
			c.Fail("can't open '%s': %s", from, libc.Strerror(err))
		} else {
			c.Fail("cannot open %s for reading: %s", libc.Quote(from), libc.Strerror(err))
		}
		return false
	}
	defer in.Close()
	mode := src.Mode().Perm()
	if strings.HasSuffix(to, "/") {
		c.Fail("cannot create regular file %s: %s", libc.Quote(to), libc.Strerror(syscall.ENOTDIR))
		return false
	}
	open := func() (kernel.File, error) {
		if exists {
			return c.Files.OpenFile(c.Path(to), os.O_WRONLY|os.O_TRUNC, 0)
		}
		return c.Files.OpenFile(c.Path(to), createFlag|os.O_EXCL, mode)
	}
	out, err := open()
	if err != nil && exists && k.force {
		if c.Files.Remove(c.Path(to)) == nil {
			exists = false
			out, err = open()
		}
	}
	if err != nil {
		if !exists && errors.Is(err, fs.ErrExist) {
			c.Fail("not writing through dangling symlink %s", libc.Quote(to))
			return false
		}
		if c.Busybox {
			c.Fail("can't create '%s': %s", to, libc.Strerror(err))
		} else {
			c.Fail("cannot create regular file %s: %s", libc.Quote(to), libc.Strerror(err))
		}
		return false
	}
	_, err = io.Copy(writerOnly{out}, in)
	out.Close()
	if err != nil {
		c.Fail("error writing %s: %s", libc.Quote(to), libc.Strerror(err))
		return false
	}
	k.tell(from, to)
	k.keep(to, src, from)
	return true
}

// writerOnly hides an optional ReadFrom.
type writerOnly struct{ io.Writer }

// keep gives a copy the owner, mode and times of its source, as far as asked for.
func (k *copier) keep(to string, src fs.FileInfo, from string) {
	c, st := k.c, libc.Stat(src)
	if k.preserveOwner {
		if err := c.Files.Chown(c.Path(to), st.UID, st.GID); err != nil && !errors.Is(err, fs.ErrPermission) {
			c.Fail("failed to preserve ownership for %s: %s", libc.Quote(to), libc.Strerror(err))
		}
	}
	if k.preserveMode {
		if err := c.Files.Chmod(c.Path(to), src.Mode()); err != nil {
			c.Fail("preserving permissions for %s: %s", libc.Quote(to), libc.Strerror(err))
		}
	}
	if k.preserveTimes {
		if err := c.Files.Chtimes(c.Path(to), st.Atime, src.ModTime()); err != nil {
			c.Fail("preserving times for %s: %s", libc.Quote(to), libc.Strerror(err))
		}
	}
}

func (k *copier) copyDir(from, to string, src fs.FileInfo, exists bool) bool {
	c := k.c
	if a, err := c.Files.EvalSymlinks(c.Path(from)); err == nil {
		parent, err := c.Files.EvalSymlinks(path.Dir(c.Path(to)))
		if err == nil && (parent == a || strings.HasPrefix(parent, strings.TrimSuffix(a, "/")+"/")) {
			c.Fail("cannot copy a directory, %s, into itself, %s", libc.Quote(from), libc.Quote(to))
			return false
		}
	}
	list, err := c.Files.ReadDir(c.Path(from))
	if err != nil {
		c.Fail("cannot access %s: %s", libc.Quote(from), libc.Strerror(err))
		return false
	}
	if !exists {
		if err := c.Files.Mkdir(c.Path(to), src.Mode().Perm()|0o700); err != nil {
			c.Fail("cannot create directory %s: %s", libc.Quote(to), libc.Strerror(err))
			return false
		}
		k.tell(from, to)
	}
	ok := true
	for _, e := range list {
		ok = k.copy(joinName(from, e.Name()), joinName(to, e.Name()), false) && ok
	}
	if !exists && !k.preserveMode && src.Mode().Perm()&0o700 != 0o700 {
		c.Files.Chmod(c.Path(to), src.Mode())
	}
	k.keep(to, src, from)
	return ok
}

// ask prompts and says whether the answer was yes.
func (k *copier) ask(format string, a ...any) bool {
	if k.answers == nil {
		k.answers = bufio.NewReader(k.c.Stdin)
	}
	return confirm(k.c, k.answers, format, a...)
}

// confirm prompts on standard error and reads a line: yes is what begins with y.
func confirm(c *libc.Prog, answers *bufio.Reader, format string, a ...any) bool {
	c.Out.Flush()
	prompt := c.Name + ": " + sprintf(format, a...)
	var s string
	if c.IsTerminal(c.Stdin) {
		s, _ = c.TTY.ReadLine(prompt, nil)
	} else {
		c.Errorf("%s", prompt)
		s, _ = answers.ReadString('\n')
	}
	return strings.HasPrefix(strings.ToLower(s), "y")
}

// install copies files and sets their modes.
func install(c *libc.Prog) int {
	opts, operands, ok := c.Options("bcCdDg:m:o:pst:Tv", "directory|d", "group:|g", "mode:|m", "owner:|o", "preserve-timestamps|p", "strip|s", "target-directory:|t", "no-target-directory|T", "verbose|v", "compare|C")
	if !ok {
		return c.Status
	}
	k := &copier{c: c, follow: 'L', removeFirst: true, links: map[uint64]string{}}
	directories, leading, target, noTarget, mode, owner := false, false, "", false, "755", ""
	for _, o := range opts {
		switch o.Name {
		case "d":
			directories = true
		case "D":
			leading = true
		case "m":
			mode = o.Value
		case "o":
			owner = o.Value + owner
		case "g":
			owner += ":" + o.Value
		case "p":
			k.preserveTimes = true
		case "t":
			target = o.Value
		case "T":
			noTarget = true
		case "v":
			k.verbose = true
		}
	}
	finish := func(name string) {
		if change, err := parseMode(mode, 0); err != nil {
			c.Fail("invalid mode %s", c.Quote(mode))
		} else if i, err := c.Files.Stat(c.Path(name)); err == nil {
			c.Files.Chmod(c.Path(name), libc.ModeOf(change(0, i.IsDir())))
		}
		if owner != "" {
			uid, gid, text := parseOwner(c, owner)
			if text != "" {
				c.Fail("%s", text)
			} else if err := c.Files.Chown(c.Path(name), uid, gid); err != nil {
				c.Fail("cannot change ownership of %s: %s", libc.Quote(name), libc.Strerror(err))
			}
		}
	}
	if directories {
		for _, n := range operands {
			if err := c.Files.MkdirAll(c.Path(n), 0o755); err != nil {
				c.Fail("cannot create directory %s: %s", libc.Quote(n), libc.Strerror(err))
				continue
			}
			finish(n)
		}
		return c.Status
	}
	if leading && len(operands) == 2 && target == "" {
		c.Files.MkdirAll(path.Dir(c.Path(operands[1])), 0o755)
	}
	sources, dest, intoDir, ok := destination(c, operands, target, noTarget)
	if !ok {
		return c.Status
	}
	for _, s := range sources {
		to := dest
		if intoDir {
			to = joinName(dest, path.Base(s))
		}
		if k.copy(s, to, true) {
			finish(to)
		}
	}
	return c.Status
}
