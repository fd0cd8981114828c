package bash

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// escapes says which backslash sequences are read.
type escapes uint8

const (
	ansiC   escapes = iota // $'...' and printf's format
	echoE                  // echo -e and %b: \0nnn, \c ends
	formatE                // printf's format
)

// unescape reads backslash sequences; stop reports \c.
func unescape(s string, how escapes) (out string, stop bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits := func(start, n, base int) (int64, int) {
			j := start
			for j < len(s) && j < start+n {
				if d := digitValue(s[j], 16); d < 0 || d >= base {
					break
				}
				j++
			}
			v, _ := strconv.ParseInt(s[start:j], base, 64)
			return v, j - start
		}
		switch c := s[i]; c {
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'e', 'E':
			b.WriteByte(0x1b)
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case '\\':
			b.WriteByte('\\')
		case '\'', '"', '?':
			if how == echoE {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		case 'c':
			if how == echoE {
				return b.String(), true
			}
			if how == ansiC && i+1 < len(s) {
				i++
				b.WriteByte(s[i] & 0x1f)
				continue
			}
			b.WriteString(`\c`)
		case 'x':
			v, n := digits(i+1, 2, 16)
			if n == 0 {
				b.WriteString(`\x`)
				continue
			}
			b.WriteByte(byte(v))
			i += n
		case 'u', 'U':
			width := 4
			if c == 'U' {
				width = 8
			}
			v, n := digits(i+1, width, 16)
			if n == 0 {
				b.WriteByte('\\')
				b.WriteByte(c)
				continue
			}
			b.WriteRune(rune(v))
			i += n
		case '0', '1', '2', '3', '4', '5', '6', '7':
			start, width := i, 3
			if how == echoE {
				if c != '0' {
					if true { // %b also takes \nnn
						v, n := digits(start, 3, 8)
						b.WriteByte(byte(v))
						i += n - 1
						continue
					}
				}
				start, width = i+1, 3
			}
			v, n := digits(start, width, 8)
			b.WriteByte(byte(v))
			i = start + n - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), false
}

// Printf formats as printf(1) does. It returns the text, and the messages of what was wrong with the arguments, which end
// in a failure. start is what %(...)T's -2 means.
func Printf(format string, args []string, start time.Time) (string, []string) {
	f := &formatter{args: args, start: start}
	for {
		used := f.next
		if f.run(format) || f.next >= len(args) || f.next == used || f.out.Len() > maxValue {
			break
		}
	}
	return f.out.String(), f.errors
}

type formatter struct {
	out    strings.Builder
	args   []string
	next   int
	errors []string
	start  time.Time
}

func (f *formatter) arg() (string, bool) {
	if f.next >= len(f.args) {
		return "", false
	}
	f.next++
	return f.args[f.next-1], true
}

func (f *formatter) number(s string) int64 {
	t := strings.TrimLeft(s, " \t\n")
	if t == "" {
		if s != "" {
			f.errors = append(f.errors, s+": invalid number")
		}
		return 0
	}
	if t[0] == '\'' || t[0] == '"' {
		r, _ := utf8.DecodeRuneInString(t[1:])
		if len(t) == 1 {
			return 0
		}
		return int64(r)
	}
	if n, err := strconv.ParseInt(t, 0, 64); err == nil && !strings.Contains(t, "_") {
		return n
	}
	if n, err := strconv.ParseUint(t, 0, 64); err == nil && !strings.Contains(t, "_") {
		return int64(n)
	}
	i := 0
	if i < len(t) && (t[0] == '-' || t[0] == '+') {
		i++
	}
	for i < len(t) && t[i] >= '0' && t[i] <= '9' {
		i++
	}
	n, _ := strconv.ParseInt(t[:i], 10, 64)
	if len(t) > 1 && t[0] == '0' {
		j := 1
		for j < len(t) && t[j] >= '0' && t[j] <= '7' {
			j++
		}
		n, _ = strconv.ParseInt(t[:j], 8, 64)
		if t[1] >= '8' && t[1] <= '9' {
			f.errors = append(f.errors, s+": invalid octal number")
			return n
		}
	}
	f.errors = append(f.errors, s+": invalid number")
	return n
}

// run goes through the format once; it returns true when output must stop (\c in %b).
func (f *formatter) run(format string) bool {
	for i := 0; i < len(format); i++ {
		if format[i] == '\\' {
			j := i + 2
			for j < len(format) && j < i+10 && format[j] != '\\' && format[j] != '%' {
				j++
			}
			// read one sequence: find how much of the text it takes
			seq, n := oneEscape(format[i:min(j, len(format))])
			if seq == "\x00stop" {
				return true
			}
			f.out.WriteString(seq)
			i += n - 1
			continue
		}
		if format[i] != '%' {
			f.out.WriteByte(format[i])
			continue
		}
		if i+1 < len(format) && format[i+1] == '%' {
			f.out.WriteByte('%')
			i++
			continue
		}
		start := i
		i++
		flags := ""
		for i < len(format) && strings.IndexByte("-+ #0'", format[i]) >= 0 {
			if format[i] != '\'' {
				flags += format[i : i+1]
			}
			i++
		}
		size := func() (string, bool) {
			if i < len(format) && format[i] == '*' {
				i++
				s, _ := f.arg()
				return strconv.FormatInt(f.number(s), 10), true
			}
			j := i
			for i < len(format) && format[i] >= '0' && format[i] <= '9' {
				i++
			}
			return format[j:i], i > j
		}
		width, _ := size()
		if strings.HasPrefix(width, "-") {
			flags, width = flags+"-", width[1:]
		}
		precision, hasPrecision := "", false
		if i < len(format) && format[i] == '.' {
			i++
			hasPrecision = true
			if precision, _ = size(); precision == "" {
				precision = "0"
			}
		}
		if n, _ := strconv.Atoi(width); n > 1<<20 {
			width = "1048576"
		}
		if n, _ := strconv.Atoi(precision); n > 1<<20 {
			precision = "1048576"
		}
		for i < len(format) && strings.IndexByte("hljztL", format[i]) >= 0 {
			i++
		}
		if i >= len(format) {
			f.errors = append(f.errors, fmt.Sprintf("`%s': missing format character", format[start:]))
			return true
		}
		if format[i] == '(' {
			end := strings.Index(format[i:], ")T")
			if end < 0 {
				f.errors = append(f.errors, fmt.Sprintf("`%s': invalid format character", format[start:i+1]))
				return true
			}
			layout := format[i+1 : i+end]
			i += end + 1
			s, ok := f.arg()
			t := time.Now()
			if n := f.number(s); ok && n == -2 {
				t = f.start
			} else if ok && n != -1 {
				t = time.Unix(n, 0).UTC()
			}
			if layout == "" {
				layout = "%X"
			}
			f.pad(flags, width, Strftime(layout, t))
			continue
		}
		verb := func(conv string) string {
			s := "%" + flags + width
			if hasPrecision && !strings.HasPrefix(precision, "-") {
				s += "." + precision
			}
			return s + conv
		}
		switch c := format[i]; c {
		case 's', 'b', 'q', 'c':
			s, given := f.arg()
			stop := false
			switch c {
			case 'b':
				s, stop = unescape(s, echoE)
			case 'q':
				if given {
					s = backslashQuote(s)
				} else {
					s = "''"
				}
			case 'c':
				if _, n := utf8.DecodeRuneInString(s); len(s) > 0 {
					s = s[:min(n, 1)]
				}
			}
			if n, err := strconv.Atoi(precision); hasPrecision && err == nil && n >= 0 && n < len(s) && c != 'c' {
				s = s[:n]
			}
			f.pad(flags, width, s)
			if stop {
				return true
			}
		case 'd', 'i':
			s, _ := f.arg()
			fmt.Fprintf(&f.out, verb("d"), f.number(s))
		case 'u':
			s, _ := f.arg()
			fmt.Fprintf(&f.out, verb("d"), uint64(f.number(s)))
		case 'o', 'x', 'X':
			s, _ := f.arg()
			fmt.Fprintf(&f.out, verb(string(c)), uint64(f.number(s)))
		case 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A':
			s, ok := f.arg()
			x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
			if err != nil && ok && s != "" {
				if len(s) > 1 && (s[0] == '\'' || s[0] == '"') {
					x = float64(f.number(s))
				} else {
					x = leadingFloat(s)
					f.errors = append(f.errors, s+": invalid number")
				}
			}
			conv := string(c)
			if c == 'F' {
				conv = "f"
			}
			if c == 'g' || c == 'G' {
				if !hasPrecision {
					hasPrecision, precision = true, "6"
				}
			}
			fmt.Fprintf(&f.out, verb(conv), x)
		default:
			f.errors = append(f.errors, fmt.Sprintf("`%c': invalid format character", c))
			return true
		}
	}
	return false
}

func leadingFloat(s string) float64 {
	for n := len(s); n > 0; n-- {
		if x, err := strconv.ParseFloat(s[:n], 64); err == nil {
			return x
		}
	}
	return 0
}

func (f *formatter) pad(flags, width, s string) {
	n, _ := strconv.Atoi(width)
	gap := n - utf8.RuneCountInString(s)
	if gap > 0 && !strings.Contains(flags, "-") {
		f.out.WriteString(strings.Repeat(" ", gap))
	}
	f.out.WriteString(s)
	if gap > 0 && strings.Contains(flags, "-") {
		f.out.WriteString(strings.Repeat(" ", gap))
	}
}

// oneEscape reads the backslash sequence at the start of s and says how long it is.
func oneEscape(s string) (string, int) {
	if len(s) < 2 {
		return s, len(s)
	}
	n := 2
	switch s[1] {
	case 'x':
		for n < len(s) && n < 4 && digitValue(s[n], 16) >= 0 && digitValue(s[n], 16) < 16 {
			n++
		}
	case 'u', 'U':
		limit := 6
		if s[1] == 'U' {
			limit = 10
		}
		for n < len(s) && n < limit && digitValue(s[n], 16) >= 0 && digitValue(s[n], 16) < 16 {
			n++
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '7' {
			n++
		}
	case 'c':
		return "\x00stop", 2
	}
	out, _ := unescape(s[:n], formatE)
	return out, n
}

func builtinPrintf(sh *Shell, args []string) int {
	into := ""
	if len(args) > 1 && args[0] == "-v" && sh.style == bashStyle {
		into, args = args[1], args[2:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-v") && len(args[0]) > 2 && sh.style == bashStyle {
		into, args = args[0][2:], args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(sh.stderr(), "printf: usage: printf [-v var] format [arguments]")
		return 2
	}
	if strings.HasPrefix(args[0], "-") && len(args[0]) > 1 && sh.style == bashStyle && !strings.Contains(args[0], " ") && args[0][1] != '-' {
		sh.complain("printf: %s: invalid option", args[0][:2])
		fmt.Fprintln(sh.stderr(), "printf: usage: printf [-v var] format [arguments]")
		return 2
	}
	out, errs := Printf(args[0], args[1:], sh.started)
	for _, e := range errs {
		sh.complain("printf: %s", e)
	}
	if into != "" {
		var err error
		if base, sub, ok := splitSubscript(into); ok {
			err = sh.setElement(base, sub, out, false)
		} else if !validName(into) {
			sh.complain("printf: `%s': not a valid identifier", into)
			return 2
		} else {
			err = sh.set(into, out)
		}
		if err != nil {
			sh.complain("%s", err)
			return 1
		}
	} else if status := sh.print("printf", out); status != 0 {
		return status
	}
	return boolInt(len(errs) > 0)
}
