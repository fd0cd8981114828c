package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckadrill/sim"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
	"ckadrill/sim/worker"
)

// The workers of this test binary can be measured from outside: they answer two queries more, and profile themselves when
// the environment of the test names a file.

const (
	queryUsage = "test/usage"
	// optionCPUProfile and optionHeapProfile are options of a boot: files for pprof's profiles, whose names end in the
	// worker's process id.
	optionCPUProfile  = "test/cpuprofile"
	optionHeapProfile = "test/heapprofile"
	// queryProfile ends the CPU profile and writes that of the heap.
	queryProfile = "test/profile"
)

// usage is what a worker has used since it began.
type usage struct {
	CPU        time.Duration // of user and system
	Anonymous  int64         // resident memory that is not the binary, in bytes
	Heap       int64         // in bytes, after a collection, if one was asked for
	Goroutines int
}

func prepareMeasured(b *wire.Boot) error {
	if name := b.Options[optionCPUProfile]; name != "" {
		f, err := os.Create(fmt.Sprintf("%s.%d", name, os.Getpid()))
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	return prepare(b)
}

func assembleMeasured(w *kernel.World, b *wire.Boot, thawed func()) (worker.World, error) {
	x, err := assemble(w, b, thawed)
	if err != nil {
		return nil, err
	}
	c := x.(*sim.Cluster)
	if b.Options[optionFaults] != "" {
		if err := injectFaults(w, c, b.Reseed); err != nil {
			return nil, err
		}
	}
	c.Handle(queryUsage, func(payload []byte) ([]byte, error) {
		u := usage{CPU: cpu(syscall.RUSAGE_SELF), Goroutines: runtime.NumGoroutine()}
		if string(payload) == "gc" {
			var ms runtime.MemStats
			for range 3 { // what a finalizer held goes with the next collection
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			runtime.ReadMemStats(&ms)
			u.Heap = int64(ms.HeapAlloc)
		}
		var err error
		u.Anonymous, err = anonymousMemory()
		if err != nil {
			return nil, err
		}
		return kernel.Encode(u)
	})
	c.Handle(queryProfile, func([]byte) ([]byte, error) {
		pprof.StopCPUProfile()
		if name := b.Options[optionHeapProfile]; name != "" {
			f, err := os.Create(fmt.Sprintf("%s.%d", name, os.Getpid()))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			runtime.GC()
			return nil, pprof.WriteHeapProfile(f)
		}
		return nil, nil
	})
	return c, nil
}

// cpu is what this process (syscall.RUSAGE_SELF), or those that it has waited for (syscall.RUSAGE_CHILDREN), have used.
func cpu(who int) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func anonymousMemory() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for _, l := range strings.Split(string(b), "\n") {
		var kib int64
		if n, _ := fmt.Sscanf(l, "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/self/status tells no RssAnon")
}

// used asks a worker for its usage; with gc it collects its garbage before.
func used(t testing.TB, w *front.Worker, gc bool) usage {
	t.Helper()
	var payload []byte
	if gc {
		payload = []byte("gc")
	}
	b, err := w.Query(queryUsage, payload)
	if err != nil {
		t.Fatal(err)
	}
	var u usage
	if err := kernel.Decode(b, &u); err != nil {
		t.Fatal(err)
	}
	return u
}
