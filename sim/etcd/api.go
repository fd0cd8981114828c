package etcd

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
)

// A server's API is here, behind gRPC and behind the clients that call it directly. The only member of its cluster writes to
// its store at once. One of several has the cluster agree first.

// several is the server's replica, nil if it is the only member of its cluster.
func (srv *Server) several() *replica { return srv.replica.Load() }

// agreed has a cluster of several agree on a request that was checked.
func agreed[R any](ctx context.Context, srv *Server, check error, request *pb.InternalRaftRequest) (res R, err error) {
	if check != nil {
		return res, check
	}
	rep := srv.several()
	if rep == nil { // the cluster grows in this moment
		srv.growing.Lock()
		rep = srv.several()
		srv.growing.Unlock()
	}
	if rep == nil { // it could not grow
		return res, rpctypes.ErrGRPCNoLeader
	}
	x, err := rep.request(ctx, request)
	if err != nil {
		return res, err
	}
	res, _ = x.(R)
	return res, nil
}

// current waits until a read sees all that was agreed on before.
func (srv *Server) current(ctx context.Context) error {
	if rep := srv.several(); rep != nil {
		return rep.linearizable(ctx)
	}
	return nil
}

// Range reads keys.
func (srv *Server) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if srv.several() != nil && !r.Serializable {
		if err := checkRange(r); err != nil {
			return nil, err
		}
		if err := srv.current(ctx); err != nil {
			return nil, err
		}
	}
	return srv.store.Range(r)
}

// Put sets a key.
func (srv *Server) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if res, err := srv.store.Put(r); !errors.Is(err, errReplicated) {
		return res, err
	}
	return agreed[*pb.PutResponse](ctx, srv, srv.roomInCluster(ctx, r), &pb.InternalRaftRequest{Put: r})
}

// DeleteRange deletes keys.
func (srv *Server) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if res, err := srv.store.DeleteRange(r); !errors.Is(err, errReplicated) {
		return res, err
	}
	return agreed[*pb.DeleteRangeResponse](ctx, srv, nil, &pb.InternalRaftRequest{DeleteRange: r})
}

// Txn runs a transaction.
func (srv *Server) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if srv.several() == nil {
		if res, err := srv.store.Txn(r); !errors.Is(err, errReplicated) {
			return res, err
		}
	}
	err := validTxn(r)
	if err == nil && !writes(r) {
		if !serializable(r) {
			if err := srv.current(ctx); err != nil {
				return nil, err
			}
		}
		return srv.store.Txn(r)
	}
	if err == nil {
		err = srv.roomInCluster(ctx, r)
	}
	return agreed[*pb.TxnResponse](ctx, srv, err, &pb.InternalRaftRequest{Txn: r})
}

// serializable says whether every read of a transaction may be of the member's own state.
func serializable(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if q := op.GetRequestRange(); q == nil || !q.Serializable {
				return false
			}
		}
	}
	return true
}

// Compact makes old revisions unreadable.
func (srv *Server) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	res, err := srv.store.Compact(r)
	if err == nil {
		srv.compacted(r.Revision)
	}
	if !errors.Is(err, errReplicated) {
		return res, err
	}
	return agreed[*pb.CompactionResponse](ctx, srv, nil, &pb.InternalRaftRequest{Compaction: r})
}

// compacted says that a compaction is done.
func (srv *Server) compacted(rev int64) {
	srv.log.info("mvcc/kvstore_compaction.go:72", "finished scheduled compaction", "compact-revision", rev, "took", "1ms")
}

// roomInCluster refuses what has no place in the database of this member, and raises the alarm if that is new.
func (srv *Server) roomInCluster(ctx context.Context, r sized) error {
	if r.Size() > srv.maxRequestBytes() {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	s := srv.store
	s.mu.RLock()
	full, over := s.meta.alarmed(pb.AlarmType_NOSPACE), s.over(r, srv.quota())
	s.mu.RUnlock()
	switch {
	case full:
		return rpctypes.ErrGRPCNoSpace
	case over:
		srv.Alarm(ctx, &pb.AlarmRequest{MemberID: s.Header().MemberId, Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE})
		return rpctypes.ErrGRPCNoSpace
	}
	return nil
}

// Alarm lists, raises or disarms alarms.
func (srv *Server) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if res, err := srv.store.alarmAlone(r); !errors.Is(err, errReplicated) {
		return res, err
	}
	return agreed[*pb.AlarmResponse](ctx, srv, nil, &pb.InternalRaftRequest{Alarm: r})
}

// leader is the leader's id, 0 if the member knows of none.
func (srv *Server) leader() uint64 {
	if rep := srv.several(); rep != nil {
		return rep.lead.Load()
	}
	return srv.store.Header().MemberId
}

// learner says whether the member has no vote.
func (srv *Server) learner() bool {
	rep := srv.several()
	if rep == nil {
		return false
	}
	m := rep.cl.Member(rep.id())
	return m != nil && m.IsLearner
}

