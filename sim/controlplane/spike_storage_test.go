package controlplane

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdk8s "go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
)

// direct is etcd's client without a connection: calls go straight to the store.
type direct struct{ s *kv }

func (d direct) Range(c context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return d.s.Range(c, r)
}
func (d direct) Put(c context.Context, r *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	return d.s.Put(c, r)
}
func (d direct) DeleteRange(c context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return d.s.DeleteRange(c, r)
}
func (d direct) Txn(c context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return d.s.Txn(c, r)
}
func (d direct) Compact(c context.Context, r *pb.CompactionRequest, _ ...grpc.CallOption) (*pb.CompactionResponse, error) {
	return d.s.Compact(c, r)
}

type directLease struct{ s *kv }

func (d directLease) Grant(c context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	r, err := d.s.LeaseGrant(c, &pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return nil, err
	}
	return &clientv3.LeaseGrantResponse{ResponseHeader: r.Header, ID: clientv3.LeaseID(r.ID), TTL: r.TTL}, nil
}
func (directLease) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	panic("unused")
}
func (directLease) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	panic("unused")
}
func (directLease) Leases(context.Context) (*clientv3.LeaseLeasesResponse, error) { panic("unused") }
func (directLease) KeepAlive(context.Context, clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	panic("unused")
}
func (directLease) KeepAliveOnce(context.Context, clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	panic("unused")
}
func (directLease) Close() error { return nil }

type directWatch struct{ s *kv }

func (d directWatch) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet(key, opts...)
	w := &watchStream{ws: map[int64]*watcher{}}
	w.cond = sync.NewCond(&w.mu)
	x := &watcher{key: []byte(key), end: op.RangeBytes(), prev: true}
	out := make(chan clientv3.WatchResponse, 1)
	d.s.mu.Lock()
	w.send(&pb.WatchResponse{Header: d.s.hdr(), Created: true})
	if rev := op.Rev(); rev > 0 {
		if rev <= d.s.compacted {
			d.s.mu.Unlock()
			out <- clientv3.WatchResponse{CompactRevision: d.s.compacted, Canceled: true}
			close(out)
			return out
		}
		for i := range d.s.log {
			if e := d.s.log[i]; e.Kv.ModRevision >= rev && x.match(e.Kv.Key) {
				w.send(&pb.WatchResponse{Header: d.s.hdr(), Events: []*mvccpb.Event{&e}})
			}
		}
	}
	w.ws[0] = x
	d.s.watchers[w] = true
	d.s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		d.s.mu.Lock()
		delete(d.s.watchers, w)
		d.s.mu.Unlock()
		w.mu.Lock()
		w.done = true
		w.cond.Signal()
		w.mu.Unlock()
	})
	go func() {
		defer close(out)
		defer stop()
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
				res := clientv3.WatchResponse{Header: *r.Header, Created: r.Created}
				for _, e := range r.Events {
					res.Events = append(res.Events, (*clientv3.Event)(e))
				}
				select {
				case out <- res:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}
func (d directWatch) RequestProgress(context.Context) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	for w := range d.s.watchers {
		w.send(&pb.WatchResponse{Header: d.s.hdr()})
	}
	return nil
}
func (directWatch) Close() error { return nil }

func directClient(s *kv) *etcdk8s.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(direct{s}, c)
	c.Lease = directLease{s}
	c.Watcher = directWatch{s}
	k := &etcdk8s.Client{Client: c}
	k.Kubernetes = k
	return k
}
