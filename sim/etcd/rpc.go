package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

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
			if err := srv.mayServe(ctx, req); err != nil {
				return nil, err
			}
			return h(ctx, req)
		}),
		grpc.StreamInterceptor(srv.serveStream),
	)
	pb.RegisterKVServer(g, srv)
	pb.RegisterWatchServer(g, watchServer{srv})
	pb.RegisterLeaseServer(g, leaseServer{srv})
	pb.RegisterClusterServer(g, srv)
	pb.RegisterAuthServer(g, &authServer{srv: srv})
	pb.RegisterMaintenanceServer(g, maintenanceServer{srv})
	hs := health.NewServer()
	hs.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(g, hs)
	return g
}

// leaseServer serves a stream where the server renews one lease.
type leaseServer struct{ *Server }

func (l leaseServer) LeaseKeepAlive(st pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		res, err := l.Server.LeaseKeepAlive(st.Context(), r)
		if err != nil {
			return err
		}
		if err := st.Send(res); err != nil {
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
			if err := st.Context().Err(); !errors.Is(err, context.Canceled) {
				return err // there is no leader
			}
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
	return m.srv.Status(), nil
}

// applied is raft's index. For the only member of a cluster, which has no log, every revision stands for an entry of one, and
// a start for a few.
func (s *Store) applied() uint64 {
	if s.raft != nil {
		return s.raft.applied
	}
	return uint64(s.rev) + 3*s.meta.Term
}

func (m maintenanceServer) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	return m.srv.Alarm(ctx, r)
}

func (s *Store) alarmAlone(r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alone(); err != nil {
		return nil, err
	}
	return s.alarm(r), nil
}

// alarm lists, raises or disarms alarms. The lock is held.
func (s *Store) alarm(r *pb.AlarmRequest) *pb.AlarmResponse {
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
	return res
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

func (m maintenanceServer) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	return m.srv.MoveLeader(ctx, r)
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
