package kubelet

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"ckadrill/sim/kernel"
)

// hush is the silence of a kubelet that goes on after a thaw: what its start, and its first look at the Pods that it knew,
// would announce has been announced. It covers everything until the world's date; then, for no longer than
// settleAfterThaw, each Pod that the kubelet knew until that Pod has been synced. A Pod that comes later is heard.
// The nil hush covers nothing.
type hush struct {
	p       *kernel.Process
	mu      sync.Mutex
	over    bool
	pending map[types.UID]string // by Pod whose first sync is not over: its name, as lines of the log give it
}

type hushKey struct{}

// newHush silences a process that is resumed.
func newHush(p *kernel.Process) *hush {
	h := &hush{p: p, pending: map[types.UID]string{}}
	p.SetValue(hushKey{}, h)
	p.SetLogFilter(func(line []byte) bool { return !h.coversLine(line) })
	go func() {
		p.AwaitDate()
		p.Sleep(settleAfterThaw)
		h.end()
	}()
	return h
}

func hushOf(p *kernel.Process) *hush {
	h, _ := p.Value(hushKey{}).(*hush)
	return h
}

// waking says whether everything is covered.
func (h *hush) waking() bool { return !h.over && h.p.World().Warming() }

// end ends the silence.
func (h *hush) end() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.pending = true, nil
}

// knew notes that a Pod waits for its first sync, if it was known before the world was frozen: then its worker asks for
// it before the date.
func (h *hush) knew(pod *v1.Pod) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waking() {
		h.pending[pod.UID] = strconv.Quote(pod.Namespace + "/" + pod.Name)
	}
}

// relistReaction is more than what a relist's sync takes.
const relistReaction = 100 * time.Millisecond

// synced ends the silence about a Pod, a relist later: the first one finds all containers new, and may cause a second sync.
func (h *hush) synced(uid types.UID) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending[uid] != "" {
		go func() {
			h.p.Sleep(genericPlegRelistPeriod + relistReaction)
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.pending, uid)
		}()
	}
}

// silent says whether everything is covered.
func (h *hush) silent() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waking()
}

// settling says whether the first sync of a Pod that was known is not over.
func (h *hush) settling(uid types.UID) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pending[uid] != ""
}

// coversLine says whether a line of the log is to be kept back: one about a Pod gives its UID or its name.
func (h *hush) coversLine(line []byte) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waking() {
		return true
	}
	for uid, name := range h.pending {
		if bytes.Contains(line, []byte(uid)) || bytes.Contains(line, []byte(name)) {
			return true
		}
	}
	return false
}
