package worker

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
)

// outbox carries events to the front. Its writer lives outside of the bubble: the world never waits for the pipe, unless
// the front falls far behind.
type outbox struct {
	mu     outsideLock
	queue  []wire.Event
	bytes  int
	signal chan struct{} // made outside
	room   chan struct{} // made outside
	idle   chan struct{}
	conn   *wire.Conn
}

// maxQueued is how much output may wait for a slow front before its writer in the world has to wait too.
const maxQueued = 4 << 20

func newOutbox(c *wire.Conn) *outbox {
	o := &outbox{mu: newOutsideLock(), signal: make(chan struct{}, 1), room: make(chan struct{}, 1), conn: c}
	go o.drain()
	return o
}

func (o *outbox) drain() {
	for range o.signal {
		for {
			o.mu.Lock()
			q := o.queue
			o.queue, o.bytes = nil, 0
			idle := o.idle
			if len(q) == 0 {
				o.idle = nil
			}
			o.mu.Unlock()
			select {
			case o.room <- struct{}{}:
			default:
			}
			if len(q) == 0 {
				if idle != nil {
					close(idle)
				}
				break
			}
			for i := range q {
				if o.conn.Send(&q[i]) != nil {
					kernel.Exit(0) // the front is gone; whatever had finished is on its disk
				}
			}
		}
	}
}

func (o *outbox) send(e wire.Event) {
	o.mu.Lock()
	if n := len(o.queue); e.Output != nil && n > 0 {
		// join neighbours, so that a program that writes byte by byte does not cost a message each
		if last := o.queue[n-1].Output; last != nil && last.Run == e.Output.Run && last.FD == e.Output.FD && len(last.Data) < 32<<10 {
			last.Data = append(last.Data, e.Output.Data...)
			o.bytes += len(e.Output.Data)
			e.Output = nil
		}
	}
	if e != (wire.Event{}) {
		o.queue = append(o.queue, e)
		if e.Output != nil {
			o.bytes += len(e.Output.Data)
		}
	}
	full := o.bytes > maxQueued
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
	for full {
		<-o.room
		o.mu.Lock()
		full = o.bytes > maxQueued
		o.mu.Unlock()
	}
}

// flush waits until everything has been handed to the pipe. It is called outside of the bubble, or when the world ends.
func (o *outbox) flush(idle chan struct{}) {
	o.mu.Lock()
	o.idle = idle
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
	<-idle
}
