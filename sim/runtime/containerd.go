package runtime

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
	"ckadrill/sim/runtime/registry"
)

// Options say which containerd is installed on a machine. The zero value is the reference cluster's.
type Options struct {
	Version     string // "v2.4.1"
	RuncVersion string // "1.4.0"; its error texts differ before 1.2
	// Registries is what can be pulled; nil means [registry.Default].
	Registries *registry.Catalogue
	// RequestModule lets the kernel load a module, by an alias; nil means that it has what it needs.
	RequestModule func(alias string) error
}

// Containerd is the state of one machine's containerd, whether its daemon runs or not.
type Containerd struct {
	w       *kernel.World
	m       *machine.Machine
	host    *kernel.Host
	options Options
	ids     string // the name of the random stream

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*image // by id
	names      map[string]string // reserved names of sandboxes and containers -> id
	trees      map[string]*imageTree
	dev        *filesystem.Tree // sealed
	daemon     *daemon          // nil while it does not run
	shims      map[*daemon]bool // the cri-dockerds that run
	watchers   map[*eventWatcher]bool
	thawed     bool       // and not yet resumed
	cni        *frozenCNI // until its daemon is resumed
}

type attachKey struct{}

// New gives a machine its containerd, without images, and attaches it to the machine's host.
func New(m *machine.Machine, o Options) *Containerd {
	if o.Version == "" {
		o.Version = "v2.4.1"
	}
	if o.RuncVersion == "" {
		o.RuncVersion = "1.4.0"
	}
	if o.Registries == nil {
		o.Registries = registry.Default()
	}
	h := m.Host()
	c := &Containerd{
		w: h.World, m: m, host: h, options: o, ids: "containerd/" + h.Name(),
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, images: map[string]*image{}, names: map[string]string{},
		trees: map[string]*imageTree{}, watchers: map[*eventWatcher]bool{},
	}
	h.Attach(attachKey{}, c)
	h.World.Hold(c.ids, c)
	return c
}

// Of is the containerd of a machine, nil if it has none.
func Of(h *kernel.Host) *Containerd {
	c, _ := h.Attached(attachKey{}).(*Containerd)
	return c
}

// Version is the installed release.
func (c *Containerd) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options.Version
}

// network is the machine's own network namespace.
func (c *Containerd) network() *network.Namespace { return network.Of(c.host) }

// files is the machine's tree as root sees it.
func (c *Containerd) files() kernel.Files { return c.m.Files(kernel.Root) }

// newID draws an id as containerd does: 32 random bytes in hex.
func (c *Containerd) newID() string {
	var b [32]byte
	c.w.Random(c.ids).Read(b[:])
	return hex.EncodeToString(b[:])
}

// reserve takes a name for an id. The lock is held.
func (c *Containerd) reserve(name, id string) error {
	if by, ok := c.names[name]; ok && by != id {
		return fmt.Errorf("name %q is reserved for %q", name, by)
	}
	c.names[name] = id
	return nil
}

// sandboxByID finds a sandbox by its id or an unambiguous beginning of it. The lock is held.
func (c *Containerd) sandboxByID(id string) (*sandbox, error) {
	if s, ok := c.sandboxes[id]; ok {
		return s, nil
	}
	full, err := truncated(c.sandboxes, id)
	if err != nil {
		return nil, err
	}
	return c.sandboxes[full], nil
}

// containerByID finds a container by its id or an unambiguous beginning of it. The lock is held.
func (c *Containerd) containerByID(id string) (*container, error) {
	if s, ok := c.containers[id]; ok {
		return s, nil
	}
	full, err := truncated(c.containers, id)
	if err != nil {
		return nil, err
	}
	return c.containers[full], nil
}

func truncated[V any](m map[string]V, id string) (string, error) {
	found := ""
	for k := range m {
		if id != "" && strings.HasPrefix(k, id) {
			if found != "" {
				return "", fmt.Errorf("multiple IDs found with provided prefix: %s", id)
			}
			found = k
		}
	}
	if found == "" {
		return "", errdefs.ErrNotFound
	}
	return found, nil
}

// containersOf lists a sandbox's containers in order of their creation. The lock is held.
func (c *Containerd) containersOf(sandboxID string) (l []*container) {
	for _, k := range c.containers {
		if k.SandboxID == sandboxID {
			l = append(l, k)
		}
	}
	slices.SortFunc(l, func(a, b *container) int {
		if a.CreatedAt != b.CreatedAt {
			return int(min(1, max(-1, a.CreatedAt-b.CreatedAt)))
		}
		return strings.Compare(a.ID, b.ID)
	})
	return l
}
