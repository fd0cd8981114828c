package controlplane

import (
	"context"

	"ckadrill/sim/kernel"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/core"
)

// untraced are resources that change because time passes, or that only tell of other changes.
var untraced = sets.New(schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
	schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, schema.GroupResource{Resource: "apiServerIPInfo"})

// tracedStorage tells the world's trace of each write that etcd has taken: who asked, what changed, and which object's
// controller it serves. At this place the object is decoded anyway. The storage of an apiserver that has ended refuses
// everything: what it leaves behind must not write.
type tracedStorage struct {
	storage.Interface
	p        *kernel.Process
	resource schema.GroupResource
}

func (s tracedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if !s.p.Alive() {
		return kernel.ErrDead
	}
	place := s.reserve()
	err := s.Interface.Create(ctx, key, obj, out, ttl)
	if err == nil {
		s.add(ctx, place, "create", out)
	}
	return err
}

func (s tracedStorage) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	if !s.p.Alive() {
		return kernel.ErrDead
	}
	place := s.reserve()
	err := s.Interface.Delete(ctx, key, out, pre, validate, cached, opts)
	if err == nil {
		s.add(ctx, place, "delete", out)
	}
	return err
}

func (s tracedStorage) GuaranteedUpdate(ctx context.Context, key string, dst runtime.Object, ignoreNotFound bool, pre *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	if !s.p.Alive() {
		return kernel.ErrDead
	}
	before, place := "", s.reserve()
	counted := func(in runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		before = ""
		if m, err := meta.Accessor(in); err == nil {
			before = m.GetResourceVersion()
		}
		return try(in, res)
	}
	err := s.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre, counted, cached)
	if err != nil {
		return err
	}
	if m, e := meta.Accessor(dst); e == nil && m.GetResourceVersion() != before { // an update that changes nothing writes nothing
		s.add(ctx, place, "update", dst)
	}
	return nil
}

// reserve takes the step's place before the write: its watchers may act before the write returns.
func (s tracedStorage) reserve() int {
	if untraced.Has(s.resource) {
		return 0
	}
	return s.p.World().Trace.Reserve()
}

func (s tracedStorage) add(ctx context.Context, place int, verb string, obj runtime.Object) {
	if untraced.Has(s.resource) {
		return
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	step := kernel.Step{Seq: place, Verb: verb, Subject: Subject(s.resource.Resource, m.GetNamespace(), m.GetName()), Detail: "uid " + string(m.GetUID())}
	if u, ok := genericapirequest.UserFrom(ctx); ok {
		step.Actor = u.GetName()
	}
	if i, ok := genericapirequest.RequestInfoFrom(ctx); ok && i.Subresource != "" && verb == "update" {
		switch i.Subresource {
		case "binding":
			step.Verb = "bind"
			if p, ok := obj.(*core.Pod); ok {
				step.Detail = "to " + p.Spec.NodeName + ", " + step.Detail
			}
		default:
			if p, ok := obj.(*core.Pod); ok && i.Subresource == "status" {
				step.Detail = podState(p) + ", " + step.Detail
			}
			step.Detail = i.Subresource + ", " + step.Detail
		}
	}
	if o := metav1.GetControllerOfNoCopy(m); o != nil {
		r, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
		ns := m.GetNamespace()
		if o.Kind == "Node" {
			ns = ""
		}
		step.Cause = Subject(r.Resource, ns, o.Name)
	}
	s.p.World().Trace.Add(step)
}

// podState is a Pod's phase, and whether it is ready.
func podState(p *core.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady && c.Status == core.ConditionTrue {
			return string(p.Status.Phase) + " and ready"
		}
	}
	return string(p.Status.Phase)
}

// Subject is what the trace calls an API object: "pods/default/web-abc", "nodes/cka-w1".
func Subject(resource, namespace, name string) string {
	if namespace == "" {
		return resource + "/" + name
	}
	return resource + "/" + namespace + "/" + name
}
