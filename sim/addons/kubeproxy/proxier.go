package kubeproxy

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/runner"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// proxier is the back end: it collects changes with upstream's trackers, and sets the machine's service rules from them, at
// most once per minimal period. IPv4 only, as the clusters of the world are.
type proxier struct {
	s      *server
	space  *network.Namespace
	runner *runner.BoundedFrequencyRunner

	mu               sync.Mutex
	services         *proxy.ServiceChangeTracker
	endpoints        *proxy.EndpointsChangeTracker
	servicePorts     proxy.ServicePortMap
	endpointsMap     proxy.EndpointsMap
	servicesSynced   bool
	slicesSynced     bool
	topology         map[string]string
	syncs            int
	lastSync, queued time.Time
	programmed       []network.ServicePort
}

func newProxier(s *server) *proxier {
	x := &proxier{s: s, space: namespaceOf(s.p), servicePorts: proxy.ServicePortMap{}, endpointsMap: proxy.EndpointsMap{},
		services:  proxy.NewServiceChangeTracker(v1.IPv4Protocol, nil, nil),
		endpoints: proxy.NewEndpointsChangeTracker(v1.IPv4Protocol, s.nodeName, nil, nil)}
	minimal := s.config.MinSyncPeriod.Duration
	x.runner = runner.NewBoundedFrequencyRunner("sync-runner", x.sync, minimal, s.config.SyncPeriod.Duration, proxyutil.FullSyncPeriod)
	return x
}

func (x *proxier) changed() {
	if x.s.health != nil {
		x.s.health.QueuedUpdate(v1.IPv4Protocol)
	}
	x.mu.Lock()
	x.queued = time.Now()
	ready := x.servicesSynced && x.slicesSynced
	x.mu.Unlock()
	if ready {
		x.runner.Run()
	}
}

// OnServiceAdd implements upstream's ServiceHandler.
func (x *proxier) OnServiceAdd(s *v1.Service) { x.OnServiceUpdate(nil, s) }

// OnServiceUpdate implements upstream's ServiceHandler.
func (x *proxier) OnServiceUpdate(old, s *v1.Service) {
	if x.services.Update(old, s) {
		x.changed()
	}
}

// OnServiceDelete implements upstream's ServiceHandler.
func (x *proxier) OnServiceDelete(s *v1.Service) { x.OnServiceUpdate(s, nil) }

// OnServiceSynced implements upstream's ServiceHandler.
func (x *proxier) OnServiceSynced() {
	x.mu.Lock()
	x.servicesSynced = true
	ready := x.slicesSynced
	x.mu.Unlock()
	if ready {
		x.sync()
	}
}

// OnEndpointSliceAdd implements upstream's EndpointSliceHandler.
func (x *proxier) OnEndpointSliceAdd(e *discovery.EndpointSlice) {
	if x.endpoints.EndpointSliceUpdate(e, false) {
		x.changed()
	}
}

// OnEndpointSliceUpdate implements upstream's EndpointSliceHandler.
func (x *proxier) OnEndpointSliceUpdate(_, e *discovery.EndpointSlice) { x.OnEndpointSliceAdd(e) }

// OnEndpointSliceDelete implements upstream's EndpointSliceHandler.
func (x *proxier) OnEndpointSliceDelete(e *discovery.EndpointSlice) {
	if x.endpoints.EndpointSliceUpdate(e, true) {
		x.changed()
	}
}

// OnEndpointSlicesSynced implements upstream's EndpointSliceHandler.
func (x *proxier) OnEndpointSlicesSynced() {
	x.mu.Lock()
	x.slicesSynced = true
	ready := x.servicesSynced
	x.mu.Unlock()
	if ready {
		x.sync()
	}
}

// OnTopologyChange implements upstream's NodeTopologyHandler.
func (x *proxier) OnTopologyChange(labels map[string]string) {
	x.mu.Lock()
	same := reflect.DeepEqual(x.topology, labels)
	x.topology = labels
	x.mu.Unlock()
	if !same {
		x.changed()
	}
}

// OnServiceCIDRsChanged implements upstream's ServiceCIDRHandler. The rules do not depend on the ranges.
func (x *proxier) OnServiceCIDRsChanged([]string) {}

