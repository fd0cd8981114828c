package controlplane

import (
	"encoding/json"
	"errors"
	"sync"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clientset "k8s.io/client-go/kubernetes"

	"ckadrill/sim/kernel"
)

// eventsAPIs holds which schedulers found events.k8s.io/v1 when they started. Upstream's asks the API server once: one that
// was started before its API server records core events for the rest of its life, which kubectl shows with a count.
type eventsAPIs struct {
	w     *kernel.World
	mu    sync.Mutex
	stamp uint64
	found map[string]bool // by instance
}

const eventsAPIsHolder = "schedulers"

func holdEventsAPIs(w *kernel.World) *eventsAPIs {
	e := &eventsAPIs{w: w, found: map[string]bool{}}
	w.Hold(eventsAPIsHolder, e)
	return e
}

// maxInstances bounds how many schedulers are remembered, most of which have ended.
const maxInstances = 16

// Freeze implements kernel.Holder.
func (e *eventsAPIs) Freeze(s *kernel.Snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.found) == 0 {
		return
	}
	s.Put("events", e.stamp, func() []byte {
		b, err := json.Marshal(e.found) // sorts
		if err != nil {
			panic(err) // a map of strings to booleans
		}
		return b
	})
}

// Thaw implements kernel.Holder.
func (e *eventsAPIs) Thaw(parts kernel.Parts) error {
	b, ok := parts["events"]
	if !ok {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stamp = e.w.Version()
	return json.Unmarshal(b, &e.found)
}

func (e *eventsAPIs) remember(instance string, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.found) >= maxInstances {
		clear(e.found)
	}
	e.found[instance], e.stamp = found, e.w.Version()
}

// client is the client that the scheduler's event broadcaster asks for the API. That of a process that carries on answers
// as it was answered when the process started.
func (e *eventsAPIs) client(p *kernel.Process, c clientset.Interface) clientset.Interface {
	found := askOnce{DiscoveryInterface: c.Discovery(), remember: func(found bool) { e.remember(instanceID(p), found) }}
	if p.Resumed() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if was, ok := e.found[instanceID(p)]; ok {
			found.was = &was
		}
	}
	return eventsClient{c, found}
}

type eventsClient struct {
	clientset.Interface
	discovery discovery.DiscoveryInterface
}

// Discovery implements clientset.Interface.
func (c eventsClient) Discovery() discovery.DiscoveryInterface { return c.discovery }

type askOnce struct {
	discovery.DiscoveryInterface
	was      *bool // nil: ask
	remember func(found bool)
}

// ServerResourcesForGroupVersion implements discovery.ServerResourcesInterface.
func (a askOnce) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if version != eventsv1.SchemeGroupVersion.String() {
		return a.DiscoveryInterface.ServerResourcesForGroupVersion(version)
	}
	switch {
	case a.was == nil:
		l, err := a.DiscoveryInterface.ServerResourcesForGroupVersion(version)
		a.remember(err == nil)
		return l, err
	case !*a.was:
		return nil, errors.New("the API server was not there when the scheduler started")
	}
	return &metav1.APIResourceList{GroupVersion: version}, nil
}
