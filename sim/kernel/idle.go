package kernel

import (
	"fmt"
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

// A goroutine of a bubble that waits for a mutex holds time. Upstream holds mutexes across timed waits (client-go's
// restmapper and discovery under their own rate limiter, event broadcasters while the API is slow): whoever then waits
// for that mutex would freeze the world for ever. The runtime keeps a table of the waits that count as idle; adding the
// three mutex waits to it cures all of them. It needs -ldflags=-checklinkname=0.
//
//go:linkname idleInSynctest runtime.isIdleInSynctest
var idleInSynctest [25]bool

//go:linkname waitReasonStrings runtime.waitReasonStrings
var waitReasonStrings [25]string

func mutexWaitsAreIdle() error {
	found := 0
	for i, s := range waitReasonStrings {
		switch s {
		case "sync.Mutex.Lock", "sync.RWMutex.RLock", "sync.RWMutex.Lock":
			idleInSynctest[i] = true
			found++
		}
	}
	if found != 3 {
		return fmt.Errorf("this Go release names its mutex waits otherwise: %q", waitReasonStrings)
	}
	return nil
}

// proveMutexWaitsAreIdle waits in simulated time for a mutex that a timer unlocks. Without the cure it never returns,
// so the watchdog that was armed before must see it.
func proveMutexWaitsAreIdle() error {
	var mu sync.Mutex
	start := time.Now()
	mu.Lock()
	time.AfterFunc(time.Second, mu.Unlock)
	mu.Lock()
	if d := time.Since(start); d != time.Second {
		return fmt.Errorf("a mutex held for 1s of simulated time was waited for %v", d)
	}
	return nil
}
