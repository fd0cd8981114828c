package network

import "slices"

// linkModules are the names under which the kernel asks for the module of a kind of link.
var linkModules = map[LinkKind]string{Bridge: "rtnl-link-bridge", Veth: "rtnl-link-veth", VXLAN: "rtnl-link-vxlan"}

// linkKinds are the kinds of links that go with a module.
var linkKinds = map[string]LinkKind{"bridge": Bridge, "veth": Veth, "vxlan": VXLAN}

// What iptables-nft's rules make the kernel load: those of any rule, of address translation, and of a Service's.
var (
	ruleModules    = []string{"nft_compat", "xt_comment", "xt_conntrack"}
	natModules     = []string{"nft_compat", "nft_chain_nat", "xt_comment", "xt_MASQUERADE"}
	serviceModules = []string{"nft_compat", "nft_chain_nat", "xt_comment", "xt_conntrack", "xt_mark", "xt_nat", "xt_MASQUERADE", "xt_addrtype", "xt_statistic", "nf_conntrack_netlink"}
)

// SetModules sets who loads a module that the machine's kernel needs, by name or alias; its error refuses the link that needs it.
// Without it everything is built in.
func (n *Namespace) SetModules(request func(alias string) error) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.request = request
}

func (n *Namespace) needModule(alias string) error {
	n.f.mu.Lock()
	host := n.host()
	n.f.mu.Unlock()
	if alias == "" || host == nil || host.request == nil {
		return nil
	}
	return host.request(alias)
}

// needNetfilter asks for the modules of rules. A rule whose module is missing does nothing else wrong here.
func (n *Namespace) needNetfilter(modules []string) {
	for _, m := range modules {
		n.needModule(m)
	}
}

// RemoveModule deletes the links of a module that is about to be unloaded, as its exit function does.
func (n *Namespace) RemoveModule(name string) {
	kind, ok := linkKinds[name]
	if !ok {
		return
	}
	for _, s := range append([]*Namespace{n}, n.Namespaces()...) {
		for _, l := range s.Links() {
			if l.Kind == kind {
				s.DeleteLink(l.Name) // the other end of a veth pair may have gone already
			}
		}
	}
}

// CountModule is how many rules of the machine use a module.
func (n *Namespace) CountModule(name string) int {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	filters, nat := 0, 0
	for _, l := range n.Filters {
		filters += len(l)
	}
	for _, l := range n.Masquerades {
		nat += len(l)
	}
	for _, l := range n.HostPorts {
		nat += len(l)
	}
	services := len(n.services.Ports)
	count := 0
	for _, x := range []struct {
		rules   int
		modules []string
	}{{filters, ruleModules}, {nat, natModules}, {services, serviceModules}} {
		if slices.Contains(x.modules, name) && name != "nf_conntrack_netlink" {
			count += x.rules
		}
	}
	return count
}
