package kubeadm

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// stdoutMu keeps two runs of kubeadm from taking each other's standard output.
var stdoutMu sync.Mutex

// lookAtOutput is how often what upstream printed is passed on. The time is simulated: what is printed before a wait is seen
// before the wait ends.
const lookAtOutput = 10 * time.Millisecond

// capture passes on what upstream prints to os.Stdout. kubeadm's phases print there and nowhere else. The way leads through a
// private file of the host, since os.Stdout is an *os.File and a pipe would hold time.
type capture struct {
	to    io.Writer
	clean func([]byte) []byte
	out   *os.File

	mu sync.Mutex
	at int64
}

// flush passes on what has been printed so far.
func (c *capture) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf := make([]byte, 32<<10)
	for {
		n, err := c.out.ReadAt(buf, c.at)
		c.at += int64(n)
		if n > 0 {
			c.to.Write(c.clean(buf[:n]))
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// after returns a writer whose output comes after what has been printed before it was written, and is cleaned like that.
func (c *capture) after(w io.Writer) io.Writer { return ordered{c, w} }

type ordered struct {
	c *capture
	w io.Writer
}

func (o ordered) Write(b []byte) (int, error) {
	o.c.flush()
	if _, err := o.w.Write(o.c.clean(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// withStdout runs f while what upstream prints to os.Stdout goes to w. clean is applied to what was printed.
func withStdout(w io.Writer, clean func([]byte) []byte, f func(c *capture) error) error {
	stdoutMu.Lock()
	defer stdoutMu.Unlock()
	out, err := os.CreateTemp("", "ckadrill-kubeadm-output-")
	if err != nil {
		return fmt.Errorf("kubeadm's output: %w", err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	defer func(o *os.File) { os.Stdout = o }(os.Stdout)
	os.Stdout = out

	c := &capture{to: w, clean: clean, out: out}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(lookAtOutput)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				c.flush()
			case <-stop:
				c.flush()
				return
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return f(c)
}
