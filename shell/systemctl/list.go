package systemctl

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"ckadrill/sim/machine/systemd"
)

// table prints rows under a header, columns as wide as they need be, the last one unpadded, as systemd's tables are.
func (t *tool) table(header []string, rows [][]string, colors map[[2]int]string) {
	all := rows
	if t.legend {
		all = append([][]string{header}, rows...)
	}
	width := make([]int, len(header))
	for _, r := range all {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	limit := t.columns()
	for k, r := range all {
		head := t.legend && k == 0
		row := k
		if t.legend {
			row--
		}
		left := limit
		for i, c := range r {
			if i > 0 {
				t.printf(" ")
				left--
			}
			cell := c
			if i < len(r)-1 || head && t.onTerminal() {
				cell += strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			} else if limit > 0 && utf8.RuneCountInString(cell) > max(left, 8) {
				cell = string([]rune(cell)[:max(left, 8)-1]) + "…"
			}
			left -= utf8.RuneCountInString(cell)
			switch {
			case head:
				cell = t.color(underline, cell)
			default:
				cell = t.color(colors[[2]int{row, i}], cell)
			}
			t.printf("%s", cell)
		}
		t.printf("\n")
	}
}

func suffix(name string) string { return strings.TrimPrefix(path.Ext(name), ".") }

func matches(patterns []string, name string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok || systemd.Canonical(p) == name {
			return true
		}
	}
	return false
}

// byType sorts names as systemctl does: by type, then by name.
func byType(l []string) {
	order := map[string]int{}
	for i, s := range []string{"service", "mount", "swap", "socket", "target", "device", "automount", "timer", "path", "slice", "scope"} {
		order[s] = i
	}
	sort.SliceStable(l, func(i, j int) bool {
		a, b := order[suffix(l[i])], order[suffix(l[j])]
		if a != b {
			return a < b
		}
		return strings.ToLower(l[i]) < strings.ToLower(l[j])
	})
}

func (t *tool) listUnits(patterns []string) int {
	names := t.manager.Loaded()
	byType(names)
	var rows [][]string
	colors := map[[2]int]string{}
	for _, n := range names {
		s := t.manager.Status(n)
		if !matches(patterns, n) || len(t.types) > 0 && !slices.Contains(t.types, suffix(n)) {
			continue
		}
		if len(t.states) > 0 {
			if !slices.Contains(t.states, s.LoadState) && !slices.Contains(t.states, s.Active) && !slices.Contains(t.states, s.Sub) {
				continue
			}
		} else if !t.all && s.Active == systemd.Inactive && len(patterns) == 0 {
			continue
		}
		mark, c := " ", ""
		switch {
		case s.LoadState != "loaded":
			mark, c = "●", yellow
			colors[[2]int{len(rows), 2}] = red
		case s.Active == systemd.Failed:
			mark, c = "●", red
			for i := 1; i < 5; i++ {
				colors[[2]int{len(rows), i}] = red
			}
		}
		colors[[2]int{len(rows), 0}] = c
		rows = append(rows, []string{mark, s.Name, s.LoadState, s.Active, s.Sub, s.Definition.Description()})
	}
	header := []string{" ", "UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"}
	if t.plain {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
		header, colors = header[1:], nil
	}
	if len(rows) > 0 || t.legend {
		t.table(header, rows, colors)
	}
	if !t.legend {
		return 0
	}
	if len(rows) > 0 {
		t.printf("\nLegend: LOAD   → Reflects whether the unit definition was properly loaded.\n        ACTIVE → The high-level unit activation state, i.e. generalization of SUB.\n        SUB    → The low-level unit activation state, values depend on unit type.\n\n")
	}
	if len(rows) == 0 {
		t.printf("\n")
	}
	count := fmt.Sprintf("%d loaded units listed.", len(rows))
	switch {
	case t.all || slices.Contains(t.states, "inactive"):
		t.printf("%s\nTo show all installed unit files use 'systemctl list-unit-files'.\n", count)
	case len(t.states) == 0:
		t.printf("%s Pass --all to see loaded but inactive units, too.\nTo show all installed unit files use 'systemctl list-unit-files'.\n", count)
	default:
		t.printf("%s\n", count)
	}
	return 0
}

