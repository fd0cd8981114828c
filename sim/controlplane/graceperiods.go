package controlplane

import (
	"context"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	nodetopology "k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle/scheduler"
	"k8s.io/kubernetes/pkg/controller/tainteviction"

	"ckadrill/sim/kernel"
)

// Two controllers keep in memory alone since when something lasts: for how long a node has been silent, and for how long a
// Pod has borne a taint. Upstream counts anew when the controller-manager starts. One that is resumed after a thaw never
// stopped, so it is told what the cluster's objects know of that time.

// keepGracePeriods makes the two controllers of a resumed controller-manager count on from where they were.
func keepGracePeriods(p *kernel.Process, descriptors map[string]*app.ControllerDescriptor) {
	if !p.Resumed() {
		return
	}
	construct(descriptors[names.NodeLifecycleController], resumedNodeLifecycle)
	construct(descriptors[names.TaintEvictionController], resumedTaintEviction)
}

// construct gives a descriptor another constructor; upstream has no way to do it.
func construct(d *app.ControllerDescriptor, c app.ControllerConstructor) {
	if d != nil {
		private := field(d, "constructor")
		private.Set(reflect.ValueOf(c))
	}
}

// field is a private field of the structure that a pointer leads to.
func field(structure any, name string) reflect.Value {
	f := reflect.ValueOf(structure).Elem().FieldByName(name)
	if !f.IsValid() {
		panic("controlplane: this release has no field " + name)
	}
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// loop is a controller as upstream's own newControllerLoop makes it.
type loop struct {
	name string
	run  func(ctx context.Context)
}

func (l loop) Name() string            { return l.name }
func (l loop) Run(ctx context.Context) { l.run(ctx) }

// nodeMonitorWork is what a look at all nodes takes, for which upstream's controller waits in addition to its period. Without
// it its looks would always fall in the same instant as those of its taint worker, ten in a second, and whether a lost node
// gets its NoExecute taint at once would be a matter of luck.
const nodeMonitorWork = 7300 * time.Microsecond

// resumedNodeLifecycle is upstream's newNodeLifecycleController. A node's silence began with the last renewal of its lease.
func resumedNodeLifecycle(ctx context.Context, cc app.ControllerContext, name string) (app.Controller, error) {
	client, err := cc.NewClient("node-controller")
	if err != nil {
		return nil, err
	}
	nodes, leases, o := cc.InformerFactory.Core().V1().Nodes(), cc.InformerFactory.Coordination().V1().Leases(), cc.ComponentConfig.NodeLifecycleController
	c, err := nodelifecycle.NewNodeLifecycleController(ctx, leases, cc.InformerFactory.Core().V1().Pods(), nodes, cc.InformerFactory.Apps().V1().DaemonSets(), client,
		cc.ComponentConfig.KubeCloudShared.NodeMonitorPeriod.Duration, o.NodeStartupGracePeriod.Duration, o.NodeMonitorGracePeriod.Duration, o.NodeEvictionRate,
		o.SecondaryNodeEvictionRate, o.LargeClusterSizeThreshold, o.UnhealthyZoneThreshold)
	if err != nil {
		return nil, err
	}
	return loop{name, func(ctx context.Context) {
		if cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced, leases.Informer().HasSynced) {
			l, _ := nodes.Lister().List(labels.Everything())
			known := field(field(c, "nodeHealthMap").Interface(), "nodeHealths")
			for _, n := range l {
				ready := readyCondition(n)
				lease, err := leases.Lister().Leases(v1.NamespaceNodeLease).Get(n.Name)
				if ready == nil || err != nil || lease.Spec.RenewTime == nil {
					continue
				}
				health := reflect.New(known.Type().Elem().Elem())
				field(health.Interface(), "probeTimestamp").Set(reflect.ValueOf(metav1.NewTime(lease.Spec.RenewTime.Time)))
				field(health.Interface(), "readyTransitionTimestamp").Set(reflect.ValueOf(ready.LastTransitionTime))
				field(health.Interface(), "status").Set(reflect.ValueOf(n.Status.DeepCopy()))
				field(health.Interface(), "lease").Set(reflect.ValueOf(lease.DeepCopy()))
				known.SetMapIndex(reflect.ValueOf(n.Name), health)
				if isSilent(n) {
					keepTaint(c, n)
				}
			}
		}
		limitTaints(c, o.NodeEvictionRate)
		c.Run(ctx)
	}}, nil
}

