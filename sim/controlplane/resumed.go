package controlplane

import (
	"bytes"
	"time"

	"ckadrill/sim/kernel"
)

// quietAfterThaw is how long a process that carries on after a thaw says nothing: in that time it does again what the real
// one had done long ago.
const quietAfterThaw = 5 * time.Second

// muteResumed drops the log lines of a resumed process's start, but for fatal ones.
func muteResumed(p *kernel.Process) {
	if !p.Resumed() {
		return
	}
	until := time.Now().Add(quietAfterThaw)
	p.SetLogFilter(func(line []byte) bool {
		return bytes.HasPrefix(line, []byte("F")) || time.Now().After(until)
	})
}
