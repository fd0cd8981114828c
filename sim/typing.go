package sim

import (
	"errors"
	"io"
	"sync"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
)

// typing is the terminal of a shell that no user sits at: a script is typed at it. A shell that is opened inside of the
// first one, by ssh or sudo -i, reads its commands from what is left of the script; when nothing is left, all shells stay
// open as they are until the next run.
type typing struct {
	nest *bash.Nest
	out  io.Writer
	// nested: shells were open inside of the outermost before, so that the whole script is the innermost's.
	nested bool

	mu     sync.Mutex
	script string
	given  bool
}

// taken says whether a shell inside of the outermost has read the script.
func (t *typing) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.given
}

// ReadLine implements [kernel.Terminal], as do the other methods.
func (t *typing) ReadLine(_ string, c kernel.Completer) (string, error) {
	if c == nil {
		return "", io.EOF // nobody answers questions
	}
	t.mu.Lock()
	whole := t.nested && !t.given
	t.given = true
	t.mu.Unlock()
	if whole {
		return t.script, nil
	}
	outermost := t.nest.Outermost()
	if outermost != nil {
		if line, ok := outermost.TakeLine(); ok {
			return line, nil
		}
	}
	status := 0
	if sh := t.nest.Innermost(); sh != nil {
		status = sh.Status()
	}
	t.nest.Suspend(status)
	return "", io.EOF
}

// ReadMore is what [kernel.ReadMore] calls.
func (t *typing) ReadMore(string, kernel.Completer) (string, error) {
	if outermost := t.nest.Outermost(); outermost != nil {
		if line, ok := outermost.TakeLine(); ok {
			return line, nil
		}
	}
	return "", io.EOF
}

func (t *typing) ReadPassword(string) (string, error)           { return "", io.EOF }
func (t *typing) Read([]byte) (int, error)                      { return 0, io.EOF }
func (t *typing) Write(b []byte) (int, error)                   { return t.out.Write(b) }
func (t *typing) Size() (columns, rows int)                     { return 80, 24 }
func (t *typing) SetForeground(*kernel.Process) *kernel.Process { return nil }

var errNobody = errors.New("nobody is at the terminal")

func (t *typing) Edit(string, []byte) ([]byte, error) { return nil, errNobody }
func (t *typing) Page(b []byte) error                 { _, err := t.out.Write(b); return err }

// onTerminal is a stream of its own that programs take for the terminal.
type onTerminal struct {
	io.Writer
	t kernel.Terminal
}

func (o onTerminal) Unwrap() io.Writer { return o.t }
