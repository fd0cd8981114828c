// Package flannel is flanneld, the daemon of the CNI DaemonSet, as a program: it takes the node's Pod CIDR from the API, writes
// /run/flannel/subnet.env for the CNI plugin, makes the VXLAN interface flannel.1, and keeps the routes to other nodes' Pods.
// What it has programmed stays when it ends.
package flannel

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/network/apiclient"
)

// Register adds the program.
func Register(ps *kernel.Programs) { ps.Register("flanneld", Main) }

// bridgeNetfilter is a setting that is there when the module br_netfilter is loaded.
const bridgeNetfilter = "/proc/sys/net/bridge/bridge-nf-call-iptables"

const (
	annotation = "flannel.alpha.coreos.com/"
	linkName   = "flannel.1"
	overhead   = 50 // of VXLAN's headers, which flannel.1's MTU leaves room for
)

// netConf is /etc/kube-flannel/net-conf.json.
type netConf struct {
	Network    string
	EnableIPv4 *bool
	Backend    struct {
		Type string
		VNI  int
	}
	network netip.Prefix
}

// daemon is a running flanneld.
type daemon struct {
	*kernel.Process
	ipMasq, kubeSubnetMgr     bool
	iface, publicIP           string
	subnetFile, netConfigPath string
	kubeconfig                string

	conf   netConf
	client kubernetes.Interface
	node   string
	space  *network.Namespace
	subnet netip.Prefix

	mu     sync.Mutex
	leases map[string]lease // by node
	quiet  atomic.Bool      // a resumed daemon does not tell of its start again
}

// lease is what another node's annotations say.
type lease struct {
	subnet netip.Prefix
	public netip.Addr
}

// Main is the program.
func Main(p *kernel.Process) int {
	d := &daemon{Process: p, space: network.Of(p.Host()), leases: map[string]lease{}}
	fs := flag.NewFlagSet(p.Argv[0], flag.ContinueOnError)
	fs.SetOutput(p.Stderr)
	fs.BoolVar(&d.ipMasq, "ip-masq", false, "setup IP masquerade rule for traffic destined outside of overlay network")
	fs.BoolVar(&d.kubeSubnetMgr, "kube-subnet-mgr", false, "contact the Kubernetes API for subnet assignment instead of etcd.")
	fs.StringVar(&d.iface, "iface", "", "interface to use (IP or name) for inter-host communication.")
	fs.StringVar(&d.publicIP, "public-ip", "", "IP accessible by other nodes for inter-host communication")
	fs.StringVar(&d.subnetFile, "subnet-file", "/run/flannel/subnet.env", "filename where env variables (subnet, MTU, ... ) will be written to")
	fs.StringVar(&d.netConfigPath, "net-config-path", "/etc/kube-flannel/net-conf.json", "path to the network configuration file")
	fs.StringVar(&d.kubeconfig, "kubeconfig-file", "", "kubeconfig file location. Does not need to be specified if flannel is running in a pod.")
	fs.Int("v", 0, "log level for V logs")
	if err := fs.Parse(p.Argv[1:]); err != nil {
		return 2
	}
	if p.Resumed() {
		d.quiet.Store(true)
		until := time.Now().Add(10 * time.Second)
		p.SetLogFilter(func([]byte) bool { return time.Now().After(until) })
	}
	if !d.kubeSubnetMgr {
		p.Errorf("ckadrill does not simulate flannel's etcd subnet manager yet: use --kube-subnet-mgr\n")
		return 1
	}
	return d.run(p.Context())
}

// plain prints a line as klog's Infof and Errorf do, without quotes.
func (d *daemon) plain(severity byte, file string, line int, format string, a ...any) {
	if severity == 'I' && d.quiet.Load() {
		return
	}
	fmt.Fprintf(d.Log, "%c%s %7d %s:%d] %s\n", severity, time.Now().UTC().Format("0102 15:04:05.000000"), d.OwnPID(), file, line, fmt.Sprintf(format, a...))
}

// again repeats a step of the start for a daemon that is resumed: it had come past it before, so what fails now is only not
// there again yet.
func again[T any](d *daemon, step func() (T, error)) (T, error) {
	for {
		v, err := step()
		if err == nil || !d.Resumed() || d.Sleep(200*time.Millisecond) != nil {
			return v, err
		}
	}
}

