package cni

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"ckadrill/sim/network"
	"ckadrill/sim/network/apiclient"
)

// What calico-node leaves for the plugin on a node.
const (
	CalicoNodenameFile = "/var/lib/calico/nodename"
	CalicoMTUFile      = "/var/lib/calico/mtu"
)

// Annotations of a Pod by which the plugin tells of its addresses before the kubelet does.
const (
	CalicoPodIP  = "cni.projectcalico.org/podIP"
	CalicoPodIPs = "cni.projectcalico.org/podIPs"
)

// calicoGateway is the next hop of every Pod: nobody has the address, its end of the link answers for it (proxy ARP).
var calicoGateway = netip.MustParseAddr("169.254.1.1")

// CalicoLink is the name of the machine's end of a Pod's link: the first 11 digits of a hash behind "cali", as libcalico-go makes it.
func CalicoLink(namespace, pod string) string {
	sum := sha1.Sum([]byte(namespace + "." + pod))
	return "cali" + hex.EncodeToString(sum[:])[:11]
}

type calicoConf struct {
	types.NetConf
	Nodename      string `json:"nodename"`
	DatastoreType string `json:"datastore_type"`
	MTU           int    `json:"mtu"`
	IPAM          struct {
		Type   string `json:"type"`
		Subnet string `json:"subnet"`
	} `json:"ipam"`
	Kubernetes struct {
		Kubeconfig string `json:"kubeconfig"`
	} `json:"kubernetes"`
}

// pod is the Pod that CNI_ARGS names.
func (c *call) pod() (namespace, name string) {
	for _, kv := range strings.Split(c.Getenv("CNI_ARGS"), ";") {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "K8S_POD_NAMESPACE":
			namespace = v
		case "K8S_POD_NAME":
			name = v
		}
	}
	return namespace, name
}

func loadCalico(c *call) (*calicoConf, error) {
	conf := &calicoConf{}
	if err := json.Unmarshal(c.stdin, conf); err != nil {
		return nil, fmt.Errorf("failed to load netconf: %w", err)
	}
	if conf.DatastoreType != "kubernetes" {
		return nil, fmt.Errorf("ckadrill does not simulate Calico's datastore %q yet", conf.DatastoreType)
	}
	if conf.IPAM.Type != "host-local" {
		return nil, fmt.Errorf("ckadrill does not simulate the IPAM plugin %q with Calico yet: use host-local with usePodCidr", conf.IPAM.Type)
	}
	return conf, nil
}

