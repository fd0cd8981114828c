package kernel

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// Run makes this host process the home of one world: f runs in a synctest bubble, whose clock shows date, and the host
// process exits with f's result. In the bubble time stands still while any goroutine can run, and jumps to the next timer
// when all are blocked.
//
// synctest is made for tests, so package testing is the door: its Main is the only exported way to a *testing.T outside
// "go test". It parses os.Args, which is why they are cut, and it never returns, since upstream's goroutines cannot be
// ended one by one, as a bubble that ends would demand.
func Run(seed uint64, date time.Time, f func(w *World) int) {
	if err := mutexWaitsAreIdle(); err != nil {
		fmt.Fprintln(os.Stderr, "ckadrill:", err)
		os.Exit(3)
	}
	// os/signal's goroutine must be born outside of the bubble: one born inside would hold time.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	forbidSockets()
	testing.Init()
	os.Args = os.Args[:1]
	body := func(t *testing.T) {
		defer func() {
			if e := recover(); e != nil {
				fmt.Fprintf(os.Stderr, "ckadrill: the world panicked: %v\n%s\n%s", e, debug.Stack(), Stacks())
				Exit(4)
			}
		}()
		synctest.Test(t, func(*testing.T) {
			if err := proveMutexWaitsAreIdle(); err != nil {
				fmt.Fprintln(os.Stderr, "ckadrill:", err)
				os.Exit(3)
			}
			time.Sleep(time.Until(date)) // a bubble starts in the year 2000
			// Something always waits for time to pass. Without it, a goroutine that for an instant waits for a lock of the Go library
			// which one outside of the bubble holds would be the end of the world: "all goroutines in bubble are blocked".
			go func() {
				for {
					time.Sleep(heartbeat)
				}
			}()
			w := NewWorld(seed)
			tame(w)
			code := f(w)
			Exit(code)
		})
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "world", F: body}}, nil, nil)
}

const heartbeat = time.Second

// Settle waits until every other goroutine of the bubble is blocked, without letting time pass.
func Settle() { synctest.Wait() }
