package kubelet

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/kubelet/util/queue"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/utils/clock"
)

// Upstream keeps the heart of its kubelet unexported. These declarations are the whole list of what is reached past
// that; each is upstream's own function, called as upstream's kubelet.go calls it. They need -ldflags=-checklinkname=0, as
// sim/kernel does anyway. A new Kubernetes release that renames one fails at link time, and [setField] panics on a field
// that is gone, so nothing can drift silently.

// podSyncer is pod_workers.go's interface of the same name; its methods must stay the same, in any order.
type podSyncer interface {
	SyncPod(ctx context.Context, updateType kubetypes.SyncPodType, pod *v1.Pod, mirrorPod *v1.Pod, podStatus *kubecontainer.PodStatus) (bool, error)
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, gracePeriod *int64, podStatusFn func(*v1.PodStatus)) error
	SyncTerminatingRuntimePod(ctx context.Context, runningPod *kubecontainer.Pod) error
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus) error
}

//go:linkname newPodWorkers k8s.io/kubernetes/pkg/kubelet.newPodWorkers
func newPodWorkers(s podSyncer, r record.EventRecorder, q queue.WorkQueue, resync, backOff time.Duration, c kubecontainer.Cache, a allocation.Manager) kubelet.PodWorkers

//go:linkname newPodContainerDeletor k8s.io/kubernetes/pkg/kubelet.newPodContainerDeletor
func newPodContainerDeletor(runtime kubecontainer.Runtime, containersToKeep int) unsafe.Pointer

//go:linkname newActiveDeadlineHandler k8s.io/kubernetes/pkg/kubelet.newActiveDeadlineHandler
func newActiveDeadlineHandler(p status.PodStatusProvider, r record.EventRecorder, c clock.Clock) (unsafe.Pointer, error)

//go:linkname activeDeadlineShouldSync k8s.io/kubernetes/pkg/kubelet.(*activeDeadlineHandler).ShouldSync
func activeDeadlineShouldSync(h unsafe.Pointer, pod *v1.Pod) bool

//go:linkname activeDeadlineShouldEvict k8s.io/kubernetes/pkg/kubelet.(*activeDeadlineHandler).ShouldEvict
func activeDeadlineShouldEvict(h unsafe.Pointer, pod *v1.Pod) lifecycle.ShouldEvictResponse

// activeDeadline is upstream's activeDeadlineHandler as an interface value.
type activeDeadline struct{ h unsafe.Pointer }

func (a activeDeadline) ShouldSync(pod *v1.Pod) bool { return activeDeadlineShouldSync(a.h, pod) }

func (a activeDeadline) ShouldEvict(pod *v1.Pod) lifecycle.ShouldEvictResponse {
	return activeDeadlineShouldEvict(a.h, pod)
}

//go:linkname killPodNow k8s.io/kubernetes/pkg/kubelet.killPodNow
func killPodNow(w kubelet.PodWorkers, r record.EventRecorder) eviction.KillPodFunc

//go:linkname newRuntimeState k8s.io/kubernetes/pkg/kubelet.newRuntimeState
func newRuntimeState(threshold time.Duration) unsafe.Pointer

//go:linkname addHealthCheck k8s.io/kubernetes/pkg/kubelet.(*runtimeState).addHealthCheck
func addHealthCheck(s unsafe.Pointer, name string, f func() (bool, error))

//go:linkname runtimeErrors k8s.io/kubernetes/pkg/kubelet.(*runtimeState).runtimeErrors
func runtimeErrors(s unsafe.Pointer) error

//go:linkname networkErrors k8s.io/kubernetes/pkg/kubelet.(*runtimeState).networkErrors
func networkErrors(s unsafe.Pointer) error

//go:linkname storageErrors k8s.io/kubernetes/pkg/kubelet.(*runtimeState).storageErrors
func storageErrors(s unsafe.Pointer) error

//go:linkname runtimeHandlers k8s.io/kubernetes/pkg/kubelet.(*runtimeState).runtimeHandlers
func runtimeHandlers(s unsafe.Pointer) []kubecontainer.RuntimeHandler

//go:linkname runtimeFeatures k8s.io/kubernetes/pkg/kubelet.(*runtimeState).runtimeFeatures
func runtimeFeatures(s unsafe.Pointer) *kubecontainer.RuntimeFeatures

//go:linkname syncLoop k8s.io/kubernetes/pkg/kubelet.(*Kubelet).syncLoop
func syncLoop(kl *kubelet.Kubelet, ctx context.Context, updates <-chan kubetypes.PodUpdate, h kubelet.SyncHandler)

//go:linkname updateRuntimeUp k8s.io/kubernetes/pkg/kubelet.(*Kubelet).updateRuntimeUp
func updateRuntimeUp(kl *kubelet.Kubelet)

//go:linkname syncNodeStatus k8s.io/kubernetes/pkg/kubelet.(*Kubelet).syncNodeStatus
func syncNodeStatus(kl *kubelet.Kubelet)

