package kernel

import (
	"time"
	_ "unsafe" // for go:linkname
)

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// WallSince is the host's time that has passed since an earlier [Wall], past the bubble. It is for pacing, the watchdog
// and benchmarks; no program of the world may ask for it.
func WallSince(start int64) time.Duration { return time.Duration(nanotime() - start) }

// Wall reads the host's monotonic clock in nanoseconds.
func Wall() int64 { return nanotime() }
