package faults

import (
	"bytes"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"ckadrill/docs/generated"
)

// The faults and how they show stand in one place, which the table makes.
func TestFaultsAreListed(t *testing.T) {
	const file = "../docs/faults.md"
	table, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# What can break

These are the %d faults of the table in faults/table, by the part of the cluster where they are. Each was made in a healthy
cluster of three machines, with a few workloads in the namespace shop, looked at, and undone; a test plays them again. What
is shown is what tells the fault from a healthy cluster: a command, run by root on cka-cp1 if no other is named, so long after
the fault was made, and the words to look for in its output; "…" stands for what differs from case to case.
`+"`make faults`"+` writes this list.

`, len(table))
	for _, a := range Areas {
		fmt.Fprintf(&b, "- [%s](#%s)\n", a.Title, strings.ReplaceAll(strings.ToLower(a.Title), " ", "-"))
	}
	area := ""
	for _, f := range table {
		if f.Area != area {
			area = f.Area
			fmt.Fprintf(&b, "\n## %s\n", title(area))
		}
		fmt.Fprintf(&b, "\n### %s: %s\n\n```\n", f.Name, f.Title)
		for _, o := range f.Symptoms {
			if o.Unchanged {
				continue
			}
			fmt.Fprintf(&b, "%v", o.After)
			if o.Machine != "" && o.Machine != "cka-cp1" {
				fmt.Fprintf(&b, " on %s", o.Machine)
			}
			if o.User != "" {
				fmt.Fprintf(&b, " as %s", o.User)
			}
			fmt.Fprintf(&b, " $ %s\n", strings.ReplaceAll(strings.TrimSpace(o.Run), "\n", "\n    "))
			for _, l := range strings.Split(shown(t, o), "\n") {
				fmt.Fprintf(&b, "  %s\n", l)
			}
		}
		b.WriteString("```\n")
	}
	generated.Check(t, file, b.Bytes(), "faults")
}

// shown is what an observation looks for, as a reader sees it.
func shown(t *testing.T, o Observation) string {
	var l []string
	for _, p := range []struct{ intro, pattern string }{{"", o.Output}, {"without: ", o.Not}} {
		if p.pattern == "" {
			continue
		}
		re, err := syntax.Parse(p.pattern, syntax.Perl&^syntax.OneLine)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, p.intro+strings.Trim(strings.ReplaceAll(example(re), "… …", "…"), " \n"))
	}
	if len(l) == 0 {
		l = append(l, fmt.Sprintf("exit status %d", o.Exit))
	}
	return strings.Join(l, "\n")
}

// example is a text that a pattern matches, with "…" for what may be anything.
func example(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpConcat:
		var b strings.Builder
		for _, r := range re.Sub {
			b.WriteString(example(r))
		}
		s := b.String()
		for strings.Contains(s, "……") {
			s = strings.ReplaceAll(s, "……", "…")
		}
		return s
	case syntax.OpAlternate, syntax.OpCapture:
		return example(re.Sub[0])
	case syntax.OpPlus, syntax.OpStar, syntax.OpQuest, syntax.OpRepeat:
		inner := example(re.Sub[0])
		if strings.TrimLeft(inner, " ") == "" && re.Op != syntax.OpQuest && (re.Op != syntax.OpStar || inner != "") {
			return " "
		}
		if re.Op == syntax.OpQuest {
			return ""
		}
		if re.Op == syntax.OpRepeat && inner != "…" {
			return strings.Repeat(inner, max(1, re.Min))
		}
		return "…"
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "…"
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return ""
	}
	return "…"
}
