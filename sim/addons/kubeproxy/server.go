package kubeproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	v1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/proxy/apis"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	"k8s.io/kubernetes/pkg/proxy/config"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	utilnode "k8s.io/kubernetes/pkg/util/node"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

func namespaceOf(p *kernel.Process) *network.Namespace { return network.Of(p.Host()) }

// mute drops the lines that a process which carries on after a thaw would print at its start.
func mute(p *kernel.Process) {
	until := time.Now().Add(10 * time.Second)
	p.SetLogFilter(func([]byte) bool { return time.Now().After(until) })
}

// server is upstream's ProxyServer.
type server struct {
	p         *kernel.Process
	config    *proxyconfig.KubeProxyConfiguration
	client    kubernetes.Interface
	nodeName  string
	nodes     v1informers.NodeInformer
	nodeIPs   []net.IP
	recorder  events.EventRecorder
	broadcast events.EventBroadcaster
	nodeRef   *v1.ObjectReference
	health    *healthcheck.ProxyHealthServer
	proxier   *proxier

	mu   sync.Mutex
	node *v1.Node
}

// newServer does what upstream's newProxyServer does, in its order.
func newServer(ctx context.Context, p *kernel.Process, c *proxyconfig.KubeProxyConfiguration, master string) (*server, error) {
	s := &server{p: p, config: c, nodeName: c.HostnameOverride}
	if s.nodeName == "" {
		s.nodeName = strings.ToLower(strings.TrimSpace(p.HostName()))
	}
	r, err := client(p, c, master)
	if err != nil {
		return nil, err
	}
	if s.client, err = kubernetes.NewForConfig(r); err != nil {
		return nil, err
	}
	if err := s.findNode(ctx); err != nil {
		return nil, err
	}
	if len(s.nodeIPs) > 0 {
		logAt(p, "server.go", 218).Info("Successfully retrieved NodeIPs", "NodeIPs", s.nodeIPs)
	}
	if len(c.NodePortAddresses) == 1 && c.NodePortAddresses[0] == proxyconfig.NodePortAddressesPrimary {
		c.NodePortAddresses = nil
		for _, ip := range s.nodeIPs {
			if ip.To4() != nil {
				c.NodePortAddresses = append(c.NodePortAddresses, ip.String()+"/32")
			}
		}
	}
	s.broadcast = events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	s.recorder = s.broadcast.NewRecorder(proxyscheme.Scheme, "kube-proxy")
	s.nodeRef = &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: s.nodeName}
	if c.HealthzBindAddress != "" {
		s.health = healthcheck.NewProxyHealthServer(c.HealthzBindAddress, 2*c.SyncPeriod.Duration, nil)
	}
	if len(c.NodePortAddresses) == 0 {
		logAt(p, "server.go", 255).Error(errors.New("nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`"),
			"Kube-proxy configuration may be incomplete or incorrect")
	}
	logAt(p, "server.go", 264).Info("kube-proxy running in dual-stack mode", "primary ipFamily", v1.IPv4Protocol)
	switch c.Mode {
	case proxyconfig.ProxyModeIPVS:
		logAt(p, "server_linux.go", 193).Info("Using ipvs Proxier")
		message := "The ipvs proxier is now deprecated and may be removed in a future release. Please use 'nftables' instead."
		logAt(p, "server_linux.go", 195).Error(nil, message)
		s.recorder.Eventf(s.nodeRef, nil, v1.EventTypeWarning, "IPVSDeprecation", "StartKubeProxy", "%s", message)
	case proxyconfig.ProxyModeNFTables:
		logAt(p, "server_linux.go", 253).Info("Using nftables Proxier")
	default:
		logAt(p, "server_linux.go", 136).Info("Using iptables Proxier")
		if s.localhostNodePorts() {
			logAt(p, "proxier.go", 242).Info("Setting route_localnet=1 to allow node-ports on localhost; to change this either disable iptables.localhostNodePorts (--iptables-localhost-nodeports) or set nodePortAddresses (--nodeport-addresses) to filter loopback addresses", "ipFamily", v1.IPv4Protocol)
		}
	}
	s.proxier = newProxier(s)
	return s, nil
}

