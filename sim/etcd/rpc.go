package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// tokenHeader is the response header in which a server shows its token. It is not etcd's.
const tokenHeader = "ckadrill-etcd"

// grpcServer is etcd's gRPC API over a server's store.
func (srv *Server) grpcServer() *grpc.Server {
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(int(srv.c.maxRequest)+512*1024),
		grpc.MaxSendMsgSize(1<<31-1),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			grpc.SetHeader(ctx, metadata.Pairs(tokenHeader, srv.token))
			return h(ctx, req)
		}),
	)
	pb.RegisterKVServer(g, kvServer{srv})
	pb.RegisterWatchServer(g, watchServer{srv})
	pb.RegisterLeaseServer(g, leaseServer{srv})
	pb.RegisterClusterServer(g, clusterServer{srv})
	pb.RegisterAuthServer(g, &authServer{srv: srv})
	pb.RegisterMaintenanceServer(g, maintenanceServer{srv})
	hs := health.NewServer()
	hs.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(g, hs)
	return g
}

type kvServer struct{ srv *Server }

func (k kvServer) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return k.srv.store.Range(r)
}

func (k kvServer) Put(_ context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	return k.srv.store.Put(r)
}

func (k kvServer) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return k.srv.store.DeleteRange(r)
}

func (k kvServer) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return k.srv.store.Txn(r)
}

func (k kvServer) Compact(_ context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	res, err := k.srv.store.Compact(r)
	if err == nil {
		k.srv.log.info("mvcc/kvstore_compaction.go:72", "finished scheduled compaction", "compact-revision", r.Revision, "took", "1ms")
	}
	return res, err
}

type leaseServer struct{ srv *Server }

func (l leaseServer) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return l.srv.store.LeaseGrant(r)
}

func (l leaseServer) LeaseRevoke(_ context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return l.srv.store.LeaseRevoke(r)
}

func (l leaseServer) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return l.srv.store.LeaseTimeToLive(r), nil
}

func (l leaseServer) LeaseLeases(context.Context, *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	return l.srv.store.LeaseLeases(), nil
}

func (l leaseServer) LeaseKeepAlive(st pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := st.Send(l.srv.store.LeaseKeepAlive(r)); err != nil {
			return err
		}
	}
}

type watchServer struct{ srv *Server }

// watchStream is one client's stream of watches. Each watch has a goroutine that sends what it reports.
type watchStream struct {
	srv    *Server
	st     pb.Watch_WatchServer
	ctx    context.Context
	out    chan *pb.WatchResponse
	ws     map[int64]*Watch
	nextID int64
}

