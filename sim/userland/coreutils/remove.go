package coreutils

import (
	"bufio"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// remover is one run of rm.
type remover struct {
	c                                                *libc.Prog
	recursive, force, interactive, emptyDir, verbose bool
	answers                                          *bufio.Reader
}

func rm(c *libc.Prog) int {
	opts, operands, ok := c.Options("dfiIrRv", "dir|d", "force|f", "interactive::", "recursive|r", "verbose|v", "preserve-root::", "no-preserve-root", "one-file-system")
	if !ok {
		return c.Status
	}
	r := &remover{c: c, answers: bufio.NewReader(c.Stdin)}
	once, keepRoot := false, true
	for _, o := range opts {
		switch o.Name {
		case "d":
			r.emptyDir = true
		case "f":
			r.force, r.interactive, once = true, false, false
		case "i":
			r.interactive, r.force = true, false
		case "I":
			once = true
		case "interactive":
			r.interactive, once = o.Value == "" || o.Value == "always", o.Value == "once"
		case "r", "R":
			r.recursive = true
		case "v":
			r.verbose = true
		case "no-preserve-root":
			keepRoot = false
		}
	}
	if len(operands) == 0 {
		if r.force {
			return 0
		}
		return c.MissingOperand()
	}
	if once && (len(operands) > 3 || r.recursive) {
		q := sprintf("remove %d arguments? ", len(operands))
		switch {
		case r.recursive && len(operands) == 1:
			q = "remove 1 argument recursively? "
		case r.recursive:
			q = sprintf("remove %d arguments recursively? ", len(operands))
		}
		if !confirm(c, r.answers, "%s", q) {
			return 0
		}
	}
	for _, n := range operands {
		if r.recursive && keepRoot && c.Path(n) == "/" {
			if n == "/" {
				c.Fail("it is dangerous to operate recursively on '/'")
			} else {
				c.Fail("it is dangerous to operate recursively on %s (same as '/')", libc.Quote(n))
			}
			c.Warn("use --no-preserve-root to override this failsafe")
			continue
		}
		if b := path.Base(n); r.recursive && (b == "." || b == "..") {
			c.Fail("refusing to remove '.' or '..' directory: skipping %s", libc.Quote(n))
			continue
		}
		r.remove(n)
	}
	return c.Status
}

func (r *remover) fail(name string, err error) bool {
	if r.c.Busybox {
		r.c.Fail("can't remove '%s': %s", name, libc.Strerror(err))
	} else {
		r.c.Fail("cannot remove %s: %s", libc.Quote(name), libc.Strerror(err))
	}
	return false
}

// remove removes a file or tree and says whether nothing of it is left.
func (r *remover) remove(name string) bool {
	c := r.c
	if !c.Alive() {
		return false
	}
	i, err := statName(c, name, false)
	if err != nil {
		if r.force && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
			return true
		}
		return r.fail(name, err)
	}
	if i.IsDir() && !r.recursive {
		if !r.emptyDir {
			if c.Busybox {
				c.Fail("'%s' is a directory", name)
				return false
			}
			return r.fail(name, syscall.EISDIR)
		}
	}
	if i.IsDir() {
		return r.removeDir(name, i)
	}
	if !r.mayRemove(name, i, "remove") {
		return false
	}
	if err := c.Files.Remove(c.Path(name)); err != nil {
		return r.fail(name, err)
	}
	if r.verbose {
		c.Put("removed %s\n", libc.Quote(name))
	}
	return true
}

func (r *remover) removeDir(name string, i fs.FileInfo) bool {
	c := r.c
	if r.recursive {
		list, err := c.Files.ReadDir(c.Path(name))
		if err != nil {
			return r.fail(name, err)
		}
		if len(list) > 0 {
			if r.interactive && !confirm(c, r.answers, "descend into directory %s? ", libc.Quote(name)) {
				return false
			}
			if !r.interactive && !r.mayRemove(name, i, "descend into") {
				return false
			}
		}
		whole := true
		for _, e := range list {
			whole = r.remove(joinName(name, e.Name())) && whole
		}
		if !whole {
			return false
		}
	}
	if r.interactive && !confirm(c, r.answers, "remove directory %s? ", libc.Quote(name)) {
		return false
	}
	if err := c.Files.Remove(c.Path(strings.TrimSuffix(name, "/"))); err != nil {
		return r.fail(name, err)
	}
	if r.verbose {
		c.Put("removed directory %s\n", libc.Quote(name))
	}
	return true
}

// mayRemove asks where rm asks: always with -i, and on a terminal for files that the user may not write to.
func (r *remover) mayRemove(name string, i fs.FileInfo, verb string) bool {
	protected := i.Mode()&fs.ModeSymlink == 0 && !bash.Access(r.c.Cred, i, 2)
	if r.force || !r.interactive && !(protected && r.c.IsTerminal(r.c.Stdin)) {
		return true
	}
	what := typeName(i)
	if protected {
		what = "write-protected " + what
	}
	return confirm(r.c, r.answers, "%s %s %s? ", verb, what, libc.Quote(name))
}

// typeName is a file's type as stat and rm word it.
func typeName(i fs.FileInfo) string {
	switch libc.TypeLetter(i.Mode()) {
	case 'd':
		return "directory"
	case 'l':
		return "symbolic link"
	case 'p':
		return "fifo"
	case 's':
		return "socket"
	case 'c':
		return "character special file"
	case 'b':
		return "block special file"
	}
	if i.Size() == 0 {
		return "regular empty file"
	}
	return "regular file"
}

func unlink(c *libc.Prog) int {
	_, operands, ok := c.Options("")
	if !ok {
		return c.Status
	}
	if len(operands) != 1 {
		return c.MissingOperand()
	}
	i, err := c.Files.Lstat(c.Path(operands[0]))
	if err == nil && i.IsDir() {
		err = syscall.EISDIR
	}
	if err == nil {
		err = c.Files.Remove(c.Path(operands[0]))
	}
	if err != nil {
		return c.Fail("cannot unlink %s: %s", libc.Quote(operands[0]), libc.Strerror(err))
	}
	return 0
}

func rmdir(c *libc.Prog) int {
	opts, operands, ok := c.Options("pv", "parents|p", "verbose|v", "ignore-fail-on-non-empty")
	if !ok {
		return c.Status
	}
	parents, verbose, ignore := false, false, false
	for _, o := range opts {
		parents = parents || o.Name == "p"
		verbose = verbose || o.Name == "v"
		ignore = ignore || o.Name == "ignore-fail-on-non-empty"
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	for _, n := range operands {
		for {
			if verbose {
				c.Put("rmdir: removing directory, %s\n", libc.Quote(n))
			}
			i, err := statName(c, n, false)
			if err == nil && !i.IsDir() {
				err = syscall.ENOTDIR
			}
			if err == nil {
				err = c.Files.Remove(c.Path(n))
			}
			if err != nil {
				if !(ignore && errors.Is(err, syscall.ENOTEMPTY)) {
					if c.Busybox {
						c.Fail("'%s': %s", n, libc.Strerror(err))
					} else {
						c.Fail("failed to remove %s: %s", libc.Quote(n), libc.Strerror(err))
					}
				}
				break
			}
			up := path.Dir(strings.TrimRight(n, "/"))
			if !parents || up == "." || up == "/" {
				break
			}
			n = up
		}
	}
	return c.Status
}
