package faults

import (
	"embed"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"ckadrill/scenarios/strict"
)

//go:embed table
var embedded embed.FS

// Table is the embedded table, area by area.
func Table() ([]*Fault, error) {
	sub, err := fs.Sub(embedded, "table")
	if err != nil {
		return nil, err
	}
	return Load(sub)
}

// Load reads a table: a directory with a file for each of [Areas], or for some of them.
func Load(dir fs.FS) ([]*Fault, error) {
	var l []*Fault
	var problems []error
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, a := range Areas {
		name := a.Name + ".yaml"
		i := slices.Index(files, name)
		if i < 0 {
			continue
		}
		files = slices.Delete(files, i, i+1)
		b, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		some, err := Parse(name, b)
		if err != nil {
			problems = append(problems, err)
		}
		for _, f := range some {
			f.Area = a.Name
		}
		l = append(l, some...)
	}
	for _, name := range files {
		problems = append(problems, strict.Problem{File: name, Text: "there is no such area"})
	}
	return l, errors.Join(append(problems, related(l))...)
}

// related checks that names are distinct.
func related(l []*Fault) error {
	byName := map[string]*Fault{}
	var problems []error
	for _, f := range l {
		if g := byName[f.Name]; g != nil {
			problems = append(problems, strict.Problem{File: f.File, Line: f.Line, Column: 1, Text: "the name " + f.Name + " is taken, in " + g.File})
		}
		byName[f.Name] = f
	}
	return errors.Join(problems...)
}

// Parse reads a file of the table. All problems are in the error (errors.Join of [strict.Problem]).
func Parse(file string, content []byte) ([]*Fault, error) {
	d, root, err := strict.Open(file, "a table of faults", content)
	if err != nil {
		return nil, err
	}
	var l []*Fault
	d.List("a table of faults", func(n *yaml.Node) { l = append(l, fault(d, file, n)) })(root)
	return l, d.Err()
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func fault(d *strict.Decoder, file string, n *yaml.Node) *Fault {
	f := &Fault{File: file, Line: n.Line}
	if !d.Mapping(n, "a fault", strict.Fields{
		"name": d.Text(&f.Name), "title": d.Text(&f.Title), "machine": d.Text(&f.Machine), "inject": d.Text(&f.Inject), "fix": d.Text(&f.Fix),
		"symptoms": observations(d, "symptoms", &f.Symptoms), "recovered": observations(d, "recovered", &f.Recovered),
		"touches": d.Texts("touches", &f.Touches),
	}) {
		return f
	}
	if !nameForm.MatchString(f.Name) {
		d.Fail(n, "name must be lower-case letters, digits and dashes, not %q", f.Name)
	}
	for _, x := range [][2]string{{"title", f.Title}, {"machine", f.Machine}, {"inject", f.Inject}, {"fix", f.Fix}} {
		if strings.TrimSpace(x[1]) == "" {
			d.Fail(n, "the fault %q needs %s", f.Name, x[0])
		}
	}
	d.Script(f.Line, f.Inject)
	d.Script(f.Line, f.Fix)
	if !slices.ContainsFunc(f.Symptoms, func(o Observation) bool { return !o.Unchanged }) {
		d.Fail(n, "the fault %q has no symptom", f.Name)
	}
	for _, l := range [][]Observation{f.Symptoms, f.Recovered} {
		if !slices.IsSortedFunc(l, func(a, b Observation) int { return int(a.After - b.After) }) {
			d.Fail(n, "the observations of %q are not in the order of their times", f.Name)
		}
	}
	return f
}

func observations(d *strict.Decoder, what string, into *[]Observation) func(*yaml.Node) {
	var after time.Duration
	return d.List(what, func(n *yaml.Node) {
		o := observation(d, n, after)
		after = o.After
		*into = append(*into, o)
	})
}

func observation(d *strict.Decoder, n *yaml.Node, after time.Duration) Observation {
	o := Observation{Line: n.Line, Exit: -1, After: after}
	f := observationFields(d, &o)
	f["after"], f["unchanged"] = d.Duration(&o.After), d.Flag(&o.Unchanged)
	if !d.Mapping(n, "an observation", f) {
		return o
	}
	if strings.TrimSpace(o.Run) == "" || o.Output == "" && o.Not == "" && o.Exit < 0 {
		d.Fail(n, "an observation needs run, and output, not or exit")
	}
	d.Script(o.Line, o.Run)
	d.Pattern(o.Line, o.Output)
	d.Pattern(o.Line, o.Not)
	return o
}

func observationFields(d *strict.Decoder, o *Observation) strict.Fields {
	return strict.Fields{"machine": d.Text(&o.Machine), "user": d.Text(&o.User), "run": d.Text(&o.Run),
		"output": d.Text(&o.Output), "not": d.Text(&o.Not), "exit": d.Number(&o.Exit)}
}
