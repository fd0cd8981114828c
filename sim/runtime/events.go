package runtime

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventWatcher is a reader of the CRI's event stream. What it has not read yet is kept.
type eventWatcher struct {
	mu     sync.Mutex
	queue  []*runtimeapi.ContainerEventResponse
	wake   chan struct{}
	closed bool
}

func (w *eventWatcher) put(e *runtimeapi.ContainerEventResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.queue = append(w.queue, e)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *eventWatcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.wake)
	}
}

func (w *eventWatcher) next(ctx context.Context) (*runtimeapi.ContainerEventResponse, error) {
	for {
		w.mu.Lock()
		if len(w.queue) > 0 {
			e := w.queue[0]
			w.queue = w.queue[1:]
			w.mu.Unlock()
			return e, nil
		}
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return nil, status.Error(codes.Unavailable, "error reading from server: EOF")
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (c *Containerd) watchEvents() *eventWatcher {
	w := &eventWatcher{wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers[w] = true
	return w
}

func (c *Containerd) unwatchEvents(w *eventWatcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watchers, w)
}

// emit sends an event to all readers, with the statuses of the sandbox and its containers.
func (c *Containerd) emit(containerID, sandboxID string, t runtimeapi.ContainerEventType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watchers) == 0 {
		return
	}
	e := &runtimeapi.ContainerEventResponse{ContainerId: containerID, ContainerEventType: t, CreatedAt: time.Now().UnixNano()}
	if b := c.sandboxes[sandboxID]; b != nil {
		e.PodSandboxStatus = c.sandboxStatus(b)
		for _, k := range c.containersOf(sandboxID) {
			e.ContainersStatuses = append(e.ContainersStatuses, c.containerStatus(k))
		}
	}
	for w := range c.watchers {
		w.put(e)
	}
}
