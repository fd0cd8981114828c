package kubelet

import (
	"context"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"

	"ckadrill/sim/kernel"
)

// podSync is upstream's Kubelet as its Pod workers call it, plus the Pod's directories on the machine.
type podSync struct {
	*kubelet.Kubelet
	n *node
}

// SyncPod implements upstream's podSyncer.
func (s *podSync) SyncPod(ctx context.Context, t kubetypes.SyncPodType, pod, mirror *v1.Pod, status *kubecontainer.PodStatus) (bool, error) {
	if was, ok := s.n.rest.take(pod); ok {
		s.n.goOn(ctx, pod, mirror, was)
		return false, nil
	}
	s.n.syncs.set(pod.UID, true)
	defer s.n.syncs.set(pod.UID, false)
	quiet := hushOf(s.n.p)
	quiet.knew(pod)
	defer quiet.synced(pod.UID)
	if err := s.n.p.AwaitDate(); err != nil {
		return false, err
	}
	if t == kubetypes.SyncPodCreate {
		s.n.p.World().Trace.Add(kernel.Step{Actor: "kubelet", Verb: "sync", Subject: "pods/" + pod.Namespace + "/" + pod.Name,
			Detail: "the Pod is assigned to this node", Cause: s.n.causeOf(pod)})
	}
	for _, d := range []string{"volumes", "plugins"} {
		if err := s.n.p.Files.MkdirAll(path.Join(s.n.podDir(pod.UID), d), 0o750); err != nil {
			s.n.recorder.Eventf(pod, v1.EventTypeWarning, "FailedToMakePodDataDirectories", "error making pod data directories: %v", err)
			logAt(s.n.p, "kubelet.go", 2150).Error(err, "Unable to make pod data directories for pod", "pod", kubecontainer.GetPodFullName(pod))
			return false, err
		}
	}
	s.react()
	if mirror != nil && mirror.DeletionTimestamp != nil && s.gone(ctx, mirror) {
		mirror = nil
	}
	terminal, err := s.Kubelet.SyncPod(ctx, t, pod, mirror, status)
	s.n.saveCheckpoints()
	if err != nil && strings.Contains(err.Error(), kubelet.NetworkNotReadyErrorMsg) {
		s.n.pace.Look() // upstream mounts the volumes of a Pod that it does not sync further
	}
	return terminal, err
}

// gone says whether a mirror Pod that was forced to go is no more. A forced deletion is two writes of the API server, and a
// real kubelet that has seen the first deletes the mirror Pod before the second, and so makes a new one. Here nothing comes
// between the two.
func (s *podSync) gone(ctx context.Context, mirror *v1.Pod) bool {
	if s.n.clients == nil || s.n.clients.Kube == nil {
		return false
	}
	_, err := s.n.clients.Kube.CoreV1().Pods(mirror.Namespace).Get(ctx, mirror.Name, metav1.GetOptions{})
	// The node authorizer does not let a kubelet get a Pod that is none of its node's, such as one that is gone.
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}

// react takes the time that the machine would need.
func (s *podSync) react() { s.n.p.Sleep(podReaction) }

// SyncTerminatingPod implements upstream's podSyncer.
func (s *podSync) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, status *kubecontainer.PodStatus, grace *int64, f func(*v1.PodStatus)) error {
	hushOf(s.n.p).knew(pod)
	if err := s.n.p.AwaitDate(); err != nil {
		return err
	}
	s.react()
	return s.Kubelet.SyncTerminatingPod(ctx, pod, status, grace, f)
}

// SyncTerminatedPod implements upstream's podSyncer.
func (s *podSync) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *kubecontainer.PodStatus) error {
	hushOf(s.n.p).knew(pod)
	if err := s.n.p.AwaitDate(); err != nil {
		return err
	}
	err := s.Kubelet.SyncTerminatedPod(ctx, pod, status)
	s.n.syncs.forget(pod.UID)
	s.n.saveCheckpoints()
	return err
}

func (n *node) saveCheckpoints() {
	if !n.p.Alive() {
		return
	}
	if err := n.root.saveCheckpoints(n.p.Files); err != nil {
		logAt(n.p, "state_checkpoint.go", 91).Error(err, "Failed to write pod allocation checkpoint")
	}
}

func (n *node) podDir(uid types.UID) string { return path.Join(n.root.machine, "pods", string(uid)) }

// causeOf names what a Pod runs because of: its manifest on the machine, or its binding.
func (n *node) causeOf(pod *v1.Pod) string {
	if kubetypes.IsStaticPod(pod) {
		return "file/" + n.p.Host().Name() + ":" + n.s.StaticPodPath
	}
	return "pods/" + pod.Namespace + "/" + pod.Name + "/binding"
}

// handler is upstream's Kubelet as its sync loop calls it, plus the cleaning of the machine's Pod directories.
type handler struct {
	*kubelet.Kubelet
	n *node
}

// HandlePodCleanups implements kubelet.SyncHandler.
func (h handler) HandlePodCleanups(ctx context.Context) error {
	err := h.Kubelet.HandlePodCleanups(ctx)
	h.n.removeOrphans()
	return err
}

// removeOrphans removes the directories of Pods that are gone, as upstream's cleanupOrphanedPodDirs does on the host.
func (n *node) removeOrphans() {
	entries, err := n.p.Files.ReadDir(path.Join(n.root.machine, "pods"))
	if err != nil {
		return
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		if _, ok := n.pods.GetPodByUID(uid); ok || n.workers.CouldHaveRunningContainers(uid) || n.volumes.HasPossiblyMountedVolumesForPod(volumetypes.UniquePodName(uid)) {
			continue
		}
		dir := n.podDir(uid)
		if err := n.p.Files.RemoveAll(dir); err != nil {
			logAt(n.p, "kubelet_volumes.go", 245).Error(err, "Failed to remove orphaned pod dir", "podUID", uid, "path", dir)
			continue
		}
		logAt(n.p, "kubelet_volumes.go", 163).Info("Cleaned up orphaned pod volumes dir", "podUID", uid, "path", path.Join(dir, "volumes"))
	}
}
