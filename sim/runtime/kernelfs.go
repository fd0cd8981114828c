package runtime

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// kernelMounts makes a container's /proc, /dev and /sys: what its processes are seen through, its devices, its streams.
func (c *Containerd) kernelMounts(k *container, b *sandbox) ([]filesystem.Mount, error) {
	dev, err := c.devTree()
	if err != nil {
		return nil, err
	}
	proc, err := c.procTree(k, b)
	if err != nil {
		return nil, err
	}
	l := []filesystem.Mount{{Target: "/proc", Tree: proc, Source: "proc", Type: "proc"}}
	l = append(l, c.settingMounts(k, b, proc)...)
	l = append(l, filesystem.Mount{Target: "/dev", Tree: dev, Source: "tmpfs", Type: "tmpfs"})
	if tree, root := c.locate("/sys"); tree != nil {
		if i, err := c.files().Stat("/sys"); err == nil && i.IsDir() {
			l = append(l, filesystem.Mount{Target: "/sys", Tree: tree, Root: root, ReadOnly: !c.privileged(k), Source: "sysfs", Type: "sysfs"})
			cgroup, err := c.cgroupTree(k)
			if err != nil {
				return nil, err
			}
			l = append(l, filesystem.Mount{Target: "/sys/fs/cgroup", Tree: cgroup, ReadOnly: !c.privileged(k), Source: "cgroup", Type: "cgroup2"})
		}
	}
	return l, nil
}

func (c *Containerd) privileged(k *container) bool {
	return k.Config.GetLinux().GetSecurityContext().GetPrivileged()
}

// build makes a tree and calls f to fill it.
func (c *Containerd) build(device string, f func(t *filesystem.Tree, files kernel.Files) error) (*filesystem.Tree, error) {
	t := filesystem.NewTree(c.w, device, 64<<20)
	v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: t}})
	if err != nil {
		return nil, err
	}
	files := v.Files(kernel.Root)
	files.SetUmask(0)
	return t, f(t, files)
}

// devTree is a new container's /dev, a clone of one that all containers of the machine share.
func (c *Containerd) devTree() (*filesystem.Tree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dev == nil {
		t, err := c.buildDev()
		if err != nil {
			return nil, err
		}
		t.Seal()
		c.dev = t
	}
	return c.dev.Clone("tmpfs", filesystem.NewQuota(64<<20)), nil
}

func (c *Containerd) buildDev() (*filesystem.Tree, error) {
	return c.build("tmpfs", func(t *filesystem.Tree, files kernel.Files) error {
		for _, d := range []struct{ name, rdev string }{{"full", "1:7"}, {"null", "1:3"}, {"random", "1:8"}, {"tty", "5:0"}, {"urandom", "1:9"}, {"zero", "1:5"}} {
			if err := t.SetDevice(files, "/"+d.name, 0o666, d.rdev); err != nil {
				return err
			}
		}
		for _, l := range [][2]string{{"/proc/kcore", "/core"}, {"/proc/self/fd", "/fd"}, {"pts/ptmx", "/ptmx"}, {"/proc/self/fd/2", "/stderr"}, {"/proc/self/fd/0", "/stdin"}, {"/proc/self/fd/1", "/stdout"}} {
			if err := files.Symlink(l[0], l[1]); err != nil {
				return err
			}
		}
		for _, d := range []string{"/pts", "/shm", "/mqueue"} {
			if err := files.Mkdir(d, 0o755); err != nil {
				return err
			}
		}
		return files.Chmod("/shm", fs.ModeSticky|0o777)
	})
}

// procTree shows the container's first process, and of the machine what a container sees of it.
func (c *Containerd) procTree(k *container, b *sandbox) (*filesystem.Tree, error) {
	host := c.files()
	return c.build("proc", func(t *filesystem.Tree, files kernel.Files) error {
		dynamic := func(name string, mode fs.FileMode, read func() string, write func([]byte) error) error {
			if err := files.MkdirAll(path.Dir(name), 0o555); err != nil {
				return err
			}
			return t.SetDynamic(files, name, mode, filesystem.Dynamic{Read: func() []byte { return []byte(read()) }, Write: write})
		}
		first := func() *kernel.Process {
			c.mu.Lock()
			defer c.mu.Unlock()
			return k.proc
		}
		for _, e := range []struct {
			name string
			read func() string
		}{
			{"/1/cmdline", func() string { return strings.Join(k.Process.Args, "\x00") + "\x00" }},
			{"/1/comm", func() string {
				if p := first(); p != nil {
					return p.Comm() + "\n"
				}
				return "\n"
			}},
			{"/1/environ", func() string {
				if p := first(); p != nil {
					return strings.Join(p.Environ(), "\x00") + "\x00"
				}
				return ""
			}},
			{"/1/cgroup", func() string { return "0::/\n" }},
			{"/1/oom_score_adj", func() string { return strconv.FormatInt(k.Resources.GetLinux().GetOomScoreAdj(), 10) + "\n" }},
			{"/1/status", func() string {
				return fmt.Sprintf("Name:\t%s\nState:\tS (sleeping)\nTgid:\t1\nPid:\t1\nPPid:\t0\nUid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\nGid:\t%[3]d\t%[3]d\t%[3]d\t%[3]d\n", path.Base(k.Process.Args[0]), k.Process.UID, k.Process.GID)
			}},
			{"/mounts", func() string { return mountTable(k) }},
			{"/1/mounts", func() string { return mountTable(k) }},
			{"/sys/kernel/hostname", func() string { return c.sandboxHostname(b) + "\n" }},
		} {
			if err := dynamic(e.name, 0o444, e.read, nil); err != nil {
				return err
			}
		}
		// Writing to the first process's streams from an exec is a well-known way into the container's log.
		for stream, fd := range []string{"/1/fd/1", "/1/fd/2"} {
			err := dynamic(fd, 0o600, func() string { return "" }, func(b []byte) error {
				c.mu.Lock()
				o := k.io
				c.mu.Unlock()
				if o != nil {
					o.write(stream, b)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, name := range []string{"cpuinfo", "meminfo", "version", "loadavg", "uptime", "stat", "swaps", "modules", "filesystems", "cmdline"} {
			if _, err := host.Stat("/proc/" + name); err != nil {
				continue
			}
			err := dynamic("/"+name, 0o444, func() string {
				b, _ := host.ReadFile("/proc/" + name)
				return string(b)
			}, nil)
			if err != nil {
				return err
			}
		}
		if err := files.Symlink("1", "/self"); err != nil {
			return err
		}
		t.SetOfKernel()
		return nil
	})
}

// mountTable is /proc/mounts of a container.
func mountTable(k *container) string {
	var s strings.Builder
	for _, m := range k.root.view.Mounts() {
		if m.Type == "" { // what a namespace shows of its own, which is no mount
			continue
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		source, typ := m.Source, m.Type
		if typ == "bind" {
			source, typ = "/dev/vda1", "ext4"
		}
		fmt.Fprintf(&s, "%s %s %s %s,relatime 0 0\n", source, m.Target, typ, mode)
	}
	return s.String()
}
