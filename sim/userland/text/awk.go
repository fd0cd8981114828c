package text

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/benhoyt/goawk/interp"
	"github.com/benhoyt/goawk/parser"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// fileMark begins a line that tells the program that the next input file begins. GoAWK may not open files, so that all
// inputs reach it as one stream.
const fileMark = "\x01\x02next-file:"

// markRule keeps FILENAME, FNR and NR right at such a line.
const markRule = `substr($0, 1, 12) == "` + fileMark + `" { FILENAME = substr($0, 13); NR--; FNR = 0; next }` + "\n"

// awk runs GoAWK without access to files and commands of the host. Inputs are read here; getline from files and commands is
// said to be missing.
func awk(c *libc.Prog) int {
	c.FailStatus = 2
	var vars []string
	source, given := "", false
	args := c.Args
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		a := args[0]
		if a == "--" {
			args = args[1:]
			break
		}
		if a == "--version" || a == "-W" || a == "-V" {
			c.Put("mawk 1.3.4 20240123\n")
			return 0
		}
		letter := a[1]
		value := a[2:]
		args = args[1:]
		if value == "" && strings.IndexByte("Fvf", letter) >= 0 {
			if len(args) == 0 {
				return c.Fail("option requires an argument -- %c", letter)
			}
			value, args = args[0], args[1:]
		}
		switch letter {
		case 'F':
			if value == "t" {
				value = "\t"
			}
			vars = append(vars, "FS", unslash(value))
		case 'v':
			k, v, ok := strings.Cut(value, "=")
			if !ok {
				return c.Fail("improper assignment: -v %s", value)
			}
			vars = append(vars, k, unslash(v))
		case 'f':
			b, err := c.InputAll(value)
			if err != nil {
				return c.Fail("cannot open %s (%s)", value, libc.Strerror(err))
			}
			source, given = source+string(b)+"\n", true
		default:
			return c.Fail("not an option: %s", a)
		}
	}
	if !given {
		if len(args) == 0 {
			c.Errorf("Usage: mawk [Options] [Program] [file ...]\n")
			return 2
		}
		source, args = args[0], args[1:]
	}
	files := 0
	for _, a := range args {
		if k, _, ok := strings.Cut(a, "="); !ok || strings.ContainsAny(k, "/.") {
			files++
		}
	}
	marks := files > 1 || files == 1 && (strings.Contains(source, "FILENAME") || strings.Contains(source, "FNR"))
	outputs := &awkOutputs{c: c, files: map[string]kernel.File{}, pipes: map[string]*bytes.Buffer{}}
	functions := outputs.functions()
	full := rewriteAwk(source)
	if marks {
		full = markRule + full
	}
	prog, err := parser.ParseProgram([]byte(full), &parser.ParserConfig{Funcs: functions})
	if err != nil {
		var pe *parser.ParseError
		if errors.As(err, &pe) {
			return c.Fail("line %d: syntax error: %s", max(1, pe.Position.Line-strings.Count(full, "\n")+strings.Count(source, "\n")), pe.Message)
		}
		return c.Fail("%s", err)
	}
	in := &awkInput{c: c, args: args, marks: marks, files: files}
	environ := []string{}
	for _, kv := range c.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		environ = append(environ, k, v)
	}
	it, err := interp.New(prog)
	if err != nil {
		return c.Fail("%s", err)
	}
	config := &interp.Config{Stdin: in, Output: flushing{c}, Error: c.Stderr, Argv0: c.Name, NoArgVars: true, Vars: vars, NoExec: true, NoFileWrites: true, NoFileReads: true,
		Environ: environ, Funcs: functions}
	for _, a := range args { // assignments between files are done before the first
		if k, v, ok := strings.Cut(a, "="); ok && !strings.ContainsAny(k, "/.") {
			config.Vars = append(config.Vars, k, unslash(v))
		}
	}
	status, err := it.ExecuteContext(newAwkMeter(c), config)
	outputs.end()
	if err != nil && c.Alive() {
		text := err.Error()
		if strings.Contains(text, "NoExec") || strings.Contains(text, "NoFile") {
			return c.Fail("ckadrill does not simulate getline from files and commands in awk programs (%s)", text)
		}
		return c.Fail("%s", text)
	}
	if status == 0 {
		return c.Status
	}
	return status
}

// awkStep is the simulated time that one write of a program takes.
const awkStep = 5 * time.Microsecond

// flushing passes output on at once where somebody looks at it; elsewhere it is buffered, as mawk's is.
type flushing struct{ c *libc.Prog }

func (f flushing) Write(b []byte) (int, error) {
	if err := f.c.Spend(awkStep); err != nil {
		return 0, err
	}
	n, err := f.c.Out.Write(b)
	if err == nil && f.c.IsTerminal(f.c.Stdout) {
		err = f.c.Out.Flush()
	}
	return n, err
}

// awkInput is the chain of input files as one stream.
type awkInput struct {
	c     *libc.Prog
	args  []string
	marks bool
	files int
	began bool
	cur   io.ReadCloser
	head  bytes.Buffer
	last  byte
}

func (in *awkInput) Read(b []byte) (int, error) {
	for {
		if in.head.Len() > 0 {
			return in.head.Read(b)
		}
		if in.cur != nil {
			n, err := in.cur.Read(b)
			if n > 0 {
				in.last = b[n-1]
				return n, nil
			}
			if err != nil {
				in.cur.Close()
				in.cur = nil
				if err != io.EOF {
					return 0, err
				}
				if in.last != '\n' && in.last != 0 {
					in.head.WriteByte('\n')
				}
				in.last = 0
			}
			continue
		}
		name, ok := in.next()
		if !ok {
			return 0, io.EOF
		}
		f, err := in.c.Input(name)
		if err != nil {
			in.c.Fail("cannot open %s (%s)", name, libc.Strerror(err))
			continue
		}
		in.cur = f
		if in.marks {
			in.head.WriteString(fileMark + name + "\n")
		}
	}
}

func (in *awkInput) next() (string, bool) {
	for len(in.args) > 0 {
		a := in.args[0]
		in.args = in.args[1:]
		if k, _, ok := strings.Cut(a, "="); ok && !strings.ContainsAny(k, "/.") {
			continue
		}
		in.began = true
		return a, true
	}
	if in.files == 0 && !in.began {
		in.began = true
		return "-", true
	}
	return "", false
}
