package faults

import (
	"embed"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"ckadrill/scenarios/strict"
)

// Look is an observation of a healthy cluster.
type Look struct {
	Observation
	// Name may be that of other looks, too. Says is what is wrong when it is not as it should be.
	Name, Says string
	// Touches names, as a fault's does, what may print something else when it was broken.
	Touches []string
}

// health are looks at a healthy cluster, cheap ones first. trial are those that try something new, and take longer. unchanged
// print the same before something is broken and after it was undone.
var health, trial, unchanged = looks("health.yaml"), looks("trial.yaml"), looks("unchanged.yaml")

//go:embed health.yaml trial.yaml unchanged.yaml
var lookFiles embed.FS

// looking reads a file of looks, once.
type looking func() ([]Look, error)

// together are the looks of several files, one file's behind the other's.
func together(files ...looking) (l []Look, err error) {
	for _, f := range files {
		more, err := f()
		if err != nil {
			return nil, err
		}
		l = append(l, more...)
	}
	return l, nil
}

func looks(file string) looking {
	return sync.OnceValues(func() ([]Look, error) {
		b, err := lookFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d, root, err := strict.Open(file, "a list of looks", b)
		if err != nil {
			return nil, err
		}
		var l []Look
		d.List("looks", func(n *yaml.Node) {
			o := Look{Observation: Observation{File: file, Line: n.Line, Exit: -1}}
			f := observationFields(d, &o.Observation)
			f["name"], f["says"], f["touches"] = d.Text(&o.Name), d.Text(&o.Says), d.Texts("touches", &o.Touches)
			if !d.Mapping(n, "a look", f) {
				return
			}
			if o.Name == "" || o.Says == "" || strings.TrimSpace(o.Run) == "" {
				d.Fail(n, "a look needs name, says and run")
			}
			d.Script(o.Line, o.Run)
			d.Pattern(o.Line, o.Output)
			d.Pattern(o.Line, o.Not)
			l = append(l, o)
		})(root)
		return l, d.Err()
	})
}

// lasting are looks that print the same before these faults were made and after they were undone: check sums of what is
// unchanged, one for each name.
func lasting(made []*Fault) ([]Look, error) {
	all, err := unchanged()
	if err != nil {
		return nil, err
	}
	var l []Look
	for _, o := range all {
		if slices.ContainsFunc(made, func(f *Fault) bool { return overlap(f.Touches, o.Touches) }) {
			continue
		}
		if n := len(l) - 1; n >= 0 && l[n].Name == o.Name {
			l[n].Run += "\n" + strings.TrimSpace(o.Run)
		} else {
			l = append(l, o)
		}
	}
	for i := range l {
		l[i].Run = "{\n" + strings.TrimSpace(l[i].Run) + "\n} 2>/dev/null | sha256sum | cut -c 1-64"
	}
	return l, nil
}
