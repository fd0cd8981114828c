package scenarios

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Problem is one thing that is wrong with a scenario file.
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

// decoder walks a YAML tree and collects every problem, so that an author sees them all at once.
type decoder struct {
	file     string
	problems []error
}

func (d *decoder) fail(n *yaml.Node, format string, a ...any) {
	p := Problem{File: d.file, Text: fmt.Sprintf(format, a...)}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.problems = append(d.problems, p)
}

// fields are the keys that a mapping may have, and what reads each.
type fields map[string]func(v *yaml.Node)

// mapping reads a mapping with no key but those of f. It says whether it was one.
func (d *decoder) mapping(n *yaml.Node, what string, f fields) bool {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s must be a mapping", what)
		return false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if line, ok := seen[k.Value]; ok {
			d.fail(k, "field %q stands twice in %s, first on line %d", k.Value, what, line)
			continue
		}
		seen[k.Value] = k.Line
		read, ok := f[k.Value]
		if !ok {
			d.fail(k, "unknown field %q in %s%s; known are: %s", k.Value, what, suggestion(k.Value, f), strings.Join(sorted(f), ", "))
			continue
		}
		read(v)
	}
	return true
}

func sorted(f fields) []string {
	l := make([]string, 0, len(f))
	for k := range f {
		l = append(l, k)
	}
	sort.Strings(l)
	return l
}

// suggestion names a known field that looks like a mistyped one.
func suggestion(typed string, f fields) string {
	for _, k := range sorted(f) {
		if strings.EqualFold(k, typed) || len(typed) > 2 && (strings.HasPrefix(k, typed) || strings.HasPrefix(typed, k)) {
			return fmt.Sprintf(" (did you mean %q?)", k)
		}
	}
	return ""
}

func (d *decoder) text(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			d.fail(n, "a text is expected here")
			return
		}
		*into = n.Value
	}
}

func (d *decoder) number(into *int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
			d.fail(n, "a whole number of 0 or more is expected here, not %q", n.Value)
			return
		}
		*into = v
	}
}

// longest is the longest time that a scenario may ask for, in simulated time.
const longest = 7 * 24 * time.Hour

func (d *decoder) duration(into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < 0 || v > longest {
			d.fail(n, "a duration such as 90s, 5m or 1h is expected here (at most %v), not %q", longest, n.Value)
			return
		}
		*into = v
	}
}

func (d *decoder) list(what string, each func(n *yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.fail(n, "%s must be a list", what)
			return
		}
		for _, c := range n.Content {
			each(c)
		}
	}
}

func (d *decoder) texts(what string, into *[]string) func(*yaml.Node) {
	return d.list(what, func(n *yaml.Node) {
		var s string
		d.text(&s)(n)
		*into = append(*into, s)
	})
}

