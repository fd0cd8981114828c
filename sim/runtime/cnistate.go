package runtime

import (
	"errors"

	"github.com/containernetworking/cni/libcni"

	"ckadrill/sim/kernel"
)

// frozenCNI is what a freeze keeps of the CNI configuration that containerd has loaded. The directory may have another one
// by now: a file that merely appears is not loaded, and nobody looks any more once the directory has been removed.
type frozenCNI struct {
	Networks []frozenNetwork
	Error    string // of the last load
	Watching bool
}

type frozenNetwork struct {
	Config []byte // JSON
	IfName string
}

func (n *cniPlugin) freeze(s *kernel.Snapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Put("cni", n.version, func() []byte {
		f := frozenCNI{Watching: n.watching}
		for _, l := range n.networks {
			f.Networks = append(f.Networks, frozenNetwork{l.config.Bytes, l.ifName})
		}
		if n.last != nil {
			f.Error = n.last.Error()
		}
		return encode(f)
	})
}

// thawedCNI is what was kept, nil if nothing was. It is given away once.
func (c *Containerd) thawedCNI() *frozenCNI {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.cni
	c.cni = nil
	return f
}

// recall goes on with what was kept.
func (n *cniPlugin) recall(f *frozenCNI) {
	n.watching, n.version = f.Watching, n.d.c.w.Version()
	if f.Error != "" {
		n.last = errors.New(f.Error)
	}
	for _, l := range f.Networks {
		if list, err := libcni.ConfListFromBytes(l.Config); err == nil {
			n.networks = append(n.networks, &cniNetwork{list, l.IfName})
		}
	}
}
