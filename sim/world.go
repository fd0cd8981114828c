package sim

import (
	"fmt"
	"io"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/wire"
)

// Open implements the worker's World.
func (c *Cluster) Open(r *wire.Run, tty kernel.Terminal, stdin io.Reader, stdout, stderr io.Writer) (*kernel.Process, error) {
	return c.shells.open(r, tty, stdin, stdout, stderr)
}

// Await implements the worker's World.
func (c *Cluster) Await(r *wire.Run) <-chan struct{} { return c.shells.await(r) }

// Disconnected implements the worker's World.
func (c *Cluster) Disconnected(p *kernel.Process) (string, bool) {
	m := machine.Of(p.Host())
	if m == nil || m.PoweredOn() {
		return "", false
	}
	return m.Name(), true
}

// Handle registers an answer to queries of that name.
func (c *Cluster) Handle(name string, f func(payload []byte) ([]byte, error)) { c.queries[name] = f }

// Query implements the worker's World.
func (c *Cluster) Query(name string, payload []byte) ([]byte, error) {
	f, ok := c.queries[name]
	if !ok {
		return nil, fmt.Errorf("this world answers no query %q", name)
	}
	return f(payload)
}
