package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"ckadrill/sim/kernel"
)

// inBubble runs f in a bubble with a world that holds stores.
func inBubble(t *testing.T, f func(w *kernel.World, ss *Stores)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := kernel.NewWorld(1)
		f(w, Register(w))
	})
}

func put(t testing.TB, s *Store, k, v string) int64 {
	t.Helper()
	r, err := s.Put(&pb.PutRequest{Key: []byte(k), Value: []byte(v)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func get(t testing.TB, s *Store, rev int64, k string) string {
	t.Helper()
	r, err := s.Range(&pb.RangeRequest{Key: []byte(k), Revision: rev})
	if err != nil {
		return err.Error()
	}
	if len(r.Kvs) == 0 {
		return "-"
	}
	return string(r.Kvs[0].Value)
}

func keys(kvs []*mvccpb.KeyValue) string {
	var b bytes.Buffer
	for _, kv := range kvs {
		fmt.Fprintf(&b, "%s=%s@%d/%d/%d ", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version)
	}
	return b.String()
}

func TestRevisionsAndHistory(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		s := ss.New()
		if s.Revision() != 1 {
			t.Fatalf("an empty store is at revision %d", s.Revision())
		}
		for i := 1; i <= 100; i++ {
			if rev := put(t, s, "k", fmt.Sprint(i)); rev != int64(i+1) {
				t.Fatalf("put %d has revision %d", i, rev)
			}
		}
		r, _ := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("k"), PrevKv: true})
		if r.Header.Revision != 102 || r.Deleted != 1 || string(r.PrevKvs[0].Value) != "100" {
			t.Errorf("%v", r)
		}
		if r, _ := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("k")}); r.Header.Revision != 102 || r.Deleted != 0 {
			t.Errorf("deleting nothing: %v", r)
		}
		put(t, s, "k", "anew")
		for rev, want := range map[int64]string{1: "-", 2: "1", 57: "56", 101: "100", 102: "-", 103: "anew", 0: "anew", 104: rpctypes.ErrGRPCFutureRev.Error()} {
			if got := get(t, s, rev, "k"); got != want {
				t.Errorf("at %d: %s, want %s", rev, got, want)
			}
		}
		kv, _ := s.Range(&pb.RangeRequest{Key: []byte("k")})
		if got := keys(kv.Kvs); got != "k=anew@103/103/1 " {
			t.Errorf("a key that was made again: %s", got)
		}
		if _, err := s.Compact(&pb.CompactionRequest{Revision: 60}); err != nil {
			t.Fatal(err)
		}
		for rev, want := range map[int64]string{59: rpctypes.ErrGRPCCompacted.Error(), 60: "59", 61: "60"} {
			if got := get(t, s, rev, "k"); got != want {
				t.Errorf("after compaction, at %d: %s, want %s", rev, got, want)
			}
		}
		for rev, want := range map[int64]error{60: rpctypes.ErrGRPCCompacted, 1000: rpctypes.ErrGRPCFutureRev} {
			if _, err := s.Compact(&pb.CompactionRequest{Revision: rev}); !errors.Is(err, want) {
				t.Errorf("compact %d: %v", rev, err)
			}
		}
	})
}

