package runtime

import (
	"bytes"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"ckadrill/sim/kernel"
)

// containerIO connects a container's first process with its log, and with who is attached to it.
type containerIO struct {
	c   *Containerd
	k   *container
	max int // bytes of a line; longer ones are cut

	mu       sync.Mutex
	file     kernel.File
	buf      [2][]byte // the unfinished lines of stdout and stderr
	attached map[*attachedStream]bool
	stdin    *pipe
	tty      *terminal
	closed   bool
}

// openIO makes a container's streams before it starts. resumed keeps what was there before a thaw.
func (c *Containerd) openIO(k *container, resumed bool) error {
	o := &containerIO{c: c, k: k, max: 16 * 1024, attached: map[*attachedStream]bool{}}
	c.mu.Lock()
	if c.daemon != nil {
		o.max = c.daemon.config.MaxLine
	}
	c.mu.Unlock()
	if resumed {
		o.buf = k.Partial
	}
	if k.Config.Stdin || k.Config.Tty {
		o.stdin = newPipe()
		if !k.Config.Stdin || k.StdinClosed {
			o.stdin.closeWrite()
		}
	}
	if k.Config.Tty {
		o.tty = newTerminal(o.stdin, containerOutput{o, 0}, nil)
	}
	if err := o.open(); err != nil {
		return err
	}
	k.io = o
	return nil
}

// open opens the log file, as containerd does it: for appending, 0640, the directory with 0755.
func (o *containerIO) open() error {
	if o.k.LogPath == "" {
		return nil
	}
	files := o.c.files()
	if err := files.MkdirAll(path.Dir(o.k.LogPath), 0o755); err != nil {
		return &logError{err}
	}
	f, err := files.OpenFile(o.k.LogPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return &logError{err}
	}
	o.mu.Lock()
	old := o.file
	o.file = f
	o.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

type logError struct{ err error }

func (e *logError) Error() string {
	return "failed to create container loggers: failed to create and open log file: " + e.err.Error()
}

func (e *logError) Unwrap() error { return e.err }

// fill gives a process the container's streams.
func (o *containerIO) fill(s *kernel.Spec) {
	if o.tty != nil {
		s.Stdin, s.Stdout, s.Stderr, s.TTY = o.tty, o.tty, o.tty, o.tty
		return
	}
	if o.stdin != nil {
		s.Stdin = o.stdin
	}
	s.Stdout, s.Stderr = containerOutput{o, 0}, containerOutput{o, 1}
}

// containerOutput is one of the two output streams.
type containerOutput struct {
	o      *containerIO
	stream int
}

func (w containerOutput) Write(b []byte) (int, error) {
	// What a resumed program says while it makes up for its past was said already.
	if kernel.Replaying() {
		return len(b), nil
	}
	w.o.write(w.stream, b)
	return len(b), nil
}

const criLogTime = "2006-01-02T15:04:05.000000000Z07:00"

func (o *containerIO) write(stream int, b []byte) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	var out bytes.Buffer
	line := append(o.buf[stream], b...)
	partial := len(o.buf[stream]) > 0
	for {
		i := bytes.IndexByte(line, '\n')
		if i < 0 {
			for o.max > 0 && len(line) > o.max {
				o.entry(&out, stream, "P", line[:o.max])
				line = line[o.max:]
			}
			break
		}
		text := bytes.TrimSuffix(line[:i], []byte{'\r'})
		for o.max > 0 && len(text) > o.max {
			o.entry(&out, stream, "P", text[:o.max])
			text = text[o.max:]
		}
		o.entry(&out, stream, "F", text)
		line = line[i+1:]
	}
	o.buf[stream] = append([]byte(nil), line...)
	touch := partial || len(line) > 0
	if out.Len() > 0 && o.file != nil {
		o.file.Write(out.Bytes())
	}
	var to []*attachedStream
	for a := range o.attached {
		to = append(to, a)
	}
	pending := o.buf
	o.mu.Unlock()
	if touch {
		o.c.mu.Lock()
		o.k.Partial = [2][]byte{bytes.Clone(pending[0]), bytes.Clone(pending[1])}
		o.c.touchContainer(o.k)
		o.c.mu.Unlock()
	}
	for _, a := range to {
		a.write(stream, b)
	}
}

func (o *containerIO) entry(w *bytes.Buffer, stream int, tag string, text []byte) {
	w.WriteString(time.Now().UTC().Format(criLogTime))
	w.WriteString([2]string{" stdout ", " stderr "}[stream])
	w.WriteString(tag)
	w.WriteByte(' ')
	w.Write(text)
	w.WriteByte('\n')
}

// close ends the streams when the process has ended: what is left of a line is written as a partial one.
func (o *containerIO) close() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	var out bytes.Buffer
	for s, b := range o.buf {
		if len(b) > 0 {
			o.entry(&out, s, "P", b)
		}
	}
	o.buf = [2][]byte{}
	if o.file != nil {
		if out.Len() > 0 {
			o.file.Write(out.Bytes())
		}
		o.file.Close()
		o.file = nil
	}
	var to []*attachedStream
	for a := range o.attached {
		to = append(to, a)
	}
	o.mu.Unlock()
	if o.stdin != nil {
		o.stdin.closeWrite()
	}
	for _, a := range to {
		a.end()
	}
}

// pipe is a pipe between goroutines of the world, bounded as a kernel's is.
type pipe struct {
	mu     sync.Mutex
	cond   *sync.Cond
	buf    bytes.Buffer
	closed bool
}

func newPipe() *pipe {
	p := &pipe{}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// pipeLimit bounds what a pipe holds: a writer waits then, as with a kernel's pipe.
const pipeLimit = 64 << 10

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buf.Len() == 0 {
		if p.closed {
			return 0, io.EOF
		}
		p.cond.Wait()
	}
	n, _ := p.buf.Read(b)
	p.cond.Broadcast()
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(b) {
		for p.buf.Len() >= pipeLimit && !p.closed {
			p.cond.Wait()
		}
		if p.closed {
			return n, io.ErrClosedPipe
		}
		take := min(len(b)-n, pipeLimit-p.buf.Len())
		p.buf.Write(b[n : n+take])
		n += take
		p.cond.Broadcast()
	}
	return n, nil
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cond.Broadcast()
}

// reopenLog opens the log anew when the kubelet has moved it away.
func (s *service) reopenLog(k *container) error {
	s.mu.Lock()
	o := k.io
	running := k.proc != nil
	s.mu.Unlock()
	if !running || o == nil {
		return errNotRunning
	}
	return o.open()
}