// members are the cluster's.
func (srv *Server) members() []*pb.Member {
	if rep := srv.several(); rep != nil {
		return protoMembers(rep.cl.Members())
	}
	srv.store.mu.RLock()
	defer srv.store.mu.RUnlock()
	return srv.store.membersPB()
}

// header describes the member to who changes or lists members: without a revision.
func (srv *Server) header() *pb.ResponseHeader {
	h := srv.store.Header()
	h.Revision = 0
	return h
}

// MemberList lists the members.
func (srv *Server) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := srv.current(ctx); err != nil {
			return nil, err
		}
	}
	return &pb.MemberListResponse{Header: srv.header(), Members: srv.members()}, nil
}

// MemberAdd adds a member, which is started afterwards.
func (srv *Server) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	urls, err := types.NewURLs(r.PeerURLs)
	if err != nil {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	rep, err := srv.grow(r.PeerURLs)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	m := membership.NewMember("", urls, "", &now)
	if r.IsLearner {
		m = membership.NewMemberAsLearner("", urls, "", &now)
	}
	l, err := rep.addMember(ctx, m)
	if err != nil {
		return nil, membershipError(err)
	}
	return &pb.MemberAddResponse{Header: srv.header(), Member: &pb.Member{ID: uint64(m.ID), PeerURLs: m.PeerURLs, IsLearner: m.IsLearner}, Members: protoMembers(l)}, nil
}

// MemberRemove removes a member.
func (srv *Server) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	rep := srv.several()
	switch {
	case rep == nil && r.ID != srv.store.Header().MemberId:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case rep == nil:
		return nil, rpctypes.ErrGRPCMemberNotEnoughStarted
	}
	l, err := rep.removeMember(ctx, types.ID(r.ID))
	if err != nil {
		return nil, membershipError(err)
	}
	return &pb.MemberRemoveResponse{Header: srv.header(), Members: protoMembers(l)}, nil
}

// MemberUpdate changes a member's peer URLs.
func (srv *Server) MemberUpdate(ctx context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	rep := srv.several()
	if rep == nil {
		if err := srv.store.updateSelf(r); err != nil {
			return nil, err
		}
		return &pb.MemberUpdateResponse{Header: srv.header(), Members: srv.members()}, nil
	}
	l, err := rep.updateMember(ctx, types.ID(r.ID), r.PeerURLs)
	if err != nil {
		return nil, membershipError(err)
	}
	return &pb.MemberUpdateResponse{Header: srv.header(), Members: protoMembers(l)}, nil
}

// MemberPromote makes a learner a voter.
func (srv *Server) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	rep := srv.several()
	switch {
	case rep == nil && r.ID != srv.store.Header().MemberId:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case rep == nil:
		return nil, rpctypes.ErrGRPCMemberNotLearner
	}
	l, err := rep.promoteMember(ctx, types.ID(r.ID))
	if err != nil {
		return nil, membershipError(err)
	}
	return &pb.MemberPromoteResponse{Header: srv.header(), Members: protoMembers(l)}, nil
}

// MoveLeader makes another member the leader.
func (srv *Server) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	if srv.leader() != srv.store.Header().MemberId {
		return nil, rpctypes.ErrGRPCNotLeader
	}
	if rep := srv.several(); rep != nil {
		if err := rep.moveLeader(ctx, types.ID(r.TargetID)); err != nil {
			return nil, err
		}
	} else if r.TargetID != srv.store.Header().MemberId {
		return nil, rpctypes.ErrGRPCBadLeaderTransferee
	}
	return &pb.MoveLeaderResponse{Header: srv.store.Header()}, nil
}

// Status describes the member and what it knows of its cluster.
func (srv *Server) Status() *pb.StatusResponse {
	s := srv.store
	file, inUse := s.Size()
	s.mu.RLock()
	defer s.mu.RUnlock()
	res := &pb.StatusResponse{Header: s.header(), Version: Version, DbSize: file, DbSizeInUse: inUse, Leader: s.meta.MemberID,
		RaftTerm: s.meta.Term, RaftIndex: s.applied(), RaftAppliedIndex: s.applied(), StorageVersion: storageVersion, DbSizeQuota: srv.quota(), DowngradeInfo: &pb.DowngradeInfo{}}
	if s.meta.ClusterVersion != clusterVersion {
		res.StorageVersion = oldStorageVersion
	}
	if rep := srv.several(); rep != nil {
		res.Leader, res.RaftIndex = rep.lead.Load(), max(rep.committed.Load(), res.RaftAppliedIndex)
		m := rep.cl.Member(rep.id())
		res.IsLearner = m != nil && m.IsLearner
	}
	if res.Leader == raft.None {
		res.Errors = append(res.Errors, rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader))
	}
	for _, a := range s.meta.Alarms {
		res.Errors = append(res.Errors, (&pb.AlarmMember{MemberID: a.Member, Alarm: a.Type}).String())
	}
	return res
}
