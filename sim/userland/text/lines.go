package text

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
	"strings"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

func usageText(c *libc.Prog, text string) int { return c.Usage(errors.New(text)) }

func nl(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "b:d:f:h:i:l:n:ps:v:w:", "body-numbering:|b", "line-increment:|i", "number-format:|n", "number-separator:|s", "starting-line-number:|v", "number-width:|w", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	all, n, step, width, sep, format := false, 1, 1, 6, "\t", "rn"
	for _, o := range opts {
		v, _ := strconv.Atoi(o.Value)
		switch o.Name {
		case "b":
			all = o.Value == "a"
		case "v":
			n = v
		case "i":
			step = v
		case "w":
			width = max(1, min(v, 1000))
		case "s":
			sep = o.Value
		case "n":
			format = o.Value
		}
	}
	eachFile(c, files, func(_ string, r io.Reader) bool {
		lines(c, r, func(s string, _ bool) bool {
			if s == "" && !all {
				c.Put("%s\n", strings.Repeat(" ", width+len(sep)))
				return true
			}
			switch format {
			case "ln":
				c.Put("%-*d%s%s\n", width, n, sep, s)
			case "rz":
				c.Put("%0*d%s%s\n", width, n, sep, s)
			default:
				c.Put("%*d%s%s\n", width, n, sep, s)
			}
			n += step
			return true
		})
		return true
	})
	return c.Status
}

func rev(c *libc.Prog) int {
	_, files, err := libc.Getopt(c.Args, "", "help|h", "version|V")
	if err != nil {
		return c.Usage(err)
	}
	eachFile(c, files, func(_ string, r io.Reader) bool {
		lines(c, r, func(s string, nl bool) bool {
			rs := []rune(s)
			for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {
				rs[i], rs[j] = rs[j], rs[i]
			}
			c.Put("%s", string(rs))
			if nl {
				c.Put("\n")
			}
			return true
		})
		return true
	})
	return c.Status
}

func fold(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "bsw:", "bytes|b", "spaces|s", "width:|w", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	width, spaces := 80, false
	for _, o := range opts {
		switch o.Name {
		case "w":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 1 {
				return c.Fail("invalid number of columns: %s", c.Quote(o.Value))
			}
			width = n
		case "s":
			spaces = true
		}
	}
	eachFile(c, files, func(_ string, r io.Reader) bool {
		lines(c, r, func(s string, nl bool) bool {
			for len(s) > width {
				cutAt := width
				if spaces {
					if i := strings.LastIndexAny(s[:width], " \t"); i >= 0 {
						cutAt = i + 1
					}
				}
				c.Put("%s\n", s[:cutAt])
				s = s[cutAt:]
			}
			c.Put("%s", s)
			if nl {
				c.Put("\n")
			}
			return true
		})
		return true
	})
	return c.Status
}

func expandTabs(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "it:", "initial|i", "tabs:|t", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	size := 8
	for _, o := range opts {
		if o.Name == "t" {
			if n, err := strconv.Atoi(o.Value); err == nil && n > 0 {
				size = n
			}
		}
	}
	eachFile(c, files, func(_ string, r io.Reader) bool {
		lines(c, r, func(s string, nl bool) bool {
			col := 0
			for _, ch := range s {
				if ch == '\t' {
					n := size - col%size
					c.Out.WriteString(strings.Repeat(" ", n))
					col += n
					continue
				}
				c.Out.WriteRune(ch)
				col++
			}
			if nl {
				c.Put("\n")
			}
			return true
		})
		return true
	})
	return c.Status
}

