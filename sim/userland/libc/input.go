package libc

import (
	"bufio"
	"io"
	"os"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// Reading and writing costs simulated time: a program that reads a device or prints without end must not hold the world.
const (
	callCost = 2 * time.Microsecond // beside a second for each GiB
	// spendStep is how much is slept at once.
	spendStep = time.Millisecond
)

func byteCost(n int) time.Duration { return callCost + time.Duration(n)*time.Second>>30 }

// Spend says that the program has computed for d. It sleeps in lumps, and returns an error when the process has ended.
func (c *Prog) Spend(d time.Duration) error {
	c.mu.Lock()
	c.spent += d
	d = c.spent
	if d < spendStep {
		c.mu.Unlock()
		return nil
	}
	c.spent = 0
	c.mu.Unlock()
	c.SpendCPU(d)
	return c.Wait(d)
}

// paced is an input whose reads take simulated time.
type paced struct {
	c    *Prog
	r    io.Reader
	file kernel.File // nil for standard input
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.c.Spend(byteCost(n)) != nil {
		return n, kernel.ErrDead
	}
	return n, err
}

func (p *paced) Close() error {
	if p.file != nil {
		return p.file.Close()
	}
	return nil // standard input stays open
}

// Seek implements io.Seeker where the input is a file.
func (p *paced) Seek(offset int64, whence int) (int64, error) {
	if s, ok := p.r.(io.Seeker); ok {
		return s.Seek(offset, whence)
	}
	return 0, syscall.ESPIPE
}

// pacedOutput is standard output; writes cost what reads do.
type pacedOutput struct{ c *Prog }

func (p *pacedOutput) Write(b []byte) (int, error) {
	n, err := p.c.Stdout.Write(b)
	if p.c.Spend(byteCost(n)) != nil {
		return n, kernel.ErrDead
	}
	return n, err
}

// Input opens an operand for reading; "-" is standard input. /dev/stdin and /dev/fd names work through the process's files.
func (c *Prog) Input(name string) (io.ReadCloser, error) {
	if name == "-" || name == "/dev/stdin" {
		return &paced{c: c, r: c.Stdin}, nil
	}
	f, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err == nil && i.IsDir() {
		f.Close()
		return nil, &os.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	return &paced{c: c, r: f, file: f}, nil
}

// Stream is standard input as [Prog.Input] gives it.
func (c *Prog) Stream() io.Reader { return &paced{c: c, r: c.Stdin} }

// ReadLine reads up to and with a delimiter, as [bufio.Reader.ReadString] does, within what a program may hold in memory.
func ReadLine(r *bufio.Reader, delimiter byte) (string, error) {
	var b []byte
	for {
		part, err := r.ReadSlice(delimiter)
		b = append(b, part...)
		if err != bufio.ErrBufferFull {
			return string(b), err
		}
		if len(b) > maxWhole {
			return "", ErrTooLarge
		}
	}
}
