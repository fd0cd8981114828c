package kubelet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var background = context.Background()

func (b *testbed) create(p *v1.Pod) {
	if _, err := b.api.CoreV1().Pods(p.Namespace).Create(background, p, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
}

// deleteGracefully does what the API does for a deletion: it only marks the Pod, its kubelet deletes it.
func (b *testbed) deleteGracefully(name string) {
	p, now, grace := b.pod(name), metav1.Now(), int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	if _, err := b.api.CoreV1().Pods("default").Update(background, p, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
}

func (b *testbed) pod(name string) *v1.Pod {
	p, err := b.api.CoreV1().Pods("default").Get(background, name, metav1.GetOptions{})
	if err != nil {
		return &v1.Pod{}
	}
	return p
}

// expect says which of the wanted strings are missing in what.
func expect(what string, wanted ...string) error {
	for _, w := range wanted {
		if !strings.Contains(what, w) {
			return fmt.Errorf("missing %q in:\n%s", w, what)
		}
	}
	return nil
}

func (b *testbed) read(name string) string {
	c, err := b.files.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(c)
}

func words(s string) []string { return []string{"sh", "-c", s} }

func getProbe(port int) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(int32(port)), Scheme: v1.URISchemeHTTP}},
		PeriodSeconds: 5, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1}
}

