package kubelet

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ckadrill/sim/kernel"
)

// One kubelet with ten Pods, an idle hour: nothing restarts. Most of what it takes is the fake API.
func init() {
	scenarios["idle"] = func(b *testbed) error {
		ctx := context.Background()
		mode := int32(0o644)
		b.api.CoreV1().ConfigMaps("default").Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg", Namespace: "default"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
		b.start()
		for i := range 10 {
			p := testPod(fmt.Sprintf("p%d", i), "busybox:1.36")
			p.Spec.Volumes = []v1.Volume{{Name: "cfg", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cfg"}, DefaultMode: &mode}}},
				{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "cfg", MountPath: "/etc/cfg"}, {Name: "tmp", MountPath: "/tmp"}}
			if _, err := b.api.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		time.Sleep(time.Minute)
		for i := range 10 {
			p, err := b.api.CoreV1().Pods("default").Get(ctx, fmt.Sprintf("p%d", i), metav1.GetOptions{})
			if err != nil || p.Status.Phase != v1.PodRunning {
				return fmt.Errorf("p%d is %s: %v", i, p.Status.Phase, err)
			}
		}
		start := kernel.Wall()
		time.Sleep(time.Hour)
		fmt.Printf("an idle hour: %v\n", kernel.WallSince(start))
		for i := range 10 {
			p, err := b.api.CoreV1().Pods("default").Get(ctx, fmt.Sprintf("p%d", i), metav1.GetOptions{})
			if err != nil || p.Status.Phase != v1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
				return fmt.Errorf("after an idle hour p%d is %s: %v", i, p.Status.Phase, err)
			}
		}
		return nil
	}
}

func TestIdleHour(t *testing.T) { runScenario(t, "idle") }
