package machine

import (
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// Swap is an active swap area, as /proc/swaps shows it.
type Swap struct {
	File string
	Type string // file or partition
	Size int64  // bytes
}

// Swaps lists the active swap areas.
func (m *Machine) Swaps() []Swap {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.swaps)
}

// SwapOn activates a swap area.
func (m *Machine) SwapOn(s Swap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(m.swaps, func(x Swap) bool { return x.File == s.File }) {
		m.swaps = append(m.swaps, s)
	}
}

// SwapOff deactivates a swap area, or all of them for "".
func (m *Machine) SwapOff(file string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.swaps = slices.DeleteFunc(m.swaps, func(s Swap) bool { return file == "" || s.File == file })
}

// FstabSwaps are the swap areas that /etc/fstab names; each must exist as a file.
func (m *Machine) FstabSwaps() []Swap {
	files := m.Files(kernel.Root)
	b, err := files.ReadFile("/etc/fstab")
	if err != nil {
		return nil
	}
	var l []Swap
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") || f[2] != "swap" {
			continue
		}
		if i, err := files.Stat(f[0]); err == nil {
			l = append(l, Swap{File: f[0], Type: "file", Size: i.Size()})
		}
	}
	return l
}

func (m *Machine) swapOnBoot() {
	m.SwapOff("")
	for _, s := range m.FstabSwaps() {
		m.SwapOn(s)
	}
}