// run is the daemon's life, in the order of flannel's main.go.
func (d *daemon) run(ctx context.Context) int {
	d.plain('I', "main.go", 211, "CLI flags config: {ipMasq:%v kubeSubnetMgr:%v iface:[%s] subnetFile:%s publicIP:%s kubeConfigFile:%s netConfPath:%s}", d.ipMasq, d.kubeSubnetMgr, d.iface, d.subnetFile,
		d.publicIP, d.kubeconfig, d.netConfigPath)
	nodes, err := again(d, func() (cache.SharedIndexInformer, error) { return d.connect(ctx) })
	if err != nil {
		d.plain('E', "main.go", 228, "Failed to create SubnetManager: %v", err)
		return 1
	}
	d.plain('I', "main.go", 231, "Created subnet manager: Kubernetes Subnet Manager - %s", d.node)
	d.plain('I', "main.go", 234, "Installing signal handlers")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT} {
		d.Notify(s, func() {
			d.quiet.Store(false)
			d.plain('I', "main.go", 524, "shutdownHandler sent cancel signal...")
			cancel()
		})
	}
	d.plain('I', "main.go", 468, "Found network config - Backend type: %s", d.conf.Backend.Type)
	link, public, err := d.external()
	if err != nil {
		d.plain('E', "main.go", 266, "Failed to find any valid interface to use: %v", err)
		return 1
	}
	if _, err := d.Files.Stat(bridgeNetfilter); err != nil {
		d.plain('E', "main.go", 278, "Failed to check br_netfilter: %v", err)
		return 1
	}
	if t := d.conf.Backend.Type; t != "vxlan" && t != "host-gw" {
		d.plain('E', "main.go", 305, "Error fetching backend: unknown backend type: %v", t)
		return 1
	}
	if d.conf.Backend.Type == "vxlan" {
		d.plain('I', "vxlan.go", 141, "VXLAN config: VNI=%d Port=0 GBP=false Learning=false DirectRouting=false", d.conf.Backend.VNI)
	}
	mtu, err := again(d, func() (int, error) { return d.register(ctx, nodes, link, public) })
	if err != nil {
		d.plain('E', "main.go", 359, "Error registering network: %v", err)
		return 1
	}
	if d.ipMasq {
		d.space.SetMasquerades("flannel", []network.Masquerade{
			{From: d.conf.network, NotTo: d.conf.network},
			{NotFrom: d.conf.network, To: d.conf.network, NotTo: d.subnet},
		})
	}
	d.plain('I', "main.go", 396, "Changing default FORWARD chain policy to ACCEPT")
	if err := d.writeSubnetFile(mtu); err != nil {
		d.plain('W', "main.go", 410, "Failed to write subnet file: %s", err)
	} else {
		d.plain('I', "main.go", 412, "Wrote subnet file to %s", d.subnetFile)
	}
	d.plain('I', "main.go", 416, "Running backend.")
	if d.conf.Backend.Type == "vxlan" {
		d.plain('I', "vxlan_network.go", 65, "watching for new subnet leases")
	}
	d.follow(ctx, nodes)
	if d.conf.Backend.Type == "vxlan" {
		d.plain('I', "vxlan_network.go", 79, "evts chan closed")
	}
	d.plain('I', "main.go", 440, "Exiting cleanly...")
	return 0
}

// connect finds out which node this is and waits for the list of nodes.
func (d *daemon) connect(ctx context.Context) (cache.SharedIndexInformer, error) {
	var r *rest.Config
	var err error
	if d.kubeconfig != "" {
		r, err = apiclient.Kubeconfig(d.Process, d.kubeconfig)
	} else {
		d.plain('W', "client_config.go", 659, "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.")
		r, err = apiclient.InCluster(d.Process)
	}
	if err != nil {
		return nil, fmt.Errorf("fail to create kubernetes config: %w", err)
	}
	if d.client, err = kubernetes.NewForConfig(r); err != nil {
		return nil, fmt.Errorf("unable to initialize client: %w", err)
	}
	// The node's name comes from the environment, or from the Pod that this is.
	if d.node = d.Getenv("NODE_NAME"); d.node == "" {
		name, ns := d.Getenv("POD_NAME"), d.Getenv("POD_NAMESPACE")
		if name == "" || ns == "" {
			return nil, errors.New("env variables POD_NAME and POD_NAMESPACE must be set")
		}
		pod, err := d.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("error retrieving pod spec for '%s/%s': %w", ns, name, err)
		}
		if d.node = pod.Spec.NodeName; d.node == "" {
			return nil, errors.New("node name not present in pod spec")
		}
	}
	b, err := d.ReadFile(d.netConfigPath)
	if err != nil {
		return nil, fmt.Errorf("failed to read net conf: %w", err)
	}
	if err := json.Unmarshal(b, &d.conf); err != nil {
		return nil, fmt.Errorf("error parsing subnet config: %w", err)
	}
	if d.conf.network, err = netip.ParsePrefix(d.conf.Network); err != nil {
		return nil, errors.New("error parsing subnet config: please define a correct Network parameter in the flannel config")
	}
	if d.conf.Backend.Type == "" {
		d.conf.Backend.Type = "udp"
	}
	if d.conf.Backend.VNI == 0 {
		d.conf.Backend.VNI = 1
	}
	d.plain('I', "kube.go", 139, "Waiting 10m0s for node controller to sync")
	d.plain('I', "kube.go", 469, "Starting kube subnet manager")
	factory := informers.NewSharedInformerFactory(d.client, 5*time.Minute)
	nodes := factory.Core().V1().Nodes().Informer()
	factory.Start(ctx.Done())
	limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if !cache.WaitForCacheSync(limited.Done(), nodes.HasSynced) {
		return nil, errors.New("error waiting for nodeController to sync state: context deadline exceeded")
	}
	d.plain('I', "kube.go", 146, "Node controller sync successful")
	return nodes, nil
}

