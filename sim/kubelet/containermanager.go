package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/events"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"

	"ckadrill/sim/kernel"
)

// containerManager is upstream's stub with the parts that show: capacity, reservations, the node's configuration.
// Cgroups, devices and CPU pinning are the stub's: containers here are not confined by them.
type containerManager struct {
	cm.ContainerManager
	p        *kernel.Process
	config   cm.NodeConfig
	capacity v1.ResourceList
	disk     v1.ResourceList
	hardware hardware
	recorder record.EventRecorder
	runtime  internalapi.RuntimeService // since its start
}

func newContainerManager(p *kernel.Process, c cm.NodeConfig, hw hardware, r record.EventRecorder) (*containerManager, error) {
	machine, err := hw.MachineInfo()
	if err != nil {
		return nil, err
	}
	m := &containerManager{ContainerManager: cm.NewStubContainerManager(), p: p, config: c, hardware: hw, recorder: r,
		capacity: cadvisor.CapacityFromMachineInfo(machine)}
	if root, err := hw.RootFsInfo(); err == nil {
		m.disk = cadvisor.EphemeralStorageCapacityFromFsInfo(root)
	}
	return m, nil
}

// Start implements cm.ContainerManager; the real one now sets the cgroup limits of all Pods together and says so.
func (m *containerManager) Start(_ context.Context, _ *v1.Node, _ cm.ActivePodsFunc, _ cm.GetNodeFunc, _ config.SourcesReady, _ status.PodStatusProvider, r internalapi.RuntimeService, _ bool) error {
	m.runtime = r
	if m.config.EnforceNodeAllocatable.Has("pods") {
		ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(m.config.NodeName), UID: types.UID(m.config.NodeName)}
		m.recorder.Event(ref, v1.EventTypeNormal, events.SuccessfulNodeAllocatableEnforcement, "Updated Node Allocatable limit across pods")
	}
	return nil
}

// GetNodeConfig implements cm.ContainerManager.
func (m *containerManager) GetNodeConfig() cm.NodeConfig { return m.config }

// GetCapacity implements cm.ContainerManager: what MachineInfo does not hold.
func (m *containerManager) GetCapacity(local bool) v1.ResourceList {
	if !local {
		return v1.ResourceList{}
	}
	return m.disk
}

// GetNodeAllocatableReservation is upstream's getNodeAllocatableReservation: what Pods can not have.
func (m *containerManager) GetNodeAllocatableReservation() v1.ResourceList {
	evict := hardEvictionReservation(m.config.HardEvictionThresholds, m.all())
	out := v1.ResourceList{}
	for k := range m.all() {
		v := resource.NewQuantity(0, resource.DecimalSI)
		if q, ok := m.config.SystemReserved[k]; ok {
			v.Add(q)
		}
		if q, ok := m.config.KubeReserved[k]; ok {
			v.Add(q)
		}
		if q, ok := evict[k]; ok {
			v.Add(q)
		}
		if !v.IsZero() {
			out[k] = *v
		}
	}
	return out
}

// GetNodeAllocatableAbsolute implements cm.ContainerManager.
func (m *containerManager) GetNodeAllocatableAbsolute() v1.ResourceList {
	out := v1.ResourceList{}
	for k, v := range m.all() {
		v = v.DeepCopy()
		if q, ok := m.config.SystemReserved[k]; ok {
			v.Sub(q)
		}
		if q, ok := m.config.KubeReserved[k]; ok {
			v.Sub(q)
		}
		if v.Sign() < 0 {
			v.Set(0)
		}
		out[k] = v
	}
	return out
}

func (m *containerManager) all() v1.ResourceList {
	l := v1.ResourceList{}
	for k, v := range m.capacity {
		l[k] = v
	}
	for k, v := range m.disk {
		l[k] = v
	}
	return l
}

// hardEvictionReservation is upstream's function of the same name (cm/node_container_manager_linux.go).
func hardEvictionReservation(thresholds []evictionapi.Threshold, capacity v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for _, t := range thresholds {
		if t.Operator != evictionapi.OpLessThan {
			continue
		}
		var name v1.ResourceName
		switch t.Signal {
		case evictionapi.SignalMemoryAvailable:
			name = v1.ResourceMemory
		case evictionapi.SignalNodeFsAvailable:
			name = v1.ResourceEphemeralStorage
		default:
			continue
		}
		total := capacity[name]
		out[name] = *evictionapi.GetThresholdQuantity(t.Value, &total)
	}
	return out
}

// GetAllocateResourcesPodAdmitHandler implements cm.ContainerManager: no policy of topology refuses a Pod.
func (*containerManager) GetAllocateResourcesPodAdmitHandler() lifecycle.PodAdmitHandler {
	return noShutdown{}
}

// InternalContainerLifecycle implements cm.ContainerManager.
func (*containerManager) InternalContainerLifecycle() cm.InternalContainerLifecycle {
	return unpinned{}
}

// unpinned is a cm.InternalContainerLifecycle without CPUs, memory or devices to assign.
type unpinned struct{}

// PreCreateContainer implements cm.InternalContainerLifecycle.
func (unpinned) PreCreateContainer(klog.Logger, *v1.Pod, *v1.Container, *runtimeapi.ContainerConfig) error {
	return nil
}

// PreStartContainer implements cm.InternalContainerLifecycle.
func (unpinned) PreStartContainer(klog.Logger, *v1.Pod, *v1.Container, string) error { return nil }

// PostStopContainer implements cm.InternalContainerLifecycle.
func (unpinned) PostStopContainer(klog.Logger, string) error { return nil }