func TestRangeOptions(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		s := ss.New()
		for _, k := range []string{"/a", "/c", "/b", "/d", "x"} {
			put(t, s, k, "v"+k[len(k)-1:])
		}
		put(t, s, "/a", "z") // revision 7, version 2
		all := func(r *pb.RangeRequest) *pb.RangeRequest { r.Key, r.RangeEnd = []byte("/"), []byte("0"); return r }
		for _, c := range []struct {
			name string
			r    *pb.RangeRequest
			want string
			n    int64
			more bool
		}{
			{"prefix", all(&pb.RangeRequest{}), "/a=z@2/7/2 /b=vb@4/4/1 /c=vc@3/3/1 /d=vd@5/5/1 ", 4, false},
			{"limit", all(&pb.RangeRequest{Limit: 2}), "/a=z@2/7/2 /b=vb@4/4/1 ", 4, true},
			{"limit that is just enough", all(&pb.RangeRequest{Limit: 4}), "/a=z@2/7/2 /b=vb@4/4/1 /c=vc@3/3/1 /d=vd@5/5/1 ", 4, false},
			{"count only", all(&pb.RangeRequest{CountOnly: true}), "", 4, false},
			{"keys only", all(&pb.RangeRequest{KeysOnly: true, Limit: 1}), "/a=@2/7/2 ", 4, true},
			{"at an old revision", all(&pb.RangeRequest{Revision: 4}), "/a=va@2/2/1 /b=vb@4/4/1 /c=vc@3/3/1 ", 3, false},
			{"from a key", &pb.RangeRequest{Key: []byte("/d"), RangeEnd: []byte{0}}, "/d=vd@5/5/1 x=vx@6/6/1 ", 2, false},
			{"everything", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true}, "", 5, false},
			{"by modification, newest first", all(&pb.RangeRequest{SortTarget: pb.RangeRequest_MOD, SortOrder: pb.RangeRequest_DESCEND, Limit: 2}), "/a=z@2/7/2 /d=vd@5/5/1 ", 4, true},
			{"by value without an order", all(&pb.RangeRequest{SortTarget: pb.RangeRequest_VALUE, Limit: 1}), "/b=vb@4/4/1 ", 4, true},
			{"by key, descending", all(&pb.RangeRequest{SortOrder: pb.RangeRequest_DESCEND, Limit: 1}), "/d=vd@5/5/1 ", 4, true},
			{"modified since", all(&pb.RangeRequest{MinModRevision: 5}), "/a=z@2/7/2 /d=vd@5/5/1 ", 4, false},
			{"modified until", all(&pb.RangeRequest{MaxModRevision: 4, Limit: 1}), "/b=vb@4/4/1 ", 4, true},
			{"created between", all(&pb.RangeRequest{MinCreateRevision: 2, MaxCreateRevision: 3}), "/a=z@2/7/2 /c=vc@3/3/1 ", 4, false},
			{"nothing", &pb.RangeRequest{Key: []byte("nix")}, "", 0, false},
		} {
			r, err := s.Range(c.r)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if got := keys(r.Kvs); got != c.want || r.Count != c.n || r.More != c.more || r.Header.Revision != 7 {
				t.Errorf("%s:\n got %s count %d more %v revision %d\nwant %s count %d more %v", c.name, got, r.Count, r.More, r.Header.Revision, c.want, c.n, c.more)
			}
		}
		if _, err := s.Range(&pb.RangeRequest{}); !errors.Is(err, rpctypes.ErrGRPCEmptyKey) {
			t.Errorf("no key: %v", err)
		}
	})
}

func opPut(k, v string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(k), Value: []byte(v)}}}
}

func opGet(k string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(k)}}}
}

func opDelete(k, end string) *pb.RequestOp {
	r := &pb.DeleteRangeRequest{Key: []byte(k)}
	if end != "" {
		r.RangeEnd = []byte(end)
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}
}

func opTxn(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

func modIs(k string, op pb.Compare_CompareResult, rev int64) *pb.Compare {
	return &pb.Compare{Key: []byte(k), Target: pb.Compare_MOD, Result: op, TargetUnion: &pb.Compare_ModRevision{ModRevision: rev}}
}

func valueIs(k, v string) *pb.Compare {
	return &pb.Compare{Key: []byte(k), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(v)}}
}

