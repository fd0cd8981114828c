package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ckadrill/sim/kernel"
)

// learnerReady is the part of the leader's log that a learner must have to become a voter.
const learnerReady = 0.9

// membershipErrors are the API's errors for those of package membership (v3rpc.toGRPCErrorMap).
var membershipErrors = map[error]error{
	membership.ErrIDRemoved: rpctypes.ErrGRPCMemberNotFound, membership.ErrIDNotFound: rpctypes.ErrGRPCMemberNotFound,
	membership.ErrIDExists: rpctypes.ErrGRPCMemberExist, membership.ErrPeerURLexists: rpctypes.ErrGRPCPeerURLExist,
	membership.ErrMemberNotLearner: rpctypes.ErrGRPCMemberNotLearner, membership.ErrTooManyLearners: rpctypes.ErrGRPCTooManyLearners,
}

func membershipError(err error) error {
	if e, ok := membershipErrors[err]; ok {
		return e
	}
	return err
}

// protoMembers are members as the API shows them.
func protoMembers(l []*membership.Member) []*pb.Member {
	out := make([]*pb.Member, len(l))
	for i, m := range l {
		out[i] = &pb.Member{ID: uint64(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.IsLearner}
	}
	return out
}

// others are the members but this one.
func (r *replica) others() []*membership.Member {
	var l []*membership.Member
	for _, m := range r.cl.Members() {
		if m.ID != r.id() {
			l = append(l, m)
		}
	}
	return l
}

func (r *replica) votingIDs() []types.ID {
	var l []types.ID
	for _, m := range r.cl.VotingMembers() {
		l = append(l, m.ID)
	}
	return l
}

// refuse logs why a change of the members is not proposed.
func (r *replica) refuse(caller, msg string, err error, fields ...any) error {
	r.srv.log.warn(caller, msg, append(append([]any{"local-member-id", r.id().String()}, fields...), "error", rpctypes.ErrorDesc(err))...)
	return err
}

func (r *replica) addMember(ctx context.Context, m *membership.Member) ([]*membership.Member, error) {
	if r.srv.c.strict {
		asked := []any{"requested-member-add", fmt.Sprintf("%+v", *m)}
		if !m.IsLearner && !r.cl.IsReadyToAddVotingMember() {
			return nil, r.refuse("etcdserver/server.go:1422", "rejecting member add request; not enough healthy members", rpctypes.ErrGRPCMemberNotEnoughStarted, asked...)
		}
		if l := r.cl.VotingMembers(); r.connected(time.Now().Add(-healthInterval), l) != len(l) {
			return nil, r.refuse("etcdserver/server.go:1432", "rejecting member add request; local member has not been connected to all peers, reconfigure breaks active quorum",
				rpctypes.ErrGRPCUnhealthy, asked...)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	cc := raftpb.ConfChange{Type: raftpb.ConfChangeAddNode, NodeID: uint64(m.ID), Context: b}
	if m.IsLearner {
		cc.Type = raftpb.ConfChangeAddLearnerNode
	}
	return r.configure(ctx, cc)
}

func (r *replica) removeMember(ctx context.Context, id types.ID) ([]*membership.Member, error) {
	if err := r.mayRemove(id); err != nil {
		return nil, err
	}
	return r.configure(ctx, raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode, NodeID: uint64(id)})
}

func (r *replica) mayRemove(id types.ID) error {
	if m := r.cl.Member(id); !r.srv.c.strict || m != nil && m.IsLearner {
		return nil
	}
	if !r.cl.IsReadyToRemoveVotingMember(uint64(id)) {
		return r.refuse("etcdserver/server.go:1625", "rejecting member remove request; not enough healthy members", rpctypes.ErrGRPCMemberNotEnoughStarted,
			"requested-member-remove-id", id.String())
	}
	if id != r.id() && r.tr.ActiveSince(id).IsZero() {
		return nil // one that is down does not count for the quorum
	}
	l := r.cl.VotingMembers()
	if active := r.connected(time.Now().Add(-healthInterval), l); active-1 < 1+(len(l)-1)/2 {
		return r.refuse("etcdserver/server.go:1643", "rejecting member remove request; local member has not been connected to all peers, reconfigure breaks active quorum",
			rpctypes.ErrGRPCUnhealthy, "requested-member-remove", id.String(), "active-peers", active)
	}
	return nil
}

func (r *replica) updateMember(ctx context.Context, id types.ID, peerURLs []string) ([]*membership.Member, error) {
	b, err := json.Marshal(membership.Member{ID: id, RaftAttributes: membership.RaftAttributes{PeerURLs: peerURLs}})
	if err != nil {
		return nil, err
	}
	return r.configure(ctx, raftpb.ConfChange{Type: raftpb.ConfChangeUpdateNode, NodeID: uint64(id), Context: b})
}

// promoteMember makes a learner a voter. Only the leader knows whether it is ready, so another member asks the leader.
func (r *replica) promoteMember(ctx context.Context, id types.ID) ([]*membership.Member, error) {
	l, err := r.promoteAsLeader(ctx, id)
	if !errors.Is(err, rpctypes.ErrGRPCNotLeader) {
		return l, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	for ctx.Err() == nil {
		leader, err := r.waitLeader(ctx)
		if err != nil {
			return nil, err
		}
		for _, url := range leader.PeerURLs {
			l, err := r.askToPromote(ctx, url, id)
			switch {
			case err == nil, errors.Is(err, rpctypes.ErrGRPCLearnerNotReady), errors.Is(err, rpctypes.ErrGRPCMemberNotFound), errors.Is(err, rpctypes.ErrGRPCMemberNotLearner):
				return l, err
			}
		}
		r.p.Sleep(50 * time.Millisecond)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, rpctypes.ErrGRPCTimeout
	}
	return nil, rpctypes.ErrGRPCCanceled
}

func (r *replica) promoteAsLeader(ctx context.Context, id types.ID) ([]*membership.Member, error) {
	if !r.waitApplied(r.committed.Load(), time.Second) {
		return nil, rpctypes.ErrGRPCTimeoutWaitAppliedIndex
	}
	r.mu.Lock()
	s := r.node.Status()
	r.mu.Unlock()
	if s.Progress == nil {
		return nil, rpctypes.ErrGRPCNotLeader
	}
	p, ok := s.Progress[uint64(id)]
	if !ok {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	if part := float64(p.Match) / float64(s.Progress[s.ID].Match); part < learnerReady {
		r.srv.log.write(line{level: "error", caller: "etcdserver/server.go:1601", msg: "rejecting promote learner: learner is not ready",
			fields: []any{"learner-ready-percent", part, "ready-percent-threshold", learnerReady}})
		return nil, rpctypes.ErrGRPCLearnerNotReady
	}
	if r.srv.c.strict && !r.cl.IsReadyToPromoteMember(uint64(id)) {
		return nil, r.refuse("etcdserver/server.go:1550", "rejecting member promote request; not enough healthy members", rpctypes.ErrGRPCMemberNotEnoughStarted,
			"requested-member-remove-id", id.String())
	}
	b, err := json.Marshal(membership.ConfigChangeContext{Member: membership.Member{ID: id}, IsPromote: true})
	if err != nil {
		return nil, err
	}
	l, err := r.configure(ctx, raftpb.ConfChange{Type: raftpb.ConfChangeAddNode, NodeID: uint64(id), Context: b})
	return l, membershipError(err)
}

// moveLeader makes another member the leader.
func (r *replica) moveLeader(ctx context.Context, to types.ID) error {
	if m := r.cl.Member(to); m == nil || m.IsLearner {
		return rpctypes.ErrGRPCBadLeaderTransferee
	}
	from, began := r.lead.Load(), time.Now()
	log := r.srv.log
	log.info("etcdserver/server.go:1257", "leadership transfer starting", "local-member-id", r.id().String(), "current-leader-member-id", types.ID(from).String(), "transferee-member-id", to.String())
	r.with(func(n *raft.RawNode) error {
		n.TransferLeader(uint64(to))
		return nil
	})
	for r.lead.Load() != uint64(to) {
		if err := kernel.SleepContext(ctx, r.tick()); err != nil {
			return status.Error(codes.Unknown, "etcdserver: request timed out, leader transfer took too long")
		}
		if r.over() {
			return rpctypes.ErrGRPCStopped
		}
	}
	log.info("etcdserver/server.go:1274", "leadership transfer finished", "local-member-id", r.id().String(), "old-leader-member-id", types.ID(from).String(),
		"new-leader-member-id", to.String(), "took", time.Since(began))
	return nil
}

// handOver gives the leadership away before the member ends.
func (r *replica) handOver() {
	log, lead := r.srv.log, types.ID(r.lead.Load())
	switch {
	case lead != r.id():
		log.info("etcdserver/server.go:1288", "skipped leadership transfer; local server is not leader", "local-member-id", r.id().String(), "current-leader-member-id", lead.String())
		return
	case len(r.cl.VotingMembers()) < 2:
		log.info("etcdserver/server.go:1297", "skipped leadership transfer for single voting member cluster", "local-member-id", r.id().String(), "current-leader-member-id", lead.String())
		return
	}
	err := error(rpctypes.ErrGRPCUnhealthy)
	if to, ok := r.longestConnected(); ok {
		ctx, cancel := context.WithTimeout(r.p.Context(), r.timeout())
		defer cancel()
		err = r.moveLeader(ctx, to)
	}
	if err != nil {
		log.warn("etcdserver/server.go:1336", "leadership transfer failed", "local-member-id", r.id().String(), "error", rpctypes.ErrorDesc(err))
	}
}

// longestConnected is the voter that has been reached for the longest time.
func (r *replica) longestConnected() (longest types.ID, ok bool) {
	var since time.Time
	for _, id := range r.votingIDs() {
		if t := r.tr.ActiveSince(id); !t.IsZero() && (!ok || t.Before(since)) {
			longest, since, ok = id, t, true
		}
	}
	return longest, ok
}