func (t *tool) listUnitFiles(patterns []string) int {
	names := t.manager.Files()
	sort.SliceStable(names, func(i, j int) bool {
		if a, b := suffix(names[i]), suffix(names[j]); a != b {
			return a < b
		}
		return strings.ToLower(names[i]) < strings.ToLower(names[j])
	})
	var rows [][]string
	colors := map[[2]int]string{}
	for _, n := range names {
		state := t.manager.FileState(n)
		if !matches(patterns, n) || len(t.types) > 0 && !slices.Contains(t.types, suffix(n)) || len(t.states) > 0 && !slices.Contains(t.states, state) {
			continue
		}
		preset := "-"
		switch state {
		case "enabled", "disabled", "masked":
			preset = "enabled"
			colors[[2]int{len(rows), 2}] = green
		}
		switch state {
		case "enabled", "alias":
			colors[[2]int{len(rows), 1}] = green
		case "disabled", "masked":
			colors[[2]int{len(rows), 1}] = red
		}
		rows = append(rows, []string{n, state, preset})
	}
	t.table([]string{"UNIT FILE", "STATE", "PRESET"}, rows, colors)
	if t.legend {
		t.printf("\n%d unit files listed.\n", len(rows))
	}
	if len(rows) == 0 {
		return 1
	}
	return 0
}

func (t *tool) listJobs([]string) int {
	t.printf("No jobs running.\n")
	return 0
}

func (t *tool) listTimers([]string) int {
	return t.none("NEXT LEFT LAST PASSED UNIT ACTIVATES", "timer")
}

func (t *tool) listSockets([]string) int { return t.none("LISTEN UNIT ACTIVATES", "socket") }

// none prints an empty list: these machines have no units of that type that run.
func (t *tool) none(header, what string) int {
	if t.legend {
		t.printf("%s\n\n0 %ss listed.\nPass --all to see loaded but inactive %ss, too.\n", header, what, what)
	}
	return 0
}

func (t *tool) listDependencies(args []string) int {
	names := []string{t.manager.DefaultTarget()}
	if len(args) > 0 {
		names = t.names(args)
	}
	for i, n := range names {
		if i > 0 {
			t.printf("\n")
		}
		t.printf("%s\n", n)
		t.dependencies(n, "", []string{n})
	}
	return 0
}

// dependencies prints what a unit pulls in, or with --reverse what pulls it in, as a tree in which only targets branch.
func (t *tool) dependencies(name, indent string, seen []string) {
	var deps []string
	if t.reverse {
		for _, n := range t.manager.Files() {
			if slices.Contains(t.manager.Dependencies(n), name) {
				deps = append(deps, n)
			}
		}
	} else {
		deps = t.manager.Dependencies(name)
	}
	sort.SliceStable(deps, func(i, j int) bool {
		a, b := suffix(deps[i]) == "target", suffix(deps[j]) == "target"
		if a != b {
			return b
		}
		return strings.ToLower(deps[i]) < strings.ToLower(deps[j])
	})
	for i, d := range deps {
		branch, below := "├─", "│ "
		if i == len(deps)-1 {
			branch, below = "└─", "  "
		}
		if slices.Contains(seen, d) {
			continue
		}
		if t.plain {
			t.printf("  %s\n", d)
		} else {
			active := t.manager.Status(d).Active
			t.printf("%s %s%s%s\n", t.glyph(active), indent, branch, d)
		}
		if t.all || suffix(d) == "target" {
			t.dependencies(d, indent+below, append(slices.Clone(seen), d))
		}
	}
}
