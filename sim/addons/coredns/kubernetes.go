package coredns

import (
	"context"
	"fmt"
	"net/netip"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"ckadrill/sim/network/apiclient"
)

// kubernetesPlugin answers for Services and Pods, by the rules of CoreDNS's plugin of that name.
type kubernetesPlugin struct {
	i          *instance
	zones      []string // as configured
	fall       bool
	fallZones  []string
	ttl        uint32
	pods       string // disabled, insecure, verified
	byPodName  bool
	namespaces map[string]bool
	endpoint   string
	kubeconfig string
	next       handler

	services  corelisters.ServiceLister
	spaces    corelisters.NamespaceLister
	podLister corelisters.PodLister
	slices    cache.Indexer
	byIP      cache.Indexer
	synced    []cache.InformerSynced
}

const (
	serviceIndex = "service"
	addressIndex = "address"
	clusterIndex = "clusterIP"
)

func (i *instance) kubernetesSetup(d *caddyfile.Dispenser, b *block, next handler) (handler, func() error, error) {
	k := &kubernetesPlugin{i: i, ttl: 5, pods: "disabled", next: next}
	for d.Next() {
		k.zones = zonesOf(d.RemainingArgs(), b)
		for d.NextBlock() {
			name := d.Val()
			args := d.RemainingArgs()
			switch name {
			case "pods":
				if len(args) != 1 {
					return nil, nil, d.ArgErr()
				}
				switch args[0] {
				case "disabled", "insecure", "verified":
					k.pods = args[0]
				default:
					return nil, nil, fmt.Errorf("wrong value for pods: %s,  pods must be one of: disabled, verified, insecure", args[0])
				}
			case "ttl":
				if len(args) != 1 {
					return nil, nil, d.ArgErr()
				}
				n, err := strconv.Atoi(args[0])
				if err != nil {
					return nil, nil, err
				}
				if n < 0 || n > 3600 {
					return nil, nil, d.Errf("ttl must be in range [0, 3600]: %d", n)
				}
				k.ttl = uint32(n)
			case "fallthrough":
				k.fall, k.fallZones = true, []string{"."}
				if len(args) > 0 {
					k.fallZones = zonesOf(args, b)
				}
			case "endpoint_pod_names":
				k.byPodName = true
			case "namespaces":
				if len(args) == 0 {
					return nil, nil, d.ArgErr()
				}
				k.namespaces = map[string]bool{}
				for _, a := range args {
					k.namespaces[a] = true
				}
			case "endpoint":
				if len(args) != 1 {
					return nil, nil, d.ArgErr()
				}
				k.endpoint = args[0]
			case "kubeconfig":
				if len(args) < 1 {
					return nil, nil, d.ArgErr()
				}
				k.kubeconfig = args[0]
			case "labels", "namespace_labels", "tls", "noendpoints", "ignore", "multicluster", "startup_timeout", "apiserver_qps", "apiserver_burst", "apiserver_max_inflight", "transfer":
				return nil, nil, fmt.Errorf("ckadrill does not simulate the option %q of the plugin kubernetes yet", name)
			default:
				return nil, nil, d.Errf("unknown property '%s'", name)
			}
		}
	}
	if err := k.connect(); err != nil {
		return nil, nil, err
	}
	i.kube = k
	i.checks["kubernetes"] = k.ready
	return k.handle, k.waitForAPI, nil
}

// connect starts to watch what the plugin needs.
func (k *kubernetesPlugin) connect() error {
	p := k.i.d.Process
	var c *rest.Config
	var err error
	switch {
	case k.kubeconfig != "":
		c, err = apiclient.Kubeconfig(p, k.kubeconfig)
	case k.endpoint != "":
		c = &rest.Config{Host: k.endpoint}
		err = apiclient.ConfigureREST(p, c)
	default:
		c, err = apiclient.InCluster(p)
	}
	if err != nil {
		return err
	}
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.UserAgent = "CoreDNS/" + k.i.d.version + " git_commit:" + buildCommit + " (linux/amd64/" + buildGo + ")"
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return fmt.Errorf("failed to create kubernetes notification controller: %q", err)
	}
	f := informers.NewSharedInformerFactory(client, 0)
	k.services, k.spaces = f.Core().V1().Services().Lister(), f.Core().V1().Namespaces().Lister()
	slices, services := f.Discovery().V1().EndpointSlices().Informer(), f.Core().V1().Services().Informer()
	if err := slices.AddIndexers(cache.Indexers{
		serviceIndex: func(o any) ([]string, error) {
			s := o.(*discovery.EndpointSlice)
			return []string{s.Namespace + "/" + s.Labels[discovery.LabelServiceName]}, nil
		},
		addressIndex: func(o any) ([]string, error) {
			var l []string
			for _, e := range o.(*discovery.EndpointSlice).Endpoints {
				l = append(l, e.Addresses...)
			}
			return l, nil
		}}); err != nil {
		return err
	}
	if err := services.AddIndexers(cache.Indexers{clusterIndex: func(o any) ([]string, error) {
		s := o.(*v1.Service)
		return append(append([]string(nil), s.Spec.ClusterIPs...), s.Spec.ExternalIPs...), nil
	}}); err != nil {
		return err
	}
	k.slices, k.byIP = slices.GetIndexer(), services.GetIndexer()
	k.synced = []cache.InformerSynced{slices.HasSynced, services.HasSynced, f.Core().V1().Namespaces().Informer().HasSynced}
	if k.pods == "verified" {
		k.podLister = f.Core().V1().Pods().Lister()
		k.synced = append(k.synced, f.Core().V1().Pods().Informer().HasSynced)
	}
	f.Start(k.i.ctx.Done())
	return nil
}

