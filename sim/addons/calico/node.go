package calico

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"

	"ckadrill/sim/addons/cni"
	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/network/apiclient"
)

const (
	linkName  = "vxlan.calico"
	vni       = 4096
	overhead  = 50 // of VXLAN's headers
	owner     = "calico"
	ipAddress = "projectcalico.org/IPv4Address"
	vtep      = "projectcalico.org/IPv4VXLANTunnelAddr"
)

// nodeMain is calico-node: one binary that is the container's services and its probes, by its flags.
func nodeMain(p *kernel.Process) int {
	if path.Base(p.Argv[0]) == "start_runit" {
		return (&agent{Process: p, space: network.Of(p.Host())}).run()
	}
	fs := flag.NewFlagSet(p.Argv[0], flag.ContinueOnError)
	fs.SetOutput(p.Stderr)
	version := fs.Bool("v", false, "Display version")
	live := fs.Bool("felix-live", false, "Run felix liveness checks")
	ready := fs.Bool("felix-ready", false, "Run felix readiness checks")
	birdLive := fs.Bool("bird-live", false, "Run bird liveness checks")
	birdReady := fs.Bool("bird-ready", false, "Run BIRD readiness checks")
	if err := fs.Parse(p.Argv[1:]); err != nil {
		return 2
	}
	if *version {
		p.Printf("%s\n", p.Version(defaultVersion))
		return 0
	}
	if !*live && !*ready && !*birdLive && !*birdReady {
		p.Errorf("ckadrill does not simulate %s %s yet\n", p.Name(), strings.Join(p.Argv[1:], " "))
		return 1
	}
	if *live || *birdLive {
		if *birdLive {
			p.Printf("calico/node is not live: bird/confd is not live: Service bird is not running\n")
			return 1
		}
		if err := ask(p, "liveness"); err != nil {
			p.Printf("calico/node is not ready: Felix is not live: %v\n", err)
			return 1
		}
	}
	if *birdReady {
		p.Printf("calico/node is not ready: BIRD is not ready: Failed to stat() nodename file: bird is not running\n")
		return 1
	}
	if *ready {
		if err := ask(p, "readiness"); err != nil {
			p.Printf("calico/node is not ready: felix is not ready: %v\n", err)
			return 1
		}
	}
	return 0
}

// agent is the services of a running calico-node.
type agent struct {
	*kernel.Process
	logger
	space  *network.Namespace
	client kubernetes.Interface
	node   string
	pool   ipPool
	health health

	wake       chan struct{}
	nodes      corelisters.NodeLister
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	policies   networkinglisters.NetworkPolicyLister
}

// ipPool is the Pod network.
type ipPool struct {
	CIDR        string `json:"cidr"`
	VXLANMode   string `json:"vxlanMode,omitempty"`
	IPIPMode    string `json:"ipipMode,omitempty"`
	NATOutgoing bool   `json:"natOutgoing,omitempty"`
	Disabled    bool   `json:"disabled,omitempty"`
	cidr        netip.Prefix
}

func (a *agent) run() int {
	a.logger = logger{p: a.Process, quiet: a.Resumed}
	fatal := func(file string, line int, format string, l ...any) int {
		a.print("FATAL", file, line, format, l...)
		return 1
	}
	a.print("INFO", "startup/startup.go", 445, "Early log level set to info")
	if t := getenv(a.Process, "DATASTORE_TYPE", "kubernetes"); t != "kubernetes" {
		return fatal("startup/startup.go", 460, "ckadrill does not simulate Calico's datastore %q yet", t)
	}
	if b := getenv(a.Process, "CALICO_NETWORKING_BACKEND", "bird"); b != "vxlan" {
		return fatal("startup/startup.go", 460, "ckadrill does not simulate Calico's networking backend %q yet: set calico_backend to vxlan", b)
	}
	a.node = getenv(a.Process, "NODENAME", strings.ToLower(a.HostName()))
	a.print("INFO", "startup/utils.go", 126, "Using NODENAME environment for node name %s", a.node)
	ctx := a.Context()
	config, err := apiclient.InCluster(a.Process)
	if err != nil {
		return fatal("startup/startup.go", 477, "Failed to create client: %v", err)
	}
	if a.client, err = kubernetes.NewForConfig(config); err != nil {
		return fatal("startup/startup.go", 477, "Failed to create client: %v", err)
	}
	if err := a.health.serve(a.Process); err != nil {
		return fatal("health/health.go", 296, "Health endpoint failed, trying to restart it...: %v", err)
	}
	for again := false; ; again = true {
		err := a.start(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return 0
		}
		if refused := (refusal)(""); errors.As(err, &refused) {
			return fatal("startup/startup.go", 460, "%s", refused)
		}
		if !again {
			a.print("WARNING", "startup/utils.go", 53, "Hit error connecting to datastore - retry: %v", err)
		}
		if a.Sleep(time.Second) != nil {
			return 0
		}
	}
	a.print("INFO", "startup/startup.go", 229, "Calico node started successfully")
	a.Go(func() { a.refreshToken(ctx) })
	return a.felix(ctx)
}