func TestTxn(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		for _, c := range []struct {
			name string
			r    *pb.TxnRequest
			ok   bool
			err  error
			rev  int64
			want string // all keys afterwards
		}{
			{"a new key", &pb.TxnRequest{Compare: []*pb.Compare{modIs("n", pb.Compare_EQUAL, 0)}, Success: []*pb.RequestOp{opPut("n", "1")}}, true, nil, 4, "a=1@2/2/1 b=1@3/3/1 n=1@4/4/1 "},
			{"the key exists", &pb.TxnRequest{Compare: []*pb.Compare{modIs("a", pb.Compare_EQUAL, 0)}, Success: []*pb.RequestOp{opPut("a", "2")}, Failure: []*pb.RequestOp{opGet("a")}}, false, nil, 3, "a=1@2/2/1 b=1@3/3/1 "},
			{"several writes, one revision", &pb.TxnRequest{Success: []*pb.RequestOp{opPut("a", "2"), opPut("c", "1"), opDelete("b", "")}}, true, nil, 4, "a=2@2/4/2 c=1@4/4/1 "},
			{"deletes nothing", &pb.TxnRequest{Success: []*pb.RequestOp{opDelete("q", "")}}, true, nil, 3, "a=1@2/2/1 b=1@3/3/1 "},
			{"a missing key's value", &pb.TxnRequest{Compare: []*pb.Compare{valueIs("q", "")}, Success: []*pb.RequestOp{opPut("q", "")}}, false, nil, 3, "a=1@2/2/1 b=1@3/3/1 "},
			{"all of a range", &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("a"), RangeEnd: []byte("z"), Target: pb.Compare_VERSION, Result: pb.Compare_LESS, TargetUnion: &pb.Compare_Version{Version: 2}}}, Success: []*pb.RequestOp{opPut("a", "x")}}, true, nil, 4, "a=x@2/4/2 b=1@3/3/1 "},
			{"inner ones see what was before", &pb.TxnRequest{Success: []*pb.RequestOp{opPut("a", "2"), opTxn(&pb.TxnRequest{Compare: []*pb.Compare{valueIs("a", "1")}, Success: []*pb.RequestOp{opPut("in", "then")}, Failure: []*pb.RequestOp{opPut("in", "else")}})}}, true, nil, 4, "a=2@2/4/2 b=1@3/3/1 in=then@4/4/1 "},
			{"twice the same key", &pb.TxnRequest{Success: []*pb.RequestOp{opPut("a", "2"), opPut("a", "3")}}, false, rpctypes.ErrGRPCDuplicateKey, 3, ""},
			{"put and delete", &pb.TxnRequest{Success: []*pb.RequestOp{opPut("b", "2"), opDelete("a", "z")}}, false, rpctypes.ErrGRPCDuplicateKey, 3, ""},
			{"then and else may write the same", &pb.TxnRequest{Success: []*pb.RequestOp{opTxn(&pb.TxnRequest{Success: []*pb.RequestOp{opPut("k", "1")}, Failure: []*pb.RequestOp{opPut("k", "2")}})}}, true, nil, 4, "a=1@2/2/1 b=1@3/3/1 k=1@4/4/1 "},
			{"an unknown lease", &pb.TxnRequest{Success: []*pb.RequestOp{opPut("a", "2"), {Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("l"), Lease: 77}}}}}, false, rpctypes.ErrGRPCLeaseNotFound, 3, "a=1@2/2/1 b=1@3/3/1 "},
			{"too many", &pb.TxnRequest{Success: make([]*pb.RequestOp, 129)}, false, rpctypes.ErrGRPCTooManyOps, 3, ""},
			{"no key", &pb.TxnRequest{Success: []*pb.RequestOp{opPut("", "2")}}, false, rpctypes.ErrGRPCEmptyKey, 3, ""},
		} {
			s := ss.New()
			put(t, s, "a", "1")
			put(t, s, "b", "1")
			r, err := s.Txn(c.r)
			if !errors.Is(err, c.err) {
				t.Errorf("%s: error %v, want %v", c.name, err, c.err)
			}
			if err == nil && (r.Succeeded != c.ok || r.Header.Revision != c.rev) {
				t.Errorf("%s: succeeded %v at %d", c.name, r.Succeeded, r.Header.Revision)
			}
			all, _ := s.Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
			if c.want != "" && keys(all.Kvs) != c.want {
				t.Errorf("%s: %s, want %s", c.name, keys(all.Kvs), c.want)
			}
		}
	})
}

