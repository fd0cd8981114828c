package kubeadm

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"ckadrill/sim/kernel"
)

func recordedConfigMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict([]byte(recordedFile(t, name)), cm); err != nil {
		t.Fatal(err)
	}
	return cm
}

func TestObjectsEqualTheRecording(t *testing.T) {
	at(t, func(w *kernel.World) {
		c := recorded()
		c.Token = "y6o0y4.9rd2jso1gggeg4ww"
		l := build(t, w, c)
		cfg, err := l.configuration(c.Machines[0])
		if err != nil {
			t.Fatal(err)
		}
		admin, err := clientcmd.Load([]byte(content(t, l.Trees["cka-cp1"], kubernetesDir+"/admin.conf")))
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cka-cp1", Labels: map[string]string{corev1.LabelHostname: "cka-cp1"}}})
		var out strings.Builder
		if err := withStdout(&out, func(b []byte) []byte { return b }, func(*capture) error {
			return objects(context.Background(), cfg, admin, client, client)
		}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"[upload-config] Storing the configuration used in ConfigMap \"kubeadm-config\" in the \"kube-system\" Namespace\n[kubelet] Creating",
			"[bootstrap-token] Using token: y6o0y4.9rd2jso1gggeg4ww\n",
			"[addons] Applied essential addon: CoreDNS\n[addons] Applied essential addon: kube-proxy\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in the output:\n%s", want, out.String())
			}
		}

		ctx := context.Background()
		ca := regexp.MustCompile(`(certificate-authority-data: ).+`)
		for _, want := range []*corev1.ConfigMap{
			recordedConfigMap(t, "cm-kubeadm-config.yaml"), recordedConfigMap(t, "cm-kubelet-config.yaml"),
			recordedConfigMap(t, "cm-kube-proxy.yaml"), recordedConfigMap(t, "cm-coredns.yaml"), recordedConfigMap(t, "cm-cluster-info.yaml"),
		} {
			got, err := client.CoreV1().ConfigMaps(want.Namespace).Get(ctx, want.Name, metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				continue
			}
			for k, v := range want.Data {
				if strings.HasPrefix(k, "jws-") {
					continue // the bootstrap signer's
				}
				if g := ca.ReplaceAllString(got.Data[k], "$1<base64>"); g != v {
					t.Errorf("ConfigMap %s, %s:\n%s\nwant:\n%s", want.Name, k, g, v)
				}
			}
			for k, v := range want.Annotations {
				if got.Annotations[k] != v {
					t.Errorf("ConfigMap %s: annotation %s is %q, want %q", want.Name, k, got.Annotations[k], v)
				}
			}
			if len(got.Annotations) != len(want.Annotations) {
				t.Errorf("ConfigMap %s has the annotations %v", want.Name, got.Annotations)
			}
		}

		node, err := client.CoreV1().Nodes().Get(ctx, "cka-cp1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := node.Labels["node-role.kubernetes.io/control-plane"]; !ok {
			t.Errorf("labels %v", node.Labels)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].ToString() != "node-role.kubernetes.io/control-plane:NoSchedule" {
			t.Errorf("taints %v", node.Spec.Taints)
		}
		secret, err := client.CoreV1().Secrets("kube-system").Get(ctx, "bootstrap-token-y6o0y4", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(secret.Data) != 6 && len(secret.StringData) != 6 { // as `kubectl get secrets` counts
			t.Errorf("the token has the fields %v", secret.Data)
		}
		for _, name := range []string{"kubeadm:cluster-admins", "kubeadm:get-nodes", "kubeadm:kubelet-bootstrap", "kubeadm:node-autoapprove-bootstrap",
			"kubeadm:node-autoapprove-certificate-rotation", "kubeadm:node-proxier", "system:coredns"} {
			if _, err := client.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestJoinCommand(t *testing.T) {
	at(t, func(w *kernel.World) {
		c := recorded()
		c.Token = "abcdef.0123456789abcdef"
		got, err := build(t, w, c).JoinCommand()
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^kubeadm join 192\.168\.122\.11:6443 --token abcdef\.0123456789abcdef --discovery-token-ca-cert-hash sha256:[0-9a-f]{64}$`).MatchString(got) {
			t.Error(got)
		}
	})
}

func TestFlannelManifest(t *testing.T) {
	m := flannelManifest(netip.MustParsePrefix("10.10.0.0/16"))
	objects, err := decode(m)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.GetKind()+"/"+o.GetName())
	}
	want := "Namespace/kube-flannel ClusterRole/flannel ClusterRoleBinding/flannel ServiceAccount/flannel ConfigMap/kube-flannel-cfg DaemonSet/kube-flannel-ds"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("objects %s, want %s", got, want)
	}
	if !strings.Contains(string(m), `"Network": "10.10.0.0/16"`) {
		t.Error("the Pod network is not in the manifest")
	}
}

func TestStandardOutputComesBack(t *testing.T) {
	before := os.Stdout
	at(t, func(*kernel.World) {
		var b strings.Builder
		if err := withStdout(&b, func(b []byte) []byte { return b }, func(*capture) error {
			os.Stdout.WriteString("hello\n")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if b.String() != "hello\n" {
			t.Errorf("got %q", b.String())
		}
	})
	if os.Stdout != before {
		t.Error("os.Stdout is not what it was")
	}
}
