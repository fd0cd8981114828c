package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"ckadrill/sim/kernel"
)

// join adds a machine's member to the cluster as kubeadm does: as a learner, which is promoted when it has caught up.
func (m *member) join(by *member, others ...*member) {
	t := m.c.t
	t.Helper()
	by.client(func(ctx context.Context, c *clientv3.Client) {
		r, err := c.MemberAddAsLearner(ctx, []string{m.peerURL()})
		if err != nil {
			t.Fatalf("add %s: %v", m.name, err)
		}
		m.start(m.argv(initial(append(others, m)...), "existing"))
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			if _, err = c.MemberPromote(ctx, r.Member.ID); !errors.Is(err, rpctypes.ErrMemberLearnerNotReady) {
				break
			}
		}
		if err != nil {
			t.Fatalf("promote %s: %v", m.name, err)
		}
	})
}

func (m *member) id() uint64 { return m.server().Status().Header.MemberId }

// members is a member's list, as text.
func (m *member) members() string {
	var l []string
	m.client(func(ctx context.Context, c *clientv3.Client) {
		r, err := c.MemberList(ctx)
		if err != nil {
			m.c.t.Error(err)
			return
		}
		for _, x := range r.Members {
			l = append(l, fmt.Sprintf("%s %v %v", x.Name, x.PeerURLs, x.IsLearner))
		}
	})
	return strings.Join(l, "; ")
}

func TestAClusterGrowsFromOneMember(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		a, b, d := c.m[0], c.m[1], c.m[2]
		a.start(a.argv(initial(a), "new"))
		time.Sleep(3 * time.Second)
		for i := range 50 {
			if err := a.put(fmt.Sprint("k", i), "v"); err != nil {
				t.Fatal(err)
			}
		}
		before := a.status()
		var events []string
		a.as(func(p *kernel.Process) { // one that was connected before goes on
			cl, err := Dial(p.Context(), p, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			watch := cl.Watch(p.Context(), "w", clientv3.WithPrefix())
			time.Sleep(time.Millisecond)
			if _, err := cl.Put(p.Context(), "w1", "x"); err != nil {
				t.Error(err)
			}
			b.join(a, a)
			if s := a.status(); s.RaftTerm != before.RaftTerm || s.Leader != a.id() || s.RaftIndex <= before.RaftIndex || s.RaftIndex > before.RaftIndex+10 {
				t.Errorf("%v, before %v", s, before)
			}
			time.Sleep(6 * time.Second)
			d.join(b, a, b)
			if _, err := cl.Put(p.Context(), "w2", "x"); err != nil {
				t.Error(err)
			}
			for late := time.After(10 * time.Second); len(events) < 2; {
				select {
				case r := <-watch:
					for _, e := range r.Events {
						events = append(events, string(e.Kv.Key))
					}
				case <-late:
					t.Fatal("no more events")
				}
			}
		})
		if strings.Join(events, " ") != "w1 w2" {
			t.Error(events)
		}
		time.Sleep(5 * time.Second)
		c.equal()
		for _, m := range c.m {
			if v, err := m.get("k49"); v != "v" {
				t.Errorf("%s: %q %v", m.name, v, err)
			}
			if l := m.members(); strings.Count(l, "false") != 3 || !strings.Contains(l, "cka-cp3 [https://192.168.122.13:2380]") {
				t.Error(l)
			}
		}
		a.kill()
		time.Sleep(3 * time.Second)
		if err := d.put("without", "the first"); err != nil {
			t.Error(err)
		}
		a.start(a.argv(initial(a), "new"))
		time.Sleep(3 * time.Second)
		c.equal()
	})
}

func TestALearnerServesLittle(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		a, b := c.m[0], c.m[1]
		a.start(a.argv(initial(a), "new"))
		time.Sleep(3 * time.Second)
		a.client(func(ctx context.Context, cl *clientv3.Client) {
			r, err := cl.MemberAddAsLearner(ctx, []string{b.peerURL()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := cl.MemberPromote(ctx, r.Member.ID); !errors.Is(err, rpctypes.ErrMemberLearnerNotReady) {
				t.Errorf("promoted before it was started: %v", err)
			}
			if _, err := cl.MemberAddAsLearner(ctx, []string{"https://192.168.122.19:2380"}); !errors.Is(err, rpctypes.ErrTooManyLearners) {
				t.Errorf("a second learner: %v", err)
			}
			time.Sleep(time.Second) // ids depend on the second
			if _, err := cl.MemberAdd(ctx, []string{b.peerURL()}); !errors.Is(err, rpctypes.ErrPeerURLExist) {
				t.Errorf("the same again: %v", err)
			}
			if _, err := cl.Put(ctx, "k", "v"); err != nil {
				t.Errorf("a learner that is not started must not matter: %v", err)
			}
		})
		b.start(b.argv(initial(a, b), "existing"))
		time.Sleep(3 * time.Second)
		if s := b.status(); !s.IsLearner || s.Leader != a.id() {
			t.Errorf("%v", s)
		}
		if code, body := b.url("/readyz"); code != 503 || !strings.Contains(body, "[-]non_learner failed: not supported for learner") {
			t.Errorf("%d %s", code, body)
		}
		b.as(func(p *kernel.Process) {
			ctx, cancel := context.WithTimeout(p.Context(), 5*time.Second)
			defer cancel()
			cl, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: clientTLS(""), Context: ctx, DialOptions: dialer(p)})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if _, err := cl.Put(ctx, "x", "y"); err == nil || !strings.Contains(err.Error(), "etcdserver: rpc not supported for learner") {
				t.Errorf("a write: %v", err)
			}
			if r, err := cl.Get(ctx, "k", clientv3.WithSerializable()); err != nil || len(r.Kvs) != 1 {
				t.Errorf("a serializable read: %v %v", r, err)
			}
		})
	})
}

