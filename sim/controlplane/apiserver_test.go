package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	fmt.Println(log)
	fmt.Println(strings.Join(kernel.StrayLines(), "\n"))
	return nil
}
