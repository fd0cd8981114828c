package machine

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"ckadrill/sim/kernel"
)

// Swap is an active swap area, as /proc/swaps shows it.
type Swap struct {
	File     string
	Type     string // file or partition
	Size     int64  // bytes, without the first page
	Priority int
}

// NoPriority leaves an area's priority to the kernel: less than that of every other.
const NoPriority = -1

// firstSwapPriority is the greatest priority that the kernel gives out by itself.
const firstSwapPriority = -2

// A swap area's first page holds its header, which ends in a signature.
const (
	swapPage      = 4096
	SwapSignature = "SWAPSPACE2"
)

// Swaps lists the active swap areas.
func (m *Machine) Swaps() []Swap {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.swaps)
}

// IsSwap says whether a file has the signature of a swap area.
func IsSwap(files kernel.Files, name string) bool {
	f, err := files.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(SwapSignature))
	n, _ := f.ReadAt(b, swapPage-int64(len(b)))
	return n == len(b) && string(b) == SwapSignature
}

// SwapOn is swapon(2). The error is EINVAL for a file that is no swap area, EBUSY for one that is active.
func (m *Machine) SwapOn(file string, priority int) error {
	files := m.Files(kernel.Root)
	i, err := files.Stat(file)
	switch {
	case err != nil:
		return err
	case !i.Mode().IsRegular() || i.Mode()&fs.ModeDevice != 0 || !IsSwap(files, file):
		return syscall.EINVAL
	}
	if real, err := files.EvalSymlinks(file); err == nil {
		file = real
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.swaps, func(x Swap) bool { return x.File == file }) {
		return syscall.EBUSY
	}
	if priority < 0 {
		priority = firstSwapPriority
		for _, x := range m.swaps {
			priority = min(priority, x.Priority-1)
		}
	}
	m.swaps = append(m.swaps, Swap{File: file, Type: "file", Size: i.Size() - swapPage, Priority: priority})
	return nil
}

// SwapOff is swapoff(2). The error is EINVAL for an area that is not active.
func (m *Machine) SwapOff(file string) error {
	if real, err := m.Files(kernel.Root).EvalSymlinks(file); err == nil {
		file = real
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.swaps)
	m.swaps = slices.DeleteFunc(m.swaps, func(s Swap) bool { return s.File == file })
	if len(m.swaps) == n {
		return syscall.EINVAL
	}
	return nil
}

// swapOnBoot activates what /etc/fstab names, as systemd's units for it do.
func (m *Machine) swapOnBoot() {
	m.mu.Lock()
	m.swaps = nil
	m.mu.Unlock()
	for _, e := range Fstab(m.Files(kernel.Root)) {
		if _, no := e.Option("noauto"); e.Type == "swap" && !no {
			m.SwapOn(e.Spec, e.Priority())
		}
	}
}

// procSwaps is /proc/swaps, in the kernel's own columns.
func (m *Machine) procSwaps() string {
	s := "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for _, w := range m.Swaps() {
		kind := w.Type
		if kind == "file" {
			kind += "\t"
		}
		tab := ""
		if w.Size>>10 < 10000000 {
			tab = "\t"
		}
		s += fmt.Sprintf("%-40s%s\t%d\t%s0\t\t%d\n", w.File, kind, w.Size>>10, tab, w.Priority)
	}
	return s
}