// external finds the interface that leads to the other nodes.
func (d *daemon) external() (link network.Link, public netip.Addr, err error) {
	name := d.iface
	if name == "" {
		d.plain('I', "match.go", 211, "Determining IP address of default interface")
		r, _, err := d.space.Route(netip.MustParseAddr("8.8.8.8"))
		if err != nil {
			return link, public, errors.New("failed to get default interface: unable to find default route")
		}
		name = r.Dev
	}
	for _, l := range d.space.Links() {
		for _, a := range l.Addresses {
			if (l.Name == name || a.Addr().String() == name) && a.Addr().Is4() {
				d.plain('I', "match.go", 264, "Using interface with name %s and address %s", l.Name, a.Addr())
				public = a.Addr()
				if d.publicIP != "" {
					if public, err = netip.ParseAddr(d.publicIP); err != nil {
						return l, public, fmt.Errorf("invalid public IP address: %s", d.publicIP)
					}
				} else {
					d.plain('I', "match.go", 286, "Defaulting external address to interface address (%s)", public)
				}
				return l, public, nil
			}
		}
	}
	return link, public, fmt.Errorf("error looking up interface %s: route ip+net: no such network interface", name)
}

// register acquires the lease, which is the node's Pod CIDR, and announces this node by its annotations.
func (d *daemon) register(ctx context.Context, nodes cache.SharedIndexInformer, link network.Link, public netip.Addr) (mtu int, err error) {
	o, exists, _ := nodes.GetStore().GetByKey(d.node)
	if !exists {
		return 0, fmt.Errorf("failed to acquire lease: node %q not found", d.node)
	}
	n := o.(*v1.Node)
	if n.Spec.PodCIDR == "" {
		return 0, fmt.Errorf("failed to acquire lease: node %q pod cidr not assigned", d.node)
	}
	if d.subnet, err = netip.ParsePrefix(n.Spec.PodCIDR); err != nil {
		return 0, fmt.Errorf("failed to acquire lease: %w", err)
	}
	if !d.conf.network.Contains(d.subnet.Addr()) || d.conf.network.Bits() > d.subnet.Bits() {
		return 0, fmt.Errorf("failed to acquire lease: subnet %q specified in the flannel net config doesn't contain %q PodCIDR of the %q node", d.conf.network, d.subnet, d.node)
	}
	data, mtu := "null", link.MTU
	if d.conf.Backend.Type == "vxlan" {
		mtu -= overhead
		mac, err := d.overlay(mtu)
		if err != nil {
			return 0, err
		}
		data = fmt.Sprintf(`{"VNI":%d,"VtepMAC":%q}`, d.conf.Backend.VNI, mac)
	}
	want := map[string]string{annotation + "backend-data": data, annotation + "backend-type": d.conf.Backend.Type, annotation + "kube-subnet-manager": "true", annotation + "public-ip": public.String()}
	same := true
	for k, v := range want {
		same = same && n.Annotations[k] == v
	}
	if same {
		return mtu, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": want}})
	if err != nil {
		return 0, err
	}
	if _, err := d.client.CoreV1().Nodes().Patch(ctx, d.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return 0, fmt.Errorf("failed to acquire lease: %w", err)
	}
	return mtu, nil
}

// overlay makes flannel.1, or takes over the one that is there, and returns its MAC.
func (d *daemon) overlay(mtu int) (string, error) {
	own := netip.PrefixFrom(d.subnet.Addr(), d.subnet.Addr().BitLen())
	err := d.space.AddLink(network.Link{Name: linkName, Kind: network.VXLAN, VNI: d.conf.Backend.VNI, MTU: mtu, Up: true, Addresses: []netip.Prefix{own}, Forward: map[netip.Addr]netip.Addr{}})
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		return "", fmt.Errorf("failed to create vxlan device: %w", err)
	}
	d.space.ChangeLink(linkName, func(l *network.Link) {
		l.Up, l.MTU, l.VNI, l.Addresses = true, mtu, d.conf.Backend.VNI, []netip.Prefix{own}
	})
	l, _ := d.space.Link(linkName)
	return l.MAC, nil
}

