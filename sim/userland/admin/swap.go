package admin

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// absolute is a swap file as messages name it.
func absolute(c *libc.Prog, name string) string {
	if r, err := c.Files.EvalSymlinks(c.Path(name)); err == nil {
		return r
	}
	return c.Path(name)
}

// swapon activates swap files, or shows what is active.
func swapon(c *libc.Prog) int {
	opts, operands, ok := c.Options("ad::efp:svo:L:U:", "all|a", "show::", "summary|s", "noheadings", "bytes", "raw", "verbose|v", "priority:|p", "ifexists|e", "discard::|d", "fixpgsz|f", "options:|o")
	if !ok {
		return c.Status
	}
	t := swapTable{c: c, columns: []string{"NAME", "TYPE", "SIZE", "USED", "PRIO"}, head: true}
	all, show, summary, verbose, ifExists, priority := false, len(operands) == 0, false, false, false, machine.NoPriority
	for _, o := range opts {
		switch o.Name {
		case "a":
			all, show = true, false
		case "s":
			summary, show = true, false
		case "show":
			show = true
			if o.Value != "" {
				t.columns = strings.Split(strings.ToUpper(strings.TrimPrefix(o.Value, "=")), ",")
			}
		case "noheadings":
			t.head = false
		case "bytes":
			t.bytes = true
		case "raw":
			t.raw = true
		case "v":
			verbose = true
		case "e":
			ifExists = true
		case "p":
			n, err := strconv.Atoi(o.Value)
			if err != nil {
				return c.Fail("failed to parse priority: '%s'", o.Value)
			}
			priority = n
		case "L", "U":
			return c.Fail("cannot find the device for %s=%s", map[string]string{"L": "LABEL", "U": "UUID"}[o.Name], o.Value)
		}
	}
	switch {
	case summary:
		b, err := c.Files.ReadFile("/proc/swaps")
		if err == nil && strings.Count(string(b), "\n") > 1 {
			c.Put("%s", b)
		}
		return 0
	case show:
		return t.print()
	}
	if all {
		for _, e := range machine.Fstab(c.Files) {
			if _, no := e.Option("noauto"); e.Type != "swap" || no || swapActive(c, e.Spec) {
				continue
			}
			_, noFail := e.Option("nofail")
			if _, err := c.Files.Stat(e.Spec); err != nil && (noFail || ifExists) {
				continue
			}
			swapOne(c, e.Spec, e.Priority(), verbose)
		}
	}
	for _, f := range operands {
		if _, err := c.Files.Stat(c.Path(f)); err != nil && ifExists {
			continue
		}
		swapOne(c, f, priority, verbose)
	}
	return c.Status
}

// active lists the swap areas by /proc/swaps: name, type, kilobytes, used, priority.
func active(c *libc.Prog) (l [][]string) {
	b, err := c.Files.ReadFile("/proc/swaps")
	if err != nil {
		return nil
	}
	for i, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) == 5 {
			l = append(l, f)
		}
	}
	return l
}

func swapActive(c *libc.Prog, name string) bool {
	return slices.ContainsFunc(active(c), func(f []string) bool { return f[0] == absolute(c, name) })
}

func swapOne(c *libc.Prog, name string, priority int, verbose bool) {
	if k, _, ok := strings.Cut(name, "="); ok && (k == "UUID" || k == "LABEL" || k == "PARTUUID" || k == "PARTLABEL") {
		c.Fail("cannot find the device for %s", name)
		return
	}
	i, err := c.Files.Stat(c.Path(name))
	if err == nil {
		var f interface{ Close() error }
		if f, err = c.Files.OpenFile(c.Path(name), os.O_RDONLY, 0); err == nil {
			f.Close()
		}
	}
	if err != nil {
		c.Fail("cannot open %s: %s", name, libc.Strerror(err))
		return
	}
	file := absolute(c, name)
	if i.Mode().Perm()&0o077 != 0 {
		c.Warn("%s: insecure permissions %04o, %04o suggested.", file, i.Mode().Perm(), 0o600)
	}
	if !machine.IsSwap(c.Files, file) {
		c.Fail("%s: read swap header failed", file)
		return
	}
	if verbose {
		c.Put("swapon: %s: found signature [pagesize=4096, signature=swap]\nswapon: %s: pagesize=4096, swapsize=%d, devsize=%d\nswapon %s\n", file, file, i.Size(), i.Size(), file)
	}
	m := machine.Of(c.Host())
	err = syscall.EPERM
	if c.Cred.UID == 0 && m != nil && c.Container == "" {
		err = m.SwapOn(file, priority)
	}
	if err != nil {
		c.Fail("%s: swapon failed: %s", file, libc.Strerror(err))
	}
}

// swapTable is the output of swapon --show.
type swapTable struct {
	c                *libc.Prog
	columns          []string
	head, bytes, raw bool
}

