package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a recording: it comes from outside.
const (
	MaxSize  = 8 << 20 // bytes of a file
	MaxSteps = 5000    // commands of a file
	maxLine  = 1 << 20 // bytes of a line
)

// Step is one command of a recording and what came back.
type Step struct {
	// Line is where the command stands in the file, from 1.
	Line int
	// Command is what was typed, with the lines of a here-document.
	Command string
	// Output is what was printed, both streams in their order.
	Output string
	Exit   int
	// Cut says that the recorder gave up waiting for the command.
	Cut bool
}

// Recording is a parsed console session.
type Recording struct {
	// Area and Name are the file's directory and base name: "workloads", "crashloop".
	Area, Name string
	File       string
	Steps      []Step
}

// Extension is how the files of recordings end.
const Extension = ".console"

// Read reads the recording in a file.
func Read(file string) (*Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	steps, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	return &Recording{Area: filepath.Base(filepath.Dir(abs)), Name: strings.TrimSuffix(filepath.Base(abs), Extension), File: file, Steps: steps}, nil
}

// lineError is an error at a line; its text begins "LINE: ".
func lineError(line int, format string, a ...any) error {
	return fmt.Errorf("%d: %s", line, fmt.Sprintf(format, a...))
}

// Markers of the format.
const (
	prompt       = "$ "
	continuation = "> "
	noNewline    = "[no newline]"
	cut          = "[timeout]"
)

// Parse reads a recording:
//
//	$ command       further lines of the command begin "> "
//	output
//	[no newline]    the output did not end in a newline
//	[exit N]        the status, when it is not 0
//	[timeout]       the recorder gave up waiting; nothing comes after it
//
// Its errors begin with the line's number.
func Parse(r io.Reader) ([]Step, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	switch {
	case err != nil:
		return nil, lineError(1, "%v", err)
	case len(b) > MaxSize:
		return nil, lineError(1, "the recording is larger than %d MiB", MaxSize>>20)
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return nil, lineError(1, "the recording is not text in UTF-8")
	}
	var p parser
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, maxLine)
	for s.Scan() {
		p.line++
		if err := p.add(s.Text()); err != nil {
			return nil, err
		}
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, lineError(p.line+1, "the line is longer than %d bytes", maxLine)
		}
		return nil, lineError(p.line+1, "%v", err)
	}
	if len(p.steps) == 0 {
		return nil, lineError(1, "there is no command: one begins %q", prompt)
	}
	return p.steps, nil
}

type parser struct {
	line  int
	steps []Step
	// typing is true until the first line of output, ended after a mark that ends a step.
	typing, ended bool
}

func (p *parser) add(text string) error {
	if command, ok := strings.CutPrefix(text, prompt); ok {
		if n := len(p.steps); n > 0 && p.steps[n-1].Cut {
			return lineError(p.line, "a command after %s", cut)
		}
		if len(p.steps) == MaxSteps {
			return lineError(p.line, "more than %d commands", MaxSteps)
		}
		if strings.TrimSpace(command) == "" {
			return lineError(p.line, "the command is empty")
		}
		p.steps = append(p.steps, Step{Line: p.line, Command: command})
		p.typing, p.ended = true, false
		return nil
	}
	if len(p.steps) == 0 {
		return lineError(p.line, "output before the first command: a command begins %q", prompt)
	}
	s := &p.steps[len(p.steps)-1]
	if more, ok := strings.CutPrefix(text, continuation); ok && p.typing {
		s.Command += "\n" + more
		return nil
	}
	if text == strings.TrimSuffix(continuation, " ") && p.typing { // an empty line whose trailing space was lost
		s.Command += "\n"
		return nil
	}
	p.typing = false
	if p.ended {
		return lineError(p.line, "output after the end of the command of line %d", s.Line)
	}
	switch {
	case text == noNewline:
		s.Output = strings.TrimSuffix(s.Output, "\n")
	case text == cut:
		s.Cut, p.ended = true, true
	case strings.HasPrefix(text, "[exit ") && strings.HasSuffix(text, "]"):
		n, err := strconv.ParseUint(text[len("[exit "):len(text)-1], 10, 8)
		if err != nil || n == 0 {
			return lineError(p.line, "%s: a status from 1 to 255 is expected", text)
		}
		s.Exit, p.ended = int(n), true
	default:
		s.Output += text + "\n"
	}
	return nil
}

// Text is the step's output as the format writes it, with its marks.
func (s *Step) Text() string {
	t := s.Output
	if t != "" && !strings.HasSuffix(t, "\n") {
		t += "\n" + noNewline + "\n"
	}
	if s.Exit != 0 {
		t += fmt.Sprintf("[exit %d]\n", s.Exit)
	}
	if s.Cut {
		t += cut + "\n"
	}
	return t
}
