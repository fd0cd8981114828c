package runtime

import (
	"context"
	"fmt"
	"path"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Programs say what processor time and memory they use; beside that a running container costs a little.
const (
	startCPU    = 23 * time.Millisecond // runc and the dynamic linker
	baseMemory  = 600 << 10             // of a process that has not said what it holds
	defaultRoot = "/var/lib/containerd"
	// snapshotterDir is where images and containers lie, below containerd's root.
	snapshotterDir = "io.containerd.snapshotter.v1.overlayfs"
)

func uint64Value(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

// snapshots is the directory of the snapshotter.
func (c *Containerd) snapshots() string {
	root := defaultRoot
	if c.daemon != nil {
		root = c.daemon.config.Root
	}
	return path.Join(root, snapshotterDir)
}

// statsOf accounts for a container. The lock is held.
func (c *Containerd) statsOf(k *container) *runtimeapi.ContainerStats {
	now := time.Now()
	s := &runtimeapi.ContainerStats{
		Attributes:    &runtimeapi.ContainerAttributes{Id: k.ID, Metadata: k.Config.Metadata, Labels: k.Config.Labels, Annotations: k.Config.Annotations},
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: now.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: c.snapshots()}},
	}
	if k.root != nil {
		bytes, inodes := k.root.usage()
		s.WritableLayer.UsedBytes, s.WritableLayer.InodesUsed = uint64Value(bytes), uint64Value(inodes)
	}
	if k.proc == nil {
		return s
	}
	memory := k.cgroup.usage()
	if memory == 0 {
		memory = baseMemory
	}
	used := uint64(startCPU + k.cgroup.spent())
	s.Cpu = &runtimeapi.CpuUsage{Timestamp: now.UnixNano(), UsageCoreNanoSeconds: uint64Value(used), UsageNanoCores: uint64Value(k.sample(now, used))}
	m := uint64(memory)
	s.Memory = &runtimeapi.MemoryUsage{Timestamp: now.UnixNano(), WorkingSetBytes: uint64Value(m), UsageBytes: uint64Value(m), RssBytes: uint64Value(m), PageFaults: uint64Value(0), MajorPageFaults: uint64Value(0)}
	if limit := k.Resources.GetLinux().GetMemoryLimitInBytes(); limit > 0 {
		s.Memory.AvailableBytes = uint64Value(uint64(max(0, limit-memory)))
	}
	s.Swap = &runtimeapi.SwapUsage{Timestamp: now.UnixNano(), SwapUsageBytes: uint64Value(0)}
	return s
}

// cpuSample is how a rate is measured: from the usage at the last sample, at least ten seconds ago, as containerd collects.
type cpuSample struct {
	at   time.Time
	used uint64
	rate uint64 // nanocores
}

const samplePeriod = 10 * time.Second

// sample returns the rate at which the container uses processors. The lock is held.
func (k *container) sample(now time.Time, used uint64) uint64 {
	s := &k.cpuSample
	switch age := now.Sub(s.at); {
	case s.at.IsZero():
		*s = cpuSample{now, used, 0}
	case age >= samplePeriod:
		*s = cpuSample{now, used, uint64(float64(used-s.used) / age.Seconds())}
	}
	return s.rate
}

// ContainerStats implements the CRI.
func (s *service) ContainerStats(_ context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.containerByID(r.ContainerId)
	if err != nil {
		return nil, fmt.Errorf("failed to find container: %w", err)
	}
	return &runtimeapi.ContainerStatsResponse{Stats: s.statsOf(k)}, nil
}

// ListContainerStats implements the CRI: of running containers.
func (s *service) ListContainerStats(_ context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &runtimeapi.ContainerFilter{Id: r.GetFilter().GetId(), PodSandboxId: r.GetFilter().GetPodSandboxId(), LabelSelector: r.GetFilter().GetLabelSelector()}
	res := &runtimeapi.ListContainerStatsResponse{}
	for _, k := range s.filterContainers(f) {
		if k.proc != nil {
			res.Stats = append(res.Stats, s.statsOf(k))
		}
	}
	return res, nil
}

func (c *Containerd) sandboxStats(b *sandbox) *runtimeapi.PodSandboxStats {
	now := time.Now().UnixNano()
	l := &runtimeapi.LinuxPodSandboxStats{}
	var cpu, cores, memory uint64
	for _, k := range c.containersOf(b.ID) {
		if k.proc == nil {
			continue
		}
		st := c.statsOf(k)
		cpu += st.Cpu.UsageCoreNanoSeconds.Value
		cores += st.Cpu.UsageNanoCores.Value
		memory += st.Memory.WorkingSetBytes.Value
		l.Containers = append(l.Containers, st)
	}
	l.Cpu = &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: uint64Value(cpu), UsageNanoCores: uint64Value(cores)}
	l.Memory = &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: uint64Value(memory), UsageBytes: uint64Value(memory), RssBytes: uint64Value(memory)}
	l.Process = &runtimeapi.ProcessUsage{Timestamp: now, ProcessCount: uint64Value(uint64(len(l.Containers) + 1))}
	return &runtimeapi.PodSandboxStats{Attributes: &runtimeapi.PodSandboxAttributes{Id: b.ID, Metadata: b.Config.Metadata, Labels: b.Config.Labels, Annotations: b.Config.Annotations}, Linux: l}
}

// PodSandboxStats implements the CRI.
func (s *service) PodSandboxStats(_ context.Context, r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.sandboxByID(r.PodSandboxId)
	if err != nil {
		return nil, fmt.Errorf("an error occurred when trying to find sandbox %s: %w", r.PodSandboxId, err)
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.sandboxStats(b)}, nil
}

// ListPodSandboxStats implements the CRI: of ready sandboxes.
func (s *service) ListPodSandboxStats(ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	f := &runtimeapi.PodSandboxFilter{Id: r.GetFilter().GetId(), LabelSelector: r.GetFilter().GetLabelSelector(), State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}}
	l, err := s.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: f})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, i := range l.Items {
		if b := s.sandboxes[i.Id]; b != nil {
			res.Stats = append(res.Stats, s.sandboxStats(b))
		}
	}
	return res, nil
}