// refusal is what a repetition does not help.
type refusal string

func (r refusal) Error() string { return string(r) }

// start is what must be in the datastore and on the node before felix starts.
func (a *agent) start(ctx context.Context) error {
	n, err := a.client.CoreV1().Nodes().Get(ctx, a.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := a.choosePool(ctx); err != nil {
		return err
	}
	if err := a.create(ctx, "clusterinformations", "ClusterInformation", "default", map[string]any{"calicoVersion": a.Version(defaultVersion), "clusterType": getenv(a.Process, "CLUSTER_TYPE", "k8s") + ",kdd", "datastoreReady": true,
		"clusterGUID": fmt.Sprintf("%016x%016x", a.World().Random("calico/guid").Uint64(), a.World().Random("calico/guid").Uint64())}); err != nil {
		return err
	}
	subnet, err := netip.ParsePrefix(n.Spec.PodCIDR)
	if err != nil {
		return fmt.Errorf("node %s has no Pod CIDR", a.node)
	}
	link, own, err := a.external()
	if err != nil {
		return refusal(err.Error())
	}
	mtu := link.MTU - overhead
	for _, f := range [][2]string{{cni.CalicoNodenameFile, a.node}, {cni.CalicoMTUFile, fmt.Sprint(mtu)}} {
		if b, err := a.ReadFile(f[0]); err == nil && string(b) == f[1] {
			continue
		}
		if err := a.Files.WriteFile(f[0], []byte(f[1]), 0o644); err != nil {
			return err
		}
	}
	tunnel := tunnelAddress(subnet)
	if err := a.overlay(tunnel, mtu); err != nil {
		return err
	}
	if a.pool.NATOutgoing {
		want := []network.Masquerade{{From: a.pool.cidr, NotTo: a.pool.cidr}}
		if !reflect.DeepEqual(a.space.Netfilter().Masquerades[owner], want) {
			a.space.SetMasquerades(owner, want)
		}
	}
	want := map[string]string{ipAddress: own.String(), vtep: tunnel.String()}
	same := true
	for k, v := range want {
		same = same && n.Annotations[k] == v
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeNetworkUnavailable && c.Status == v1.ConditionFalse && same {
			return nil
		}
	}
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": want}, "status": map[string]any{"conditions": []v1.NodeCondition{{
		Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse, Reason: "CalicoIsUp", Message: "Calico is running on this node", LastHeartbeatTime: now, LastTransitionTime: now}}}})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Nodes().Patch(ctx, a.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// tunnelAddress is the node's address in the overlay: the first of its Pod CIDR, which host-local gives to nobody.
func tunnelAddress(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// external finds the interface that leads to the other nodes, and its address.
func (a *agent) external() (network.Link, netip.Prefix, error) {
	if ip := getenv(a.Process, "IP", "autodetect"); ip != "autodetect" {
		return network.Link{}, netip.Prefix{}, fmt.Errorf("ckadrill does not simulate IP=%s of calico-node yet: use autodetect", ip)
	}
	for _, l := range a.space.Links() {
		if l.Kind != network.Ethernet {
			continue
		}
		for _, p := range l.Addresses {
			if p.Addr().Is4() {
				a.print("INFO", "autodetection/autodetection_methods.go", 103, "Using autodetected IPv4 address on interface %s: %s", l.Name, p)
				return l, p, nil
			}
		}
	}
	return network.Link{}, netip.Prefix{}, errors.New("Couldn't autodetect an IPv4 address. If auto-detecting, choose a different autodetection method. Otherwise provide an explicit address.")
}

// create makes an object of Calico's group unless it is there.
func (a *agent) create(ctx context.Context, resource, kind, name string, spec map[string]any) error {
	c := a.client.Discovery().RESTClient()
	if _, err := c.Get().AbsPath(group + resource + "/" + name).Do(ctx).Raw(); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	b, err := json.Marshal(map[string]any{"apiVersion": "crd.projectcalico.org/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec})
	if err != nil {
		return err
	}
	if _, err := c.Post().AbsPath(group + resource).Body(b).Do(ctx).Raw(); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

const poolName = "default-ipv4-ippool"

// choosePool reads the Pod network, which the first calico-node has made from its environment or kubeadm's configuration.
func (a *agent) choosePool(ctx context.Context) error {
	if getenv(a.Process, "CALICO_IPV4POOL_IPIP", "Always") != "Never" {
		return refusal("ckadrill does not simulate IP in IP yet: set CALICO_IPV4POOL_IPIP to Never and CALICO_IPV4POOL_VXLAN to Always")
	}
	cidr := a.Getenv("CALICO_IPV4POOL_CIDR")
	if cidr == "" {
		cidr = "192.168.0.0/16"
		if m, err := a.client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{}); err == nil {
			for line := range strings.Lines(m.Data["ClusterConfiguration"]) {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), "podSubnet: "); ok {
					cidr = strings.Trim(v, `"`)
				}
			}
		}
	}
	if err := a.create(ctx, "ippools", "IPPool", poolName, map[string]any{"cidr": cidr, "blockSize": 26, "ipipMode": "Never", "vxlanMode": getenv(a.Process, "CALICO_IPV4POOL_VXLAN", "Never"), "natOutgoing": getenv(a.Process, "CALICO_IPV4POOL_NAT_OUTGOING", "true") == "true", "nodeSelector": "all()"}); err != nil {
		return err
	}
	b, err := a.client.Discovery().RESTClient().Get().AbsPath(group + "ippools/" + poolName).Do(ctx).Raw()
	if err != nil {
		return err
	}
	o := struct{ Spec ipPool }{}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	a.pool = o.Spec
	if a.pool.cidr, err = netip.ParsePrefix(a.pool.CIDR); err != nil {
		return err
	}
	if a.pool.VXLANMode != "Always" {
		return refusal(fmt.Sprintf("ckadrill does not simulate an IPPool with vxlanMode %q yet: use Always", a.pool.VXLANMode))
	}
	return nil
}

// overlay makes vxlan.calico, or takes over the one that is there.
func (a *agent) overlay(own netip.Addr, mtu int) error {
	one := netip.PrefixFrom(own, own.BitLen())
	err := a.space.AddLink(network.Link{Name: linkName, Kind: network.VXLAN, VNI: vni, MTU: mtu, Up: true, Addresses: []netip.Prefix{one}, Forward: map[netip.Addr]netip.Addr{}})
	if errors.Is(err, syscall.EEXIST) {
		l, _ := a.space.Link(linkName)
		if l.Up && l.MTU == mtu && len(l.Addresses) == 1 && l.Addresses[0] == one {
			return nil
		}
		return a.space.ChangeLink(linkName, func(l *network.Link) { l.Up, l.MTU, l.VNI, l.Addresses = true, mtu, vni, []netip.Prefix{one} })
	}
	return err
}

// refreshToken writes the plugin's kubeconfig anew before its token expires.
func (a *agent) refreshToken(ctx context.Context) {
	wait := time.Duration(0)
	if a.Resumed() {
		wait = 10 * time.Minute
	}
	for kernel.SleepContext(ctx, wait) == nil {
		until, err := writeKubeconfig(ctx, a.Process, a.client)
		if err != nil {
			a.print("ERROR", "cni/token_watch.go", 177, "Failed to update CNI token, retrying...: %v", err)
			wait = 5 * time.Second
			continue
		}
		wait = max(time.Until(until)/4, time.Minute)
	}
}

// felix follows the datastore and programs the node.
func (a *agent) felix(ctx context.Context) int {
	factory := informers.NewSharedInformerFactory(a.client, 0)
	a.wake = make(chan struct{}, 1)
	core := factory.Core().V1()
	a.nodes, a.pods, a.namespaces, a.policies = core.Nodes().Lister(), core.Pods().Lister(), core.Namespaces().Lister(), factory.Networking().V1().NetworkPolicies().Lister()
	for _, i := range []cache.SharedIndexInformer{core.Nodes().Informer(), core.Pods().Informer(), core.Namespaces().Informer(), factory.Networking().V1().NetworkPolicies().Informer()} {
		i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { a.changed() },
			UpdateFunc: func(old, o any) { a.updated(old, o) },
			DeleteFunc: func(any) { a.changed() },
		})
	}
	factory.Start(ctx.Done())
	for _, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return 0
		}
	}
	a.program()
	a.health.ready.Store(true)
	a.print("INFO", "felix/int_dataplane.go", 1861, "Completed first update to dataplane.")
	for {
		select {
		case <-ctx.Done():
			return 0
		case <-a.wake:
			a.program()
		}
	}
}

