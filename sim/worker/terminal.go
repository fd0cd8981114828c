package worker

import (
	"errors"
	"io"
	"sync"

	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// terminal is the world's end of the user's terminal: what it is asked for travels to the front, and the run's clock
// stands still meanwhile unless the pace says otherwise.
type terminal struct {
	r *run

	mu            sync.Mutex
	foreground    *kernel.Process
	columns, rows int
	rest          []byte // typed, but not read yet
}

// question is an [wire.Ask] that waits for its answer on a channel of the bubble.
type question struct {
	ask       wire.Ask
	completer kernel.Completer
	answer    chan wire.Answer
}

func (t *terminal) ask(a wire.Ask, c kernel.Completer) (wire.Answer, error) {
	var done <-chan struct{}
	if p := kernel.Current(); p != nil {
		if !p.Alive() { // a goroutine that it left behind, which would take the next line from whoever it is meant for
			return wire.Answer{}, kernel.ErrDead
		}
		done = p.Done()
	}
	q := &question{ask: a, completer: c, answer: make(chan wire.Answer, 1)}
	t.r.ask(q)
	select {
	case ans := <-q.answer:
		switch {
		case ans.Error != "":
			return ans, errors.New(ans.Error)
		case ans.Interrupted:
			return ans, kernel.ErrInterrupted
		case ans.End:
			return ans, io.EOF
		}
		return ans, nil
	case <-done:
		return wire.Answer{}, kernel.ErrDead
	}
}

func (t *terminal) Write(b []byte) (int, error) { return t.r.stdout.Write(b) }

func (t *terminal) ReadLine(prompt string, c kernel.Completer) (string, error) {
	ans, err := t.ask(wire.Ask{Kind: wire.AskLine, Prompt: prompt, Command: c != nil}, c)
	return string(ans.Text), err
}

// ReadMore is what [kernel.ReadMore] calls.
func (t *terminal) ReadMore(prompt string, c kernel.Completer) (string, error) {
	ans, err := t.ask(wire.Ask{Kind: wire.AskLine, Prompt: prompt, More: true}, c)
	return string(ans.Text), err
}

func (t *terminal) ReadPassword(prompt string) (string, error) {
	ans, err := t.ask(wire.Ask{Kind: wire.AskPassword, Prompt: prompt}, nil)
	return string(ans.Text), err
}

// Read is a program reading its standard input: it gets a line as it was typed.
func (t *terminal) Read(b []byte) (int, error) {
	t.mu.Lock()
	rest := t.rest
	t.mu.Unlock()
	if len(rest) == 0 {
		ans, err := t.ask(wire.Ask{Kind: wire.AskLine}, nil)
		if err != nil {
			return 0, err
		}
		rest = append(ans.Text, '\n')
	}
	n := copy(b, rest)
	t.mu.Lock()
	t.rest = rest[n:]
	t.mu.Unlock()
	return n, nil
}

func (t *terminal) Size() (columns, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.columns, t.rows
}

func (t *terminal) Edit(name string, content []byte) ([]byte, error) {
	ans, err := t.ask(wire.Ask{Kind: wire.AskEdit, Prompt: name, Content: content}, nil)
	return ans.Text, err
}

func (t *terminal) Page(content []byte) error {
	_, err := t.ask(wire.Ask{Kind: wire.AskPage, Content: content}, nil)
	return err
}

func (t *terminal) SetForeground(p *kernel.Process) *kernel.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.foreground
	t.foreground = p
	return old
}

func (t *terminal) interrupt() {
	t.mu.Lock()
	p := t.foreground
	t.mu.Unlock()
	if p == nil {
		p = t.r.process
	}
	if p != nil {
		p.Signal(kernel.SIGINT)
	}
}