func TestAMemberIsRemovedAndComesBack(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		gone := c.followers()[0]
		by := c.leader()
		old := gone.id()
		by.client(func(ctx context.Context, cl *clientv3.Client) {
			if _, err := cl.MemberRemove(ctx, 4711); !errors.Is(err, rpctypes.ErrMemberNotFound) {
				t.Errorf("a stranger: %v", err)
			}
			if _, err := cl.MemberRemove(ctx, old); err != nil {
				t.Fatal(err)
			}
		})
		time.Sleep(3 * time.Second)
		if gone.p.Alive() {
			t.Fatal("the removed member goes on")
		}
		gone.mustSay("server error", "the member has been permanently removed from the cluster")
		gone.mustSay("data-dir used by this member must be removed")
		gone.start(gone.argv(initial(c.m...), "new"))
		time.Sleep(3 * time.Second)
		if gone.p.Alive() {
			t.Fatal("the removed member runs again")
		}
		by.mustSay("rejected stream from remote peer because it was removed", fmt.Sprintf("%x", old))
		// with an empty data directory, but without having been added
		gone.files.RemoveAll("/var/lib/etcd/member")
		gone.start(gone.argv(initial(c.m...), "existing"))
		time.Sleep(3 * time.Second)
		if gone.p.Alive() {
			t.Error("it joined without having been added")
		}
		gone.mustSay("discovery failed", "error validating peerURLs", "member count is unequal")
		time.Sleep(6 * time.Second)
		var others []*member
		for _, m := range c.m {
			if m != gone {
				others = append(others, m)
			}
		}
		gone.join(by, others...)
		time.Sleep(2 * time.Second)
		c.equal()
		if gone.id() == old {
			t.Error("it has its old id")
		}
		if n := len(gone.server().members()); n != 3 {
			t.Errorf("%d members", n)
		}
	})
}

func TestAQuorumIsProtected(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		lead := c.leader()
		f := c.followers()
		dead, id := f[0], f[0].id()
		dead.kill()
		time.Sleep(time.Second)
		lead.client(func(ctx context.Context, cl *clientv3.Client) {
			if _, err := cl.MemberRemove(ctx, f[1].id()); !errors.Is(err, rpctypes.ErrUnhealthy) {
				t.Errorf("one of the two that are left: %v", err)
			}
			if _, err := cl.MemberAdd(ctx, []string{"https://192.168.122.19:2380"}); !errors.Is(err, rpctypes.ErrUnhealthy) {
				t.Errorf("a fourth: %v", err)
			}
			if _, err := cl.MemberRemove(ctx, id); err != nil {
				t.Errorf("the dead one: %v", err)
			}
		})
		lead.mustSay("rejecting member remove request; local member has not been connected to all peers")
		if l := lead.members(); strings.Contains(l, dead.name) {
			t.Error(l)
		}
	})
}

func TestASecondVoterThatIsNotStartedCostsTheQuorum(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		a, b := c.m[0], c.m[1]
		a.start(a.argv(initial(a), "new"))
		time.Sleep(3 * time.Second)
		a.client(func(ctx context.Context, cl *clientv3.Client) {
			if _, err := cl.MemberAdd(ctx, []string{b.peerURL()}); err != nil {
				t.Fatal(err)
			}
		})
		time.Sleep(3 * time.Second)
		if s := a.status(); s.Leader != 0 {
			t.Errorf("%v", s)
		}
		b.start(b.argv(initial(a, b), "existing"))
		time.Sleep(4 * time.Second)
		if err := b.put("k", "v"); err != nil {
			t.Error(err)
		}
		c.equal()
	})
}

