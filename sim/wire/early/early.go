// Package early does what gains by being done before all other packages of the program are initialised. Both processes
// of a world, the front and its worker, are this one program, whose packages take a tenth of a second to initialise. So
// the front starts its first worker before that, and the two initialise side by side; and few collections are made of
// what is allocated meanwhile, and by a worker until its world is there: nearly all of it stays.
//
// Among the packages that are ready to be initialised Go takes the first by its path, and this one needs little: it comes
// before all that are not of the standard library.
package early

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
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
	case "shell", "drill", "resume", "serve":
		return true
	}
	return false
}

var (
	first *Worker

	over    sync.Mutex
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
	percent = debug.SetGCPercent(firstCollection / minHeap * 100)
	runtime.AddCleanup(new([16]byte), func(int) { Over() }, 0)
}

// The first collection is made when the heap has grown to firstCollection bytes, should it come so far before [Over]: Go
// scales what it begins with, which is minHeap. An embedded cluster comes to twice as much; to put it off until then would
// cost as much memory again.
const (
	firstCollection = 64 << 20
	minHeap         = 4 << 20
)

// Over ends the time before main: collections are made from now on as the environment says. It is over at the latest with the
// first collection.
func Over() {
	over.Lock()
	defer over.Unlock()
	if percent > 0 {
		debug.SetGCPercent(percent)
		percent = -1
	}
}
