package ssh

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
)

// Messages of the protocol: a type, the length of the body in four bytes, the body. After the banners the client sends an
// open message, which the server answers with opened or refused.
const (
	msgOpen    = 'O' // a request, as JSON
	msgOpened  = 'K'
	msgRefused = 'R' // a text
	msgInput   = 'i' // of the client's standard input
	msgEnd     = 'e' // no more input
	msgCredit  = 'c' // how many bytes of input the server has room for, in four bytes
	msgOutput  = 'o'
	msgError   = 'x' // of the remote standard error
	msgExit    = 'q' // a status, as JSON
	msgFile    = 'f' // a fileRequest or fileReply, as JSON
)

// Limits of what either end takes from the other.
const (
	maxBody   = 1 << 20
	chunk     = 32 << 10
	inputRoom = 256 << 10
)

// request is what a client wants after it has connected.
type request struct {
	User    string
	Command *string // nil for a login shell
	Files   bool    // the subsystem that scp uses
	Env     []string
	// Terminal names the client's terminal in [terminals], "" when none is asked for.
	Terminal string
	// Lazy: input is only sent while the remote side waits for it, since somebody would have to type it.
	Lazy bool
}

// wire is one end of a connection.
type wire struct {
	net.Conn
	in *bufio.Reader
	mu sync.Mutex // of writing
}

// greet exchanges the banners.
func greet(c net.Conn, limit time.Duration) (*wire, error) {
	w := &wire{Conn: c, in: bufio.NewReaderSize(c, 64<<10)}
	c.SetDeadline(time.Now().Add(limit))
	defer c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, banner); err != nil {
		return nil, err
	}
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(line), "SSH-2.0-") {
		return nil, errNotSSH
	}
	return w, nil
}

var errNotSSH = fmt.Errorf("the other end does not speak SSH")

func (w *wire) send(kind byte, body []byte) error {
	b := make([]byte, 5, 5+len(body))
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(len(body)))
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.Write(append(b, body...))
	return err
}

func (w *wire) sendJSON(kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.send(kind, b)
}

func (w *wire) receive() (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxBody {
		return 0, nil, fmt.Errorf("Bad packet length %d.", n)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(w.in, body)
	return head[0], body, err
}

func (w *wire) credit(n int) error {
	return w.send(msgCredit, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// output sends what the remote program prints.
type output struct {
	w    *wire
	kind byte
}

func (o output) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		k := min(len(b), chunk)
		if err := o.w.send(o.kind, b[:k]); err != nil {
			return n, err
		}
		n += k
		b = b[k:]
	}
	return n, nil
}

// input is the remote program's standard input. It gives the client credit for what it has room for: from the start, or,
// when it is lazy, while the program waits.
type input struct {
	w    *wire
	lazy bool

	mu      sync.Mutex
	cond    *sync.Cond
	data    []byte
	granted int // bytes that the client may still send
	end     bool
}

func newInput(w *wire, lazy bool) *input {
	i := &input{w: w, lazy: lazy}
	i.cond = sync.NewCond(&i.mu)
	return i
}

// open gives the first credit.
func (i *input) open() error {
	if i.lazy {
		return nil
	}
	i.granted = inputRoom
	return i.w.credit(inputRoom)
}

// add takes what has come. It returns false for a client that sends more than it may.
func (i *input) add(b []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(b) > i.granted {
		return false
	}
	i.granted -= len(b)
	i.data = append(i.data, b...)
	i.cond.Broadcast()
	return true
}

func (i *input) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.end = true
	i.cond.Broadcast()
}

func (i *input) Read(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.data) == 0 {
		if i.end {
			return 0, io.EOF
		}
		if p := kernel.Current(); p != nil && !p.Alive() {
			return 0, kernel.ErrDead
		}
		if i.lazy && i.granted == 0 {
			i.granted = chunk
			if err := i.w.credit(chunk); err != nil {
				return 0, io.EOF
			}
		}
		i.cond.Wait()
	}
	n := copy(b, i.data)
	i.data = i.data[n:]
	if !i.lazy && i.granted < inputRoom/2 && len(i.data) < inputRoom/2 {
		more := inputRoom - i.granted - len(i.data)
		i.granted += more
		i.w.credit(more)
	}
	return n, nil
}
