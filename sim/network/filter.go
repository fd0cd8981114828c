package network

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Verdict is what a rule does with a packet that it matches.
type Verdict string

// The verdicts. Accept ends the rules of its owner only: another owner's may still drop the packet.
const (
	Accept Verdict = "ACCEPT"
	Drop   Verdict = "DROP"
	Reject Verdict = "REJECT"
)

// Rule is one packet filter rule, as "iptables -A" adds it. Empty fields match everything. It is plain data.
type Rule struct {
	Chain string // INPUT, FORWARD or OUTPUT
	// In and Out are interfaces; a name that ends in "+" is every one that begins so.
	In, Out string
	Proto   string // tcp, udp, icmp
	// From and To match if any of their prefixes does.
	From, To       []netip.Prefix
	NotFrom, NotTo []netip.Prefix
	// Ports are ranges of destination ports, any of which matches.
	Ports []PortRange
	// New makes the rule match only what opens a connection, as "--ctstate NEW" does, and Established only what belongs to one.
	New, Established bool
	// Policy marks a chain's last rule, which takes what no other has.
	Policy bool
	// First says that the rule was put before those of other programs.
	First   bool
	Verdict Verdict
	// RejectWith is the kind of refusal: "icmp-port-unreachable" (the default), "tcp-reset", "icmp-host-unreachable",
	// "icmp-net-unreachable", "icmp-admin-prohibited".
	RejectWith string
	Comment    string
}

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// Masquerade is one source NAT rule: what leaves from From to a destination outside To, or (Inside) inside of it, gets the
// address of the interface that it leaves by. It is plain data.
type Masquerade struct {
	From, NotFrom netip.Prefix
	To, NotTo     netip.Prefix
}

// HostPort is one port of a machine that leads into a Pod, as the CNI plugin portmap programs it. It is plain data.
type HostPort struct {
	Proto  string
	HostIP netip.Addr // not valid means every address of the machine
	Port   uint16
	To     netip.AddrPort
}

// SetRules replaces the packet filter rules of an owner ("iptables", "kube-network-policies"); none removes them. Owners'
// rules are independent of each other, like nftables' base chains: a packet passes if no owner drops it.
func (n *Namespace) SetRules(owner string, rules []Rule) {
	if len(rules) > 0 {
		n.needNetfilter(ruleModules)
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	setOrDelete(n.Filters, owner, rules)
	n.changed(true)
}

// Rules are the packet filter rules of an owner.
func (n *Namespace) Rules(owner string) []Rule {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return slices.Clone(n.Filters[owner])
}

// SetMasquerades replaces an owner's source NAT rules; none removes them.
func (n *Namespace) SetMasquerades(owner string, m []Masquerade) {
	if len(m) > 0 {
		n.needNetfilter(natModules)
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	setOrDelete(n.Masquerades, owner, m)
	n.changed(false)
}

// SetHostPorts replaces an owner's host ports (an owner is a container's id); none removes them.
func (n *Namespace) SetHostPorts(owner string, ports []HostPort) {
	if len(ports) > 0 {
		n.needNetfilter(natModules)
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	setOrDelete(n.HostPorts, owner, ports)
	n.changed(false)
}

func setOrDelete[T any](m map[string][]T, owner string, l []T) {
	if len(l) == 0 {
		delete(m, owner)
		return
	}
	m[owner] = slices.Clone(l)
}

func sortedKeys[V any](m map[string]V) []string {
	l := make([]string, 0, len(m))
	for k := range m {
		l = append(l, k)
	}
	slices.Sort(l)
	return l
}

func within(l []netip.Prefix, a netip.Addr) bool {
	for _, p := range l {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// filter asks every owner's rules of a chain. An errno of 0 with pass false is a drop.
func (n *Namespace) filter(chain, in, out string, p packet) (pass bool, errno syscall.Errno) {
	if len(n.Filters) == 0 {
		return true, 0
	}
	for _, owner := range sortedKeys(n.Filters) {
	rules:
		for i := range n.Filters[owner] {
			r := &n.Filters[owner][i]
			if r.Chain != chain || !r.matches(in, out, p) {
				continue
			}
			switch r.Verdict {
			case Accept:
				break rules
			case Drop:
				return false, 0
			case Reject:
				switch r.RejectWith {
				case "icmp-host-unreachable", "icmp-admin-prohibited", "icmp-host-prohibited":
					return false, syscall.EHOSTUNREACH
				case "icmp-net-unreachable":
					return false, syscall.ENETUNREACH
				}
				return false, syscall.ECONNREFUSED
			}
		}
	}
	return true, 0
}

func (r *Rule) matches(in, out string, p packet) bool {
	switch {
	case !onLink(r.In, in),
		!onLink(r.Out, out),
		r.Proto != "" && r.Proto != p.proto,
		r.New && p.established,
		r.Established && !p.established,
		len(r.From) > 0 && !within(r.From, p.src.Addr()),
		len(r.To) > 0 && !within(r.To, p.dst.Addr()),
		within(r.NotFrom, p.src.Addr()),
		within(r.NotTo, p.dst.Addr()):
		return false
	}
	if len(r.Ports) == 0 {
		return true
	}
	port := p.dst.Port()
	return slices.ContainsFunc(r.Ports, func(x PortRange) bool { return x.First <= port && port <= x.Last })
}

// onLink says whether an interface is what a rule asks for.
func onLink(want, is string) bool {
	if prefix, ok := strings.CutSuffix(want, "+"); ok {
		return strings.HasPrefix(is, prefix)
	}
	return want == "" || want == is
}

// masquerades says whether a packet leaves with the machine's own address.
func (n *Namespace) masquerades(p packet) bool {
	for _, owner := range sortedKeys(n.Masquerades) {
		for _, m := range n.Masquerades[owner] {
			if m.From.IsValid() && !m.From.Contains(p.src.Addr()) || m.NotFrom.IsValid() && m.NotFrom.Contains(p.src.Addr()) ||
				m.To.IsValid() && !m.To.Contains(p.dst.Addr()) || m.NotTo.IsValid() && m.NotTo.Contains(p.dst.Addr()) {
				continue
			}
			return true
		}
	}
	return false
}

// Netfilter is all that a machine's packet filter has been told, by owner.
type Netfilter struct {
	Filters     map[string][]Rule
	Masquerades map[string][]Masquerade
	HostPorts   map[string][]HostPort
	Services    Services
}

// Netfilter returns a copy of the machine's rules.
func (n *Namespace) Netfilter() Netfilter {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return Netfilter{maps.Clone(n.Filters), maps.Clone(n.Masquerades), maps.Clone(n.HostPorts), n.services.Services}
}
