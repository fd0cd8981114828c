package network

import (
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Services is what a node's kube-proxy has programmed into its kernel. It is plain data, and it stays when kube-proxy ends.
type Services struct {
	// ClusterCIDR is where local Pods' traffic comes from: what comes from elsewhere is masqueraded.
	ClusterCIDR netip.Prefix
	Ports       []ServicePort
	// Mode is what kube-proxy makes rules of: iptables, ipvs or nftables.
	Mode string
	// NoLocalhostNodePorts is set by iptables.localhostNodePorts: false and by nodePortAddresses without a loopback.
	NoLocalhostNodePorts bool
	// NodePortAddresses restricts node ports to the machine's addresses within; none is every address.
	NodePortAddresses []netip.Prefix
}

// ServicePort is one port of a Service with its endpoints.
type ServicePort struct {
	Name      string // "namespace/service:port"
	Proto     string // tcp, udp
	ClusterIP netip.Addr
	// ExternalIPs are the Service's externalIPs and load balancer addresses.
	ExternalIPs []netip.Addr
	Port        uint16
	NodePort    uint16
	Endpoints   []netip.AddrPort
	// Local are those of the endpoints that run on this node.
	Local []netip.AddrPort
	// Elsewhere says that there are endpoints although none may be used here: traffic is dropped, not refused.
	Elsewhere bool
	// InternalLocal and ExternalLocal are the traffic policies Local.
	InternalLocal, ExternalLocal bool
	// Affinity is the time-out of session affinity by client address, 0 for none.
	Affinity time.Duration
}

type frontend struct {
	proto string
	addr  netip.AddrPort
}

type serviceTable struct {
	Services
	byAddr  map[frontend]*ServicePort
	byNode  map[frontend]*ServicePort // the address is not valid, only the port counts
	version uint64
}

func (t *serviceTable) set(s *Services) {
	t.byAddr, t.byNode = map[frontend]*ServicePort{}, map[frontend]*ServicePort{}
	t.Services = Services{}
	if s == nil {
		return
	}
	t.Services = *s
	for i := range t.Ports {
		p := &t.Ports[i]
		if p.ClusterIP.IsValid() {
			t.byAddr[frontend{p.Proto, netip.AddrPortFrom(p.ClusterIP, p.Port)}] = p
		}
		for _, a := range p.ExternalIPs {
			t.byAddr[frontend{p.Proto, netip.AddrPortFrom(a, p.Port)}] = p
		}
		if p.NodePort != 0 {
			t.byNode[frontend{p.Proto, netip.AddrPortFrom(netip.Addr{}, p.NodePort)}] = p
		}
	}
}

// SetServices replaces the machine's service rules; nil flushes them. The namespace keeps s, which must not change after.
// Established connections stay; what was remembered about datagrams to endpoints that are gone is forgotten.
func (n *Namespace) SetServices(s *Services) {
	if s != nil {
		n.needNetfilter(serviceModules)
	}
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.services.set(s)
	n.services.version = n.f.w.Version()
	n.f.forgetTracks(n)
}

// Services is what [Namespace.SetServices] set. It must not be changed.
func (n *Namespace) Services() Services {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	return n.services.Services
}

type affinityKey struct {
	service string
	client  netip.Addr
}

type affinityEntry struct {
	endpoint netip.AddrPort
	until    time.Time
}

// dnat is what the NAT rules of a namespace make of a new packet that leaves a local process (local) or has come in.
type dnat struct {
	dst        netip.AddrPort
	done       bool // the destination was changed
	masquerade bool
	drop       bool
	errno      syscall.Errno
}

func (n *Namespace) translate(p packet, local bool) dnat {
	if d := n.translateService(p, local); d.done || d.drop || d.errno != 0 {
		return d
	}
	return n.translateHostPort(p)
}

func (n *Namespace) translateService(p packet, local bool) dnat {
	t := &n.services
	if len(t.Ports) == 0 {
		return dnat{}
	}
	external := false
	s := t.byAddr[frontend{p.proto, p.dst}]
	if s != nil {
		external = p.dst.Addr() != s.ClusterIP
	} else if s = t.byNode[frontend{p.proto, netip.AddrPortFrom(netip.Addr{}, p.dst.Port())}]; s != nil && n.isLocal(p.dst.Addr()) {
		a := p.dst.Addr()
		if a.IsLoopback() && t.NoLocalhostNodePorts || len(t.NodePortAddresses) > 0 && !a.IsLoopback() && !within(t.NodePortAddresses, a) {
			return dnat{}
		}
		external = true
	} else {
		return dnat{}
	}
	fromPod := t.ClusterCIDR.IsValid() && t.ClusterCIDR.Contains(p.src.Addr())
	endpoints, masquerade := s.Endpoints, false
	switch {
	case external && s.ExternalLocal:
		// Traffic from the node itself and from Pods goes to any endpoint, only what comes from outside stays on the node.
		if !local && !fromPod {
			endpoints = s.Local
		}
		masquerade = local
	case external:
		masquerade = true
	default:
		if s.InternalLocal {
			endpoints = s.Local
		}
		masquerade = t.ClusterCIDR.IsValid() && !fromPod
	}
	if len(endpoints) == 0 {
		if len(s.Endpoints) == 0 && len(s.Local) == 0 && !s.Elsewhere {
			return dnat{errno: syscall.ECONNREFUSED}
		}
		return dnat{drop: true}
	}
	e := n.choose(s, endpoints, p.src.Addr())
	return dnat{dst: e, done: true, masquerade: masquerade || e.Addr() == p.src.Addr()}
}

// choose picks an endpoint: at random, or the one that the client had before.
func (n *Namespace) choose(s *ServicePort, endpoints []netip.AddrPort, client netip.Addr) netip.AddrPort {
	k := affinityKey{s.Name, client}
	now := time.Now()
	if s.Affinity > 0 {
		if a, ok := n.affinity[k]; ok && now.Before(a.until) && slices.Contains(endpoints, a.endpoint) {
			n.affinity[k] = affinityEntry{a.endpoint, now.Add(s.Affinity)}
			return a.endpoint
		}
	}
	e := endpoints[0]
	if len(endpoints) > 1 {
		e = endpoints[n.f.services.IntN(len(endpoints))]
	}
	if s.Affinity > 0 {
		if len(n.affinity) > 10000 {
			clear(n.affinity)
		}
		n.affinity[k] = affinityEntry{e, now.Add(s.Affinity)}
	}
	return e
}

func (n *Namespace) translateHostPort(p packet) dnat {
	if len(n.HostPorts) == 0 || !n.isLocal(p.dst.Addr()) {
		return dnat{}
	}
	for _, owner := range sortedKeys(n.HostPorts) {
		for _, h := range n.HostPorts[owner] {
			if h.Proto != p.proto || h.Port != p.dst.Port() || h.To.Addr().Is4() != p.dst.Addr().Is4() {
				continue
			}
			if h.HostIP.IsValid() && !h.HostIP.IsUnspecified() && h.HostIP != p.dst.Addr() {
				continue
			}
			return dnat{dst: h.To, done: true, masquerade: p.src.Addr().IsLoopback() || p.src.Addr() == h.To.Addr()}
		}
	}
	return dnat{}
}
