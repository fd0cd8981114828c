package kubelet

import (
	"cmp"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// relisted is what upstream's PLEG has told of: the Pods as its last relists found them, by UID, and when the last one was.
func (n *node) relisted() (pods []*kubecontainer.Pod, at time.Time) {
	for it := fieldOf(n.pleg, "podRecords").MapRange(); it.Next(); {
		if p, ok := getField(it.Value().Interface(), "old").(*kubecontainer.Pod); ok && p != nil {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *kubecontainer.Pod) int { return cmp.Compare(a.ID, b.ID) })
	return pods, n.relistTime()
}

func (n *node) relistTime() time.Time {
	at, _ := n.relistTimeValue().Load().(time.Time)
	return at
}

func (n *node) relistTimeValue() *atomic.Value {
	return fieldOf(n.pleg, "relistTime").Addr().Interface().(*atomic.Value)
}

// relistAsBefore fills a resumed kubelet's cache of Pods and lets its PLEG go on from what it had told of, and when. A runtime
// that does not answer leaves everything to the first relist that succeeds, as in a kubelet that starts.
func (n *node) relistAsBefore(told []*kubecontainer.Pod, at time.Time) {
	pods, err := n.runtime.GetPods(n.p.Context(), true)
	if err != nil || at.IsZero() {
		return
	}
	inspect := map[types.UID]*kubecontainer.Pod{}
	for _, p := range pods {
		inspect[p.ID] = p
	}
	n.record(pods)
	setField(n.pleg, "podsToReinspect", inspect)
	n.pleg.(interface{ Relist() }).Relist()
	if n.relistTime().IsZero() {
		n.record(nil)
		return
	}
	n.record(told)
	n.relistTimeValue().Store(at)
}

// record makes Pods those that the PLEG has told of.
func (n *node) record(pods []*kubecontainer.Pod) {
	table := fieldOf(n.pleg, "podRecords")
	table.Set(reflect.MakeMap(table.Type()))
	for _, p := range pods {
		r := reflect.New(table.Type().Elem().Elem())
		setField(r.Interface(), "old", p)
		table.SetMapIndex(reflect.ValueOf(p.ID), r)
	}
}

// relistOn starts the PLEG of a resumed kubelet at the next relist that it would have made.
func (n *node) relistOn() {
	if n.p.AwaitDate() != nil {
		return
	}
	n.awaitPhase(n.before.Relisted, genericPlegRelistPeriod)
	n.pleg.Start()
}

// awaitPhase waits for the next turn of a loop that turned last, or started, at that time.
func (n *node) awaitPhase(last time.Time, period time.Duration) {
	if gone := time.Since(last) % period; !last.IsZero() && gone != 0 {
		n.p.Sleep((period - gone) % period)
	}
}
