package kubeproxy

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2/textlogger"

	"ckadrill/sim/kernel"
)

// logAt is a logger for lines that upstream's own code would print at a place in its source.
func logAt(p *kernel.Process, file string, line int) logr.Logger {
	return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(processLog{p}), textlogger.Backtrace(func(int) (string, int) { return file, line })))
}

// processLog writes klog lines to a process's log, with the pid that the process sees itself in their header.
type processLog struct{ p *kernel.Process }

func (l processLog) Write(b []byte) (int, error) {
	const pidColumn = len("I0102 15:04:05.000000 ")
	line := b
	if len(b) > pidColumn+7 {
		i := pidColumn
		for i < len(b) && (b[i] == ' ' || b[i] >= '0' && b[i] <= '9') {
			i++
		}
		line = fmt.Appendf(append([]byte(nil), b[:pidColumn]...), "%7d ", l.p.OwnPID())
		line = append(line, b[i:]...)
	}
	_, err := l.p.Log.Write(line)
	return len(b), err
}