//go:linkname fastStatusUpdateOnce k8s.io/kubernetes/pkg/kubelet.(*Kubelet).fastStatusUpdateOnce
func fastStatusUpdateOnce(kl *kubelet.Kubelet)

//go:linkname fastStaticPodsRegistration k8s.io/kubernetes/pkg/kubelet.(*Kubelet).fastStaticPodsRegistration
func fastStaticPodsRegistration(kl *kubelet.Kubelet, ctx context.Context)

//go:linkname recordEvent k8s.io/kubernetes/pkg/kubelet.(*Kubelet).recordEvent
func recordEvent(kl *kubelet.Kubelet, eventType, event, message string)

//go:linkname recordNodeStatusEvent k8s.io/kubernetes/pkg/kubelet.(*Kubelet).recordNodeStatusEvent
func recordNodeStatusEvent(kl *kubelet.Kubelet, eventType, event string)

//go:linkname recordNodeSchedulableEvent k8s.io/kubernetes/pkg/kubelet.(*Kubelet).recordNodeSchedulableEvent
func recordNodeSchedulableEvent(kl *kubelet.Kubelet, ctx context.Context, node *v1.Node) error

//go:linkname getAllocatedPods k8s.io/kubernetes/pkg/kubelet.(*Kubelet).getAllocatedPods
func getAllocatedPods(kl *kubelet.Kubelet) []*v1.Pod

//go:linkname updatePodCIDR k8s.io/kubernetes/pkg/kubelet.(*Kubelet).updatePodCIDR
func updatePodCIDR(kl *kubelet.Kubelet, ctx context.Context, cidr string) (bool, error)

//go:linkname makeEnvironmentVariables k8s.io/kubernetes/pkg/kubelet.(*Kubelet).makeEnvironmentVariables
func makeEnvironmentVariables(kl *kubelet.Kubelet, pod *v1.Pod, c *v1.Container, podIP string, podIPs []string, volumes kubecontainer.VolumeMap) ([]kubecontainer.EnvVar, error)

//go:linkname runtimeClassSupportsRecursiveReadOnlyMounts k8s.io/kubernetes/pkg/kubelet.(*Kubelet).runtimeClassSupportsRecursiveReadOnlyMounts
func runtimeClassSupportsRecursiveReadOnlyMounts(kl *kubelet.Kubelet, pod *v1.Pod) bool

//go:linkname makeMounts k8s.io/kubernetes/pkg/kubelet.makeMounts
func makeMounts(pod *v1.Pod, podDir string, c *v1.Container, hostName, hostDomain string, podIPs []string, volumes kubecontainer.VolumeMap, hu hostutil.HostUtils, sp subpath.Interface, envs []kubecontainer.EnvVar, supportsRRO bool, images kubecontainer.ImageVolumes) ([]kubecontainer.Mount, func(), error)

//go:linkname managedHostsFileContent k8s.io/kubernetes/pkg/kubelet.managedHostsFileContent
func managedHostsFileContent(hostIPs []string, hostName, hostDomainName string, aliases []v1.HostAlias) []byte

//go:linkname hostsEntriesFromHostAliases k8s.io/kubernetes/pkg/kubelet.hostsEntriesFromHostAliases
func hostsEntriesFromHostAliases(aliases []v1.HostAlias) []byte

//go:linkname parseResolvConf k8s.io/kubernetes/pkg/kubelet/network/dns.parseResolvConf
func parseResolvConf(r io.Reader) (nameservers, searches, options []string, err error)

//go:linkname applyStaticPodDefaults k8s.io/kubernetes/pkg/kubelet/config.applyDefaults
func applyStaticPodDefaults(logger klog.Logger, pod *api.Pod, source string, isFile bool, nodeName types.NodeName) error

//go:linkname tryDecodeSinglePod k8s.io/kubernetes/pkg/kubelet/config.tryDecodeSinglePod
func tryDecodeSinglePod(logger klog.Logger, data []byte, defaults func(klog.Logger, *api.Pod) error) (parsed bool, pod *v1.Pod, err error)

//go:linkname rebootEvent k8s.io/kubernetes/pkg/kubelet/nodestatus.rebootEvent
var rebootEvent sync.Once

// setField sets an unexported field of one of upstream's structs. It panics if there is no such field or v does not fit.
func setField(structure any, name string, v any) {
	f := fieldOf(structure, name)
	if p, ok := v.(unsafe.Pointer); ok && f.Kind() == reflect.Pointer {
		f.Set(reflect.NewAt(f.Type().Elem(), p))
		return
	}
	if v == nil {
		f.SetZero()
		return
	}
	f.Set(reflect.ValueOf(v))
}

// getField reads an unexported field of one of upstream's structs.
func getField(structure any, name string) any { return fieldOf(structure, name).Interface() }

func fieldOf(structure any, name string) reflect.Value {
	v := reflect.ValueOf(structure)
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	f := v.FieldByName(name)
	if !f.IsValid() {
		panic(fmt.Sprintf("kubelet: upstream's %s has no field %s", v.Type(), name))
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}