// Watch serves a stream.
func (w watchServer) Watch(st pb.Watch_WatchServer) error {
	ctx, cancel := context.WithCancel(st.Context())
	s := &watchStream{srv: w.srv, st: st, ctx: ctx, out: make(chan *pb.WatchResponse, 16), ws: map[int64]*Watch{}}
	defer func() {
		cancel()
		for _, x := range s.ws {
			x.Close()
		}
	}()
	in := make(chan *pb.WatchRequest)
	failed := make(chan error, 1)
	go func() {
		for {
			r, err := st.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case in <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	ended := make(chan int64)
	for {
		select {
		case r := <-in:
			s.handle(r, ended)
		case id := <-ended:
			if x := s.ws[id]; x != nil {
				x.Close()
				delete(s.ws, id)
			}
		case res := <-s.out:
			if err := st.Send(res); err != nil {
				return err
			}
		case err := <-failed:
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case errors.Is(ctx.Err(), context.Canceled):
				return rpctypes.ErrGRPCWatchCanceled
			}
			return err
		case <-st.Context().Done():
			return rpctypes.ErrGRPCWatchCanceled
		}
	}
}

// send gives a response of the stream's own goroutine to the client at once, before anything that is still queued.
func (s *watchStream) send(r *pb.WatchResponse) { s.st.Send(r) }

const noWatchID = -1

func (s *watchStream) handle(r *pb.WatchRequest, ended chan int64) {
	store := s.srv.store
	switch q := r.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		c := q.CreateRequest
		if c == nil {
			return
		}
		id := c.WatchId
		if id == 0 {
			for s.ws[s.nextID] != nil {
				s.nextID++
			}
			id = s.nextID
			s.nextID++
		}
		refuse := func(reason string) {
			s.send(&pb.WatchResponse{Header: store.Header(), WatchId: noWatchID, Created: true, Canceled: true, CancelReason: reason})
		}
		if s.ws[id] != nil {
			refuse("mvcc: duplicate watch ID provided on the WatchStream")
			return
		}
		if c.StartRevision < 0 {
			refuse(rpctypes.ErrCompacted.Error())
			return
		}
		o := WatchOptions{Key: c.Key, End: c.RangeEnd, From: c.StartRevision, PrevKV: c.PrevKv,
			NoPut: slices.Contains(c.Filters, pb.WatchCreateRequest_NOPUT), NoDelete: slices.Contains(c.Filters, pb.WatchCreateRequest_NODELETE)}
		if len(o.Key) == 0 {
			o.Key = []byte{0}
		}
		if len(o.End) != 0 && string(o.End) != "\x00" && string(o.Key) >= string(o.End) {
			refuse("mvcc: watcher range is empty")
			return
		}
		x := store.Watch(o)
		s.ws[id] = x
		s.send(&pb.WatchResponse{Header: store.Header(), WatchId: id, Created: true})
		go s.report(id, x, c.ProgressNotify, ended)
	case *pb.WatchRequest_CancelRequest:
		if q.CancelRequest == nil || s.ws[q.CancelRequest.WatchId] == nil {
			return
		}
		s.ws[q.CancelRequest.WatchId].Close()
		delete(s.ws, q.CancelRequest.WatchId)
		s.send(&pb.WatchResponse{Header: store.Header(), WatchId: q.CancelRequest.WatchId, Canceled: true})
	case *pb.WatchRequest_ProgressRequest:
		for _, x := range s.ws {
			if _, ok := x.Synced(); !ok {
				return // as etcd: progress is announced only when every watch of the stream has it
			}
		}
		if len(s.out) == 0 {
			s.send(&pb.WatchResponse{Header: store.Header(), WatchId: noWatchID})
		}
	}
}

// report sends what a watch reports until it ends.
func (s *watchStream) report(id int64, x *Watch, progress bool, ended chan int64) {
	ctx := s.ctx
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if progress {
			wait, cancel = context.WithTimeout(ctx, s.srv.c.progress)
		}
		events, rev, err := x.Next(wait)
		cancel()
		var res *pb.WatchResponse
		var compacted CompactedError
		switch {
		case err == nil:
			h := s.srv.store.Header()
			h.Revision = rev
			res = &pb.WatchResponse{Header: h, WatchId: id, Events: events}
		case ctx.Err() != nil || errors.Is(err, ErrWatchClosed):
			return
		case errors.As(err, &compacted):
			res = &pb.WatchResponse{Header: s.srv.store.Header(), WatchId: id, CompactRevision: compacted.Revision, Canceled: true}
		default: // nothing happened for the interval of progress notifications
			if _, ok := x.Synced(); !ok {
				continue
			}
			res = &pb.WatchResponse{Header: s.srv.store.Header(), WatchId: id}
		}
		select {
		case s.out <- res:
		case <-ctx.Done():
			return
		}
		if res.Canceled {
			select {
			case ended <- id:
			case <-ctx.Done():
			}
			return
		}
	}
}

type clusterServer struct{ srv *Server }

func (c clusterServer) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	s := c.srv.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &pb.MemberListResponse{Header: s.header(), Members: s.membersPB()}, nil
}

func (c clusterServer) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	s := c.srv.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.PeerURLs) == 0 {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	for _, m := range s.meta.Members {
		for _, u := range m.PeerURLs {
			if slices.Contains(r.PeerURLs, u) {
				return nil, rpctypes.ErrGRPCPeerURLExist
			}
		}
	}
	m := Member{ID: MemberID(r.PeerURLs, fmt.Sprintf("%s%d", c.srv.c.token, time.Now().Unix())), PeerURLs: r.PeerURLs, Learner: r.IsLearner}
	if !r.IsLearner && len(s.meta.Members) == 1 {
		// The new member would be needed for every further decision, and members do not reach each other here yet.
		return nil, rpctypes.ErrGRPCUnhealthy
	}
	s.meta.Members = append(s.meta.Members, m)
	s.touch()
	return &pb.MemberAddResponse{Header: s.header(), Member: &pb.Member{ID: m.ID, PeerURLs: m.PeerURLs, IsLearner: m.Learner}, Members: s.membersPB()}, nil
}

