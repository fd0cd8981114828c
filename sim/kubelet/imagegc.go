package kubelet

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/events"
	"k8s.io/kubernetes/pkg/kubelet/images"
	"k8s.io/kubernetes/pkg/kubelet/stats"
)

// imageManager is upstream's, which collects images that nobody needs when the disk runs full.
type imageManager struct {
	images.ImageGCManager
	runtime kubecontainer.Runtime
}

func (n *node) newImageManager(runtime kubecontainer.Runtime, tracers trace.TracerProvider, ref *v1.ObjectReference) (images.ImageGCManager, error) {
	kc := &n.s.KubeletConfiguration
	policy := images.ImageGCPolicy{MinAge: kc.ImageMinimumGCAge.Duration, MaxAge: kc.ImageMaximumGCAge.Duration,
		HighThresholdPercent: int(kc.ImageGCHighThresholdPercent), LowThresholdPercent: int(kc.ImageGCLowThresholdPercent)}
	m, err := images.NewImageGCManager(runtime, getField(n.kl, "StatsProvider").(*stats.Provider), nil, n.recorder, ref, policy, tracers)
	if err != nil {
		return nil, err
	}
	return imageManager{m, runtime}, nil
}

// Start implements images.ImageGCManager: each collection looks for new images anyway.
func (imageManager) Start(context.Context) {}

// GetImageList implements images.ImageGCManager. Upstream refreshes a cache every 30 s; asking costs nothing here.
func (m imageManager) GetImageList() ([]kubecontainer.Image, error) {
	return m.runtime.ListImages(context.Background())
}

// collectImages is the second half of upstream's StartGarbageCollection.
func (n *node) collectImages() {
	kc := &n.s.KubeletConfiguration
	if kc.ImageGCHighThresholdPercent == 100 && kc.ImageMaximumGCAge.Duration == 0 {
		return
	}
	failed, began := false, time.Now()
	n.collect(func() {
		err := n.images.GarbageCollect(n.p.Context(), began)
		switch {
		case err == nil || !n.p.Alive():
			failed = false
		case failed:
			logAt(n.p, "kubelet.go", 1652).Error(err, "Image garbage collection failed multiple times in a row")
			n.recorder.Event(n.ref(), v1.EventTypeWarning, events.ImageGCFailed, err.Error())
		default:
			failed = true
			logAt(n.p, "kubelet.go", 1656).Error(err, "Image garbage collection failed once. Stats initialization may not have completed yet")
		}
	}, imageGCPeriod)
}
