package transcript

import (
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
)

// simultaneous is how far apart two events may be that are told in either order: ages are whole seconds, on both sides.
const simultaneous = 2 * time.Second

// Compare compares what was recorded for a command with what the simulation printed. It returns a unified diff of what
// is left different after normalising and after the exceptions, "" if nothing is, and an error for each exception that was
// not needed.
func Compare(s *Step, printed string, exceptions []*Exception) (diff string, unneeded []error) {
	a, b := Normalise(s.Command, s.Text()), Normalise(s.Command, printed)
	b = settle(a, b)
	for _, e := range exceptions {
		var err error
		if a, b, err = e.apply(a, b); err != nil {
			unneeded = append(unneeded, err)
		}
	}
	if len(exceptions) > 0 {
		b = settle(a, b)
	}
	if equal(a, b) {
		return "", unneeded
	}
	d, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: texts(a), B: texts(b), FromFile: "recorded", ToFile: "simulated", Context: 2})
	if err != nil {
		d = err.Error() + "\n"
	}
	return d, unneeded
}

func texts(l []Line) []string {
	var s []string
	for _, x := range l {
		s = append(s, x.Text+"\n")
	}
	return s
}

func equal(a, b []Line) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Text != b[i].Text {
			return false
		}
	}
	return true
}

// settle puts lines of b that may change places into the order of a.
func settle(a, b []Line) []Line {
	out := make([]Line, 0, len(b))
	used := 0 // of a's blocks
	blocksA := blocks(a)
	for _, blk := range blocks(b) {
		if blk[0].Group == "" {
			out = append(out, blk...)
			continue
		}
		// the block of a with the same group that comes next
		for k := used; k < len(blocksA); k++ {
			if blocksA[k][0].Group == blk[0].Group {
				blk = arrange(blocksA[k], blk)
				used = k + 1
				break
			}
		}
		out = append(out, blk...)
	}
	return out
}

// blocks cuts lines into runs of the same group.
func blocks(l []Line) [][]Line {
	var r [][]Line
	for i, x := range l {
		if i == 0 || l[i-1].Group != x.Group {
			r = append(r, nil)
		}
		r[len(r)-1] = append(r[len(r)-1], x)
	}
	return r
}

// arrange returns b in the order of a, as far as the same lines are in it; the others come last. Lines whose times are known
// to differ, on both sides, keep b's order when it is another one.
func arrange(a, b []Line) []Line {
	taken := make([]bool, len(b))
	var order []int // indexes of b
	for _, x := range a {
		for j, y := range b {
			if !taken[j] && x.Text == y.Text {
				taken[j] = true
				order = append(order, j)
				break
			}
		}
	}
	for i := range order {
		for k := i + 1; k < len(order); k++ {
			x, y := b[order[i]], b[order[k]]
			if order[i] > order[k] && x.Age >= 0 && y.Age >= 0 && apart(x.Age, y.Age) && apart(ageIn(a, x.Text), ageIn(a, y.Text)) {
				return b
			}
		}
	}
	var out []Line
	for _, j := range order {
		out = append(out, b[j])
	}
	for j, y := range b {
		if !taken[j] {
			out = append(out, y)
		}
	}
	return out
}

func ageIn(l []Line, text string) time.Duration {
	for _, x := range l {
		if x.Text == text {
			return x.Age
		}
	}
	return -1
}

func apart(x, y time.Duration) bool { return (x - y).Abs() > simultaneous }

// Summary is a command on one line.
func Summary(command string) string {
	first, rest, more := strings.Cut(command, "\n")
	if more && rest != "" {
		first += " ..."
	}
	return first
}
