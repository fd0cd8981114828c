package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/machine"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/userland/libc"
)

type mounted struct{ source, target, kind, options string }

func mounts(c *libc.Prog) []mounted {
	b, err := c.Files.ReadFile("/proc/mounts")
	if err != nil {
		return nil
	}
	var l []mounted
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) >= 4 {
			l = append(l, mounted{f[0], f[1], f[2], f[3]})
		}
	}
	return l
}

// mount lists the mounts, and mounts tmpfs and parts of the machine's own tree; there are no other devices.
func mount(c *libc.Prog) int {
	opts, operands, ok := c.Options("aBfit:o:rvwl", "bind|B", "types:|t", "options:|o", "all|a", "read-only|r", "verbose|v")
	if !ok {
		return c.Status
	}
	kind, readOnly, bind, all := "", false, false, false
	for _, o := range opts {
		switch o.Name {
		case "t":
			kind = o.Value
		case "r":
			readOnly = true
		case "B":
			bind = true
		case "a":
			all = true
		case "o":
			for _, x := range strings.Split(o.Value, ",") {
				readOnly = readOnly || x == "ro"
				bind = bind || x == "bind"
			}
		}
	}
	if len(operands) == 0 {
		if all {
			return 0 // what fstab names has been mounted at boot
		}
		for _, m := range mounts(c) {
			if kind == "" || slices.Contains(strings.Split(kind, ","), m.kind) {
				c.Put("%s on %s type %s (%s)\n", m.source, m.target, m.kind, m.options)
			}
		}
		return 0
	}
	c.FailStatus = 32
	target := operands[len(operands)-1]
	if c.Cred.UID != 0 {
		return c.Fail("%s: must be superuser to use mount.\n       dmesg(1) may have more information after failed mount system call.", target)
	}
	m := machine.Of(c.Host())
	if m == nil || c.Container != "" {
		return c.Fail("%s: permission denied.", target)
	}
	if len(operands) == 1 {
		c.FailStatus = 1
		return c.Fail("%s: can't find in /etc/fstab.", target)
	}
	i, err := c.Files.Stat(c.Path(target))
	if err != nil {
		return c.Fail("%s: mount point does not exist.", target)
	}
	real, err := c.Files.EvalSymlinks(c.Path(target))
	if err != nil {
		return c.FailFile(target, err)
	}
	switch {
	case kind == "tmpfs":
		if !i.IsDir() {
			return c.Fail("%s: mount point is not a directory.", target)
		}
		t := filesystem.NewTree(c.World(), "tmpfs", m.Options().Memory/2)
		err = m.View().Mount(filesystem.Mount{Target: real, Tree: t, ReadOnly: readOnly, Source: operands[0], Type: "tmpfs"})
	case bind:
		source, serr := c.Files.EvalSymlinks(c.Path(operands[0]))
		if serr != nil {
			return c.Fail("%s: special device %s does not exist.", target, operands[0])
		}
		under, root := locate(m, source)
		under.Target, under.Root, under.ReadOnly = real, root, readOnly
		err = m.View().Mount(under)
	default:
		if _, serr := c.Files.Stat(c.Path(operands[0])); serr != nil {
			return c.Fail("%s: special device %s does not exist.", target, operands[0])
		}
		return c.Fail("ckadrill does not simulate mounting %s yet", operands[0])
	}
	if err != nil {
		return c.FailFile(target, err)
	}
	return 0
}

// locate is the mount that holds an absolute name without symbolic links, and the name inside of its tree.
func locate(m *machine.Machine, name string) (filesystem.Mount, string) {
	var best filesystem.Mount
	for _, x := range m.View().Mounts() {
		if (x.Target == "/" || name == x.Target || strings.HasPrefix(name, x.Target+"/")) && len(x.Target) >= len(best.Target) {
			best = x
		}
	}
	return best, strings.TrimSuffix(best.Root, "/") + "/" + strings.TrimPrefix(strings.TrimPrefix(name, best.Target), "/")
}

func umount(c *libc.Prog) int {
	_, operands, ok := c.Options("aflrRv", "all|a", "force|f", "lazy|l", "recursive|R", "verbose|v")
	if !ok {
		return c.Status
	}
	c.FailStatus = 32
	if len(operands) == 0 {
		c.Errorf("umount: bad usage\nTry 'umount --help' for more information.\n")
		return 1
	}
	m := machine.Of(c.Host())
	for _, n := range operands {
		target := c.Path(n)
		if r, err := c.Files.EvalSymlinks(target); err == nil {
			target = r
		}
		known := slices.ContainsFunc(mounts(c), func(x mounted) bool { return x.target == target })
		switch {
		case !known:
			if _, err := c.Files.Stat(target); err != nil {
				c.Fail("%s: no mount point specified.", n)
			} else {
				c.Fail("%s: not mounted.", n)
			}
		case c.Cred.UID != 0:
			c.Fail("%s: must be superuser to unmount.", n)
		case m == nil || c.Container != "":
			c.Fail("%s: permission denied.", n)
		case target == "/":
			c.Fail("%s: target is busy.", n)
		default:
			if err := m.View().Unmount(target); err != nil {
				c.FailFile(n, err)
			}
		}
	}
	return c.Status
}

func findmnt(c *libc.Prog) int {
	opts, operands, ok := c.Options("no:t:lT:rS:M:", "noheadings|n", "output:|o", "types:|t", "list|l", "target:|T")
	if !ok {
		return c.Status
	}
	head, columns, kind := true, []string{"TARGET", "SOURCE", "FSTYPE", "OPTIONS"}, ""
	for _, o := range opts {
		switch o.Name {
		case "n":
			head = false
		case "o":
			columns = strings.Split(strings.ToUpper(o.Value), ",")
		case "t":
			kind = o.Value
		case "T", "M":
			operands = append(operands, o.Value)
		}
	}
	var rows [][]string
	for _, m := range mounts(c) {
		if kind != "" && m.kind != kind || len(operands) > 0 && m.target != strings.TrimSuffix(operands[0], "/") && m.source != operands[0] && m.target != operands[0] {
			continue
		}
		all := map[string]string{"TARGET": m.target, "SOURCE": m.source, "FSTYPE": m.kind, "OPTIONS": m.options}
		var row []string
		for _, k := range columns {
			row = append(row, all[k])
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return 1
	}
	if head {
		rows = append([][]string{columns}, rows...)
	}
	table(c, rows)
	return 0
}

// table prints rows with their columns lined up.
func table(c *libc.Prog, rows [][]string) {
	widths := map[int]int{}
	for _, r := range rows {
		for i, s := range r {
			widths[i] = max(widths[i], len(s))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, s := range r {
			if i == len(r)-1 {
				b.WriteString(s)
			} else {
				fmt.Fprintf(&b, "%-*s ", widths[i], s)
			}
		}
		c.Put("%s\n", strings.TrimRight(b.String(), " "))
	}
}

func lsblk(c *libc.Prog) int {
	m := machine.Of(c.Host())
	size := int64(20 << 30)
	if m != nil {
		size = m.Options().Disk
	}
	c.Put("NAME   MAJ:MIN RM  SIZE RO TYPE MOUNTPOINTS\nvda    252:0    0 %4s  0 disk \n└─vda1 252:1    0 %4s  0 part /\n", gigabytes(size), gigabytes(size))
	return 0
}

func gigabytes(n int64) string { return strconv.FormatInt(n>>30, 10) + "G" }
