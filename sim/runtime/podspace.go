package runtime

import (
	"sort"

	"ckadrill/sim/kernel"
)

// PodSpace is a running Pod as seen from inside: where an attempt to reach something from it starts.
type PodSpace struct {
	Namespace, Name string
	Labels          map[string]string
	Hostname        string
	Network         kernel.Network
	// Files is the tree of its first running container, nil if none runs.
	Files kernel.Files
}

// PodSpaces lists the Pods whose sandbox is ready, by namespace and name.
func (c *Containerd) PodSpaces() []PodSpace {
	c.mu.Lock()
	defer c.mu.Unlock()
	var l []PodSpace
	for _, b := range c.sandboxes {
		if !b.Ready || b.NetNSClosed {
			continue
		}
		n := c.sandboxNetwork(b)
		if n == nil {
			continue
		}
		s := PodSpace{Namespace: b.Config.GetMetadata().GetNamespace(), Name: b.Config.GetMetadata().GetName(), Labels: b.Config.GetLabels(), Hostname: c.sandboxHostname(b), Network: n}
		for _, k := range c.containersOf(b.ID) {
			if k.proc != nil && k.proc.Alive() {
				s.Files = k.proc.Files
				break
			}
		}
		l = append(l, s)
	}
	sort.Slice(l, func(i, j int) bool {
		if l[i].Namespace != l[j].Namespace {
			return l[i].Namespace < l[j].Namespace
		}
		return l[i].Name < l[j].Name
	})
	return l
}
