package kernel

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"k8s.io/klog/v2"
)

// logRoute says which process owns a line that was written without a label: timer callbacks carry none.
type logRoute struct {
	file string // the source file in klog's header, "taint_eviction.go"
	find func() *Process
}

// RouteLog names the process that owns the lines of a source file when the goroutine that writes them carries no label.
func (w *World) RouteLog(sourceFile string, find func() *Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes = append(w.routes, logRoute{sourceFile, find})
}

// stray keeps the last lines that found no process, for the watchdog and the tests: there should be none.
type strayLines struct {
	mu    sync.Mutex
	lines []string
}

var stray strayLines

func (s *strayLines) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) >= 200 {
		s.lines = append(s.lines[:0], s.lines[100:]...)
	}
	s.lines = append(s.lines, line)
}

// StrayLines are the latest log lines that no process could be found for.
func StrayLines() []string {
	stray.mu.Lock()
	defer stray.mu.Unlock()
	return append([]string(nil), stray.lines...)
}

// logWriter is klog's one output for the whole process: it hands each line to the process that wrote it, with that
// process's pid in the header.
type logWriter struct{ w *World }

func (l logWriter) Write(b []byte) (int, error) {
	p := Current()
	if p == gone {
		return len(b), nil
	}
	if p == nil {
		p = l.route(b)
	}
	if p == nil {
		stray.add(strings.TrimSuffix(string(b), "\n"))
		return len(b), nil
	}
	if p.logFilter != nil && !p.logFilter(b) {
		return len(b), nil
	}
	p.Log.Write(withPID(b, p.OwnPID()))
	if len(b) > 0 && b[0] == 'F' && isHeader(b) {
		// klog would now print the stacks of every goroutine of the host process and exit: end the simulated process instead.
		// Its lock is released by a deferred call, which Goexit runs.
		p.Exit(255)
	}
	return len(b), nil
}

func (l logWriter) route(b []byte) *Process {
	if !isHeader(b) {
		return nil
	}
	// "I0102 15:04:05.000000    1234 file.go:12] text"
	f := bytes.Fields(b[:min(len(b), 200)])
	if len(f) < 4 {
		return nil
	}
	file, _, _ := bytes.Cut(f[3], []byte(":"))
	l.w.mu.Lock()
	routes := l.w.routes
	l.w.mu.Unlock()
	for _, r := range routes {
		if r.file == string(file) {
			return r.find()
		}
	}
	return nil
}

const pidColumn = len("I0102 15:04:05.000000 ")

func isHeader(b []byte) bool {
	return len(b) > pidColumn+8 && strings.IndexByte("IWEF", b[0]) >= 0 && b[5] == ' ' && b[8] == ':' && b[14] == '.'
}

// withPID replaces the host's pid in klog's header ("%7d") by the simulated one.
func withPID(b []byte, pid int) []byte {
	if !isHeader(b) {
		return b
	}
	i := pidColumn
	for i < len(b) && b[i] == ' ' {
		i++
	}
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return append(append(append(make([]byte, 0, len(b)+4), b[:pidColumn]...), fmt.Sprintf("%7d", pid)...), b[i:]...)
}

// SetLogFilter decides which of a process's log lines are kept: klog's verbosity is process-wide in the host, so a program
// that was started with --v=2 drops what it would not have printed.
func (p *Process) SetLogFilter(keep func(line []byte) bool) { p.logFilter = keep }

// tameLog gives klog its one output. Its flags are process-wide.
func tameLog(w *World) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	for k, v := range map[string]string{
		"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "4", // above FATAL: nothing goes to the host
		"one_output": "true", // or error lines come three times
	} {
		if err := fs.Set(k, v); err != nil {
			panic(err)
		}
	}
	klog.SetOutput(logWriter{w})
	klog.OsExit = func(code int) {
		if p := Current(); p != nil {
			p.Exit(code)
			// The process had ended before, and this is a goroutine that it left behind.
			runtime.Goexit()
		}
		panic(fmt.Sprintf("kernel: klog exits with %d outside any process", code))
	}
}
