package terminal

import (
	"io"
	"sync"

	"ckadrill/sim/front"
	"ckadrill/sim/wire"
)

// Batch is a run without a user: what it prints goes to two writers, and nobody answers it. It implements
// [front.Handler].
type Batch struct {
	Stdout, Stderr io.Writer
	// Limit ends the run, by Stop, when it has printed more bytes than this; 0 is no limit.
	Limit int64
	Stop  func()

	mu      sync.Mutex
	printed int64
	output  []byte
	stopped bool
}

// Output implements [front.Handler].
func (b *Batch) Output(fd int, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	b.printed += int64(len(data))
	if b.Limit > 0 && b.printed > b.Limit {
		b.stopped = true
		if b.Stop != nil {
			go b.Stop()
		}
		return
	}
	if room := recorded - len(b.output); room > 0 {
		b.output = append(b.output, data[:min(len(data), room)]...)
	}
	w := b.Stdout
	if fd == 2 && b.Stderr != nil {
		w = b.Stderr
	}
	if w != nil {
		w.Write(data)
	}
}

// Ask implements [front.Handler].
func (b *Batch) Ask(*front.Worker, *wire.Ask) wire.Answer { return wire.Answer{End: true} }

// Text is the beginning of what was printed, both streams in their order.
func (b *Batch) Text() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output
}

// Overflowed says that the run was stopped because it printed too much.
func (b *Batch) Overflowed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}