func (t *swapTable) print() int {
	var rows [][]string
	for _, f := range active(t.c) {
		size, _ := strconv.ParseInt(f[2], 10, 64)
		used, _ := strconv.ParseInt(f[3], 10, 64)
		// the kernel leaves the header's page out, which programs add again
		all := map[string]string{"NAME": f[0], "TYPE": f[1], "SIZE": t.size(size<<10 + swapHeader), "USED": t.size(used << 10), "PRIO": f[4], "UUID": "", "LABEL": ""}
		var row []string
		for _, k := range t.columns {
			v, ok := all[k]
			if !ok {
				return t.c.Fail("unknown column: %s", k)
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return 0
	}
	if t.head {
		rows = append([][]string{t.columns}, rows...)
	}
	width := make([]int, len(t.columns))
	for _, r := range rows {
		for i, s := range r {
			width[i] = max(width[i], len(s))
		}
	}
	for _, r := range rows {
		for i, s := range r {
			switch k := t.columns[i]; {
			case t.raw:
			case k == "SIZE" || k == "USED" || k == "PRIO":
				r[i] = strings.Repeat(" ", width[i]-len(s)) + s
			case i < len(r)-1:
				r[i] = s + strings.Repeat(" ", width[i]-len(s))
			}
		}
		t.c.Put("%s\n", strings.Join(r, " "))
	}
	return 0
}

const swapHeader = 4096

func (t *swapTable) size(n int64) string {
	switch {
	case t.bytes:
		return strconv.FormatInt(n, 10)
	case n == 0:
		return "0B"
	}
	return strings.Replace(libc.HumanSize(n, 1024), ".0", "", 1)
}

func swapoff(c *libc.Prog) int {
	opts, operands, ok := c.Options("avL:U:", "all|a", "verbose|v")
	if !ok {
		return c.Status
	}
	all := slices.ContainsFunc(opts, func(o libc.Opt) bool { return o.Name == "a" })
	verbose := slices.ContainsFunc(opts, func(o libc.Opt) bool { return o.Name == "v" })
	if !all && len(operands) == 0 {
		c.Warn("bad usage")
		c.Errorf("Try 'swapoff --help' for more information.\n")
		return 16
	}
	m := machine.Of(c.Host())
	if c.Cred.UID != 0 || m == nil || c.Container != "" {
		return c.Fail("Not superuser.")
	}
	c.FailStatus = 4
	off := func(name string, quiet bool) {
		if verbose {
			c.Put("swapoff %s\n", name)
		}
		if err := m.SwapOff(name); err != nil && !quiet {
			if _, serr := c.Files.Stat(name); serr != nil {
				err = serr
			}
			c.Fail("%s: swapoff failed: %s", name, libc.Strerror(err))
		}
	}
	if all {
		for _, f := range active(c) {
			off(f[0], true)
		}
		return 0
	}
	for _, f := range operands {
		if _, err := c.Files.Stat(c.Path(f)); err != nil {
			c.Fail("%s: swapoff failed: %s", f, libc.Strerror(err))
			continue
		}
		off(absolute(c, f), false)
	}
	return c.Status
}

func mkswap(c *libc.Prog) int {
	_, operands, ok := c.Options("cfL:p:U:v::", "label:|L", "uuid:|U")
	if !ok {
		return c.Status
	}
	if len(operands) == 0 {
		c.Warn("error: Nowhere to set up swap on?")
		c.Errorf("Try 'mkswap --help' for more information.\n")
		return 1
	}
	f := operands[0]
	i, err := c.Files.Stat(c.Path(f))
	if err != nil {
		return c.Fail("cannot open %s: %s", f, libc.Strerror(err))
	}
	if i.Size() < 40<<10 {
		return c.Fail("error: swap area needs to be at least 40 KiB")
	}
	w, err := c.Files.OpenFile(c.Path(f), os.O_WRONLY, 0)
	if err != nil {
		return c.Fail("cannot open %s: %s", f, libc.Strerror(err))
	}
	defer w.Close()
	if _, err = w.Seek(4086, 0); err == nil {
		_, err = w.Write([]byte(machine.SwapSignature))
	}
	if err != nil {
		return c.Fail("%s: unable to write signature page: %s", f, libc.Strerror(err))
	}
	if i.Mode().Perm()&0o077 != 0 {
		c.Warn("%s: insecure permissions %04o, fix with: chmod %04o %s", f, i.Mode().Perm(), 0o600, f)
	}
	c.Put("Setting up swapspace version 1, size = %s (%d bytes)\nno label, UUID=%s\n", binary(i.Size()-4096), i.Size()-4096, c.World().UUID("mkswap"))
	return 0
}

// binary is a size as util-linux prints it: "8 MiB", "1.5 GiB".
func binary(n int64) string {
	exp := 0
	for n>>(10*(exp+1)) > 0 && exp < 6 {
		exp++
	}
	whole, tenths := n>>(10*exp), int64(0)
	if exp > 0 {
		rest := n >> (10 * (exp - 1)) & 1023
		tenths = (rest*1000/1024 + 50) / 100
		if tenths == 10 {
			whole, tenths = whole+1, 0
		}
	}
	unit := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}[exp]
	if tenths > 0 {
		return fmt.Sprintf("%d.%d %s", whole, tenths, unit)
	}
	return fmt.Sprintf("%d %s", whole, unit)
}

func fallocate(c *libc.Prog) int {
	opts, operands, ok := c.Options("l:o:n", "length:|l", "offset:|o", "keep-size|n")
	if !ok {
		return c.Status
	}
	size := int64(0)
	for _, o := range opts {
		if o.Name == "l" {
			v := strings.TrimSuffix(strings.TrimSuffix(o.Value, "iB"), "B")
			unit := int64(1)
			if k := strings.IndexByte("KMGT", (v + " ")[max(0, len(v)-1)]); k >= 0 {
				v, unit = v[:len(v)-1], int64(1)<<(10*(k+1))
			}
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n <= 0 {
				return c.Fail("invalid length value specified")
			}
			size = n * unit
		}
	}
	if size == 0 {
		return c.Fail("no length argument specified")
	}
	if len(operands) == 0 {
		return c.Fail("no filename specified")
	}
	f, err := c.Files.OpenFile(c.Path(operands[0]), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return c.Fail("cannot open %s: %s", operands[0], libc.Strerror(err))
	}
	defer f.Close()
	if i, err := f.Stat(); err == nil && i.Size() < size {
		if err := f.Truncate(size); err != nil {
			return c.Fail("fallocate failed: %s", libc.Strerror(err))
		}
	}
	return 0
}
