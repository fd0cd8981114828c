package machine

import (
	_ "embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"ckadrill/sim/kernel"
)

// Sysctl holds the kernel's settings by their dotted names. Some are the kernel's own, others come and go with a module.
type Sysctl struct {
	w       *kernel.World
	mu      sync.Mutex
	own     map[string]setting
	brought map[string]setting // by modules
	// changed are the values that somebody has set. After a thaw they may be there before the module that brings the setting.
	changed map[string]string
	version uint64
	hooks   []func(name, value string)
	// inNamespace are the settings of a network namespace, sorted; nil when modules have changed which there are.
	inNamespace []string
}

// setting is one file below /proc/sys.
type setting struct {
	initial string
	mode    fs.FileMode
}

//go:embed sysctl.txt
var sysctlText string

var ownSettings = sync.OnceValue(func() map[string]setting { return parseSettings(sysctlText) })

// parseSettings reads lines "name = value", with a mode after a tab and "#" where it is not 0644.
func parseSettings(text string) map[string]setting {
	m := map[string]setting{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, _ := strings.Cut(line, " =")
		s := setting{mode: 0o644}
		if v, mode, ok := strings.Cut(value, "\t#"); ok {
			n, _ := strconv.ParseUint(mode, 8, 9)
			value, s.mode = v, fs.FileMode(n)
		}
		s.initial = strings.TrimPrefix(value, " ")
		m[name] = s
	}
	return m
}

// newSysctl makes the settings of a machine with so many bytes of memory, from which the kernel derives some.
func newSysctl(w *kernel.World, memory int64) *Sysctl {
	own := maps.Clone(ownSettings())
	// an eighth of the memory, less what the kernel keeps for itself, may be taken by the stacks of threads, 16 KiB each
	threads := (memory - memory/16) / (8 * 16 << 10)
	own["kernel.threads-max"] = setting{strconv.FormatInt(threads, 10), 0o644}
	for _, n := range []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"} {
		own["user.max_"+n+"_namespaces"] = setting{strconv.FormatInt(threads/2, 10), 0o644}
	}
	return &Sysctl{w: w, own: own, brought: map[string]setting{}, changed: map[string]string{}, version: w.Version()}
}

func (s *Sysctl) find(name string) (setting, bool) {
	if x, ok := s.own[name]; ok {
		return x, true
	}
	x, ok := s.brought[name]
	return x, ok
}

// Names lists the settings, sorted.
func (s *Sysctl) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names()
}

// names lists them. The lock is held.
func (s *Sysctl) names() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[string]setting{s.own, s.brought} {
			for n := range m {
				if !yield(n) {
					return
				}
			}
		}
	})
}

// Mode is that of a setting's file.
func (s *Sysctl) Mode(name string) fs.FileMode {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, _ := s.find(name)
	return x.mode
}

// Get returns a setting.
func (s *Sysctl) Get(name string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.find(name)
	if v, set := s.changed[name]; ok && set {
		return v, true
	}
	return x.initial, ok
}

// same are settings that the kernel changes along with another.
var same = map[string][]string{
	"net.ipv4.ip_forward":            {"net.ipv4.conf.all.forwarding", "net.ipv4.conf.default.forwarding", "net.ipv4.conf.lo.forwarding"},
	"net.ipv4.conf.all.forwarding":   {"net.ipv4.ip_forward", "net.ipv4.conf.default.forwarding", "net.ipv4.conf.lo.forwarding"},
	"net.ipv6.conf.all.forwarding":   {"net.ipv6.conf.default.forwarding", "net.ipv6.conf.lo.forwarding"},
	"net.ipv6.conf.all.disable_ipv6": {"net.ipv6.conf.default.disable_ipv6", "net.ipv6.conf.lo.disable_ipv6"},
	"net.netfilter.nf_conntrack_max": {"net.nf_conntrack_max"},
	"net.nf_conntrack_max":           {"net.netfilter.nf_conntrack_max"},
	"vm.nr_hugepages":                {"vm.nr_hugepages_mempolicy"},
}

// Set changes a setting. The error is ENOENT for one that is not there, EINVAL for a value that it cannot have.
func (s *Sysctl) Set(name, value string) error {
	s.mu.Lock()
	x, ok := s.find(name)
	if !ok {
		s.mu.Unlock()
		return syscall.ENOENT
	}
	value, err := valid(name, x.initial, value)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	if x.mode&0o400 == 0 { // what one writes to is a command, not a value
		s.mu.Unlock()
		return nil
	}
	changed := append([]string{name}, same[name]...)
	changed = slices.DeleteFunc(changed, func(n string) bool { _, ok := s.find(n); return !ok })
	for _, n := range changed {
		s.changed[n] = value
	}
	s.version = s.w.Version()
	s.mu.Unlock()
	for _, n := range changed {
		s.tell(n, value)
	}
	return nil
}

func (s *Sysctl) tell(name, value string) {
	s.mu.Lock()
	hooks := slices.Clone(s.hooks)
	s.mu.Unlock()
	for _, f := range hooks {
		f(name, value)
	}
}