func TestTxnReadsItsOwnWrites(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		s := ss.New()
		r, err := s.Txn(&pb.TxnRequest{Success: []*pb.RequestOp{opGet("a"), opPut("a", "1"), opGet("a"), opDelete("a", ""), opGet("a")}})
		if !errors.Is(err, rpctypes.ErrGRPCDuplicateKey) {
			t.Errorf("err %v", err)
		}
		r, err = s.Txn(&pb.TxnRequest{Success: []*pb.RequestOp{opGet("a"), opPut("a", "1"), opGet("a")}})
		if err != nil {
			t.Fatal(err)
		}
		before, after := r.Responses[0].GetResponseRange(), r.Responses[2].GetResponseRange()
		if before.Count != 0 || before.Header.Revision != 1 || after.Count != 1 || after.Header.Revision != 2 {
			t.Errorf("before %v, after %v", before, after)
		}
	})
}

// collect reads a watch until it is quiet.
func collect(t *testing.T, w *Watch) string {
	t.Helper()
	var b bytes.Buffer
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		es, _, err := w.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return b.String()
		}
		if err != nil {
			return b.String() + err.Error()
		}
		for _, e := range es {
			fmt.Fprintf(&b, "%s %s=%s@%d", e.Type, e.Kv.Key, e.Kv.Value, e.Kv.ModRevision)
			if e.PrevKv != nil {
				fmt.Fprintf(&b, " was %s", e.PrevKv.Value)
			}
			b.WriteString(";")
		}
	}
}

func TestWatch(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		s := ss.New()
		put(t, s, "/a", "1")
		put(t, s, "/b", "1")
		put(t, s, "/a", "2")
		o := WatchOptions{Key: []byte("/"), End: prefixEnd([]byte("/"))}
		from := func(rev int64) WatchOptions { x := o; x.From = rev; return x }
		with := func(f func(*WatchOptions)) WatchOptions { x := o; f(&x); return x }
		for _, c := range []struct {
			name string
			o    WatchOptions
			want string
		}{
			{"from now", o, "PUT /a=3@5;DELETE /b=@6;PUT /c=1@6;"},
			{"from the past", from(3), "PUT /b=1@3;PUT /a=2@4;PUT /a=3@5;DELETE /b=@6;PUT /c=1@6;"},
			{"from the future", from(6), "DELETE /b=@6;PUT /c=1@6;"},
			{"with what was before", with(func(o *WatchOptions) { o.PrevKV, o.From = true, 2 }), "PUT /a=1@2;PUT /b=1@3;PUT /a=2@4 was 1;PUT /a=3@5 was 2;DELETE /b=@6 was 1;PUT /c=1@6;"},
			{"deletes only", with(func(o *WatchOptions) { o.NoPut = true }), "DELETE /b=@6;"},
			{"puts only, from the past", with(func(o *WatchOptions) { o.NoDelete, o.From = true, 5 }), "PUT /a=3@5;PUT /c=1@6;"},
			{"one key", WatchOptions{Key: []byte("/a")}, "PUT /a=3@5;"},
		} {
			w := s.Watch(c.o)
			defer w.Close()
			defer func() {
				if got := collect(t, w); got != c.want {
					t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
				}
			}()
		}
		put(t, s, "/a", "3")
		if _, err := s.Txn(&pb.TxnRequest{Success: []*pb.RequestOp{opDelete("/b", ""), opPut("/c", "1"), opPut("x", "1")}}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSlowWatcherReadsHistoryOrIsToldItIsGone(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		s := ss.New()
		slow, slower := s.Watch(WatchOptions{Key: []byte("k")}), s.Watch(WatchOptions{Key: []byte("k")})
		defer slow.Close()
		defer slower.Close()
		const n = 3 * watchQueue
		for i := range n {
			put(t, s, "k", fmt.Sprint(i))
		}
		if len(slow.queue) > watchQueue {
			t.Errorf("the queue grew to %d", len(slow.queue))
		}
		next := 0
		for next < n {
			es, _, err := slow.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range es {
				if string(e.Kv.Value) != fmt.Sprint(next) {
					t.Fatalf("event %d is %s", next, e.Kv.Value)
				}
				next++
			}
		}
		if rev, ok := slow.Synced(); !ok || rev != s.Revision() {
			t.Errorf("synced %v at %d", ok, rev)
		}
		if _, err := s.Compact(&pb.CompactionRequest{Revision: n}); err != nil {
			t.Fatal(err)
		}
		var gone CompactedError
		if _, _, err := slower.Next(context.Background()); !errors.As(err, &gone) || gone.Revision != n {
			t.Errorf("err %v", err)
		}
	})
}

