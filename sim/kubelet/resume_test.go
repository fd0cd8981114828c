package kubelet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ckadrill/sim/kernel"
)

// picture is all that a user sees of a node and its Pods, but for heartbeats.
func (b *testbed) picture() string {
	var s strings.Builder
	n, _ := b.api.CoreV1().Nodes().Get(background, "cka-w1", metav1.GetOptions{})
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	l, _ := b.api.CoreV1().Pods("").List(background, metav1.ListOptions{})
	for _, o := range []any{n.Status, n.Labels} {
		j, _ := json.Marshal(o)
		fmt.Fprintf(&s, "%s\n", j)
	}
	for _, p := range l.Items {
		for i := range p.Status.ContainerStatuses {
			// That a container waits to be restarted shows with the next sync, and a resumed kubelet syncs all Pods. Such a
			// sync also forgets the run before the last: its container is removed by then.
			c := &p.Status.ContainerStatuses[i]
			if c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
				c.State = c.LastTerminationState
			}
			if c.State.Terminated != nil {
				c.LastTerminationState = v1.ContainerState{}
			}
		}
		j, _ := json.Marshal(p.Status)
		fmt.Fprintf(&s, "%s %s %s\n", p.Name, p.UID, j)
	}
	return s.String() + b.events()
}

func init() {
	scenarios["resume"] = func(b *testbed) error {
		state := Install(b.m.Host())
		b.write("/etc/kubernetes/manifests/web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: 'nginx:1.27', command: [sh, -c, trap;wait]}]}\n")
		first := b.start()
		ready := testPod("ready", "busybox:1.36")
		ready.Spec.Containers[0].Command = words("serve 8080")
		ready.Spec.Containers[0].ReadinessProbe, ready.Spec.Containers[0].LivenessProbe = getProbe(8080), getProbe(8080)
		b.create(ready)
		crash := testPod("crash", "busybox:1.36")
		crash.Spec.Containers[0].Command = words("exit 3")
		b.create(crash)
		time.Sleep(100 * time.Second) // crash waits out 1m20s from here on
		young := testPod("young", "busybox:1.36")
		young.Spec.Containers[0].Command = words("serve 8080")
		young.Spec.Containers[0].ReadinessProbe = getProbe(8080)
		b.create(young)
		time.Sleep(8 * time.Second)
		before, log := b.picture(), len(b.log.String())

		// What a thaw does: the memory goes through bytes, the process is started with its old number and start time.
		r := kernel.NewRecorder(nil)
		parts := kernel.Parts{}
		b.w.Freeze(r).Apply(parts)
		started := first.StartTime()
		first.Signal(kernel.SIGKILL)
		if err := state.Thaw(kernel.Parts{"memory": parts["kubelet/cka-w1/memory"]}); err != nil {
			return err
		}
		// As long as a world's warm-up is not a multiple of a second, no relist falls on its end.
		b.w.WarmUp(time.Now().Add(2500 * time.Millisecond))
		second := b.startAt(started)
		time.Sleep(20 * time.Second)
		if !second.Alive() {
			return fmt.Errorf("the resumed kubelet ended")
		}
		if after := b.picture(); after != before {
			return fmt.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if more := b.log.String()[log:]; more != "" {
			return fmt.Errorf("it spoke:\n%s", more)
		}
		time.Sleep(80 * time.Second)
		if s := b.pod("crash").Status.ContainerStatuses[0]; s.RestartCount != 5 {
			return fmt.Errorf("the back-off did not go on: %d restarts", s.RestartCount)
		}
		return nil
	}
	scenarios["restart"] = func(b *testbed) error {
		b.create(testPod("one", "busybox:1.36"))
		for range 5 {
			p := b.start()
			time.Sleep(30 * time.Second)
			p.Signal(kernel.SIGTERM)
			if s := p.Wait(); s.Code != 0 {
				return fmt.Errorf("it ended with %+v", s)
			}
			time.Sleep(5 * time.Second)
		}
		size := len(b.log.String())
		time.Sleep(time.Hour)
		if more := b.log.String()[size:]; more != "" {
			return fmt.Errorf("the dead speak: %s", more)
		}
		if s := b.pod("one").Status; s.Phase != v1.PodRunning || s.ContainerStatuses[0].RestartCount != 0 {
			return fmt.Errorf("one: %+v", s)
		}
		if strings.Count(b.events(), "Starting kubelet.") != 5 {
			return fmt.Errorf("not each start was announced")
		}
		return nil
	}
}

func TestResume(t *testing.T)  { runScenario(t, "resume") }
func TestRestart(t *testing.T) { runScenario(t, "restart") }