func init() {
	scenarios["volumes"] = func(b *testbed) error {
		mode, rw := int32(0o644), v1.HostPathDirectory
		b.api.CoreV1().ConfigMaps("default").Create(background, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg", Namespace: "default"}, Data: map[string]string{"a": "one", "b": "two"}}, metav1.CreateOptions{})
		b.api.CoreV1().Secrets("default").Create(background, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sec", Namespace: "default"}, Data: map[string][]byte{"k": []byte("s3cret")}}, metav1.CreateOptions{})
		b.start()
		p := testPod("vol", "busybox:1.36")
		p.Labels = map[string]string{"app": "x"}
		p.Spec.Volumes = []v1.Volume{
			{Name: "cfg", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cfg"}, DefaultMode: &mode}}},
			{Name: "sec", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec", DefaultMode: &mode}}},
			{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "down", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: &mode, Items: []v1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}}}}}},
		}
		c := &p.Spec.Containers[0]
		c.VolumeMounts = []v1.VolumeMount{{Name: "cfg", MountPath: "/etc/cfg"}, {Name: "sec", MountPath: "/etc/sec"}, {Name: "tmp", MountPath: "/data"}, {Name: "down", MountPath: "/down"}, {Name: "cfg", MountPath: "/one", SubPath: "a"}}
		c.Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}, {Name: "HELLO", Value: "hi $(IP)"},
			{Name: "B", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cfg"}, Key: "b"}}}}
		c.Command = words("trap;cat /etc/cfg/a;cat /etc/sec/k;cat /down/labels;cat /one;env;cat /etc/hosts;cat /etc/resolv.conf;write /data/x y;wait")
		b.create(p)
		missing := testPod("missing", "busybox:1.36")
		missing.Spec.Volumes = []v1.Volume{{Name: "no", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "nope"}, DefaultMode: &mode}}}}
		missing.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "no", MountPath: "/no"}}
		b.create(missing)
		host := testPod("hostpath", "busybox:1.36")
		host.Spec.Volumes = []v1.Volume{{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv/none", Type: &rw}}}}
		host.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "h", MountPath: "/h"}}
		b.create(host)
		env := testPod("env", "busybox:1.36")
		env.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "nope"}}}}
		b.create(env)
		time.Sleep(30 * time.Second)
		log := b.read("/var/log/pods/default_vol_uid-vol/c/0.log")
		if err := expect(log, `stdout F ones3cretapp="x"one`, "HELLO=hi 10.244.1.", "B=two", "# Kubernetes-managed hosts file.", "\tvol", "nameserver 10.96.0.10", "search default.svc.cluster.local svc.cluster.local cluster.local", "options ndots:5"); err != nil {
			return err
		}
		if s := b.pod("env").Status.ContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "CreateContainerConfigError" || s[0].State.Waiting.Message != `configmap "nope" not found` {
			return fmt.Errorf("env: %+v", s)
		}
		if err := expect(b.events(), `Warning FailedMount Pod/missing MountVolume.SetUp failed for volume "no" : configmap "nope" not found`,
			`Warning FailedMount Pod/hostpath MountVolume.SetUp failed for volume "h" : hostPath type check failed: /srv/none is not a directory`, `Warning Failed Pod/env Error: configmap "nope" not found`); err != nil {
			return err
		}
		if err := expect(b.log.String(), `"Couldn't get configMap default/nope`, `nestedpendingoperations.go:348] "Operation for \"{volumeName:kubernetes.io/configmap/uid-missing-no`); err != nil && !strings.Contains(b.log.String(), "Couldn't get configMap default/nope") {
			return err
		}
		if got := b.read("/var/lib/kubelet/pods/uid-vol/volumes/kubernetes.io~empty-dir/tmp/x"); got != "y" {
			return fmt.Errorf("emptyDir holds %q", got)
		}
		// A change of the ConfigMap shows in its volume within about a minute and a half, but not by way of subPath.
		b.api.CoreV1().ConfigMaps("default").Update(background, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg", Namespace: "default"}, Data: map[string]string{"a": "three"}}, metav1.UpdateOptions{})
		time.Sleep(2 * time.Minute)
		dir := "/var/lib/kubelet/pods/uid-vol/volumes/kubernetes.io~configmap/cfg/"
		if got := b.read(dir + "a"); got != "three" {
			return fmt.Errorf("the volume holds %q", got)
		}
		if got := b.read(dir + "b"); !strings.Contains(got, "no such file") {
			return fmt.Errorf("b is still there: %q", got)
		}
		if got := b.read("/var/lib/kubelet/pods/uid-vol/volume-subpaths/cfg/c/4"); got != "one" {
			return fmt.Errorf("the subPath holds %q", got)
		}
		// Gone from the API, gone from the node.
		b.deleteGracefully("vol")
		time.Sleep(30 * time.Second)
		if _, err := b.files.Stat("/var/lib/kubelet/pods/uid-vol"); err == nil {
			return fmt.Errorf("the Pod's directory is still there")
		}
		return nil
	}
	scenarios["probes"] = func(b *testbed) error {
		b.start()
		p := testPod("web", "busybox:1.36")
		p.Spec.Containers[0].Command = words("serve 8080")
		p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = getProbe(8080), getProbe(8080)
		b.create(p)
		q := testPod("bad", "busybox:1.36")
		q.Spec.Containers[0].LivenessProbe = getProbe(81)
		b.create(q)
		x := testPod("exec", "busybox:1.36")
		x.Spec.Containers[0].LivenessProbe = getProbe(1)
		x.Spec.Containers[0].LivenessProbe.ProbeHandler = v1.ProbeHandler{Exec: &v1.ExecAction{Command: words("say no;exit 1")}}
		b.create(x)
		time.Sleep(40 * time.Second)
		if s := b.pod("web").Status.ContainerStatuses; len(s) != 1 || !s[0].Ready || s[0].RestartCount != 0 {
			return fmt.Errorf("web: %+v", s)
		}
		if err := expect(b.events(), "Warning Unhealthy Pod/bad Liveness probe failed: Get \"http://10.244.1.", ":81/\": dial tcp 10.244.1.", ":81: connect: connection refused",
			"Normal Killing Pod/bad Container c failed liveness probe, will be restarted", "Warning Unhealthy Pod/exec Liveness probe failed: no"); err != nil {
			return err
		}
		time.Sleep(40 * time.Second)
		if s := b.pod("bad").Status.ContainerStatuses; len(s) != 1 || s[0].RestartCount == 0 {
			return fmt.Errorf("bad: %+v", s)
		}
		return nil
	}
	scenarios["crash"] = func(b *testbed) error {
		b.start()
		p := testPod("crash", "busybox:1.36")
		p.Spec.Containers[0].Command = words("say bye;write /dev/termination-log oops;exit 3")
		b.create(p)
		j := testPod("job", "busybox:1.36")
		j.Spec.RestartPolicy = v1.RestartPolicyNever
		j.Spec.Containers[0].Command = words("say last words;exit 4")
		j.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		b.create(j)
		i := testPod("nopull", "no.such.registry/x:1")
		b.create(i)
		time.Sleep(2 * time.Minute)
		s := b.pod("crash").Status.ContainerStatuses
		if len(s) != 1 || s[0].RestartCount < 3 || s[0].State.Running != nil || s[0].LastTerminationState.Terminated.Message != "oops" || s[0].LastTerminationState.Terminated.ExitCode != 3 {
			return fmt.Errorf("crash: %+v", s)
		}
		if p := b.pod("job"); p.Status.Phase != v1.PodFailed || p.Status.ContainerStatuses[0].State.Terminated.Message != "last words\n" {
			return fmt.Errorf("job: %+v", p.Status)
		}
		if s := b.pod("nopull").Status.ContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "ImagePullBackOff" && s[0].State.Waiting.Reason != "ErrImagePull" {
			return fmt.Errorf("nopull: %+v", s)
		}
		return expect(b.events(), "Warning BackOff Pod/crash Back-off restarting failed container c in pod crash_default(uid-crash)", "Warning Failed Pod/nopull Error: ErrImagePull", "BackOff Pod/nopull Back-off pulling image")
	}
	scenarios["static"] = func(b *testbed) error {
		file := "/etc/kubernetes/manifests/web.yaml"
		manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: 'nginx:1.27', command: [sh, -c, trap;wait]}]}\n"
		b.write(file, manifest)
		b.start()
		time.Sleep(15 * time.Second)
		first := b.pod("web-cka-w1")
		if first.Status.Phase != v1.PodRunning || first.Annotations["kubernetes.io/config.source"] != "file" || len(first.OwnerReferences) != 1 {
			return fmt.Errorf("mirror: %+v", first)
		}
		// Deleted in the API it comes back; nothing is restarted.
		b.deleteGracefully("web-cka-w1")
		time.Sleep(15 * time.Second) // the status manager's next round tells the new object how its Pod is
		again := b.pod("web-cka-w1")
		if !again.CreationTimestamp.After(first.CreationTimestamp.Time) || again.Status.Phase != v1.PodRunning || again.Status.ContainerStatuses[0].ContainerID != first.Status.ContainerStatuses[0].ContainerID {
			return fmt.Errorf("it did not come back: %+v", again.Status)
		}
		// Edited it is replaced.
		b.write(file, strings.Replace(manifest, "name: web}", "name: web, labels: {a: b}}", 1))
		time.Sleep(100 * time.Second) // the old one must be gone first, which the new one looks for every ten seconds
		edited := b.pod("web-cka-w1")
		if edited.Labels["a"] != "b" || edited.Status.Phase != v1.PodRunning || edited.Status.ContainerStatuses[0].ContainerID == first.Status.ContainerStatuses[0].ContainerID {
			return fmt.Errorf("it was not replaced: %v %+v", edited.Labels, edited.Status)
		}
		// Broken it stays, with a line in the log; what may not be referenced is refused.
		b.write(file, "apiVersion: v1\nkind: Pod\n  metadata: x\n")
		b.write("/etc/kubernetes/manifests/ref.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: ref}\nspec: {containers: [{name: c, image: x, envFrom: [{configMapRef: {name: cfg}}]}]}\n")
		time.Sleep(45 * time.Second)
		if err := expect(b.log.String(), `file.go:187] "Could not process manifest file" err="/etc/kubernetes/manifests/web.yaml: couldn't parse as pod(yaml: line 3: mapping values are not allowed in this context), please check config file" path="/etc/kubernetes/manifests/web.yaml"`,
			`file.go:108] "Unable to process watch event" err="can't process config file \"/etc/kubernetes/manifests/ref.yaml\": static pods may not reference configmaps"`); err != nil {
			return err
		}
		b.files.RemoveAll("/etc/kubernetes/manifests")
		time.Sleep(60 * time.Second)
		if p := b.pod("web-cka-w1"); p.Name != "" {
			return fmt.Errorf("the mirror Pod is still there")
		}
		return expect(b.log.String(), `"Unable to read config path" err="path does not exist, ignoring" path="/etc/kubernetes/manifests"`)
	}
	scenarios["api down"] = func(b *testbed) error {
		b.realAPI = true
		c := b.read("/etc/kubernetes/kubelet.conf")
		b.write("/etc/kubernetes/kubelet.conf", strings.Replace(c, "192.168.122.11:6443", "192.168.122.12:6443", 1))
		b.write("/etc/kubernetes/manifests/web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: 'nginx:1.27', command: [sh, -c, trap;wait]}]}\n")
		p := b.start()
		time.Sleep(2 * time.Minute)
		if !p.Alive() {
			return fmt.Errorf("the kubelet ended")
		}
		if err := expect(b.log.String(), `"Failed to ensure lease exists, will retry" err="Get \"https://192.168.122.12:6443/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/cka-w1?timeout=10s\": dial tcp 192.168.122.12:6443: connect: connection refused" interval="200ms"`,
			`interval="7s"`, `kubelet_node_status.go:106] "Unable to register node with API server" err="Post \"https://192.168.122.12:6443/api/v1/nodes\": dial tcp 192.168.122.12:6443: connect: connection refused" node="cka-w1"`); err != nil {
			return err
		}
		if !strings.Contains(b.daemonLog.String(), `StartContainer for`) {
			return fmt.Errorf("the static Pod does not run")
		}
		return nil
	}
	scenarios["runtime down"] = func(b *testbed) error {
		b.start()
		b.create(testPod("one", "busybox:1.36"))
		time.Sleep(20 * time.Second)
		b.daemon.Signal(9)
		time.Sleep(time.Minute)
		n, _ := b.api.CoreV1().Nodes().Get(background, "cka-w1", metav1.GetOptions{})
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && (c.Status != v1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != "container runtime is down") {
				return fmt.Errorf("%+v", c)
			}
		}
		if err := expect(b.log.String(), `kubelet.go:3115] "Container runtime sanity check failed"`, `kubelet.go:2525] "Skipping pod synchronization" err="container runtime is down"`,
			`generic.go:254] "GenericPLEG: Unable to retrieve pods"`, `setters.go:546] "Node became not ready" node="cka-w1"`); err != nil {
			return err
		}
		b.startContainerd()
		time.Sleep(time.Minute)
		if s := b.pod("one").Status; s.Phase != v1.PodRunning || s.ContainerStatuses[0].RestartCount != 0 {
			return fmt.Errorf("one: %+v", s)
		}
		return expect(b.events(), "Normal NodeReady Node/cka-w1 Node cka-w1 status is now: NodeReady")
	}
}

func TestVolumes(t *testing.T)     { runScenario(t, "volumes") }
func TestProbes(t *testing.T)      { runScenario(t, "probes") }
func TestCrash(t *testing.T)       { runScenario(t, "crash") }
func TestStaticPods(t *testing.T)  { runScenario(t, "static") }
func TestAPIDown(t *testing.T)     { runScenario(t, "api down") }
func TestRuntimeDown(t *testing.T) { runScenario(t, "runtime down") }
