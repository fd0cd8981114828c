package kubelet

import (
	"context"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	serverstats "k8s.io/kubernetes/pkg/kubelet/server/stats"
	"k8s.io/kubernetes/pkg/volume"

	"ckadrill/sim/kernel"
)

// nodeStats is the kubelet as upstream's summaries see it. What upstream would measure in the files of its host is measured
// in the machine's.
type nodeStats struct {
	*kubelet.Kubelet
	p    *kernel.Process
	logs string // directory of the Pods' logs
	pods string // directory of the Pods
	n    *node
}

var _ serverstats.Provider = nodeStats{}

// newAnalyzer is upstream's NewResourceAnalyzer for a kubelet on a machine.
func (n *node) newAnalyzer(ctx context.Context) serverstats.ResourceAnalyzer {
	s := nodeStats{Kubelet: n.kl, p: n.p, logs: n.s.PodLogsDir, pods: path.Join(n.root.machine, "pods"), n: n}
	a := serverstats.NewResourceAnalyzer(ctx, s, n.s.VolumeStatsAggPeriod.Duration, n.recorder)
	setField(getField(a, "SummaryProvider"), "systemBootTime", metav1.NewTime(n.hw.bootTime()))
	return a
}

// bootTime is when the machine was started, as /proc/uptime says.
func (h hardware) bootTime() time.Time {
	up, _, _ := strings.Cut(h.text("/proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return h.p.StartTime()
	}
	return time.Now().Add(-time.Duration(seconds * float64(time.Second)))
}

// GetPods implements serverstats.Provider; upstream's collectors run for ever, these end with their kubelet.
func (s nodeStats) GetPods() []*v1.Pod {
	endIfDead(s.p)
	return s.Kubelet.GetPods()
}

// ListVolumesForPod implements serverstats.Provider, see [nodeStats.GetPods].
func (s nodeStats) ListVolumesForPod(uid types.UID) (map[string]volume.Volume, bool) {
	endIfDead(s.p)
	return s.Kubelet.ListVolumesForPod(uid)
}

// ListPodStats implements serverstats.Provider.
func (s nodeStats) ListPodStats(ctx context.Context) ([]statsapi.PodStats, error) {
	return s.withFiles(s.Kubelet.ListPodStats(ctx))
}

// ListPodStatsAndUpdateCPUNanoCoreUsage implements serverstats.Provider.
func (s nodeStats) ListPodStatsAndUpdateCPUNanoCoreUsage(ctx context.Context) ([]statsapi.PodStats, error) {
	return s.withFiles(s.Kubelet.ListPodStatsAndUpdateCPUNanoCoreUsage(ctx))
}

// ListPodCPUAndMemoryStats implements serverstats.Provider, for /metrics/resource. Upstream's answer from the CRI alone, an
// alpha feature that the other statistics are taken by, knows no containers here.
func (s nodeStats) ListPodCPUAndMemoryStats(ctx context.Context) ([]statsapi.PodStats, error) {
	return s.n.resourceStats.ListPodCPUAndMemoryStats(ctx)
}

// RlimitStats implements serverstats.Provider.
func (s nodeStats) RlimitStats() (*statsapi.RlimitStats, error) {
	h := hardware{p: s.p}
	r := &statsapi.RlimitStats{Time: metav1.Now()}
	if most, err := strconv.ParseInt(h.text("/proc/sys/kernel/pid_max"), 10, 64); err == nil {
		r.MaxPID = &most
	}
	running := int64(len(s.p.Host().Processes.List()))
	r.NumOfRunningProcesses = &running
	return r, nil
}

// withFiles adds what containers have logged and the Pods' own files, as upstream's hostStatsProvider does.
func (s nodeStats) withFiles(l []statsapi.PodStats, err error) ([]statsapi.PodStats, error) {
	for i := range l {
		p := &l[i]
		var all diskUsage
		for j := range p.Containers {
			c := &p.Containers[j]
			u := s.filesIn(kuberuntime.BuildContainerLogsDirectory(s.logs, p.PodRef.Namespace, p.PodRef.Name, types.UID(p.PodRef.UID), c.Name))
			c.Logs = fsStats(c.Rootfs, u)
			all.add(u)
		}
		if i, err := s.p.Files.Stat(path.Join(s.pods, p.PodRef.UID, "etc-hosts")); err == nil {
			all.add(diskUsage{kernel.DiskUsage(i.Mode(), i.Size()), 1})
		}
		if e := p.EphemeralStorage; e != nil && e.UsedBytes != nil {
			used := *e.UsedBytes + uint64(all.bytes)
			e.UsedBytes = &used
		}
	}
	return l, err
}

// diskUsage is what du says, in bytes and inodes.
type diskUsage struct{ bytes, inodes int64 }

func (u *diskUsage) add(v diskUsage) { u.bytes, u.inodes = u.bytes+v.bytes, u.inodes+v.inodes }

// filesIn measures the files of a directory, not those below it.
func (s nodeStats) filesIn(dir string) diskUsage {
	var u diskUsage
	entries, err := s.p.Files.ReadDir(dir)
	if err != nil {
		return u
	}
	for _, e := range entries {
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() {
			u.add(diskUsage{kernel.DiskUsage(i.Mode(), i.Size()), 1})
		}
	}
	return u
}

// fsStats are those of files on the file system that a container's root is on.
func fsStats(root *statsapi.FsStats, u diskUsage) *statsapi.FsStats {
	s := &statsapi.FsStats{Time: metav1.Now()}
	if root != nil {
		s.AvailableBytes, s.CapacityBytes, s.InodesFree, s.Inodes = root.AvailableBytes, root.CapacityBytes, root.InodesFree, root.Inodes
	}
	bytes, inodes := uint64(u.bytes), uint64(u.inodes)
	s.UsedBytes, s.InodesUsed = &bytes, &inodes
	return s
}

// noHostFiles hides the Pods' logs from upstream's hostStatsProvider: it would look for them on the host, see
// [nodeStats.withFiles].
type noHostFiles struct{ kubecontainer.OSInterface }

// ReadDir implements kubecontainer.OSInterface.
func (noHostFiles) ReadDir(string) ([]os.DirEntry, error) { return nil, nil }