func (a *agent) changed() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// updated leaves out what changes nothing on the network: most of what is written of nodes and Pods.
func (a *agent) updated(old, o any) {
	switch o := o.(type) {
	case *v1.Node:
		was := old.(*v1.Node)
		if was.Spec.PodCIDR == o.Spec.PodCIDR && was.Annotations[ipAddress] == o.Annotations[ipAddress] && was.Annotations[vtep] == o.Annotations[vtep] {
			return
		}
	case *v1.Pod:
		was := old.(*v1.Pod)
		if onNetwork(was) == onNetwork(o) && was.Spec.NodeName == o.Spec.NodeName && reflect.DeepEqual(was.Labels, o.Labels) && reflect.DeepEqual(cni.CalicoAddresses(was), cni.CalicoAddresses(o)) {
			return
		}
	}
	a.changed()
}

// program brings the node's routes and rules to what the datastore says.
func (a *agent) program() {
	if !a.Alive() {
		return
	}
	nodes, _ := a.nodes.List(labels.Everything())
	pods, _ := a.pods.List(labels.Everything())
	namespaces, _ := a.namespaces.List(labels.Everything())
	policies, _ := a.policies.List(labels.Everything())
	a.route(nodes)
	egress, ingress := newCluster(pods, namespaces, policies).rules(a.node)
	a.set(egressOwner, egress)
	a.set(ingressOwner, ingress)
}