func (k *kubernetesPlugin) ready() bool {
	for _, s := range k.synced {
		if !s() {
			return false
		}
	}
	return true
}

// waitForAPI holds the start up to 5 s for the first lists.
func (k *kubernetesPlugin) waitForAPI() error {
	const timeout, logDelay, check = 5 * time.Second, 500 * time.Millisecond, 100 * time.Millisecond
	start, logged := time.Now(), time.Now()
	for !k.ready() {
		if time.Since(start) >= timeout {
			k.i.d.log("WARNING", "plugin/kubernetes: starting server with unsynced Kubernetes API")
			return nil
		}
		if time.Since(logged) >= logDelay {
			logged = time.Now()
			k.i.d.log("INFO", "plugin/kubernetes: waiting for Kubernetes API before starting server")
		}
		select {
		case <-k.i.ctx.Done():
			return context.Cause(k.i.ctx)
		case <-time.After(check):
		}
	}
	return nil
}

// outcome is what a look-up in the cluster's objects found.
type outcome struct {
	exists  bool // else NXDOMAIN
	records []record
	cname   string
	txt     string
}

// record is one address (or, for SRV, one port of one) behind a name.
type record struct {
	addr   netip.Addr
	port   int32
	target string // what SRV points to
}

func (k *kubernetesPlugin) handle(q *query) (*dns.Msg, error) {
	zone := match(k.zones, q.name)
	if zone == "" {
		return k.next(q)
	}
	r := new(dns.Msg).SetReply(q.msg)
	r.Authoritative = true
	var found outcome
	switch {
	case q.qtype == dns.TypePTR:
		found = k.reverse(q, r)
	case q.name == zone && (q.qtype == dns.TypeSOA || q.qtype == dns.TypeNS):
		if q.qtype == dns.TypeSOA {
			r.Answer = append(r.Answer, k.soa(zone))
		} else {
			r.Answer = append(r.Answer, &dns.NS{Hdr: header(q, dns.TypeNS, k.ttl), Ns: "ns.dns." + zone})
		}
		return r, nil
	case strings.HasSuffix(zone, "arpa."):
	default:
		found = k.find(zone, q.name)
	}
	if !found.exists {
		if k.fall && match(k.fallZones, q.name) != "" {
			return k.next(q)
		}
		if !k.ready() {
			return nil, fmt.Errorf("plugin/kubernetes: Kubernetes API has not synced")
		}
		r.Rcode = dns.RcodeNameError
		r.Ns = append(r.Ns, k.soa(zone))
		return r, nil
	}
	k.fill(q, r, found)
	if len(r.Answer) == 0 {
		r.Ns = append(r.Ns, k.soa(zone))
	}
	return r, nil
}

func (k *kubernetesPlugin) soa(zone string) dns.RR {
	return &dns.SOA{Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: k.ttl}, Ns: "ns.dns." + zone, Mbox: "hostmaster." + zone,
		Serial: uint32(time.Now().Unix()), Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: k.ttl}
}

