package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func init() {
	worldTests["TestLeadersCarryOn"] = leadersCarryOn
	worldTests["TestLostLeaseEndsLeaders"] = lostLeaseEndsLeaders
}

// Processes that carry on after a thaw keep their leases, log nothing and announce nothing.
func TestLeadersCarryOn(t *testing.T) { t.Log(inWorker(t)) }

// Without an apiserver both leaders lose their leases and end with 1, with upstream's words.
func TestLostLeaseEndsLeaders(t *testing.T) { t.Log(inWorker(t)) }

// components starts the three programs.
func (m *testMachine) components(started time.Time) (ps []*kernel.Process, logs []*logBuffer) {
	for _, argv := range [][]string{
		append([]string{"kube-apiserver"}, strings.Fields(flagsAPIServer)...),
		append([]string{"kube-controller-manager"}, strings.Fields(flagsControllerManager)...),
		append([]string{"kube-scheduler"}, strings.Fields(flagsScheduler)...),
	} {
		log := &logBuffer{}
		ps, logs = append(ps, m.startAt(log, started, argv...)), append(logs, log)
	}
	return ps, logs
}

func leadersCarryOn(w *kernel.World) error {
	ctx := context.Background()
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	start := time.Now()
	ps, _ := m.components(time.Time{})
	if err := waitReady(admin, time.Minute); err != nil {
		return err
	}
	time.Sleep(30 * time.Second)
	if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cka-w1"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	time.Sleep(30 * time.Second)
	state := func() (string, error) {
		leases, err := admin.CoordinationV1().Leases("kube-system").List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		events, err := admin.CoreV1().Events("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for _, l := range leases.Items {
			fmt.Fprintln(&b, l.Name, l.UID, *l.Spec.HolderIdentity, l.Spec.LeaseTransitions != nil && *l.Spec.LeaseTransitions > 0)
		}
		for _, e := range events.Items {
			fmt.Fprintln(&b, e.Reason, e.Message, e.Count)
		}
		return b.String(), nil
	}
	before, err := state()
	if err != nil {
		return err
	}
	for _, p := range ps {
		p.Signal(kernel.SIGKILL)
		p.Wait()
	}
	thaw := time.Now()
	_, logs := m.components(start)
	if err := waitReady(admin, time.Minute); err != nil {
		return err
	}
	fmt.Println("serves again after", time.Since(thaw))
	time.Sleep(30 * time.Second)
	after, err := state()
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	for _, l := range logs {
		if l.String() != "" {
			return fmt.Errorf("it logs:\n%s", l)
		}
	}
	return nil
}

func lostLeaseEndsLeaders(w *kernel.World) error {
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	ps, logs := m.components(time.Time{})
	if err := waitReady(admin, time.Minute); err != nil {
		return err
	}
	time.Sleep(30 * time.Second)
	ps[0].Signal(kernel.SIGKILL)
	lost := time.Now()
	for i, words := range []string{1: `"leaderelection lost"`, 2: `"Leaderelection lost"`} {
		if i == 0 {
			continue
		}
		if s := ps[i].Wait(); s.Code != 1 || !strings.Contains(logs[i].String(), words) {
			return fmt.Errorf("%s ended with %+v after %v\n%s", ps[i].Name(), s, time.Since(lost), logs[i])
		}
		if d := time.Since(lost); d < 8*time.Second || d > 15*time.Second {
			return fmt.Errorf("%s lost its lease after %v", ps[i].Name(), d)
		}
	}
	return nil
}
