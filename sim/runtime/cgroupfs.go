package runtime

import (
	"fmt"
	"math"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// cgroupTree is what a container sees of cgroup v2 in its own namespace: the limits of its cgroup.
func (c *Containerd) cgroupTree(k *container) (*filesystem.Tree, error) {
	return c.build("cgroup", func(t *filesystem.Tree, files kernel.Files) error {
		limits := func() *runtimeapi.LinuxContainerResources {
			c.mu.Lock()
			defer c.mu.Unlock()
			return k.Resources.GetLinux()
		}
		for _, f := range []struct {
			name string
			read func(*runtimeapi.LinuxContainerResources) string
		}{
			{"/cgroup.controllers", func(*runtimeapi.LinuxContainerResources) string { return "cpuset cpu io memory hugetlb pids rdma misc" }},
			{"/cgroup.type", func(*runtimeapi.LinuxContainerResources) string { return "domain" }},
			{"/cpu.max", cpuMax},
			{"/cpu.weight", func(r *runtimeapi.LinuxContainerResources) string {
				return strconv.FormatUint(cpuWeight(uint64(max(r.GetCpuShares(), 0))), 10)
			}},
			{"/memory.max", func(r *runtimeapi.LinuxContainerResources) string { return bytesOrMax(r.GetMemoryLimitInBytes()) }},
			{"/memory.swap.max", func(*runtimeapi.LinuxContainerResources) string { return "0" }},
		} {
			if err := t.SetDynamic(files, f.name, 0o444, filesystem.Dynamic{Read: func() []byte { return []byte(f.read(limits()) + "\n") }}); err != nil {
				return err
			}
		}
		t.SetOfKernel()
		return nil
	})
}

// standardPeriod is the CFS period of a cgroup that was given none, in microseconds.
const standardPeriod = 100000

func cpuMax(r *runtimeapi.LinuxContainerResources) string {
	period := r.GetCpuPeriod()
	if period == 0 {
		period = standardPeriod
	}
	if r.GetCpuQuota() <= 0 {
		return fmt.Sprintf("max %d", period)
	}
	return fmt.Sprintf("%d %d", r.GetCpuQuota(), period)
}

func bytesOrMax(n int64) string {
	if n <= 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

// cpuWeight is the weight in cgroup v2 of the shares of v1, as runc converts them (opencontainers/cgroups,
// ConvertCPUSharesToCgroupV2Value): a curve through the smallest, the standard and the largest of both.
func cpuWeight(shares uint64) uint64 {
	switch {
	case shares == 0: // none was asked for
		return 100
	case shares <= 2:
		return 1
	case shares >= 262144:
		return 10000
	}
	l := math.Log2(float64(shares))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}
