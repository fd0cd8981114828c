package kubelet

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/kubelet/events"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// recorder is upstream's event recorder, of which a resumed kubelet keeps back what it has said before.
type recorder struct {
	record.EventRecorder
	p    *kernel.Process
	told *apiclient.EventMemory // before a thaw, too
	mu   sync.Mutex
	last time.Time
}

// tick lets a moment pass since the last event. An event is named after its object and the nanosecond, and here many
// things happen in the same one: the API would refuse the second as a duplicate.
func (r *recorder) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !time.Now().After(r.last) {
		time.Sleep(time.Microsecond)
	}
	r.last = time.Now()
}

// newRecorder is upstream's makeEventRecorder.
func newRecorder(p *kernel.Process, node string, api *Clients) *recorder {
	b := record.NewBroadcaster(record.WithContext(p.Context()))
	r := b.NewRecorder(legacyscheme.Scheme, v1.EventSource{Component: "kubelet", Host: node})
	b.StartStructuredLogging(3)
	if api != nil {
		b.StartRecordingToSink(&v1core.EventSinkImpl{Interface: api.Events.Events("")})
	}
	p.OnExit(func() { kernel.Outside(b.Shutdown) })
	return &recorder{EventRecorder: r, p: p, told: recorded(p)}
}

// keepsBack says whether an event has been recorded before a thaw.
func (r *recorder) keepsBack(o runtime.Object, reason, message string) bool {
	if !announcements[reason] {
		return false
	}
	h, uid := hushOf(r.p), uidOf(o)
	if h.silent() {
		return true
	}
	// Only this one comes of a Pod's sync alone; the others may come of what a start does, such as mounting.
	return h.settling(uid) && (reason != events.FailedToPullImage || r.told.Told(uid, reason, message))
}

func uidOf(o runtime.Object) types.UID {
	switch o := o.(type) {
	case *v1.Pod:
		return o.UID
	case *v1.ObjectReference:
		return o.UID
	}
	return ""
}

// Event implements record.EventRecorder.
func (r *recorder) Event(o runtime.Object, kind, reason, message string) {
	if !r.keepsBack(o, reason, message) {
		r.tick()
		r.EventRecorder.Event(o, kind, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(o runtime.Object, kind, reason, format string, a ...any) {
	r.Event(o, kind, reason, fmt.Sprintf(format, a...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r *recorder) AnnotatedEventf(o runtime.Object, notes map[string]string, kind, reason, format string, a ...any) {
	if !r.keepsBack(o, reason, fmt.Sprintf(format, a...)) {
		r.tick()
		r.EventRecorder.AnnotatedEventf(o, notes, kind, reason, format, a...)
	}
}

// announcements are the reasons of events that a kubelet records because it starts: what it is, and what it finds still
// going wrong when it looks at its Pods for the first time.
var announcements = map[string]bool{
	events.BackOffStartContainer: true, events.FailedMountVolume: true, events.NetworkNotReady: true, events.FailedCreatePodSandBox: true,
	events.FailedToPullImage: true, events.ContainerUnhealthy: true,
	events.StartingKubelet: true, events.NodeReady: true, events.NodeNotReady: true, events.NodeSchedulable: true, events.NodeNotSchedulable: true,
	events.SuccessfulNodeAllocatableEnforcement: true, events.NodeRebooted: true,
	"NodeHasSufficientMemory": true, "NodeHasNoDiskPressure": true, "NodeHasSufficientPID": true,
}
