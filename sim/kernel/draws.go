package kernel

import (
	"hash/fnv"
	"math/rand"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// Upstream draws its jitter and its choices from the global generator of math/rand, which can no longer be seeded. It is
// replaced by one without a stream: a draw depends on the world's seed, the process that draws and the simulated time, so
// that neither which of two processes comes first in an instant changes it, nor that the world was thawed before.

//go:linkname globalRandGenerator math/rand.globalRandGenerator
var globalRandGenerator atomic.Pointer[rand.Rand]

// grain is an instant of the draws. Events that would have the same name are microseconds apart, in the order in which
// goroutines happen to run.
const grain = time.Millisecond

// draws is a rand.Source64.
type draws struct {
	seed uint64
	mu   sync.Mutex
	at   int64             // the instant that counts is about
	n    map[uint64]uint64 // how often each process has drawn in this instant
}

// drawFrom makes upstream's draws depend on a seed.
func drawFrom(seed uint64) {
	globalRandGenerator.Store(rand.New(&draws{seed: seed, n: map[uint64]uint64{}}))
}

// Seed does nothing: no part of upstream may seed the world.
func (d *draws) Seed(int64) {}

func (d *draws) Int63() int64 { return int64(d.Uint64() >> 1) }

func (d *draws) Uint64() uint64 {
	who := drawer()
	now := time.Now().UnixNano() / int64(grain)
	count := uint64(0)
	if !jitters() {
		count = d.count(who, now)
	}
	return mix(mix(mix(d.seed^who)^uint64(now)) ^ count)
}

// count numbers the draws of a process in one instant: what draws a name or an order draws many times.
func (d *draws) count(who uint64, now int64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != now {
		d.at = now
		clear(d.n)
	}
	d.n[who]++
	return d.n[who]
}

// drawer tells the calling goroutine's process from others.
func drawer() uint64 {
	p := Current()
	if p == nil || p == gone {
		return 0
	}
	h := fnv.New64a()
	if p.host != nil {
		h.Write([]byte(p.host.Name()))
	}
	h.Write([]byte{0})
	if len(p.Argv) > 0 {
		h.Write([]byte(p.Argv[0]))
	}
	h.Write([]byte(strconv.Itoa(p.pid)))
	return h.Sum64()
}

const jitterFunction = "k8s.io/apimachinery/pkg/util/wait.Jitter"

// jitters says whether wait.Jitter draws, which draws once. Goroutines of a process that draw a jitter in the same instant
// all get the same: which of them came first must not matter.
func jitters() bool {
	var pcs [6]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	for {
		f, more := frames.Next()
		if f.Function == jitterFunction {
			return true
		}
		if !more {
			return false
		}
	}
}

// mix is the finalizer of SplitMix64, a bijection that changes half of the bits when one changes.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