func (c clusterServer) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	s := c.srv.store
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.meta.Members, func(m Member) bool { return m.ID == r.ID })
	switch {
	case i < 0:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case r.ID == s.meta.MemberID && len(s.meta.Members) == 1:
		return nil, rpctypes.ErrGRPCMemberNotEnoughStarted
	}
	s.meta.Members = slices.Delete(s.meta.Members, i, i+1)
	s.meta.Removed = append(s.meta.Removed, r.ID)
	s.touch()
	return &pb.MemberRemoveResponse{Header: s.header(), Members: s.membersPB()}, nil
}

func (c clusterServer) MemberUpdate(_ context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	s := c.srv.store
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.meta.Members, func(m Member) bool { return m.ID == r.ID })
	if i < 0 {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	s.meta.Members[i].PeerURLs = r.PeerURLs
	s.touch()
	return &pb.MemberUpdateResponse{Header: s.header(), Members: s.membersPB()}, nil
}

func (c clusterServer) MemberPromote(_ context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	s := c.srv.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := slices.IndexFunc(s.meta.Members, func(m Member) bool { return m.ID == r.ID })
	switch {
	case i < 0:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case !s.meta.Members[i].Learner:
		return nil, rpctypes.ErrGRPCMemberNotLearner
	}
	return nil, rpctypes.ErrGRPCLearnerNotReady
}

// authServer refuses: authentication of users is off, and this store does not simulate turning it on.
type authServer struct {
	pb.UnimplementedAuthServer
	srv *Server
}

func (a authServer) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return &pb.AuthStatusResponse{Header: a.srv.store.Header(), AuthRevision: 1}, nil
}

func (a authServer) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCAuthNotEnabled
}

func (a authServer) AuthEnable(context.Context, *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	return nil, rpctypes.ErrGRPCRootUserNotExist
}

func (a authServer) UserList(context.Context, *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	return &pb.AuthUserListResponse{Header: a.srv.store.Header()}, nil
}

func (a authServer) RoleList(context.Context, *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	return &pb.AuthRoleListResponse{Header: a.srv.store.Header()}, nil
}

type maintenanceServer struct{ srv *Server }

func (m maintenanceServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	s := m.srv.store
	file, inUse := s.Size()
	s.mu.RLock()
	defer s.mu.RUnlock()
	res := &pb.StatusResponse{Header: s.header(), Version: Version, DbSize: file, DbSizeInUse: inUse, Leader: s.meta.MemberID,
		RaftTerm: s.meta.Term, RaftIndex: s.applied(), RaftAppliedIndex: s.applied(), StorageVersion: storageVersion,
		DbSizeQuota: m.srv.quota(), DowngradeInfo: &pb.DowngradeInfo{}}
	for _, a := range s.meta.Alarms {
		res.Errors = append(res.Errors, fmt.Sprintf("memberID:%d alarm:%s ", a.Member, a.Type))
	}
	return res, nil
}

// applied stands for raft's index: every revision came from one entry of the log, and a start adds a few.
func (s *Store) applied() uint64 { return uint64(s.rev) + 3*s.meta.Term }

func (m maintenanceServer) Alarm(_ context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	s := m.srv.store
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &pb.AlarmResponse{Header: s.header()}
	matches := func(a alarm) bool {
		return (r.Alarm == pb.AlarmType_NONE || a.Type == r.Alarm) && (r.MemberID == 0 || a.Member == r.MemberID)
	}
	switch r.Action {
	case pb.AlarmRequest_GET:
		for _, a := range s.meta.Alarms {
			if matches(a) {
				res.Alarms = append(res.Alarms, &pb.AlarmMember{MemberID: a.Member, Alarm: a.Type})
			}
		}
	case pb.AlarmRequest_ACTIVATE:
		if r.Alarm != pb.AlarmType_NONE {
			s.meta.raise(r.MemberID, r.Alarm)
			res.Alarms = append(res.Alarms, &pb.AlarmMember{MemberID: r.MemberID, Alarm: r.Alarm})
		}
	case pb.AlarmRequest_DEACTIVATE:
		s.meta.Alarms = slices.DeleteFunc(s.meta.Alarms, func(a alarm) bool {
			if matches(a) {
				res.Alarms = append(res.Alarms, &pb.AlarmMember{MemberID: a.Member, Alarm: a.Type})
				return true
			}
			return false
		})
	}
	s.touch()
	return res, nil
}

