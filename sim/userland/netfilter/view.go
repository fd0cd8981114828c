package netfilter

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/network"
)

// userOwner owns the rules that are made with iptables, and ufwOwner those of ufw.
const (
	userOwner = "iptables"
	ufwOwner  = "ufw"
)

var builtin = map[string][]string{"filter": {"INPUT", "FORWARD", "OUTPUT"}, "nat": {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"}, "mangle": {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}, "raw": {"PREROUTING", "OUTPUT"}}

// view is a table of a machine as iptables shows it: what kube-proxy, the kubelet, CNI plugins and the user have told the
// kernel, in the rules that the real programs make of it.
func view(n network.Netfilter, name string) *table {
	t := &table{name: name}
	for _, c := range builtin[name] {
		t.make(c).policy = "ACCEPT"
	}
	switch name {
	case "filter":
		userRules(t, n, true)
		calicoFilter(t, n)
		kubeFilter(t, n.Services)
		flannelForward(t, n)
		userRules(t, n, false)
		firewallRules(t, n)
	case "nat":
		kubeNAT(t, n.Services)
		masquerades(t, n)
		hostPorts(t, n)
	case "mangle":
		if kube(n.Services) {
			t.make("KUBE-KUBELET-CANARY")
			t.make("KUBE-PROXY-CANARY")
			t.make("KUBE-IPTABLES-HINT")
		}
	}
	t.sorted()
	return t
}

// kube says whether kube-proxy has made rules of this kind.
func kube(s network.Services) bool {
	return (s.Mode == "" || s.Mode == "iptables") && (len(s.Ports) > 0 || s.ClusterCIDR.IsValid())
}

// userRules are the rules that were made with iptables: those that were put first, or the rest.
func userRules(t *table, n network.Netfilter, first bool) {
	for i, r := range n.Filters[userOwner] {
		switch {
		case r.Policy:
			t.make(r.Chain).policy = string(r.Verdict)
		case r.First == first:
			t.add(r.Chain, shownRule(r, i))
		}
	}
}

// ufwChains are where ufw has its rules for a built-in chain: its own, and the user's.
var ufwChains = map[string][2]string{"INPUT": {"ufw-before-input", "ufw-user-input"}, "FORWARD": {"ufw-before-forward", "ufw-user-forward"}, "OUTPUT": {"ufw-before-output", "ufw-user-output"}}

// firewallRules are those of ufw.
func firewallRules(t *table, n network.Netfilter) {
	for _, r := range n.Filters[ufwOwner] {
		chains := ufwChains[r.Chain]
		if r.Policy {
			if r.Verdict != network.Accept {
				t.make(r.Chain).policy = "DROP"
			}
			for _, c := range chains {
				t.add(r.Chain, rule{target: to(c), own: -1})
			}
			continue
		}
		in := chains[1]
		if r.Established || r.In != "" || r.Out != "" || r.Proto == "icmp" {
			in = chains[0]
		}
		t.add(in, shownRule(r, -1))
	}
}

// shownRule is a rule of the packet filter in iptables' words.
func shownRule(r network.Rule, own int) rule {
	s := rule{proto: r.Proto, in: match{value: r.In}, out: match{value: r.Out}, own: own}
	for _, x := range []struct {
		l   []network.Rule
		to  *match
		yes []netip.Prefix
		no  []netip.Prefix
	}{{to: &s.src, yes: r.From, no: r.NotFrom}, {to: &s.dst, yes: r.To, no: r.NotTo}} {
		switch {
		case len(x.yes) > 0:
			*x.to = prefix(x.yes[0])
		case len(x.no) > 0:
			*x.to = not(x.no[0])
		}
	}
	switch {
	case len(r.Ports) == 1:
		s.matches = append(s.matches, destination(r.Proto, r.Ports[0].First, r.Ports[0].Last))
	case len(r.Ports) > 1:
		var l []string
		for _, p := range r.Ports {
			l = append(l, ports(p.First, p.Last))
		}
		list := strings.Join(l, ",")
		s.matches = append(s.matches, extension{"-m multiport --dports " + list, "multiport dports " + list})
	}
	switch {
	case r.New:
		s.matches = append(s.matches, state("NEW", false))
	case r.Established:
		s.matches = append(s.matches, state("RELATED,ESTABLISHED", false))
	}
	if r.Comment != "" {
		s.matches = append(s.matches, comment(r.Comment))
	}
	s.target = to(string(r.Verdict))
	if r.Verdict == network.Reject {
		with := r.RejectWith
		if with == "" {
			with = "icmp-port-unreachable"
		}
		s.target = extension{"REJECT --reject-with " + with, "REJECT|reject-with " + with}
	}
	return s
}

func ports(first, last uint16) string {
	if first == last {
		return strconv.Itoa(int(first))
	}
	return fmt.Sprintf("%d:%d", first, last)
}

func destination(proto string, first, last uint16) extension {
	list := " dpt:"
	if first != last {
		list = " dpts:"
	}
	return extension{"-m " + proto + " --dport " + ports(first, last), proto + list + ports(first, last)}
}

// hash is how kube-proxy makes a chain's name.
func hash(prefix, text string) string {
	sum := sha256.Sum256([]byte(text))
	return prefix + base32.StdEncoding.EncodeToString(sum[:])[:16]
}

// kubeFilter is what kube-proxy and the kubelet have in the table filter (pkg/proxy/iptables, syncProxyRules).
func kubeFilter(t *table, s network.Services) {
	if !kube(s) {
		return
	}
	fresh := state("NEW", false)
	jump := func(from, text, to string, withState bool) {
		r := rule{target: extension{to, to}, own: -1}
		if withState {
			r.matches = append(r.matches, fresh)
		}
		r.matches = append(r.matches, comment(text))
		t.add(from, r)
	}
	const firewall, portals, external = "kubernetes load balancer firewall", "kubernetes service portals", "kubernetes externally-visible service portals"
	jump("INPUT", firewall, "KUBE-PROXY-FIREWALL", true)
	jump("INPUT", "kubernetes health check service ports", "KUBE-NODEPORTS", false)
	jump("INPUT", external, "KUBE-EXTERNAL-SERVICES", true)
	jump("FORWARD", firewall, "KUBE-PROXY-FIREWALL", true)
	jump("FORWARD", "kubernetes forwarding rules", "KUBE-FORWARD", false)
	jump("FORWARD", portals, "KUBE-SERVICES", true)
	jump("FORWARD", external, "KUBE-EXTERNAL-SERVICES", true)
	jump("OUTPUT", firewall, "KUBE-PROXY-FIREWALL", true)
	jump("OUTPUT", portals, "KUBE-SERVICES", true)
	for _, c := range []string{"INPUT", "OUTPUT"} {
		t.add(c, rule{target: to("KUBE-FIREWALL"), own: -1})
	}
	t.make("KUBE-KUBELET-CANARY")
	t.make("KUBE-PROXY-CANARY")
	local := netip.MustParsePrefix("127.0.0.0/8")
	t.add("KUBE-FIREWALL", rule{src: not(local), dst: prefix(local), matches: []extension{comment("block incoming localnet connections"), state("RELATED,ESTABLISHED,DNAT", true)}, target: to("DROP"), own: -1})
	t.add("KUBE-FORWARD", rule{matches: []extension{state("INVALID", false)}, target: to("DROP"), own: -1})
	t.add("KUBE-FORWARD", rule{matches: []extension{comment("kubernetes forwarding rules"), mark("0x4000/0x4000", false)}, target: to("ACCEPT"), own: -1})
	t.add("KUBE-FORWARD", rule{matches: []extension{comment("kubernetes forwarding conntrack rule"), state("RELATED,ESTABLISHED", false)}, target: to("ACCEPT"), own: -1})
	for _, p := range s.Ports {
		if len(p.Endpoints) > 0 {
			continue
		}
		verdict, why := extension{"REJECT --reject-with icmp-port-unreachable", "REJECT|reject-with icmp-port-unreachable"}, " has no endpoints"
		if p.Elsewhere {
			verdict, why = to("DROP"), " has no local endpoints"
		}
		if p.ClusterIP.IsValid() {
			t.add("KUBE-SERVICES", rule{proto: p.Proto, dst: host(p.ClusterIP), matches: []extension{comment(p.Name + why), destination(p.Proto, p.Port, p.Port)}, target: verdict, own: -1})
		}
		for _, a := range p.ExternalIPs {
			t.add("KUBE-EXTERNAL-SERVICES", rule{proto: p.Proto, dst: host(a), matches: []extension{comment(p.Name + why), destination(p.Proto, p.Port, p.Port)}, target: verdict, own: -1})
		}
		if p.NodePort != 0 {
			t.add("KUBE-EXTERNAL-SERVICES", rule{proto: p.Proto, matches: []extension{comment(p.Name + why), addrType("dst"), destination(p.Proto, p.NodePort, p.NodePort)}, target: verdict, own: -1})
		}
	}
}

// kubeNAT is what kube-proxy has in the table nat.
func kubeNAT(t *table, s network.Services) {
	if !kube(s) {
		return
	}
	const portals = "kubernetes service portals"
	t.add("PREROUTING", rule{matches: []extension{comment(portals)}, target: to("KUBE-SERVICES"), own: -1})
	t.add("OUTPUT", rule{matches: []extension{comment(portals)}, target: to("KUBE-SERVICES"), own: -1})
	t.add("POSTROUTING", rule{matches: []extension{comment("kubernetes postrouting rules")}, target: to("KUBE-POSTROUTING"), own: -1})
	t.add("KUBE-MARK-MASQ", rule{target: setMark("0x4000/0x4000"), own: -1})
	t.add("KUBE-POSTROUTING", rule{matches: []extension{mark("0x4000/0x4000", true)}, target: to("RETURN"), own: -1})
	t.add("KUBE-POSTROUTING", rule{target: setMark("0x4000/0x0"), own: -1})
	t.add("KUBE-POSTROUTING", rule{matches: []extension{comment("kubernetes service traffic requiring SNAT")}, target: extension{"MASQUERADE --random-fully", "MASQUERADE|random-fully"}, own: -1})
	t.make("KUBE-KUBELET-CANARY")
	t.make("KUBE-PROXY-CANARY")
	t.make("KUBE-NODEPORTS")
	masquerade := to("KUBE-MARK-MASQ")
	for _, p := range s.Ports {
		if len(p.Endpoints) == 0 {
			continue
		}
		all, local, outer := hash("KUBE-SVC-", p.Name+p.Proto), hash("KUBE-SVL-", p.Name+p.Proto), hash("KUBE-EXT-", p.Name+p.Proto)
		inner, beyond := all, all
		if p.InternalLocal {
			inner = local
		}
		if p.ExternalLocal {
			beyond = local
		}
		if p.ClusterIP.IsValid() {
			r := rule{proto: p.Proto, dst: host(p.ClusterIP), matches: []extension{comment(p.Name + " cluster IP"), destination(p.Proto, p.Port, p.Port)}, target: to(inner), own: -1}
			t.add("KUBE-SERVICES", r)
			if s.ClusterCIDR.IsValid() {
				r.src, r.target = not(s.ClusterCIDR), masquerade
				t.add(inner, r)
			}
		}
		for _, a := range p.ExternalIPs {
			t.add("KUBE-SERVICES", rule{proto: p.Proto, dst: host(a), matches: []extension{comment(p.Name + " external IP"), destination(p.Proto, p.Port, p.Port)}, target: to(outer), own: -1})
		}
		if p.NodePort != 0 {
			t.add("KUBE-NODEPORTS", rule{proto: p.Proto, matches: []extension{comment(p.Name), destination(p.Proto, p.NodePort, p.NodePort)}, target: to(outer), own: -1})
		}
		if p.NodePort != 0 || len(p.ExternalIPs) > 0 {
			if p.ExternalLocal {
				if s.ClusterCIDR.IsValid() {
					t.add(outer, rule{src: prefix(s.ClusterCIDR), matches: []extension{comment("pod traffic for " + p.Name + " external destinations")}, target: to(all), own: -1})
				}
				t.add(outer, rule{matches: []extension{comment("masquerade LOCAL traffic for " + p.Name + " external destinations"), addrType("src")}, target: masquerade, own: -1})
				t.add(outer, rule{matches: []extension{comment("route LOCAL traffic for " + p.Name + " external destinations"), addrType("src")}, target: to(all), own: -1})
			} else {
				t.add(outer, rule{matches: []extension{comment("masquerade traffic for " + p.Name + " external destinations")}, target: masquerade, own: -1})
			}
			t.add(outer, rule{target: to(beyond), own: -1})
		}
		balance(t, p, all, p.Endpoints)
		if p.InternalLocal || p.ExternalLocal {
			balance(t, p, local, p.Local)
		}
	}
	t.add("KUBE-SERVICES", rule{matches: []extension{comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain"), addrType("dst")}, target: to("KUBE-NODEPORTS"), own: -1})
}

// balance spreads a chain's traffic over endpoints.
func balance(t *table, p network.ServicePort, name string, endpoints []netip.AddrPort) {
	t.make(name)
	seconds := int(p.Affinity.Seconds())
	for _, e := range endpoints {
		chain := hash("KUBE-SEP-", p.Name+p.Proto+e.String())
		if seconds > 0 {
			t.add(name, rule{matches: []extension{comment(p.Name + " -> " + e.String()), {
				fmt.Sprintf("-m recent --rcheck --seconds %d --reap --name %s --mask 255.255.255.255 --rsource", seconds, chain),
				fmt.Sprintf("recent: CHECK seconds: %d reap name: %s side: source mask: 255.255.255.255", seconds, chain)}}, target: to(chain), own: -1})
		}
	}
	for i, e := range endpoints {
		chain := hash("KUBE-SEP-", p.Name+p.Proto+e.String())
		r := rule{matches: []extension{comment(p.Name + " -> " + e.String())}, target: to(chain), own: -1}
		if left := len(endpoints) - i; left > 1 {
			probability := fmt.Sprintf("%.11f", 1/float64(left))
			r.matches = append(r.matches, extension{"-m statistic --mode random --probability " + probability, "statistic mode random probability " + probability})
		}
		t.add(name, r)
		if c := t.chain(chain); len(c.rules) > 0 {
			continue
		}
		t.add(chain, rule{src: host(e.Addr()), matches: []extension{comment(p.Name)}, target: to("KUBE-MARK-MASQ"), own: -1})
		dnat := rule{proto: p.Proto, matches: []extension{comment(p.Name)}, target: extension{"DNAT --to-destination " + e.String(), "DNAT|to:" + e.String()}, own: -1}
		if seconds > 0 {
			dnat.matches = append(dnat.matches, extension{"-m recent --set --name " + chain + " --mask 255.255.255.255 --rsource", "recent: SET name: " + chain + " side: source mask: 255.255.255.255"})
		}
		dnat.matches = append(dnat.matches, extension{"-m " + p.Proto, p.Proto})
		t.add(chain, dnat)
	}
}

// flannelForward is what flannel has in the table filter.
func flannelForward(t *table, n network.Netfilter) {
	l := n.Masquerades["flannel"]
	if len(l) == 0 {
		return
	}
	t.add("FORWARD", rule{matches: []extension{comment("flanneld forward")}, target: to("FLANNEL-FWD"), own: -1})
	t.add("FLANNEL-FWD", rule{src: prefix(l[0].From), matches: []extension{comment("flanneld forward")}, target: to("ACCEPT"), own: -1})
	t.add("FLANNEL-FWD", rule{dst: prefix(l[0].From), matches: []extension{comment("flanneld forward")}, target: to("ACCEPT"), own: -1})
}

var bridgeOwner = regexp.MustCompile(`^name: "(.*)" id: "(.*)"$`)

// masquerades are the source NAT rules of flannel, of calico-node and of the plugin bridge.
func masquerades(t *table, n network.Netfilter) {
	for _, owner := range slices.Sorted(maps.Keys(n.Masquerades)) {
		l := n.Masquerades[owner]
		if owner == "flannel" && len(l) == 2 {
			flannelNAT(t, l[0].From, l[1].NotTo)
			continue
		}
		if owner == "calico" && len(l) == 1 {
			t.add("POSTROUTING", rule{target: to("cali-POSTROUTING"), own: -1})
			t.add("cali-POSTROUTING", rule{target: to("cali-nat-outgoing"), own: -1})
			t.add("cali-nat-outgoing", rule{src: prefix(l[0].From), dst: not(l[0].NotTo), target: extension{"MASQUERADE --random-fully", "MASQUERADE|random-fully"}, own: -1})
			continue
		}
		m := bridgeOwner.FindStringSubmatch(owner)
		if m == nil {
			continue
		}
		sum := sha512.Sum512([]byte(m[1] + m[2]))
		chain := "CNI-" + fmt.Sprintf("%x", sum)[:24]
		for _, x := range l {
			t.add("POSTROUTING", rule{src: prefix(x.From), matches: []extension{comment(owner)}, target: to(chain), own: -1})
			t.add(chain, rule{dst: prefix(x.NotTo), matches: []extension{comment(owner)}, target: to("ACCEPT"), own: -1})
			t.add(chain, rule{dst: not(netip.MustParsePrefix("224.0.0.0/4")), matches: []extension{comment(owner)}, target: to("MASQUERADE"), own: -1})
		}
	}
}

func flannelNAT(t *table, network, own netip.Prefix) {
	const chain = "FLANNEL-POSTRTG"
	c := comment("flanneld masq")
	multicast := netip.MustParsePrefix("224.0.0.0/4")
	random := extension{"MASQUERADE --random-fully", "MASQUERADE|random-fully"}
	t.add("POSTROUTING", rule{matches: []extension{c}, target: to(chain), own: -1})
	for _, r := range []rule{
		{matches: []extension{mark("0x4000/0x4000", false), c}, target: to("RETURN")},
		{src: prefix(own), dst: prefix(network), matches: []extension{c}, target: to("RETURN")},
		{src: prefix(network), dst: prefix(own), matches: []extension{c}, target: to("RETURN")},
		{src: not(network), dst: prefix(own), matches: []extension{c}, target: to("RETURN")},
		{src: prefix(network), dst: not(multicast), matches: []extension{c}, target: random},
		{src: not(network), dst: prefix(network), matches: []extension{c}, target: random},
	} {
		r.own = -1
		t.add(chain, r)
	}
}

// hostPorts are the rules of the plugin portmap.
func hostPorts(t *table, n network.Netfilter) {
	if len(n.HostPorts) == 0 {
		return
	}
	for _, c := range []string{"PREROUTING", "OUTPUT"} {
		t.add(c, rule{matches: []extension{addrType("dst")}, target: to("CNI-HOSTPORT-DNAT"), own: -1})
	}
	t.add("POSTROUTING", rule{matches: []extension{comment("CNI portfwd requiring masquerade")}, target: to("CNI-HOSTPORT-MASQ"), own: -1})
	t.add("CNI-HOSTPORT-MASQ", rule{matches: []extension{mark("0x2000/0x2000", false)}, target: to("MASQUERADE"), own: -1})
	t.add("CNI-HOSTPORT-SETMARK", rule{matches: []extension{comment("CNI portfwd masquerade mark")}, target: setMark("0x2000/0x2000"), own: -1})
	const networkName = "cbr0" // of flannel's and the guide's configuration
	for _, id := range slices.Sorted(maps.Keys(n.HostPorts)) {
		sum := sha512.Sum512([]byte(networkName + id))
		chain := "CNI-DN-" + fmt.Sprintf("%x", sum)[:21]
		text := comment(fmt.Sprintf("dnat name: %q id: %q", networkName, id))
		for _, p := range n.HostPorts[id] {
			port := destination(p.Proto, p.Port, p.Port)
			to24 := netip.PrefixFrom(p.To.Addr(), 24)
			t.add("CNI-HOSTPORT-DNAT", rule{proto: p.Proto, matches: []extension{text, {fmt.Sprintf("-m multiport --dports %d", p.Port), fmt.Sprintf("multiport dports %d", p.Port)}}, target: to(chain), own: -1})
			dst := match{}
			if p.HostIP.IsValid() && !p.HostIP.IsUnspecified() {
				dst = host(p.HostIP)
			}
			t.add(chain, rule{src: prefix(to24), dst: dst, proto: p.Proto, matches: []extension{port}, target: to("CNI-HOSTPORT-SETMARK"), own: -1})
			t.add(chain, rule{src: host(netip.MustParseAddr("127.0.0.1")), dst: dst, proto: p.Proto, matches: []extension{port}, target: to("CNI-HOSTPORT-SETMARK"), own: -1})
			t.add(chain, rule{dst: dst, proto: p.Proto, matches: []extension{port}, target: extension{"DNAT --to-destination " + p.To.String(), "DNAT|to:" + p.To.String()}, own: -1})
		}
	}
}
