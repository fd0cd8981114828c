package calico

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"ckadrill/sim/addons/cni"
	"ckadrill/sim/network"
)

// Owners of what calico-node programs. What comes from a Pod and what goes to one are judged apart: who may send needs a
// receiver that may receive.
const (
	egressOwner  = "calico-egress"
	ingressOwner = "calico-ingress"
)

// anyWorkload is every link that the CNI plugin has made.
const anyWorkload = "cali+"

// cluster is what policies are about.
type cluster struct {
	pods       []*v1.Pod
	namespaces map[string]labels.Set
	policies   []*networkingv1.NetworkPolicy
}

// newCluster takes the objects in an order of their own.
func newCluster(pods []*v1.Pod, namespaces []*v1.Namespace, policies []*networkingv1.NetworkPolicy) *cluster {
	c := &cluster{namespaces: map[string]labels.Set{}, policies: slices.Clone(policies)}
	for _, p := range pods {
		if onNetwork(p) {
			c.pods = append(c.pods, p)
		}
	}
	for _, n := range namespaces {
		c.namespaces[n.Name] = n.Labels
	}
	byName := func(a, b metav1.Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	}
	slices.SortFunc(c.pods, func(a, b *v1.Pod) int { return byName(a, b) })
	slices.SortFunc(c.policies, func(a, b *networkingv1.NetworkPolicy) int { return byName(a, b) })
	return c
}

// onNetwork says whether a Pod is a workload of its own on the network: one that shares its node's is not, and one that has finished has given
// its address back.
func onNetwork(p *v1.Pod) bool {
	return !p.Spec.HostNetwork && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed && len(cni.CalicoAddresses(p)) > 0
}

// rules are a node's, for what its Pods send and for what they get.
func (c *cluster) rules(node string) (egress, ingress []network.Rule) {
	for _, chain := range []string{"FORWARD", "INPUT"} {
		egress = append(egress, network.Rule{Chain: chain, In: anyWorkload, Established: true, Verdict: network.Accept})
	}
	ingress = append(ingress, network.Rule{Chain: "FORWARD", Out: anyWorkload, Established: true, Verdict: network.Accept})
	for _, p := range c.pods {
		if p.Spec.NodeName != node {
			continue
		}
		link := cni.CalicoLink(p.Namespace, p.Name)
		from, to := c.direction(p, networkingv1.PolicyTypeEgress), c.direction(p, networkingv1.PolicyTypeIngress)
		for _, chain := range []string{"FORWARD", "INPUT"} {
			for _, r := range from {
				r.Chain, r.In = chain, link
				egress = append(egress, r)
			}
		}
		for _, r := range to {
			r.Chain, r.Out = "FORWARD", link
			ingress = append(ingress, r)
		}
	}
	// A link whose Pod is not known yet, or no longer, carries nothing.
	const unknown = "Unknown interface"
	for _, chain := range []string{"FORWARD", "INPUT"} {
		egress = append(egress, network.Rule{Chain: chain, In: anyWorkload, Verdict: network.Drop, Comment: unknown})
	}
	ingress = append(ingress, network.Rule{Chain: "FORWARD", Out: anyWorkload, Verdict: network.Drop, Comment: unknown})
	return egress, ingress
}

// direction is what the policies that select a Pod let through in one direction: everything if there are none.
func (c *cluster) direction(p *v1.Pod, way networkingv1.PolicyType) (l []network.Rule) {
	isolated := false
	for _, n := range c.policies {
		if n.Namespace != p.Namespace || !slices.Contains(n.Spec.PolicyTypes, way) || !matches(&n.Spec.PodSelector, p.Labels) {
			continue
		}
		isolated = true
		why := "Policy " + n.Namespace + "/knp.default." + n.Name
		var add []network.Rule
		if way == networkingv1.PolicyTypeIngress {
			for _, r := range n.Spec.Ingress {
				add = append(add, c.ingress(p, n.Namespace, r)...)
			}
		} else {
			for _, r := range n.Spec.Egress {
				add = append(add, c.egress(n.Namespace, r)...)
			}
		}
		for _, r := range add {
			r.Verdict, r.Comment = network.Accept, why+" "+strings.ToLower(string(way))
			l = append(l, r)
		}
	}
	if !isolated {
		return []network.Rule{{Verdict: network.Accept, Comment: "Profile kns." + p.Namespace}}
	}
	return append(l, network.Rule{Verdict: network.Drop, Comment: "End of tier default. Drop if no policies passed packet"})
}

func matches(s *metav1.LabelSelector, l map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(l))
}

