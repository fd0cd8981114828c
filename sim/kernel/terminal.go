package kernel

import (
	"errors"
	"io"
)

// ErrInterrupted is what a read from a terminal returns when the user pressed Ctrl-C at a prompt.
var ErrInterrupted = errors.New("interrupted")

// Completion is one way to go on from the cursor: Text replaces the last Replace bytes before it.
type Completion struct {
	Text    string
	Replace int
	Display string
}

// Completer proposes how a line that the user is typing could go on. It runs in the world, as a program would.
type Completer func(line string, cursor int) []Completion

// ReadMore is [Terminal.ReadLine] for a line that goes on with the command in the lines before it.
func ReadMore(t Terminal, prompt string, c Completer) (string, error) {
	if m, ok := t.(interface {
		ReadMore(prompt string, c Completer) (string, error)
	}); ok {
		return m.ReadMore(prompt, c)
	}
	return t.ReadLine(prompt, c)
}

// Terminal is a process's controlling terminal. The user sits at its other end, outside the world.
type Terminal interface {
	io.Reader // lines as typed, without a prompt
	io.Writer
	// ReadLine shows a prompt and returns a line without its newline, io.EOF after Ctrl-D, [ErrInterrupted] after Ctrl-C.
	ReadLine(prompt string, c Completer) (string, error)
	// ReadPassword is ReadLine without echo.
	ReadPassword(prompt string) (string, error)
	Size() (columns, rows int)
	// Edit lets the user edit content in an editor of their own on a private copy; name is shown to them.
	Edit(name string, content []byte) ([]byte, error)
	// Page shows content in the user's own pager.
	Page(content []byte) error
	// SetForeground says which process a Ctrl-C interrupts, and returns the one before it.
	SetForeground(p *Process) *Process
}
