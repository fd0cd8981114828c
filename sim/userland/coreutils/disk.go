package coreutils

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/userland/libc"
)

// mounted is a line of /proc/mounts.
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

// fileSystem is the mount that holds an absolute name.
func fileSystem(c *libc.Prog, name string) mounted {
	if r, err := c.Files.EvalSymlinks(name); err == nil {
		name = r
	}
	best := mounted{target: "/", kind: "ext4", source: "/dev/root"}
	for _, m := range mounts(c) {
		if (m.target == "/" || name == m.target || strings.HasPrefix(name, m.target+"/")) && len(m.target) >= len(best.target) {
			best = m
		}
	}
	return best
}

func mountPoint(c *libc.Prog, name string) string { return fileSystem(c, name).target }

// pseudo are the kinds of file systems that df leaves out.
var pseudo = []string{"proc", "sysfs", "devpts", "cgroup", "cgroup2", "mqueue", "securityfs", "debugfs", "tracefs", "bpf", "pstore", "hugetlbfs", "configfs", "nsfs"}

func df(c *libc.Prog) int {
	opts, operands, ok := c.Options("aB:hHiklPt:Tx:m", "all|a", "block-size:|B", "human-readable|h", "si|H", "inodes|i", "local|l", "portability|P", "type:|t", "print-type|T", "exclude-type:|x", "output::", "total", "sync", "no-sync")
	if !ok {
		return c.Status
	}
	all, human, si, inodes, showType, posix, total, unit, unitName := false, false, false, false, false, false, false, int64(1024), "1K-blocks"
	var only, without []string
	for _, o := range opts {
		switch o.Name {
		case "a":
			all = true
		case "h":
			human = true
		case "H":
			human, si = true, true
		case "i":
			inodes = true
		case "T":
			showType = true
		case "P":
			posix, unitName = true, "1024-blocks"
		case "m":
			unit, unitName = 1<<20, "1M-blocks"
		case "B":
			v := o.Value
			if v != "" && (v[0] < '0' || v[0] > '9') {
				v = "1" + v
			}
			n, valid := byteCount(v)
			if !valid || n == 0 {
				return c.Fail("invalid --block-size argument %s", libc.Quote(o.Value))
			}
			unit, unitName = n, v+"-blocks"
		case "t":
			only = append(only, o.Value)
		case "x":
			without = append(without, o.Value)
		case "total":
			total = true
		}
	}
	header := []string{"Filesystem", unitName, "Used", "Available", "Use%", "Mounted on"}
	if human {
		header[1], header[3] = "Size", "Avail"
		if c.Busybox {
			header[3] = "Available"
		}
	}
	if posix {
		header[4] = "Capacity"
	}
	if inodes {
		header = []string{"Filesystem", "Inodes", "IUsed", "IFree", "IUse%", "Mounted on"}
	}
	if showType {
		header = slices.Insert(header, 1, "Type")
	}
	rows := [][]string{header}
	amount := func(n int64) string {
		if human {
			if si {
				return libc.HumanSize(n, 1000)
			}
			return libc.HumanSize(n, 1024)
		}
		return strconv.FormatInt((n+unit-1)/unit, 10)
	}
	usage := c.Files.Usage
	if inodes {
		usage = c.Files.InodeUsage
		unit = 1
	}
	add := func(m mounted, size, used, free int64) {
		percent := "-"
		if used+free > 0 {
			percent = strconv.FormatInt((used*100+used+free-1)/(used+free), 10) + "%"
		}
		row := []string{m.source, amount(size), amount(used), amount(free), percent, m.target}
		if showType {
			row = slices.Insert(row, 1, m.kind)
		}
		rows = append(rows, row)
	}
	var sum [3]int64
	show := func(m mounted, name string) {
		size, free, err := usage(name)
		if err != nil {
			c.Fail("%s: %s", name, libc.Strerror(err))
			return
		}
		if len(only) > 0 && !slices.Contains(only, m.kind) || slices.Contains(without, m.kind) {
			return
		}
		sum[0], sum[1], sum[2] = sum[0]+size, sum[1]+size-free, sum[2]+free
		add(m, size, size-free, free)
	}
	if len(operands) > 0 {
		for _, n := range operands {
			if _, err := c.Files.Stat(c.Path(n)); err != nil {
				if c.Busybox {
					c.Fail("%s: can't find mount point", n)
				} else {
					c.FailFile(n, err)
				}
				continue
			}
			m := fileSystem(c, c.Path(n))
			show(m, m.target)
		}
		if len(rows) == 1 {
			return c.Status
		}
	} else {
		seen := map[string]bool{}
		for _, m := range mounts(c) {
			size, _, err := c.Files.Usage(m.target)
			if !all && (err != nil || size == 0 || slices.Contains(pseudo, m.kind) || m.kind != "tmpfs" && m.kind != "overlay" && seen[m.source]) {
				continue
			}
			if err != nil {
				continue
			}
			seen[m.source] = true
			show(m, m.target)
		}
		if len(rows) == 1 {
			return c.Fail("no file systems processed")
		}
	}
	if total {
		add(mounted{source: "total", target: "-", kind: "-"}, sum[0], sum[1], sum[2])
	}
	widths := make([]int, len(header))
	for _, r := range rows {
		for i, s := range r {
			widths[i] = max(widths[i], len(s))
		}
	}
	widths[0] = max(widths[0], 14)
	for i := range widths {
		if i > 0 && header[i] != "Type" && i < len(widths)-2 {
			widths[i] = max(widths[i], 5)
		}
	}
	for _, r := range rows {
		for i, s := range r {
			switch {
			case i == len(r)-1:
				c.Put("%s\n", s)
			case i == 0 || header[i] == "Type":
				c.Put("%-*s ", widths[i], s)
			default:
				c.Put("%*s ", widths[i], s)
			}
		}
	}
	return c.Status
}

