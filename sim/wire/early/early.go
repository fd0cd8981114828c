// Package early does what gains by being done before all other packages of the program are initialised. Both processes
// of a world, the front and its worker, are this one program, whose packages take a tenth of a second to initialise. So
// the front starts its first worker before that, and the two initialise side by side; and no collections are made of what
// is allocated meanwhile, nearly all of which stays.
//
// Among the packages that are ready to be initialised Go takes the first by its path, and this one needs little: it comes
// before all that are not of the standard library.
package early

import (
	"os"
	"runtime/debug"
)

// WorkerArgument makes this program a worker when it is its only argument.
const WorkerArgument = "ckadrill-worker"

// IsWorker says whether this process was started as a worker.
func IsWorker() bool { return len(os.Args) == 2 && os.Args[1] == WorkerArgument }

// wantsWorker says whether this is the front of a command that starts a worker at once.
func wantsWorker() bool {
	if len(os.Args) < 2 {
		return false
	}
	switch os.Args[1] {
	case "shell", "drill", "resume":
		return true
	}
	return false
}

var (
	first   *Worker
	percent = -1
)

func init() {
	switch {
	case IsWorker():
		useHugePages()
	case wantsWorker():
		// If it fails, it fails again where the error can be told.
		first, _ = start()
	default:
		return
	}
	percent = debug.SetGCPercent(-1)
}

// Over ends the time before main: collections are made from now on.
func Over() {
	if percent > 0 {
		debug.SetGCPercent(percent)
		percent = -1
	}
}
