package grader

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"ckadrill/scenarios"
)

// Task is a scenario's task as a terminal of that many columns shows it.
func Task(s *scenarios.Scenario, columns int) string {
	m := s.Metadata
	head := fmt.Sprintf("%s  [%s, %s, %d minutes, %d points]", m.Title, m.Domain, m.Difficulty, m.Minutes, s.Points())
	return head + "\n\n" + plain(s.Task, columns) + "\n"
}

// widest is how long a line of text is at most, whatever the terminal's size: longer ones are hard to read.
const widest = 100

// plain renders the simple Markdown of tasks and hints: paragraphs are filled, lists and code keep their lines, and the
// marks of emphasis and code are left out.
func plain(markdown string, columns int) string {
	width := min(max(columns-1, 40), widest)
	var out []string
	var paragraph, indent string
	flush := func() {
		if paragraph != "" {
			out = append(out, fill(paragraph, width, indent)...)
		}
		paragraph, indent = "", ""
	}
	code := false
	for _, l := range strings.Split(strings.TrimSpace(markdown), "\n") {
		t := strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(t, "```"):
			flush()
			code = !code
		case code || strings.HasPrefix(l, "    ") && paragraph == "":
			out = append(out, "    "+strings.TrimPrefix(l, "    "))
		case t == "":
			flush()
			if len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
		case strings.HasPrefix(t, "#"):
			flush()
			out = append(out, inline(strings.TrimSpace(strings.TrimLeft(t, "#"))))
		case strings.HasPrefix(t, "- ") || strings.HasPrefix(t, "* ") || numbered(t):
			flush()
			paragraph, indent = t, "  "
		default:
			paragraph = strings.TrimSpace(paragraph + " " + t)
		}
	}
	flush()
	return strings.Join(out, "\n") + "\n"
}

func numbered(t string) bool {
	n, _, ok := strings.Cut(t, ". ")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

// inline leaves out the marks of emphasis and code; what stands between the latter is kept as it is.
func inline(s string) string {
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "**", "")
	}
	return strings.Join(parts, "")
}

// fill breaks a paragraph into lines; all but the first are indented.
func fill(s string, width int, indent string) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(inline(s)) {
		switch {
		case line == "":
			line = w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width:
			lines = append(lines, line)
			line = indent + w
		default:
			line += " " + w
		}
	}
	return append(lines, line)
}
