package helm

import (
	"time"

	"helm.sh/helm/v4/pkg/kube"
)

// patient is a client of the cluster whose waits give the turn away.
type patient struct {
	*kube.Client
	i *invocation
}

func (i *invocation) patient(c kube.Interface) kube.Interface {
	if c, ok := c.(*kube.Client); ok {
		return &patient{c, i}
	}
	return c
}

func (c *patient) GetWaiter(s kube.WaitStrategy) (kube.Waiter, error) {
	return c.GetWaiterWithOptions(s)
}

func (c *patient) GetWaiterWithOptions(s kube.WaitStrategy, opts ...kube.WaitOption) (kube.Waiter, error) {
	w, err := c.Client.GetWaiterWithOptions(s, opts...)
	if err != nil {
		return nil, err
	}
	return waiter{w, c.i}, nil
}

type waiter struct {
	kube.Waiter
	i *invocation
}

// meanwhile runs f without the turn.
func (w waiter) meanwhile(f func() error) error {
	w.i.turn.give()
	defer w.i.turn.take()
	return f()
}

func (w waiter) Wait(l kube.ResourceList, d time.Duration) error {
	return w.meanwhile(func() error { return w.Waiter.Wait(l, d) })
}

func (w waiter) WaitWithJobs(l kube.ResourceList, d time.Duration) error {
	return w.meanwhile(func() error { return w.Waiter.WaitWithJobs(l, d) })
}

func (w waiter) WaitForDelete(l kube.ResourceList, d time.Duration) error {
	return w.meanwhile(func() error { return w.Waiter.WaitForDelete(l, d) })
}

func (w waiter) WatchUntilReady(l kube.ResourceList, d time.Duration) error {
	return w.meanwhile(func() error { return w.Waiter.WatchUntilReady(l, d) })
}
