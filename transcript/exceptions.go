package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Exception says what may differ in one command, and why. Exactly one of Whole, Recorded and Printed may be all that is
// set beside the reason, or Recorded and Printed together. One with a Seed is about no command: it says by which draws the
// simulation does what the real cluster happened to do.
type Exception struct {
	// Seed is what the randomness of the world comes from, and the time at which the first command is typed.
	Seed uint64 `yaml:"seed"`
	// Line is where the command stands in the recording.
	Line int `yaml:"line"`
	// Command begins the command there; it guards against a recording that has changed.
	Command string `yaml:"command"`
	// Whole takes all of the command's output and its status from the comparison.
	Whole bool `yaml:"whole"`
	// Recorded and Printed match, as regular expressions, lines that only the recording has, or only the simulation prints.
	// They see normalised lines.
	Recorded string `yaml:"recorded"`
	Printed  string `yaml:"printed"`
	// Chance says that what differs is drawn at random or a matter of moments: the exception need not be needed.
	Chance bool `yaml:"chance"`
	// Reason is why the recording is not the truth here.
	Reason string `yaml:"reason"`

	recorded, printed *regexp.Regexp
}

// Exceptions are those of one recording.
type Exceptions struct {
	// Seed is 0 when any will do.
	Seed  uint64
	lines map[int][]*Exception
}

// At are those to the command on a line.
func (e Exceptions) At(line int) []*Exception { return e.lines[line] }

// Bounds of a file of exceptions.
const (
	maxExceptionsSize = 1 << 20
	maxExceptions     = 1000
)

// ExceptionsFile is where the exceptions of a recording's file stand.
func ExceptionsFile(recording string) string {
	return strings.TrimSuffix(recording, Extension) + ".exceptions"
}

// ReadExceptions reads the exceptions beside a recording; there may be none.
func ReadExceptions(r *Recording) (Exceptions, error) {
	file := ExceptionsFile(r.File)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Exceptions{}, nil
	}
	if err != nil {
		return Exceptions{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxExceptionsSize+1))
	if err != nil {
		return Exceptions{}, err
	}
	if len(b) > maxExceptionsSize {
		return Exceptions{}, fmt.Errorf("%s: larger than %d bytes", file, maxExceptionsSize)
	}
	e, err := ParseExceptions(b, r)
	if err != nil {
		return Exceptions{}, fmt.Errorf("%s: %w", file, err)
	}
	return e, nil
}

// ParseExceptions reads a YAML list of exceptions to a recording.
func ParseExceptions(b []byte, r *Recording) (Exceptions, error) {
	var l []*Exception
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&l); err != nil && !errors.Is(err, io.EOF) {
		return Exceptions{}, err
	}
	if len(l) > maxExceptions {
		return Exceptions{}, fmt.Errorf("more than %d exceptions", maxExceptions)
	}
	steps := map[int]*Step{}
	for i := range r.Steps {
		steps[r.Steps[i].Line] = &r.Steps[i]
	}
	all := Exceptions{lines: map[int][]*Exception{}}
	for i, e := range l {
		if e == nil {
			return Exceptions{}, fmt.Errorf("exception %d is empty", i+1)
		}
		if e.Seed != 0 && all.Seed != 0 {
			return Exceptions{}, fmt.Errorf("exception %d: there is a seed already", i+1)
		}
		if err := e.check(steps[e.Line]); err != nil {
			return Exceptions{}, fmt.Errorf("exception %d: %w", i+1, err)
		}
		if e.Seed != 0 {
			all.Seed = e.Seed
			continue
		}
		all.lines[e.Line] = append(all.lines[e.Line], e)
	}
	return all, nil
}

func (e *Exception) check(s *Step) (err error) {
	if e.Seed != 0 {
		switch {
		case e.Line != 0 || e.Command != "" || e.Whole || e.Chance || e.Recorded != "" || e.Printed != "":
			return errors.New("a seed stands alone with its reason")
		case strings.TrimSpace(e.Reason) == "":
			return errors.New("there is no reason for the seed")
		}
		return nil
	}
	switch {
	case s == nil:
		return fmt.Errorf("no command stands on line %d of the recording", e.Line)
	case e.Command == "" || !strings.HasPrefix(s.Command, e.Command):
		return fmt.Errorf("the command on line %d does not begin %q", e.Line, e.Command)
	case strings.TrimSpace(e.Reason) == "":
		return fmt.Errorf("line %d: there is no reason", e.Line)
	case e.Whole == (e.Recorded != "" || e.Printed != ""):
		return fmt.Errorf("line %d: either whole, or recorded and printed must be set", e.Line)
	}
	if e.Recorded != "" {
		if e.recorded, err = regexp.Compile(e.Recorded); err != nil {
			return fmt.Errorf("line %d: recorded: %w", e.Line, err)
		}
	}
	if e.Printed != "" {
		if e.printed, err = regexp.Compile(e.Printed); err != nil {
			return fmt.Errorf("line %d: printed: %w", e.Line, err)
		}
	}
	return nil
}

// apply takes from both sides the lines that the exception names. It returns an error when it names none.
func (e *Exception) apply(recorded, printed []Line) (r, p []Line, err error) {
	if e.Whole {
		if equal(recorded, printed) && !e.Chance {
			return recorded, printed, fmt.Errorf("the exception to %q is not needed: nothing differs", e.Command)
		}
		return nil, nil, nil
	}
	r, p = without(recorded, e.recorded), without(printed, e.printed)
	if e.Chance {
		return r, p, nil
	}
	if e.recorded != nil && len(r) == len(recorded) {
		err = fmt.Errorf("the exception to %q is not needed: no recorded line matches %q", e.Command, e.Recorded)
	}
	if e.printed != nil && len(p) == len(printed) {
		err = fmt.Errorf("the exception to %q is not needed: no printed line matches %q", e.Command, e.Printed)
	}
	return r, p, err
}

func without(lines []Line, re *regexp.Regexp) []Line {
	if re == nil {
		return lines
	}
	var l []Line
	for _, x := range lines {
		if !re.MatchString(x.Text) {
			l = append(l, x)
		}
	}
	return l
}
