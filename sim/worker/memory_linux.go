package worker

import "syscall"

// limitAddressSpace bounds what this process may map for itself: since Linux 4.7 that is what RLIMIT_DATA does. Where it
// fails there is still the warden.
func limitAddressSpace(bytes uint64) {
	syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes})
}
