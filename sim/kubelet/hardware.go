package kubelet

import (
	"context"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"

	"ckadrill/sim/kernel"
)

// hardware answers what upstream asks of cAdvisor, from the files that cAdvisor reads: /proc, /sys, /etc. A machine that
// lacks one of them counts as a small one.
type hardware struct {
	p *kernel.Process
	// reserved is how many bytes of memory Pods may not have.
	reserved uint64
}

const (
	defaultCores  = 2
	defaultMemory = 2 << 30
	defaultKernel = "6.8.0-63-generic"
	defaultOS     = "Ubuntu 24.04.2 LTS"
)

func (h hardware) text(name string) string {
	b, err := h.p.Files.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// MachineInfo implements cadvisor.Interface.
func (h hardware) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	m := &cadvisorapi.MachineInfo{
		Timestamp:      time.Now(),
		NumCores:       strings.Count("\n"+h.text("/proc/cpuinfo"), "\nprocessor"),
		MemoryCapacity: h.memory(),
		MachineID:      h.text("/etc/machine-id"),
		SystemUUID:     h.text("/sys/class/dmi/id/product_uuid"),
		BootID:         h.text("/proc/sys/kernel/random/boot_id"),
	}
	if m.NumCores == 0 {
		m.NumCores = defaultCores
	}
	m.NumPhysicalCores, m.NumSockets = m.NumCores, 1
	if m.SystemUUID == "" && len(m.MachineID) == 32 {
		// A virtual machine without DMI tables reports its machine id in this form.
		i := m.MachineID
		m.SystemUUID = i[:8] + "-" + i[8:12] + "-" + i[12:16] + "-" + i[16:20] + "-" + i[20:]
	}
	for i := range m.NumCores {
		if len(m.Topology) == 0 {
			m.Topology = []cadvisorapi.Node{{Memory: m.MemoryCapacity}}
		}
		m.Topology[0].Cores = append(m.Topology[0].Cores, cadvisorapi.Core{Id: i, Threads: []int{i}})
	}
	return m, nil
}

// memory is MemTotal of /proc/meminfo, in bytes.
func (h hardware) memory() uint64 {
	if m := h.meminfo("MemTotal:"); m > 0 {
		return m
	}
	return defaultMemory
}

// VersionInfo implements cadvisor.Interface.
func (h hardware) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	v := &cadvisorapi.VersionInfo{KernelVersion: h.text("/proc/sys/kernel/osrelease"), ContainerOsVersion: defaultOS}
	if v.KernelVersion == "" {
		v.KernelVersion = defaultKernel
	}
	for line := range strings.Lines(h.text("/etc/os-release")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			v.ContainerOsVersion = strings.Trim(name, `"'`)
		}
	}
	return v, nil
}

// GetDirFsInfo implements cadvisor.Interface: the size of the file system that holds a directory.
func (h hardware) GetDirFsInfo(path string) (cadvisorapiv2.FsInfo, error) {
	size, free, err := h.p.Files.Usage(path)
	if err != nil {
		return cadvisorapiv2.FsInfo{}, err
	}
	all, unused, err := h.p.Files.InodeUsage(path)
	if err != nil {
		return cadvisorapiv2.FsInfo{}, err
	}
	inodes, inodesFree := uint64(all), uint64(unused)
	return cadvisorapiv2.FsInfo{Timestamp: time.Now(), Device: "/dev/vda1", Mountpoint: "/", Capacity: uint64(size),
		Available: uint64(free), Usage: uint64(size - free), Inodes: &inodes, InodesFree: &inodesFree}, nil
}

// RootFsInfo implements cadvisor.Interface.
func (h hardware) RootFsInfo() (cadvisorapiv2.FsInfo, error) { return h.GetDirFsInfo("/") }

// ImagesFsInfo implements cadvisor.Interface.
func (h hardware) ImagesFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) {
	return h.GetDirFsInfo("/")
}

// ContainerFsInfo implements cadvisor.Interface.
func (h hardware) ContainerFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) {
	return h.GetDirFsInfo("/")
}

// Start implements cadvisor.Interface.
func (hardware) Start() error { return nil }

// versionKey is where a machine's installed version of the kubelet is attached to its host.
type versionKey struct{}

// defaultVersion is what a machine without package data runs; commit is what client-go says of a build that does not know its own.
const (
	defaultVersion = "v1.35.9"
	commit         = "unknown"
)

// SetVersion says which version ("v1.35.9") the kubelet of a machine reports, whatever its packages say.
func SetVersion(h *kernel.Host, v string) { h.Attach(versionKey{}, v) }

// version is the version of the kubelet: the one set, else that of the file it was started from, else the default.
func version(p *kernel.Process) string {
	if v, ok := p.Host().Attached(versionKey{}).(string); ok {
		return v
	}
	return p.Version(defaultVersion)
}