// peers is one set of other ends: addresses, or Pods; nil prefixes are everybody.
type peers struct {
	prefixes, except []netip.Prefix
	pods             []*v1.Pod
}

// ends are the other ends that a rule names. Who is named by labels and is not there is nobody.
func (c *cluster) ends(namespace string, l []networkingv1.NetworkPolicyPeer) (ends []peers) {
	if len(l) == 0 {
		return []peers{{pods: c.pods}}
	}
	for _, o := range l {
		e := peers{}
		if o.IPBlock != nil {
			p, err := netip.ParsePrefix(o.IPBlock.CIDR)
			if err != nil {
				continue
			}
			e.prefixes = []netip.Prefix{p.Masked()}
			for _, x := range o.IPBlock.Except {
				if p, err := netip.ParsePrefix(x); err == nil {
					e.except = append(e.except, p.Masked())
				}
			}
			ends = append(ends, e)
			continue
		}
		for _, p := range c.pods {
			in := p.Namespace == namespace
			if o.NamespaceSelector != nil {
				set, known := c.namespaces[p.Namespace]
				in = known && matches(o.NamespaceSelector, set)
			}
			if in && (o.PodSelector == nil || matches(o.PodSelector, p.Labels)) {
				e.pods = append(e.pods, p)
			}
		}
		if len(e.pods) > 0 {
			e.prefixes = addressesOf(e.pods)
			ends = append(ends, e)
		}
	}
	return ends
}

func addressesOf(pods []*v1.Pod) (l []netip.Prefix) {
	for _, p := range pods {
		for _, a := range cni.CalicoAddresses(p) {
			l = append(l, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return l
}

// protocol is a port's protocol in the packet filter's words.
func protocol(p networkingv1.NetworkPolicyPort) string {
	if p.Protocol == nil {
		return "tcp"
	}
	return strings.ToLower(string(*p.Protocol))
}

// numbers are the ports that p means; a name means nothing here.
func numbers(p networkingv1.NetworkPolicyPort) []network.PortRange {
	if p.Port == nil {
		return nil
	}
	r := network.PortRange{First: uint16(p.Port.IntVal), Last: uint16(p.Port.IntVal)}
	if p.EndPort != nil {
		r.Last = uint16(*p.EndPort)
	}
	return []network.PortRange{r}
}

func named(p networkingv1.NetworkPolicyPort) bool {
	return p.Port != nil && p.Port.Type == intstr.String
}

// named ports are those of a Pod's containers, and of its sidecars.
func portsOf(p *v1.Pod, name, proto string) (l []network.PortRange) {
	add := func(c v1.Container) {
		for _, o := range c.Ports {
			protocol := "tcp"
			if o.Protocol != "" {
				protocol = strings.ToLower(string(o.Protocol))
			}
			if o.Name == name && protocol == proto {
				l = append(l, network.PortRange{First: uint16(o.ContainerPort), Last: uint16(o.ContainerPort)})
			}
		}
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for _, c := range p.Spec.Containers {
		add(c)
	}
	return l
}

// ingress is what one rule of a policy lets reach a Pod.
func (c *cluster) ingress(p *v1.Pod, namespace string, r networkingv1.NetworkPolicyIngressRule) (l []network.Rule) {
	for _, e := range c.ends(namespace, r.From) {
		base := network.Rule{From: e.prefixes, NotFrom: e.except}
		if len(r.Ports) == 0 {
			l = append(l, base)
		}
		for _, port := range r.Ports {
			one := base
			one.Proto, one.Ports = protocol(port), numbers(port)
			if named(port) {
				if one.Ports = portsOf(p, port.Port.StrVal, one.Proto); len(one.Ports) == 0 {
					continue
				}
			}
			l = append(l, one)
		}
	}
	return l
}

// egress is what one rule of a policy lets a Pod reach. A port's name is looked up at the other end.
func (c *cluster) egress(namespace string, r networkingv1.NetworkPolicyEgressRule) (l []network.Rule) {
	for _, e := range c.ends(namespace, r.To) {
		base := network.Rule{To: e.prefixes, NotTo: e.except}
		if len(r.Ports) == 0 {
			l = append(l, base)
		}
		for _, port := range r.Ports {
			one := base
			one.Proto, one.Ports = protocol(port), numbers(port)
			if !named(port) {
				l = append(l, one)
				continue
			}
			for _, p := range e.pods {
				if one.Ports = portsOf(p, port.Port.StrVal, one.Proto); len(one.Ports) > 0 {
					one.To = addressesOf([]*v1.Pod{p})
					l = append(l, one)
				}
			}
		}
	}
	return l
}
