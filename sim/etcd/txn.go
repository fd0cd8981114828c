package etcd

import (
	"bytes"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Txn evaluates the comparisons and runs one of the two lists of operations; all that they write has one revision.
func (s *Store) Txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := validTxn(r); err != nil {
		return nil, err
	}
	if !writes(r) {
		s.mu.RLock()
		defer s.mu.RUnlock()
	} else {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.alone(); err != nil {
			return nil, err
		}
		if err := s.room(r); err != nil {
			return nil, err
		}
	}
	return s.txn(r)
}

func (s *Store) txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	c := s.begin()
	path := s.choose(r)
	if err := s.canTxn(path); err != nil {
		return nil, err
	}
	res := c.txn(path)
	c.commit()
	res.Header = s.header()
	return res, nil
}

func writes(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			switch q := op.Request.(type) {
			case *pb.RequestOp_RequestPut, *pb.RequestOp_RequestDeleteRange:
				return true
			case *pb.RequestOp_RequestTxn:
				if writes(q.RequestTxn) {
					return true
				}
			}
		}
	}
	return false
}

// chosen is a transaction with every comparison evaluated, its own and those of the transactions inside it: etcd evaluates
// all of them before the first write.
type chosen struct {
	succeeded bool
	ops       []*pb.RequestOp
	inner     map[int]*chosen
}

func (s *Store) choose(r *pb.TxnRequest) *chosen {
	c := &chosen{succeeded: true, ops: r.Success, inner: map[int]*chosen{}}
	for _, x := range r.Compare {
		if !s.holds(x) {
			c.succeeded, c.ops = false, r.Failure
			break
		}
	}
	for i, op := range c.ops {
		if t := op.GetRequestTxn(); t != nil {
			c.inner[i] = s.choose(t)
		}
	}
	return c
}

// holds evaluates a comparison. A missing key compares as a zero one, but its value equals nothing.
func (s *Store) holds(c *pb.Compare) bool {
	found, all := false, true
	s.ascend(c.Key, c.RangeEnd, func(e *entry) bool {
		if kv := e.live(); kv != nil {
			found = true
			all = all && compare(c, kv)
		}
		return all
	})
	if !found {
		return c.Target != pb.Compare_VALUE && compare(c, &mvccpb.KeyValue{})
	}
	return all
}

func compare(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var n int64
	switch c.Target {
	case pb.Compare_VALUE:
		n = int64(bytes.Compare(kv.Value, c.GetValue()))
	case pb.Compare_CREATE:
		n = kv.CreateRevision - c.GetCreateRevision()
	case pb.Compare_MOD:
		n = kv.ModRevision - c.GetModRevision()
	case pb.Compare_VERSION:
		n = kv.Version - c.GetVersion()
	case pb.Compare_LEASE:
		n = kv.Lease - c.GetLease()
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return n == 0
	case pb.Compare_NOT_EQUAL:
		return n != 0
	case pb.Compare_GREATER:
		return n > 0
	case pb.Compare_LESS:
		return n < 0
	}
	return true
}

