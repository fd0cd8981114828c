package volumes

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager/cache"
)

// Pace lets upstream's volume manager sleep. Its two loops turn ten times a second for ever, which would be most of an
// idle node's work; here a turn waits while no Pod waits for a volume to be mounted or unmounted, at most for idle.
type Pace struct {
	idle time.Duration

	mu      sync.Mutex
	waiting int
	awake   chan struct{} // closed while somebody waits; made anew when nobody does
}

// NewPace makes a pace that lets the loops turn once per idle when nobody waits. It starts awake: the loops' first turns
// populate what they know.
func NewPace(idle time.Duration) *Pace {
	p := &Pace{idle: idle, awake: make(chan struct{}), waiting: 1}
	close(p.awake)
	return p
}

func (p *Pace) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting++; p.waiting == 1 {
		close(p.awake)
	}
}

// Look wakes the loops for a moment: there is a Pod whose volumes nobody waits for yet.
func (p *Pace) Look() {
	p.enter()
	p.leave()
}

// linger is how long the loops go on after somebody stopped waiting: a volume that is mounted already is not waited for, but
// its content is refreshed by the next turns.
const linger = 500 * time.Millisecond

func (p *Pace) leave() { time.AfterFunc(linger, p.left) }

func (p *Pace) left() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.awake = make(chan struct{})
	}
}

// wait blocks until somebody waits for a volume, or idle has passed. It says whether it has blocked.
func (p *Pace) wait() bool {
	p.mu.Lock()
	awake := p.awake
	p.mu.Unlock()
	select {
	case <-awake:
		return false
	default:
	}
	t := time.NewTimer(p.idle)
	defer t.Stop()
	select {
	case <-awake:
	case <-t.C:
	}
	return true
}

// Pods paces the loop that asks for the Pods.
func (p *Pace) Pods(m volumemanager.PodManager) volumemanager.PodManager { return pacedPods{m, p} }

type pacedPods struct {
	volumemanager.PodManager
	p *Pace
}

// GetPods implements volumemanager.PodManager.
func (m pacedPods) GetPods() []*v1.Pod {
	m.p.wait()
	return m.PodManager.GetPods()
}

// Desired paces the loop that asks for what is to be mounted.
func (p *Pace) Desired(d cache.DesiredStateOfWorld) cache.DesiredStateOfWorld {
	return &pacedDesired{DesiredStateOfWorld: d, p: p}
}

type pacedDesired struct {
	cache.DesiredStateOfWorld
	p      *Pace
	turned bool // once; only the loop that mounts uses it
}

// lag is how far the loop that mounts is behind the one that asks for the Pods: half a turn, so that what it finds does not
// depend on which of them comes first in an instant.
const lag = 50 * time.Millisecond

// GetVolumesToMount implements cache.DesiredStateOfWorld.
func (d *pacedDesired) GetVolumesToMount() []cache.VolumeToMount {
	if d.p.wait() || !d.turned {
		time.Sleep(lag)
	}
	d.turned = true
	return d.DesiredStateOfWorld.GetVolumesToMount()
}

// Manager wakes the loops while somebody waits.
func (p *Pace) Manager(m volumemanager.VolumeManager) volumemanager.VolumeManager {
	return pacedManager{m, p}
}

type pacedManager struct {
	volumemanager.VolumeManager
	p *Pace
}

// Run implements volumemanager.VolumeManager. The loops may rest once every source has been seen and handled.
func (m pacedManager) Run(ctx context.Context, ready config.SourcesReady) {
	go func() {
		for !ready.AllReady() || !m.VolumeManager.ReconcilerStatesHasBeenSynced() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
		m.p.leave()
	}()
	m.VolumeManager.Run(ctx, ready)
}

// WaitForAttachAndMount implements volumemanager.VolumeManager.
func (m pacedManager) WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error {
	m.p.enter()
	defer m.p.leave()
	return m.VolumeManager.WaitForAttachAndMount(ctx, pod)
}

// WaitForUnmount implements volumemanager.VolumeManager.
func (m pacedManager) WaitForUnmount(ctx context.Context, pod *v1.Pod) error {
	m.p.enter()
	defer m.p.leave()
	return m.VolumeManager.WaitForUnmount(ctx, pod)
}

// WaitForAllPodsUnmount implements volumemanager.VolumeManager.
func (m pacedManager) WaitForAllPodsUnmount(ctx context.Context, pods []*v1.Pod) error {
	m.p.enter()
	defer m.p.leave()
	return m.VolumeManager.WaitForAllPodsUnmount(ctx, pods)
}
