package etcd

import (
	"slices"
	"sort"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// maxLeaseTTL is etcd's largest time to live, in seconds.
const maxLeaseTTL = 9000000000

// lease is a time to live that keys can share. Its keys are deleted when it expires.
type lease struct {
	id     int64
	ttl    int64 // seconds, as granted
	expiry time.Time
	keys   map[string]bool
	// asked is when a cluster of several was last asked to revoke it.
	asked time.Time
	// gone leases have expired or were revoked. They are remembered while versions name them, for a copy of the data
	// directory that is as old as those.
	gone bool
}

func (l *lease) sortedKeys() []string {
	keys := make([]string, 0, len(l.keys))
	for k := range l.keys {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// revokeRetry is how long the revocation of an expired lease may take before it is asked for again (config.ReqTimeout).
const revokeRetry = 7 * time.Second

// due is when the lease must be revoked.
func (l *lease) due() time.Time {
	if !l.asked.IsZero() && l.asked.Add(revokeRetry).After(l.expiry) {
		return l.asked.Add(revokeRetry)
	}
	return l.expiry
}

type leaseSet struct {
	byID  map[int64]*lease
	stamp uint64
	timer *time.Timer
}

func (ls *leaseSet) find(id int64) *lease {
	if l := ls.byID[id]; l != nil && !l.gone {
		return l
	}
	return nil
}

// move takes a key from its old version's lease to the new one's.
func (ls *leaseSet) move(kv, old *mvccpb.KeyValue) {
	if old != nil && old.Lease != 0 && old.Lease != kv.Lease {
		if l := ls.byID[old.Lease]; l != nil {
			delete(l.keys, string(kv.Key))
		}
	}
	if kv.Lease != 0 {
		if l := ls.find(kv.Lease); l != nil {
			l.keys[string(kv.Key)] = true
		}
	}
}

func (ls *leaseSet) sorted() []*lease {
	l := make([]*lease, 0, len(ls.byID))
	for _, x := range ls.byID {
		l = append(l, x)
	}
	slices.SortFunc(l, func(a, b *lease) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return l
}

// forget drops the leases that are gone and that no kept version names.
func (ls *leaseSet) forget(s *Store) {
	named := map[int64]bool{}
	for _, b := range s.blocks {
		for _, kv := range b.kvs {
			named[kv.Lease] = true
		}
	}
	for id, l := range ls.byID {
		if l.gone && !named[id] {
			delete(ls.byID, id)
			ls.stamp = s.version()
		}
	}
}

// LeaseGrant makes a lease.
func (s *Store) LeaseGrant(r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if r.TTL > maxLeaseTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alone(); err != nil {
		return nil, err
	}
	if err := s.room(r); err != nil {
		return nil, err
	}
	id := r.ID
	if id == 0 {
		id = s.newLeaseID()
	}
	return s.grant(id, r.TTL)
}

// newLeaseID draws the id of a lease whose client chooses none.
func (s *Store) newLeaseID() int64 {
	for {
		if id := int64(s.draw() &^ (1 << 63)); id != 0 && s.leases.byID[id] == nil {
			return id
		}
	}
}

func (s *Store) grant(id, ttl int64) (*pb.LeaseGrantResponse, error) {
	if s.leases.find(id) != nil {
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	l := &lease{id: id, ttl: max(ttl, s.minTTL()), keys: map[string]bool{}}
	l.expiry = time.Now().Add(time.Duration(l.ttl) * time.Second)
	s.leases.byID[id] = l
	s.leases.stamp = s.version()
	s.arm()
	return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: l.ttl}, nil
}

// minTTL is the shortest time to live in seconds that etcd grants: 3/2 of the election timeout, rounded up.
func (s *Store) minTTL() int64 {
	if s.owner != nil {
		return s.owner.minTTL()
	}
	return 2
}

// LeaseRevoke ends a lease and deletes its keys.
func (s *Store) LeaseRevoke(r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alone(); err != nil {
		return nil, err
	}
	return s.revokeID(r.ID)
}

func (s *Store) revokeID(id int64) (*pb.LeaseRevokeResponse, error) {
	l := s.leases.find(id)
	if l == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.revoke(l)
	return &pb.LeaseRevokeResponse{Header: s.header()}, nil
}

func (s *Store) revoke(l *lease) {
	c := s.begin()
	for _, k := range l.sortedKeys() {
		c.delete([]byte(k), nil)
	}
	l.gone = true
	s.leases.stamp = s.version()
	c.commit()
}

// LeaseKeepAlive starts a lease's time to live anew. The TTL of an unknown lease is 0.
func (s *Store) LeaseKeepAlive(r *pb.LeaseKeepAliveRequest) *pb.LeaseKeepAliveResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &pb.LeaseKeepAliveResponse{Header: s.header(), ID: r.ID}
	if l := s.leases.find(r.ID); l != nil {
		l.expiry = time.Now().Add(time.Duration(l.ttl) * time.Second)
		s.leases.stamp = s.version()
		res.TTL = l.ttl
	}
	return res
}

// LeaseTimeToLive reports what is left of a lease; its TTL is -1 if there is no such lease.
func (s *Store) LeaseTimeToLive(r *pb.LeaseTimeToLiveRequest) *pb.LeaseTimeToLiveResponse {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.leases.find(r.ID)
	if l == nil {
		return &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, TTL: -1}
	}
	res := &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, GrantedTTL: l.ttl, TTL: int64(time.Until(l.expiry).Seconds())}
	if r.Keys {
		for _, k := range l.sortedKeys() {
			res.Keys = append(res.Keys, []byte(k))
		}
	}
	return res
}

// LeaseLeases lists the leases.
func (s *Store) LeaseLeases() *pb.LeaseLeasesResponse {
	s.mu.RLock()
	defer s.mu.RUnlock()
	res := &pb.LeaseLeasesResponse{Header: s.header()}
	for _, l := range s.leases.sorted() {
		if !l.gone {
			res.Leases = append(res.Leases, &pb.LeaseStatus{ID: l.id})
		}
	}
	return res
}

// promote gives every lease its whole time to live again, as a new leader does: it can't know what was left.
func (s *Store) promote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extendLeases(0)
}

// extendLeases is promote with some time more for each lease. The lock is held.
func (s *Store) extendLeases(more time.Duration) {
	for _, l := range s.leases.byID {
		l.expiry = time.Now().Add(time.Duration(l.ttl)*time.Second + more)
		l.asked = time.Time{}
	}
	s.leases.stamp = s.version()
}

// runLeases lets leases expire, or stops that: they only do so in a store that is served.
func (s *Store) runLeases(run bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switchLeases(run)
}

func (s *Store) switchLeases(run bool) {
	if s.leases.timer != nil {
		s.leases.timer.Stop()
		s.leases.timer = nil
	}
	if run {
		s.leases.timer = time.AfterFunc(time.Hour, s.expire)
		s.arm()
	}
}

// arm sets the timer to the next expiry. etcd looks every 500 ms; leases here expire on time.
func (s *Store) arm() {
	if s.leases.timer == nil {
		return
	}
	var next time.Time
	for _, l := range s.leases.byID {
		if due := l.due(); !l.gone && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if next.IsZero() {
		s.leases.timer.Stop()
		return
	}
	s.leases.timer.Reset(time.Until(next))
}

func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases.timer == nil {
		return
	}
	for _, l := range s.leases.sorted() {
		switch {
		case l.gone || l.due().After(time.Now()):
		case s.raft == nil:
			s.revoke(l)
		case s.owner != nil:
			l.asked = time.Now()
			s.owner.expired(l.id)
		}
	}
	s.arm()
}
