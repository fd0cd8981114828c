package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"sort"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"ckadrill/sim/userland/libc"
)

// jqOptions are jq's flags.
type jqOptions struct {
	raw, join, compact, exit, slurp, null, rawInput, sortKeys, tab, ascii, color bool
	indent                                                                       int
	names                                                                        []string
	values                                                                       []any
	named                                                                        map[string]any
	positional                                                                   []any
	file                                                                         string
}

// jq runs gojq. Objects come out with sorted keys: gojq keeps no other order.
// jqStep is the simulated time that one result takes.
const jqStep = 20 * time.Microsecond

func jq(c *libc.Prog) int {
	c.FailStatus = 2
	o := jqOptions{indent: 2, named: map[string]any{}, positional: []any{}}
	operands, status, done := o.parse(c)
	if done {
		return status
	}
	text := ""
	if o.file != "" {
		b, err := c.InputAll(o.file)
		if err != nil {
			c.Errorf("jq: error: Could not open %s: %s\n", o.file, libc.Strerror(err))
			return 2
		}
		text = string(b)
	} else {
		if len(operands) == 0 {
			if o.null || c.IsTerminal(c.Stdin) {
				c.Errorf("jq - commandline JSON processor [version 1.7]\n\nUsage:\tjq [OPTIONS] FILTER [FILES...]\n\tjq [OPTIONS] --args FILTER [ARGUMENTS...]\n\tjq [OPTIONS] --jsonargs FILTER [JSON_VALUES...]\n")
				return 2
			}
			text = "."
		} else {
			text, operands = operands[0], operands[1:]
		}
	}
	query, err := gojq.Parse(text)
	if err != nil {
		c.Errorf("jq: error: %s\njq: 1 compile error\n", jqSyntax(err))
		return 3
	}
	o.named2()
	inputs := &jqInputs{c: c, files: operands, o: &o}
	code, err := gojq.Compile(query, gojq.WithVariables(o.names), gojq.WithInputIter(inputs), gojq.WithEnvironLoader(c.Environ))
	if err != nil {
		c.Errorf("jq: error: %s\njq: 1 compile error\n", jqSyntax(err))
		return 3
	}
	last := any(nil)
	any1 := false
	runOne := func(v any) bool {
		iter := code.RunWithContext(&jqMeter{Context: c.Context(), c: c}, v, o.values...)
		for {
			out, ok := iter.Next()
			if c.Spend(jqStep) != nil {
				return false
			}
			if !ok {
				return true
			}
			if err, isErr := out.(error); isErr {
				var halt *gojq.HaltError
				if errors.As(err, &halt) {
					c.Status = halt.ExitCode()
					if s, ok := halt.Value().(string); ok {
						c.Errorf("%s", s)
					}
					return false
				}
				c.Out.Flush()
				c.Errorf("jq: error (at %s): %s\n", inputs.where(), jqError(err))
				c.Status = 5
				return true
			}
			any1, last = true, out
			if o.write(c, out) != nil {
				return false
			}
		}
	}
	if o.null {
		runOne(nil)
	} else {
		for {
			v, ok := inputs.Next()
			if !ok {
				break
			}
			if err, isErr := v.(error); isErr {
				c.Out.Flush()
				c.Errorf("jq: %s\n", err)
				if c.Status != 2 || true {
					c.Status = 2
				}
				break
			}
			if !runOne(v) || !c.Alive() {
				break
			}
		}
	}
	if c.Status == 0 && o.exit {
		switch {
		case !any1:
			return 4
		case last == nil || last == false:
			return 1
		}
	}
	return c.Status
}

