package machine

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// mountKernelTrees makes /proc, /sys and /dev. They are made anew in every worker, so they are not frozen.
func (m *Machine) mountKernelTrees() error {
	for _, k := range []struct {
		target, kind string
		fill         func(t *filesystem.Tree, f kernel.Files) error
	}{{"/proc", "proc", m.fillProc}, {"/sys", "sysfs", m.fillSys}, {"/dev", "devtmpfs", m.fillDev}} {
		t := filesystem.NewTree(m.w, k.kind, 0)
		f, err := t.KernelFiles()
		if err != nil {
			return err
		}
		if err := k.fill(t, f); err != nil {
			return fmt.Errorf("%s: %w", k.target, err)
		}
		if err := m.view.Mount(filesystem.Mount{Target: k.target, Tree: t, Source: k.kind, Type: k.kind}); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) fillProc(t *filesystem.Tree, f kernel.Files) error {
	dynamic := func(name string, mode fs.FileMode, d filesystem.Dynamic) error {
		if err := f.MkdirAll(path.Dir(name), 0o555); err != nil {
			return err
		}
		return t.SetDynamic(f, name, mode, d)
	}
	readers := map[string]func() string{
		"/swaps":   m.procSwaps,
		"/modules": m.modules.proc,
		"/meminfo": m.procMeminfo,
		"/cpuinfo": m.procCPUInfo,
		"/uptime": func() string {
			up := time.Since(m.BootedAt()).Seconds()
			return fmt.Sprintf("%.2f %.2f\n", up, up*float64(m.Options().CPUs))
		},
		"/loadavg": func() string {
			return fmt.Sprintf("0.00 0.00 0.00 1/%d %d\n", len(m.host.Processes.List()), m.host.Processes.Next()-1)
		},
		"/version": func() string {
			return "Linux version " + m.Options().KernelVersion + " (buildd@lcy02-amd64-026) #89-Ubuntu SMP PREEMPT_DYNAMIC\n"
		},
		"/mounts": m.procMounts,
		"/filesystems": func() string {
			return "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tcgroup2\nnodev\tdevtmpfs\nnodev\toverlay\n\text4\n"
		},
		"/cmdline": func() string {
			return "BOOT_IMAGE=/vmlinuz-" + m.Options().KernelVersion + " root=/dev/vda1 ro console=tty1\n"
		},
		"/sys/kernel/random/boot_id": func() string { return m.BootID() + "\n" },
		"/sys/kernel/random/uuid":    func() string { return m.w.UUID("procfs") + "\n" },
		"/sys/kernel/osrelease":      func() string { return m.Options().KernelVersion + "\n" },
		"/sys/kernel/ostype":         func() string { return "Linux\n" },
	}
	for _, name := range sortedKeys(readers) {
		read := readers[name]
		if err := dynamic(name, 0o444, filesystem.Dynamic{Read: func() []byte { return []byte(read()) }}); err != nil {
			return err
		}
	}
	err := dynamic("/sys/kernel/hostname", 0o644, filesystem.Dynamic{
		Read:  func() []byte { return []byte(m.host.Name() + "\n") },
		Write: func(b []byte) error { m.host.SetName(strings.TrimSpace(string(b))); return nil },
	})
	if err != nil {
		return err
	}
	m.proc = newKernelTree(t, f)
	if err := m.showSettings(m.sysctl.own, true); err != nil {
		return err
	}
	t.SetGenerator(procfs{m})
	t.SetOfKernel()
	return nil
}

func (m *Machine) procMeminfo() string {
	total := m.Options().Memory >> 10
	var used int64 = 120 << 10 // the kernel, systemd and what else a fresh Ubuntu runs
	for _, p := range m.host.Processes.List() {
		used += p.Memory() >> 10
	}
	free := max(total-used-total/4, total/20)
	var swap int64
	for _, s := range m.Swaps() {
		swap += s.Size >> 10
	}
	return fmt.Sprintf("MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\nBuffers:        %8d kB\nCached:         %8d kB\nSwapCached:            0 kB\nSwapTotal:      %8d kB\nSwapFree:       %8d kB\n",
		total, free, max(total-used, 0), 30<<10, total/4, swap, swap)
}

func (m *Machine) procCPUInfo() string {
	var b strings.Builder
	for i := range m.Options().CPUs {
		fmt.Fprintf(&b, "processor\t: %d\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: Intel Xeon Processor (Cascadelake)\ncpu MHz\t\t: 2494.140\ncpu cores\t: 1\nflags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat clflush mmx fxsr sse sse2 ss syscall nx lm\n\n", i)
	}
	return b.String()
}

func (m *Machine) procMounts() string {
	var b strings.Builder
	for _, x := range m.view.Mounts() {
		mode := "rw"
		if x.ReadOnly {
			mode = "ro"
		}
		fmt.Fprintf(&b, "%s %s %s %s,relatime 0 0\n", x.Source, x.Target, x.Type, mode)
	}
	return b.String()
}

func (m *Machine) fillSys(t *filesystem.Tree, f kernel.Files) error {
	m.sys = newKernelTree(t, f)
	if err := f.MkdirAll("/fs/cgroup", 0o755); err != nil {
		return err
	}
	texts := map[string]string{
		"/fs/cgroup/cgroup.controllers":     "cpuset cpu io memory hugetlb pids rdma misc\n",
		"/fs/cgroup/cgroup.subtree_control": "cpuset cpu io memory hugetlb pids rdma misc\n",
		"/class/dmi/id/product_uuid":        m.w.UUID("dmi/"+m.name) + "\n",
		"/class/dmi/id/sys_vendor":          "QEMU\n",
		"/devices/system/cpu/online":        fmt.Sprintf("0-%d\n", m.options.CPUs-1),
	}
	for _, name := range sortedKeys(texts) {
		text := texts[name]
		if err := f.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := t.SetDynamic(f, name, 0o444, filesystem.Dynamic{Read: func() []byte { return []byte(text) }}); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) fillDev(t *filesystem.Tree, f kernel.Files) error {
	f.SetUmask(0)
	for _, d := range [][2]string{{"/null", "1:3"}, {"/zero", "1:5"}, {"/full", "1:7"}, {"/random", "1:8"}, {"/urandom", "1:9"}, {"/tty", "5:0"}, {"/kmsg", "1:11"}} {
		if err := t.SetDevice(f, d[0], 0o666, d[1]); err != nil {
			return err
		}
	}
	for _, d := range []string{"/pts", "/shm", "/mqueue"} {
		if err := f.Mkdir(d, 0o1777); err != nil {
			return err
		}
	}
	for _, l := range [][2]string{{"/proc/self/fd", "/fd"}, {"/proc/self/fd/0", "/stdin"}, {"/proc/self/fd/1", "/stdout"}, {"/proc/self/fd/2", "/stderr"}} {
		if err := f.Symlink(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}
