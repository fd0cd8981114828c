package etcd

import (
	"encoding/json"
	"fmt"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// result is what a request that the cluster has agreed on came to.
type result struct {
	res any
	err error
}

// apply applies an entry of the log that the cluster has agreed on. The replica's lock and the store's are held. What has to
// wait until raft knows that the entry has been applied is returned.
func (r *replica) apply(e raftpb.Entry) (then func()) {
	s := r.s
	if s.meta.Term != e.Term {
		s.meta.Term = e.Term
		s.touch()
	}
	switch {
	case e.Type == raftpb.EntryConfChange:
		var cc raftpb.ConfChange
		must(cc.Unmarshal(e.Data))
		connect, err := r.applyConfChange(cc)
		members := r.cl.Members()
		then = func() {
			connect()
			r.waits.trigger(cc.ID, result{members, err})
		}
	case len(e.Data) == 0: // a leader's first entry
		r.firstCommit.Notify()
		if r.leads() {
			s.extendLeases(r.electionTimeout())
			s.switchLeases(true)
		}
	default:
		then = r.applyRequest(e.Data)
	}
	s.raft.appliedTo(e.Index, s.rev, s.version)
	r.applied.Store(e.Index)
	return then
}

func (r *replica) applyRequest(data []byte) func() {
	var req pb.InternalRaftRequest
	must(req.Unmarshal(data))
	id := req.Header.ID
	wanted := r.waits.has(id)
	if !wanted && req.Txn != nil {
		req.Txn.Success, req.Txn.Failure = withoutReads(req.Txn.Success), withoutReads(req.Txn.Failure)
	}
	var x result
	switch {
	case req.ClusterVersionSet != nil:
		r.setVersion(req.ClusterVersionSet.Ver)
	case req.ClusterMemberAttrSet != nil:
		m := req.ClusterMemberAttrSet
		r.cl.UpdateAttributes(types.ID(m.Member_ID), membership.Attributes{Name: m.MemberAttributes.Name, ClientURLs: m.MemberAttributes.ClientUrls}, membership.ApplyBoth)
	default:
		x.res, x.err = r.s.apply(&req)
	}
	if !wanted {
		return nil
	}
	return func() { r.waits.trigger(id, x) }
}

// withoutReads drops from a list of operations what nobody waits for.
func withoutReads(ops []*pb.RequestOp) []*pb.RequestOp {
	l := ops[:0]
	for _, op := range ops {
		if op.GetRequestRange() == nil {
			l = append(l, op)
		}
	}
	return l
}

// apply writes what a cluster has agreed on. The lock is held.
func (s *Store) apply(r *pb.InternalRaftRequest) (any, error) {
	full := s.meta.alarmed(pb.AlarmType_NOSPACE)
	switch {
	case full && (r.Put != nil || r.LeaseGrant != nil || r.Txn != nil && puts(r.Txn)):
		return nil, rpctypes.ErrGRPCNoSpace
	case r.Put != nil:
		return s.put(r.Put)
	case r.DeleteRange != nil:
		return s.deleteRange(r.DeleteRange), nil
	case r.Txn != nil:
		return s.txn(r.Txn)
	case r.Compaction != nil:
		res, err := s.compactTo(r.Compaction)
		if err == nil && s.owner != nil {
			s.owner.compacted(r.Compaction.Revision)
		}
		return res, err
	case r.LeaseGrant != nil:
		return s.grant(r.LeaseGrant.ID, r.LeaseGrant.TTL)
	case r.LeaseRevoke != nil:
		return s.revokeID(r.LeaseRevoke.ID)
	case r.Alarm != nil:
		return s.alarm(r.Alarm), nil
	}
	return nil, fmt.Errorf("etcd: a request of another kind: %v", r)
}

// puts says whether a transaction may need room.
func puts(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if op.GetRequestPut() != nil || op.GetRequestTxn() != nil && puts(op.GetRequestTxn()) {
				return true
			}
		}
	}
	return false
}

// applyConfChange is etcdserver's: it changes raft's configuration and the list of members. connect changes the peers that are
// spoken to, which waits for those that may wait for the replica's lock.
func (r *replica) applyConfChange(cc raftpb.ConfChange) (connect func(), err error) {
	connect = func() {}
	if err := r.cl.ValidateConfigurationChange(cc, membership.ApplyBoth); err != nil {
		r.srv.log.write(line{level: "error", caller: "etcdserver/server.go:2090", msg: "Validation on configuration change failed", fields: []any{"shouldApplyV3", true, "error", err}})
		cc.NodeID = raft.None
		r.node.ApplyConfChange(cc)
		return connect, err
	}
	r.s.raft.conf = *r.node.ApplyConfChange(cc)
	id := types.ID(cc.NodeID)
	switch cc.Type {
	case raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode:
		var c membership.ConfigChangeContext
		must(json.Unmarshal(cc.Context, &c))
		if c.IsPromote {
			r.cl.PromoteMember(c.Member.ID, membership.ApplyBoth)
			break
		}
		r.cl.AddMember(&c.Member, membership.ApplyBoth)
		if id != r.id() {
			connect = func() { r.tr.AddPeer(id, c.PeerURLs) }
		}
	case raftpb.ConfChangeRemoveNode:
		r.cl.RemoveMember(id, membership.ApplyBoth)
		if id == r.id() {
			connect = r.leave
			break
		}
		connect = func() { r.tr.RemovePeer(id) }
	case raftpb.ConfChangeUpdateNode:
		var m membership.Member
		must(json.Unmarshal(cc.Context, &m))
		r.cl.UpdateRaftAttributes(m.ID, m.RaftAttributes, membership.ApplyBoth)
		if m.ID != r.id() {
			connect = func() { r.tr.UpdatePeer(m.ID, m.PeerURLs) }
		}
	}
	return connect, nil
}

// setVersion sets the version that all members understand.
func (r *replica) setVersion(v string) {
	old := r.s.meta.ClusterVersion
	r.cl.SetVersion(semver.Must(semver.NewVersion(v)), r.capabilities, membership.ApplyBoth)
	if now := r.s.meta.ClusterVersion; now != old && now == clusterVersion {
		r.srv.storageUpdated()
	}
}

// capabilities is upstream's api.UpdateCapability, which speaks once in a program and not once in a process.
func (r *replica) capabilities(_ *zap.Logger, v *semver.Version) {
	if v != nil {
		r.srv.log.info("api/capability.go:76", "enabled capabilities for version", "cluster-version", version.Cluster(v.String()))
	}
}
