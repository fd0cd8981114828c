package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
)

// Only the leader knows how long leases still live: the other members ask it, over its peer port, to renew one or to tell what
// is left of one (package leasehttp).

// LeaseGrant makes a lease.
func (srv *Server) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if res, err := srv.store.LeaseGrant(r); !errors.Is(err, errReplicated) {
		return res, err
	}
	q := &pb.LeaseGrantRequest{ID: r.ID, TTL: r.TTL}
	if q.ID == 0 {
		srv.store.mu.RLock()
		q.ID = srv.store.newLeaseID()
		srv.store.mu.RUnlock()
	}
	return agreed[*pb.LeaseGrantResponse](ctx, srv, srv.roomInCluster(ctx, r), &pb.InternalRaftRequest{LeaseGrant: q})
}

// LeaseRevoke ends a lease.
func (srv *Server) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if res, err := srv.store.LeaseRevoke(r); !errors.Is(err, errReplicated) {
		return res, err
	}
	return agreed[*pb.LeaseRevokeResponse](ctx, srv, nil, &pb.InternalRaftRequest{LeaseRevoke: r})
}

// LeaseKeepAlive starts a lease's time to live anew. The TTL of an unknown lease is 0.
func (srv *Server) LeaseKeepAlive(ctx context.Context, r *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	rep := srv.several()
	if rep == nil {
		return srv.store.LeaseKeepAlive(r), nil
	}
	res := &pb.LeaseKeepAliveResponse{Header: srv.store.Header(), ID: r.ID} // as etcd's, older than the renewal
	err := rep.atLeader(ctx, leasePath, r, func() error {
		res.TTL = srv.store.LeaseKeepAlive(r).TTL
		return nil
	}, func(b []byte) error {
		var x pb.LeaseKeepAliveResponse
		err := x.Unmarshal(b)
		res.TTL = x.TTL
		return err
	})
	if errors.Is(err, rpctypes.ErrGRPCLeaseNotFound) {
		err = nil
	}
	return res, err
}

// LeaseLeases lists the leases.
func (srv *Server) LeaseLeases(context.Context, *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	return srv.store.LeaseLeases(), nil
}

// LeaseTimeToLive reports what is left of a lease; its TTL is -1 if there is no such lease.
func (srv *Server) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	rep := srv.several()
	if rep == nil {
		return srv.store.LeaseTimeToLive(r), nil
	}
	var res *pb.LeaseTimeToLiveResponse
	err := rep.atLeader(ctx, leaseTTLPath, &leasepb.LeaseInternalRequest{LeaseTimeToLiveRequest: r}, func() error {
		res = srv.store.LeaseTimeToLive(r)
		return nil
	}, func(b []byte) error {
		var x leasepb.LeaseInternalResponse
		err := x.Unmarshal(b)
		res = x.LeaseTimeToLiveResponse
		return err
	})
	if errors.Is(err, rpctypes.ErrGRPCLeaseNotFound) {
		return &pb.LeaseTimeToLiveResponse{Header: srv.store.Header(), ID: r.ID, TTL: -1}, nil
	}
	if res != nil {
		res.Header = srv.store.Header()
	}
	return res, err
}

type protobuf interface{ Marshal() ([]byte, error) }

// atLeader does something with leases if this member leads, or has the leader do it.
func (r *replica) atLeader(ctx context.Context, path string, q protobuf, here func() error, answer func([]byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	body, err := q.Marshal()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if r.leads() {
			if !r.waitApplied(r.committed.Load(), time.Second) {
				return rpctypes.ErrGRPCTimeoutWaitAppliedIndex
			}
			return here()
		}
		leader, err := r.waitLeader(ctx)
		if err != nil {
			return err
		}
		if leader.ID == r.id() {
			continue
		}
		for _, url := range leader.PeerURLs {
			code, b, err := r.call(ctx, http.MethodPost, url+path, body)
			switch {
			case err != nil:
			case code == http.StatusNotFound:
				return rpctypes.ErrGRPCLeaseNotFound
			case code == http.StatusOK:
				return answer(b)
			}
		}
		r.p.Sleep(50 * time.Millisecond)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return rpctypes.ErrGRPCTimeout
	}
	return rpctypes.ErrGRPCCanceled
}

// call asks a peer something over its peer port.
func (r *replica) call(ctx context.Context, method, url string, body []byte) (int, []byte, error) {
	q, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if len(body) > 0 {
		q.Header.Set("Content-Type", "application/protobuf")
	}
	c := &http.Client{Transport: r.peerRT, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, err
}

// serveLeases answers the other members.
func (srv *Server) serveLeases(w http.ResponseWriter, q *http.Request) {
	if !allowed(w, q, http.MethodPost) {
		return
	}
	b, err := io.ReadAll(q.Body)
	if err != nil {
		http.Error(w, "error reading body", http.StatusBadRequest)
		return
	}
	if rep := srv.several(); rep != nil && !rep.waitApplied(rep.committed.Load(), time.Second) {
		http.Error(w, "waiting for node to catch up its applied index has timed out", http.StatusRequestTimeout)
		return
	}
	if srv.leader() != srv.store.Header().MemberId {
		http.Error(w, "not a primary lessor", http.StatusBadRequest)
		return
	}
	unknown := func() { http.Error(w, "requested lease not found", http.StatusNotFound) }
	var res protobuf
	if q.URL.Path == leasePath {
		var r pb.LeaseKeepAliveRequest
		if err := r.Unmarshal(b); err != nil {
			http.Error(w, "error unmarshalling request", http.StatusBadRequest)
			return
		}
		x := srv.store.LeaseKeepAlive(&r)
		if x.TTL <= 0 {
			unknown()
			return
		}
		res = &pb.LeaseKeepAliveResponse{ID: r.ID, TTL: x.TTL}
	} else {
		var r leasepb.LeaseInternalRequest
		if err := r.Unmarshal(b); err != nil || r.LeaseTimeToLiveRequest == nil {
			http.Error(w, "error unmarshalling request", http.StatusBadRequest)
			return
		}
		x := srv.store.LeaseTimeToLive(r.LeaseTimeToLiveRequest)
		if x.TTL < 0 {
			unknown()
			return
		}
		x.Header = &pb.ResponseHeader{}
		res = &leasepb.LeaseInternalResponse{LeaseTimeToLiveResponse: x}
	}
	out, err := res.Marshal()
	if err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/protobuf")
	w.Write(out)
}
