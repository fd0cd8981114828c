package kubelet

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sort"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"ckadrill/sim/kernel"
)

// seen is what a kubelet has seen of the API: its Node, and the Pods that are assigned to it. A kubelet that goes on after a
// thaw knows them, as it did before, even while the API is down; without them upstream would not remove any Pod, not even
// a static one, since the API might still tell of it.
type seen struct {
	updates chan<- any  // of the Pod source
	node    cache.Store // of the Node's informer

	mu   sync.Mutex
	all  bool // the Pods have been listed
	pods []*v1.Pod
	// frozen are the parts of a thawed state whose kubelet has not gone on yet.
	frozen kernel.Parts
}

// Names of the parts.
const (
	seenAll  = "seen"
	seenNode = "seen-node"
	seenPod  = "seen-pod/"
)

func (s *seen) setPods(l []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.pods = true, l
}

func (s *seen) freeze(snap *kernel.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, b := range s.frozen {
		snap.Put(n, 1, func() []byte { return b })
	}
	if s.node != nil {
		for _, o := range s.node.List() {
			n := o.(*v1.Node)
			snap.Put(seenNode, stamp(string(n.UID), n.ResourceVersion), func() []byte { return encodeObject(n) })
		}
	}
	if !s.all {
		return
	}
	snap.Put(seenAll, 1, func() []byte { return []byte("yes") })
	for _, p := range s.pods {
		snap.Put(seenPod+string(p.UID), stamp(string(p.UID), p.ResourceVersion), func() []byte { return encodeObject(p) })
	}
}

// stamp is a part's version: equal objects have equal ones.
func stamp(uid, version string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(uid + "/" + version))
	return max(h.Sum64(), 1)
}

func encodeObject(o any) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // only a type that JSON cannot encode
	}
	return b
}

func (s *seen) thaw(parts kernel.Parts) error {
	s.frozen = kernel.Parts{}
	for n, b := range parts {
		if strings.HasPrefix(n, seenAll) {
			s.frozen[n] = b
		}
	}
	_, _, err := s.decode()
	return err
}

// decode reads the frozen objects.
func (s *seen) decode() (node *v1.Node, pods []*v1.Pod, err error) {
	for n, b := range s.frozen {
		switch {
		case n == seenNode:
			node = &v1.Node{}
			err = json.Unmarshal(b, node)
		case strings.HasPrefix(n, seenPod):
			p := &v1.Pod{}
			err = json.Unmarshal(b, p)
			pods = append(pods, p)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n, err)
		}
	}
	sort.Slice(pods, func(i, j int) bool { return pods[i].UID < pods[j].UID })
	return node, pods, nil
}

// restore lets a kubelet that goes on know what it had seen. What the API then tells replaces it.
func (s *seen) restore(p *kernel.Process, from *seen) {
	node, pods, err := from.decode()
	if err != nil {
		return // it was decoded once before
	}
	if node != nil && s.node != nil && len(s.node.List()) == 0 {
		s.node.Add(node)
	}
	if _, ok := from.frozen[seenAll]; !ok || s.updates == nil {
		return
	}
	s.mu.Lock()
	listed := s.all
	s.mu.Unlock()
	if listed {
		return // the API was faster
	}
	s.setPods(pods)
	select {
	case s.updates <- kubetypes.PodUpdate{Pods: pods, Op: kubetypes.SET, Source: kubetypes.ApiserverSource}:
	case <-p.Done():
	}
}
