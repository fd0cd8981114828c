package controlplane

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// kv is a revisioned store that speaks etcd's gRPC API. History is kept as an event log since the last compaction.
type kv struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedMaintenanceServer
	mu        sync.Mutex
	rev       int64
	compacted int64
	tree      *btree.BTreeG[*mvccpb.KeyValue]
	log       []mvccpb.Event // in revision order
	watchers  map[*watchStream]bool
	leases    map[int64]*kvLease
	nextLease int64
	rpcs      int
	down      atomic.Bool
}
type kvLease struct {
	ttl  int64
	keys map[string]bool
	t    *time.Timer
}

func newKV() *kv {
	return &kv{rev: 1, watchers: map[*watchStream]bool{}, leases: map[int64]*kvLease{}, nextLease: 1000,
		tree: btree.NewG(32, func(a, b *mvccpb.KeyValue) bool { return bytes.Compare(a.Key, b.Key) < 0 })}
}
func (s *kv) hdr() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: s.rev, RaftTerm: 2}
}

func (s *kv) rng(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if r.Revision > s.rev {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	if r.Revision > 0 && r.Revision < s.compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	res := &pb.RangeResponse{Header: s.hdr()}
	add := func(k *mvccpb.KeyValue) {
		res.Count++
		if r.CountOnly || r.Limit > 0 && int64(len(res.Kvs)) >= r.Limit {
			res.More = !r.CountOnly
			return
		}
		if r.KeysOnly {
			c := *k
			c.Value = nil
			k = &c
		}
		res.Kvs = append(res.Kvs, k)
	}
	if len(r.RangeEnd) == 0 {
		if k, ok := s.tree.Get(&mvccpb.KeyValue{Key: r.Key}); ok {
			add(k)
		}
		return res, nil
	}
	it := func(k *mvccpb.KeyValue) bool { add(k); return true }
	if len(r.RangeEnd) == 1 && r.RangeEnd[0] == 0 {
		s.tree.AscendGreaterOrEqual(&mvccpb.KeyValue{Key: r.Key}, it)
	} else {
		s.tree.AscendRange(&mvccpb.KeyValue{Key: r.Key}, &mvccpb.KeyValue{Key: r.RangeEnd}, it)
	}
	return res, nil
}
func (s *kv) event(e mvccpb.Event) {
	s.log = append(s.log, e)
	for w := range s.watchers {
		w.offer(e)
	}
}
func (s *kv) put(r *pb.PutRequest) (*pb.PutResponse, error) {
	old, ok := s.tree.Get(&mvccpb.KeyValue{Key: r.Key})
	k := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, ModRevision: s.rev, CreateRevision: s.rev, Version: 1, Lease: r.Lease}
	if ok {
		k.CreateRevision, k.Version = old.CreateRevision, old.Version+1
	}
	if r.Lease != 0 {
		l := s.leases[r.Lease]
		if l == nil {
			return nil, rpctypes.ErrGRPCLeaseNotFound
		}
		l.keys[string(r.Key)] = true
	}
	s.tree.ReplaceOrInsert(k)
	s.event(mvccpb.Event{Type: mvccpb.PUT, Kv: k, PrevKv: old})
	res := &pb.PutResponse{Header: s.hdr()}
	if r.PrevKv {
		res.PrevKv = old
	}
	return res, nil
}
func (s *kv) del(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	rr, _ := s.rng(&pb.RangeRequest{Key: r.Key, RangeEnd: r.RangeEnd})
	res := &pb.DeleteRangeResponse{Header: s.hdr(), Deleted: int64(len(rr.Kvs))}
	for _, k := range rr.Kvs {
		s.tree.Delete(k)
		s.event(mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: k.Key, ModRevision: s.rev}, PrevKv: k})
		if r.PrevKv {
			res.PrevKvs = append(res.PrevKvs, k)
		}
	}
	return res, nil
}

// hang makes a call wait as a client does while nobody answers.
func (s *kv) hang(ctx context.Context) error {
	for s.down.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}

func (s *kv) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.hang(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rpcs++
	return s.rng(r)
}
func (s *kv) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rev++
	return s.put(r)
}
func (s *kv) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rev++
	return s.del(r)
}
func (s *kv) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Revision <= s.compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	s.compacted = r.Revision
	i := 0
	for i < len(s.log) && s.log[i].Kv.ModRevision <= r.Revision {
		i++
	}
	s.log = append([]mvccpb.Event(nil), s.log[i:]...)
	return &pb.CompactionResponse{Header: s.hdr()}, nil
}
func (s *kv) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.hang(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rpcs++
	ok := true
	for _, c := range r.Compare {
		k, found := s.tree.Get(&mvccpb.KeyValue{Key: c.Key})
		if !found {
			k = &mvccpb.KeyValue{}
		}
		var a, b int64
		switch c.Target {
		case pb.Compare_MOD:
			a, b = k.ModRevision, c.GetModRevision()
		case pb.Compare_VERSION:
			a, b = k.Version, c.GetVersion()
		case pb.Compare_CREATE:
			a, b = k.CreateRevision, c.GetCreateRevision()
		case pb.Compare_VALUE:
			a, b = int64(bytes.Compare(k.Value, c.GetValue())), 0
		}
		switch c.Result {
		case pb.Compare_EQUAL:
			ok = ok && a == b
		case pb.Compare_NOT_EQUAL:
			ok = ok && a != b
		case pb.Compare_GREATER:
			ok = ok && a > b
		case pb.Compare_LESS:
			ok = ok && a < b
		}
	}
	ops := r.Success
	if !ok {
		ops = r.Failure
	}
	for _, o := range ops {
		if o.GetRequestPut() != nil || o.GetRequestDeleteRange() != nil {
			s.rev++
			break
		}
	}
	res := &pb.TxnResponse{Succeeded: ok}
	for _, o := range ops {
		switch q := o.Request.(type) {
		case *pb.RequestOp_RequestRange:
			x, err := s.rng(q.RequestRange)
			if err != nil {
				return nil, err
			}
			res.Responses = append(res.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: x}})
		case *pb.RequestOp_RequestPut:
			x, err := s.put(q.RequestPut)
			if err != nil {
				return nil, err
			}
			res.Responses = append(res.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: x}})
		case *pb.RequestOp_RequestDeleteRange:
			x, _ := s.del(q.RequestDeleteRange)
			res.Responses = append(res.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: x}})
		}
	}
	res.Header = s.hdr()
	return res, nil
}

