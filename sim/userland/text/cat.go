package text

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

func cat(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "AbeEnstTuv", "show-all|A", "number-nonblank|b", "show-ends|E", "number|n", "squeeze-blank|s", "show-tabs|T", "show-nonprinting|v", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	var number, nonblank, ends, squeeze, tabs, visible bool
	for _, o := range opts {
		switch o.Name {
		case "A":
			ends, tabs, visible = true, true, true
		case "b":
			nonblank = true
		case "e":
			ends, visible = true, true
		case "E":
			ends = true
		case "n":
			number = true
		case "s":
			squeeze = true
		case "t":
			tabs, visible = true, true
		case "T":
			tabs = true
		case "v":
			visible = true
		}
	}
	plain := !(number || nonblank || ends || squeeze || tabs || visible)
	if len(files) == 0 {
		files = []string{"-"}
	}
	n, blanks := 0, 0
	for _, name := range files {
		f, err := c.Input(name)
		if err != nil && c.Busybox {
			c.Fail("can't open '%s': %s", name, libc.Strerror(err))
			continue
		}
		if err != nil {
			c.FailFile(name, err)
			continue
		}
		if plain {
			err := copyOut(c, f)
			f.Close()
			if _, failed := c.Out.Write(nil); failed != nil {
				return c.Status // whoever called says so
			}
			if err != nil {
				c.FailFile(name, err)
			}
			continue
		}
		r := bufio.NewReader(f)
		for {
			line, err := libc.ReadLine(r, '\n')
			if line == "" && err != nil {
				break
			}
			body, nl := strings.CutSuffix(line, "\n")
			if body == "" {
				if blanks++; squeeze && blanks > 1 {
					continue
				}
			} else {
				blanks = 0
			}
			if nonblank && body != "" || number && !nonblank {
				n++
				c.Put("%6d\t", n)
			}
			if visible || tabs {
				body = show(body, visible, tabs)
			}
			c.Out.WriteString(body)
			if ends && nl {
				c.Out.WriteByte('$')
			}
			if nl {
				c.Out.WriteByte('\n')
			}
			if r.Buffered() == 0 {
				c.Out.Flush()
			}
			if err != nil || !c.Alive() {
				break
			}
		}
		f.Close()
	}
	return c.Status
}

func show(s string, visible, tabs bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case ch == '\t':
			if tabs {
				b.WriteString("^I")
			} else {
				b.WriteByte('\t')
			}
		case !visible:
			b.WriteByte(ch)
		default:
			if ch >= 128 {
				b.WriteString("M-")
				ch -= 128
			}
			switch {
			case ch < 32:
				b.WriteString("^" + string(rune(ch+64)))
			case ch == 127:
				b.WriteString("^?")
			default:
				b.WriteByte(ch)
			}
		}
	}
	return b.String()
}

func tac(c *libc.Prog) int {
	_, files, err := libc.Getopt(c.Args, "")
	if err != nil {
		return c.Usage(err)
	}
	for _, name := range orStdin(files) {
		b, err := c.InputAll(name)
		if err != nil {
			c.FailFile(name, err)
			continue
		}
		lines := bytes.SplitAfter(b, []byte("\n"))
		for i := len(lines) - 1; i >= 0; i-- {
			c.Out.Write(lines[i])
		}
	}
	return c.Status
}

func orStdin(files []string) []string {
	if len(files) == 0 {
		return []string{"-"}
	}
	return files
}

// copyOut copies to standard output as it comes in.
func copyOut(c *libc.Prog, r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := c.Out.Write(buf[:n]); werr != nil {
				return werr
			}
			if werr := c.Out.Flush(); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lines calls f with every line of an input, without its newline; nl says whether it had one. It flushes the output when
// no further input waits, so that a pipeline passes lines on as they come.
func lines(c *libc.Prog, r io.Reader, f func(line string, nl bool) bool) error {
	br := bufio.NewReaderSize(r, 32<<10)
	for {
		s, err := libc.ReadLine(br, '\n')
		if len(s) > 0 {
			body, nl := strings.CutSuffix(s, "\n")
			if !f(body, nl) {
				return nil
			}
			if br.Buffered() == 0 {
				if err := c.Out.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !c.Alive() {
			return kernel.ErrDead
		}
	}
}

// eachFile opens the operands one after the other, "-" if there are none.
func eachFile(c *libc.Prog, files []string, f func(name string, r io.Reader) bool) {
	for _, name := range orStdin(files) {
		r, err := c.Input(name)
		if err != nil {
			c.FailFile(name, err)
			continue
		}
		more := f(name, r)
		r.Close()
		if !more {
			return
		}
	}
}

func tee(c *libc.Prog) int {
	opts, files, err := libc.Getopt(c.Args, "aip", "append|a", "ignore-interrupts|i", "output-error::|p", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	flag := createFlag
	for _, o := range opts {
		switch o.Name {
		case "a":
			flag = appendFlag
		case "i":
			c.Notify(kernel.SIGINT, func() {})
		}
	}
	var outs []kernel.File
	for _, name := range files {
		f, err := c.Files.OpenFile(c.Path(name), flag, 0o666)
		if err != nil {
			c.FailFile(name, err)
			continue
		}
		defer f.Close()
		outs = append(outs, f)
	}
	in, err := c.Input("-")
	if err != nil {
		return c.Fail("read error: %s", libc.Strerror(err))
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			c.Stdout.Write(buf[:n])
			for i, f := range outs {
				if _, werr := f.Write(buf[:n]); werr != nil {
					c.FailFile(files[i], werr)
				}
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && c.Alive() {
				c.Fail("read error: %s", libc.Strerror(err))
			}
			return c.Status
		}
	}
}

// pager is less and more: the user's own pager on a terminal, cat elsewhere.
func pager(c *libc.Prog) int {
	_, files, err := libc.Getopt(c.Args, "+aeFfiINnqQrRsSXx:p:", "RAW-CONTROL-CHARS|R", "quit-if-one-screen|F", "no-init|X", "LINE-NUMBERS|N", "chop-long-lines|S", "help", "version")
	if err != nil {
		return c.Usage(err)
	}
	for len(files) > 0 && strings.HasPrefix(files[0], "+") {
		files = files[1:]
	}
	if !c.IsTerminal(c.Stdout) {
		c.Args = files
		return cat(c)
	}
	if len(files) == 0 && c.IsTerminal(c.Stdin) {
		c.Errorf("Missing filename (\"%s --help\" for help)\n", c.Name)
		return 1
	}
	var all bytes.Buffer
	for _, name := range orStdin(files) {
		b, err := c.InputAll(name)
		if err != nil {
			c.Errorf("%s: %s\n", name, libc.Strerror(err))
			c.Status = 1
			continue
		}
		all.Write(b)
	}
	if all.Len() > 0 {
		if err := c.TTY.Page(all.Bytes()); err != nil && !errors.Is(err, kernel.ErrInterrupted) {
			return c.Fail("%s", err)
		}
	}
	return c.Status
}
