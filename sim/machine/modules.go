package machine

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"ckadrill/sim/kernel"
)

// Modules are what is loaded into a machine's kernel. Which modules there are to load, and what they need, is said by files
// below /lib/modules; modprobe(8) reads them.
type Modules struct {
	w       *kernel.World
	mu      sync.Mutex
	loaded  []string // in the order of loading
	version uint64
	changed func(name string, loaded bool)
	unload  []func(name string)
	users   []func(name string) int
}

// Module is a loaded module, as /proc/modules shows it.
type Module struct {
	Name string
	Size int64 // bytes
	Uses int   // by other modules, and by whatever else
	By   []string
}

// moduleKind is what the kernel's source says of a module.
type moduleKind struct {
	size  int64
	file  string // below the release's directory
	needs []string
	boot  bool // udev loads it for the hardware
}

//go:embed modules.txt
var modulesText string

type moduleTable struct {
	kinds map[string]moduleKind
	order []string
}

var knownModules = sync.OnceValue(func() moduleTable {
	t := moduleTable{kinds: map[string]moduleKind{}}
	for line := range strings.Lines(modulesText) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		name := strings.ReplaceAll(f[0], "-", "_")
		k := moduleKind{file: "kernel/" + f[2] + "/" + f[0] + ".ko.zst", needs: f[3:]}
		if _, err := fmt.Sscan(f[1], &k.size); err != nil {
			panic("machine: modules.txt: " + line)
		}
		if n := len(k.needs); n > 0 && k.needs[n-1] == "boot" {
			k.needs, k.boot = k.needs[:n-1], true
		}
		t.kinds[name] = k
		t.order = append(t.order, name)
	}
	return t
})

// builtinModules are parts of the kernel that other distributions have as modules.
var builtinModules = []string{"fs/ext4/ext4", "fs/fuse/fuse", "drivers/block/loop", "drivers/block/virtio_blk", "drivers/net/tun", "drivers/net/virtio_net", "drivers/virtio/virtio_pci", "net/ipv6/ipv6", "net/unix/unix", "net/packet/af_packet"}

// moduleAliases are the names under which the kernel asks for a module.
var moduleAliases = map[string]string{
	"rtnl-link-bridge": "bridge", "rtnl-link-vxlan": "vxlan", "rtnl-link-veth": "veth", "rtnl-link-dummy": "dummy", "rtnl-link-macvlan": "macvlan", "rtnl-link-ipvlan": "ipvlan",
	"rtnl-link-vlan": "8021q", "rtnl-link-geneve": "geneve", "rtnl-link-wireguard": "wireguard", "rtnl-link-bond": "bonding", "rtnl-link-ipip": "ipip",
	"fs-overlay": "overlay", "fs-xfs": "xfs", "fs-btrfs": "btrfs", "fs-nfs": "nfs", "fs-nfs4": "nfs", "fs-ceph": "ceph", "fs-autofs": "autofs4",
	"ip_conntrack": "nf_conntrack", "ip_nat": "nf_nat", "ipt_MASQUERADE": "xt_MASQUERADE", "ipt_mark": "xt_mark", "ipt_comment": "xt_comment", "ipt_conntrack": "xt_conntrack", "ipt_addrtype": "xt_addrtype",
}

// moduleSettings are the settings that come with a module.
var moduleSettings = sync.OnceValue(func() map[string]map[string]setting {
	m := map[string]map[string]setting{}
	for name, text := range moduleSettingTexts {
		m[name] = parseSettings(text)
	}
	return m
})

// moduleHead begins a module's file: the magic number of zstd.
const moduleHead = "\x28\xb5\x2f\xfdckadrill module "

// ModuleFile is the content of a module's file, and ModuleOf the name in it.
func ModuleFile(name string) []byte { return []byte(moduleHead + name + "\n") }

// ModuleOf is the name of the module that a file's content holds.
func ModuleOf(content []byte) (string, bool) {
	s, ok := strings.CutPrefix(string(content), moduleHead)
	return strings.TrimSuffix(s, "\n"), ok
}

