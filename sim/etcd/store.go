package etcd

import (
	"bytes"
	"errors"
	"sync"

	"github.com/google/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Limits of etcd 3.6 that no flag of this store's program changes per request.
const (
	// DefaultQuota is --quota-backend-bytes when it is 0, in bytes.
	DefaultQuota = 2 << 30
	// DefaultMaxTxnOps is --max-txn-ops.
	DefaultMaxTxnOps = 128
	// DefaultMaxRequestBytes is --max-request-bytes.
	DefaultMaxRequestBytes = 1.5 * 1024 * 1024
)

// entry is one key with those of its versions that are still kept, oldest first. A version without a CreateRevision is a
// tombstone: the key was deleted at its ModRevision.
type entry struct {
	key      []byte
	versions []*mvccpb.KeyValue
}

func tombstone(kv *mvccpb.KeyValue) bool { return kv.CreateRevision == 0 }

// live is the key's current version, nil if it does not exist.
func (e *entry) live() *mvccpb.KeyValue {
	if n := len(e.versions); n > 0 && !tombstone(e.versions[n-1]) {
		return e.versions[n-1]
	}
	return nil
}

// at is the key's version at a revision, nil if it did not exist then.
func (e *entry) at(rev int64) *mvccpb.KeyValue {
	for i := len(e.versions) - 1; i >= 0; i-- {
		if v := e.versions[i]; v.ModRevision <= rev {
			if tombstone(v) {
				return nil
			}
			return v
		}
	}
	return nil
}

// Store is a revisioned key-value store. Its methods that take etcd's requests return etcd's own gRPC errors. The
// KeyValues that it returns are shared between all readers and must not be changed, with one exception that the client
// library makes; equal pointers mean the same version of a key.
type Store struct {
	id      string
	version func() uint64 // stamps what a freeze must write again
	draw    func() uint64 // lease ids

	mu       sync.RWMutex
	rev      int64
	compact  int64 // reads below it answer ErrCompacted
	floor    int64 // versions are really kept from here on, so that a copy of the data directory can be opened
	tree     *btree.BTreeG[*entry]
	blocks   []*block
	watchers watcherSet
	leases   leaseSet
	size     sizes
	meta     meta
	stamp    uint64 // of meta and the numbers above
	owner    *Server
	// raft is set in a member of a cluster that has, or had, several. Such a store is written by what the cluster has agreed on
	// only, see apply.go.
	raft *replication
}

func newStore(id string, version func() uint64) *Store {
	s := &Store{id: id, version: version, rev: 1, tree: newTree()}
	s.watchers.groups = map[watchRange]*watchGroup{}
	s.leases.byID = map[int64]*lease{}
	s.meta.Term = 1
	s.size.grow()
	s.touch()
	return s
}

func newTree() *btree.BTreeG[*entry] {
	return btree.NewG(32, func(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 })
}

func (s *Store) touch() { s.stamp = s.version() }

// ID is the store's name in its [Stores].
func (s *Store) ID() string { return s.id }

// Revision is the latest revision.
func (s *Store) Revision() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rev
}

// Compacted is the revision below which reads answer that it has been compacted.
func (s *Store) Compacted() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.compact
}

// header describes the store to a client.
func (s *Store) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: s.meta.ClusterID, MemberId: s.meta.MemberID, Revision: s.rev, RaftTerm: s.meta.Term}
}

// Header describes the store to a client.
func (s *Store) Header() *pb.ResponseHeader {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.header()
}

func (s *Store) find(key []byte) *entry {
	e, _ := s.tree.Get(&entry{key: key})
	return e
}

// ascend calls f for each kept key in [key, end) with etcd's conventions: no end means the key alone, "\x00" all from key.
func (s *Store) ascend(key, end []byte, f func(*entry) bool) {
	switch {
	case len(end) == 0:
		if e := s.find(key); e != nil {
			f(e)
		}
	case len(end) == 1 && end[0] == 0:
		s.tree.AscendGreaterOrEqual(&entry{key: key}, f)
	default:
		s.tree.AscendRange(&entry{key: key}, &entry{key: end}, f)
	}
}

