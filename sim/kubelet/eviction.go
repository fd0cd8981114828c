package kubelet

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"ckadrill/sim/kernel"
)

// newEvictionManager makes upstream's eviction manager over the machine's disk and memory.
func (n *node) newEvictionManager(ref *v1.ObjectReference, thresholds []evictionapi.Threshold) lifecycle.PodAdmitHandler {
	kc := &n.s.KubeletConfiguration
	c := eviction.Config{
		PressureTransitionPeriod: kc.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriodSeconds: int64(kc.EvictionMaxPodGracePeriod),
		Thresholds:               thresholds,
		PodCgroupRoot:            n.cm.GetPodCgroupRoot(),
	}
	gc := getField(n.kl, "containerGC").(kubecontainer.GC)
	m, admission := eviction.NewManager(n.analyzer, c, killPodNow(n.workers, n.recorder), n.images, gc, n.recorder, ref, n.clock, kc.LocalStorageCapacityIsolation)
	n.eviction = evictionManager{m, n.p}
	return admission
}

// evictionManager is upstream's, which ends with its kubelet. After a thaw it acts only from the world's date on: what it
// found before, its node's conditions still say.
type evictionManager struct {
	eviction.Manager
	p *kernel.Process
}

// Start implements eviction.Manager.
func (e evictionManager) Start(ctx context.Context, disks eviction.DiskInfoProvider, active eviction.ActivePodsFunc, cleanedUp eviction.PodCleanedUpFunc, period time.Duration) {
	e.Manager.Start(ctx, disks, func() []*v1.Pod {
		_ = e.p.AwaitDate()
		endIfDead(e.p)
		return active()
	}, func(p *v1.Pod) bool {
		endIfDead(e.p)
		return cleanedUp(p)
	}, period)
}

// pressure is a condition of the node that the eviction manager has observed.
type pressure struct {
	Condition v1.NodeConditionType
	// Observed is when it was last so; the condition lasts for evictionPressureTransitionPeriod more.
	Observed time.Time
	// Reported says that the node is said to be in that condition.
	Reported bool
}

// pressures reads what upstream's manager has observed. Not kept: since when a soft threshold is met; its grace period
// begins anew after a thaw.
func (e evictionManager) pressures() []pressure {
	now := getField(e.Manager, "nodeConditions").([]v1.NodeConditionType)
	var l []pressure
	for it := fieldOf(e.Manager, "nodeConditionsLastObservedAt").MapRange(); it.Next(); {
		c := v1.NodeConditionType(it.Key().String())
		l = append(l, pressure{c, it.Value().Interface().(time.Time), slices.Contains(now, c)})
	}
	slices.SortFunc(l, func(a, b pressure) int { return strings.Compare(string(a.Condition), string(b.Condition)) })
	return l
}

// setPressures gives upstream's manager back what it had observed.
func (e evictionManager) setPressures(l []pressure) {
	observed := fieldOf(e.Manager, "nodeConditionsLastObservedAt")
	var now []v1.NodeConditionType
	for _, p := range l {
		observed.SetMapIndex(reflect.ValueOf(p.Condition), reflect.ValueOf(p.Observed))
		if p.Reported {
			now = append(now, p.Condition)
		}
	}
	setField(e.Manager, "nodeConditions", now)
}
