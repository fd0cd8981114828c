package kernel

import (
	"syscall"
	"time"
)

// processorTime is what this host process has used.
func processorTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, ended, system, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &ended, &system, &user) != nil {
		return 0
	}
	hundreds := func(f syscall.Filetime) int64 { return int64(f.HighDateTime)<<32 + int64(f.LowDateTime) }
	return time.Duration(100 * (hundreds(system) + hundreds(user)))
}
