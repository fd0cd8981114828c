package machine

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
)

// Sysctl holds the kernel's settings by their dotted names.
type Sysctl struct {
	w       *kernel.World
	mu      sync.Mutex
	initial map[string]string // at boot
	values  map[string]string
	version uint64
	hooks   []func(name, value string)
}

// sysctlDefaults are a freshly booted Ubuntu 24.04's, as far as programs of the simulation read or show them.
var sysctlDefaults = map[string]string{
	"fs.file-max":                         "9223372036854775807",
	"fs.inotify.max_user_instances":       "128",
	"fs.inotify.max_user_watches":         "14996",
	"kernel.domainname":                   "(none)",
	"kernel.keys.root_maxbytes":           "25000000",
	"kernel.keys.root_maxkeys":            "1000000",
	"kernel.panic":                        "0",
	"kernel.panic_on_oops":                "0",
	"kernel.pid_max":                      "4194304",
	"net.bridge.bridge-nf-call-arptables": "1",
	"net.bridge.bridge-nf-call-ip6tables": "1",
	"net.bridge.bridge-nf-call-iptables":  "1",
	"net.core.rmem_max":                   "212992",
	"net.core.somaxconn":                  "4096",
	"net.core.wmem_max":                   "212992",
	"net.ipv4.conf.all.forwarding":        "0",
	"net.ipv4.conf.all.rp_filter":         "2",
	"net.ipv4.conf.default.rp_filter":     "2",
	"net.ipv4.ip_forward":                 "0",
	"net.ipv4.ip_local_port_range":        "32768\t60999",
	"net.ipv4.tcp_keepalive_time":         "7200",
	"net.ipv4.tcp_max_syn_backlog":        "256",
	"net.ipv6.conf.all.disable_ipv6":      "0",
	"net.ipv6.conf.all.forwarding":        "0",
	"net.ipv6.conf.default.disable_ipv6":  "0",
	"net.netfilter.nf_conntrack_max":      "65536",
	"vm.dirty_ratio":                      "20",
	"vm.max_map_count":                    "1048576",
	"vm.min_free_kbytes":                  "45056",
	"vm.overcommit_memory":                "0",
	"vm.panic_on_oom":                     "0",
	"vm.swappiness":                       "60",
}

// newSysctl makes the settings of a machine with so many bytes of memory, from which the kernel derives some.
func newSysctl(w *kernel.World, memory int64) *Sysctl {
	initial := maps.Clone(sysctlDefaults)
	// an eighth of the memory, less what the kernel keeps for itself, may be taken by the stacks of threads, 16 KiB each
	initial["kernel.threads-max"] = strconv.FormatInt((memory-memory/16)/(8*16<<10), 10)
	return &Sysctl{w: w, initial: initial, values: maps.Clone(initial), version: w.Version()}
}

// Names lists the settings, sorted.
func (s *Sysctl) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}

// Get returns a setting.
func (s *Sysctl) Get(name string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[name]
	return v, ok
}

// Set changes a setting that exists.
func (s *Sysctl) Set(name, value string) error {
	s.mu.Lock()
	if _, ok := s.values[name]; !ok {
		s.mu.Unlock()
		return fmt.Errorf("cannot stat /proc/sys/%s: No such file or directory", strings.ReplaceAll(name, ".", "/"))
	}
	s.values[name] = strings.TrimSpace(value)
	switch name { // the kernel keeps these two the same
	case "net.ipv4.ip_forward":
		s.values["net.ipv4.conf.all.forwarding"] = s.values[name]
	case "net.ipv4.conf.all.forwarding":
		s.values["net.ipv4.ip_forward"] = s.values[name]
	}
	s.version = s.w.Version()
	hooks := slices.Clone(s.hooks)
	value = s.values[name]
	s.mu.Unlock()
	for _, f := range hooks {
		f(name, value)
	}
	return nil
}

// OnChange has f called for every change.
func (s *Sysctl) OnChange(f func(name, value string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, f)
}

// sysctlDirs are read in this order of precedence, the files in the order of their names (sysctl.d(5)).
var sysctlDirs = []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"}

// SettingFiles lists the files that systemd-sysctl reads, in order.
func SettingFiles(files kernel.Files) []string {
	byName := map[string]string{}
	for _, d := range sysctlDirs {
		l, err := files.ReadDir(d)
		if err != nil {
			continue
		}
		for _, e := range l {
			if _, ok := byName[e.Name()]; !ok && strings.HasSuffix(e.Name(), ".conf") {
				byName[e.Name()] = path.Join(d, e.Name())
			}
		}
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[n])
	}
	return out
}

// boot sets the defaults, and then what the files say.
func (s *Sysctl) boot(files kernel.Files) {
	s.mu.Lock()
	s.values = maps.Clone(s.initial)
	s.version = s.w.Version()
	s.mu.Unlock()
	for _, f := range SettingFiles(files) {
		b, err := files.ReadFile(f)
		if err != nil {
			continue
		}
		for _, l := range strings.Split(string(b), "\n") {
			l = strings.TrimSpace(l)
			if l == "" || l[0] == '#' || l[0] == ';' {
				continue
			}
			if k, v, ok := strings.Cut(strings.TrimPrefix(l, "-"), "="); ok {
				s.Set(strings.ReplaceAll(strings.TrimSpace(k), "/", "."), v)
			}
		}
	}
	for _, n := range s.Names() {
		v, _ := s.Get(n)
		for _, f := range s.hooks {
			f(n, v)
		}
	}
}

// Freeze implements [kernel.Holder].
func (s *Sysctl) Freeze(snap *kernel.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap.Put("values", s.version, func() []byte {
		var l [][2]string
		for _, n := range slices.Sorted(maps.Keys(s.values)) {
			l = append(l, [2]string{n, s.values[n]})
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
	s.values = map[string]string{}
	for _, kv := range l {
		s.values[kv[0]] = kv[1]
	}
	s.version = s.w.Version()
	s.mu.Unlock()
	return nil
}