// fill puts what was found into the answer, as the query's type asks.
func (k *kubernetesPlugin) fill(q *query, r *dns.Msg, o outcome) {
	switch {
	case o.cname != "":
		r.Answer = append(r.Answer, &dns.CNAME{Hdr: header(q, dns.TypeCNAME, k.ttl), Target: o.cname})
		if q.qtype != dns.TypeCNAME {
			other := *q
			other.msg = q.msg.Copy()
			other.msg.Question[0].Name, other.name = o.cname, strings.ToLower(o.cname)
			if m := q.inst.answer(&other); m.Rcode == dns.RcodeSuccess {
				r.Answer = append(r.Answer, m.Answer...)
			}
		}
	case q.qtype == dns.TypeTXT && o.txt != "":
		r.Answer = append(r.Answer, &dns.TXT{Hdr: header(q, dns.TypeTXT, k.ttl), Txt: []string{o.txt}})
	case q.qtype == dns.TypeSRV:
		weight := uint16(100)
		if len(o.records) > 1 {
			weight = max(1, uint16(100/len(o.records)))
		}
		seen := map[string]bool{}
		for _, rec := range o.records {
			if rec.port == -1 {
				continue
			}
			rr := &dns.SRV{Hdr: header(q, dns.TypeSRV, k.ttl), Priority: 0, Weight: weight, Port: uint16(rec.port), Target: rec.target}
			if s := rr.String(); !seen[s] {
				seen[s] = true
				r.Answer = append(r.Answer, rr)
			}
			extra := dns.RR_Header{Name: rec.target, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: k.ttl}
			if s := rec.target + rec.addr.String(); !seen[s] && rec.addr.Is4() {
				seen[s] = true
				r.Extra = append(r.Extra, &dns.A{Hdr: extra, A: rec.addr.AsSlice()})
			}
		}
	default:
		seen := map[netip.Addr]bool{}
		for _, rec := range o.records {
			if rr := addressRecord(q, rec.addr, k.ttl); rr != nil && !seen[rec.addr] {
				seen[rec.addr] = true
				r.Answer = append(r.Answer, rr)
			}
		}
	}
}

func (k *kubernetesPlugin) exposed(namespace string) bool {
	if k.namespaces != nil && !k.namespaces[namespace] {
		return false
	}
	_, err := k.spaces.Get(namespace)
	return err == nil
}

// find looks a name of the cluster's zone up. The labels are, from the right: svc or pod, namespace, service, and then an
// endpoint's name, or _port._protocol.
func (k *kubernetesPlugin) find(zone, name string) outcome {
	l := dns.SplitDomainName(strings.TrimSuffix(name, zone))
	if len(l) == 0 {
		return outcome{exists: true}
	}
	if len(l) == 1 && l[0] == "dns-version" {
		return outcome{exists: true, txt: "1.1.0"}
	}
	if len(l) == 2 && l[1] == "dns" && l[0] == "ns" {
		return k.find(zone, "kube-dns.kube-system.svc."+zone)
	}
	kind := l[len(l)-1]
	if kind != "svc" && kind != "pod" {
		return outcome{}
	}
	if l = l[:len(l)-1]; len(l) == 0 {
		return outcome{exists: true}
	}
	namespace := l[len(l)-1]
	if !k.exposed(namespace) {
		return outcome{}
	}
	if l = l[:len(l)-1]; len(l) == 0 {
		return outcome{exists: true}
	}
	if kind == "pod" {
		return k.findPod(namespace, l)
	}
	service := l[len(l)-1]
	endpoint, port, protocol := "", "", ""
	switch l = l[:len(l)-1]; len(l) {
	case 0:
	case 1:
		endpoint = l[0]
	case 2:
		port, protocol = strings.TrimPrefix(l[0], "_"), strings.TrimPrefix(l[1], "_")
	default:
		return outcome{}
	}
	return k.findService(zone, namespace, service, endpoint, port, protocol)
}

func (k *kubernetesPlugin) findPod(namespace string, l []string) outcome {
	if k.pods == "disabled" || len(l) != 1 {
		return outcome{}
	}
	text := l[0]
	if strings.Count(text, "-") == 3 && !strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "-", ".")
	} else {
		text = strings.ReplaceAll(text, "-", ":")
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return outcome{}
	}
	if k.pods == "verified" {
		pods, _ := k.podLister.Pods(namespace).List(labels.Everything())
		ok := false
		for _, p := range pods {
			ok = ok || p.Status.PodIP == a.String()
		}
		if !ok {
			return outcome{}
		}
	}
	return outcome{exists: true, records: []record{{addr: a, port: -1}}}
}

func matches(port, protocol, portName, portProtocol string) bool {
	return port == "" && protocol == "" || strings.EqualFold(port, portName) && strings.EqualFold(protocol, portProtocol)
}

