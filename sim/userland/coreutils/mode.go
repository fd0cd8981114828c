package coreutils

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"ckadrill/sim/userland/libc"
)

var errMode = errors.New("invalid mode")

// parseMode reads an octal or symbolic mode of chmod(1). The result computes new permission bits from old ones.
func parseMode(s string, umask int) (func(old int, dir bool) int, error) {
	if s != "" && strings.Trim(s, "01234567") == "" {
		n, err := strconv.ParseInt(s, 8, 32)
		if err != nil || n > 0o7777 {
			return nil, errMode
		}
		return func(old int, dir bool) int {
			if dir && len(s) < 5 { // numeric modes keep a directory's set-id bits unless given in full
				return int(n) | old&0o6000
			}
			return int(n)
		}, nil
	}
	type clause struct {
		who   int // bits that may change
		all   bool
		op    byte
		perms string
	}
	var cs []clause
	for _, part := range strings.Split(s, ",") {
		i, c := 0, clause{}
	who:
		for ; i < len(part); i++ {
			switch part[i] {
			case 'u':
				c.who |= 0o4700
			case 'g':
				c.who |= 0o2070
			case 'o':
				c.who |= 0o1007
			case 'a':
				c.who |= 0o7777
			default:
				break who
			}
		}
		if c.who == 0 {
			c.who, c.all = 0o7777, true
		}
		if i >= len(part) {
			return nil, errMode
		}
		for i < len(part) {
			c.op = part[i]
			if strings.IndexByte("+-=", c.op) < 0 {
				return nil, errMode
			}
			j := i + 1
			for j < len(part) && strings.IndexByte("+-=", part[j]) < 0 {
				if strings.IndexByte("rwxXstugo", part[j]) < 0 {
					return nil, errMode
				}
				j++
			}
			c.perms = part[i+1 : j]
			cs = append(cs, c)
			i = j
		}
	}
	return func(old int, dir bool) int {
		m := old
		for _, c := range cs {
			bits := 0
			for _, p := range c.perms {
				switch p {
				case 'r':
					bits |= 0o444
				case 'w':
					bits |= 0o222
				case 'x':
					bits |= 0o111
				case 'X':
					if dir || m&0o111 != 0 {
						bits |= 0o111
					}
				case 's':
					bits |= 0o6000
				case 't':
					bits |= 0o1000
				case 'u':
					bits |= m >> 6 & 7 * 0o111
				case 'g':
					bits |= m >> 3 & 7 * 0o111
				case 'o':
					bits |= m & 7 * 0o111
				}
			}
			if !c.all {
				if strings.ContainsRune(c.perms, 't') && c.who&0o1000 == 0 {
					bits &^= 0o1000
				}
			}
			bits &= c.who
			if c.all {
				bits &^= umask
			}
			switch c.op {
			case '+':
				m |= bits
			case '-':
				m &^= bits
			case '=':
				keep := 0
				if dir {
					keep = m & 0o6000
				}
				m = m&^(c.who&0o1777|c.who&0o6000) | bits | keep
			}
		}
		return m
	}, nil
}

// defaultUmask stands for the process's own, which [kernel.Files] applies but does not tell.
const defaultUmask = 0o022

// optionLikeMode splits off a mode such as -x or -rwx, which is not an option.
func optionLikeMode(args []string) (mode string, rest []string) {
	for i, a := range args {
		if a == "--" {
			break
		}
		if len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "rwxXstugoa+-=,01234567") == "" && strings.IndexByte("rwxXst01234567", a[1]) >= 0 {
			return a, append(append([]string(nil), args[:i]...), args[i+1:]...)
		}
	}
	return "", args
}

