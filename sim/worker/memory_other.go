//go:build !linux

package worker

// limitAddressSpace does nothing here: only the warden watches.
func limitAddressSpace(uint64) {}
