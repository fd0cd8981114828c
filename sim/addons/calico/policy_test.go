package calico

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"ckadrill/sim/network"
)

func testPod(namespace, name, ip string, labels map[string]string, ports ...v1.ContainerPort) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:   v1.PodSpec{NodeName: "w1", Containers: []v1.Container{{Ports: ports}}},
		Status: v1.PodStatus{PodIPs: []v1.PodIP{{IP: ip}}}}
}

// shown are a Pod's rules in one direction, short.
func shown(l []network.Rule) string {
	var b strings.Builder
	for _, r := range l {
		fmt.Fprintf(&b, "%s from=%v-%v to=%v-%v %s%v\n", r.Verdict, r.From, r.NotFrom, r.To, r.NotTo, r.Proto, r.Ports)
	}
	return b.String()
}

func TestDirection(t *testing.T) {
	web := testPod("shop", "web", "10.0.0.1", map[string]string{"app": "web"}, v1.ContainerPort{Name: "http", ContainerPort: 8080}, v1.ContainerPort{Name: "http", ContainerPort: 8081, Protocol: v1.ProtocolUDP})
	db := testPod("shop", "db", "10.0.0.2", map[string]string{"app": "db"}, v1.ContainerPort{Name: "sql", ContainerPort: 5432})
	other := testPod("lab", "db", "10.0.0.3", map[string]string{"app": "db"}, v1.ContainerPort{Name: "sql", ContainerPort: 5433})
	host := testPod("shop", "host", "192.168.0.1", map[string]string{"app": "db"})
	host.Spec.HostNetwork = true
	done := testPod("shop", "done", "10.0.0.9", map[string]string{"app": "db"})
	done.Status.Phase = v1.PodSucceeded
	namespaces := []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{"team": "b"}}}}
	for _, c := range []struct {
		name, spec string
		pod        *v1.Pod
		way        networkingv1.PolicyType
		want       string
	}{
		{"no policy for this Pod", `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}`, web, "Ingress", "ACCEPT from=[]-[] to=[]-[] []\n"},
		{"default deny", `{podSelector: {}, policyTypes: [Ingress]}`, web, "Ingress", "DROP from=[]-[] to=[]-[] []\n"},
		{"the other direction stays open", `{podSelector: {}, policyTypes: [Ingress]}`, web, "Egress", "ACCEPT from=[]-[] to=[]-[] []\n"},
		{"an empty rule is everything", `{podSelector: {}, ingress: [{}], policyTypes: [Ingress]}`, web, "Ingress", "ACCEPT from=[]-[] to=[]-[] []\nDROP from=[]-[] to=[]-[] []\n"},
		{"own namespace, not host network, not finished", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}], policyTypes: [Ingress]}`, web, "Ingress", "ACCEPT from=[10.0.0.2/32]-[] to=[]-[] []\nDROP from=[]-[] to=[]-[] []\n"},
		{"both selectors together", `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}, podSelector: {matchLabels: {app: db}}}]}], policyTypes: [Ingress]}`, web, "Ingress", "ACCEPT from=[10.0.0.3/32]-[] to=[]-[] []\nDROP from=[]-[] to=[]-[] []\n"},
		{"either selector", `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}, {podSelector: {matchLabels: {app: web}}}]}], policyTypes: [Ingress]}`, web, "Ingress", "ACCEPT from=[10.0.0.3/32]-[] to=[]-[] []\nACCEPT from=[10.0.0.1/32]-[] to=[]-[] []\nDROP from=[]-[] to=[]-[] []\n"},
		{"nobody fits", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}], policyTypes: [Ingress]}`, web, "Ingress", "DROP from=[]-[] to=[]-[] []\n"},
		{"except", `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.9.0.0/16]}}]}], policyTypes: [Ingress]}`, web, "Ingress", "ACCEPT from=[10.0.0.0/8]-[10.9.0.0/16] to=[]-[] []\nDROP from=[]-[] to=[]-[] []\n"},
		{"named ports of the Pod, and ranges", `{podSelector: {}, ingress: [{ports: [{port: http}, {port: none}, {port: 90, endPort: 95, protocol: UDP}, {protocol: UDP}]}], policyTypes: [Ingress]}`, web, "Ingress",
			"ACCEPT from=[]-[] to=[]-[] tcp[{8080 8080}]\nACCEPT from=[]-[] to=[]-[] udp[{90 95}]\nACCEPT from=[]-[] to=[]-[] udp[]\nDROP from=[]-[] to=[]-[] []\n"},
		{"named ports of the other end", `{podSelector: {}, egress: [{to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}], ports: [{port: sql}]}], policyTypes: [Egress]}`, web, "Egress",
			"ACCEPT from=[]-[] to=[10.0.0.3/32]-[] tcp[{5433 5433}]\nACCEPT from=[]-[] to=[10.0.0.2/32]-[] tcp[{5432 5432}]\nDROP from=[]-[] to=[]-[] []\n"},
	} {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
		if err := yaml.UnmarshalStrict([]byte(c.spec), &p.Spec); err != nil {
			t.Fatal(c.name, err)
		}
		cl := newCluster([]*v1.Pod{web, db, other, host, done}, namespaces, []*networkingv1.NetworkPolicy{p})
		if got := shown(cl.direction(c.pod, c.way)); got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}
