package worker

import (
	"os"
	"runtime"
)

// useProcessors lets Go run goroutines on at most n processors, 0 for all there are, unless the environment has said how
// many. What is built at a thaw gains from several. A world that lives does one thing after the other: a second processor
// makes it no faster, but costs a quarter of its time again for waking and for what was in the cache of the first.
func useProcessors(n int) {
	if os.Getenv("GOMAXPROCS") != "" || n <= 0 {
		return
	}
	runtime.GOMAXPROCS(n)
}