// sync sets the machine's service rules.
func (x *proxier) sync() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.servicesSynced || !x.slicesSynced || !x.s.p.Alive() {
		return nil
	}
	x.servicePorts.Update(x.services)
	x.endpointsMap.Update(x.endpoints)
	names := make([]proxy.ServicePortName, 0, len(x.servicePorts))
	for n := range x.servicePorts {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return names[i].String() < names[j].String() })
	table := &network.Services{Mode: string(x.s.config.Mode), NoLocalhostNodePorts: !x.s.localhostNodePorts()}
	for _, c := range x.s.config.DetectLocal.ClusterCIDRs {
		if p, err := netip.ParsePrefix(c); err == nil && p.Addr().Is4() {
			table.ClusterCIDR = p.Masked()
			break
		}
	}
	for _, c := range x.s.config.NodePortAddresses {
		if p, err := netip.ParsePrefix(c); err == nil {
			table.NodePortAddresses = append(table.NodePortAddresses, p.Masked())
		}
	}
	for _, n := range names {
		if p, ok := x.port(n); ok {
			table.Ports = append(table.Ports, p)
		}
	}
	now := x.space.Services()
	if !reflect.DeepEqual(now, *table) {
		x.space.SetServices(table)
		x.s.p.World().Trace.Add(kernel.Step{Actor: "kube-proxy", Host: x.s.p.Host().Name(), Verb: "write", Subject: "rules/" + x.space.Name(), Detail: difference(now.Ports, table.Ports)})
	}
	x.programmed = table.Ports
	x.syncs++
	x.lastSync = time.Now()
	if x.s.health != nil {
		x.s.health.Updated(v1.IPv4Protocol)
	}
	return nil
}

// difference names the Service ports that have changed.
func difference(old, now []network.ServicePort) string {
	was := map[string]network.ServicePort{}
	for _, p := range old {
		was[p.Name+"/"+p.Proto] = p
	}
	var l []string
	for _, p := range now {
		o, ok := was[p.Name+"/"+p.Proto]
		delete(was, p.Name+"/"+p.Proto)
		if !ok || !reflect.DeepEqual(o, p) {
			l = append(l, fmt.Sprintf("%s -> %d endpoints", p.Name, len(p.Endpoints)+len(p.Local)))
		}
	}
	var gone []string
	for _, p := range was {
		gone = append(gone, p.Name+" removed")
	}
	sort.Strings(gone)
	if l = append(l, gone...); len(l) > 5 {
		l = append(l[:5], fmt.Sprintf("and %d more", len(l)-5))
	}
	return strings.Join(l, ", ")
}

// port turns one Service port and its endpoints into a rule. What each set of endpoints is for is upstream's topology.go.
func (x *proxier) port(name proxy.ServicePortName) (network.ServicePort, bool) {
	info := x.servicePorts[name]
	proto := strings.ToLower(string(info.Protocol()))
	if proto != "tcp" && proto != "udp" {
		return network.ServicePort{}, false
	}
	cluster, local, reachable, any := proxy.CategorizeEndpoints(x.endpointsMap[name], info, x.s.nodeName, x.topology)
	p := network.ServicePort{Name: name.String(), Proto: proto, ClusterIP: addr(info.ClusterIP()), Port: uint16(info.Port()), NodePort: uint16(info.NodePort()),
		Endpoints: addrs(cluster), Local: addrs(local), Elsewhere: any && len(reachable) == 0, InternalLocal: info.InternalPolicyLocal(), ExternalLocal: info.ExternalPolicyLocal()}
	for _, ips := range [][]net.IP{info.ExternalIPs(), info.LoadBalancerVIPs()} {
		for _, ip := range ips {
			p.ExternalIPs = append(p.ExternalIPs, addr(ip))
		}
	}
	if info.SessionAffinityType() == v1.ServiceAffinityClientIP {
		p.Affinity = time.Duration(info.StickyMaxAgeSeconds()) * time.Second
	}
	return p, true
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func addrs(l []proxy.Endpoint) []netip.AddrPort {
	var r []netip.AddrPort
	for _, e := range l {
		if a, err := netip.ParseAddr(e.IP()); err == nil {
			r = append(r, netip.AddrPortFrom(a, uint16(e.Port())))
		}
	}
	sort.Slice(r, func(i, j int) bool { return r[i].Compare(r[j]) < 0 })
	return r
}

// metrics writes the few figures that this back end has.
func (x *proxier) metrics(b *bytes.Buffer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	endpoints := 0
	for _, p := range x.programmed {
		endpoints += len(p.Endpoints)
	}
	stamp := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixNano()) / 1e9
	}
	for _, m := range []struct {
		name, help, kind string
		value            float64
	}{
		{"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "[ALPHA] The last time a sync of proxy rules was queued", "gauge", stamp(x.queued)},
		{"kubeproxy_sync_proxy_rules_last_timestamp_seconds", "[ALPHA] The last time proxy rules were successfully synced", "gauge", stamp(x.lastSync)},
		{"kubeproxy_sync_proxy_rules_duration_seconds_count", "[ALPHA] SyncProxyRules latency in seconds", "counter", float64(x.syncs)},
		{"kubeproxy_sync_proxy_rules_endpoints", "[ALPHA] Number of endpoints that are programmed", "gauge", float64(endpoints)},
	} {
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n%s{ip_family=\"IPv4\"} %g\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}
