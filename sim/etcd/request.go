package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxGap is how many entries may wait to be applied before no more requests are taken.
const maxGap = 5000

// waits are the requests of this member that the cluster has not agreed on yet.
type waits struct {
	mu sync.Mutex
	m  map[uint64]chan result
}

func (w *waits) register(id uint64) chan result {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[uint64]chan result{}
	}
	c := make(chan result, 1)
	w.m[id] = c
	return c
}

func (w *waits) has(id uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[id] != nil
}

func (w *waits) trigger(id uint64, x result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.m[id]; c != nil {
		c <- x
		delete(w.m, id)
	}
}

func (w *waits) forget(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m, id)
}

// request has the cluster agree on a request, and returns what it came to (etcdserver.processInternalRaftRequestOnce).
func (r *replica) request(ctx context.Context, q *pb.InternalRaftRequest) (any, error) {
	if r.committed.Load() > r.applied.Load()+maxGap {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	q.Header = &pb.RequestHeader{ID: r.ids.Next()}
	data, err := q.Marshal()
	if err != nil {
		return nil, err
	}
	if len(data) > r.srv.maxRequestBytes() {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	return r.agree(ctx, q.Header.ID, func(n *raft.RawNode) error { return n.Propose(data) })
}

// agree proposes something under an id and waits until it has been applied.
func (r *replica) agree(ctx context.Context, id uint64, propose func(n *raft.RawNode) error) (any, error) {
	c := r.waits.register(id)
	defer r.waits.forget(id)
	began := time.Now()
	if err := r.underLeader(ctx, propose); err != nil {
		switch {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, ctx.Err() // as etcdserver: nobody has taken the proposal
		case errors.Is(err, raft.ErrProposalDropped):
			return nil, status.Error(codes.Unknown, err.Error())
		}
		return nil, err
	}
	select {
	case x := <-c:
		return x.res, x.err
	case <-ctx.Done():
		return nil, r.timedOut(ctx.Err(), began)
	case <-r.done:
		return nil, rpctypes.ErrGRPCStopped
	}
}

// timedOut says why a proposal was not agreed on in time (etcdserver.parseProposeCtxErr).
func (r *replica) timedOut(err error, began time.Time) error {
	if errors.Is(err, context.Canceled) {
		return rpctypes.ErrGRPCCanceled
	}
	if at := r.elected.Load(); at != 0 {
		elected := time.Unix(0, at)
		if began.After(elected.Add(-2*r.electionTimeout())) && began.Before(elected) {
			return rpctypes.ErrGRPCTimeoutDueToLeaderFail
		}
	}
	switch lead := types.ID(r.lead.Load()); lead {
	case types.ID(raft.None):
	case r.id():
		if l := r.cl.Members(); r.connected(began, l) < len(l)/2+1 {
			return rpctypes.ErrGRPCTimeoutDueToConnectionLost
		}
	default:
		if !r.connectedTo(lead, began) {
			return rpctypes.ErrGRPCTimeoutDueToConnectionLost
		}
	}
	return rpctypes.ErrGRPCTimeout
}

// connectedTo says whether a member has been reached since before a time.
func (r *replica) connectedTo(id types.ID, since time.Time) bool {
	t := r.tr.ActiveSince(id)
	return !t.IsZero() && t.Before(since)
}

// connected counts the members that have been reached since before a time, this one included.
func (r *replica) connected(since time.Time, members []*membership.Member) int {
	n := 0
	for _, m := range members {
		if m.ID == r.id() || r.connectedTo(m.ID, since) {
			n++
		}
	}
	return n
}

// configure has the cluster agree on a change of its members.
func (r *replica) configure(ctx context.Context, cc raftpb.ConfChange) ([]*membership.Member, error) {
	cc.ID = r.ids.Next()
	res, err := r.agree(ctx, cc.ID, func(n *raft.RawNode) error { return n.ProposeConfChange(cc) })
	members, ok := res.([]*membership.Member)
	if ok { // it has been applied, or was found to be void
		r.srv.log.info("etcdserver/server.go:1768", "applied a configuration change through raft", "local-member-id", r.id().String(),
			"raft-conf-change", cc.Type.String(), "raft-conf-change-node-id", types.ID(cc.NodeID).String())
	}
	return members, err
}

// waitLeader is the leader as soon as there is one.
func (r *replica) waitLeader(ctx context.Context) (*membership.Member, error) {
	for {
		if m := r.cl.Member(types.ID(r.lead.Load())); m != nil {
			if len(m.PeerURLs) == 0 {
				return nil, rpctypes.ErrGRPCNoLeader
			}
			return m, nil
		}
		t := time.NewTimer(r.electionTimeout())
		select {
		case <-t.C:
		case <-r.done:
			return nil, rpctypes.ErrGRPCStopped
		case <-ctx.Done():
			t.Stop()
			return nil, rpctypes.ErrGRPCNoLeader
		}
	}
}

// waitApplied waits until what the cluster has agreed on so far has been applied.
func (r *replica) waitApplied(index uint64, timeout time.Duration) bool {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		more := r.appliedMore.Receive()
		if r.applied.Load() >= index {
			return true
		}
		select {
		case <-more:
		case <-t.C:
			return false
		case <-r.done:
			return false
		}
	}
}
