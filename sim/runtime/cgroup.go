package runtime

import (
	"sync"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// cgroup accounts for the memory of a container's processes and kills the largest of them when they hold more than the limit.
type cgroup struct {
	mu    sync.Mutex
	limit int64 // bytes, 0 is none
	used  map[*kernel.Process]int64
	oom   bool // the first process was killed, or another one
	peak  int64
}

func newCgroup(limit int64) *cgroup { return &cgroup{limit: limit, used: map[*kernel.Process]int64{}} }

func (g *cgroup) setLimit(limit int64) {
	g.mu.Lock()
	g.limit = limit
	g.mu.Unlock()
	g.enforce()
}

// Charge implements [kernel.Cgroup].
func (g *cgroup) Charge(p *kernel.Process, bytes int64) {
	g.mu.Lock()
	if bytes == 0 {
		delete(g.used, p)
	} else {
		g.used[p] = bytes
	}
	g.peak = max(g.peak, g.sum())
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
	var victim *kernel.Process
	for p, b := range g.used {
		if victim == nil || b > g.used[victim] || b == g.used[victim] && p.ID() < victim.ID() {
			victim = p
		}
	}
	g.oom = true
	g.mu.Unlock()
	victim.Signal(kernel.SIGKILL)
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