func TestLeases(t *testing.T) {
	inBubble(t, func(w *kernel.World, ss *Stores) {
		s := ss.New()
		s.runLeases(true)
		defer s.runLeases(false)
		a, err := s.LeaseGrant(&pb.LeaseGrantRequest{TTL: 60})
		if err != nil || a.TTL != 60 {
			t.Fatal(a, err)
		}
		b, _ := s.LeaseGrant(&pb.LeaseGrantRequest{TTL: 30, ID: 7})
		if _, err := s.LeaseGrant(&pb.LeaseGrantRequest{TTL: 30, ID: 7}); !errors.Is(err, rpctypes.ErrGRPCLeaseExist) {
			t.Errorf("twice the same id: %v", err)
		}
		if short, _ := s.LeaseGrant(&pb.LeaseGrantRequest{TTL: 1}); short.TTL != 2 {
			t.Errorf("the shortest TTL is %d", short.TTL)
		}
		for k, l := range map[string]int64{"e1": a.ID, "e2": a.ID, "f": b.ID} {
			if _, err := s.Put(&pb.PutRequest{Key: []byte(k), Lease: l}); err != nil {
				t.Fatal(err)
			}
		}
		s.Put(&pb.PutRequest{Key: []byte("e2"), Lease: b.ID}) // it moves
		time.Sleep(20 * time.Second)
		if r := s.LeaseTimeToLive(&pb.LeaseTimeToLiveRequest{ID: b.ID, Keys: true}); r.TTL != 10 || r.GrantedTTL != 30 || len(r.Keys) != 2 {
			t.Errorf("%v", r)
		}
		if r := s.LeaseKeepAlive(&pb.LeaseKeepAliveRequest{ID: b.ID}); r.TTL != 30 {
			t.Errorf("%v", r)
		}
		rev := s.Revision()
		time.Sleep(29 * time.Second)
		if s.Revision() != rev {
			t.Error("something expired too early")
		}
		time.Sleep(2 * time.Second)
		if s.Revision() != rev+1 || get(t, s, 0, "f") != "-" || get(t, s, 0, "e2") != "-" || get(t, s, 0, "e1") != "" {
			t.Errorf("revision %d, was %d", s.Revision(), rev)
		}
		if r := s.LeaseTimeToLive(&pb.LeaseTimeToLiveRequest{ID: b.ID}); r.TTL != -1 {
			t.Errorf("%v", r)
		}
		// what is left survives a freeze
		all := kernel.Parts{}
		w.Freeze(kernel.NewRecorder(nil)).Apply(all)
		w2 := kernel.NewWorld(2)
		ss2 := Register(w2)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		s2 := ss2.Find(s.ID())
		s2.runLeases(true)
		defer s2.runLeases(false)
		if r := s2.LeaseTimeToLive(&pb.LeaseTimeToLiveRequest{ID: a.ID, Keys: true}); r.TTL != 9 || len(r.Keys) != 1 {
			t.Errorf("after the thaw %v", r)
		}
		time.Sleep(10 * time.Second)
		if get(t, s2, 0, "e1") != "-" {
			t.Error("the lease did not expire on its date")
		}
		if _, err := s.LeaseRevoke(&pb.LeaseRevokeRequest{ID: 4711}); !errors.Is(err, rpctypes.ErrGRPCLeaseNotFound) {
			t.Errorf("err %v", err)
		}
	})
}

