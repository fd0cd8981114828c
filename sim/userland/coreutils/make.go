package coreutils

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/userland/libc"
)

func mkdir(c *libc.Prog) int {
	opts, operands, ok := c.Options("m:pvZ", "mode:|m", "parents|p", "verbose|v")
	if !ok {
		return c.Status
	}
	parents, verbose := false, false
	var change func(int, bool) int
	for _, o := range opts {
		switch o.Name {
		case "p":
			parents = true
		case "v":
			verbose = true
		case "m":
			var err error
			if change, err = parseMode(o.Value, defaultUmask); err != nil {
				return c.Fail("invalid mode %s", c.Quote(o.Value))
			}
		}
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	fail := func(name string, err error) {
		if c.Busybox {
			c.Fail("can't create directory '%s': %s", name, libc.Strerror(err))
		} else {
			c.Fail("cannot create directory %s: %s", c.Quote(name), libc.Strerror(err))
		}
	}
	for _, n := range operands {
		make := func(name string, last bool) bool {
			full := c.Path(name)
			if name == "" {
				fail(name, syscall.ENOENT)
				return false
			}
			if i, err := c.Files.Stat(full); err == nil && parents {
				if i.IsDir() {
					return true
				}
				if !last {
					fail(name, syscall.ENOTDIR)
					return false
				}
			}
			if err := c.Files.Mkdir(full, 0o777); err != nil {
				fail(name, err)
				return false
			}
			if last && change != nil {
				c.Files.Chmod(full, libc.ModeOf(change(0o777, true)))
			}
			if verbose {
				c.Put("mkdir: created directory %s\n", libc.Quote(name))
			}
			return true
		}
		if parents {
			clean := path.Clean(n)
			done := true
			for i := 1; i < len(clean) && done; i++ {
				if clean[i] == '/' {
					done = make(clean[:i], false)
				}
			}
			if !done {
				continue
			}
		}
		make(n, true)
	}
	return c.Status
}

func touch(c *libc.Prog) int {
	opts, operands, ok := c.Options("acd:fhmr:t:", "no-create|c", "date:|d", "no-dereference|h", "reference:|r", "time:")
	if !ok {
		return c.Status
	}
	create, atime, mtime := true, true, true
	now := time.Now()
	at, mt := now, now
	for _, o := range opts {
		switch o.Name {
		case "c":
			create = false
		case "a":
			mtime = false
		case "m":
			atime = false
		case "d":
			t, err := parseDate(o.Value, now)
			if err != nil {
				return c.Fail("invalid date format %s", c.Quote(o.Value))
			}
			at, mt = t, t
		case "t":
			t, err := parseStamp(o.Value, now)
			if err != nil {
				return c.Fail("invalid date format %s", c.Quote(o.Value))
			}
			at, mt = t, t
		case "r":
			i, err := c.Files.Stat(c.Path(o.Value))
			if err != nil {
				return c.Fail("failed to get attributes of %s: %s", libc.Quote(o.Value), libc.Strerror(err))
			}
			at, mt = libc.Stat(i).Atime, i.ModTime()
		}
	}
	if len(operands) == 0 {
		c.Warn("missing file operand")
		return c.TryHelp()
	}
	for _, n := range operands {
		full := c.Path(n)
		i, err := statName(c, n, true)
		if errors.Is(err, fs.ErrNotExist) {
			if !create {
				continue
			}
			if strings.HasSuffix(n, "/") {
				c.Fail("setting times of %s: %s", libc.Quote(n), libc.Strerror(err))
				continue
			}
			f, err := c.Files.OpenFile(full, os.O_WRONLY|os.O_CREATE, 0o666)
			if err != nil {
				touchFail(c, n, err)
				continue
			}
			f.Close()
			if i, err = c.Files.Stat(full); err != nil {
				continue
			}
		} else if err != nil {
			touchFail(c, n, err)
			continue
		}
		a, m := libc.Stat(i).Atime, i.ModTime()
		if atime {
			a = at
		}
		if mtime {
			m = mt
		}
		if err := c.Files.Chtimes(full, a, m); err != nil {
			if c.Busybox {
				c.Fail("%s: %s", n, libc.Strerror(err))
			} else {
				c.Fail("cannot touch %s: %s", libc.Quote(n), libc.Strerror(err))
			}
		}
	}
	return c.Status
}

// parseStamp reads touch -t's [[CC]YY]MMDDhhmm[.ss].
func parseStamp(s string, now time.Time) (time.Time, error) {
	s, sec, dot := strings.Cut(s, ".")
	layout := map[int]string{8: "01021504", 10: "0601021504", 12: "200601021504"}[len(s)]
	if layout == "" {
		return time.Time{}, errMode
	}
	if dot {
		s, layout = s+sec, layout+"05"
	}
	t, err := time.Parse(layout, s)
	if err == nil && strings.HasPrefix(layout, "01") {
		t = t.AddDate(now.Year(), 0, 0)
	}
	return t, err
}

func ln(c *libc.Prog) int {
	opts, operands, ok := c.Options("bfinrst:TvPLS:", "backup::", "force|f", "interactive|i", "no-dereference|n", "relative|r", "symbolic|s", "target-directory:|t", "no-target-directory|T", "verbose|v",
		"logical|L", "physical|P", "suffix:|S")
	if !ok {
		return c.Status
	}
	symbolic, force, noFollow, relative, verbose, backup, target, noTarget := false, false, false, false, false, "", "", false
	for _, o := range opts {
		switch o.Name {
		case "s":
			symbolic = true
		case "f":
			force = true
		case "n":
			noFollow = true
		case "r":
			relative = true
		case "v":
			verbose = true
		case "b", "backup":
			backup = "~"
		case "S":
			backup = o.Value
		case "t":
			target = o.Value
		case "T":
			noTarget = true
		}
	}
	var sources []string
	dest, intoDir := ".", true
	switch {
	case len(operands) == 0:
		c.Warn("missing file operand")
		return c.TryHelp()
	case target != "":
		sources, dest = operands, target
	case len(operands) == 1:
		sources = operands
	default:
		sources, dest = operands[:len(operands)-1], operands[len(operands)-1]
		i, err := c.Files.Stat(c.Path(dest))
		intoDir = err == nil && i.IsDir() && !noTarget
		if l, err := c.Files.Lstat(c.Path(dest)); err == nil && noFollow && l.Mode()&fs.ModeSymlink != 0 {
			intoDir = false
		}
		if len(sources) > 1 && !intoDir {
			if err == nil {
				err = syscall.ENOTDIR
			}
			return c.Fail("target %s: %s", libc.Quote(dest), libc.Strerror(err))
		}
	}
	for _, s := range sources {
		to := dest
		if intoDir {
			to = joinName(dest, path.Base(s))
		}
		from := s
		if relative {
			from = relativeTo(c.Path(s), path.Dir(c.Path(to)))
		}
		if !symbolic {
			i, err := c.Files.Lstat(c.Path(s))
			if err != nil {
				c.Fail("failed to access %s: %s", libc.Quote(s), libc.Strerror(err))
				continue
			}
			if i.IsDir() {
				c.Fail("%s: hard link not allowed for directory", s)
				continue
			}
		}
		if i, err := c.Files.Lstat(c.Path(to)); err == nil {
			switch {
			case i.IsDir():
				c.Fail("%s: cannot overwrite directory", to)
				continue
			case backup != "":
				c.Files.Rename(c.Path(to), c.Path(to)+backup)
			case force:
				if j, err := c.Files.Lstat(c.Path(s)); err == nil && sameFile(i, j) {
					c.Fail("%s and %s are the same file", libc.Quote(s), libc.Quote(to))
					continue
				}
				if err := c.Files.Remove(c.Path(to)); err != nil {
					c.Fail("cannot remove %s: %s", libc.Quote(to), libc.Strerror(err))
					continue
				}
			}
		}
		var err error
		if symbolic {
			err = c.Files.Symlink(from, c.Path(to))
		} else {
			err = c.Files.Link(c.Path(s), c.Path(to))
		}
		if err != nil {
			switch {
			case c.Busybox:
				c.Fail("%s: %s", to, libc.Strerror(err))
			case symbolic:
				c.Fail("failed to create symbolic link %s: %s", libc.Quote(to), libc.Strerror(err))
			case errors.Is(err, fs.ErrExist):
				c.Fail("failed to create hard link %s: %s", libc.Quote(to), libc.Strerror(err))
			default:
				c.Fail("failed to create hard link %s => %s: %s", libc.Quote(to), libc.Quote(s), libc.Strerror(err))
			}
			continue
		}
		if verbose {
			arrow := "=>"
			if symbolic {
				arrow = "->"
			}
			c.Put("%s %s %s\n", libc.Quote(to), arrow, libc.Quote(from))
		}
	}
	return c.Status
}

// relativeTo is the name of a file as seen from a directory; both are absolute.
func relativeTo(file, dir string) string {
	if dir == "/" {
		dir = ""
	}
	f, d := strings.Split(file, "/"), strings.Split(dir, "/")
	i := 0
	for i < len(f)-1 && i < len(d) && f[i] == d[i] {
		i++
	}
	return strings.Repeat("../", len(d)-i) + strings.Join(f[i:], "/")
}

func link(c *libc.Prog) int {
	_, operands, ok := c.Options("")
	if !ok {
		return c.Status
	}
	if len(operands) != 2 {
		return c.MissingOperand()
	}
	if err := c.Files.Link(c.Path(operands[0]), c.Path(operands[1])); err != nil {
		return c.Fail("cannot create link %s to %s: %s", libc.Quote(operands[1]), libc.Quote(operands[0]), libc.Strerror(err))
	}
	return 0
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// randomName replaces the last run of at least three X of a template.
func randomName(c *libc.Prog, template string) (string, bool) {
	end := strings.LastIndex(template, "X") + 1
	start := end
	for start > 0 && template[start-1] == 'X' {
		start--
	}
	if end-start < 3 {
		return "", false
	}
	r := c.World().Rand("mktemp")
	b := []byte(template)
	for i := start; i < end; i++ {
		b[i] = nameLetters[r.IntN(len(nameLetters))]
	}
	return string(b), true
}

func mktemp(c *libc.Prog) int {
	opts, operands, ok := c.Options("dqup:t", "directory|d", "quiet|q", "dry-run|u", "tmpdir::|p", "suffix:")
	if !ok {
		return c.Status
	}
	directory, dry, dir, useDir, suffix := false, false, "", false, ""
	for _, o := range opts {
		switch o.Name {
		case "d":
			directory = true
		case "u":
			dry = true
		case "p":
			dir, useDir = o.Value, true
		case "t":
			useDir = true
		case "suffix":
			suffix = o.Value
		}
	}
	template := "tmp.XXXXXXXXXX"
	switch len(operands) {
	case 0:
		useDir = true
	case 1:
		template = operands[0]
	default:
		c.Warn("too many templates")
		return c.TryHelp()
	}
	if useDir {
		if dir == "" {
			dir = c.Getenv("TMPDIR")
		}
		if dir == "" {
			dir = "/tmp"
		}
		template = joinName(dir, template)
	}
	what := "file"
	if directory {
		what = "directory"
	}
	for range 100 {
		name, ok := randomName(c, template)
		if !ok {
			return c.Fail("too few X's in template %s", c.Quote(template))
		}
		name += suffix
		var err error
		switch {
		case dry:
		case directory:
			err = c.Files.Mkdir(c.Path(name), 0o700)
		default:
			f, ferr := c.Files.OpenFile(c.Path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if err = ferr; err == nil {
				f.Close()
			}
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return c.Fail("failed to create %s via template %s: %s", what, c.Quote(template+suffix), libc.Strerror(err))
		}
		c.Put("%s\n", name)
		return 0
	}
	return c.Fail("failed to create %s via template %s: File exists", what, c.Quote(template))
}

// byteCount reads a size with a suffix, as truncate, dd and split do: 10, 5K, 1M, 2GB.
func byteCount(s string) (int64, bool) {
	i := len(s)
	for i > 0 && (s[i-1] < '0' || s[i-1] > '9') {
		i--
	}
	unit := map[string]int64{"": 1, "c": 1, "w": 2, "b": 512, "k": 1 << 10, "K": 1 << 10, "KiB": 1 << 10, "kB": 1000, "KB": 1000, "M": 1 << 20, "MiB": 1 << 20, "MB": 1e6, "G": 1 << 30, "GiB": 1 << 30,
		"GB": 1e9, "T": 1 << 40, "TiB": 1 << 40, "TB": 1e12}[s[i:]]
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil || unit == 0 || n < 0 || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

func truncate(c *libc.Prog) int {
	opts, operands, ok := c.Options("cr:s:o", "no-create|c", "reference:|r", "size:|s")
	if !ok {
		return c.Status
	}
	create, size, sign, given := true, int64(0), byte(0), false
	for _, o := range opts {
		switch o.Name {
		case "c":
			create = false
		case "s":
			v := o.Value
			if v != "" && strings.IndexByte("+-<>/%", v[0]) >= 0 {
				sign, v = v[0], v[1:]
			}
			n, valid := byteCount(v)
			if !valid {
				return c.Fail("Invalid number: %s", c.Quote(o.Value))
			}
			size, given = n, true
		case "r":
			i, err := c.Files.Stat(c.Path(o.Value))
			if err != nil {
				return c.Fail("cannot stat %s: %s", libc.Quote(o.Value), libc.Strerror(err))
			}
			size, given = i.Size(), true
		}
	}
	if !given {
		c.Warn("you must specify either %s or %s", c.Quote("--size"), c.Quote("--reference"))
		return c.TryHelp()
	}
	if len(operands) == 0 {
		c.Warn("missing file operand")
		return c.TryHelp()
	}
	for _, n := range operands {
		i, err := c.Files.Stat(c.Path(n))
		if errors.Is(err, fs.ErrNotExist) && !create {
			continue
		}
		old := int64(0)
		if err == nil {
			old = i.Size()
		}
		f, err := c.Files.OpenFile(c.Path(n), os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			c.Fail("cannot open %s for writing: %s", libc.Quote(n), libc.Strerror(err))
			continue
		}
		want := size
		switch sign {
		case '+':
			want = old + size
		case '-':
			want = max(0, old-size)
		case '<':
			want = min(old, size)
		case '>':
			want = max(old, size)
		case '/':
			want = old / max(1, size) * size
		case '%':
			want = (old + size - 1) / max(1, size) * size
		}
		if err := f.Truncate(want); err != nil {
			c.Fail("failed to truncate %s at %d bytes: %s", libc.Quote(n), want, libc.Strerror(err))
		}
		f.Close()
	}
	return c.Status
}

func touchFail(c *libc.Prog, name string, err error) {
	if c.Busybox {
		c.Fail("%s: %s", name, libc.Strerror(err))
		return
	}
	c.Fail("cannot touch %s: %s", libc.Quote(name), libc.Strerror(err))
}