// Parse reads one scenario. All problems are in the error (errors.Join of [Problem]); the scenario is nil then.
func Parse(file string, content []byte) (*Scenario, error) {
	if len(content) > maxFile {
		return nil, Problem{File: file, Text: fmt.Sprintf("the file is larger than %d KiB", maxFile>>10)}
	}
	d := &decoder{file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, syntaxProblem(file, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, Problem{File: file, Text: "the file is empty"}
	}
	if n := aliased(&doc); n != nil {
		d.fail(n, "YAML aliases and anchors are not allowed in a scenario")
		return nil, errors.Join(d.problems...)
	}
	s := d.scenario(doc.Content[0])
	s.File, s.Source = file, content
	if len(d.problems) == 0 {
		d.validate(s, doc.Content[0])
	}
	if len(d.problems) > 0 {
		return nil, errors.Join(d.problems...)
	}
	return s, nil
}

const maxFile = 1 << 20

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

func (d *decoder) scenario(n *yaml.Node) *Scenario {
	s := &Scenario{Cluster: "reference"}
	var version, kind string
	kind = "Scenario"
	ok := d.mapping(n, "a scenario", fields{
		"apiVersion": d.text(&version),
		"kind":       d.text(&kind),
		"metadata": func(n *yaml.Node) {
			m := &s.Metadata
			d.mapping(n, "metadata", fields{
				"name": d.text(&m.Name), "title": d.text(&m.Title), "domain": d.text(&m.Domain), "difficulty": d.text(&m.Difficulty),
				"minutes": d.number(&m.Minutes), "weight": d.number(&m.Weight),
			})
		},
		"cluster":  d.text(&s.Cluster),
		"setup":    d.list("setup", func(n *yaml.Node) { s.Setup = append(s.Setup, d.step(n)) }),
		"task":     d.text(&s.Task),
		"checks":   d.list("checks", func(n *yaml.Node) { s.Checks = append(s.Checks, d.check(n)) }),
		"hints":    d.texts("hints", &s.Hints),
		"solution": func(n *yaml.Node) { s.Solution = d.script(n, "solution") },
		"traps":    d.list("traps", func(n *yaml.Node) { s.Traps = append(s.Traps, d.trap(n)) }),
	})
	if ok && version != APIVersion {
		d.fail(n, "apiVersion must be %s, not %q", APIVersion, version)
	}
	if kind != "Scenario" {
		d.fail(n, "kind must be Scenario, not %q", kind)
	}
	return s
}

// script reads a text, or a mapping of machine, user and run.
func (d *decoder) script(n *yaml.Node, what string) Script {
	s := Script{Line: n.Line}
	if n.Kind == yaml.ScalarNode {
		s.Run = n.Value
		return s
	}
	d.mapping(n, what, d.scriptFields(&s))
	return s
}

func (d *decoder) scriptFields(s *Script) fields {
	return fields{"machine": d.text(&s.Machine), "user": d.text(&s.User), "run": d.text(&s.Run)}
}

func (d *decoder) step(n *yaml.Node) Step {
	st := Step{Line: n.Line}
	if n.Kind == yaml.ScalarNode {
		s := d.script(n, "a step")
		st.Script = &s
		return st
	}
	sc := Script{Line: n.Line}
	f := d.scriptFields(&sc)
	f["wait"] = d.duration(&st.Wait)
	f["reboot"] = d.text(&st.Reboot)
	f["restart"] = func(n *yaml.Node) {
		st.Restart = &Unit{}
		d.mapping(n, "restart", fields{"machine": d.text(&st.Restart.Machine), "unit": d.text(&st.Restart.Name)})
	}
	d.mapping(n, "a step", f)
	if sc.Run != "" {
		st.Script = &sc
	} else if sc.Machine != "" || sc.User != "" {
		d.fail(n, "a step with machine or user needs run")
	}
	set := 0
	for _, b := range []bool{st.Script != nil, st.Wait > 0, st.Reboot != "", st.Restart != nil} {
		if b {
			set++
		}
	}
	if set != 1 {
		d.fail(n, "a step is exactly one of run, wait, reboot, restart")
	}
	return st
}

func (d *decoder) check(n *yaml.Node) Check {
	c := Check{Points: 1, Line: n.Line}
	d.mapping(n, "a check", fields{
		"name": d.text(&c.Name), "points": d.number(&c.Points), "says": d.text(&c.Says),
		"within": d.duration(&c.Within), "hold": d.duration(&c.Hold),
		"cel": func(n *yaml.Node) {
			c.CEL = &CEL{Line: n.Line}
			d.mapping(n, "cel", fields{
				"resource": d.text(&c.CEL.Resource), "namespace": d.text(&c.CEL.Namespace), "name": d.text(&c.CEL.Name),
				"selector": d.text(&c.CEL.Selector),
				"expression": func(n *yaml.Node) {
					d.text(&c.CEL.Expression)(n)
					c.CEL.Line = n.Line
				},
			})
		},
		"command": func(n *yaml.Node) {
			c.Command = &Command{Script: Script{Line: n.Line}}
			f := d.scriptFields(&c.Command.Script)
			f["exit"], f["output"], f["not"] = d.number(&c.Command.Exit), d.text(&c.Command.Output), d.text(&c.Command.Not)
			d.mapping(n, "command", f)
		},
		"probe": func(n *yaml.Node) {
			c.Probe = &Probe{Line: n.Line}
			d.mapping(n, "probe", fields{"from": d.text(&c.Probe.From), "to": d.text(&c.Probe.To), "expect": d.text(&c.Probe.Expect), "body": d.text(&c.Probe.Body)})
		},
		"after": d.list("after", func(n *yaml.Node) { c.After = append(c.After, d.step(n)) }),
	})
	return c
}

func (d *decoder) trap(n *yaml.Node) Trap {
	t := Trap{Script: Script{Line: n.Line}}
	f := d.scriptFields(&t.Script)
	f["name"], f["why"], f["fails"] = d.text(&t.Name), d.text(&t.Why), d.texts("fails", &t.Fails)
	d.mapping(n, "a trap", f)
	return t
}
