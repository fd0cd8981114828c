package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"ckadrill/scenarios/strict"
)

//go:embed packs
var packs embed.FS

// Embedded returns the scenarios that come with the program, in order of their names.
func Embedded() ([]*Scenario, error) {
	var l []*Scenario
	err := fs.WalkDir(packs, "packs", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !isScenarioFile(name) {
			return err
		}
		b, err := packs.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := Parse(name, b)
		if err != nil {
			return err
		}
		l = append(l, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, distinct(l)
}

func isScenarioFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Load reads scenario files, and all scenario files below directories, from the host. It reads on after a bad file: the
// error joins all problems, the scenarios are those that are right.
func Load(paths ...string) ([]*Scenario, error) {
	var l []*Scenario
	var problems []error
	read := func(name string) {
		info, err := os.Stat(name)
		if err == nil && info.Size() > strict.MaxFile {
			err = strict.TooLarge(name)
		}
		if err != nil {
			problems = append(problems, err)
			return
		}
		b, err := os.ReadFile(name)
		if err != nil {
			problems = append(problems, err)
			return
		}
		s, err := Parse(name, b)
		if err != nil {
			problems = append(problems, err)
			return
		}
		l = append(l, s)
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case err != nil:
			problems = append(problems, err)
		case !info.IsDir():
			read(p)
		default:
			var files []string
			err := filepath.WalkDir(p, func(name string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() && isScenarioFile(name) {
					files = append(files, name)
				}
				return err
			})
			if err != nil {
				problems = append(problems, err)
			}
			sort.Strings(files)
			if len(files) == 0 && err == nil {
				problems = append(problems, strict.Problem{File: p, Text: "there is no scenario (*.yaml) in this directory"})
			}
			for _, f := range files {
				read(f)
			}
		}
	}
	if err := distinct(l); err != nil {
		problems = append(problems, err)
	}
	return l, errors.Join(problems...)
}

// distinct makes sure that a name means one scenario, and puts them in order.
func distinct(l []*Scenario) error {
	slices.SortStableFunc(l, func(a, b *Scenario) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	var problems []error
	for i := 1; i < len(l); i++ {
		if l[i].Metadata.Name == l[i-1].Metadata.Name {
			problems = append(problems, strict.Problem{File: l[i].File, Text: fmt.Sprintf("the name %q is taken by %s", l[i].Metadata.Name, l[i-1].File)})
		}
	}
	return errors.Join(problems...)
}

// Find returns the scenario of that name; the error proposes similar ones.
func Find(l []*Scenario, name string) (*Scenario, error) {
	var near []string
	for _, s := range l {
		if s.Metadata.Name == name {
			return s, nil
		}
		if strings.Contains(s.Metadata.Name, name) {
			near = append(near, s.Metadata.Name)
		}
	}
	if len(near) > 0 {
		return nil, fmt.Errorf("there is no drill %q; similar: %s", name, strings.Join(near, ", "))
	}
	return nil, fmt.Errorf("there is no drill %q; see ckadrill list", name)
}