func seq(c *libc.Prog) int {
	args := c.Args
	sep, format, equal := "\n", "", false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && (args[0][1] < '0' || args[0][1] > '9') && args[0][1] != '.' {
		a := args[0]
		args = args[1:]
		value := func(short string) string {
			if v := strings.TrimPrefix(a, short); v != "" {
				return v
			}
			if len(args) > 0 {
				v := args[0]
				args = args[1:]
				return v
			}
			return ""
		}
		switch {
		case a == "--":
		case a == "-w" || a == "--equal-width":
			equal = true
			continue
		case strings.HasPrefix(a, "--separator="):
			sep = a[12:]
			continue
		case strings.HasPrefix(a, "--format="):
			format = a[9:]
			continue
		case strings.HasPrefix(a, "-s"):
			sep = value("-s")
			continue
		case strings.HasPrefix(a, "-f"):
			format = value("-f")
			continue
		default:
			if strings.HasPrefix(a, "--") {
				return usageText(c, "unrecognized option '"+a+"'")
			}
			return usageText(c, "invalid option -- '"+a[1:2]+"'")
		}
		break
	}
	switch {
	case len(args) == 0:
		return usageText(c, "missing operand")
	case len(args) > 3:
		return usageText(c, "extra operand "+c.Quote(args[3]))
	}
	nums := make([]float64, len(args))
	prec := 0
	for i, a := range args {
		f, err := strconv.ParseFloat(a, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return usageText(c, "invalid floating point argument: "+c.Quote(a))
		}
		nums[i] = f
		if k := strings.IndexByte(a, '.'); k >= 0 && (i < len(args)-1 || len(args) == 1) {
			prec = max(prec, len(a)-k-1)
		}
	}
	first, step, last := 1.0, 1.0, nums[len(nums)-1]
	if len(nums) > 1 {
		first = nums[0]
	}
	if len(nums) == 3 {
		step = nums[1]
	}
	if step == 0 {
		return usageText(c, "invalid Zero increment value: "+c.Quote(args[1]))
	}
	width := 0
	if equal {
		width = max(len(strconv.FormatFloat(first, 'f', prec, 64)), len(strconv.FormatFloat(last, 'f', prec, 64)))
	}
	for i := 0; c.Alive(); i++ {
		v := first + float64(i)*step
		if step > 0 && v > last+1e-9*math.Abs(step) || step < 0 && v < last-1e-9*math.Abs(step) {
			if i > 0 {
				c.Put("\n")
			}
			return 0
		}
		if i > 0 {
			c.Out.WriteString(sep)
		}
		s := strconv.FormatFloat(v, 'f', prec, 64)
		if format != "" {
			s, _ = bash.Printf(format, []string{s}, c.StartTime())
		} else if len(s) < width {
			s = fmt.Sprintf("%0*s", width, s)
			if strings.Contains(s, "-") {
				s = "-" + strings.Repeat("0", width-len(strings.TrimLeft(s, "0"))) + strings.TrimLeft(s, "0-")
			}
		}
		if _, err := c.Out.WriteString(s); err != nil {
			return 1
		}
	}
	return 0
}

func base64Command(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "diw:D", "decode|d", "ignore-garbage|i", "wrap:|w", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	decode, garbage, wrap := false, false, 76
	for _, o := range opts {
		switch o.Name {
		case "d", "D":
			decode = true
		case "i":
			garbage = true
		case "w":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 0 {
				return c.Fail("invalid wrap size: %s", c.Quote(o.Value))
			}
			wrap = n
		}
	}
	if len(files) > 1 {
		return usageText(c, "extra operand "+c.Quote(files[1]))
	}
	name := orStdin(files)[0]
	b, err := c.InputAll(name)
	if err != nil {
		return c.FailFile(name, err)
	}
	if !decode {
		s := base64.StdEncoding.EncodeToString(b)
		if wrap == 0 {
			c.Out.WriteString(s)
			return 0
		}
		for len(s) > 0 {
			n := min(wrap, len(s))
			c.Put("%s\n", s[:n])
			s = s[n:]
		}
		return 0
	}
	var clean []byte
	bad := false
	for _, ch := range b {
		switch {
		case ch == '\n':
		case ch >= 'A' && ch <= 'Z' || ch >= 'a' && ch <= 'z' || ch >= '0' && ch <= '9' || ch == '+' || ch == '/' || ch == '=':
			if !bad {
				clean = append(clean, ch)
			}
		case !garbage:
			bad = true
		}
	}
	// what is right before the first error is printed, as GNU does
	for len(clean) > 0 {
		n := min(4, len(clean))
		out, err := base64.StdEncoding.DecodeString(string(clean[:n]))
		if err != nil {
			bad = true
			if out, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(clean[:n]), "=")); err == nil && n < 4 {
				c.Out.Write(out)
				if n > 1 && len(clean) == n {
					break
				}
			}
			break
		}
		c.Out.Write(out)
		clean = clean[n:]
	}
	if bad {
		return c.Fail("invalid input")
	}
	return 0
}