// dump is all that a reader can see of a store.
func dump(t testing.TB, s *Store) string {
	var b bytes.Buffer
	for rev := max(s.Compacted(), 1); rev <= s.Revision(); rev++ {
		r, err := s.Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: rev})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d: %s\n", rev, keys(r.Kvs))
	}
	return b.String()
}

// A store behaves like a map that remembers every revision, also after compaction, and after a freeze and thaw.
func TestAgainstModel(t *testing.T) {
	inBubble(t, func(w *kernel.World, ss *Stores) {
		r := rand.New(rand.NewPCG(1, 2))
		s := ss.New()
		model := []map[string]string{{}, {}}
		for range 600 {
			next := map[string]string{}
			for k, v := range model[len(model)-1] {
				next[k] = v
			}
			k := fmt.Sprintf("k%02d", r.IntN(30))
			switch r.IntN(5) {
			case 0:
				end := fmt.Sprintf("k%02d", r.IntN(30))
				n := 0
				for x := range next {
					if x >= k && x < end {
						delete(next, x)
						n++
					}
				}
				s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(k), RangeEnd: []byte(end)})
				if n == 0 {
					continue
				}
			default:
				v := fmt.Sprint(r.IntN(1000))
				next[k] = v
				put(t, s, k, v)
			}
			model = append(model, next)
			if len(model)%150 == 0 {
				s.Compact(&pb.CompactionRequest{Revision: s.Revision() - int64(r.IntN(50))})
				if len(model)%300 == 0 {
					s.mu.Lock()
					s.prune(s.compact)
					s.mu.Unlock()
				}
			}
		}
		check := func(s *Store) {
			t.Helper()
			if s.Revision() != int64(len(model)-1) {
				t.Fatalf("revision %d, the model has %d", s.Revision(), len(model)-1)
			}
			for rev := s.Compacted(); rev <= s.Revision(); rev++ {
				x, err := s.Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: rev})
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]string{}
				for _, kv := range x.Kvs {
					got[string(kv.Key)] = string(kv.Value)
				}
				if d := cmp.Diff(model[rev], got); d != "" {
					t.Fatalf("at %d: %s", rev, d)
				}
			}
		}
		check(s)
		all := kernel.Parts{}
		rec := kernel.NewRecorder(nil)
		w.Freeze(rec).Apply(all)
		put(t, s, "last", "1")
		d := w.Freeze(rec)
		if len(d.Changed) > 4 || len(d.Removed) != 0 {
			t.Errorf("one put changed %d parts and removed %v", len(d.Changed), d.Removed)
		}
		w2 := kernel.NewWorld(1)
		ss2 := Register(w2)
		if err := w2.Thaw(all); err != nil {
			t.Fatal(err)
		}
		s2 := ss2.Find(s.ID())
		check(s2)
		h1, _ := s2.HashKV(0)
		db, err := ss.ReadDatabase(s2.Snapshot(), true)
		if err != nil {
			t.Fatal(err)
		}
		restored, err := ss.Restore(db, RestoreOptions{Name: "m", Token: "t", Members: []Member{{Name: "m", PeerURLs: []string{"http://localhost:2380"}}}})
		if err != nil {
			t.Fatal(err)
		}
		check(restored)
		if h2, _ := restored.HashKV(0); h1.Hash != h2.Hash {
			t.Errorf("hashes differ: %x %x", h1.Hash, h2.Hash)
		}
		// a copy of the past
		past := s2.Revision() - 5
		ss2.mu.Lock()
		old := s2
		ss2.mu.Unlock()
		f, err := ss2.At(old.ID(), past)
		if err != nil || f == old || f.Revision() != past {
			t.Fatalf("copy %v %v", f, err)
		}
		x, _ := f.Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
		if len(x.Kvs) != len(model[past]) {
			t.Errorf("the copy has %d keys, the model %d", len(x.Kvs), len(model[past]))
		}
	})
}