// addCalico leads a link from the sandbox straight into the machine, whose route to the Pod's one address it is.
func addCalico(c *call) (_ types.Result, err error) {
	conf, err := loadCalico(c)
	if err != nil {
		return nil, err
	}
	node, err := c.ReadFile(CalicoNodenameFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("stat %s: no such file or directory: check that the calico/node container is running and has mounted /var/lib/calico/", CalicoNodenameFile)
	} else if err != nil {
		return nil, err
	}
	m := c.machine()
	sandbox, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	config, err := apiclient.Kubeconfig(c.Process, conf.Kubernetes.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx := c.Context()
	if err := calicoReady(ctx, client); err != nil {
		return nil, fmt.Errorf("error getting ClusterInformation: %w", err)
	}
	namespace, name := c.pod()
	if _, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, err
	}
	subnet := conf.IPAM.Subnet
	if subnet == "usePodCidr" {
		n, err := client.CoreV1().Nodes().Get(ctx, strings.TrimSpace(string(node)), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if subnet = n.Spec.PodCIDR; subnet == "" {
			return nil, fmt.Errorf("no podCidr for node %s", n.Name)
		}
	}
	ipamConf, err := withSubnet(c.stdin, subnet)
	if err != nil {
		return nil, err
	}
	ipam, err := c.delegateAdd(conf.IPAM.Type, ipamConf)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Setenv("CNI_COMMAND", "DEL")
			c.delegate(conf.IPAM.Type, ipamConf)
		}
	}()
	if len(ipam.IPs) == 0 {
		return nil, errors.New("IPAM plugin returned missing IP config")
	}
	mtu := conf.MTU
	if b, err := c.ReadFile(CalicoMTUFile); mtu == 0 && err == nil {
		mtu, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	link := CalicoLink(namespace, name)
	if _, ok := m.Link(link); ok {
		m.DeleteLink(link) // of the Pod's sandbox before
	}
	if err := m.AddVeth(link, "", mtu, sandbox, c.ifName); err != nil {
		return nil, fmt.Errorf("error adding host side routes for interface: %s, error: %w", link, err)
	}
	defer func() {
		if err != nil {
			m.DeleteLink(link)
		}
	}()
	host, _ := m.Link(link)
	r := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, DNS: ipam.DNS, Interfaces: []*types100.Interface{{Name: link, Mac: host.MAC}}}
	var own []netip.Prefix
	var told []string
	for _, ip := range ipam.IPs {
		a := toPrefix(ip.Address).Addr()
		one := netip.PrefixFrom(a, a.BitLen())
		own, told = append(own, one), append(told, one.String())
		r.IPs = append(r.IPs, &types100.IPConfig{Address: net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}})
	}
	sandbox.ChangeLink(c.ifName, func(l *network.Link) { l.Addresses = own })
	hop := netip.PrefixFrom(calicoGateway, calicoGateway.BitLen())
	for _, o := range []network.Route{{Dst: hop, Dev: c.ifName}, {Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: calicoGateway, Dev: c.ifName}} {
		if err := sandbox.AddRoute(o, false); err != nil {
			return nil, fmt.Errorf("failed to add route inside the container: %w", err)
		}
	}
	if c.Files.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) != nil {
		m.SetForwarding(true)
	}
	for _, one := range own {
		if err := m.AddRoute(network.Route{Dst: one, Dev: link}, true); err != nil && !errors.Is(err, syscall.EEXIST) {
			return nil, fmt.Errorf("error adding host side routes for interface: %s, error: %w", link, err)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{CalicoPodIP: told[0], CalicoPodIPs: strings.Join(told, ","), "cni.projectcalico.org/containerID": c.id}}})
	if err != nil {
		return nil, err
	}
	if _, err := client.CoreV1().Pods(namespace).Patch(ctx, name, apitypes.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return nil, err
	}
	return r, nil
}

// calicoReady asks whether the datastore may be used.
func calicoReady(ctx context.Context, client kubernetes.Interface) error {
	b, err := client.Discovery().RESTClient().Get().AbsPath("/apis/crd.projectcalico.org/v1/clusterinformations/default").Do(ctx).Raw()
	switch {
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return fmt.Errorf("connection is unauthorized: %w", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("resource does not exist: ClusterInformation(default) with error: %w", err)
	case err != nil:
		return err
	}
	info := struct {
		Spec struct{ DatastoreReady *bool }
	}{}
	if err := json.Unmarshal(b, &info); err != nil {
		return err
	}
	if info.Spec.DatastoreReady == nil || !*info.Spec.DatastoreReady {
		return errors.New("Calico is currently not ready to process requests")
	}
	return nil
}

// withSubnet puts a subnet into the "ipam" part of a configuration.
func withSubnet(stdin []byte, subnet string) ([]byte, error) {
	conf := map[string]any{}
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, err
	}
	if ipam, ok := conf["ipam"].(map[string]any); ok {
		ipam["subnet"] = subnet
	}
	return json.Marshal(conf)
}

func delCalico(c *call) error {
	conf, err := loadCalico(c)
	if err != nil {
		return err
	}
	ipam, err := withSubnet(c.stdin, "0.0.0.0/0") // what the container has is found by its id
	if err != nil {
		return err
	}
	if _, err := c.delegate(conf.IPAM.Type, ipam); err != nil {
		return err
	}
	if n := c.machine().Namespace(c.netns); n != nil {
		if err := n.DeleteLink(c.ifName); err != nil && !errors.Is(err, syscall.ENODEV) {
			return err
		}
	}
	return nil
}

// CalicoAddresses are a Pod's addresses as soon as the plugin has told of them.
func CalicoAddresses(p *v1.Pod) (l []netip.Addr) {
	for _, s := range strings.Split(p.Annotations[CalicoPodIPs], ",") {
		if a, err := netip.ParsePrefix(s); err == nil {
			l = append(l, a.Addr())
		}
	}
	if len(l) > 0 {
		return l
	}
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			l = append(l, a)
		}
	}
	return l
}