// isSilent says whether a node has the taint of one that is not heard of.
func isSilent(n *v1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Effect == v1.TaintEffectNoExecute && (t.Key == v1.TaintNodeUnreachable || t.Key == v1.TaintNodeNotReady) {
			return true
		}
	}
	return false
}

// keepTaint has a node's taint count as added already; upstream would add it anew, with the date of now
// (addPodEvictorForNewZone and markNodeForTainting).
func keepTaint(c *nodelifecycle.Controller, n *v1.Node) {
	zone := nodetopology.GetZoneKey(n)
	queues := field(c, "zoneNoExecuteTainter").Interface().(map[string]*scheduler.RateLimitedTimedQueue)
	q := queues[zone]
	if q == nil {
		q = scheduler.NewRateLimitedTimedQueue(flowcontrol.NewFakeAlwaysRateLimiter())
		queues[zone] = q
		states := field(c, "zoneStates")
		states.SetMapIndex(reflect.ValueOf(zone), reflect.ValueOf("Initial").Convert(states.Type().Elem()))
	}
	q.Add(n.Name, string(n.UID))
	q.Try(klog.Background(), func(scheduler.TimedValue) (bool, time.Duration) { return true, 0 })
}

// limitTaints gives the queues that keepTaint has made upstream's limits.
func limitTaints(c *nodelifecycle.Controller, rate float32) {
	for _, q := range field(c, "zoneNoExecuteTainter").Interface().(map[string]*scheduler.RateLimitedTimedQueue) {
		q.SwapLimiter(rate)
	}
}

func readyCondition(n *v1.Node) *v1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == v1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// resumedTaintEviction is upstream's newTaintEvictionController. A Pod has borne a taint since that was added.
func resumedTaintEviction(ctx context.Context, cc app.ControllerContext, name string) (app.Controller, error) {
	client, err := cc.NewClient("node-controller")
	if err != nil {
		return nil, err
	}
	nodes, pods := cc.InformerFactory.Core().V1().Nodes(), cc.InformerFactory.Core().V1().Pods()
	c, err := tainteviction.New(ctx, client, pods, nodes, name)
	if err != nil {
		return nil, err
	}
	return loop{name, func(ctx context.Context) {
		if cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced, pods.Informer().HasSynced) {
			queue := field(c, "taintEvictionQueue").Interface().(*tainteviction.TimedWorkerQueue)
			l, _ := pods.Lister().List(labels.Everything())
			for _, p := range l {
				n, err := nodes.Lister().Get(p.Spec.NodeName)
				if err != nil {
					continue
				}
				if since, bears, ok := bearing(n, p); ok {
					// The queue counts from the first date, and what it holds already has come before what comes now.
					queue.AddWork(ctx, tainteviction.NewWorkArgs(p.Name, p.Namespace), time.Now().Add(-1), since.Add(bears))
				}
			}
		}
		c.Run(ctx)
	}}, nil
}

// bearing tells since when a Pod bears its node's NoExecute taints, and for how long it does; ok is false where it bears
// none, or does for ever.
func bearing(n *v1.Node, p *v1.Pod) (since time.Time, bears time.Duration, ok bool) {
	var taints []v1.Taint
	for _, t := range n.Spec.Taints {
		if t.Effect == v1.TaintEffectNoExecute && t.TimeAdded != nil {
			taints = append(taints, t)
			if t.TimeAdded.After(since) {
				since = t.TimeAdded.Time
			}
		}
	}
	if len(taints) == 0 {
		return since, 0, false
	}
	tolerated, used := helper.GetMatchingTolerations(klog.Background(), taints, p.Spec.Tolerations)
	if !tolerated {
		return since, 0, false
	}
	bears = -1
	for _, t := range used {
		if s := t.TolerationSeconds; s != nil && (bears < 0 || time.Duration(*s)*time.Second < bears) {
			bears = max(0, time.Duration(*s)*time.Second)
		}
	}
	return since, bears, bears >= 0
}