func TestQuotaRaisesAlarm(t *testing.T) {
	inBubble(t, func(_ *kernel.World, ss *Stores) {
		s := ss.New()
		big := make([]byte, 2<<20)
		if _, err := s.Put(&pb.PutRequest{Key: []byte("k"), Value: big}); !errors.Is(err, rpctypes.ErrGRPCRequestTooLarge) {
			t.Errorf("err %v", err)
		}
	})
}

func TestIDsOfTheReferenceCluster(t *testing.T) {
	for _, c := range []struct{ url, token, member, cluster string }{
		{"https://192.168.122.11:2380", "etcd-cluster", "69d968bf93159205", "17e308007bdd7917"},
		{"http://localhost:2380", "etcd-cluster", "8e9e05c52164694d", "cdf818194e3a8c32"},
	} {
		m := Member{PeerURLs: []string{c.url}, ID: MemberID([]string{c.url}, c.token)}
		if hexID(m.ID) != c.member || hexID(ClusterID([]Member{m})) != c.cluster {
			t.Errorf("%s: member %x cluster %x", c.url, m.ID, ClusterID([]Member{m}))
		}
	}
}

func FuzzReadDatabase(f *testing.F) {
	f.Add([]byte(databaseMagic + "store x\nrevision 7\n"))
	f.Add([]byte(snapshotMagic + "\x05abcdef"))
	w := kernel.NewWorld(1)
	ss := Register(w)
	s := ss.New()
	s.Put(&pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	f.Add(s.Snapshot())
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := ss.ReadDatabase(b, false); err == nil {
			ss.Restore(d, RestoreOptions{Name: "m", Members: []Member{{Name: "m", PeerURLs: []string{"http://localhost:2380"}}}})
		}
	})
}

func BenchmarkPut(b *testing.B) {
	s := Register(kernel.NewWorld(1)).New()
	v := make([]byte, 1000)
	for i := 0; b.Loop(); i++ {
		if i%10000 == 9999 {
			s.Compact(&pb.CompactionRequest{Revision: s.Revision() - 100})
		}
		put(b, s, fmt.Sprintf("/registry/pods/default/web-%d", i%3000), string(v))
	}
}

func BenchmarkRange1000(b *testing.B) {
	s := Register(kernel.NewWorld(1)).New()
	for i := range 1000 {
		put(b, s, fmt.Sprintf("/registry/pods/default/web-%04d", i), "x")
	}
	for b.Loop() {
		s.Range(&pb.RangeRequest{Key: []byte("/registry/pods/"), RangeEnd: []byte("/registry/pods0")})
	}
}

func BenchmarkWatchFanOut300(b *testing.B) {
	s := Register(kernel.NewWorld(1)).New()
	for i := range 300 {
		p := fmt.Sprintf("/registry/r%d/", i%60)
		s.Watch(WatchOptions{Key: []byte(p), End: prefixEnd([]byte(p)), PrevKV: true})
	}
	for i := 0; b.Loop(); i++ {
		put(b, s, fmt.Sprintf("/registry/r7/x%d", i%100), "v")
		if i%1000 == 0 {
			s.mu.Lock()
			for _, g := range s.watchers.order {
				for _, w := range g.ws {
					w.queue = nil
				}
			}
			s.mu.Unlock()
		}
	}
}

func BenchmarkFreezeAfterOnePut(b *testing.B) {
	w := kernel.NewWorld(1)
	s := Register(w).New()
	for i := range 1000 {
		put(b, s, fmt.Sprintf("/registry/pods/default/web-%04d", i), string(make([]byte, 1000)))
	}
	rec := kernel.NewRecorder(nil)
	w.Freeze(rec)
	for i := 0; b.Loop(); i++ {
		put(b, s, fmt.Sprintf("/registry/pods/default/web-%04d", i%1000), "v")
		w.Freeze(rec)
	}
}