func sum(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "bctwz", "binary|b", "check|c", "text|t", "quiet", "status", "warn|w", "tag", "ignore-missing", "strict", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	newHash := map[string]func() hash.Hash{"md5sum": md5.New, "sha1sum": sha1.New, "sha256sum": sha256.New, "sha512sum": sha512.New}[c.Name]
	check, quiet, status, star := false, false, false, " "
	for _, o := range opts {
		switch o.Name {
		case "c":
			check = true
		case "b":
			star = "*"
		case "quiet":
			quiet = true
		case "status":
			status = true
		}
	}
	digest := func(name string) (string, error) {
		r, err := c.Input(name)
		if err != nil {
			return "", err
		}
		defer r.Close()
		h := newHash()
		if _, err := io.Copy(h, r); err != nil {
			return "", err
		}
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	if !check {
		for _, name := range orStdin(files) {
			d, err := digest(name)
			if err != nil {
				c.FailFile(name, err)
				continue
			}
			c.Put("%s %s%s\n", d, star, name)
		}
		return c.Status
	}
	failed, unreadable := 0, 0
	eachFile(c, files, func(list string, r io.Reader) bool {
		formatted := 0
		lines(c, r, func(s string, _ bool) bool {
			want, name, ok := strings.Cut(strings.TrimSpace(s), " ")
			if !ok || len(want) != 2*newHash().Size() {
				return true
			}
			formatted++
			name = strings.TrimPrefix(strings.TrimPrefix(name, " "), "*")
			got, err := digest(name)
			switch {
			case err != nil:
				c.FailFile(name, err)
				if !status {
					c.Put("%s: FAILED open or read\n", name)
				}
				unreadable++
			case !strings.EqualFold(got, want):
				failed++
				if !status {
					c.Put("%s: FAILED\n", name)
				}
			case !quiet && !status:
				c.Put("%s: OK\n", name)
			}
			return true
		})
		if formatted == 0 {
			if list == "-" {
				list = "'standard input'"
			}
			c.Fail("%s: no properly formatted checksum lines found", list)
		}
		return true
	})
	if !status {
		if unreadable > 0 {
			c.Warn("WARNING: %d listed file%s could not be read", unreadable, plural(unreadable))
		}
		if failed > 0 {
			c.Warn("WARNING: %d computed checksum%s did NOT match", failed, plural(failed))
		}
	}
	if failed+unreadable > 0 {
		return 1
	}
	return c.Status
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func shuf(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "ei:n:o:rz", "echo|e", "input-range:|i", "head-count:|n", "output:|o", "repeat|r", "random-source:", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	var l []string
	echo, limit, lo, hi, ranged := false, -1, 0, 0, false
	for _, o := range opts {
		switch o.Name {
		case "e":
			echo = true
		case "n":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 0 {
				return c.Fail("invalid line count: %s", c.Quote(o.Value))
			}
			limit = n
		case "i":
			a, b, ok := strings.Cut(o.Value, "-")
			var err1, err2 error
			lo, err1 = strconv.Atoi(a)
			hi, err2 = strconv.Atoi(b)
			if !ok || err1 != nil || err2 != nil || hi-lo > 1_000_000 {
				return c.Fail("invalid input range: %s", c.Quote(o.Value))
			}
			ranged = true
		}
	}
	switch {
	case ranged:
		for i := lo; i <= hi; i++ {
			l = append(l, strconv.Itoa(i))
		}
	case echo:
		l = files
	default:
		eachFile(c, files, func(_ string, r io.Reader) bool {
			lines(c, r, func(s string, _ bool) bool { l = append(l, s); return true })
			return false
		})
	}
	c.World().Rand("shuf").Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	if limit >= 0 && limit < len(l) {
		l = l[:limit]
	}
	for _, s := range l {
		c.Put("%s\n", s)
	}
	return c.Status
}

func split(c *libc.Prog) int {
	opts, operands, err := libc.Getopt(c.Args, "a:b:l:dn:", "suffix-length:|a", "bytes:|b", "lines:|l", "numeric-suffixes::|d", "number:|n", "additional-suffix:", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	perLines, perBytes, length, numeric, extra := int64(1000), int64(0), 2, false, ""
	for _, o := range opts {
		switch o.Name {
		case "l", "b":
			n, _, ok := count(o.Value)
			if !ok || n == 0 {
				return c.Fail("invalid number of %s: %s", map[string]string{"l": "lines", "b": "bytes"}[o.Name], c.Quote(o.Value))
			}
			if o.Name == "l" {
				perLines = n
			} else {
				perBytes = n
			}
		case "a":
			if n, err := strconv.Atoi(o.Value); err == nil && n > 0 && n < 10 {
				length = n
			}
		case "d":
			numeric = true
		case "additional-suffix":
			extra = o.Value
		case "n":
			return c.Fail("ckadrill does not simulate split -n")
		}
	}
	name, prefix := "-", "x"
	if len(operands) > 0 {
		name = operands[0]
	}
	if len(operands) > 1 {
		prefix = operands[1]
	}
	b, err := c.InputAll(name)
	if err != nil {
		return c.Fail("cannot open %s for reading: %s", libc.Quote(name), libc.Strerror(err))
	}
	for i := 0; len(b) > 0; i++ {
		var part []byte
		if perBytes > 0 {
			n := min(int(perBytes), len(b))
			part, b = b[:n], b[n:]
		} else {
			at := 0
			for k := int64(0); k < perLines && at < len(b); k++ {
				j := bytes.IndexByte(b[at:], '\n')
				if j < 0 {
					at = len(b)
				} else {
					at += j + 1
				}
			}
			part, b = b[:at], b[at:]
		}
		suffix := make([]byte, length)
		base := 26
		if numeric {
			base = 10
		}
		n := i
		for k := length - 1; k >= 0; k-- {
			if numeric {
				suffix[k] = byte('0' + n%base)
			} else {
				suffix[k] = byte('a' + n%base)
			}
			n /= base
		}
		if n > 0 {
			return c.Fail("output file suffixes exhausted")
		}
		out := prefix + string(suffix) + extra
		if err := c.Files.WriteFile(c.Path(out), part, 0o666); err != nil {
			return c.FailFile(out, err)
		}
	}
	return 0
}

// od is od, hexdump and xxd in their usual layouts.
func od(c *libc.Prog) int {
	style := c.Name
	opts, files, err := libc.Getopt(c.Args, "A:t:cxbdoCvn:N:s:pl:", "canonical|C", "format:|t", "address-radix:|A", "plain|p", "length:|n")
	if err != nil {
		return c.Usage(err)
	}
	kind, limit, plain, noAddress := "o2", int64(-1), false, false
	for _, o := range opts {
		switch o.Name {
		case "c":
			kind = "c"
		case "x":
			kind = "x2"
		case "t":
			kind = o.Value
		case "C":
			kind = "C"
		case "A":
			noAddress = o.Value == "n"
		case "p":
			plain = true
		case "n", "N", "l":
			n, _, ok := count(o.Value)
			if ok {
				limit = n
			}
		}
	}
	var b []byte
	eachFile(c, files, func(_ string, r io.Reader) bool {
		p, _ := libc.ReadAll(r)
		b = append(b, p...)
		return true
	})
	if limit >= 0 && limit < int64(len(b)) {
		b = b[:limit]
	}
	if style == "xxd" && plain {
		s := hex.EncodeToString(b)
		for len(s) > 0 {
			n := min(60, len(s))
			c.Put("%s\n", s[:n])
			s = s[n:]
		}
		return c.Status
	}
	printable := func(p []byte) string {
		return strings.Map(func(r rune) rune {
			if r < 32 || r > 126 {
				return '.'
			}
			return r
		}, string(bytes.ToValidUTF8(p, []byte("."))))
	}
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		switch {
		case style == "xxd":
			c.Put("%08x: ", at)
			for i := range 16 {
				if i < len(row) {
					c.Put("%02x", row[i])
				} else {
					c.Put("  ")
				}
				if i%2 == 1 {
					c.Put(" ")
				}
			}
			c.Put(" %s\n", printable(row))
		case kind == "C":
			c.Put("%08x ", at)
			for i := range 16 {
				if i == 8 {
					c.Put(" ")
				}
				if i < len(row) {
					c.Put(" %02x", row[i])
				} else {
					c.Put("   ")
				}
			}
			c.Put("  |%s|\n", printable(row))
		default:
			if !noAddress {
				c.Put("%07o", at)
			}
			switch kind {
			case "c":
				for _, ch := range row {
					switch ch {
					case '\n':
						c.Put("  \\n")
					case '\t':
						c.Put("  \\t")
					case '\r':
						c.Put("  \\r")
					case 0:
						c.Put("  \\0")
					default:
						if ch >= 32 && ch < 127 {
							c.Put("   %c", ch)
						} else {
							c.Put(" %03o", ch)
						}
					}
				}
			case "x1":
				for _, ch := range row {
					c.Put(" %02x", ch)
				}
			default:
				for i := 0; i < len(row); i += 2 {
					v := int(row[i])
					if i+1 < len(row) {
						v |= int(row[i+1]) << 8
					}
					if kind == "x2" || kind == "x" || style == "hexdump" {
						c.Put(" %04x", v)
					} else {
						c.Put(" %06o", v)
					}
				}
			}
			c.Put("\n")
		}
	}
	switch {
	case style == "xxd":
	case kind == "C":
		c.Put("%08x\n", len(b))
	case !noAddress:
		c.Put("%07o\n", len(b))
	}
	return c.Status
}

func stringsCommand(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "an:t:", "all|a", "bytes:|n")
	if err != nil {
		return c.Usage(err)
	}
	least := 4
	for _, o := range opts {
		if o.Name == "n" {
			if n, err := strconv.Atoi(o.Value); err == nil {
				least = n
			}
		}
	}
	eachFile(c, files, func(_ string, r io.Reader) bool {
		b, _ := libc.ReadAll(r)
		start := -1
		for i := 0; i <= len(b); i++ {
			ok := i < len(b) && (b[i] >= 32 && b[i] < 127 || b[i] == '\t')
			if ok && start < 0 {
				start = i
			}
			if !ok && start >= 0 {
				if i-start >= least {
					c.Put("%s\n", b[start:i])
				}
				start = -1
			}
		}
		return true
	})
	return c.Status
}
