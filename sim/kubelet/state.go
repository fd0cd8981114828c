package kubelet

import (
	"errors"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// State is what a machine's kubelet keeps in memory that must survive a freeze: back-offs, probe results, which Pods are at
// rest until when, what it has told of the runtime and to the API, and what it has seen of the API, which nobody else can tell
// when the API is down. It is the holder "kubelet/<machine>". A kubelet that ends takes its state with it, as the real one
// does; only a thaw gives it back.
//
// Not kept: how many times in a row a probe has already failed. Its worker counts anew after a thaw.
type State struct {
	mu     sync.Mutex
	live   *node
	thawed *memory
	// frozen is what the kubelet had seen, while none has gone on from it.
	frozen *seen
	// held are the frozen statuses until then.
	held kernel.Parts
	// events are what the running kubelet has recorded.
	events *apiclient.EventMemory
	// recorder is the process whose events these are.
	recorder *kernel.Process
}

// memory is the frozen form.
type memory struct {
	Crash, Pull                  []backOff
	Liveness, Readiness, Startup []probeResult
	Resting                      []restingPod
	Manifests                    *manifestMemory
	Told                         []*kubecontainer.Pod // by the PLEG
	Relisted, SyncLoop           time.Time            // when the PLEG turned last, and when the sync loop started
	LastReport                   time.Time            // of the Node's status
	Reasons                      []waitingReason
	Unregistered                 bool // the kubelet has not registered its Node yet
	// Delay is upstream's delayAfterNodeStatusChange, drawn after the last change.
	Delay    time.Duration
	Pressure []pressure
	// Serving is the request for a serving certificate that waits to be approved.
	Serving *servingRequest
}

type backOff struct {
	Key     string
	Backoff time.Duration
	Updated time.Time
}

// waitingReason is why a container does not start, of which upstream's status tells.
type waitingReason struct{ UID, Container, Reason, Message string }

type probeResult struct {
	Container string
	Result    int
}

type stateKey struct{}

// Install gives a machine the memory of its kubelet. It is called when the machine is made, before any thaw.
func Install(h *kernel.Host) *State {
	s := &State{}
	h.Attach(stateKey{}, s)
	h.World.Hold("kubelet/"+h.Name(), s)
	return s
}

// Freeze implements [kernel.Holder].
func (s *State) Freeze(snap *kernel.Snapshot) {
	snap.Put("memory", 0, func() []byte {
		s.mu.Lock()
		defer s.mu.Unlock()
		var m memory
		switch {
		case s.live != nil && s.live.p.Alive():
			m = s.live.memory()
		case s.thawed != nil:
			m = *s.thawed
		}
		b, err := kernel.Encode(m)
		if err != nil {
			panic(err) // only a type that gob can not encode
		}
		return b
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != nil {
		snap.Put("events", 0, s.events.Freeze)
	}
	switch {
	case s.live != nil && s.live.p.Alive():
		s.live.seen.freeze(snap)
		s.live.freezeStatuses(snap)
	case s.frozen != nil:
		s.frozen.freeze(snap)
		for name, b := range s.held {
			snap.Put(name, 1, func() []byte { return b })
		}
	}
}

// Thaw implements [kernel.Holder].
func (s *State) Thaw(parts kernel.Parts) error {
	b, ok := parts["memory"]
	if !ok {
		return nil
	}
	m := &memory{}
	if err := kernel.Decode(b, m); err != nil {
		return err
	}
	events := &apiclient.EventMemory{}
	if b, ok := parts["events"]; ok {
		if err := events.Thaw(b); err != nil {
			return err
		}
	}
	f := &seen{}
	if err := f.thaw(parts); err != nil {
		return err
	}
	if _, err := decodeStatuses(parts); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thawed, s.frozen, s.events, s.held = m, f, events, kernel.Parts{}
	for name, b := range parts {
		if strings.HasPrefix(name, statusPart) {
			s.held[name] = b
		}
	}
	return nil
}

// recorded is the memory of what a kubelet records; one that is not resumed begins without.
func recorded(p *kernel.Process) *apiclient.EventMemory {
	s, ok := p.Host().Attached(stateKey{}).(*State)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recorder != p {
		s.recorder = p
		if s.events == nil || !p.Resumed() {
			s.events = &apiclient.EventMemory{}
		}
	}
	return s.events
}

// recall makes the node its machine's, and gives a resumed one back what it knew.
func (n *node) recall() {
	s, ok := n.p.Host().Attached(stateKey{}).(*State)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = n
	m, f, held := s.thawed, s.frozen, s.held
	s.thawed, s.frozen, s.held = nil, nil, nil
	if m == nil || !n.p.Resumed() {
		return
	}
	setBackOffs(n.crash, m.Crash)
	setBackOffs(n.pull, m.Pull)
	setResults(n.liveness, m.Liveness)
	setResults(n.readiness, m.Readiness)
	setResults(n.startup, m.Startup)
	// Containers that run already count as older than this kubelet, so that upstream's probe workers do not begin with
	// "not ready". Upstream allows the start ten seconds of grace.
	setField(n.probes, "start", time.Now().Add(10*time.Second))
	if l, err := decodeStatuses(held); err == nil {
		n.restoreStatuses(l)
	}
	n.before = m
	n.rest.set(m.Resting)
	setField(n.kl, "lastStatusReportTime", m.LastReport)
	setField(n.kl, "delayAfterNodeStatusChange", m.Delay)
	n.registered = !m.Unregistered
	n.eviction.setPressures(m.Pressure)
	reasons := getField(n.kl, "reasonCache").(*kubelet.ReasonCache)
	for _, r := range m.Reasons {
		var result kubecontainer.PodSyncResult
		result.AddSyncResult(&kubecontainer.SyncResult{Action: kubecontainer.StartContainer, Target: r.Container, Error: errors.New(r.Reason), Message: r.Message})
		reasons.Update(types.UID(r.UID), result)
	}
	n.seen.restore(n.p, f)
}

func (n *node) memory() memory {
	m := memory{Crash: backOffs(n.crash), Pull: backOffs(n.pull), Liveness: probeResults(n.liveness), Readiness: probeResults(n.readiness), Startup: probeResults(n.startup),
		LastReport: getField(n.kl, "lastStatusReportTime").(time.Time), Unregistered: !getField(n.kl, "registrationCompleted").(bool), Delay: getField(n.kl, "delayAfterNodeStatusChange").(time.Duration), Pressure: n.eviction.pressures()}
	m.Resting, m.SyncLoop = n.resting(), n.syncLoop
	m.Told, m.Relisted = n.relisted()
	m.Manifests = n.manifests.memory()
	m.Serving = n.serving.waiting()
	for _, p := range n.pods.GetPods() {
		m.Reasons = append(m.Reasons, n.visibleReasons(p.UID)...)
	}
	sort.Slice(m.Reasons, func(i, j int) bool {
		a, b := m.Reasons[i], m.Reasons[j]
		return a.UID < b.UID || a.UID == b.UID && a.Container < b.Container
	})
	return m
}

// visibleReasons are those that the status of a Pod tells of. Upstream may know a newer one, of which only its next sync
// speaks; the sync that follows a thaw must not speak of it early.
func (n *node) visibleReasons(uid types.UID) []waitingReason {
	status, _ := n.statuses.GetPodStatus(uid)
	var l []waitingReason
	for _, c := range append(slices.Clone(status.InitContainerStatuses), status.ContainerStatuses...) {
		w := c.State.Waiting
		if w == nil || w.Reason == kubelet.ContainerCreating || w.Reason == kubelet.PodInitializing {
			continue
		}
		l = append(l, waitingReason{string(uid), c.Name, w.Reason, w.Message})
	}
	return l
}

// backOffs reads upstream's private table of a back-off.
func backOffs(b *flowcontrol.Backoff) []backOff {
	b.RLock()
	defer b.RUnlock()
	var l []backOff
	for it := fieldOf(b, "perItemBackoff").MapRange(); it.Next(); {
		e := it.Value().Interface()
		l = append(l, backOff{it.Key().String(), getField(e, "backoff").(time.Duration), getField(e, "lastUpdate").(time.Time)})
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Key < l[j].Key })
	return l
}

func setBackOffs(b *flowcontrol.Backoff, l []backOff) {
	b.Lock()
	defer b.Unlock()
	table := fieldOf(b, "perItemBackoff")
	for _, e := range l {
		v := reflect.New(table.Type().Elem().Elem())
		setField(v.Interface(), "backoff", e.Backoff)
		setField(v.Interface(), "lastUpdate", e.Updated)
		table.SetMapIndex(reflect.ValueOf(e.Key), v)
	}
}

func probeResults(m proberesults.Manager) []probeResult {
	var l []probeResult
	for id, r := range getField(m, "cache").(map[kubecontainer.ContainerID]proberesults.Result) {
		l = append(l, probeResult{id.String(), int(r)})
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Container < l[j].Container })
	return l
}

func setResults(m proberesults.Manager, l []probeResult) {
	cache := getField(m, "cache").(map[kubecontainer.ContainerID]proberesults.Result)
	for _, r := range l {
		cache[kubecontainer.ParseContainerID(r.Container)] = proberesults.Result(r.Result)
	}
}
