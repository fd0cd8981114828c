package sim

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/wire"
)

// Exec runs a bash script on a machine as a user, in a shell of its own, and waits for it at most timeout of simulated
// time. It returns the exit code and what was printed, both streams in their order, at most 16 MiB.
func (c *Cluster) Exec(machineName, user, script string, timeout time.Duration) (exit int, output []byte, err error) {
	m, err := c.Machine(machineName)
	if err != nil {
		return 1, nil, err
	}
	if !m.PoweredOn() {
		return 255, nil, fmt.Errorf("%s is switched off", machineName)
	}
	u, ok := m.LookupUser(user)
	if !ok {
		return 1, nil, fmt.Errorf("user %s does not exist on %s", user, machineName)
	}
	out := &limited{}
	p, err := m.Start(kernel.Spec{Argv: []string{"bash", "-c", script}, Env: loginEnvironment(u, &wire.Run{}), Dir: u.Home, Cred: u.Cred, Stdout: out, Stderr: out, Parent: m.Host().Processes.Find(1)})
	if err != nil {
		return 1, nil, err
	}
	var over atomic.Pointer[string]
	kernel.Limit{Simulated: timeout, Host: scriptPatience}.Watch(p, func(why string) {
		over.Store(&why)
		p.Signal(kernel.SIGKILL)
		p.Host().Processes.KillDescendants(p)
	})
	status := p.Wait()
	if why := over.Load(); why != nil {
		return status.ExitCode(), out.bytes(), fmt.Errorf("the script was stopped: %s", *why)
	}
	return status.ExitCode(), out.bytes(), nil
}

// scriptPatience is how long of the host's time a script may keep the simulation busy.
const scriptPatience = 5 * time.Minute

// limited keeps the first 16 MiB.
type limited struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const outputLimit = 16 << 20

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := outputLimit - l.b.Len(); room > 0 {
		l.b.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// Reboot reboots a machine and returns when it is up again.
func (c *Cluster) Reboot(name string) error {
	m, err := c.Machine(name)
	if err != nil {
		return err
	}
	boot := m.BootID()
	m.Reboot()
	deadline := time.Now().Add(10 * time.Minute)
	for m.BootID() == boot || !m.PoweredOn() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not come up again", name)
		}
		time.Sleep(time.Second)
	}
	return nil
}

// RestartUnit restarts a unit on a machine.
func (c *Cluster) RestartUnit(name, unit string) error {
	m, err := c.Machine(name)
	if err != nil {
		return err
	}
	return m.Systemd().Restart(systemd.Canonical(unit))
}
