package machine

import (
	"fmt"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// generation counts the changes of what a fresh machine has on its disk.
const generation = 1

type frozen struct {
	// Generation is that of the machine's disk.
	Generation int

	On       bool
	BootID   string
	BootedAt time.Time
	HostName string
	NextPID  int
	Options  Options
	Swaps    []Swap
	Plan     *plan
}

// Freeze implements [kernel.Holder].
func (m *Machine) Freeze(s *kernel.Snapshot) {
	m.mu.Lock()
	f := frozen{m.generation, m.on, m.bootID, m.bootedAt, m.host.Name(), m.host.Processes.Next(), m.options, m.swaps, m.plan}
	m.mu.Unlock()
	s.Put("state", 0, func() []byte {
		b, err := kernel.Encode(f)
		if err != nil {
			panic(err)
		}
		return b
	})
	m.root.Freeze(s, "root/")
	m.run.Freeze(s, "run/")
}

// Thaw implements [kernel.Holder].
func (m *Machine) Thaw(parts kernel.Parts) error {
	var f frozen
	if err := kernel.Decode(parts["state"], &f); err != nil {
		return fmt.Errorf("machine %s: %w", m.name, err)
	}
	root, run := kernel.Parts{}, kernel.Parts{}
	for n, b := range parts {
		if r, ok := strings.CutPrefix(n, "root/"); ok {
			root[r] = b
		} else if r, ok := strings.CutPrefix(n, "run/"); ok {
			run[r] = b
		}
	}
	m.mu.Lock()
	m.generation, m.on, m.bootID, m.bootedAt, m.options, m.swaps, m.plan = f.Generation, f.On, f.BootID, f.BootedAt, f.Options, f.Swaps, f.Plan
	m.mu.Unlock()
	m.host.SetName(f.HostName)
	m.host.Processes.SetNext(f.NextPID)
	if err := m.root.Thaw(root, ""); err != nil {
		return err
	}
	return m.run.Thaw(run, "")
}

// Complete adds to the disk of a thawed machine what has come to a fresh one's since the state was frozen, and says whether
// there was anything.
func (m *Machine) Complete() (bool, error) {
	m.mu.Lock()
	old := m.generation
	m.generation = generation
	m.mu.Unlock()
	if old == generation {
		return false, nil
	}
	return true, m.install()
}
