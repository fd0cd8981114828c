package deb

import (
	"fmt"
	"strings"
)

// Field is a field of a paragraph. Lines of the value after the first are as in the file, with their leading space.
type Field struct{ Name, Value string }

// Paragraph is the description of one package: fields in order, see deb-control(5).
type Paragraph []Field

// Get is the value of a field, "" if there is none.
func (p Paragraph) Get(name string) string {
	for _, f := range p {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Set changes a field, or adds it at the end; "" removes it.
func (p *Paragraph) Set(name, value string) {
	for i, f := range *p {
		if strings.EqualFold(f.Name, name) {
			if value == "" {
				*p = append((*p)[:i:i], (*p)[i+1:]...)
			} else {
				(*p)[i].Value = value
			}
			return
		}
	}
	if value != "" {
		*p = append(*p, Field{name, value})
	}
}

// Clone is a copy that can be changed.
func (p Paragraph) Clone() Paragraph { return append(Paragraph(nil), p...) }

// String is the paragraph as in a file, without the empty line that ends it.
func (p Paragraph) String() string {
	var b strings.Builder
	for _, f := range p {
		b.WriteString(f.Name + ":")
		if f.Value != "" && f.Value[0] != '\n' {
			b.WriteByte(' ')
		}
		b.WriteString(f.Value + "\n")
	}
	return b.String()
}

// SyntaxError is what is wrong with a line.
type SyntaxError struct {
	Line int
	Text string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Parse reads the paragraphs of a file. The error is a *[SyntaxError].
func Parse(text string) (l []Paragraph, err error) {
	var p Paragraph
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		switch name, value, ok := strings.Cut(line, ":"); {
		case strings.TrimSpace(line) == "":
			if p != nil {
				l = append(l, p)
			}
			p = nil
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if p == nil {
				return nil, &SyntaxError{n, "value line not preceded by a field"}
			}
			p[len(p)-1].Value += "\n" + line
		case !ok || name == "" || strings.ContainsAny(name, " \t"):
			return nil, &SyntaxError{n, fmt.Sprintf("field name '%s' must be followed by colon", strings.Fields(line)[0])}
		default:
			p = append(p, Field{name, strings.TrimSpace(value)})
		}
	}
	if p != nil {
		l = append(l, p)
	}
	return l, nil
}
