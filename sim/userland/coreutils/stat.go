package coreutils

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

func stat(c *libc.Prog) int {
	opts, operands, ok := c.Options("c:fLt", "format:|c", "printf:", "file-system|f", "dereference|L", "terse|t", "cached:")
	if !ok {
		return c.Status
	}
	format, follow, system, escapes := "", false, false, false
	for _, o := range opts {
		switch o.Name {
		case "c":
			format = o.Value + "\n"
		case "printf":
			format, escapes = o.Value, true
		case "f":
			system = true
		case "L":
			follow = true
		case "t":
			format = "%n %s %b %f %u %g %D %i %h %t %T %X %Y %Z %W %o\n"
		}
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	if escapes {
		format, _ = bash.Echo([]string{"-e", format})
	}
	names := libc.NewNames(c.Files)
	for _, n := range operands {
		i, err := statName(c, n, follow)
		if err != nil {
			switch {
			case c.Busybox:
				c.Fail("can't stat '%s': %s", n, libc.Strerror(err))
			case follow:
				c.Fail("cannot stat %s: %s", libc.Quote(n), libc.Strerror(err))
			default:
				c.Fail("cannot statx %s: %s", libc.Quote(n), libc.Strerror(err))
			}
			continue
		}
		switch {
		case system:
			statSystem(c, n, format)
		case format != "":
			c.Out.WriteString(statFormat(c, names, format, n, i))
		default:
			device := "  Device: %Hd,%Ld\tInode: %-10i  Links: %h"
			if i.Mode()&fs.ModeDevice != 0 {
				device += "     Device type: %t,%T"
			}
			name := "  File: %n\n"
			if i.Mode()&fs.ModeSymlink != 0 {
				name = "  File: %N\n"
			}
			c.Out.WriteString(statFormat(c, names, name+"  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"+strings.TrimPrefix(device, "  ")+"\nAccess: (%04a/%10.10A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\n"+
				"Access: %x\nModify: %y\nChange: %z\n Birth: %w\n", n, i))
		}
	}
	return c.Status
}

// deviceNumber stands for the number of a file system's device; equal devices have equal numbers.
func deviceNumber(device string) (major, minor int) {
	if device == "/dev/vda1" {
		return 252, 1
	}
	h := fnv.New32a()
	h.Write([]byte(device))
	return 0, 20 + int(h.Sum32()%200)
}

func statFormat(c *libc.Prog, names *libc.Names, format, name string, i fs.FileInfo) string {
	st, m := libc.Stat(i), i.Mode()
	major, minor := deviceNumber(st.Device)
	rmajor, rminor := 0, 0
	fmt.Sscanf(st.Rdev, "%d:%d", &rmajor, &rminor)
	when := func(t time.Time) string { return t.Format("2006-01-02 15:04:05.000000000 -0700") }
	raw := libc.ModeBits(m) | map[byte]int{'d': 0o040000, 'l': 0o120000, 'p': 0o010000, 's': 0o140000, 'c': 0o020000, 'b': 0o060000, '-': 0o100000}[libc.TypeLetter(m)]
	var b strings.Builder
	for p := 0; p < len(format); p++ {
		if format[p] != '%' || p+1 >= len(format) {
			b.WriteByte(format[p])
			continue
		}
		start := p
		p++
		for p < len(format) && strings.IndexByte("-+ #0123456789.'", format[p]) >= 0 {
			p++
		}
		flags := format[start:p]
		if p >= len(format) {
			b.WriteString(flags)
			break
		}
		verb := format[p]
		if (verb == 'H' || verb == 'L') && p+1 < len(format) {
			p++
			switch string(verb) + string(format[p]) {
			case "Hd":
				fmt.Fprintf(&b, flags+"d", major)
			case "Ld":
				fmt.Fprintf(&b, flags+"d", minor)
			case "Hr":
				fmt.Fprintf(&b, flags+"d", rmajor)
			case "Lr":
				fmt.Fprintf(&b, flags+"d", rminor)
			}
			continue
		}
		text := func(s string) { fmt.Fprintf(&b, strings.Replace(flags, "0", "", 0)+"s", s) }
		number := func(n int64) { fmt.Fprintf(&b, flags+"d", n) }
		switch verb {
		case '%':
			b.WriteByte('%')
		case 'a':
			fmt.Fprintf(&b, flags+"o", libc.ModeBits(m))
		case 'A':
			text(libc.ModeString(m))
		case 'b':
			number(libc.Blocks(i) * 2)
		case 'B':
			number(512)
		case 'd':
			number(int64(major<<8 | minor))
		case 'D':
			text(strconv.FormatInt(int64(major<<8|minor), 16))
		case 'f':
			text(strconv.FormatInt(int64(raw), 16))
		case 'F':
			text(typeName(i))
		case 'g':
			number(int64(st.GID))
		case 'G':
			text(names.Group(st.GID))
		case 'u':
			number(int64(st.UID))
		case 'U':
			text(names.User(st.UID))
		case 'h':
			number(int64(st.Nlink))
		case 'i':
			number(int64(st.Inode))
		case 'm':
			text(mountPoint(c, c.Path(name)))
		case 'n':
			text(name)
		case 'N':
			s := libc.Quote(name)
			if m&fs.ModeSymlink != 0 {
				t, _ := c.Files.Readlink(c.Path(name))
				s += " -> " + libc.Quote(t)
			}
			if format[:p+1] == "  File: %N" { // the default output quotes nothing
				t, _ := c.Files.Readlink(c.Path(name))
				s = name + " -> " + t
			}
			text(s)
		case 'o':
			number(4096)
		case 's':
			number(i.Size())
		case 't':
			text(strconv.FormatInt(int64(rmajor), 16))
		case 'T':
			text(strconv.FormatInt(int64(rminor), 16))
		case 'w':
			text("-")
		case 'W':
			number(0)
		case 'x':
			text(when(st.Atime))
		case 'X':
			number(st.Atime.Unix())
		case 'y':
			text(when(i.ModTime()))
		case 'Y':
			number(i.ModTime().Unix())
		case 'z':
			text(when(st.Ctime))
		case 'Z':
			number(st.Ctime.Unix())
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// statSystem is stat -f.
func statSystem(c *libc.Prog, name, format string) {
	size, free, err := c.Files.Usage(c.Path(name))
	if err != nil {
		c.Fail("cannot read file system information for %s: %s", libc.Quote(name), libc.Strerror(err))
		return
	}
	inodes, inodesFree, err := c.Files.InodeUsage(c.Path(name))
	if err != nil {
		c.Fail("cannot read file system information for %s: %s", libc.Quote(name), libc.Strerror(err))
		return
	}
	kind := fileSystem(c, c.Path(name)).kind
	if kind == "ext4" {
		kind = "ext2/ext3"
	}
	if kind == "overlay" {
		kind = "overlayfs"
	}
	if kind == "cgroup2" {
		kind = "cgroup2fs"
	}
	if format == "" {
		c.Put("  File: \"%s\"\n    ID: %x Namelen: 255     Type: %s\nBlock size: 4096       Fundamental block size: 4096\nBlocks: Total: %-10d Free: %-10d Available: %d\nInodes: Total: %-10d Free: %d\n",
			name, fnv.New64a().Sum64(), kind, size>>12, free>>12, free>>12, inodes, inodesFree)
		return
	}
	r := strings.NewReplacer("%T", kind, "%n", name, "%s", "4096", "%S", "4096", "%b", strconv.FormatInt(size>>12, 10), "%f", strconv.FormatInt(free>>12, 10), "%a", strconv.FormatInt(free>>12, 10), "%%", "%")
	c.Put("%s", r.Replace(format))
}