func (k *kubernetesPlugin) findService(zone, namespace, service, endpoint, port, protocol string) outcome {
	s, err := k.services.Services(namespace).Get(service)
	if err != nil {
		return outcome{}
	}
	full := service + "." + namespace + ".svc." + zone
	if s.Spec.Type == v1.ServiceTypeExternalName {
		if endpoint != "" || port != "" || protocol != "" {
			return outcome{}
		}
		return outcome{exists: true, cname: dns.Fqdn(s.Spec.ExternalName)}
	}
	var o outcome
	if s.Spec.ClusterIP == v1.ClusterIPNone || endpoint != "" {
		for _, slice := range k.slicesOf(namespace, service) {
			for _, e := range slice.Endpoints {
				if !ready(e, s) {
					continue
				}
				for _, a := range e.Addresses {
					addr, err := netip.ParseAddr(a)
					if err != nil || endpoint != "" && endpoint != k.hostname(e, a) {
						continue
					}
					target := k.hostname(e, a) + "." + full
					if len(slice.Ports) == 0 && port == "" && protocol == "" {
						o.exists = true
						o.records = append(o.records, record{addr, -1, target})
					}
					for _, p := range slice.Ports {
						name, proto, number := "", "TCP", int32(-1)
						if p.Name != nil {
							name = *p.Name
						}
						if p.Protocol != nil {
							proto = string(*p.Protocol)
						}
						if p.Port != nil {
							number = *p.Port
						}
						if !matches(port, protocol, name, proto) {
							continue
						}
						o.exists = true
						o.records = append(o.records, record{addr, number, target})
					}
				}
			}
		}
		return o
	}
	for _, p := range s.Spec.Ports {
		if !matches(port, protocol, p.Name, string(p.Protocol)) {
			continue
		}
		o.exists = true
		for _, ip := range s.Spec.ClusterIPs {
			if a, err := netip.ParseAddr(ip); err == nil {
				o.records = append(o.records, record{a, p.Port, full})
			}
		}
	}
	return o
}

// ready says whether an endpoint is published.
func ready(e discovery.Endpoint, s *v1.Service) bool {
	return e.Conditions.Ready == nil || *e.Conditions.Ready || s.Spec.PublishNotReadyAddresses
}

func (k *kubernetesPlugin) hostname(e discovery.Endpoint, address string) string {
	switch {
	case e.Hostname != nil && *e.Hostname != "":
		return strings.ToLower(*e.Hostname)
	case k.byPodName && e.TargetRef != nil && e.TargetRef.Name != "":
		return strings.ToLower(e.TargetRef.Name)
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(address)
}

func (k *kubernetesPlugin) slicesOf(namespace, service string) []*discovery.EndpointSlice {
	objects, _ := k.slices.ByIndex(serviceIndex, namespace+"/"+service)
	l := make([]*discovery.EndpointSlice, 0, len(objects))
	for _, o := range objects {
		l = append(l, o.(*discovery.EndpointSlice))
	}
	sort.Slice(l, func(a, b int) bool { return l[a].Name < l[b].Name })
	return l
}

// reverse finds the names of an address: a Service's, or those of its endpoints.
func (k *kubernetesPlugin) reverse(q *query, r *dns.Msg) outcome {
	a, ok := addressOf(q.name)
	if !ok {
		return outcome{}
	}
	zone := ""
	for _, z := range k.zones {
		if !strings.HasSuffix(z, "arpa.") {
			zone = z
			break
		}
	}
	var names []string
	objects, _ := k.byIP.ByIndex(clusterIndex, a.String())
	for _, o := range objects {
		s := o.(*v1.Service)
		if k.exposed(s.Namespace) {
			names = append(names, s.Name+"."+s.Namespace+".svc."+zone)
		}
	}
	if len(names) == 0 {
		objects, _ := k.slices.ByIndex(addressIndex, a.String())
		for _, o := range objects {
			s := o.(*discovery.EndpointSlice)
			service := s.Labels[discovery.LabelServiceName]
			if service == "" || !k.exposed(s.Namespace) {
				continue
			}
			for _, e := range s.Endpoints {
				for _, x := range e.Addresses {
					if x == a.String() {
						names = append(names, k.hostname(e, x)+"."+service+"."+s.Namespace+".svc."+zone)
					}
				}
			}
		}
	}
	sort.Strings(names)
	for _, n := range names {
		r.Answer = append(r.Answer, &dns.PTR{Hdr: header(q, dns.TypePTR, k.ttl), Ptr: n})
	}
	return outcome{exists: len(names) > 0}
}

// addressOf reads an address from its reverse name.
func addressOf(name string) (netip.Addr, bool) {
	l := dns.SplitDomainName(name)
	switch {
	case len(l) == 6 && strings.HasSuffix(name, ".in-addr.arpa."):
		a, err := netip.ParseAddr(l[3] + "." + l[2] + "." + l[1] + "." + l[0])
		return a, err == nil
	case len(l) == 34 && strings.HasSuffix(name, ".ip6.arpa."):
		var b strings.Builder
		for i := 31; i >= 0; i-- {
			b.WriteString(l[i])
			if i%4 == 0 && i > 0 {
				b.WriteByte(':')
			}
		}
		a, err := netip.ParseAddr(b.String())
		return a, err == nil
	}
	return netip.Addr{}, false
}
