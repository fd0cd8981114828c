package transcript

import (
	"regexp"
	"strings"
	"time"
)

// table is the head of a table in some output: the columns that the lines below it are read by.
type table struct {
	indent string
	heads  []string
	at     []int // where each column begins
}

var (
	gap = regexp.MustCompile(`\S+(?: \S+)*`)
	// upper is a head of kubectl get or crictl, mixed are the heads of the tables in kubectl describe that have an age.
	upper = regexp.MustCompile(`^[A-Z][A-Z0-9 ()/\-_.%]*$`)
	mixed = regexp.MustCompile(`^\s+(?:Type +Reason +Age +From +Message|Namespace +Name +CPU Requests .* Age)$`)
)

// tableOf reads a line as a table's head; nil if it is none.
func tableOf(line string) *table {
	heads := mixed.MatchString(line)
	t := &table{indent: line[:len(line)-len(strings.TrimLeft(line, " "))]}
	for _, m := range gap.FindAllStringIndex(line, -1) {
		h := line[m[0]:m[1]]
		if !heads && !upper.MatchString(h) {
			return nil
		}
		t.heads, t.at = append(t.heads, strings.ToUpper(h)), append(t.at, m[0])
	}
	if len(t.heads) < 2 {
		return nil
	}
	return t
}

// has says whether a line is a row of the table.
func (t *table) has(line string) bool {
	return line != "" && strings.HasPrefix(line, t.indent) && !strings.HasPrefix(line, "[")
}

// cells cuts a row by the columns' places, or by its gaps when the row does not keep to them, as those of a watch.
func (t *table) cells(row string) []string {
	var l []string
	for i, from := range t.at {
		if from >= len(row) {
			break
		}
		to := len(row)
		if i+1 < len(t.at) && t.at[i+1] < len(row) {
			to = t.at[i+1]
			if row[to-1] != ' ' {
				return gap.FindAllString(row, -1)
			}
		}
		l = append(l, strings.TrimSpace(row[from:to]))
	}
	return l
}

func (t *table) head(i int) string {
	if i >= len(t.heads) {
		return ""
	}
	return t.heads[i]
}

// events says whether the rows are events.
func (t *table) events() bool {
	for _, h := range t.heads {
		if h == "REASON" || h == "LAST SEEN" {
			for _, h := range t.heads {
				if h == "MESSAGE" {
					return t.at != nil && !t.conditions()
				}
			}
		}
	}
	return false
}

// conditions says whether the rows are an object's conditions.
func (t *table) conditions() bool {
	for _, h := range t.heads {
		if h == "STATUS" {
			return true
		}
	}
	return false
}

// age is how long ago a row's event was.
func (t *table) age(cells []string) time.Duration {
	for i, c := range cells {
		switch t.head(i) {
		case "AGE", "LAST SEEN":
			return ageOf(c)
		}
	}
	return -1
}
