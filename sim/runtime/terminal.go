package runtime

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
)

// terminal is a pseudo terminal over plain streams: the line discipline that Linux puts between a remote user's keys and a
// program. The user's own end echoes what is typed, so it does not.
type terminal struct {
	in  *pipe // lines that are complete
	out io.Writer

	mu         sync.Mutex
	line       []byte // being typed
	rest       []byte // read from in, not yet returned by ReadLine
	size       Size
	foreground *kernel.Process
}

var _ kernel.Terminal = (*terminal)(nil)

func newTerminal(in *pipe, out io.Writer, resize <-chan Size) *terminal {
	t := &terminal{in: in, out: out, size: Size{80, 24}}
	if resize != nil {
		go t.follow(resize, nil)
	}
	return t
}

// follow takes over sizes until the channel closes or done is closed.
func (t *terminal) follow(resize <-chan Size, done <-chan struct{}) {
	for {
		select {
		case s, ok := <-resize:
			if !ok {
				return
			}
			t.mu.Lock()
			t.size = s
			p := t.foreground
			t.mu.Unlock()
			if p != nil {
				p.Signal(kernel.SIGWINCH)
			}
		case <-done:
			return
		}
	}
}

// feed hands on what the user types: control characters act, lines are edited until they are ended.
func (t *terminal) feed(r io.Reader) {
	b := make([]byte, 4096)
	for {
		n, err := r.Read(b)
		for _, c := range b[:n] {
			t.key(c)
		}
		if err != nil {
			t.flush()
			t.in.closeWrite()
			return
		}
	}
}

func (t *terminal) key(c byte) {
	switch c {
	case 3: // ^C
		t.mu.Lock()
		t.line = nil
		p := t.foreground
		t.mu.Unlock()
		if p != nil {
			p.Signal(kernel.SIGINT)
		}
	case 4: // ^D: an empty line is the end of the input
		t.mu.Lock()
		empty := len(t.line) == 0
		t.mu.Unlock()
		t.flush()
		if empty {
			t.in.closeWrite()
		}
	case 8, 127:
		t.mu.Lock()
		if len(t.line) > 0 {
			t.line = t.line[:len(t.line)-1]
		}
		t.mu.Unlock()
	case '\r', '\n':
		t.mu.Lock()
		t.line = append(t.line, '\n')
		t.mu.Unlock()
		t.flush()
	default:
		t.mu.Lock()
		t.line = append(t.line, c)
		t.mu.Unlock()
	}
}

func (t *terminal) flush() {
	t.mu.Lock()
	line := t.line
	t.line = nil
	t.mu.Unlock()
	if len(line) > 0 {
		t.in.Write(line)
	}
}

func (t *terminal) Read(b []byte) (int, error) {
	t.mu.Lock()
	if len(t.rest) > 0 {
		n := copy(b, t.rest)
		t.rest = t.rest[n:]
		t.mu.Unlock()
		return n, nil
	}
	t.mu.Unlock()
	return t.in.Read(b)
}

// Write ends lines with CR LF, as a terminal's output processing does.
func (t *terminal) Write(b []byte) (int, error) {
	if t.out == nil {
		return len(b), nil
	}
	if _, err := t.out.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (t *terminal) ReadLine(prompt string, _ kernel.Completer) (string, error) {
	if _, err := io.WriteString(t, prompt); err != nil {
		return "", err
	}
	var line []byte
	b := make([]byte, 4096)
	for {
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			t.mu.Lock()
			t.rest = append([]byte(nil), line[i+1:]...)
			t.mu.Unlock()
			return strings.TrimSuffix(string(line[:i]), "\r"), nil
		}
		n, err := t.Read(b)
		line = append(line, b[:n]...)
		if err != nil {
			if len(line) > 0 && bytes.IndexByte(line, '\n') < 0 {
				return string(line), nil
			}
			if len(line) == 0 {
				return "", err
			}
		}
	}
}

func (t *terminal) ReadPassword(prompt string) (string, error) { return t.ReadLine(prompt, nil) }

func (t *terminal) Size() (columns, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.size.Width), int(t.size.Height)
}

var errNoEditor = errors.New("ckadrill cannot open your editor through a remote terminal")

func (t *terminal) Edit(string, []byte) ([]byte, error) { return nil, errNoEditor }

func (t *terminal) Page(content []byte) error {
	_, err := t.Write(content)
	return err
}

func (t *terminal) SetForeground(p *kernel.Process) *kernel.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.foreground
	t.foreground = p
	return old
}