func chmod(c *libc.Prog) int {
	mode, args := optionLikeMode(c.Args)
	c.Args = args
	opts, operands, ok := c.Options("cfRv", "changes|c", "silent|f", "quiet|f", "recursive|R", "verbose|v", "reference:", "preserve-root", "no-preserve-root")
	if !ok {
		return c.Status
	}
	recursive, verbose, changes, quiet, reference := false, false, false, false, ""
	for _, o := range opts {
		switch o.Name {
		case "R":
			recursive = true
		case "v":
			verbose = true
		case "c":
			changes = true
		case "f":
			quiet = true
		case "reference":
			reference = o.Value
		}
	}
	var change func(int, bool) int
	if reference != "" {
		i, err := c.Files.Stat(c.Path(reference))
		if err != nil {
			return c.Fail("failed to get attributes of %s: %s", libc.Quote(reference), libc.Strerror(err))
		}
		change = func(int, bool) int { return libc.ModeBits(i.Mode()) }
	} else {
		if mode == "" {
			if len(operands) == 0 {
				return c.MissingOperand()
			}
			mode, operands = operands[0], operands[1:]
		}
		if len(operands) == 0 {
			c.Warn("missing operand after %s", c.Quote(mode))
			return c.TryHelp()
		}
		var err error
		if change, err = parseMode(mode, defaultUmask); err != nil {
			if c.Busybox {
				return c.Fail("invalid mode '%s'", mode)
			}
			c.Warn("invalid mode: %s", c.Quote(mode))
			return c.TryHelp()
		}
	}
	var visit func(name string, named bool)
	visit = func(name string, named bool) {
		l, err := c.Files.Lstat(c.Path(name))
		if err == nil && l.Mode()&fs.ModeSymlink != 0 && !named {
			return
		}
		i, err := statName(c, name, true)
		if err != nil {
			c.Status = 1
			switch {
			case quiet:
			case c.Busybox:
				c.Fail("%s: %s", name, libc.Strerror(err))
			case l != nil:
				c.Fail("cannot operate on dangling symlink %s", libc.Quote(name))
			default:
				c.Fail("cannot access %s: %s", libc.Quote(name), libc.Strerror(err))
			}
			return
		}
		old := libc.ModeBits(i.Mode())
		n := change(old, i.IsDir())
		err = c.Files.Chmod(c.Path(name), libc.ModeOf(n))
		switch {
		case err != nil && quiet:
			c.Status = 1
		case err != nil && c.Busybox:
			c.Fail("%s: %s", name, libc.Strerror(err))
		case err != nil:
			c.Fail("changing permissions of %s: %s", libc.Quote(name), libc.Strerror(err))
		case old != n && (verbose || changes):
			c.Put("mode of %s changed from %04o (%s) to %04o (%s)\n", libc.Quote(name), old, libc.ModeString(libc.ModeOf(old))[1:], n, libc.ModeString(libc.ModeOf(n))[1:])
		case verbose:
			c.Put("mode of %s retained as %04o (%s)\n", libc.Quote(name), n, libc.ModeString(libc.ModeOf(n))[1:])
		}
		if recursive && i.IsDir() && l.IsDir() {
			list, err := c.Files.ReadDir(c.Path(name))
			if err != nil {
				c.Fail("cannot read directory %s: %s", libc.Quote(name), libc.Strerror(err))
				return
			}
			for _, e := range list {
				visit(joinName(name, e.Name()), false)
			}
		}
	}
	for _, n := range operands {
		visit(n, true)
	}
	return c.Status
}

// parseOwner reads USER, USER:GROUP, USER: or :GROUP. What is not given is -1; text says what is wrong.
func parseOwner(c *libc.Prog, s string) (uid, gid int, text string) {
	uid, gid = -1, -1
	user, group, colon := strings.Cut(s, ":")
	if !colon {
		if _, known := libc.UserByName(c.Files, s); !known {
			if u, g, dot := strings.Cut(s, "."); dot {
				user, group = u, g
			}
		}
	}
	if user != "" {
		if u, ok := libc.UserByName(c.Files, user); ok {
			uid = u.UID
			if colon && group == "" {
				gid = u.GID
			}
		} else if n, err := strconv.Atoi(strings.TrimPrefix(user, "+")); err == nil && n >= 0 {
			uid = n
			if colon && group == "" {
				return 0, 0, "invalid spec: " + c.Quote(s)
			}
		} else {
			return 0, 0, "invalid user: " + c.Quote(s)
		}
	}
	if group != "" {
		if g, ok := libc.GroupByName(c.Files, group); ok {
			gid = g.GID
		} else if n, err := strconv.Atoi(strings.TrimPrefix(group, "+")); err == nil && n >= 0 {
			gid = n
		} else {
			return 0, 0, "invalid group: " + c.Quote(s)
		}
	}
	return uid, gid, ""
}

