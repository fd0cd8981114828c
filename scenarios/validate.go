package scenarios

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// validate checks what the shape alone does not.
func (d *decoder) validate(s *Scenario, root *yaml.Node) {
	m := s.Metadata
	if !nameForm.MatchString(m.Name) {
		d.Fail(root, "metadata.name must be lower-case letters, digits and dashes, not %q", m.Name)
	}
	if m.Title == "" {
		d.Fail(root, "metadata.title is missing")
	}
	if _, ok := Domains[m.Domain]; !ok {
		d.Fail(root, "metadata.domain must be one of %s, not %q", strings.Join(DomainNames(), ", "), m.Domain)
	}
	if !slices.Contains(Difficulties, m.Difficulty) {
		d.Fail(root, "metadata.difficulty must be one of %s, not %q", strings.Join(Difficulties, ", "), m.Difficulty)
	}
	if m.Minutes == 0 {
		d.Fail(root, "metadata.minutes is missing")
	}
	if strings.TrimSpace(s.Task) == "" {
		d.Fail(root, "task is missing")
	}
	if len(s.Checks) == 0 {
		d.Fail(root, "checks are missing: nothing could be judged")
	}
	if strings.TrimSpace(s.Solution.Run) == "" {
		d.Fail(root, "solution is missing: it proves that the drill can be solved")
	}
	for _, st := range s.Setup {
		d.checkStep(st)
	}
	names := map[string]int{}
	for _, c := range s.Checks {
		d.checkCheck(c, names)
	}
	d.Script(s.Solution.Line, s.Solution.Run)
	for _, t := range s.Traps {
		if t.Name == "" || strings.TrimSpace(t.Run) == "" {
			d.FailAt(t.Line, "a trap needs name and run")
		}
		if len(t.Fails) == 0 {
			d.FailAt(t.Line, "trap %q must name the checks that fail after it", t.Name)
		}
		for _, f := range t.Fails {
			if _, ok := names[f]; !ok {
				d.FailAt(t.Line, "trap %q names the check %q, which does not exist", t.Name, f)
			}
		}
		d.Script(t.Script.Line, t.Script.Run)
	}
}

// DomainNames lists the exam's domains, sorted.
func DomainNames() []string {
	l := make([]string, 0, len(Domains))
	for n := range Domains {
		l = append(l, n)
	}
	slices.Sort(l)
	return l
}

func (d *decoder) checkStep(s Step) {
	if s.Script != nil {
		d.Script(s.Script.Line, s.Script.Run)
	}
	if s.Restart != nil && (s.Restart.Machine == "" || s.Restart.Name == "") {
		d.FailAt(s.Line, "restart needs machine and unit")
	}
}

func (d *decoder) checkCheck(c Check, names map[string]int) {
	if !nameForm.MatchString(c.Name) {
		d.FailAt(c.Line, "a check's name must be lower-case letters, digits and dashes, not %q", c.Name)
	}
	if line, ok := names[c.Name]; ok {
		d.FailAt(c.Line, "the check %q stands twice, first on line %d", c.Name, line)
	}
	names[c.Name] = c.Line
	if c.Says == "" {
		d.FailAt(c.Line, "check %q needs says: the sentence that is read when it fails", c.Name)
	}
	if c.Points == 0 {
		d.FailAt(c.Line, "check %q is worth no points", c.Name)
	}
	set := 0
	if c.CEL != nil {
		set++
		d.checkCEL(c.CEL)
	}
	if c.Command != nil {
		set++
		d.Script(c.Command.Script.Line, c.Command.Script.Run)
		d.Pattern(c.Line, c.Command.Output)
		d.Pattern(c.Line, c.Command.Not)
	}
	if c.Probe != nil {
		set++
		d.checkProbe(c.Probe)
	}
	if set != 1 {
		d.FailAt(c.Line, "check %q must have exactly one of cel, command, probe", c.Name)
	}
	for _, s := range c.After {
		d.checkStep(s)
	}
}

func (d *decoder) checkCEL(c *CEL) {
	if c.Resource == "" || c.Expression == "" {
		d.FailAt(c.Line, "cel needs resource and expression")
		return
	}
	if _, err := c.Compile(); err != nil {
		d.FailAt(c.Line, "%v", err)
	}
}

func (d *decoder) checkProbe(p *Probe) {
	from := strings.Split(p.From, "/")
	if !(from[0] == "machine" && len(from) == 2 || from[0] == "pod" && len(from) >= 3) {
		d.FailAt(p.Line, "probe.from must be machine/NAME, pod/NAMESPACE/NAME or pod/NAMESPACE/LABEL=VALUE, not %q", p.From)
	}
	scheme, _, ok := strings.Cut(p.To, "://")
	if !ok || !slices.Contains([]string{"http", "https", "tcp"}, scheme) {
		d.FailAt(p.Line, "probe.to must be an http://, https:// or tcp:// address, not %q", p.To)
	}
	if status, err := strconv.Atoi(p.Expect); (err != nil || status < 100 || status > 599) && !slices.Contains([]string{"open", "refused", "timeout", "unresolved"}, p.Expect) {
		d.FailAt(p.Line, "probe.expect must be open, refused, timeout, unresolved or an HTTP status, not %q", p.Expect)
	}
	d.Pattern(p.Line, p.Body)
}