func (d *daemon) writeSubnetFile(mtu int) error {
	dir := d.subnetFile[:max(strings.LastIndexByte(d.subnetFile, '/'), 0)]
	if err := d.Files.MkdirAll(d.Path(dir), 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s/%d\nFLANNEL_MTU=%d\nFLANNEL_IPMASQ=%v\n", d.conf.network, d.subnet.Addr().Next(), d.subnet.Bits(), mtu, d.ipMasq)
	if old, err := d.ReadFile(d.subnetFile); err == nil && string(old) == text {
		return nil
	}
	return d.Files.WriteFile(d.Path(d.subnetFile), []byte(text), 0o644)
}

// leaseOf reads a node's annotations.
func leaseOf(n *v1.Node, backend string) (lease, bool) {
	subnet, err := netip.ParsePrefix(n.Spec.PodCIDR)
	if err != nil || n.Annotations[annotation+"kube-subnet-manager"] != "true" || n.Annotations[annotation+"backend-type"] != backend {
		return lease{}, false
	}
	public, err := netip.ParseAddr(n.Annotations[annotation+"public-ip"])
	return lease{subnet.Masked(), public}, err == nil
}

// follow keeps the routes to the other nodes' Pods until the daemon ends.
func (d *daemon) follow(ctx context.Context, nodes cache.SharedIndexInformer) {
	nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.update(o.(*v1.Node)) },
		UpdateFunc: func(_, o any) { d.update(o.(*v1.Node)) },
		DeleteFunc: func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			if n, ok := o.(*v1.Node); ok {
				d.remove(n.Name)
			}
		},
	})
	<-ctx.Done()
}

func (d *daemon) update(n *v1.Node) {
	if n.Name == d.node {
		return
	}
	l, ok := leaseOf(n, d.conf.Backend.Type)
	d.mu.Lock()
	old, had := d.leases[n.Name]
	d.mu.Unlock()
	if had && (!ok || old != l) {
		d.remove(n.Name)
	}
	if !ok {
		return
	}
	d.mu.Lock()
	d.leases[n.Name] = l
	d.mu.Unlock()
	if err := d.add(l); err != nil {
		d.plain('E', "vxlan_network.go", 185, "failed to add vxlanRoute (%s -> %s): %v", l.subnet, l.subnet.Addr(), err)
	}
}

func (d *daemon) add(l lease) error {
	if !d.Alive() {
		return nil
	}
	if d.conf.Backend.Type == "host-gw" {
		return d.space.AddRoute(network.Route{Dst: l.subnet, Via: l.public}, true)
	}
	hop := l.subnet.Addr()
	k, ok := d.space.Link(linkName)
	if !ok {
		return syscall.ENODEV
	}
	if k.Forward[hop] != l.public {
		d.space.ChangeLink(linkName, func(k *network.Link) {
			if k.Forward == nil {
				k.Forward = map[netip.Addr]netip.Addr{}
			}
			k.Forward[hop] = l.public
		})
		d.World().Trace.Add(kernel.Step{Actor: "flanneld", Host: d.Host().Name(), Verb: "write", Subject: "route/" + l.subnet.String(), Detail: "via " + linkName + " to " + l.public.String()})
	}
	return d.space.AddRoute(network.Route{Dst: l.subnet, Via: hop, Dev: linkName, OnLink: true}, true)
}

func (d *daemon) remove(node string) {
	d.mu.Lock()
	l, ok := d.leases[node]
	delete(d.leases, node)
	d.mu.Unlock()
	if !ok || !d.Alive() {
		return
	}
	d.space.DeleteRoute(l.subnet, "")
	d.space.ChangeLink(linkName, func(k *network.Link) { delete(k.Forward, l.subnet.Addr()) })
}
