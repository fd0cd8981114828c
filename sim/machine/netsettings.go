package machine

import (
	"slices"
	"strings"
)

// What names of settings of a network namespace begin with, and of those among them that all share.
var (
	namespaced = []string{"net.bridge.", "net.core.optmem_max", "net.core.rps_default_mask", "net.core.somaxconn", "net.core.tstamp_allow_data", "net.core.txrehash", "net.ipv4.", "net.ipv6.", "net.mptcp.", "net.netfilter.", "net.unix."}
	shared     = []string{"net.ipv4.tcp_mem", "net.ipv4.udp_mem", "net.ipv4.vs."}
)

// NamespaceSetting is a setting that each network namespace has for itself.
type NamespaceSetting struct {
	Name, Initial string
	// Now is the value in a namespace that is made now: the settings of IPv4's interfaces begin as the machine's are, see
	// net.core.devconf_inherit_init_net.
	Now string
}

// NamespaceSettings are the settings that a new network namespace has, sorted by name.
func (s *Sysctl) NamespaceSettings() []NamespaceSetting {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.namespaceNames()
	l := make([]NamespaceSetting, len(names))
	for i, n := range names {
		x, _ := s.find(n)
		l[i] = NamespaceSetting{n, x.initial, x.initial}
		if v, ok := s.changed[n]; ok && (strings.HasPrefix(n, "net.ipv4.conf.") || n == "net.ipv4.ip_forward") {
			l[i].Now = v
		}
	}
	return l
}

// namespaceNames are those of the settings of a network namespace. The lock is held.
func (s *Sysctl) namespaceNames() []string {
	if s.inNamespace == nil {
		begins := func(n string, with []string) bool {
			return slices.ContainsFunc(with, func(p string) bool { return strings.HasPrefix(n, p) })
		}
		s.inNamespace = slices.DeleteFunc(s.names(), func(n string) bool { return !begins(n, namespaced) || begins(n, shared) })
	}
	return s.inNamespace
}

// ValidSetting is a value as the kernel stores it for a setting that has another value now. The error is EINVAL.
func ValidSetting(name, now, value string) (string, error) { return valid(name, now, value) }
