// Package strict reads YAML files that people write: it knows every field, and says of everything that is wrong where it
// stands.
package strict

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	"mvdan.cc/sh/v3/syntax"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File         string
	Line, Column int
	Text         string
}

func (p Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Decoder walks a YAML tree and collects every problem, so that an author sees them all at once.
type Decoder struct {
	file     string
	problems []error
}

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 1 << 20

// TooLarge is the problem of a file that is larger than [MaxFile].
func TooLarge(file string) Problem {
	return Problem{File: file, Text: fmt.Sprintf("the file is larger than %d KiB", MaxFile>>10)}
}

// Open reads a file's content; what is the kind of file, for messages. The error is a [Problem], or several joined.
func Open(file, what string, content []byte) (*Decoder, *yaml.Node, error) {
	if len(content) > MaxFile {
		return nil, nil, TooLarge(file)
	}
	d := &Decoder{file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, nil, syntaxProblem(file, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil, Problem{File: file, Text: "the file is empty"}
	}
	if n := aliased(&doc); n != nil {
		d.Fail(n, "YAML aliases and anchors are not allowed in %s", what)
		return nil, nil, d.Err()
	}
	return d, doc.Content[0], nil
}

// Err is everything that was wrong (errors.Join of [Problem]), nil if nothing was.
func (d *Decoder) Err() error { return errors.Join(d.problems...) }

// Fail notes a problem at a node, or of the whole file if it is nil.
func (d *Decoder) Fail(n *yaml.Node, format string, a ...any) {
	p := Problem{File: d.file, Text: fmt.Sprintf(format, a...)}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.problems = append(d.problems, p)
}

// FailAt notes a problem at a line.
func (d *Decoder) FailAt(line int, format string, a ...any) {
	d.Fail(&yaml.Node{Line: line, Column: 1}, format, a...)
}

// Fields are the keys that a mapping may have, and what reads each.
type Fields map[string]func(v *yaml.Node)

// Mapping reads a mapping with no key but those of f. It says whether it was one.
func (d *Decoder) Mapping(n *yaml.Node, what string, f Fields) bool {
	if n.Kind != yaml.MappingNode {
		d.Fail(n, "%s must be a mapping", what)
		return false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if line, ok := seen[k.Value]; ok {
			d.Fail(k, "field %q stands twice in %s, first on line %d", k.Value, what, line)
			continue
		}
		seen[k.Value] = k.Line
		read, ok := f[k.Value]
		if !ok {
			d.Fail(k, "unknown field %q in %s%s; known are: %s", k.Value, what, suggestion(k.Value, f), strings.Join(f.names(), ", "))
			continue
		}
		read(v)
	}
	return true
}

func (f Fields) names() []string {
	l := make([]string, 0, len(f))
	for k := range f {
		l = append(l, k)
	}
	slices.Sort(l)
	return l
}

// suggestion names a known field that looks like a mistyped one.
func suggestion(typed string, f Fields) string {
	for _, k := range f.names() {
		if strings.EqualFold(k, typed) || len(typed) > 2 && (strings.HasPrefix(k, typed) || strings.HasPrefix(typed, k)) {
			return fmt.Sprintf(" (did you mean %q?)", k)
		}
	}
	return ""
}

// Text reads a text.
func (d *Decoder) Text(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			d.Fail(n, "a text is expected here")
			return
		}
		*into = n.Value
	}
}

// Number reads a whole number that is not negative.
func (d *Decoder) Number(into *int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
			d.Fail(n, "a whole number of 0 or more is expected here, not %q", n.Value)
			return
		}
		*into = v
	}
}

// Flag reads true or false.
func (d *Decoder) Flag(into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
			d.Fail(n, "true or false is expected here, not %q", n.Value)
			return
		}
		*into = n.Value == "true"
	}
}

// longest is the longest time that a file may ask for, in simulated time.
const longest = 7 * 24 * time.Hour

// Duration reads a duration in Go's form.
func (d *Decoder) Duration(into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < 0 || v > longest {
			d.Fail(n, "a duration such as 90s, 5m or 1h is expected here (at most %v), not %q", longest, n.Value)
			return
		}
		*into = v
	}
}

// List reads a list, entry by entry.
func (d *Decoder) List(what string, each func(n *yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.Fail(n, "%s must be a list", what)
			return
		}
		for _, c := range n.Content {
			each(c)
		}
	}
}

// Texts reads a list of texts.
func (d *Decoder) Texts(what string, into *[]string) func(*yaml.Node) {
	return d.List(what, func(n *yaml.Node) {
		var s string
		d.Text(&s)(n)
		*into = append(*into, s)
	})
}

// Pattern checks that a text is a regular expression.
func (d *Decoder) Pattern(line int, p string) {
	if _, err := regexp.Compile(p); err != nil {
		d.FailAt(line, "%v", err)
	}
}

// Script parses a script as bash would, so that a missing quote is found without running anything.
func (d *Decoder) Script(line int, script string) {
	if script == "" {
		return
	}
	if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "script"); err != nil {
		d.FailAt(line, "bash: %s", strings.TrimPrefix(err.Error(), "script:"))
	}
}

// syntaxProblem turns yaml.v3's text ("yaml: line 3: ...") into a problem with its place.
func syntaxProblem(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, e := fmt.Sscanf(text, "line %d:", &line); e == nil {
		_, text, _ = strings.Cut(text, ": ")
		return Problem{File: file, Line: line, Column: 1, Text: text}
	}
	return Problem{File: file, Text: text}
}

// aliased finds an alias or anchor: they could make a small file huge.
func aliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, c := range n.Content {
		if a := aliased(c); a != nil {
			return a
		}
	}
	return nil
}