func du(c *libc.Prog) int {
	opts, operands, ok := c.Options("abcd:hHkLlmPsSt:xB:0", "all|a", "bytes|b", "total|c", "max-depth:|d", "human-readable|h", "si", "dereference|L", "summarize|s", "separate-dirs|S", "one-file-system|x", "block-size:|B", "apparent-size", "exclude:", "time::", "threshold:|t", "inodes")
	if !ok {
		return c.Status
	}
	all, total, depth, human, summarize, apparent, unit, separate := false, false, -1, false, false, false, int64(1024), false
	var exclude []string
	for _, o := range opts {
		switch o.Name {
		case "a":
			all = true
		case "b":
			apparent, unit = true, 1
		case "apparent-size":
			apparent = true
		case "c":
			total = true
		case "d":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 0 {
				c.Fail("invalid maximum depth %s", c.Quote(o.Value))
				return c.TryHelp()
			}
			depth = n
		case "h":
			human = true
		case "k":
			unit = 1024
		case "m":
			unit = 1 << 20
		case "s":
			summarize = true
		case "S":
			separate = true
		case "B":
			v := o.Value
			if v != "" && (v[0] < '0' || v[0] > '9') {
				v = "1" + v
			}
			if n, valid := byteCount(v); valid && n > 0 {
				unit = n
			}
		case "exclude":
			exclude = append(exclude, o.Value)
		}
	}
	if summarize {
		depth = 0
	}
	put := func(n int64, name string) {
		s := strconv.FormatInt((n+unit-1)/unit, 10)
		if human {
			s = libc.HumanSize(n, 1024)
		}
		c.Put("%s\t%s\n", s, name)
	}
	seen := map[string]bool{}
	var walk func(name string, level int) int64
	walk = func(name string, level int) int64 {
		i, err := c.Files.Lstat(c.Path(name))
		if err != nil {
			if c.Busybox {
				c.FailFile(name, err)
			} else {
				c.Fail("cannot access %s: %s", libc.Quote(name), libc.Strerror(err))
			}
			return 0
		}
		for _, x := range exclude {
			if ok, _ := path.Match(x, path.Base(name)); ok {
				return 0
			}
		}
		st := libc.Stat(i)
		if st.Nlink > 1 && !i.IsDir() {
			key := fmt.Sprint(st.Device, " ", st.Inode)
			if seen[key] {
				return 0
			}
			seen[key] = true
		}
		n := libc.Blocks(i) << 10
		if apparent {
			n = i.Size()
		}
		own := n
		if i.IsDir() {
			list, err := c.Files.ReadDir(c.Path(name))
			if err != nil {
				c.Fail("cannot read directory %s: %s", libc.Quote(name), libc.Strerror(err))
			}
			for _, e := range list {
				k := walk(joinName(name, e.Name()), level+1)
				n += k
				if !e.IsDir() {
					own += k
				}
			}
		}
		if (i.IsDir() || all || level == 0) && (depth < 0 || level <= depth) && c.Alive() {
			if separate {
				put(own, name)
			} else {
				put(n, name)
			}
		}
		return n
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	var sum int64
	for _, n := range operands {
		sum += walk(n, 0)
	}
	if total {
		put(sum, "total")
	}
	return c.Status
}

// ddRate is how fast dd copies: simulated time must pass while it does.
const ddRate = 200 << 20 // bytes in a second

func dd(c *libc.Prog) int {
	in, out, block, count, skip, seek, status := "", "", int64(512), int64(-1), int64(0), int64(0), ""
	var conv, oflag []string
	for _, a := range c.Args {
		k, v, ok := strings.Cut(a, "=")
		number := func() int64 {
			n, valid := byteCount(v)
			if !valid {
				c.Fail("invalid number: %s", c.Quote(v))
			}
			return n
		}
		if !ok {
			c.Warn("unrecognized operand %s", c.Quote(a))
			return c.TryHelp()
		}
		switch k {
		case "if":
			in = v
		case "of":
			out = v
		case "bs", "ibs", "obs":
			block = number()
		case "count":
			count = number()
		case "skip":
			skip = number()
		case "seek":
			seek = number()
		case "status":
			status = v
		case "conv":
			conv = strings.Split(v, ",")
		case "oflag", "iflag":
			oflag = strings.Split(v, ",")
		default:
			c.Warn("unrecognized operand %s", c.Quote(a))
			return c.TryHelp()
		}
		if c.Status != 0 {
			return c.Status
		}
	}
	if block <= 0 || block > 64<<20 {
		return c.Fail("invalid number: %s", c.Quote(strconv.FormatInt(block, 10)))
	}
	operand := in
	if in == "" {
		operand = "-"
	}
	r, err := c.Input(operand)
	if err != nil {
		return c.Fail("failed to open %s: %s", libc.Quote(in), libc.Strerror(err))
	}
	defer r.Close()
	if skip > 0 {
		s, ok := r.(io.Seeker)
		if ok {
			_, err := s.Seek(skip*block, io.SeekStart)
			ok = err == nil
		}
		if !ok {
			io.CopyN(io.Discard, r, skip*block)
		}
	}
	var w io.Writer = c.Stdout
	if out != "" && out != "/dev/stdout" {
		flag := os.O_WRONLY | os.O_CREATE
		if !slices.Contains(conv, "notrunc") && seek == 0 {
			flag |= os.O_TRUNC
		}
		if slices.Contains(oflag, "append") {
			flag |= os.O_APPEND
		}
		f, err := c.Files.OpenFile(c.Path(out), flag, 0o666)
		if err != nil {
			return c.Fail("failed to open %s: %s", libc.Quote(out), libc.Strerror(err))
		}
		defer f.Close()
		if seek > 0 {
			f.Seek(seek*block, io.SeekStart)
		}
		w = f
	}
	start := time.Now()
	buf := make([]byte, block)
	var full, part, total int64
	for n := int64(0); (count < 0 || n < count) && c.Alive(); n++ {
		k, err := r.Read(buf)
		for err == nil && int64(k) < block && in != "" {
			var m int
			m, err = r.Read(buf[k:])
			k += m
		}
		if k > 0 {
			if int64(k) == block {
				full++
			} else {
				part++
			}
			if _, werr := w.Write(buf[:k]); werr != nil {
				name := out
				if name == "" {
					name = "standard output"
				}
				c.Fail("error writing %s: %s", libc.Quote(name), libc.Strerror(werr))
				break
			}
			total += int64(k)
			c.Wait(time.Duration(float64(k) / ddRate * float64(time.Second)))
		}
		if err != nil {
			break
		}
	}
	if status == "none" {
		return c.Status
	}
	c.Errorf("%d+%d records in\n%d+%d records out\n", full, part, full, part)
	if status != "noxfer" {
		seconds := time.Since(start).Seconds()
		rate := "Infinity B/s"
		if seconds > 0 {
			rate = decimalSize(float64(total)/seconds) + "/s"
		}
		size := strconv.FormatInt(total, 10) + " bytes"
		switch {
		case total == 1:
			size = "1 byte"
		case total >= 1024:
			size += " (" + decimalSize(float64(total)) + ", " + binarySize(float64(total)) + ")"
		case total >= 1000:
			size += " (" + decimalSize(float64(total)) + ")"
		}
		c.Errorf("%s copied, %s s, %s\n", size, strconv.FormatFloat(seconds, 'g', 6, 64), rate)
	}
	return c.Status
}

func decimalSize(n float64) string { return scaled(n, 1000, []string{"B", "kB", "MB", "GB", "TB"}) }
func binarySize(n float64) string  { return scaled(n, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"}) }

func scaled(n, base float64, units []string) string {
	i := 0
	for n >= base && i < len(units)-1 {
		n /= base
		i++
	}
	if n < 10 && i > 0 {
		return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " " + units[i]
}

// file tells a file's type from its content, for the types that a cluster's machine holds.
func file(c *libc.Prog) int {
	opts, operands, ok := c.Options("bihL", "brief|b", "mime|i", "mime-type", "dereference|L")
	if !ok {
		return c.Status
	}
	brief, follow := false, false
	for _, o := range opts {
		brief = brief || o.Name == "b"
		follow = follow || o.Name == "L"
	}
	if len(operands) == 0 {
		c.Errorf("Usage: file [-bcCdEhikLlNnprsSvzZ0] [file ...]\n")
		return 1
	}
	width := 0
	for _, n := range operands {
		width = max(width, len(n)+1)
	}
	for _, n := range operands {
		kind := fileKind(c, n, follow)
		if brief {
			c.Put("%s\n", kind)
		} else {
			c.Put("%-*s %s\n", width, n+":", kind)
		}
	}
	return 0
}

func fileKind(c *libc.Prog, name string, follow bool) string {
	i, err := statName(c, name, follow)
	if err != nil {
		return "cannot open `" + name + "' (" + libc.Strerror(err) + ")"
	}
	switch libc.TypeLetter(i.Mode()) {
	case 'd':
		if i.Mode()&fs.ModeSticky != 0 {
			return "sticky, directory"
		}
		return "directory"
	case 'l':
		t, _ := c.Files.Readlink(c.Path(name))
		if _, err := c.Files.Stat(c.Path(name)); err != nil {
			return "broken symbolic link to " + t
		}
		return "symbolic link to " + t
	case 'p':
		return "fifo (named pipe)"
	case 's':
		return "socket"
	case 'c':
		return "character special (" + strings.Replace(libc.Stat(i).Rdev, ":", "/", 1) + ")"
	case 'b':
		return "block special"
	}
	b, err := c.ReadFile(name)
	if err != nil {
		return "regular file, no read permission"
	}
	text := string(b[:min(len(b), 4096)])
	has := func(prefix string) bool { return strings.HasPrefix(text, prefix) }
	switch {
	case len(b) == 0:
		return "empty"
	case has("\x7fELF"):
		return "ELF 64-bit LSB executable, x86-64, version 1 (SYSV), statically linked, stripped"
	case has("-----BEGIN CERTIFICATE-----"):
		return "PEM certificate"
	case has("-----BEGIN RSA PRIVATE KEY-----"):
		return "PEM RSA private key"
	case has("-----BEGIN EC PRIVATE KEY-----"):
		return "PEM EC private key"
	case has("\x1f\x8b"):
		return "gzip compressed data"
	case len(text) > 262 && text[257:262] == "ustar":
		return "POSIX tar archive (GNU)"
	case has("#!"):
		line, _, _ := strings.Cut(text[2:], "\n")
		switch fields := strings.Fields(line); {
		case len(fields) == 0:
		case strings.HasSuffix(fields[0], "bash"):
			return "Bourne-Again shell script, ASCII text executable"
		case strings.HasSuffix(fields[0], "sh"):
			return "POSIX shell script, ASCII text executable"
		}
		return "a " + strings.TrimSpace(line) + " script, ASCII text executable"
	case strings.ContainsRune(text, 0):
		return "data"
	}
	kind := "ASCII text"
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") && strings.HasSuffix(strings.TrimSpace(string(b)), "}") {
		kind = "JSON text data"
	} else if strings.IndexFunc(text, func(r rune) bool { return r > 127 }) >= 0 {
		kind = "Unicode text, UTF-8 text"
	}
	if strings.Contains(text, "\r\n") {
		kind += ", with CRLF line terminators"
	} else if !strings.Contains(text, "\n") && kind == "ASCII text" {
		kind += ", with no line terminators"
	}
	return kind
}

// tree shows a directory as a tree.
func tree(c *libc.Prog) int {
	opts, operands, ok := c.Options("adfL:pugshDFiI:P:tr", "dirsfirst", "noreport")
	if !ok {
		return c.Status
	}
	all, dirsOnly, full, level, perms, report := false, false, false, -1, false, true
	for _, o := range opts {
		switch o.Name {
		case "a":
			all = true
		case "d":
			dirsOnly = true
		case "f":
			full = true
		case "p":
			perms = true
		case "L":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 1 {
				return c.Fail("Invalid level, must be greater than 0.")
			}
			level = n
		case "noreport":
			report = false
		}
	}
	branch := [4]string{"├── ", "│   ", "└── ", "    "}
	if !c.UTF8() {
		branch = [4]string{"|-- ", "|   ", "`-- ", "    "}
	}
	dirs, files := 0, 0
	var walk func(name, prefix string, depth int)
	walk = func(name, prefix string, depth int) {
		list, err := c.Files.ReadDir(c.Path(name))
		if err != nil {
			return
		}
		list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !all && strings.HasPrefix(e.Name(), ".") || dirsOnly && !e.IsDir() })
		for k, e := range list {
			b, next := branch[0], branch[1]
			if k == len(list)-1 {
				b, next = branch[2], branch[3]
			}
			child := joinName(name, e.Name())
			label := e.Name()
			if full {
				label = child
			}
			i, err := c.Files.Lstat(c.Path(child))
			if err != nil {
				continue
			}
			if perms {
				label = "[" + libc.ModeString(i.Mode()) + "]  " + label
			}
			if i.Mode()&fs.ModeSymlink != 0 {
				t, _ := c.Files.Readlink(c.Path(child))
				label += " -> " + t
			}
			c.Put("%s%s%s\n", prefix, b, label)
			if i.IsDir() {
				dirs++
				if level < 0 || depth < level {
					walk(child, prefix+next, depth+1)
				}
			} else {
				files++
			}
		}
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	for _, n := range operands {
		if i, err := c.Files.Stat(c.Path(n)); err != nil || !i.IsDir() {
			c.Put("%s  [error opening dir]\n", n)
			c.Status = 2
			continue
		}
		c.Put("%s\n", n)
		dirs++
		walk(n, "", 1)
	}
	if report {
		plural := func(n int, one, many string) string {
			if n == 1 {
				return "1 " + one
			}
			return strconv.Itoa(n) + " " + many
		}
		c.Put("\n%s", plural(dirs, "directory", "directories"))
		if !dirsOnly {
			c.Put(", %s", plural(files, "file", "files"))
		}
		c.Put("\n")
	}
	return c.Status
}
