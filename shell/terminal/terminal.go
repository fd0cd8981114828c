// Package terminal is the user's own terminal: line editing with history and completion, and the user's own editor and
// pager on private temporary copies. It is the only part of the shell that lives on the host.
package terminal

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/chzyer/readline"

	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// Terminal shows what a run prints and answers what it asks for. It implements [front.Handler].
type Terminal struct {
	in     *os.File
	out    io.Writer
	rl     *readline.Instance
	cancel func() error
	// Decorate may put something before a shell's prompt, such as an exam's clock.
	Decorate func(prompt string) string
	// OnTyped is told when a command was typed, before it begins.
	OnTyped func(text string)
	// OnCommand is told when a shell asks for its next command: the one before it has finished. An error ends the asking
	// with it, as Ctrl-D would.
	OnCommand func(finished Command, a *wire.Ask) error

	mu      sync.Mutex
	reading *reading
	current Command
	partial []byte // output after the last newline, which readline must not overwrite
}

// Command is what was typed at a shell's prompt and what it has printed.
type Command struct {
	Typed  string
	Output []byte
}

// recorded bounds what a session keeps of one command's output.
const recorded = 1 << 20

// New makes the terminal of the calling process. history are the lines that the up key finds, oldest first.
func New(history []string) (*Terminal, error) {
	stdin := readline.NewCancelableStdin(os.Stdin)
	t := &Terminal{in: os.Stdin, out: os.Stdout, cancel: stdin.Close}
	rl, err := readline.NewEx(&readline.Config{
		Prompt: "$ ", HistoryLimit: 2000, DisableAutoSaveHistory: true,
		InterruptPrompt: "^C", EOFPrompt: "", Stdin: stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	for _, h := range history {
		rl.SaveHistory(h)
	}
	t.rl = rl
	return t, nil
}

// Close gives the terminal back as it was.
func (t *Terminal) Close() error { return t.rl.Close() }

// Cancel ends the reading of a line, as Ctrl-D would, and of every later one: an exam's time is up.
func (t *Terminal) Cancel() { t.cancel() }

// Size is the terminal's size in characters.
func (t *Terminal) Size() (columns, rows int) {
	w, h, err := readline.GetSize(int(t.in.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return 80, 24
	}
	return w, h
}

// Output implements [front.Handler].
func (t *Terminal) Output(_ int, data []byte) {
	t.mu.Lock()
	if room := recorded - len(t.current.Output); room > 0 {
		t.current.Output = append(t.current.Output, data[:min(len(data), room)]...)
	}
	if i := strings.LastIndexByte(string(data), '\n'); i >= 0 {
		t.partial = append(t.partial[:0], data[i+1:]...)
	} else {
		t.partial = append(t.partial, data...)
	}
	if len(t.partial) > 4096 {
		t.partial = t.partial[:0]
	}
	t.mu.Unlock()
	t.out.Write(data)
}

// Ask implements [front.Handler].
func (t *Terminal) Ask(w *front.Worker, a *wire.Ask) wire.Answer {
	switch a.Kind {
	case wire.AskLine:
		return t.line(w, a)
	case wire.AskPassword:
		b, err := t.rl.ReadPassword(a.Prompt)
		return answer(string(b), err)
	case wire.AskEdit:
		b, err := Edit(a.Prompt, a.Content)
		if err != nil {
			return wire.Answer{Error: err.Error()}
		}
		return wire.Answer{Text: b}
	case wire.AskPage:
		if err := Page(a.Content); err != nil {
			return wire.Answer{Error: err.Error()}
		}
		return wire.Answer{}
	}
	return wire.Answer{Error: "this terminal cannot do that: " + string(a.Kind)}
}

func (t *Terminal) line(w *front.Worker, a *wire.Ask) wire.Answer {
	if a.Command && t.OnCommand != nil {
		t.mu.Lock()
		done := t.current
		t.current = Command{}
		t.mu.Unlock()
		if err := t.OnCommand(done, a); err != nil {
			return wire.Answer{End: true}
		}
	}
	prompt := a.Prompt
	t.mu.Lock()
	if !a.Command && !a.More && prompt == "" {
		// a remote shell wrote its prompt as output: readline shows it again when it redraws the line
		prompt = string(t.partial)
	}
	t.partial = t.partial[:0]
	t.mu.Unlock()
	if a.Command && t.Decorate != nil {
		prompt = t.Decorate(prompt)
	}
	cfg := t.rl.Config.Clone()
	cfg.AutoComplete = nil
	if a.Command || a.More {
		cfg.AutoComplete = completer{w, a.ID}
	}
	t.rl.SetConfig(cfg)
	// readline writes its prompt again with every change of the line: only the last line of a longer one may be told to it
	if i := strings.LastIndexByte(prompt, '\n'); i >= 0 {
		t.rl.Write([]byte(prompt[:i+1]))
		prompt = prompt[i+1:]
	}
	t.rl.SetPrompt(prompt)
	text, err := t.read(w)
	if err != nil || !a.Command && !a.More {
		return answer(text, err)
	}
	if strings.TrimSpace(text) != "" {
		t.rl.SaveHistory(text)
	}
	t.mu.Lock()
	if a.More {
		t.current.Typed += "\n" + text
	} else {
		t.current = Command{Typed: text}
	}
	t.mu.Unlock()
	if a.Command && t.OnTyped != nil && strings.TrimSpace(text) != "" {
		t.OnTyped(text)
	}
	return answer(text, err)
}

// reading is a line that the user is typing.
type reading struct {
	done chan struct{}
	text string
	err  error
}

// read returns the next line that is typed. When the worker that asks for it dies, the next one gets what is being typed.
func (t *Terminal) read(w *front.Worker) (string, error) {
	t.mu.Lock()
	r := t.reading
	if r != nil {
		t.rl.Refresh()
	} else {
		r = &reading{done: make(chan struct{})}
		t.reading = r
		go func() {
			text, err := t.rl.Readline()
			t.mu.Lock()
			r.text, r.err, t.reading = text, err, nil
			t.mu.Unlock()
			close(r.done)
		}()
	}
	t.mu.Unlock()
	select {
	case <-r.done:
		return r.text, r.err
	case <-w.Dead():
		return "", errGone
	}
}

var errGone = errors.New("who asked is gone")

func answer(text string, err error) wire.Answer {
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		return wire.Answer{Interrupted: true}
	case errors.Is(err, io.EOF):
		return wire.Answer{End: true}
	case err != nil:
		return wire.Answer{Error: err.Error()}
	}
	return wire.Answer{Text: []byte(text)}
}

// Unfinished is the command that was typed last and has not been reported by OnCommand.
func (t *Terminal) Unfinished() Command {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.current
	t.current = Command{}
	return c
}

// Interrupts calls f for every Ctrl-C that is pressed while no line is being read, until stop is called.
func Interrupts(f func()) (stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, os.Interrupt)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-c:
				f()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(c); close(done) }
}

// completer asks the world how a line can go on.
type completer struct {
	w   *front.Worker
	ask int
}

// Do implements readline's AutoCompleter: it returns what may follow, and how much of it is typed already.
func (c completer) Do(line []rune, pos int) ([][]rune, int) {
	typed := string(line[:pos])
	l := c.w.Complete(c.ask, string(line), len(typed))
	return suffixes(typed, l)
}

func suffixes(typed string, l []kernel.Completion) (out [][]rune, shared int) {
	for _, x := range l {
		n := min(x.Replace, len(typed))
		prefix := typed[len(typed)-n:]
		if !strings.HasPrefix(x.Text, prefix) {
			continue
		}
		out = append(out, []rune(x.Text[len(prefix):]))
		shared = len([]rune(prefix))
	}
	return out, shared
}
