package bash

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/pipe"
)

// readInput reads one byte at a time, so that what follows stays for the next command.
type readInput struct {
	sh       *Shell
	r        io.Reader
	deadline time.Time
}

// byteCost is the simulated time that reading one byte takes, a system call.
const byteCost = 500 * time.Nanosecond

// errInterrupted ends a read when the shell has been interrupted, or has ended.
var errInterrupted = errors.New("interrupted")

var errReadTimeout = errors.New("timed out")

func (in *readInput) byte() (byte, error) {
	var b [1]byte
	for {
		if in.sh.cost += byteCost; in.sh.cost >= stepQuantum {
			in.sh.pay()
			if in.sh.checkInterrupt() || !in.sh.p.Alive() {
				return 0, errInterrupted
			}
			if !in.deadline.IsZero() && now().After(in.deadline) {
				return 0, errReadTimeout
			}
		}
		var n int
		var err error
		if p, ok := in.r.(*pipe.Reader); ok && !in.deadline.IsZero() {
			if n, err = p.ReadTimeout(b[:], time.Until(in.deadline)); errors.Is(err, pipe.ErrTimeout) {
				err = errReadTimeout
			}
		} else {
			n, err = in.r.Read(b[:])
		}
		if n == 1 {
			return b[0], nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func builtinRead(sh *Shell, args []string) int {
	raw, delim, count, exact, prompt, array, silent, fd := false, byte('\n'), -1, false, "", "", false, 0
	timeout := time.Duration(-1)
	usage := func() int {
		fmt.Fprintln(sh.stderr(), "read: usage: read [-ers] [-a array] [-d delim] [-i text] [-n nchars] [-N nchars] [-p prompt] [-t timeout] [-u fd] [name ...]")
		return 2
	}
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		for j := 1; j < len(a); j++ {
			c := a[j]
			value := ""
			if strings.IndexByte("adinNptu", c) >= 0 {
				if value = a[j+1:]; value == "" {
					if len(args) == 0 {
						sh.complain("read: -%c: option requires an argument", c)
						return usage()
					}
					value, args = args[0], args[1:]
				}
				j = len(a)
			}
			switch c {
			case 'r':
				raw = true
			case 's':
				silent = true
			case 'e':
			case 'a':
				array = value
			case 'd':
				if delim = 0; value != "" {
					delim = value[0]
				}
			case 'i':
			case 'n', 'N':
				n, err := strconv.Atoi(value)
				if err != nil || n < 0 {
					sh.complain("read: %s: invalid number", value)
					return 1
				}
				count, exact = n, c == 'N'
			case 'p':
				prompt = value
			case 't':
				f, err := strconv.ParseFloat(value, 64)
				if err != nil || f < 0 {
					sh.complain("read: %s: invalid timeout specification", value)
					return 1
				}
				timeout = time.Duration(f * float64(time.Second))
			case 'u':
				n, err := strconv.Atoi(value)
				if err != nil || sh.fds[n] == nil {
					sh.complain("read: %s: invalid file descriptor: Bad file descriptor", value)
					return 1
				}
				fd = n
			default:
				sh.complain("read: -%c: invalid option", c)
				return usage()
			}
		}
	}
	for _, n := range args {
		base, _, _ := splitSubscript(n)
		if !validName(base) {
			sh.complain("read: `%s': not a valid identifier", n)
			return 1
		}
	}
	if timeout == 0 {
		return 0
	}
	var line []byte
	var escaped []bool // which bytes a backslash quoted
	status := 0
	if sh.isTerminal(fd) {
		var s string
		var err error
		if silent {
			s, err = sh.p.TTY.ReadPassword(prompt)
		} else {
			s, err = sh.p.TTY.ReadLine(prompt, nil)
		}
		switch {
		case errors.Is(err, kernel.ErrInterrupted):
			sh.signals.interrupt()
			sh.checkInterrupt()
			if !sh.interactive {
				sh.flow = flowExit
			}
			return 130
		case err != nil:
			status = 1
		}
		line = []byte(s)
		if count >= 0 && len(line) > count {
			line = line[:count]
		}
		escaped = make([]bool, len(line))
	} else {
		in := &readInput{sh: sh, r: sh.reader(fd)}
		if timeout > 0 {
			in.deadline = now().Add(timeout)
		}
		line, escaped, status = readBytes(in, raw, delim, count, exact)
		if !sh.p.Alive() {
			sh.flow = flowExit
			return 1
		}
	}
	if exact {
		return sh.assignRead(args, []string{string(line)}, status)
	}
	if array != "" {
		v := &variable{Kind: indexed, Set: true}
		for i, f := range splitRead(string(line), escaped, sh.ifs(), -1) {
			v.setAt(i, f)
		}
		if old := sh.get(array); old != nil && old.Readonly {
			sh.complain("%s: readonly variable", array)
			return 1
		}
		*sh.home(sh.deref(array)) = *v
		return status
	}
	if len(args) == 0 {
		return sh.assignRead([]string{"REPLY"}, []string{string(line)}, status)
	}
	return sh.assignRead(args, splitRead(string(line), escaped, sh.ifs(), len(args)), status)
}

func readBytes(in *readInput, raw bool, delim byte, count int, exact bool) (line []byte, escaped []bool, status int) {
	chars := 0
	for count < 0 || chars < count {
		c, err := in.byte()
		if err != nil {
			if errors.Is(err, errReadTimeout) {
				return line, escaped, 142
			}
			return line, escaped, 1
		}
		if c == '\\' && !raw {
			n, err := in.byte()
			if err != nil {
				return line, escaped, 1
			}
			if n == '\n' {
				continue
			}
			line, escaped = append(line, n), append(escaped, true)
			chars++
			continue
		}
		if c == delim && !exact {
			return line, escaped, 0
		}
		if c == 0 {
			continue
		}
		line, escaped = append(line, c), append(escaped, false)
		if utf8.RuneStart(c) {
			chars++
		}
		if len(line) > maxValue {
			return line, escaped, 1
		}
	}
	return line, escaped, 0
}

func (sh *Shell) assignRead(names, fields []string, status int) int {
	for i, n := range names {
		value := ""
		if i < len(fields) {
			value = fields[i]
		}
		var err error
		if base, sub, ok := splitSubscript(n); ok {
			err = sh.setElement(base, sub, value, false)
		} else {
			err = sh.set(n, value)
		}
		if err != nil {
			sh.complain("%s", err)
			return 1
		}
	}
	return status
}

// splitRead divides a line into n fields as read does, all of them if n is -1; the last gets the rest.
func splitRead(line string, escaped []bool, ifs string, n int) []string {
	isSpace := func(i int) bool {
		c := line[i]
		return !escaped[i] && (c == ' ' || c == '\t' || c == '\n') && strings.IndexByte(ifs, c) >= 0
	}
	isSep := func(i int) bool { return !escaped[i] && strings.IndexByte(ifs, line[i]) >= 0 }
	start, end := 0, len(line)
	for start < end && isSpace(start) {
		start++
	}
	for end > start && isSpace(end-1) {
		end--
	}
	var out []string
	i := start
	for i < end || len(out) == 0 && i == start && start == end {
		if start == end {
			break
		}
		if n > 0 && len(out) == n-1 { // the rest, but a lone separator at its end goes
			rest := line[i:end]
			if j := end - 1; j >= i && isSep(j) && !isSpace(j) {
				only := true
				for k := i; k < j; k++ {
					if isSep(k) && !isSpace(k) {
						only = false
					}
				}
				if only {
					rest = strings.TrimRight(line[i:j], " \t\n")
				}
			}
			return append(out, rest)
		}
		j := i
		for j < end && !isSep(j) {
			j++
		}
		out = append(out, line[i:j])
		for j < end && isSpace(j) {
			j++
		}
		if j < end && isSep(j) {
			j++
			for j < end && isSpace(j) {
				j++
			}
		}
		i = j
	}
	return out
}

func builtinMapfile(sh *Shell, args []string) int {
	strip, count, origin, skip, delim, fd, originSet := false, 0, 0, 0, byte('\n'), 0, false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		for j := 1; j < len(a); j++ {
			value := ""
			if strings.IndexByte("nOsdu Cc", a[j]) >= 0 {
				if value = a[j+1:]; value == "" && len(args) > 0 {
					value, args = args[0], args[1:]
				}
			}
			n, _ := strconv.Atoi(value)
			switch a[j] {
			case 't':
				strip = true
				continue
			case 'n':
				count = n
			case 'O':
				origin, originSet = n, true
			case 's':
				skip = n
			case 'u':
				fd = n
			case 'd':
				if delim = 0; value != "" {
					delim = value[0]
				}
			default:
				sh.complain("mapfile: -%c: invalid option", a[j])
				fmt.Fprintln(sh.stderr(), "mapfile: usage: mapfile [-d delim] [-n count] [-O origin] [-s count] [-t] [-u fd] [-C callback] [-c quantum] [array]")
				return 2
			}
			break
		}
	}
	name := "MAPFILE"
	if len(args) > 0 {
		name = args[0]
	}
	if !validName(name) {
		sh.complain("mapfile: `%s': not a valid identifier", name)
		return 1
	}
	v := &variable{Kind: indexed, Set: true}
	if old := sh.get(name); old != nil && originSet {
		v = old.copy()
	}
	in := &readInput{sh: sh, r: sh.reader(fd)}
	for i, n := 0, 0; count == 0 || n < count; i++ {
		var line []byte
		var err error
		var c byte
		for {
			if c, err = in.byte(); err != nil || c == delim {
				break
			}
			line = append(line, c)
			if len(line) > maxValue {
				return 1
			}
		}
		if err != nil && len(line) == 0 {
			break
		}
		if i < skip {
			continue
		}
		s := string(line)
		if err == nil && !strip {
			s += string(delim)
		}
		v.setAt(origin+n, s)
		if n++; n > maxElements {
			sh.report(sh.outOfMemory(n))
			return 1
		}
		if err != nil {
			break
		}
	}
	if !sh.p.Alive() {
		sh.flow = flowExit
	}
	*sh.home(sh.deref(name)) = *v
	return 0
}
