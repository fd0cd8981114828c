package runtime

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// cgroup accounts for the memory and processor time of a container's processes. When they hold more than the limit, all of
// them are killed, as with memory.oom.group, which the kubelet sets.
type cgroup struct {
	mu    sync.Mutex
	limit int64 // bytes, 0 is none
	used  map[*kernel.Process]int64
	oom   bool

	cpu    *kernel.CPUMeter
	cores  float64       // what may be used of processors, 0 is all
	budget time.Duration // that may be used at once, below a quota
	at     time.Time     // of the last addition to the budget
}

func newCgroup(w *kernel.World, r *runtimeapi.LinuxContainerResources, cpu time.Duration) *cgroup {
	g := &cgroup{used: map[*kernel.Process]int64{}, cpu: kernel.NewCPUMeter(w, cpu), at: time.Now()}
	g.set(r)
	return g
}

// set takes over limits, and enforces them.
func (g *cgroup) set(r *runtimeapi.LinuxContainerResources) {
	g.mu.Lock()
	g.limit, g.cores = r.GetMemoryLimitInBytes(), 0
	if q, p := r.GetCpuQuota(), r.GetCpuPeriod(); q > 0 && p > 0 {
		g.cores = float64(q) / float64(p)
	}
	g.mu.Unlock()
	g.enforce()
}

// Spend implements [kernel.Cgroup]: what is beyond the quota is not granted.
func (g *cgroup) Spend(_ *kernel.Process, d time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cores > 0 {
		now := time.Now()
		most := time.Duration(g.cores * float64(time.Second))
		g.budget = min(most, g.budget+time.Duration(g.cores*float64(now.Sub(g.at))))
		g.at = now
		d = min(d, g.budget)
		g.budget -= d
	}
	g.cpu.Spend(d)
	return d
}

// Steady implements [kernel.Cgroup].
func (g *cgroup) Steady(_ *kernel.Process, cores float64) { g.cpu.Steady(cores) }

// spent is the processor time used so far.
func (g *cgroup) spent() time.Duration { return g.cpu.Total() }

// Charge implements [kernel.Cgroup].
func (g *cgroup) Charge(p *kernel.Process, bytes int64) {
	g.mu.Lock()
	if bytes == 0 {
		delete(g.used, p)
	} else {
		g.used[p] = bytes
	}
	g.mu.Unlock()
	if bytes > 0 {
		g.enforce()
	}
}

func (g *cgroup) sum() (n int64) {
	for _, b := range g.used {
		n += b
	}
	return n
}

func (g *cgroup) enforce() {
	g.mu.Lock()
	if g.limit <= 0 || g.sum() <= g.limit {
		g.mu.Unlock()
		return
	}
	g.oom = true
	var host *kernel.Host
	for p := range g.used {
		host = p.Host()
	}
	g.mu.Unlock()
	for _, p := range host.Processes.List() {
		if p.Cgroup == kernel.Cgroup(g) {
			p.Signal(kernel.SIGKILL)
		}
	}
}

// killed says whether the out-of-memory killer has struck in the cgroup.
func (g *cgroup) killed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.oom
}

func (g *cgroup) usage() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sum()
}

func protoClone[M proto.Message](m M) M { return proto.Clone(m).(M) }

// mergeResources takes over what an update sets, as containerd's copy of the OCI spec does.
func mergeResources(to, from *runtimeapi.LinuxContainerResources) {
	if from == nil {
		return
	}
	for _, f := range []struct {
		to   *int64
		from int64
	}{
		{&to.CpuPeriod, from.CpuPeriod}, {&to.CpuQuota, from.CpuQuota}, {&to.CpuShares, from.CpuShares}, {&to.MemoryLimitInBytes, from.MemoryLimitInBytes},
		{&to.OomScoreAdj, from.OomScoreAdj}, {&to.MemorySwapLimitInBytes, from.MemorySwapLimitInBytes},
	} {
		if f.from != 0 {
			*f.to = f.from
		}
	}
	setString(&to.CpusetCpus, from.CpusetCpus)
	setString(&to.CpusetMems, from.CpusetMems)
}