// change is one write transaction: everything in it happens at one revision.
type change struct {
	s   *Store
	rev int64
	kvs []*mvccpb.KeyValue
	old []*mvccpb.KeyValue
}

func (s *Store) begin() *change { return &change{s: s, rev: s.rev + 1} }

// current is the revision that a reader inside the transaction sees.
func (c *change) current() int64 {
	if len(c.kvs) > 0 {
		return c.rev
	}
	return c.rev - 1
}

func (c *change) add(e *entry, kv, old *mvccpb.KeyValue) {
	if kv.Lease != 0 || old != nil && old.Lease != 0 {
		c.s.leases.move(kv, old)
	}
	e.versions = append(e.versions, kv)
	c.kvs, c.old = append(c.kvs, kv), append(c.old, old)
	c.s.size.add(kv)
}

func (c *change) put(r *pb.PutRequest) *mvccpb.KeyValue {
	e := c.s.find(r.Key)
	if e == nil {
		e = &entry{key: bytes.Clone(r.Key)}
		c.s.tree.ReplaceOrInsert(e)
	}
	old := e.live()
	kv := &mvccpb.KeyValue{Key: e.key, Value: r.Value, ModRevision: c.rev, CreateRevision: c.rev, Version: 1, Lease: r.Lease}
	if old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
		if r.IgnoreValue {
			kv.Value = old.Value
		}
		if r.IgnoreLease {
			kv.Lease = old.Lease
		}
	}
	c.add(e, kv, old)
	return old
}

func (c *change) delete(key, end []byte) []*mvccpb.KeyValue {
	var es []*entry
	c.s.ascend(key, end, func(e *entry) bool {
		if e.live() != nil {
			es = append(es, e)
		}
		return true
	})
	var gone []*mvccpb.KeyValue
	for _, e := range es {
		old := e.live()
		gone = append(gone, old)
		c.add(e, &mvccpb.KeyValue{Key: e.key, ModRevision: c.rev}, old)
	}
	return gone
}

// commit makes the transaction's changes part of history and tells the watchers.
func (c *change) commit() {
	if len(c.kvs) == 0 {
		return
	}
	s := c.s
	s.rev = c.rev
	s.touch()
	s.append(c.kvs)
	s.watchers.notify(c)
	if s.owner != nil {
		s.owner.written()
	}
}

// errReplicated is returned by what writes to a store at once, if only the agreement of a cluster may.
var errReplicated = errors.New("etcd: the store is one of several")

// alone says whether the store may be written at once.
func (s *Store) alone() error {
	if s.raft != nil {
		return errReplicated
	}
	return nil
}

// Put sets a key.
func (s *Store) Put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := checkPut(r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alone(); err != nil {
		return nil, err
	}
	if err := s.room(r); err != nil {
		return nil, err
	}
	return s.put(r)
}

func (s *Store) put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.canPut(r); err != nil {
		return nil, err
	}
	c := s.begin()
	res := &pb.PutResponse{}
	if old := c.put(r); r.PrevKv {
		res.PrevKv = old
	}
	c.commit()
	res.Header = s.header()
	return res, nil
}

// DeleteRange deletes keys. Deleting none makes no revision.
func (s *Store) DeleteRange(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alone(); err != nil {
		return nil, err
	}
	return s.deleteRange(r), nil
}

func (s *Store) deleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	c := s.begin()
	gone := c.delete(r.Key, r.RangeEnd)
	c.commit()
	res := &pb.DeleteRangeResponse{Header: s.header(), Deleted: int64(len(gone))}
	if r.PrevKv {
		res.PrevKvs = gone
	}
	return res
}

// checkPut is what a request can be told without looking into the store.
func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

// canPut is what only the store knows.
func (s *Store) canPut(r *pb.PutRequest) error {
	if r.IgnoreValue || r.IgnoreLease {
		if e := s.find(r.Key); e == nil || e.live() == nil {
			return rpctypes.ErrGRPCKeyNotFound
		}
	}
	if r.Lease != 0 && s.leases.find(r.Lease) == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	return nil
}
