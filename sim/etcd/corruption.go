package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

const hashPath = "/members/hashkv"

// The errors of package mvcc, as a peer words them.
const (
	mvccCompacted = "mvcc: required revision has been compacted"
	mvccFuture    = "mvcc: required revision is a future revision"
	otherCluster  = "cluster ID mismatch"
)

// checkCorruption compares the member's keys with those of its peers before it serves anybody (--feature-gates=InitialCorruptCheck).
func (srv *Server) checkCorruption() error {
	log, id := srv.log, hexID(srv.store.Header().MemberId)
	log.info("etcdserver/corrupt.go:91", "starting initial corruption check", "local-member-id", id, "timeout", srv.timeout())
	h, err := srv.store.HashKV(0)
	if err != nil {
		return fmt.Errorf("%s failed to fetch hash (%w)", id, err)
	}
	different := 0
	for _, m := range srv.peersOf() {
		x, err := srv.several().peerHash(m, h.HashRevision)
		own := []any{"local-member-id", id, "local-member-revision", h.HashRevision, "local-member-compact-revision", h.CompactRevision, "local-member-hash", h.Hash,
			"remote-peer-id", m.ID.String(), "remote-peer-endpoints", m.PeerURLs}
		switch {
		case err == nil && x.Hash != h.Hash:
			own = append(own, "remote-peer-revision", x.Header.Revision, "remote-peer-compact-revision", x.CompactRevision, "remote-peer-hash", x.Hash)
			if x.CompactRevision == h.CompactRevision {
				log.warn("etcdserver/corrupt.go:120", "found different hash values from remote peer", own...)
				different++
			} else {
				log.warn("etcdserver/corrupt.go:123", "found different compact revision values from remote peer", own...)
			}
		case err == rpctypes.ErrFutureRev:
			log.warn("etcdserver/corrupt.go:133", "cannot fetch hash from slow remote peer", own...)
		case err == rpctypes.ErrCompacted:
			log.warn("etcdserver/corrupt.go:144", "cannot fetch hash from remote peer; local member is behind", own...)
		case err == rpctypes.ErrClusterIDMismatch:
			log.warn("etcdserver/corrupt.go:155", "cluster ID mismatch", own...)
		}
	}
	if different > 0 {
		return fmt.Errorf("%s found data inconsistency with peers", id)
	}
	log.info("etcdserver/corrupt.go:172", "initial corruption checking passed; no corruption", "local-member-id", id)
	return nil
}

// peersOf are the members beside this one.
func (srv *Server) peersOf() []*membership.Member {
	if rep := srv.several(); rep != nil {
		return rep.others()
	}
	return nil
}

// peerHash asks a peer for the checksum of its keys at a revision.
func (r *replica) peerHash(m *membership.Member, rev int64) (res *pb.HashKVResponse, err error) {
	for _, url := range m.PeerURLs {
		if res, err = r.askHash(url, rev); err == nil {
			return res, nil
		}
		r.srv.log.warn("etcdserver/corrupt.go:494", "failed hash kv request", "local-member-id", r.id().String(), "requested-revision", rev, "remote-peer-endpoint", url, "error", err)
	}
	return nil, err
}

func (r *replica) askHash(url string, rev int64) (*pb.HashKVResponse, error) {
	ctx, cancel := context.WithTimeout(r.p.Context(), r.timeout())
	defer cancel()
	body, err := json.Marshal(&pb.HashKVRequest{Revision: rev})
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+hashPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(clusterIDField, r.cl.ID().String())
	res, err := (&http.Client{Transport: r.peerRT}).Do(q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	text := string(b)
	switch {
	case res.StatusCode == http.StatusBadRequest && strings.Contains(text, mvccCompacted):
		return nil, rpctypes.ErrCompacted
	case res.StatusCode == http.StatusBadRequest && strings.Contains(text, mvccFuture):
		return nil, rpctypes.ErrFutureRev
	case res.StatusCode == http.StatusPreconditionFailed && strings.Contains(text, otherCluster):
		return nil, rpctypes.ErrClusterIDMismatch
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("unknown error: %s", text)
	}
	x := &pb.HashKVResponse{}
	return x, json.Unmarshal(b, x)
}

func (srv *Server) serveHash(w http.ResponseWriter, q *http.Request) {
	if !allowed(w, q, http.MethodGet) {
		return
	}
	cluster := hexID(srv.store.Header().ClusterId)
	if c := q.Header.Get(clusterIDField); c != "" && c != cluster {
		http.Error(w, otherCluster, http.StatusPreconditionFailed)
		return
	}
	var r pb.HashKVRequest
	if err := json.NewDecoder(q.Body).Decode(&r); err != nil {
		srv.log.warn("etcdserver/corrupt.go:546", "failed to unmarshal request", "error", err)
		http.Error(w, "error unmarshalling request", http.StatusBadRequest)
		return
	}
	h, err := srv.store.HashKV(r.Revision)
	if err != nil {
		text := rpctypes.ErrorDesc(err)
		switch err {
		case rpctypes.ErrGRPCCompacted:
			text = mvccCompacted
		case rpctypes.ErrGRPCFutureRev:
			text = mvccFuture
		}
		srv.log.warn("etcdserver/corrupt.go:552", "failed to get hashKV", "requested-revision", r.Revision, "error", text)
		http.Error(w, text, http.StatusBadRequest)
		return
	}
	h.Header = &pb.ResponseHeader{Revision: srv.store.Revision()}
	w.Header().Set(clusterIDField, cluster)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(h)
}