// installModules writes what the package linux-modules and depmod leave below /usr/lib/modules.
func (m *Machine) installModules(f installer) error {
	dir := "/usr/lib/modules/" + m.options.KernelVersion
	t := knownModules()
	var dep, alias, builtin strings.Builder
	for _, n := range t.order {
		if err := f.write(path.Join(dir, t.kinds[n].file), ModuleFile(n), 0o644); err != nil {
			return err
		}
		dep.WriteString(t.kinds[n].file + ":")
		for _, x := range t.needed(n) {
			dep.WriteString(" " + t.kinds[x].file)
		}
		dep.WriteString("\n")
	}
	alias.WriteString("# Aliases extracted from modules themselves.\n")
	for _, a := range sortedKeys(moduleAliases) {
		alias.WriteString("alias " + a + " " + moduleAliases[a] + "\n")
	}
	for _, b := range builtinModules {
		builtin.WriteString("kernel/" + b + ".ko\n")
	}
	for _, x := range [][2]string{{"modules.alias", alias.String()}, {"modules.builtin", builtin.String()}, {"modules.dep", dep.String()}} {
		if err := f.write(path.Join(dir, x[0]), []byte(x[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// needed lists what a module needs, and what that needs, in the order of modules.dep: the most basic last.
func (t moduleTable) needed(name string) []string {
	var l []string
	var visit func(string)
	visit = func(n string) {
		for _, x := range t.kinds[n].needs {
			l = append(slices.DeleteFunc(l, func(y string) bool { return y == x }), x)
			visit(x)
		}
	}
	visit(name)
	return l
}

// ModuleNeeds are the modules that one names as its dependencies; ModuleNeedsAll is with those that they need, the most basic
// last, as in modules.dep.
func ModuleNeeds(name string) []string { return knownModules().kinds[name].needs }

// ModuleNeedsAll is documented at [ModuleNeeds].
func ModuleNeedsAll(name string) []string { return knownModules().needed(name) }

func newModules(w *kernel.World, changed func(name string, loaded bool)) *Modules {
	return &Modules{w: w, version: w.Version(), changed: changed}
}

// OnUnload has f called before a module goes.
func (m *Modules) OnUnload(f func(name string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unload = append(m.unload, f)
}

// OnCount has f asked how often a module is used by something that is no module.
func (m *Modules) OnCount(f func(name string) int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users = append(m.users, f)
}

// Loaded says whether a module is loaded.
func (m *Modules) Loaded(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.loaded, name)
}

// List lists the loaded modules, the newest first.
func (m *Modules) List() []Module {
	m.mu.Lock()
	names, users := slices.Clone(m.loaded), slices.Clone(m.users)
	m.mu.Unlock()
	slices.Reverse(names)
	t := knownModules()
	l := make([]Module, 0, len(names))
	for _, n := range names {
		x := Module{Name: n, Size: t.kinds[n].size}
		for _, o := range names {
			if slices.Contains(t.kinds[o].needs, n) {
				x.By = append(x.By, o)
			}
		}
		x.Uses = len(x.By)
		for _, f := range users {
			x.Uses += f(n)
		}
		l = append(l, x)
	}
	return l
}

// Load is init_module(2). The error is EEXIST for a loaded module, ENOENT where a module that it needs is missing, ENOEXEC for
// one that this kernel does not know.
func (m *Modules) Load(name string) error {
	m.mu.Lock()
	k, known := knownModules().kinds[name]
	switch {
	case !known:
		m.mu.Unlock()
		return syscall.ENOEXEC
	case slices.Contains(m.loaded, name):
		m.mu.Unlock()
		return syscall.EEXIST
	case slices.ContainsFunc(k.needs, func(n string) bool { return !slices.Contains(m.loaded, n) }):
		m.mu.Unlock()
		return syscall.ENOENT
	}
	m.loaded = append(m.loaded, name)
	m.version = m.w.Version()
	m.mu.Unlock()
	m.changed(name, true)
	return nil
}

// Unload is delete_module(2). The error is ENOENT for a module that is not loaded, EAGAIN for one in use.
func (m *Modules) Unload(name string) error {
	l := m.List()
	i := slices.IndexFunc(l, func(x Module) bool { return x.Name == name })
	switch {
	case i < 0:
		return syscall.ENOENT
	case l[i].Uses > 0:
		return syscall.EAGAIN
	}
	m.mu.Lock()
	hooks := slices.Clone(m.unload)
	m.mu.Unlock()
	for _, f := range hooks {
		f(name)
	}
	m.mu.Lock()
	m.loaded = slices.DeleteFunc(m.loaded, func(n string) bool { return n == name })
	m.version = m.w.Version()
	m.mu.Unlock()
	m.changed(name, false)
	return nil
}

// clear forgets all modules: the kernel is gone.
func (m *Modules) clear() {
	m.mu.Lock()
	gone := m.loaded
	m.loaded, m.version = nil, m.w.Version()
	m.mu.Unlock()
	for _, n := range gone {
		m.changed(n, false)
	}
}

// boot loads what udev finds hardware for.
func (m *Modules) boot() {
	t := knownModules()
	for _, n := range t.order {
		if t.kinds[n].boot {
			m.Load(n)
		}
	}
}

// proc is /proc/modules. Nobody but root sees the addresses, and nothing reads them.
func (m *Modules) proc() string {
	var b strings.Builder
	for _, x := range m.List() {
		by := "-"
		if len(x.By) > 0 {
			by = strings.Join(x.By, ",") + ","
		}
		fmt.Fprintf(&b, "%s %d %d %s Live 0x0000000000000000\n", x.Name, x.Size, x.Uses, by)
	}
	return b.String()
}

// Freeze implements [kernel.Holder].
func (m *Modules) Freeze(s *kernel.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := slices.Clone(m.loaded)
	s.Put("loaded", m.version, func() []byte {
		b, err := kernel.Encode(l)
		if err != nil {
			panic(err)
		}
		return b
	})
}

// beforeModules is what counted as loaded on every machine before modules were part of a state.
var beforeModules = []string{"br_netfilter", "overlay", "veth", "vxlan", "nft_compat", "nft_chain_nat", "nf_conntrack_netlink", "xt_conntrack", "xt_comment", "xt_mark", "xt_nat", "xt_MASQUERADE", "xt_addrtype", "xt_statistic"}

// Thaw implements [kernel.Holder].
func (m *Modules) Thaw(parts kernel.Parts) error {
	b, ok := parts["loaded"]
	var l []string
	if !ok {
		m.boot()
		t := knownModules()
		for _, n := range beforeModules {
			need := t.needed(n)
			slices.Reverse(need)
			for _, x := range append(need, n) {
				m.Load(x)
			}
		}
		return nil
	}
	if err := kernel.Decode(b, &l); err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	m.mu.Lock()
	m.loaded, m.version = l, m.w.Version()
	m.mu.Unlock()
	for _, n := range l {
		m.changed(n, true)
	}
	return nil
}

// moduleChanged lets /proc/sys and /sys/module follow what is loaded.
func (m *Machine) moduleChanged(name string, loaded bool) {
	if l := moduleSettings()[name]; len(l) > 0 {
		if loaded {
			m.sysctl.bring(l)
		} else {
			m.sysctl.withdraw(l)
		}
		m.showSettings(l, loaded)
	}
	m.showModule(name, loaded)
}

// RequestModule lets the kernel ask for a module, by its name or an alias of it ("fs-overlay"): it starts /sbin/modprobe. The
// error is EOPNOTSUPP when the module is not there afterwards.
func (m *Machine) RequestModule(alias string) error {
	name := alias
	if n, ok := moduleAliases[alias]; ok {
		name = n
	}
	if m.modules.Loaded(name) {
		return nil
	}
	helper, _ := m.sysctl.Get("kernel.modprobe")
	p, err := m.Start(kernel.Spec{Argv: []string{helper, "-q", "--", alias}, Env: []string{"HOME=/", "PATH=/sbin:/usr/sbin:/bin:/usr/bin"}})
	if err == nil {
		p.Wait()
	}
	if !m.modules.Loaded(name) {
		return syscall.EOPNOTSUPP
	}
	return nil
}
