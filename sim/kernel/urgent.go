package kernel

import "sync"

// Urgent calls functions in the bubble at once, also while a goroutine of the world computes and so holds both time and the
// gate: how else could such a program be interrupted?
//
// A goroutine of the bubble waits for the next call on a mutex. Such a wait counts as idle (see idle.go), so that time runs
// on meanwhile, and unlike a channel of the bubble a mutex may be unlocked from outside.
type Urgent struct {
	mu    sync.Mutex
	queue []func()
	door  *sync.Mutex // locked until there is something to call
}

// NewUrgent makes one. It is called outside of the bubble.
func NewUrgent() *Urgent { return &Urgent{door: closedDoor()} }

func closedDoor() *sync.Mutex {
	m := new(sync.Mutex)
	m.Lock()
	return m
}

// Do has f called in the bubble, in a goroutine of its own that belongs to no process. It is called from outside.
func (u *Urgent) Do(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queue = append(u.queue, f)
	open := u.door
	u.door = closedDoor()
	open.Unlock()
}

// Serve begins to call what comes in. It is called inside the bubble.
func (u *Urgent) Serve() {
	Outside(func() {
		for {
			u.mu.Lock()
			door := u.door
			u.mu.Unlock()
			if !u.take() {
				door.Lock()
			}
		}
	})
}

// take calls what is queued and reports whether there was anything.
func (u *Urgent) take() bool {
	u.mu.Lock()
	q := u.queue
	u.queue = nil
	u.mu.Unlock()
	for _, f := range q {
		go f()
	}
	return len(q) > 0
}
