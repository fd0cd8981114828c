package runtime

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"ckadrill/sim/machine"
	"ckadrill/sim/machine/filesystem"
)

// unprivileged are the settings that the CRI plugin gives Pods unless enable_unprivileged_ports and enable_unprivileged_icmp
// forbid it.
var unprivileged = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0\t2147483647"}

// applySettings gives a sandbox the settings that its Pod asks for. The error is runc's.
func (c *Containerd) applySettings(b *sandbox) error {
	settings := map[string]string{}
	if !hostNetwork(b.Config) {
		maps.Copy(settings, unprivileged)
	}
	asked := b.Config.GetLinux().GetSysctls()
	known := map[string]string{}
	for _, x := range c.m.Sysctl().NamespaceSettings() {
		known[x.Name] = x.Now
		if x.Now != x.Initial && !hostNetwork(b.Config) {
			settings[x.Name] = x.Now
		}
	}
	for _, n := range slices.Sorted(maps.Keys(asked)) {
		now, ok := known[n]
		if !ok { // of the IPC namespace
			if now, ok = c.m.Sysctl().Get(n); !ok {
				file := "/proc/sys/" + strings.ReplaceAll(n, ".", "/")
				return fmt.Errorf("open sysctl file: open %s: no such file or directory", file)
			}
		}
		v, err := machine.ValidSetting(n, now, asked[n])
		if err != nil {
			return fmt.Errorf("write /proc/sys/%s: %w", strings.ReplaceAll(n, ".", "/"), err)
		}
		settings[n] = v
	}
	b.Settings = settings
	return nil
}

// settingMounts is /proc/sys of a container: the machine's, read-only unless the container is privileged, and over it what the
// sandbox's namespaces have for themselves.
func (c *Containerd) settingMounts(k *container, b *sandbox, proc *filesystem.Tree) []filesystem.Mount {
	host, root := c.locate("/proc/sys")
	if host == nil || host.Missing(root) {
		return nil
	}
	readOnly := !c.privileged(k)
	all := filesystem.Mount{Target: "/proc/sys", Tree: host, Root: root, ReadOnly: readOnly, Source: "proc"}
	if readOnly {
		all.Type = "proc" // runc mounts it once more
	}
	l := []filesystem.Mount{all, {Target: "/proc/sys/kernel/hostname", Tree: proc, Root: "/sys/kernel/hostname"}}
	if !hostNetwork(b.Config) {
		t := filesystem.NewTree(c.w, "proc", 0)
		t.SetGenerator(netSettings{c, b, settingLayout(c.m.Sysctl())})
		t.SetOfKernel()
		l = append(l, filesystem.Mount{Target: "/proc/sys/net", Tree: t, ReadOnly: readOnly})
	}
	for _, n := range slices.Sorted(maps.Keys(b.Settings)) {
		if !strings.HasPrefix(n, "net.") && !host.Missing(path.Join(root, strings.ReplaceAll(n, ".", "/"))) {
			t, err := c.oneFile(b.Settings[n])
			if err == nil {
				l = append(l, filesystem.Mount{Target: "/proc/sys/" + strings.ReplaceAll(n, ".", "/"), Tree: t, Root: "/value", ReadOnly: true})
			}
		}
	}
	return l
}

// oneFile is a tree with a file "value".
func (c *Containerd) oneFile(content string) (*filesystem.Tree, error) {
	t := filesystem.NewTree(c.w, "proc", 0)
	f, err := t.KernelFiles()
	if err != nil {
		return nil, err
	}
	return t, f.WriteFile("/value", []byte(content+"\n"), 0o644)
}

// settingNode is a file or directory below a sandbox's /proc/sys/net.
type settingNode struct {
	name, initial string            // of a setting
	entries       map[string]uint64 // of a directory
}

// settingNodes are the nodes by their numbers, less [filesystem.FirstGenerated]; the first is the directory itself.
type settingNodes []settingNode

var settingLayouts struct {
	sync.Mutex
	known map[string]settingNodes
}

// settingLayout is the tree of a new network namespace's settings. Which there are depends on the machine's modules.
func settingLayout(s *machine.Sysctl) settingNodes {
	l := s.NamespaceSettings()
	var key strings.Builder
	for _, x := range l {
		key.WriteString(x.Name + " ")
	}
	settingLayouts.Lock()
	defer settingLayouts.Unlock()
	if n, ok := settingLayouts.known[key.String()]; ok {
		return n
	}
	nodes := settingNodes{{entries: map[string]uint64{}}}
	for _, x := range l {
		at := 0
		parts := strings.Split(strings.TrimPrefix(x.Name, "net."), ".")
		for i, p := range parts {
			id, ok := nodes[at].entries[p]
			if !ok {
				id = filesystem.FirstGenerated + uint64(len(nodes))
				nodes[at].entries[p] = id
				if i == len(parts)-1 {
					nodes = append(nodes, settingNode{name: x.Name, initial: x.Initial})
				} else {
					nodes = append(nodes, settingNode{entries: map[string]uint64{}})
				}
			}
			at = int(id - filesystem.FirstGenerated)
		}
	}
	if settingLayouts.known == nil {
		settingLayouts.known = map[string]settingNodes{}
	}
	settingLayouts.known[key.String()] = nodes
	return nodes
}

// netSettings shows the settings of a sandbox's network namespace.
type netSettings struct {
	c     *Containerd
	b     *sandbox
	nodes settingNodes
}

// Root implements [filesystem.Generator].
func (n netSettings) Root() map[string]uint64 { return n.nodes[0].entries }

// File implements [filesystem.Generator].
func (n netSettings) File(id uint64) (filesystem.Generated, bool) {
	i := id - filesystem.FirstGenerated
	if i >= uint64(len(n.nodes)) {
		return filesystem.Generated{}, false
	}
	x := n.nodes[i]
	if x.entries != nil {
		return filesystem.Generated{Mode: 0o555, Entries: x.entries}, true
	}
	get := func() string {
		n.c.mu.Lock()
		defer n.c.mu.Unlock()
		if v, ok := n.b.Settings[x.name]; ok {
			return v
		}
		return x.initial
	}
	return filesystem.Generated{Mode: 0o644, Content: func() []byte { return []byte(get() + "\n") }, Write: func(b []byte) error {
		v, err := machine.ValidSetting(x.name, get(), string(b))
		if err != nil {
			return err
		}
		n.c.mu.Lock()
		defer n.c.mu.Unlock()
		n.b.Settings = maps.Clone(n.b.Settings)
		if n.b.Settings == nil {
			n.b.Settings = map[string]string{}
		}
		n.b.Settings[x.name] = v
		n.c.touchSandbox(n.b)
		return nil
	}}, true
}
