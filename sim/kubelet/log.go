package kubelet

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2/textlogger"

	"ckadrill/sim/kernel"
)

// logAt is a klog logger whose lines carry the place in upstream's source where the real kubelet prints them. Upstream's
// own code prints its place itself; this is for the lines that our code has to print in its stead.
func logAt(p *kernel.Process, file string, line int) logr.Logger {
	return textlogger.NewLogger(textlogger.NewConfig(
		textlogger.Output(processLog{p}),
		textlogger.Backtrace(func(int) (string, int) { return file, line })))
}

// errorfAt prints an unstructured error line, as klog.Errorf does, from a place in upstream's source.
func errorfAt(p *kernel.Process, file string, line int, format string, a ...any) {
	fmt.Fprintf(processLog{p}, "E%s %*d %s:%d] %s\n", time.Now().Format("0102 15:04:05.000000"), pidWidth, p.OwnPID(), file, line, fmt.Sprintf(format, a...))
}

// processLog writes klog lines to a process's log, with the simulated process id in their header.
type processLog struct{ p *kernel.Process }

const (
	pidColumn = len("I0102 15:04:05.000000 ")
	pidWidth  = 7
)

func (l processLog) Write(b []byte) (int, error) {
	if hushOf(l.p).coversLine(b) {
		return len(b), nil
	}
	line := b
	if len(b) > pidColumn+pidWidth {
		i := pidColumn
		for i < len(b) && (b[i] == ' ' || b[i] >= '0' && b[i] <= '9') {
			i++
		}
		line = fmt.Appendf(append([]byte(nil), b[:pidColumn]...), "%*d ", pidWidth, l.p.OwnPID())
		line = append(line, b[i:]...)
	}
	_, err := l.p.Log.Write(line)
	return len(b), err
}
