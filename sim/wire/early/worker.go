package early

import (
	"os"
	"sync"
)

// Worker is a worker process and the ends of its pipes.
type Worker struct {
	Process *os.Process
	// In is its standard input, Out its standard output, Err its standard error.
	In, Out, Err *os.File
}

var mu sync.Mutex

// Start starts a worker, or hands out the one that was started early.
func Start() (*Worker, error) {
	mu.Lock()
	w := first
	first = nil
	mu.Unlock()
	if w != nil {
		return w, nil
	}
	return start()
}

func start() (*Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var mine, its [3]*os.File
	closeAll := func(l [3]*os.File) {
		for _, f := range l {
			if f != nil {
				f.Close()
			}
		}
	}
	for i := range mine {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(mine)
			closeAll(its)
			return nil, err
		}
		mine[i], its[i] = r, w
		if i == 0 {
			mine[i], its[i] = w, r
		}
	}
	// Ctrl-C at the terminal is a message to the world, never a signal to its process; and the world knows nothing of the
	// user's environment.
	p, err := os.StartProcess(self, []string{self, WorkerArgument}, &os.ProcAttr{Env: environment(), Files: its[:], Sys: ownProcessGroup()})
	closeAll(its)
	if err != nil {
		closeAll(mine)
		return nil, err
	}
	return &Worker{Process: p, In: mine[0], Out: mine[1], Err: mine[2]}, nil
}

// runtimeSettings are what a world wants of Go's runtime. It is thousands of goroutines, most of which need the same room:
// stacks that begin as large as the others have become are not copied to larger ones. And a traceback tells the process that
// a goroutine belongs to, so that one that holds time can be found.
const runtimeSettings = "adaptivestackstart=1,tracebacklabels=1"

// environment is what Go's runtime may be told from outside, and nothing else.
func environment() []string {
	debug := runtimeSettings
	if d := os.Getenv("GODEBUG"); d != "" {
		debug += "," + d
	}
	env := []string{"TZ=UTC", "GODEBUG=" + debug}
	for _, k := range []string{"GOMAXPROCS", "GOGC", "GOTRACEBACK", "GORACE", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}
