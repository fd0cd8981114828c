package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// warmUp is how long before its date a thawed world begins, as in sim/worker.
const warmUp = 6 * time.Second

// thaw makes another world of a cluster's frozen state, with the same files, and lets the processes carry on that ran. The
// first world ends.
func (c *cluster) thaw() *cluster {
	t := c.t
	t.Helper()
	parts := kernel.Parts{}
	c.w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
	n := newCluster(t, 0)
	for _, m := range c.m {
		x := *m
		x.c, x.host, x.log = n, n.w.NewHost(m.name), &output{}
		n.m = append(n.m, &x)
	}
	if err := n.w.Thaw(parts); err != nil {
		t.Fatal(err)
	}
	// Where the same parts would be frozen again, nothing has changed.
	again := kernel.Parts{}
	n.w.Freeze(kernel.NewRecorder(nil)).Apply(again)
	for name, b := range parts {
		if strings.HasPrefix(name, "etcd/") && string(again[name]) != string(b) {
			t.Errorf("part %s is another after a thaw", name)
		}
	}
	running := map[string]bool{}
	for _, m := range c.m {
		running[m.name] = m.p != nil && m.p.Alive()
	}
	for _, m := range c.m {
		for _, p := range m.host.Processes.List() {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
	}
	// The bubble's clock can't be set back: the warm-up takes place after the date.
	n.w.WarmUp(time.Now().Add(warmUp))
	for i, m := range n.m {
		n.net.AddMachine(m.name, netip.MustParsePrefix(m.addr+"/24")).Attach(m.host)
		if old := c.m[i].p; running[m.name] {
			main, _ := n.w.Programs.Find("etcd")
			m.p = m.host.Processes.Start(kernel.Spec{Argv: old.Argv, Files: m.files, Net: network.Of(m.host), Stdout: m.log, Stderr: m.log, PID: old.ID(), Started: old.StartTime()}, main)
		}
	}
	time.Sleep(warmUp)
	return n
}

func TestAThawChangesNothing(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		for i := range 100 {
			if err := c.m[i%3].put(fmt.Sprint("k", i), "v"); err != nil {
				t.Fatal(err)
			}
		}
		var lease clientv3.LeaseID
		c.m[0].client(func(ctx context.Context, cl *clientv3.Client) {
			r, err := cl.Grant(ctx, 100)
			if err != nil {
				t.Fatal(err)
			}
			lease = r.ID
		})
		time.Sleep(10 * time.Second)
		lead := c.leader().name
		before := c.leader().status()
		n := c.thaw()
		defer n.end()
		for _, m := range n.m {
			if s := m.log.String(); s != "" {
				t.Errorf("%s said %s", m.name, s)
			}
			s := m.status()
			if s.Leader != before.Leader || s.RaftTerm != before.RaftTerm || s.RaftIndex != before.RaftIndex || s.RaftAppliedIndex != before.RaftAppliedIndex || s.Header.Revision != before.Header.Revision {
				t.Errorf("%s: %v, before %v", m.name, s, before)
			}
		}
		time.Sleep(3 * time.Second)
		if n.leader().name != lead {
			t.Errorf("%s leads", n.leader().name)
		}
		n.m[1].client(func(ctx context.Context, cl *clientv3.Client) {
			// the test's world was thawed when it was frozen, not some seconds before
			if r, err := cl.TimeToLive(ctx, lease); err != nil || r.TTL < 75 || r.TTL > 85 {
				t.Errorf("%v %v", r, err)
			}
		})
		for _, m := range n.m {
			if err := m.put("after/"+m.name, "x"); err != nil {
				t.Error(err)
			}
		}
		if s := n.leader().status(); s.RaftTerm != before.RaftTerm || s.RaftIndex != before.RaftIndex+3 {
			t.Errorf("%v, before %v", s, before)
		}
		n.leader().kill()
		time.Sleep(3 * time.Second)
		if err := n.leader().put("with another leader", "x"); err != nil {
			t.Error(err)
		}
		n.equal()
	})
}

func TestAThawInTheMidstOfAnElection(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		old, term := c.leader(), c.leader().status().RaftTerm
		old.kill()
		time.Sleep(700 * time.Millisecond)
		n := c.thaw()
		defer n.end()
		for _, m := range n.m {
			if m.name != old.name && m.status().RaftTerm != term {
				t.Errorf("%s elected in the warm-up", m.name)
			}
		}
		time.Sleep(1300 * time.Millisecond)
		if l := n.leader(); l.status().RaftTerm != term+1 {
			t.Errorf("%v", l.status())
		} else {
			l.mustSay("became leader at term")
		}
	})
}

func TestAThawWithoutAQuorum(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		m := c.m[0]
		c.m[1].kill()
		c.m[2].kill()
		time.Sleep(5 * time.Second)
		m.kill()
		m.start(m.argv(initial(c.m...), "new"))
		time.Sleep(10 * time.Second)
		m.mustSay("failed to publish local member to cluster through raft")
		n := c.thaw()
		defer n.end()
		m = n.m[0]
		m.as(func(p *kernel.Process) {
			ctx, cancel := context.WithTimeout(p.Context(), 3*time.Second)
			defer cancel()
			if _, err := Dial(ctx, p, []string{endpoint}, clientTLS("")); err == nil {
				t.Error("it serves clients before the cluster knows it")
			}
		})
		n.m[1].start(n.m[1].argv(initial(n.m...), "new"))
		time.Sleep(4 * time.Second)
		if err := m.put("k", "v"); err != nil {
			t.Error(err)
		}
		m.mustSay("published local member to cluster through raft")
	})
}