type watcher struct {
	id         int64
	key, end   []byte
	prev       bool
	noPut, noD bool
}
type watchStream struct {
	mu   sync.Mutex
	cond *sync.Cond
	ws   map[int64]*watcher
	q    []*pb.WatchResponse
	done bool
}

func (w *watcher) match(k []byte) bool {
	if len(w.end) == 0 {
		return bytes.Equal(k, w.key)
	}
	return bytes.Compare(k, w.key) >= 0 && (len(w.end) == 1 && w.end[0] == 0 || bytes.Compare(k, w.end) < 0)
}
func (w *watchStream) send(r *pb.WatchResponse) {
	w.mu.Lock()
	w.q = append(w.q, r)
	w.cond.Signal()
	w.mu.Unlock()
}
func (w *watchStream) offer(e mvccpb.Event) {
	for _, x := range w.ws {
		if x.match(e.Kv.Key) {
			ev := e
			if !x.prev {
				ev.PrevKv = nil
			}
			w.send(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: e.Kv.ModRevision}, WatchId: x.id, Events: []*mvccpb.Event{&ev}})
		}
	}
}
func (s *kv) Watch(st pb.Watch_WatchServer) error {
	w := &watchStream{ws: map[int64]*watcher{}}
	w.cond = sync.NewCond(&w.mu)
	s.mu.Lock()
	s.watchers[w] = true
	s.mu.Unlock()
	go func() {
		for {
			w.mu.Lock()
			for len(w.q) == 0 && !w.done {
				w.cond.Wait()
			}
			if w.done {
				w.mu.Unlock()
				return
			}
			q := w.q
			w.q = nil
			w.mu.Unlock()
			for _, r := range q {
				if st.Send(r) != nil {
					return
				}
			}
		}
	}()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
		w.mu.Lock()
		w.done = true
		w.cond.Signal()
		w.mu.Unlock()
	}()
	var next int64
	for {
		r, err := st.Recv()
		if err != nil {
			return nil
		}
		switch q := r.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			c := q.CreateRequest
			s.mu.Lock()
			x := &watcher{id: next, key: c.Key, end: c.RangeEnd, prev: c.PrevKv}
			next++
			w.send(&pb.WatchResponse{Header: s.hdr(), WatchId: x.id, Created: true})
			if c.StartRevision > 0 && c.StartRevision <= s.compacted {
				w.send(&pb.WatchResponse{Header: s.hdr(), WatchId: x.id, CompactRevision: s.compacted, Canceled: true})
				s.mu.Unlock()
				continue
			}
			w.ws[x.id] = x
			if c.StartRevision > 0 {
				for i := range s.log {
					if s.log[i].Kv.ModRevision >= c.StartRevision && x.match(s.log[i].Kv.Key) {
						ev := s.log[i]
						if !x.prev {
							ev.PrevKv = nil
						}
						w.send(&pb.WatchResponse{Header: s.hdr(), WatchId: x.id, Events: []*mvccpb.Event{&ev}})
					}
				}
			}
			s.mu.Unlock()
		case *pb.WatchRequest_CancelRequest:
			s.mu.Lock()
			delete(w.ws, q.CancelRequest.WatchId)
			w.send(&pb.WatchResponse{Header: s.hdr(), WatchId: q.CancelRequest.WatchId, Canceled: true})
			s.mu.Unlock()
		case *pb.WatchRequest_ProgressRequest:
			s.mu.Lock()
			w.send(&pb.WatchResponse{Header: s.hdr(), WatchId: -1})
			s.mu.Unlock()
		}
	}
}
func (s *kv) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.ID
	if id == 0 {
		s.nextLease++
		id = s.nextLease
	}
	l := &kvLease{ttl: r.TTL, keys: map[string]bool{}}
	l.t = time.AfterFunc(time.Duration(r.TTL)*time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(l.keys) > 0 {
			s.rev++
			for k := range l.keys {
				if cur, ok := s.tree.Get(&mvccpb.KeyValue{Key: []byte(k)}); ok && cur.Lease == id {
					s.del(&pb.DeleteRangeRequest{Key: []byte(k)})
				}
			}
		}
		delete(s.leases, id)
	})
	s.leases[id] = l
	return &pb.LeaseGrantResponse{Header: s.hdr(), ID: id, TTL: r.TTL}, nil
}
func (s *kv) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.StatusResponse{Header: s.hdr(), Version: "3.6.6", DbSize: 1 << 20, Leader: 1}, nil
}

// register serves the store on g.
func (s *kv) register(g *grpc.Server) {
	pb.RegisterKVServer(g, s)
	pb.RegisterWatchServer(g, s)
	pb.RegisterLeaseServer(g, s)
	pb.RegisterMaintenanceServer(g, s)
}