func (a *agent) set(owner string, rules []network.Rule) {
	if reflect.DeepEqual(a.space.Rules(owner), rules) {
		return
	}
	a.space.SetRules(owner, rules)
	a.World().Trace.Add(kernel.Step{Actor: "calico-node", Host: a.Host().Name(), Verb: "write", Subject: "rules/" + owner, Detail: fmt.Sprintf("%d rules", len(rules))})
}

// route keeps the routes to the other nodes' Pods.
func (a *agent) route(nodes []*v1.Node) {
	want := map[netip.Prefix]netip.Addr{}
	forward := map[netip.Addr]netip.Addr{}
	for _, n := range nodes {
		subnet, err := netip.ParsePrefix(n.Spec.PodCIDR)
		if err != nil || n.Name == a.node {
			continue
		}
		under, err := netip.ParsePrefix(n.Annotations[ipAddress])
		if err != nil {
			continue
		}
		hop, err := netip.ParseAddr(n.Annotations[vtep])
		if err != nil {
			continue
		}
		want[subnet.Masked()], forward[hop] = hop, under.Addr()
	}
	if l, ok := a.space.Link(linkName); !ok || !reflect.DeepEqual(l.Forward, forward) && len(l.Forward)+len(forward) > 0 {
		a.space.ChangeLink(linkName, func(l *network.Link) { l.Forward = forward })
	}
	for _, r := range a.space.Routes() { // of a calico-node before, too
		if hop, ok := want[r.Dst]; r.Dev == linkName && (!ok || hop != r.Via) {
			a.space.DeleteRoute(r.Dst, linkName)
		}
	}
	for _, subnet := range slices.SortedFunc(maps.Keys(want), netip.Prefix.Compare) {
		hop := want[subnet]
		if err := a.space.AddRoute(network.Route{Dst: subnet, Via: hop, Dev: linkName, OnLink: true}, true); err != nil {
			a.print("WARNING", "felix/route_table.go", 1245, "Failed to add route %s via %s: %v", subnet, hop, err)
		}
	}
}