func (o *jqOptions) parse(c *libc.Prog) (operands []string, status int, done bool) {
	args := c.Args
	need := func(i *int, n int, name string) bool {
		if *i+n >= len(args) {
			c.Errorf("jq: %s takes %s parameter%s\nUse jq --help for help with command-line options,\nor see the jq manpage, or online docs  at https://jqlang.github.io/jq\n",
				name, map[int]string{1: "one", 2: "two"}[n], plural(n))
			return false
		}
		*i += n
		return true
	}
	rest := byte(0)
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			if rest != 0 && (len(operands) > 0 || o.file != "") {
				o.addPositional(c, rest, a)
			} else {
				operands = append(operands, a)
			}
			continue
		}
		if !strings.HasPrefix(a, "--") {
			for j := 1; j < len(a); j++ {
				switch a[j] {
				case 'r':
					o.raw = true
				case 'j':
					o.raw, o.join = true, true
				case 'a':
					o.ascii = true
				case 'c':
					o.compact = true
				case 'C':
					o.color = true
				case 'M':
					o.color = false
				case 'e':
					o.exit = true
				case 's':
					o.slurp = true
				case 'n':
					o.null = true
				case 'R':
					o.rawInput = true
				case 'S':
					o.sortKeys = true
				case 'f':
					if !need(&i, 1, "-f") {
						return nil, 2, true
					}
					o.file = args[i]
				case 'h':
					c.Put("Usage:\tjq [OPTIONS] FILTER [FILES...]\n")
					return nil, 0, true
				case 'V':
					c.Put("jq-1.7\n")
					return nil, 0, true
				default:
					c.Errorf("jq: Unknown arguments: %s\nUse jq --help for help with command-line options,\nor see the jq manpage, or online docs  at https://jqlang.github.io/jq\n", a)
					return nil, 2, true
				}
			}
			continue
		}
		switch a {
		case "--raw-output":
			o.raw = true
		case "--join-output":
			o.raw, o.join = true, true
		case "--ascii-output":
			o.ascii = true
		case "--compact-output":
			o.compact = true
		case "--exit-status":
			o.exit = true
		case "--slurp":
			o.slurp = true
		case "--null-input":
			o.null = true
		case "--raw-input":
			o.rawInput = true
		case "--sort-keys":
			o.sortKeys = true
		case "--color-output":
			o.color = true
		case "--monochrome-output", "--unbuffered", "--stream", "--seq":
		case "--tab":
			o.tab = true
		case "--version":
			c.Put("jq-1.7\n")
			return nil, 0, true
		case "--help":
			c.Put("Usage:\tjq [OPTIONS] FILTER [FILES...]\n")
			return nil, 0, true
		case "--indent":
			if !need(&i, 1, a) {
				return nil, 2, true
			}
			n := 0
			if _, err := fmt.Sscan(args[i], &n); err != nil || n < 0 || n > 7 {
				c.Errorf("jq: Cannot indent more than 7 characters\n")
				return nil, 2, true
			}
			o.indent = n
		case "--arg":
			if !need(&i, 2, a) {
				return nil, 2, true
			}
			o.add(args[i-1], args[i])
		case "--argjson":
			if !need(&i, 2, a) {
				return nil, 2, true
			}
			v, err := jqValue(args[i])
			if err != nil {
				c.Errorf("jq: Invalid JSON text passed to --argjson\nUse jq --help for help with command-line options,\nor see the jq manpage, or online docs  at https://jqlang.github.io/jq\n")
				return nil, 2, true
			}
			o.add(args[i-1], v)
		case "--slurpfile", "--rawfile":
			if !need(&i, 2, a) {
				return nil, 2, true
			}
			b, err := c.InputAll(args[i])
			if err != nil {
				c.Errorf("jq: Bad JSON in --%s %s %s: Could not open %s: %s\n", a[2:], args[i-1], args[i], args[i], libc.Strerror(err))
				return nil, 2, true
			}
			if a == "--rawfile" {
				o.add(args[i-1], string(b))
				continue
			}
			l := []any{}
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber()
			for {
				var v any
				if err := d.Decode(&v); err != nil {
					break
				}
				l = append(l, jqNumbers(v))
			}
			o.add(args[i-1], l)
		case "--args", "--jsonargs":
			rest = a[2]
		case "--from-file":
			if !need(&i, 1, a) {
				return nil, 2, true
			}
			o.file = args[i]
		default:
			c.Errorf("jq: Unknown arguments: %s\nUse jq --help for help with command-line options,\nor see the jq manpage, or online docs  at https://jqlang.github.io/jq\n", a)
			return nil, 2, true
		}
	}
	return operands, 0, false
}

func (o *jqOptions) addPositional(_ *libc.Prog, kind byte, s string) {
	if kind == 'j' {
		if v, err := jqValue(s); err == nil {
			o.positional = append(o.positional, v)
		}
		return
	}
	o.positional = append(o.positional, s)
}

func (o *jqOptions) add(name string, v any) {
	o.names, o.values = append(o.names, "$"+name), append(o.values, v)
	o.named[name] = v
}

func (o *jqOptions) named2() {
	o.names = append(o.names, "$ARGS")
	o.values = append(o.values, map[string]any{"named": o.named, "positional": o.positional})
}

// jqNumbers turns json.Number into what gojq computes with.
func jqNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil && i >= math.MinInt && i <= math.MaxInt {
			return int(i)
		}
		if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = jqNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = jqNumbers(v[i])
		}
	}
	return v
}

func jqValue(s string) (any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("trailing text")
	}
	return jqNumbers(v), nil
}

// jqInputs reads values from the input files.
type jqInputs struct {
	c     *libc.Prog
	files []string
	o     *jqOptions
	all   []byte
	dec   *json.Decoder
	began bool
	ended bool
}

func (in *jqInputs) load() error {
	in.began = true
	for _, name := range orStdin(in.files) {
		b, err := in.c.InputAll(name)
		if err != nil {
			in.c.Errorf("jq: error: Could not open %s: %s\n", name, libc.Strerror(err))
			in.c.Status = 2
			continue
		}
		in.all = append(in.all, b...)
	}
	in.dec = json.NewDecoder(bytes.NewReader(in.all))
	in.dec.UseNumber()
	return nil
}