// chown is chown and chgrp.
func chown(c *libc.Prog) int {
	opts, operands, ok := c.Options("cfhRvHLP", "changes|c", "silent|f", "quiet|f", "no-dereference|h", "dereference", "recursive|R", "verbose|v", "reference:", "from:", "preserve-root", "no-preserve-root")
	if !ok {
		return c.Status
	}
	recursive, verbose, changes, quiet, noFollow, reference := false, false, false, false, false, ""
	for _, o := range opts {
		switch o.Name {
		case "R":
			recursive = true
		case "v":
			verbose = true
		case "c":
			changes = true
		case "f":
			quiet = true
		case "h":
			noFollow = true
		case "reference":
			reference = o.Value
		}
	}
	what := "ownership"
	if c.Name == "chgrp" {
		what = "group"
	}
	uid, gid, spec := -1, -1, ""
	if reference != "" {
		i, err := c.Files.Stat(c.Path(reference))
		if err != nil {
			return c.Fail("failed to get attributes of %s: %s", libc.Quote(reference), libc.Strerror(err))
		}
		uid, gid = libc.Stat(i).UID, libc.Stat(i).GID
	} else {
		if len(operands) == 0 {
			return c.MissingOperand()
		}
		spec = operands[0]
		if len(operands) == 1 {
			c.Warn("missing operand after %s", c.Quote(spec))
			return c.TryHelp()
		}
		operands = operands[1:]
		full, text := spec, ""
		if c.Name == "chgrp" {
			full = ":" + spec
		}
		if uid, gid, text = parseOwner(c, full); text != "" {
			if c.Name == "chgrp" {
				text = "invalid group: " + c.Quote(spec)
			}
			if c.Busybox {
				who := "user"
				if strings.HasPrefix(text, "invalid group") {
					who = "group"
				}
				name, group, _ := strings.Cut(full, ":")
				if who == "group" {
					name = group
				}
				text = fmt.Sprintf("unknown %s %s", who, name)
			}
			return c.Fail("%s", text)
		}
	}
	names := libc.NewNames(c.Files)
	var visit func(name string, named bool)
	visit = func(name string, named bool) {
		l, err := c.Files.Lstat(c.Path(name))
		i := l
		if err == nil && !noFollow && named && l.Mode()&fs.ModeSymlink != 0 {
			i, err = c.Files.Stat(c.Path(name))
		}
		if err != nil {
			c.Status = 1
			switch {
			case quiet:
			case c.Busybox:
				c.Fail("%s: %s", name, libc.Strerror(err))
			case l != nil:
				c.Fail("cannot dereference %s: %s", libc.Quote(name), libc.Strerror(err))
			default:
				c.Fail("cannot access %s: %s", libc.Quote(name), libc.Strerror(err))
			}
			return
		}
		if recursive && l.IsDir() {
			list, err := c.Files.ReadDir(c.Path(name))
			if err != nil {
				c.Fail("cannot read directory %s: %s", libc.Quote(name), libc.Strerror(err))
			}
			for _, e := range list {
				visit(joinName(name, e.Name()), false)
			}
		}
		st := libc.Stat(i)
		if noFollow || !named {
			err = c.Files.Lchown(c.Path(name), uid, gid)
		} else {
			err = c.Files.Chown(c.Path(name), uid, gid)
		}
		newUID, newGID := st.UID, st.GID
		if uid >= 0 {
			newUID = uid
		}
		if gid >= 0 {
			newGID = gid
		}
		show := func(u, g int) string {
			switch {
			case c.Name == "chgrp":
				return names.Group(g)
			case gid < 0:
				return names.User(u)
			}
			return names.User(u) + ":" + names.Group(g)
		}
		switch {
		case err != nil && quiet:
			c.Status = 1
		case err != nil && c.Busybox:
			c.Fail("%s: %s", name, libc.Strerror(err))
		case err != nil:
			c.Fail("changing %s of %s: %s", what, libc.Quote(name), libc.Strerror(err))
		case (newUID != st.UID || newGID != st.GID) && (verbose || changes):
			to := spec
			if to == "" || strings.HasSuffix(to, ":") {
				to = show(newUID, newGID)
			}
			c.Put("changed %s of %s from %s to %s\n", what, libc.Quote(name), show(st.UID, st.GID), to)
		case verbose:
			c.Put("%s of %s retained as %s\n", what, libc.Quote(name), show(newUID, newGID))
		}
	}
	for _, n := range operands {
		visit(n, true)
	}
	return c.Status
}