// OnChange has f called for every change; a setting that has gone has the value "".
func (s *Sysctl) OnChange(f func(name, value string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, f)
}

// limits are the least and greatest values of settings that the kernel bounds.
var limits = map[string][2]int64{
	"fs.protected_fifos": {0, 2}, "fs.protected_hardlinks": {0, 1}, "fs.protected_regular": {0, 2}, "fs.protected_symlinks": {0, 1}, "fs.suid_dumpable": {0, 2},
	"fs.nr_open": {8, 1073741816}, "kernel.dmesg_restrict": {0, 1}, "kernel.keys.root_maxkeys": {1, 1<<31 - 1}, "kernel.kptr_restrict": {0, 2}, "kernel.pid_max": {301, 4194304},
	"kernel.randomize_va_space": {0, 2}, "kernel.yama.ptrace_scope": {0, 3}, "net.core.somaxconn": {0, 65535}, "net.ipv4.ip_default_ttl": {1, 255},
	"net.ipv4.ip_unprivileged_port_start": {0, 65535}, "net.ipv4.tcp_keepalive_time": {1, 32767 * 1000}, "net.ipv4.tcp_syncookies": {0, 2},
	"net.netfilter.nf_conntrack_acct": {0, 1}, "vm.dirty_background_ratio": {0, 100}, "vm.dirty_ratio": {0, 100}, "vm.drop_caches": {1, 4}, "vm.max_map_count": {0, 1<<31 - 1},
	"vm.overcommit_memory": {0, 2}, "vm.panic_on_oom": {0, 2}, "vm.swappiness": {0, 200},
}

// valid is a value as the kernel stores it, judged by the form of the initial one: numbers stay numbers.
func valid(name, initial, value string) (string, error) {
	value = strings.TrimSpace(value)
	was := strings.Fields(initial)
	numbers := len(was) > 0 || initial == "" && limits[name] != [2]int64{}
	wide := false
	for _, f := range was {
		n, err := strconv.ParseInt(f, 10, 64)
		numbers = numbers && (err == nil || err.(*strconv.NumError).Err == strconv.ErrRange)
		wide = wide || err != nil || n > 1<<31-1
	}
	if !numbers {
		return value, nil
	}
	fields := strings.Fields(value)
	if len(fields) == 0 || len(fields) > max(len(was), 1) {
		return "", syscall.EINVAL
	}
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 0, 64)
		if u, uerr := strconv.ParseUint(f, 0, 64); err != nil && uerr == nil && wide {
			fields[i] = strconv.FormatUint(u, 10)
			continue
		}
		bounds, bounded := limits[name]
		if err != nil || !wide && n != int64(int32(n)) || bounded && (n < bounds[0] || n > bounds[1]) {
			return "", syscall.EINVAL
		}
		fields[i] = strconv.FormatInt(n, 10)
	}
	// what is not given keeps its value in the kernel; the rest of a tuple is rarely left out
	for i := len(fields); i < len(was); i++ {
		fields = append(fields, was[i])
	}
	return strings.Join(fields, "\t"), nil
}

// bring adds the settings of a module, and withdraw takes them away.
func (s *Sysctl) bring(l map[string]setting) {
	s.mu.Lock()
	maps.Copy(s.brought, l)
	s.inNamespace = nil
	s.mu.Unlock()
	for _, n := range sortedKeys(l) {
		v, _ := s.Get(n)
		s.tell(n, v)
	}
}

func (s *Sysctl) withdraw(l map[string]setting) {
	s.mu.Lock()
	for n := range l {
		delete(s.brought, n)
		delete(s.changed, n)
	}
	s.inNamespace = nil
	s.version = s.w.Version()
	s.mu.Unlock()
	for _, n := range sortedKeys(l) {
		s.tell(n, "")
	}
}

// boot sets everything to what the kernel starts with.
func (s *Sysctl) boot() {
	s.mu.Lock()
	gone := s.brought
	s.brought, s.changed, s.inNamespace = map[string]setting{}, map[string]string{}, nil
	s.version = s.w.Version()
	s.mu.Unlock()
	for _, n := range sortedKeys(gone) {
		s.tell(n, "")
	}
	for _, n := range s.Names() {
		v, _ := s.Get(n)
		s.tell(n, v)
	}
}

// Freeze implements [kernel.Holder].
func (s *Sysctl) Freeze(snap *kernel.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap.Put("values", s.version, func() []byte {
		var l [][2]string
		for _, n := range slices.Sorted(maps.Keys(s.changed)) {
			l = append(l, [2]string{n, s.changed[n]})
		}
		b, err := kernel.Encode(l)
		if err != nil {
			panic(err)
		}
		return b
	})
}

// Thaw implements [kernel.Holder].
func (s *Sysctl) Thaw(parts kernel.Parts) error {
	var l [][2]string
	if err := kernel.Decode(parts["values"], &l); err != nil {
		return fmt.Errorf("sysctl: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = map[string]string{}
	for _, kv := range l {
		s.changed[kv[0]] = kv[1]
	}
	s.version = s.w.Version()
	return nil
}
