package etcd

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Range reads keys, at the latest or an older revision.
func (s *Store) Range(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := checkRange(r); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.canRead(r.Revision, s.rev); err != nil {
		return nil, err
	}
	res := s.read(r, s.rev)
	res.Header = s.header()
	return res, nil
}

func checkRange(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if _, ok := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	if _, ok := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

// canRead says whether a revision can be read when current is the latest.
func (s *Store) canRead(rev, current int64) error {
	switch {
	case rev > current:
		return rpctypes.ErrGRPCFutureRev
	case rev > 0 && rev < s.compact:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// read answers a range that has been checked. Its rules are those of etcdserver/txn.Range: everything is fetched and
// filtered after it when the request sorts or filters, and Count counts what lies in the range before any filter.
func (s *Store) read(r *pb.RangeRequest, current int64) *pb.RangeResponse {
	rev := r.Revision
	if rev <= 0 {
		rev = current
	}
	filters := r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
	order := r.SortOrder
	switch {
	case r.SortTarget == pb.RangeRequest_KEY && order == pb.RangeRequest_ASCEND:
		order = pb.RangeRequest_NONE
	case r.SortTarget != pb.RangeRequest_KEY && order == pb.RangeRequest_NONE:
		order = pb.RangeRequest_ASCEND
	}
	limit := r.Limit
	if filters || order != pb.RangeRequest_NONE {
		limit = 0
	}
	res := &pb.RangeResponse{}
	latest := rev == s.rev
	s.ascend(r.Key, r.RangeEnd, func(e *entry) bool {
		var kv *mvccpb.KeyValue
		if latest {
			kv = e.live()
		} else {
			kv = e.at(rev)
		}
		if kv == nil {
			return true
		}
		res.Count++
		if !r.CountOnly && (limit <= 0 || int64(len(res.Kvs)) <= limit) {
			res.Kvs = append(res.Kvs, kv)
		}
		return true
	})
	if filters {
		res.Kvs = slices.DeleteFunc(res.Kvs, func(kv *mvccpb.KeyValue) bool {
			return r.MaxModRevision != 0 && kv.ModRevision > r.MaxModRevision || r.MinModRevision != 0 && kv.ModRevision < r.MinModRevision ||
				r.MaxCreateRevision != 0 && kv.CreateRevision > r.MaxCreateRevision || r.MinCreateRevision != 0 && kv.CreateRevision < r.MinCreateRevision
		})
	}
	if order != pb.RangeRequest_NONE {
		slices.SortStableFunc(res.Kvs, func(a, b *mvccpb.KeyValue) int {
			n := compareBy(r.SortTarget, a, b)
			if order == pb.RangeRequest_DESCEND {
				n = -n
			}
			return n
		})
	}
	if r.Limit > 0 && int64(len(res.Kvs)) > r.Limit {
		res.Kvs, res.More = res.Kvs[:r.Limit], true
	}
	if r.KeysOnly {
		for i, kv := range res.Kvs {
			c := *kv
			c.Value = nil
			res.Kvs[i] = &c
		}
	}
	return res
}

func compareBy(target pb.RangeRequest_SortTarget, a, b *mvccpb.KeyValue) int {
	switch target {
	case pb.RangeRequest_VERSION:
		return cmp.Compare(a.Version, b.Version)
	case pb.RangeRequest_CREATE:
		return cmp.Compare(a.CreateRevision, b.CreateRevision)
	case pb.RangeRequest_MOD:
		return cmp.Compare(a.ModRevision, b.ModRevision)
	case pb.RangeRequest_VALUE:
		return bytes.Compare(a.Value, b.Value)
	}
	return bytes.Compare(a.Key, b.Key)
}