// Next implements gojq.Iter.
func (in *jqInputs) Next() (any, bool) {
	if !in.began {
		in.load()
	}
	if in.ended {
		return nil, false
	}
	if in.o.rawInput {
		if in.o.slurp {
			in.ended = true
			return string(in.all), true
		}
		if len(in.all) == 0 {
			return nil, false
		}
		line, rest, _ := bytes.Cut(in.all, []byte("\n"))
		in.all = rest
		return string(line), true
	}
	if in.o.slurp {
		l := []any{}
		for {
			v, ok := in.value()
			if !ok {
				break
			}
			if _, isErr := v.(error); isErr {
				return v, true
			}
			l = append(l, v)
		}
		in.ended = true
		return l, true
	}
	return in.value()
}

func (in *jqInputs) value() (any, bool) {
	var v any
	err := in.dec.Decode(&v)
	if err == io.EOF {
		in.ended = true
		return nil, false
	}
	if err != nil {
		in.ended = true
		return in.parseError(err), true
	}
	return jqNumbers(v), true
}

func (in *jqInputs) parseError(err error) error {
	off := int(in.dec.InputOffset())
	var se *json.SyntaxError
	if errors.As(err, &se) {
		off = int(se.Offset)
	}
	off = min(max(off, 0), len(in.all))
	line := bytes.Count(in.all[:off], []byte("\n")) + 1
	col := off - bytes.LastIndexByte(in.all[:off], '\n') - 1
	if errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "unexpected end") {
		return fmt.Errorf("parse error: Unfinished JSON term at EOF at line %d, column %d", bytes.Count(in.all, []byte("\n"))+1, len(in.all)-bytes.LastIndexByte(in.all, '\n')-1)
	}
	return fmt.Errorf("parse error: Invalid numeric literal at line %d, column %d", line, col)
}

func (in *jqInputs) where() string {
	name := "<stdin>"
	if len(in.files) > 0 {
		name = in.files[0]
	}
	n := 0
	if in.dec != nil {
		n = bytes.Count(in.all[:min(int(in.dec.InputOffset())+1, len(in.all))], []byte("\n"))
	}
	if in.o.null {
		return "<unknown>"
	}
	return fmt.Sprintf("%s:%d", name, n)
}

// jqError turns gojq's words for an error into jq's.
func jqError(err error) string {
	s := err.Error()
	s = strings.TrimPrefix(s, "error: ")
	if rest, ok := strings.CutPrefix(s, "cannot iterate over: "); ok {
		return "Cannot iterate over " + kindAndValue(rest)
	}
	if rest, ok := strings.CutPrefix(s, "expected an object but got: "); ok {
		return "Cannot index " + strings.SplitN(rest, " ", 2)[0] + " with a string key"
	}
	return s
}

func kindAndValue(s string) string {
	if s == "null" {
		return "null (null)"
	}
	return s
}

func jqSyntax(err error) string {
	return "syntax error, " + err.Error() + " (Unix shell quoting issues?)"
}

func (o *jqOptions) write(c *libc.Prog, v any) error {
	if s, ok := v.(string); ok && o.raw {
		c.Out.WriteString(s)
	} else {
		var b strings.Builder
		o.encode(&b, v, 0)
		c.Out.WriteString(b.String())
	}
	if !o.join {
		c.Out.WriteByte('\n')
	}
	return nil
}

func (o *jqOptions) encode(b *strings.Builder, v any, depth int) {
	newline := func(d int) {
		if o.compact || o.indent == 0 && !o.tab {
			return
		}
		b.WriteByte('\n')
		if o.tab {
			b.WriteString(strings.Repeat("\t", d))
		} else {
			b.WriteString(strings.Repeat(" ", o.indent*d))
		}
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			b.WriteString("{}")
			return
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			newline(depth + 1)
			b.WriteString(jqString(k, o.ascii))
			b.WriteByte(':')
			if !o.compact {
				b.WriteByte(' ')
			}
			o.encode(b, v[k], depth+1)
		}
		newline(depth)
		b.WriteByte('}')
	case []any:
		if len(v) == 0 {
			b.WriteString("[]")
			return
		}
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			newline(depth + 1)
			o.encode(b, e, depth+1)
		}
		newline(depth)
		b.WriteByte(']')
	case string:
		b.WriteString(jqString(v, o.ascii))
	default:
		t, err := gojq.Marshal(v)
		if err != nil {
			b.WriteString("null")
			return
		}
		b.Write(t)
	}
}

func jqString(s string, ascii bool) string {
	t, err := gojq.Marshal(s)
	if err != nil {
		return `""`
	}
	if !ascii {
		return string(t)
	}
	var b strings.Builder
	for _, r := range string(t) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}
