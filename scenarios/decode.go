package scenarios

import (
	"gopkg.in/yaml.v3"

	"ckadrill/scenarios/strict"
)

// decoder reads scenarios and exams.
type decoder struct{ *strict.Decoder }

// Parse reads one scenario. All problems are in the error (errors.Join of [strict.Problem]); the scenario is nil then.
func Parse(file string, content []byte) (*Scenario, error) {
	reader, root, err := strict.Open(file, "a scenario", content)
	if err != nil {
		return nil, err
	}
	d := &decoder{reader}
	s := d.scenario(root)
	s.File, s.Source = file, content
	if d.Err() == nil {
		d.validate(s, root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) scenario(n *yaml.Node) *Scenario {
	s := &Scenario{Cluster: "reference"}
	var version, kind string
	kind = "Scenario"
	ok := d.Mapping(n, "a scenario", strict.Fields{
		"apiVersion": d.Text(&version),
		"kind":       d.Text(&kind),
		"metadata": func(n *yaml.Node) {
			m := &s.Metadata
			d.Mapping(n, "metadata", strict.Fields{
				"name": d.Text(&m.Name), "title": d.Text(&m.Title), "domain": d.Text(&m.Domain), "difficulty": d.Text(&m.Difficulty),
				"minutes": d.Number(&m.Minutes), "weight": d.Number(&m.Weight),
			})
		},
		"cluster":  d.Text(&s.Cluster),
		"setup":    d.List("setup", func(n *yaml.Node) { s.Setup = append(s.Setup, d.step(n)) }),
		"task":     d.Text(&s.Task),
		"checks":   d.List("checks", func(n *yaml.Node) { s.Checks = append(s.Checks, d.check(n)) }),
		"hints":    d.Texts("hints", &s.Hints),
		"solution": func(n *yaml.Node) { s.Solution = d.script(n, "solution") },
		"traps":    d.List("traps", func(n *yaml.Node) { s.Traps = append(s.Traps, d.trap(n)) }),
	})
	if ok && version != APIVersion {
		d.Fail(n, "apiVersion must be %s, not %q", APIVersion, version)
	}
	if kind != "Scenario" {
		d.Fail(n, "kind must be Scenario, not %q", kind)
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
	d.Mapping(n, what, d.scriptFields(&s))
	return s
}

func (d *decoder) scriptFields(s *Script) strict.Fields {
	return strict.Fields{"machine": d.Text(&s.Machine), "user": d.Text(&s.User), "run": d.Text(&s.Run)}
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
	f["wait"] = d.Duration(&st.Wait)
	f["reboot"] = d.Text(&st.Reboot)
	f["restart"] = func(n *yaml.Node) {
		st.Restart = &Unit{}
		d.Mapping(n, "restart", strict.Fields{"machine": d.Text(&st.Restart.Machine), "unit": d.Text(&st.Restart.Name)})
	}
	d.Mapping(n, "a step", f)
	if sc.Run != "" {
		st.Script = &sc
	} else if sc.Machine != "" || sc.User != "" {
		d.Fail(n, "a step with machine or user needs run")
	}
	set := 0
	for _, b := range []bool{st.Script != nil, st.Wait > 0, st.Reboot != "", st.Restart != nil} {
		if b {
			set++
		}
	}
	if set != 1 {
		d.Fail(n, "a step is exactly one of run, wait, reboot, restart")
	}
	return st
}

func (d *decoder) check(n *yaml.Node) Check {
	c := Check{Points: 1, Line: n.Line}
	d.Mapping(n, "a check", strict.Fields{
		"name": d.Text(&c.Name), "points": d.Number(&c.Points), "says": d.Text(&c.Says),
		"within": d.Duration(&c.Within), "hold": d.Duration(&c.Hold),
		"cel": func(n *yaml.Node) {
			c.CEL = &CEL{Line: n.Line}
			d.Mapping(n, "cel", strict.Fields{
				"resource": d.Text(&c.CEL.Resource), "namespace": d.Text(&c.CEL.Namespace), "name": d.Text(&c.CEL.Name),
				"selector": d.Text(&c.CEL.Selector),
				"expression": func(n *yaml.Node) {
					d.Text(&c.CEL.Expression)(n)
					c.CEL.Line = n.Line
				},
			})
		},
		"command": func(n *yaml.Node) {
			c.Command = &Command{Script: Script{Line: n.Line}}
			f := d.scriptFields(&c.Command.Script)
			f["exit"], f["output"], f["not"] = d.Number(&c.Command.Exit), d.Text(&c.Command.Output), d.Text(&c.Command.Not)
			d.Mapping(n, "command", f)
		},
		"probe": func(n *yaml.Node) {
			c.Probe = &Probe{Line: n.Line}
			d.Mapping(n, "probe", strict.Fields{"from": d.Text(&c.Probe.From), "to": d.Text(&c.Probe.To), "expect": d.Text(&c.Probe.Expect), "body": d.Text(&c.Probe.Body)})
		},
		"after": d.List("after", func(n *yaml.Node) { c.After = append(c.After, d.step(n)) }),
	})
	return c
}

func (d *decoder) trap(n *yaml.Node) Trap {
	t := Trap{Script: Script{Line: n.Line}}
	f := d.scriptFields(&t.Script)
	f["name"], f["why"], f["fails"] = d.Text(&t.Name), d.Text(&t.Why), d.Texts("fails", &t.Fails)
	d.Mapping(n, "a trap", f)
	return t
}
