package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func init() {
	worldTests["TestARequestBecomesPods"] = requestBecomesPods
	worldTests["TestAPIServerAnswers"] = apiServerAnswers
	worldTests["BenchmarkControlPlane"] = idleHour
}

// A Deployment becomes a ReplicaSet, Pods and bindings, and the trace tells so.
func TestARequestBecomesPods(t *testing.T) { t.Log(inWorker(t)) }

// The apiserver answers what kubectl asks of it beside objects, and knows who asks.
func TestAPIServerAnswers(t *testing.T) { t.Log(inWorker(t)) }

// BenchmarkControlPlane prints what a start, a settled control plane and an idle hour take.
func BenchmarkControlPlane(b *testing.B) {
	for range b.N {
		b.Log(inWorker(b))
	}
}

// eventually waits in simulated time for ok.
func eventually(limit time.Duration, ok func() error) error {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ok(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("after %v: %w", limit, err)
}

func hasDefaultAccount(c *kubernetes.Clientset) func() error {
	return func() error {
		_, err := c.CoreV1().ServiceAccounts("default").Get(context.Background(), "default", metav1.GetOptions{})
		return err
	}
}

func requestBecomesPods(w *kernel.World) error {
	ctx := context.Background()
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	_, logs := m.components(time.Time{})
	if err := waitReady(admin, time.Minute); err != nil {
		return fmt.Errorf("%w\n%s", err, logs[0])
	}
	if err := eventually(time.Minute, hasDefaultAccount(admin)); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cka-w1"}}
	node, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	status := `{"status":{"allocatable":{"pods":"110","cpu":"2"},"conditions":[{"type":"Ready","status":"True"}]}}`
	if _, err := admin.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	labels, replicas := map[string]string{"app": "web"}, int32(2)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}}}}}
	if _, err := admin.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return err
	}
	var pod string
	if err := eventually(time.Minute, func() error {
		l, err := admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=cka-w1"})
		if err == nil && len(l.Items) != 2 {
			err = fmt.Errorf("%d Pods are bound", len(l.Items))
		}
		if err == nil {
			pod = l.Items[0].Name
		}
		return err
	}); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, logs[1], logs[2])
	}
	var replicaSet, chain string
	for _, s := range w.Trace.Steps() {
		switch {
		case s.Verb == "create" && s.Subject == "deployments/default/web" && s.Actor == "kubernetes-admin":
			chain += "D"
		case s.Verb == "create" && strings.HasPrefix(s.Subject, "replicasets/default/web-") && s.Cause == "deployments/default/web":
			replicaSet = s.Subject
			chain += "R"
		case s.Verb == "create" && s.Subject == Subject("pods", "default", pod) && s.Cause == replicaSet:
			chain += "P"
		case s.Verb == "bind" && s.Subject == Subject("pods", "default", pod) && s.Actor == "system:kube-scheduler":
			chain += "B"
		}
	}
	if chain != "DRPB" {
		return fmt.Errorf("the trace tells %q of %s: %+v", chain, pod, w.Trace.Steps())
	}
	rs, err := admin.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if who := rs.Items[0].ManagedFields[0].Manager; who != "kube-controller-manager" {
		return fmt.Errorf("the ReplicaSet's manager is %q", who)
	}
	if l := kernel.StrayLines(); len(l) > 0 {
		return fmt.Errorf("lines of nobody: %q", l)
	}
	return nil
}

func apiServerAnswers(w *kernel.World) error {
	ctx := context.Background()
	m := newTestMachine(w)
	m.startEtcd()
	p, admin := m.admin()
	m.components(time.Time{})
	if err := waitReady(admin, time.Minute); err != nil {
		return err
	}
	if err := eventually(time.Minute, hasDefaultAccount(admin)); err != nil {
		return err
	}
	for path, words := range map[string]string{
		"/version":                          `"gitVersion": "v1.35.4"`,
		"/livez":                            "ok",
		"/openapi/v3":                       `"apis/apps/v1"`,
		"/openapi/v3/api/v1":                "io.k8s.api.core.v1.PodSpec",
		"/openapi/v2":                       "io.k8s.api.apps.v1.Deployment",
		"/apis":                             "apiextensions.k8s.io",
		"/metrics":                          "apiserver_request_total",
		"/readyz?verbose":                   "[+]poststarthook/start-kube-apiserver-identity-lease-controller ok",
		"/.well-known/openid-configuration": "https://kubernetes.default.svc.cluster.local",
	} {
		b, err := admin.CoreV1().RESTClient().Get().RequestURI(path).DoRaw(ctx)
		if err != nil || !strings.Contains(string(b), words) {
			return fmt.Errorf("%s: %v, %.300s", path, err, b)
		}
	}
	svc, err := admin.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.96.0.1" {
		return fmt.Errorf("service kubernetes: %v %v", err, svc.Spec.ClusterIP)
	}
	apply := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`
	if _, err := admin.CoreV1().ConfigMaps("default").Patch(ctx, "a", types.ApplyPatchType, []byte(apply), metav1.PatchOptions{FieldManager: "me"}); err != nil {
		return err
	}
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	review, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || review.Status.User.Username != "system:serviceaccount:default:default" {
		return fmt.Errorf("the token is %+v's, %v", review.Status, err)
	}
	c, err := m.config(p, "admin")
	if err != nil {
		return err
	}
	c.Impersonate.UserName = "bob"
	_, err = kubernetes.NewForConfigOrDie(c).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if want := `pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"`; err == nil || err.Error() != want {
		return fmt.Errorf("bob got %v", err)
	}
	if c, err = m.config(p, "scheduler"); err != nil {
		return err
	}
	if _, err = kubernetes.NewForConfigOrDie(c).CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), `User "system:kube-scheduler" cannot list`) {
		return fmt.Errorf("the scheduler got %v", err)
	}
	return nil
}

func idleHour(w *kernel.World) error {
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	l := newLap()
	m.components(time.Time{})
	if err := waitReady(admin, time.Minute); err != nil {
		return err
	}
	fmt.Println("apiserver ready:        ", l)
	if err := eventually(time.Minute, hasDefaultAccount(admin)); err != nil {
		return err
	}
	fmt.Println("default ServiceAccount: ", l)
	time.Sleep(time.Minute)
	fmt.Println("settled:                ", l)
	time.Sleep(time.Hour)
	fmt.Println("an idle hour:           ", l)
	return nil
}
