package kubelet

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"ckadrill/sim/kernel"
)

// manifestMemory is what the source of static Pods knows: a manifest that has just gone bad, or is gone, counts until the
// directory is listed anew, or an event has been handled.
type manifestMemory struct {
	Dir    string
	Pods   [][]byte // JSON
	Keys   []manifestKey
	Listed time.Time
}

type manifestKey struct{ File, Key string }

// memory is the frozen form. All goroutines of the world are blocked.
func (m *manifests) memory() *manifestMemory {
	if m == nil {
		return nil
	}
	f := &manifestMemory{Dir: m.dir, Listed: m.listed}
	for file, key := range m.keys {
		f.Keys = append(f.Keys, manifestKey{file, key})
	}
	slices.SortFunc(f.Keys, func(a, b manifestKey) int { return cmp.Compare(a.File, b.File) })
	keys := m.store.ListKeys()
	slices.Sort(keys)
	for _, key := range keys {
		if o, ok, _ := m.store.GetByKey(key); ok {
			f.Pods = append(f.Pods, encodeObject(o))
		}
	}
	return f
}

// goOn lets the source of a resumed kubelet know what it knew, and says when the next listing is due.
func (m *manifests) goOn(period time.Duration) (next time.Duration, ok bool) {
	f := m.known
	if f == nil || f.Dir != m.dir || f.Listed.IsZero() {
		return 0, false
	}
	var pods []*v1.Pod
	for _, b := range f.Pods {
		p := &v1.Pod{}
		if json.Unmarshal(b, p) != nil {
			return 0, false
		}
		pods = append(pods, p)
	}
	for _, k := range f.Keys {
		m.keys[k.File] = k.Key
	}
	m.listed = f.Listed
	if m.replace(pods...) != nil {
		return 0, false
	}
	return max(time.Until(f.Listed.Add(period)), 1), true
}

// knownManifests is what a resumed kubelet's source knew.
func knownManifests(p *kernel.Process) *manifestMemory {
	s, ok := p.Host().Attached(stateKey{}).(*State)
	if !ok || !p.Resumed() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thawed == nil {
		return nil
	}
	return s.thawed.Manifests
}