func TestADataDirectoryIsLost(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		m := c.followers()[0]
		m.kill()
		m.files.RemoveAll("/var/lib/etcd/member")
		m.start(m.argv(initial(c.m...), "new"))
		time.Sleep(2 * time.Second)
		if m.p.Alive() || m.p.Wait().Code != 1 {
			t.Errorf("it runs, or ended with %v", m.p.Wait())
		}
		m.mustSay("discovery failed", "has already been bootstrapped")
		// told that the cluster exists, it starts without its log: the leader speaks of entries that it once had
		m.start(m.argv(initial(c.m...), "existing"))
		time.Sleep(3 * time.Second)
		if m.p.Alive() || m.p.Wait().Code != 2 {
			t.Errorf("it runs, or ended with %v", m.p.Wait())
		}
		m.mustSay("is out of range [lastIndex(0)]. Was the raft log corrupted, truncated, or lost?")
		if err := c.leader().put("k", "v"); err != nil {
			t.Error(err)
		}
	})
}

func TestTheLeaderIsMoved(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		old := c.leader()
		to := c.followers()[1]
		c.followers()[0].client(func(ctx context.Context, cl *clientv3.Client) {
			if _, err := cl.MoveLeader(ctx, to.id()); !errors.Is(err, rpctypes.ErrNotLeader) {
				t.Errorf("a follower moved the leader: %v", err)
			}
		})
		old.client(func(ctx context.Context, cl *clientv3.Client) {
			if _, err := cl.MoveLeader(ctx, to.id()); err != nil {
				t.Error(err)
			}
		})
		if c.leader() != to {
			t.Errorf("%s leads", c.leader().name)
		}
		old.mustSay("leadership transfer finished")
		to.p.Signal(kernel.SIGTERM) // one that ends in peace hands over
		to.p.Wait()
		if c.leader() == to {
			t.Error("it leads on")
		}
		to.mustSay("leadership transfer finished")
		to.mustSay("stopped remote peer")
		to.mustSay("closed etcd server")
		for _, m := range c.followers() {
			if m.said("is starting a new election", "at term 4") {
				t.Errorf("%s was surprised", m.name)
			}
		}
	})
}

func TestOneMemberGoesOnAlone(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		m := c.leader()
		m.put("k", "v")
		for _, o := range c.m {
			o.kill()
		}
		m.start(m.argv(initial(c.m...), "new", "--force-new-cluster"))
		time.Sleep(4 * time.Second)
		if v, err := m.get("k"); v != "v" {
			t.Errorf("%q %v", v, err)
		}
		if l := m.members(); strings.Count(l, "cka-cp") != 1 {
			t.Error(l)
		}
		m.mustSay("forcing restart member")
		m.kill()
		m.start(m.argv(initial(m), "new"))
		time.Sleep(4 * time.Second)
		if err := m.put("k", "w"); err != nil {
			t.Error(err)
		}
	})
}

func TestLeasesAndWatchesThroughAnyMember(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		a, b := c.followers()[0], c.followers()[1]
		a.as(func(p *kernel.Process) {
			cl, err := Dial(p.Context(), p, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			ctx := p.Context()
			watch := cl.Watch(ctx, "leased")
			time.Sleep(time.Millisecond)
			l, err := cl.Grant(ctx, 10)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			b.client(func(ctx context.Context, o *clientv3.Client) {
				if _, err := o.Put(ctx, "leased", "x", clientv3.WithLease(l.ID)); err != nil {
					t.Error(err)
				}
			})
			if e := <-watch; len(e.Events) != 1 || e.Events[0].Type != clientv3.EventTypePut {
				t.Errorf("%v", e)
			}
			time.Sleep(8 * time.Second)
			if r, err := cl.KeepAliveOnce(ctx, l.ID); err != nil || r.TTL != 10 {
				t.Errorf("%v %v", r, err)
			}
			if r, err := cl.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys()); err != nil || r.TTL < 9 || len(r.Keys) != 1 {
				t.Errorf("%v %v", r, err)
			}
			if r, err := cl.TimeToLive(ctx, 4711); err != nil || r.TTL != -1 {
				t.Errorf("%v %v", r, err)
			}
			if e := <-watch; len(e.Events) != 1 || e.Events[0].Type != clientv3.EventTypeDelete {
				t.Errorf("%v", e)
			}
			if d := time.Since(began); d < 18*time.Second || d > 19*time.Second {
				t.Errorf("it expired after %v", d)
			}
			// a new leader gives a lease its whole time again
			if l, err = cl.Grant(ctx, 10); err != nil {
				t.Fatal(err)
			}
			cl.Put(ctx, "leased", "y", clientv3.WithLease(l.ID))
			<-watch
			time.Sleep(8 * time.Second)
			began = time.Now()
			c.leader().kill()
			if e := <-watch; len(e.Events) != 1 || e.Events[0].Type != clientv3.EventTypeDelete {
				t.Errorf("%v", e)
			}
			if d := time.Since(began); d < 11*time.Second || d > 14*time.Second {
				t.Errorf("it expired after %v", d)
			}
		})
		time.Sleep(time.Second)
		c.equal()
	})
}
