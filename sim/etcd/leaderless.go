package etcd

import (
	"context"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// maxLeaderless is for how many election time-outs a stream of a client that wants a leader goes on without one.
const maxLeaderless = 3

// wantsLeader says whether a client would rather fail than be served by a member without a leader.
func wantsLeader(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	l := md[rpctypes.MetadataRequireLeaderKey]
	return len(l) > 0 && l[0] == rpctypes.MetadataHasLeader
}

// mayServe is what etcd checks before each call: a learner serves little, and some clients want a leader.
func (srv *Server) mayServe(ctx context.Context, req any) error {
	if srv.learner() {
		switch r := req.(type) {
		case *pb.StatusRequest:
		case *pb.RangeRequest:
			if !r.Serializable {
				return rpctypes.ErrGRPCNotSupportedForLearner
			}
		default:
			return rpctypes.ErrGRPCNotSupportedForLearner
		}
	}
	if wantsLeader(ctx) && srv.leader() == raft.None {
		return rpctypes.ErrGRPCNoLeader
	}
	return nil
}

// serveStream is the same for streams.
func (srv *Server) serveStream(s any, st grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	if srv.learner() && info.FullMethod != "/etcdserverpb.Maintenance/Snapshot" {
		return rpctypes.ErrGRPCNotSupportedForLearner
	}
	if srv.several() == nil || !wantsLeader(st.Context()) {
		return h(s, st)
	}
	if srv.leader() == raft.None {
		return rpctypes.ErrGRPCNoLeader
	}
	ctx, cancel := context.WithCancel(st.Context())
	x := &ledStream{ServerStream: st, ctx: &ledContext{Context: ctx}, cancel: cancel}
	defer cancel()
	defer srv.several().streams.add(x)()
	return h(s, x)
}

// ledStream is a stream that ends when its member has been without a leader for long.
type ledStream struct {
	grpc.ServerStream
	ctx    *ledContext
	cancel context.CancelFunc
}

// ledContext is a context that may end because there is no leader.
type ledContext struct {
	context.Context
	mu         sync.Mutex
	leaderless bool
}

func (c *ledContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaderless {
		return rpctypes.ErrGRPCNoLeader
	}
	return c.Context.Err()
}

// Context implements [grpc.ServerStream].
func (s *ledStream) Context() context.Context { return s.ctx }

func (s *ledStream) end() {
	s.ctx.mu.Lock()
	s.ctx.leaderless = true
	s.ctx.mu.Unlock()
	s.cancel()
}

// ledStreams are a member's streams that want a leader.
type ledStreams struct {
	mu sync.Mutex
	l  []*ledStream
}

func (l *ledStreams) add(s *ledStream) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.l = append(l.l, s)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.l = slices.DeleteFunc(l.l, func(x *ledStream) bool { return x == s })
	}
}

func (l *ledStreams) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.l {
		s.end()
	}
	l.l = nil
}

// endLeaderless ends the streams that want a leader when there has been none for some time.
func (r *replica) endLeaderless() {
	for n := 0; r.p.Sleep(r.electionTimeout()) == nil && !r.over(); {
		if r.lead.Load() != raft.None {
			n = 0
			continue
		}
		if n++; n >= maxLeaderless {
			r.streams.end()
		}
	}
}
