package kubelet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func init() {
	scenarios["register"] = func(b *testbed) error {
		b.start()
		time.Sleep(30 * time.Second)
		n, err := b.api.CoreV1().Nodes().Get(context.Background(), "cka-w1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
				return fmt.Errorf("not ready: %s", c.Message)
			}
		}
		if v := n.Status.NodeInfo.KubeletVersion; v != "v1.35.9" {
			return fmt.Errorf("version %s", v)
		}
		if a := n.Status.Addresses; len(a) != 2 || a[0].Address != "192.168.122.12" {
			return fmt.Errorf("addresses %v", a)
		}
		if m := n.Status.Allocatable.Memory(); m.Value() != 2<<30-100<<20 {
			return fmt.Errorf("allocatable memory %v", m)
		}
		if _, err := b.api.CoordinationV1().Leases("kube-node-lease").Get(context.Background(), "cka-w1", metav1.GetOptions{}); err != nil {
			return err
		}
		return nil
	}
	scenarios["pods"] = func(b *testbed) error {
		b.write("/etc/kubernetes/manifests/web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {role: web}}\nspec: {containers: [{name: web, image: 'nginx:1.27', command: [sh, -c, trap;wait]}]}\n")
		b.start()
		time.Sleep(10 * time.Second)
		pod := testPod("one", "busybox:1.36")
		if _, err := b.api.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		time.Sleep(20 * time.Second)
		for _, name := range []string{"web-cka-w1", "one"} {
			p, err := b.api.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.Status.Phase != v1.PodRunning {
				return fmt.Errorf("%s is %s", name, p.Status.Phase)
			}
		}
		if !strings.Contains(b.events(), "Started Pod/one") {
			return fmt.Errorf("no event says that one has started")
		}
		return nil
	}
}

func TestRegister(t *testing.T) { runScenario(t, "register") }
func TestPods(t *testing.T)     { runScenario(t, "pods") }
