package controlplane

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"ckadrill/sim/kernel"
)

func init() { worldTests["TestAPIServerServes"] = apiServerServes }

func TestAPIServerServes(t *testing.T) { t.Log(inWorker(t)) }

func apiServerServes(w *kernel.World) error {
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	l := newLap()
	log := &logBuffer{}
	p := m.start(log, append([]string{"kube-apiserver"}, strings.Fields(flagsAPIServer)...)...)
	if err := waitReady(admin, time.Minute); err != nil {
		return fmt.Errorf("%w\nalive %v\n%s\nstray: %s", err, p.Alive(), log, strings.Join(kernel.StrayLines(), "\n"))
	}
	fmt.Println("ready:", l)
	b, err := admin.CoreV1().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(context.Background())
	fmt.Println(string(b), err)
	v, err := admin.ServerVersion()
	if err != nil {
		return err
	}
	fmt.Println(v)
	ns, err := admin.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range ns.Items {
		fmt.Println(n.Name, n.CreationTimestamp)
	}
	for _, step := range w.Trace.Steps()[:5] {
		fmt.Println(step)
	}
	fmt.Println(log)
	fmt.Println(strings.Join(kernel.StrayLines(), "\n"))
	return nil
}

func init() { worldTests["TestControlPlane"] = controlPlaneWorks }

func TestControlPlane(t *testing.T) { t.Log(inWorker(t)) }

func controlPlaneWorks(w *kernel.World) error {
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	l := newLap()
	apiLog, kcmLog, schedLog := &logBuffer{}, &logBuffer{}, &logBuffer{}
	m.start(apiLog, append([]string{"kube-apiserver"}, strings.Fields(flagsAPIServer)...)...)
	m.start(kcmLog, append([]string{"kube-controller-manager"}, strings.Fields(flagsControllerManager)...)...)
	m.start(schedLog, append([]string{"kube-scheduler"}, strings.Fields(flagsScheduler)...)...)
	if err := waitReady(admin, time.Minute); err != nil {
		return fmt.Errorf("%w\n%s\nstray: %s", err, apiLog, strings.Join(kernel.StrayLines(), "\n"))
	}
	fmt.Println("ready:", l)
	var err error
	for range 600 {
		if _, err = admin.CoreV1().ServiceAccounts("default").Get(context.Background(), "default", metav1.GetOptions{}); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("default ServiceAccount:", l, err)
	leases, err := admin.CoordinationV1().Leases("kube-system").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, x := range leases.Items {
		fmt.Println(x.Name, *x.Spec.HolderIdentity)
	}
	time.Sleep(30 * time.Second)
	fmt.Println("settled:", l)
	before := requestCounts(admin)
	time.Sleep(time.Hour)
	after := requestCounts(admin)
	for k, v := range after {
		if d := v - before[k]; d > 100 {
			fmt.Println("requests", d, k)
		}
	}
	fmt.Println("an hour:", l)
	fmt.Println(kcmLog)
	fmt.Println(schedLog)
	fmt.Println("stray", strings.Join(kernel.StrayLines(), "\n"))
	return nil
}

func requestCounts(c *kubernetes.Clientset) map[string]int {
	b, err := c.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		panic(err)
	}
	n := map[string]int{}
	for _, l := range strings.Split(string(b), "\n") {
		if k, v, ok := strings.Cut(l, "} "); ok && (strings.HasPrefix(k, "apiserver_request_total") || strings.HasPrefix(k, "etcd_requests_total")) {
			f, _ := strconv.ParseFloat(v, 64)
			n[k] = int(f)
		}
	}
	return n
}
