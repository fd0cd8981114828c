package machine

import (
	"fmt"
	"time"

	"ckadrill/sim/kernel"
)

// cpuTime holds the processor time that a machine has used since its boot. Statistics count it up, and must not go back.
type cpuTime struct{ h *kernel.Host }

const cpuTimePart = "used"

// Freeze implements kernel.Holder.
func (c cpuTime) Freeze(s *kernel.Snapshot) {
	s.Put(cpuTimePart, 0, func() []byte { return fmt.Append(nil, int64(c.h.CPU())) })
}

// Thaw implements kernel.Holder.
func (c cpuTime) Thaw(parts kernel.Parts) error {
	b, ok := parts[cpuTimePart]
	if !ok {
		return nil
	}
	var n int64
	if _, err := fmt.Sscan(string(b), &n); err != nil {
		return err
	}
	c.h.SetCPU(time.Duration(n))
	return nil
}
