package kubelet

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	cadvisormemory "github.com/google/cadvisor/cache/memory"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"

	"ckadrill/sim/kernel"
)

// rootCgroup is that of the whole machine.
const rootCgroup = "/"

// ContainerInfoV2 implements cadvisor.Interface for the cgroups whose usage a kubelet asks for: the machine's, that of all
// Pods, and those of systemd's units. Containers are asked of the runtime.
func (h hardware) ContainerInfoV2(name string, _ cadvisorapiv2.RequestOptions) (map[string]cadvisorapiv2.ContainerInfo, error) {
	u, err := h.cgroup(name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s := &cadvisorapiv2.ContainerStats{
		Timestamp: now,
		Cpu:       &cadvisorapi.CpuStats{Usage: cadvisorapi.CpuUsage{Total: u.cpu}},
		Memory:    &cadvisorapi.MemoryStats{Usage: u.memory, WorkingSet: u.memory, RSS: u.memory},
		Processes: &cadvisorapi.ProcessStats{ProcessCount: u.processes},
	}
	spec := cadvisorapiv2.ContainerSpec{CreationTime: h.bootTime(), HasCpu: true, HasMemory: true, HasProcesses: true}
	switch {
	case name == rootCgroup:
		spec.Memory.Limit = h.memory()
	case podsCgroup(name):
		spec.Memory.Limit = h.memory() - min(h.memory(), h.reserved)
	default:
		spec.Memory.Limit = math.MaxUint64
	}
	return map[string]cadvisorapiv2.ContainerInfo{name: {Spec: spec, Stats: []*cadvisorapiv2.ContainerStats{s}}}, nil
}

// GetRequestedContainersInfo implements cadvisor.Interface: nothing that is simulated asks for it.
func (hardware) GetRequestedContainersInfo(string, cadvisorapiv2.RequestOptions) (map[string]*cadvisorapi.ContainerInfo, error) {
	return nil, fmt.Errorf("ckadrill does not simulate cAdvisor's own container statistics")
}

// cgroupUsage is what a cgroup uses: processor time in nanoseconds, memory in bytes.
type cgroupUsage struct{ cpu, memory, processes uint64 }

// kernelNanocores is what an idle machine uses beside the processes that say what they use.
const kernelNanocores = 20_000_000

// podsCgroup says whether this is the cgroup that holds all Pods, see [containerManager.GetPodCgroupRoot].
func podsCgroup(name string) bool { return name == "/kubepods" || name == "/kubepods.slice" }

// cgroup measures a cgroup by its processes.
func (h hardware) cgroup(name string) (cgroupUsage, error) {
	var belongs func(p *kernel.Process) bool
	unit, isUnit := strings.CutPrefix(name, "/system.slice/")
	switch {
	case name == rootCgroup:
		belongs = func(*kernel.Process) bool { return true }
	case podsCgroup(name):
		belongs = func(p *kernel.Process) bool { return p.Container != "" }
	case isUnit:
		belongs = func(p *kernel.Process) bool { return p.Container == "" && p.Unit == unit }
	default:
		return cgroupUsage{}, cadvisormemory.ErrDataNotFound
	}
	var u cgroupUsage
	for _, p := range h.p.Host().Processes.List() {
		if belongs(p) {
			if name != rootCgroup {
				u.cpu += uint64(p.CPU())
			}
			u.memory += uint64(p.Memory())
			u.processes++
		}
	}
	if name == rootCgroup {
		u.cpu = uint64(h.p.Host().CPU()) + uint64(time.Since(h.bootTime()).Seconds()*kernelNanocores)
		if available := h.meminfo("MemAvailable:"); available > 0 {
			u.memory = h.memory() - available
		}
	}
	return u, nil
}

// meminfo is a value of /proc/meminfo in bytes, 0 if there is none.
func (h hardware) meminfo(key string) uint64 {
	for line := range strings.Lines(h.text("/proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == key {
			if kib, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
