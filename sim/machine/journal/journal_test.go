package journal

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
)

func TestLinesAndFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 10, 0, 5, 123456000, time.UTC)))
		j := New(kernel.NewWorld(1), 0)
		j.Begin("8c4f3c1f0c7a4d62b3f6a1f0e2d3c4b5")
		w := j.Writer(Entry{Unit: "kubelet.service", Identifier: "kubelet", PID: 2185, Priority: Info})
		fmt.Fprint(w, "I1201 10:00:05.1 first\nsecond ")
		fmt.Fprint(w, "half\n\n<3>an error\nno end")
		w.Close()
		fmt.Fprint(w, strings.Repeat("x", LineMax+3)+"\n")
		var got []string
		for _, e := range j.After(0) {
			got = append(got, fmt.Sprint(e.Priority, " ", e.Message[:min(len(e.Message), 30)]))
		}
		want := []string{"6 I1201 10:00:05.1 first", "6 second half", "3 an error", "6 no end", "6 " + strings.Repeat("x", 30), "6 xxx"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		e := j.After(0)[0]
		for mode, want := range map[string]string{
			"short":         "Dec 01 10:00:05 cka-w1 kubelet[2185]: I1201 10:00:05.1 first",
			"short-precise": "Dec 01 10:00:05.123456 cka-w1 kubelet[2185]: I1201 10:00:05.1 first",
			"short-iso":     "2026-12-01T10:00:05+00:00 cka-w1 kubelet[2185]: I1201 10:00:05.1 first",
			"cat":           "I1201 10:00:05.1 first",
			"with-unit":     "Tue 2026-12-01 10:00:05 UTC cka-w1 kubelet.service[2185]: I1201 10:00:05.1 first",
			"export": "__CURSOR=s=8c4f3c1f0c7a4d62b3f6a1f0e2d3c4b5;i=1\n__REALTIME_TIMESTAMP=1796119205123456\n__MONOTONIC_TIMESTAMP=0\n_BOOT_ID=8c4f3c1f0c7a4d62b3f6a1f0e2d3c4b5\n_HOSTNAME=cka-w1\nPRIORITY=6\n" +
				"SYSLOG_IDENTIFIER=kubelet\n_PID=2185\n_UID=0\n_COMM=kubelet\n_TRANSPORT=stdout\n_SYSTEMD_UNIT=kubelet.service\n_SYSTEMD_CGROUP=/system.slice/kubelet.service\nMESSAGE=I1201 10:00:05.1 first\n",
		} {
			if got := e.Format(mode, "cka-w1"); got != want {
				t.Errorf("%s: %q", mode, got)
			}
		}
	})
}

func TestOldestGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(kernel.NewWorld(1), 20*(entryCost+10))
		for i := range 100 {
			j.Add(Entry{Message: fmt.Sprintf("line %05d", i)})
		}
		l := j.After(0)
		if len(l) != 20 || l[0].Message != "line 00080" || j.Size() > 20*(entryCost+10) {
			t.Errorf("%d lines from %q, %d bytes", len(l), l[0].Message, j.Size())
		}
	})
}

func TestFollowAndFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		j := New(w, 0)
		w.Hold("journal", j)
		j.Begin("a")
		for i := range 300 {
			j.Add(Entry{Message: fmt.Sprint(i)})
		}
		c := j.Changed(300)
		time.AfterFunc(time.Minute, func() { j.Add(Entry{Message: "new"}) })
		start := time.Now()
		<-c
		if time.Since(start) != time.Minute || j.After(300)[0].Message != "new" {
			t.Error("following failed")
		}
		r, all := kernel.NewRecorder(nil), kernel.Parts{}
		w.Freeze(r).Apply(all)
		j.Add(Entry{Message: "one more"})
		d := w.Freeze(r)
		if n := len(d.Changed); n > 3 { // the last block, the head, the date
			t.Errorf("one line changed %d parts", n)
		}
		d.Apply(all)
		w2 := kernel.NewWorld(1)
		j2 := New(w2, 0)
		w2.Hold("journal", j2)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(j.After(0), j2.After(0)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(j.Boots(), j2.Boots()); d != "" {
			t.Error(d)
		}
	})
}