func (s *Store) canTxn(c *chosen) error {
	for i, op := range c.ops {
		var err error
		switch q := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			err = s.canRead(q.RequestRange.Revision, s.rev)
		case *pb.RequestOp_RequestPut:
			err = s.canPut(q.RequestPut)
		case *pb.RequestOp_RequestTxn:
			err = s.canTxn(c.inner[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *change) txn(path *chosen) *pb.TxnResponse {
	res := &pb.TxnResponse{Succeeded: path.succeeded, Header: &pb.ResponseHeader{}, Responses: make([]*pb.ResponseOp, 0, len(path.ops))}
	for i, op := range path.ops {
		o := &pb.ResponseOp{}
		switch q := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			r := c.s.read(q.RequestRange, c.current())
			r.Header = &pb.ResponseHeader{Revision: c.current()}
			o.Response = &pb.ResponseOp_ResponseRange{ResponseRange: r}
		case *pb.RequestOp_RequestPut:
			old := c.put(q.RequestPut)
			r := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: c.rev}}
			if q.RequestPut.PrevKv {
				r.PrevKv = old
			}
			o.Response = &pb.ResponseOp_ResponsePut{ResponsePut: r}
		case *pb.RequestOp_RequestDeleteRange:
			gone := c.delete(q.RequestDeleteRange.Key, q.RequestDeleteRange.RangeEnd)
			r := &pb.DeleteRangeResponse{Header: &pb.ResponseHeader{Revision: c.current()}, Deleted: int64(len(gone))}
			if q.RequestDeleteRange.PrevKv {
				r.PrevKvs = gone
			}
			o.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: r}
		case *pb.RequestOp_RequestTxn:
			r := c.txn(path.inner[i])
			r.Header.Revision = c.current()
			o.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: r}
		}
		res.Responses = append(res.Responses, o)
	}
	return res
}

// validTxn is what a request can be told without looking into the store.
func validTxn(r *pb.TxnRequest) error {
	if err := checkTxn(r, DefaultMaxTxnOps); err != nil {
		return err
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if _, _, err := intervals(ops); err != nil {
			return err
		}
	}
	return nil
}

func checkTxn(r *pb.TxnRequest, maxOps int) error {
	n := max(len(r.Compare), len(r.Success), len(r.Failure))
	if n > maxOps {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			var err error
			switch q := op.Request.(type) {
			case *pb.RequestOp_RequestRange:
				err = checkRange(q.RequestRange)
			case *pb.RequestOp_RequestPut:
				err = checkPut(q.RequestPut)
			case *pb.RequestOp_RequestDeleteRange:
				if len(q.RequestDeleteRange.Key) == 0 {
					err = rpctypes.ErrGRPCEmptyKey
				}
			case *pb.RequestOp_RequestTxn:
				err = checkTxn(q.RequestTxn, maxOps-n)
			default:
				err = rpctypes.ErrGRPCKeyNotFound // etcd's answer to an empty operation
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// interval is a range of keys that a list of operations deletes.
type interval struct{ from, to string }

func (i interval) contains(key string) bool {
	switch i.to {
	case "":
		return key == i.from
	case "\x00":
		return key >= i.from
	}
	return key >= i.from && key < i.to
}

// intervals refuses a list of operations that writes a key twice, as v3rpc.checkIntervals does: two puts of one key, or a
// put of a key that is deleted too. It returns the puts, sorted, and the deletes of the list.
func intervals(ops []*pb.RequestOp) (puts []string, deletes []interval, err error) {
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			deletes = append(deletes, interval{string(d.Key), string(d.RangeEnd)})
		}
	}
	seen := map[string]bool{}
	add := func(key string, again bool) error {
		if seen[key] && !again {
			return rpctypes.ErrGRPCDuplicateKey
		}
		for _, d := range deletes {
			if d.contains(key) {
				return rpctypes.ErrGRPCDuplicateKey
			}
		}
		seen[key] = true
		return nil
	}
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			continue
		}
		thenPuts, thenDeletes, err := intervals(t.Success)
		if err != nil {
			return nil, nil, err
		}
		elsePuts, elseDeletes, err := intervals(t.Failure)
		if err != nil {
			return nil, nil, err
		}
		own := map[string]bool{}
		for _, k := range thenPuts {
			if err := add(k, false); err != nil {
				return nil, nil, err
			}
			own[k] = true
		}
		for _, k := range elsePuts {
			if err := add(k, own[k]); err != nil { // the two lists exclude each other
				return nil, nil, err
			}
		}
		deletes = append(append(deletes, thenDeletes...), elseDeletes...)
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			if err := add(string(p.Key), false); err != nil {
				return nil, nil, err
			}
		}
	}
	for k := range seen {
		puts = append(puts, k)
	}
	sort.Strings(puts)
	return puts, deletes, nil
}