// localhostNodePorts says whether node ports are reachable at 127.0.0.1: in iptables mode, unless forbidden.
func (s *server) localhostNodePorts() bool {
	if s.config.Mode != proxyconfig.ProxyModeIPTables || s.config.IPTables.LocalhostNodePorts != nil && !*s.config.IPTables.LocalhostNodePorts {
		return false
	}
	if len(s.config.NodePortAddresses) == 0 {
		return true
	}
	for _, c := range s.config.NodePortAddresses {
		if p, err := netip.ParsePrefix(c); err == nil && p.Overlaps(netip.MustParsePrefix("127.0.0.0/8")) {
			return true
		}
	}
	return false
}

// findNode is upstream's newNodeManager: it waits up to 30 s for the node's addresses. Upstream's own ends the host process.
func (s *server) findNode(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, s.config.ConfigSyncPeriod.Duration, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.nodeName).String()
	}))
	s.nodes = factory.Core().V1().Nodes()
	lister := s.nodes.Lister()
	informer := s.nodes.Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForNamedCacheSyncWithContext(ctx, informer.HasSynced) {
		return errors.New("can not sync node informer")
	}
	get := func() bool {
		s.node, _ = lister.Get(s.nodeName)
		s.nodeIPs = nil
		if s.node != nil {
			s.nodeIPs, _ = utilnode.GetNodeHostIPs(s.node)
		}
		return len(s.nodeIPs) > 0
	}
	if !get() {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		wait.PollUntilContextCancel(limited, time.Second, false, func(context.Context) (bool, error) { return get(), nil })
	}
	if s.node == nil {
		logAt(s.p, "node.go", 121).Error(nil, "Timed out waiting for node %q to exist", s.nodeName)
	} else if len(s.nodeIPs) == 0 {
		logAt(s.p, "node.go", 123).Error(nil, "Timed out waiting for node %q to be assigned IPs", s.nodeName)
	}
	return ctx.Err()
}

// OnNodeChange implements upstream's NodeHandler.
func (s *server) OnNodeChange(n *v1.Node) {
	s.mu.Lock()
	s.node = n
	s.mu.Unlock()
	if ips, _ := utilnode.GetNodeHostIPs(n); !reflect.DeepEqual(ips, s.nodeIPs) {
		logAt(s.p, "node.go", 198).Info("NodeIPs changed for the node", "node", klog.KObj(n), "newNodeIPs", ips, "oldNodeIPs", s.nodeIPs)
	}
}

// OnNodeDelete implements upstream's NodeHandler.
func (s *server) OnNodeDelete(n *v1.Node) {
	logAt(s.p, "node.go", 207).Info("Node is being deleted", "node", klog.KObj(n))
}

// OnNodeSynced implements upstream's NodeHandler.
func (s *server) OnNodeSynced() {}

