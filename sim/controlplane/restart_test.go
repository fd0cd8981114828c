package controlplane

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func init() { worldTests["TestRestartsDoNotLeak"] = restartsDoNotLeak }

// An apiserver that is killed and started again over and over leaves little behind. CKADRILL_TEST_RESTARTS sets how often.
func TestRestartsDoNotLeak(t *testing.T) { t.Log(inWorker(t)) }

func restartsDoNotLeak(w *kernel.World) error {
	n := 6
	if s := os.Getenv("CKADRILL_TEST_RESTARTS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	m := newTestMachine(w)
	m.startEtcd()
	_, admin := m.admin()
	var serving uint64
	for i := range n {
		log := &logBuffer{}
		l := newLap()
		p := m.start(log, append([]string{"kube-apiserver"}, strings.Fields(flagsAPIServer)...)...)
		if err := waitReady(admin, time.Minute); err != nil {
			return fmt.Errorf("start %d: %w\n%s", i, err, log)
		}
		var ms runtime.MemStats
		if i == 0 {
			runtime.GC()
			runtime.ReadMemStats(&ms)
			serving = ms.HeapAlloc
		}
		if i%2 == 0 {
			p.Signal(kernel.SIGKILL)
		} else {
			p.Signal(kernel.SIGTERM)
		}
		p.Wait()
		if _, err := admin.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); err == nil {
			return fmt.Errorf("a dead apiserver answers")
		}
		end := log.String()
		time.Sleep(5 * time.Minute)
		if log.String() != end {
			return fmt.Errorf("it logs after its end:\n%s", log.String()[len(end):])
		}
		fmt.Println(i, l)
		runtime.ReadMemStats(&ms)
		if file := os.Getenv("CKADRILL_TEST_STACKS"); i == n-1 && file != "" {
			b := make([]byte, 64<<20)
			os.WriteFile(file, b[:runtime.Stack(b, true)], 0o600)
			if f, err := os.Create(file + ".heap"); err == nil {
				pprof.WriteHeapProfile(f)
				f.Close()
			}
		}
		if i == n-1 && ms.HeapAlloc > serving+serving/4 { // the last one that died may still be held, no other
			return fmt.Errorf("the heap was %d MiB with one apiserver, and is %d MiB with none", serving>>20, ms.HeapAlloc>>20)
		}
	}
	return nil
}