func (m maintenanceServer) Defragment(context.Context, *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	m.srv.log.info("v3rpc/maintenance.go:116", "starting defragment")
	m.srv.store.Defragment()
	m.srv.log.info("v3rpc/maintenance.go:128", "finished defragment")
	return &pb.DefragmentResponse{Header: m.srv.store.Header()}, nil
}

func (m maintenanceServer) Hash(context.Context, *pb.HashRequest) (*pb.HashResponse, error) {
	h, err := m.srv.store.HashKV(0)
	if err != nil {
		return nil, err
	}
	return &pb.HashResponse{Header: h.Header, Hash: h.Hash}, nil
}

func (m maintenanceServer) HashKV(_ context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	return m.srv.store.HashKV(r.Revision)
}

// snapshotChunk is the size of the pieces in which a snapshot is sent.
const snapshotChunk = 32 * 1024

func (m maintenanceServer) Snapshot(_ *pb.SnapshotRequest, st pb.Maintenance_SnapshotServer) error {
	file, _ := m.srv.store.Size()
	b := m.srv.store.Snapshot()
	sum := b[len(b)-32:]
	b = b[:len(b)-32]
	m.srv.log.info("v3rpc/maintenance.go:162", "sending database snapshot to client", "total-bytes", file, "size", humanSize(file), "storage-version", storageVersion)
	send := func(part []byte, left int) error {
		return st.Send(&pb.SnapshotResponse{Header: m.srv.store.Header(), RemainingBytes: uint64(left), Blob: part, Version: storageVersion})
	}
	for i := 0; i < len(b); i += snapshotChunk {
		part := b[i:min(i+snapshotChunk, len(b))]
		if err := send(part, len(b)-i-len(part)); err != nil {
			return err
		}
	}
	m.srv.log.info("v3rpc/maintenance.go:210", "sending database sha256 checksum to client", "total-bytes", file, "checksum-size", len(sum))
	if err := send(sum, 0); err != nil {
		return err
	}
	m.srv.log.info("v3rpc/maintenance.go:225", "successfully sent database snapshot to client", "total-bytes", file, "size", humanSize(file), "took", "now", "storage-version", storageVersion)
	return nil
}

func (m maintenanceServer) MoveLeader(_ context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	s := m.srv.store
	if r.TargetID != s.Header().MemberId {
		return nil, rpctypes.ErrGRPCBadLeaderTransferee
	}
	return &pb.MoveLeaderResponse{Header: s.Header()}, nil
}

func (m maintenanceServer) Downgrade(_ context.Context, r *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	switch r.Action {
	case pb.DowngradeRequest_CANCEL:
		return nil, rpctypes.ErrGRPCNoInflightDowngrade
	case pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE:
		if r.Version == "" {
			return nil, rpctypes.ErrGRPCInvalidDowngradeTargetVersion
		}
		return nil, rpctypes.ErrGRPCInvalidDowngradeTargetVersion
	}
	return nil, errors.New("etcdserver: unknown downgrade action")
}

func hexID(id uint64) string { return fmt.Sprintf("%x", id) }

// humanSize prints bytes as etcd's logs do ("9.5 MB").
func humanSize(n int64) string {
	if n < 10 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n), 0
	for f >= 1000 && i < 5 {
		f /= 1000
		i++
	}
	unit := []string{"B", "kB", "MB", "GB", "TB", "PB"}[i]
	if f < 10 {
		return fmt.Sprintf("%.1f %s", f, unit)
	}
	return fmt.Sprintf("%.0f %s", f, unit)
}
