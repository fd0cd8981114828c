package scenarios

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
	"mvdan.cc/sh/v3/syntax"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// validate checks what the shape alone does not.
func (d *decoder) validate(s *Scenario, root *yaml.Node) {
	m := s.Metadata
	if !nameForm.MatchString(m.Name) {
		d.fail(root, "metadata.name must be lower-case letters, digits and dashes, not %q", m.Name)
	}
	if m.Title == "" {
		d.fail(root, "metadata.title is missing")
	}
	if _, ok := Domains[m.Domain]; !ok {
		d.fail(root, "metadata.domain must be one of %s, not %q", strings.Join(DomainNames(), ", "), m.Domain)
	}
	if !slices.Contains(Difficulties, m.Difficulty) {
		d.fail(root, "metadata.difficulty must be one of %s, not %q", strings.Join(Difficulties, ", "), m.Difficulty)
	}
	if m.Minutes == 0 {
		d.fail(root, "metadata.minutes is missing")
	}
	if strings.TrimSpace(s.Task) == "" {
		d.fail(root, "task is missing")
	}
	if len(s.Checks) == 0 {
		d.fail(root, "checks are missing: nothing could be judged")
	}
	if strings.TrimSpace(s.Solution.Run) == "" {
		d.fail(root, "solution is missing: it proves that the drill can be solved")
	}
	for _, st := range s.Setup {
		d.checkStep(st)
	}
	names := map[string]int{}
	for _, c := range s.Checks {
		d.checkCheck(c, names)
	}
	d.checkScript(s.Solution)
	for _, t := range s.Traps {
		at := &yaml.Node{Line: t.Line, Column: 1}
		if t.Name == "" || strings.TrimSpace(t.Run) == "" {
			d.fail(at, "a trap needs name and run")
		}
		if len(t.Fails) == 0 {
			d.fail(at, "trap %q must name the checks that fail after it", t.Name)
		}
		for _, f := range t.Fails {
			if _, ok := names[f]; !ok {
				d.fail(at, "trap %q names the check %q, which does not exist", t.Name, f)
			}
		}
		d.checkScript(t.Script)
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
	at := &yaml.Node{Line: s.Line, Column: 1}
	if s.Script != nil {
		d.checkScript(*s.Script)
	}
	if s.Restart != nil && (s.Restart.Machine == "" || s.Restart.Name == "") {
		d.fail(at, "restart needs machine and unit")
	}
}

func (d *decoder) checkCheck(c Check, names map[string]int) {
	at := &yaml.Node{Line: c.Line, Column: 1}
	if !nameForm.MatchString(c.Name) {
		d.fail(at, "a check's name must be lower-case letters, digits and dashes, not %q", c.Name)
	}
	if line, ok := names[c.Name]; ok {
		d.fail(at, "the check %q stands twice, first on line %d", c.Name, line)
	}
	names[c.Name] = c.Line
	if c.Says == "" {
		d.fail(at, "check %q needs says: the sentence that is read when it fails", c.Name)
	}
	if c.Points == 0 {
		d.fail(at, "check %q is worth no points", c.Name)
	}
	set := 0
	if c.CEL != nil {
		set++
		d.checkCEL(c.CEL)
	}
	if c.Command != nil {
		set++
		d.checkScript(c.Command.Script)
		d.checkPattern(at, c.Command.Output)
		d.checkPattern(at, c.Command.Not)
	}
	if c.Probe != nil {
		set++
		d.checkProbe(c.Probe)
	}
	if set != 1 {
		d.fail(at, "check %q must have exactly one of cel, command, probe", c.Name)
	}
	for _, s := range c.After {
		d.checkStep(s)
	}
}

func (d *decoder) checkPattern(at *yaml.Node, p string) {
	if _, err := regexp.Compile(p); err != nil {
		d.fail(at, "%v", err)
	}
}

func (d *decoder) checkCEL(c *CEL) {
	at := &yaml.Node{Line: c.Line, Column: 1}
	if c.Resource == "" || c.Expression == "" {
		d.fail(at, "cel needs resource and expression")
		return
	}
	if _, err := c.Compile(); err != nil {
		d.fail(at, "%v", err)
	}
}

func (d *decoder) checkProbe(p *Probe) {
	at := &yaml.Node{Line: p.Line, Column: 1}
	from := strings.Split(p.From, "/")
	if !(from[0] == "machine" && len(from) == 2 || from[0] == "pod" && len(from) >= 3) {
		d.fail(at, "probe.from must be machine/NAME, pod/NAMESPACE/NAME or pod/NAMESPACE/LABEL=VALUE, not %q", p.From)
	}
	scheme, _, ok := strings.Cut(p.To, "://")
	if !ok || !slices.Contains([]string{"http", "https", "tcp"}, scheme) {
		d.fail(at, "probe.to must be an http://, https:// or tcp:// address, not %q", p.To)
	}
	if status, err := strconv.Atoi(p.Expect); (err != nil || status < 100 || status > 599) && !slices.Contains([]string{"open", "refused", "timeout", "unresolved"}, p.Expect) {
		d.fail(at, "probe.expect must be open, refused, timeout, unresolved or an HTTP status, not %q", p.Expect)
	}
	d.checkPattern(at, p.Body)
}

// checkScript parses a script as bash would, so that a missing quote is found without running anything.
func (d *decoder) checkScript(s Script) {
	if s.Run == "" {
		return
	}
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s.Run), "script")
	if err != nil {
		at := &yaml.Node{Line: s.Line, Column: 1}
		d.fail(at, "bash: %s", strings.TrimPrefix(err.Error(), "script:"))
	}
}
