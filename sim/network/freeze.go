package network

import (
	"fmt"
	"strings"

	"ckadrill/sim/kernel"
)

// frozenSpace is a namespace in a freeze.
type frozenSpace struct {
	Data  spaceData
	Links []Link
	Up    bool
}

// Freeze implements [kernel.Holder]. Each namespace is a part, and so are each machine's service rules.
func (f *Fabric) Freeze(s *kernel.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range sortedKeys(f.spaces) {
		n := f.spaces[name]
		if n.gateway || n.outside {
			continue
		}
		s.Put("space/"+name, n.version, func() []byte {
			z := frozenSpace{Data: n.spaceData, Up: n.up}
			for _, l := range n.order {
				z.Links = append(z.Links, *n.links[l])
			}
			return encode(z)
		})
		if len(n.services.Ports) > 0 || n.services.ClusterCIDR.IsValid() {
			s.Put("services/"+name, n.services.version, func() []byte { return encode(n.services.Services) })
		}
	}
}

func encode(v any) []byte {
	b, err := kernel.Encode(v)
	if err != nil {
		panic(err) // only a type that gob cannot encode
	}
	return b
}

// Thaw implements [kernel.Holder]. Machines that were added before keep their identity and take over the frozen state.
func (f *Fabric) Thaw(parts kernel.Parts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range sortedKeys(parts) {
		name, ok := strings.CutPrefix(part, "space/")
		if !ok {
			continue
		}
		var z frozenSpace
		if err := kernel.Decode(parts[part], &z); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		n := f.spaces[name]
		if n == nil {
			n = f.newNamespace(z.Data.Machine, z.Data.Handle)
		}
		n.clear()
		empty := n.spaceData
		n.spaceData, n.up = z.Data, z.Up
		// gob leaves empty maps out.
		if n.Filters == nil {
			n.Filters = empty.Filters
		}
		if n.Masquerades == nil {
			n.Masquerades = empty.Masquerades
		}
		if n.HostPorts == nil {
			n.HostPorts = empty.HostPorts
		}
		for _, l := range z.Links {
			n.links[l.Name] = l.clone()
		}
		n.reindex()
		n.version = f.w.Version()
		if b, ok := parts["services/"+name]; ok {
			var s Services
			if err := kernel.Decode(b, &s); err != nil {
				return fmt.Errorf("services/%s: %w", name, err)
			}
			n.services.set(&s)
		}
	}
	f.lan = nil
	for _, n := range f.spaces {
		n.ports = nil
	}
	return nil
}
