package text

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/userland/libc"
)

const (
	createFlag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	appendFlag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
)

// count reads a number with a multiplier: 10, +3, 2k, 1M. sign is '+', '-' or 0.
func count(s string) (n int64, sign byte, ok bool) {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[0], s[1:]
	}
	mult := int64(1)
	for _, u := range []struct {
		suffix string
		n      int64
	}{{"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1000}, {"KB", 1000}, {"MB", 1e6}, {"GB", 1e9}, {"b", 512}, {"k", 1024}, {"K", 1024}, {"M", 1 << 20}, {"m", 1 << 20}, {"G", 1 << 30}} {
		if t, found := strings.CutSuffix(s, u.suffix); found {
			s, mult = t, u.n
			break
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v * mult, sign, err == nil && v >= 0
}

// oldStyle turns head -5 into head -n 5.
func oldStyle(args []string, plus bool) []string {
	for i, a := range args {
		if a == "--" {
			break
		}
		if i > 0 && (args[i-1] == "-n" || args[i-1] == "-c" || args[i-1] == "--lines" || args[i-1] == "--bytes") {
			continue
		}
		if len(a) > 1 && (a[0] == '-' || plus && i == 0 && a[0] == '+') && a[1] >= '0' && a[1] <= '9' {
			j := 1
			for j < len(a) && a[j] >= '0' && a[j] <= '9' {
				j++
			}
			n := a[1:j]
			if a[0] == '+' {
				n = "+" + n
			}
			repl := []string{"-n", n}
			if rest := a[j:]; rest != "" {
				if rest[0] == 'c' {
					repl[0], rest = "-c", rest[1:]
				}
				if rest != "" {
					repl = append(repl, "-"+rest)
				}
			}
			return append(append(append([]string(nil), args[:i]...), repl...), args[i+1:]...)
		}
	}
	return args
}

func head(c *libc.Prog) int {
	opts, files, err := libc.Getopt(oldStyle(c.Args, false), "c:n:qvz", "bytes:|c", "lines:|n", "quiet|q", "silent|q", "verbose|v", "zero-terminated|z", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	n, bytesMode, butLast, quiet, verbose := int64(10), false, false, false, false
	for _, o := range opts {
		switch o.Name {
		case "c", "n":
			v, sign, ok := count(o.Value)
			if !ok {
				what := "lines"
				if o.Name == "c" {
					what = "bytes"
				}
				return c.Fail("invalid number of %s: %s", what, c.Quote(o.Value))
			}
			n, bytesMode, butLast = v, o.Name == "c", sign == '-'
		case "q":
			quiet, verbose = true, false
		case "v":
			verbose, quiet = true, false
		}
	}
	first := true
	for _, name := range orStdin(files) {
		f, err := c.Input(name)
		if err != nil {
			if strings.Contains(libc.Strerror(err), "Is a directory") {
				headHeader(c, name, len(files) > 1 && !quiet || verbose, &first)
				c.Fail("error reading '%s': %s", name, libc.Strerror(err))
			} else {
				if c.Busybox {
					c.FailFile(name, err)
					continue
				}
				c.Fail("cannot open '%s' for reading: %s", name, libc.Strerror(err))
			}
			continue
		}
		headHeader(c, name, len(files) > 1 && !quiet || verbose, &first)
		switch {
		case butLast:
			b, _ := libc.ReadAll(f)
			if bytesMode {
				c.Out.Write(b[:max(0, int64(len(b))-n)])
			} else {
				l := bytes.SplitAfter(b, []byte("\n"))
				if len(l) > 0 && len(l[len(l)-1]) == 0 {
					l = l[:len(l)-1]
				}
				for _, s := range l[:max(0, int64(len(l))-n)] {
					c.Out.Write(s)
				}
			}
		case bytesMode:
			io.Copy(c.Out, io.LimitReader(f, n))
		default:
			left := n
			if left > 0 {
				lines(c, f, func(s string, nl bool) bool {
					c.Out.WriteString(s)
					if nl {
						c.Out.WriteByte('\n')
					}
					left--
					return left > 0
				})
			}
		}
		f.Close()
	}
	return c.Status
}

func headHeader(c *libc.Prog, name string, show bool, first *bool) {
	if !show {
		return
	}
	if !*first {
		c.Put("\n")
	}
	*first = false
	if name == "-" {
		name = "standard input"
	}
	c.Put("==> %s <==\n", name)
}

func tail(c *libc.Prog) int {
	opts, files, err := libc.Getopt(oldStyle(c.Args, true), "c:n:fFqvs:z", "bytes:|c", "lines:|n", "follow::|f", "retry", "quiet|q", "silent|q", "verbose|v", "sleep-interval:|s", "pid:", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	n, bytesMode, fromStart, follow, retry, quiet, verbose, interval := int64(10), false, false, false, false, false, false, time.Second
	for _, o := range opts {
		switch o.Name {
		case "c", "n":
			v, sign, ok := count(o.Value)
			if !ok {
				what := "lines"
				if o.Name == "c" {
					what = "bytes"
				}
				return c.Fail("invalid number of %s: %s", what, c.Quote(o.Value))
			}
			n, bytesMode, fromStart = v, o.Name == "c", sign == '+'
		case "f":
			follow = true
			retry = retry || o.Value == "name"
		case "F":
			follow, retry = true, true
		case "retry":
			retry = true
		case "q":
			quiet = true
		case "v":
			verbose = true
		case "s":
			if d, err := strconv.ParseFloat(o.Value, 64); err == nil {
				interval = time.Duration(d * float64(time.Second))
			}
		}
	}
	headers := len(files) > 1 && !quiet || verbose
	first := true
	type followed struct {
		name  string
		inode uint64
		pos   int64
		gone  bool
	}
	var watch []*followed
	for _, name := range orStdin(files) {
		f, err := c.Input(name)
		if err != nil {
			if strings.Contains(libc.Strerror(err), "Is a directory") {
				headHeader(c, name, headers, &first)
				c.Fail("error reading '%s': %s", name, libc.Strerror(err))
			} else {
				switch {
				case !c.Busybox:
					c.Fail("cannot open '%s' for reading: %s", name, libc.Strerror(err))
				case retry && follow:
					c.Warn("can't open '%s': %s", name, libc.Strerror(err))
				default:
					c.Fail("can't open '%s': %s", name, libc.Strerror(err))
					if len(files) == 1 {
						c.Fail("no files")
					}
				}
				if retry && follow {
					watch = append(watch, &followed{name: name, gone: true})
				}
			}
			continue
		}
		headHeader(c, name, headers, &first)
		var size int64
		switch {
		case fromStart && name == "-" && !bytesMode:
			skip := n - 1
			lines(c, f, func(s string, nl bool) bool {
				if skip > 0 {
					skip--
					return true
				}
				c.Out.WriteString(s)
				if nl {
					c.Out.WriteByte('\n')
				}
				return true
			})
		default:
			b, err := libc.ReadAll(f)
			if err != nil && c.Alive() {
				c.Fail("error reading '%s': %s", name, libc.Strerror(err))
			}
			size = int64(len(b))
			c.Out.Write(tailOf(b, n, bytesMode, fromStart))
		}
		f.Close()
		if name != "-" {
			w := &followed{name: name, pos: size}
			if i, err := c.Files.Stat(c.Path(name)); err == nil {
				w.inode = inodeOf(i)
			}
			watch = append(watch, w)
		}
	}
	c.Out.Flush()
	if !follow || len(watch) == 0 {
		return c.Status
	}
	last := watch[len(watch)-1].name
	for c.Wait(interval) == nil {
		alive := false
		for _, w := range watch {
			i, err := c.Files.Stat(c.Path(w.name))
			if err != nil {
				switch {
				case !retry || w.gone:
				case c.Busybox:
					c.Warn("%s has become inaccessible: %s", w.name, libc.Strerror(err))
				default:
					c.Warn("'%s' has become inaccessible: %s", w.name, libc.Strerror(err))
				}
				w.gone = true
				alive = alive || retry
				continue
			}
			alive = true
			switch {
			case w.gone:
				if !retry {
					continue
				}
				if c.Busybox {
					c.Warn("%s has appeared; following end of new file", w.name)
				} else {
					c.Warn("'%s' has appeared;  following new file", w.name)
				}
				w.gone, w.pos = false, 0
			case inodeOf(i) != w.inode && retry:
				if c.Busybox {
					c.Warn("%s has been replaced; following end of new file", w.name)
				} else {
					c.Warn("'%s' has been replaced;  following new file", w.name)
				}
				w.pos = 0
			case i.Size() < w.pos:
				if !c.Busybox {
					c.Warn("%s: file truncated", w.name)
				}
				w.pos = 0
			}
			w.inode = inodeOf(i)
			if i.Size() == w.pos {
				continue
			}
			f, err := c.Open(w.name)
			if err != nil {
				continue
			}
			buf := make([]byte, min(i.Size()-w.pos, 1<<20))
			k, _ := f.ReadAt(buf, w.pos)
			f.Close()
			if k > 0 {
				if headers && last != w.name {
					c.Put("\n==> %s <==\n", w.name)
					last = w.name
				}
				c.Out.Write(buf[:k])
				w.pos += int64(k)
			}
		}
		if c.Out.Flush() != nil {
			return 1
		}
		if !alive {
			return c.Fail("no files remaining")
		}
	}
	return c.Status
}

func tailOf(b []byte, n int64, bytesMode, fromStart bool) []byte {
	switch {
	case bytesMode && fromStart:
		return b[min(int64(len(b)), max(0, n-1)):]
	case bytesMode:
		return b[max(0, int64(len(b))-n):]
	case fromStart:
		for i := int64(1); i < n && len(b) > 0; i++ {
			k := bytes.IndexByte(b, '\n')
			if k < 0 {
				return nil
			}
			b = b[k+1:]
		}
		return b
	}
	if n == 0 {
		return nil
	}
	end := len(b)
	if end > 0 && b[end-1] == '\n' {
		end--
	}
	for ; end > 0; end-- {
		if b[end-1] == '\n' {
			if n--; n == 0 {
				return b[end:]
			}
		}
	}
	return b
}

func wc(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "clmwL", "bytes|c", "lines|l", "chars|m", "words|w", "max-line-length|L", "files0-from:", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	want := map[string]bool{}
	for _, o := range opts {
		want[o.Name] = true
	}
	if len(want) == 0 {
		want["l"], want["w"], want["c"] = true, true, true
	}
	type counts struct{ l, w, m, c, max int64 }
	var total counts
	type row struct {
		n    counts
		name string
	}
	var rows []row
	width := 1
	regular := true
	for _, name := range orStdin(files) {
		f, err := c.Input(name)
		if err != nil {
			if strings.Contains(libc.Strerror(err), "Is a directory") {
				c.FailFile(name, err)
				rows = append(rows, row{name: name})
				width = 7
				continue
			}
			c.FailFile(name, err)
			continue
		}
		var n counts
		r := bufio.NewReader(f)
		inWord := false
		var line int64
		for {
			ch, size, err := r.ReadRune()
			if err != nil {
				break
			}
			n.c += int64(size)
			n.m++
			switch ch {
			case '\n':
				n.l++
				n.max = max(n.max, line)
				line = 0
				inWord = false
			case ' ', '\t', '\r', '\v', '\f':
				inWord = false
				line++
			default:
				line++
				if !inWord {
					n.w++
					inWord = true
				}
			}
		}
		n.max = max(n.max, line)
		f.Close()
		total.l, total.w, total.m, total.c, total.max = total.l+n.l, total.w+n.w, total.m+n.m, total.c+n.c, max(total.max, n.max)
		if name == "-" {
			regular = false
		}
		label := name
		if len(files) == 0 {
			label = ""
		}
		rows = append(rows, row{n, label})
	}
	width = max(width, len(strconv.FormatInt(total.c, 10)))
	if !regular && len(want) > 1 {
		width = 7
	}
	if len(rows) == 1 && len(want) == 1 {
		width = 1
	}
	if len(orStdin(files)) > 1 {
		rows = append(rows, row{total, "total"})
	}
	for _, r := range rows {
		var out []string
		for _, k := range []struct {
			name string
			n    int64
		}{{"l", r.n.l}, {"w", r.n.w}, {"m", r.n.m}, {"c", r.n.c}, {"L", r.n.max}} {
			if want[k.name] {
				out = append(out, fmt.Sprintf("%*d", width, k.n))
			}
		}
		s := strings.Join(out, " ")
		if r.name != "" {
			s += " " + r.name
		}
		c.Put("%s\n", s)
	}
	return c.Status
}