// run is upstream's ProxyServer.Run and the watch on the configuration file around it.
func (s *server) run(ctx context.Context, configFile string) error {
	p := s.p
	logAt(p, "server.go", 529).Info("Version info", "version", version(p))
	logAt(p, "server.go", 531).Info("Golang settings", "GOGC", p.Getenv("GOGC"), "GOMAXPROCS", p.Getenv("GOMAXPROCS"), "GOTRACEBACK", p.Getenv("GOTRACEBACK"))
	defer s.broadcast.Shutdown()
	s.broadcast.StartRecordingToSink(ctx.Done())
	failed := make(chan error, 2)
	if s.health != nil {
		go s.serve(ctx, s.config.HealthzBindAddress, s.healthHandler(), func(err error) {
			err = fmt.Errorf("failed to start proxy healthz on %s: %w", s.config.HealthzBindAddress, err)
			logAt(p, "server.go", 442).Error(err, "Healthz server failed")
			if s.config.BindAddressHardFail {
				failed <- fmt.Errorf("healthz server failed: %w", err)
			}
		})
	}
	if s.config.MetricsBindAddress != "" {
		go s.serve(ctx, s.config.MetricsBindAddress, s.metricsHandler(), func(err error) {
			logAt(p, "server.go", 496).Error(err, "Unhandled Error")
			if s.config.BindAddressHardFail {
				failed <- err
			}
		})
	}
	selector := labels.NewSelector()
	for _, l := range []string{apis.LabelServiceProxyName, v1.IsHeadlessService} {
		r, err := labels.NewRequirement(l, selection.DoesNotExist, nil)
		if err != nil {
			return err
		}
		selector = selector.Add(*r)
	}
	resync := s.config.ConfigSyncPeriod.Duration
	general := informers.NewSharedInformerFactoryWithOptions(s.client, resync, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector.String() }))
	service := informers.NewSharedInformerFactoryWithOptions(s.client, resync, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = selector.String()
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.clusterIP", v1.ClusterIPNone).String()
	}))
	services := config.NewServiceConfig(ctx, service.Core().V1().Services(), resync)
	services.RegisterEventHandler(s.proxier)
	go services.Run(ctx.Done())
	slices := config.NewEndpointSliceConfig(ctx, general.Discovery().V1().EndpointSlices(), resync)
	slices.RegisterEventHandler(s.proxier)
	go slices.Run(ctx.Done())
	cidrs := config.NewServiceCIDRConfig(ctx, general.Networking().V1().ServiceCIDRs(), resync)
	cidrs.RegisterEventHandler(s.proxier)
	go cidrs.Run(ctx.Done())
	general.Start(ctx.Done())
	service.Start(ctx.Done())
	nodes := config.NewNodeConfig(ctx, s.nodes, resync)
	nodes.RegisterEventHandler(s)
	topology := config.NewNodeTopologyConfig(ctx, s.nodes, resync)
	topology.RegisterEventHandler(s.proxier)
	go nodes.Run(ctx.Done())
	if !p.Resumed() {
		s.recorder.Eventf(s.nodeRef, nil, v1.EventTypeNormal, "Starting", "StartKubeProxy", "")
	}
	go s.proxier.runner.Loop(ctx.Done())
	changes := make(<-chan kernel.FileEvent)
	if configFile != "" {
		if w, err := p.Files.Watch(p.Path(configFile)); err == nil {
			defer w.Close()
			changes = w.Events()
		}
	}
	for {
		select {
		case e := <-changes:
			if e.Op&(kernel.FileWrite|kernel.FileRename) != 0 {
				return errors.New("content of the proxy server's configuration file was updated")
			}
			if e.Op&kernel.FileRemove != 0 {
				changes = nil
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve listens and serves, and tries again every 5 s if it can't.
func (s *server) serve(ctx context.Context, address string, h http.Handler, failed func(error)) {
	wait.UntilWithContext(ctx, func(context.Context) {
		l, err := s.p.Listen("tcp", address)
		if err == nil {
			err = network.Serve(l, nil, h)
		}
		if ctx.Err() == nil {
			failed(err)
		}
	}, 5*time.Second)
}

// eligible is upstream's ProxyHealthServer.NodeEligible.
func (s *server) eligible() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil || !s.node.DeletionTimestamp.IsZero() {
		return false
	}
	for _, t := range s.node.Spec.Taints {
		if t.Key == healthcheck.ToBeDeletedTaint {
			return false
		}
	}
	return true
}

func (s *server) healthHandler() http.Handler {
	mux := http.NewServeMux()
	answer := func(withNode bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			h := s.health.Health()
			healthy := h.Healthy
			if withNode {
				e := s.eligible()
				h.NodeEligible, healthy = &e, healthy && e
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			if healthy {
				h.LastUpdated = time.Now()
			} else {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			b, _ := json.Marshal(h)
			w.Write(b)
		}
	}
	mux.Handle("/healthz", answer(true))
	mux.Handle("/livez", answer(false))
	return mux
}

func (s *server) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	text := func(f func(*bytes.Buffer)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			f(&b)
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Write(b.Bytes())
		}
	}
	mux.Handle("/healthz", text(func(b *bytes.Buffer) { b.WriteString("ok") }))
	mux.Handle("/proxyMode", text(func(b *bytes.Buffer) { b.WriteString(string(s.config.Mode)) }))
	mux.Handle("/metrics", text(s.proxier.metrics))
	return mux
}
