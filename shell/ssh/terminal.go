package ssh

import (
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
)

// terminals are the terminals that clients offer to a remote side, by the token that their request names. Both ends live
// in one world, so the terminal itself need not travel: what its user types and sees does not pass the network.
var (
	terminals sync.Map // string -> offered
	tokens    atomic.Uint64
)

// offered is a client's terminal.
type offered struct {
	terminal kernel.Terminal
	client   *kernel.Process
}

// offer makes a client's terminal known until withdraw is called.
func offer(t kernel.Terminal, client *kernel.Process) (token string, withdraw func()) {
	token = strconv.FormatUint(tokens.Add(1), 10)
	terminals.Store(token, offered{t, client})
	return token, func() { terminals.Delete(token) }
}

// pty is the terminal of a remote process: the client's, as long as the connection lives.
type pty struct {
	t      kernel.Terminal
	before *kernel.Process // in the client's foreground

	mu   sync.Mutex
	hung bool
}

// newPty puts leader into the terminal's foreground.
func newPty(t kernel.Terminal, leader *kernel.Process) *pty {
	return &pty{t: t, before: t.SetForeground(leader)}
}

// Nest is the nest of shells that the client's terminal belongs to.
func (t *pty) Nest() *bash.Nest { return bash.NestOf(t.t) }

// hangUp takes the terminal away from the remote side.
func (t *pty) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.hung {
		t.hung = true
		t.t.SetForeground(t.before)
	}
}

func (t *pty) gone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hung
}

// Read implements [kernel.Terminal], as do the other methods.
func (t *pty) Read(b []byte) (int, error) {
	if t.gone() {
		return 0, io.EOF
	}
	return t.t.Read(b)
}

func (t *pty) Write(b []byte) (int, error) {
	if t.gone() {
		return 0, syscall.EIO
	}
	return t.t.Write(b)
}

func (t *pty) ReadLine(prompt string, c kernel.Completer) (string, error) {
	if t.gone() {
		return "", io.EOF
	}
	return t.t.ReadLine(prompt, c)
}

// ReadMore is what [kernel.ReadMore] calls.
func (t *pty) ReadMore(prompt string, c kernel.Completer) (string, error) {
	if t.gone() {
		return "", io.EOF
	}
	return kernel.ReadMore(t.t, prompt, c)
}

func (t *pty) ReadPassword(prompt string) (string, error) {
	if t.gone() {
		return "", io.EOF
	}
	return t.t.ReadPassword(prompt)
}

func (t *pty) Size() (columns, rows int) { return t.t.Size() }

func (t *pty) Edit(name string, content []byte) ([]byte, error) {
	if t.gone() {
		return nil, syscall.EIO
	}
	return t.t.Edit(name, content)
}

func (t *pty) Page(content []byte) error {
	if t.gone() {
		return syscall.EIO
	}
	return t.t.Page(content)
}

func (t *pty) SetForeground(p *kernel.Process) *kernel.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hung {
		return nil
	}
	return t.t.SetForeground(p)
}
