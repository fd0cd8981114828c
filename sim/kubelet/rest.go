package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/utils/clock"
)

// restingPod is a Pod whose worker waits: until its next sync is due, or until the containers are listed anew.
type restingPod struct {
	UID, Version string
	Due          time.Time
	// Again says that a sync has been asked for, which waits for the next relist of the containers.
	Again bool
}

// versionOf tells two states of a Pod apart by what makes a kubelet sync it: its generation, labels and annotations, of which a
// static Pod's has the manifest's hash. What a kubelet adds when it sees a Pod does not count.
func versionOf(p *v1.Pod) string {
	annotations := maps.Clone(p.Annotations)
	delete(annotations, kubetypes.ConfigFirstSeenAnnotationKey)
	delete(annotations, kubetypes.ConfigSourceAnnotationKey)
	return fmt.Sprint(p.Generation, p.DeletionTimestamp, p.Labels, annotations)
}

// resting are the Pods whose workers wait, by UID. All goroutines of the world are blocked.
func (n *node) resting() []restingPod {
	working := map[types.UID]bool{} // those of Pods that are not to end
	for it := fieldOf(n.workers, "podSyncStatuses").MapRange(); it.Next(); {
		s := it.Value().Interface()
		if getField(s, "terminatingAt").(time.Time).IsZero() {
			working[types.UID(it.Key().String())] = getField(s, "working").(bool)
		}
	}
	var l []restingPod
	for _, p := range n.pods.GetPods() {
		busy, known := working[p.UID]
		due, waits := n.work.next(p.UID)
		now, once := n.syncs.get(p.UID)
		switch {
		case !known || now:
		case busy && once:
			l = append(l, restingPod{UID: string(p.UID), Version: versionOf(p), Again: true})
		case !busy && waits:
			l = append(l, restingPod{UID: string(p.UID), Version: versionOf(p), Due: due})
		}
	}
	slices.SortFunc(l, func(a, b restingPod) int { return cmp.Compare(a.UID, b.UID) })
	return l
}

// restingPods are the Pods of a resumed kubelet whose first sync is not due yet.
type restingPods struct {
	mu   sync.Mutex
	pods map[types.UID]restingPod
}

func (r *restingPods) set(l []restingPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = map[types.UID]restingPod{}
	for _, p := range l {
		r.pods[types.UID(p.UID)] = p
	}
}

// take says whether a Pod was at rest and has not changed since.
func (r *restingPods) take(p *v1.Pod) (x restingPod, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok = r.pods[p.UID]
	delete(r.pods, p.UID)
	return x, ok && x.Version == versionOf(p)
}

// syncs are the Pods that have been synced; those that are being synced are true.
type syncs struct {
	mu   sync.Mutex
	pods map[types.UID]bool
}

func (s *syncs) set(uid types.UID, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		s.pods = map[types.UID]bool{}
	}
	s.pods[uid] = now
}

func (s *syncs) get(uid types.UID) (now, once bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, once = s.pods[uid]
	return now, once
}

func (s *syncs) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// goOn makes known to the rest of a resumed kubelet a Pod that was at rest, as SyncPod would, and leaves all else as it was.
func (n *node) goOn(ctx context.Context, pod, mirror *v1.Pod, was restingPod) {
	if m, ok := getField(n.kl, "secretManager").(secret.Manager); ok && m != nil {
		m.RegisterPod(pod)
	}
	if m, ok := getField(n.kl, "configMapManager").(configmap.Manager); ok && m != nil {
		m.RegisterPod(pod)
	}
	n.probes.AddPod(ctx, pod)
	n.syncs.set(pod.UID, false)
	if !was.Again {
		n.work.pin(pod.UID, was.Due)
		return
	}
	n.workers.UpdatePod(kubelet.UpdatePodOptions{UpdateType: kubetypes.SyncPodSync, Pod: pod, MirrorPod: mirror, StartTime: n.clock.Now()})
}

// workQueue is a queue as upstream's basicWorkQueue whose times can be kept over a freeze, and from which what is ready comes in
// the order of the times, not of a map.
type workQueue struct {
	clock  clock.Clock
	mu     sync.Mutex
	due    map[types.UID]time.Time
	pinned map[types.UID]time.Time
}

func newWorkQueue(c clock.Clock) *workQueue {
	return &workQueue{clock: c, due: map[types.UID]time.Time{}, pinned: map[types.UID]time.Time{}}
}

// Enqueue implements queue.WorkQueue.
func (q *workQueue) Enqueue(item types.UID, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, ok := q.pinned[item]
	if !ok {
		at = q.clock.Now().Add(delay)
	}
	delete(q.pinned, item)
	q.due[item] = at
}

// GetWork implements queue.WorkQueue.
func (q *workQueue) GetWork() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	var l []types.UID
	for item, at := range q.due {
		if at.Before(now) {
			l = append(l, item)
		}
	}
	slices.SortFunc(l, func(a, b types.UID) int { return cmp.Or(q.due[a].Compare(q.due[b]), cmp.Compare(a, b)) })
	for _, item := range l {
		delete(q.due, item)
	}
	return l
}

// next is when a Pod's next sync is due.
func (q *workQueue) next(item types.UID) (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, ok := q.due[item]
	return at, ok
}

// pin decides when the sync that is enqueued next is due.
func (q *workQueue) pin(item types.UID, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pinned[item] = at
}
