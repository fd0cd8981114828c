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

// withStdout runs f while what upstream prints to os.Stdout goes to w. kubeadm's phases print there and nowhere else. The way
// leads through a private file of the host, since os.Stdout is an *os.File and a pipe would hold time. clean is applied to
// what was printed.
func withStdout(w io.Writer, clean func([]byte) []byte, f func() error) error {
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

	var at int64
	buf := make([]byte, 32<<10)
	pass := func() {
		for {
			n, err := out.ReadAt(buf, at)
			at += int64(n)
			if n > 0 {
				w.Write(clean(buf[:n]))
			}
			if err != nil || n == 0 {
				return
			}
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(lookAtOutput)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				pass()
			case <-stop:
				pass()
				return
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return f()
}
