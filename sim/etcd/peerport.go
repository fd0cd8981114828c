package etcd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// Paths of the peer port, beside rafthttp's.
const (
	membersPath    = "/members"
	promotePath    = "/members/promote/"
	leasePath      = "/leases"
	leaseTTLPath   = "/leases/internal"
	downgradePath  = "/downgrade/enabled"
	clusterIDField = "X-Etcd-Cluster-ID"
)

// filesKey is where a connection's context has the checksum of the files that its handshake was made with.
type filesKey struct{}

// servePeers serves the peer port.
func (srv *Server) servePeers(l net.Listener, cfg *tls.Config) *server {
	mux := http.NewServeMux()
	mux.HandleFunc("/", http.NotFound)
	mux.HandleFunc(membersPath, srv.serveMembers)
	mux.HandleFunc(promotePath, srv.servePromote)
	mux.HandleFunc(hashPath, srv.serveHash)
	mux.HandleFunc(leasePath, srv.serveLeases)
	mux.HandleFunc(leaseTTLPath, srv.serveLeases)
	mux.HandleFunc(downgradePath, srv.serveDowngrade)
	mux.Handle("/version", srv.handler())
	mux.HandleFunc(rafthttp.RaftPrefix, srv.serveRaft)
	mux.HandleFunc(rafthttp.RaftPrefix+"/", srv.serveRaft)
	s := &server{l: l, http: &http.Server{Handler: mux, ReadTimeout: 5 * time.Minute, ErrorLog: quiet(),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, filesKey{}, srv.c.peer.sum(srv.p))
		}}}
	var accept net.Listener = impatientListener{l, rafthttp.ConnReadTimeout}
	if cfg != nil {
		check := func(c *tls.Conn) error { return checkSAN(srv.p, c) }
		if srv.c.skipSAN {
			check = nil
		}
		accept = opaque{newCheckingListener(accept, cfg, check, srv.handshakeFailed("rejected connection on peer endpoint"))}
	}
	go s.http.Serve(accept)
	return s
}

// serveRaft is rafthttp's handler, but that receives databases into the world.
func (srv *Server) serveRaft(w http.ResponseWriter, q *http.Request) {
	rep := srv.several()
	if rep == nil {
		// The only member has no peers, and so knows nobody who could call.
		w.Header().Set(clusterIDField, hexID(srv.store.Header().ClusterId))
		http.Error(w, "error sender not found", http.StatusNotFound)
		return
	}
	switch q.URL.Path {
	case rafthttp.RaftSnapshotPrefix:
		rep.receiveSnapshot(w, q)
	case rafthttp.ProbingPrefix:
		if was, _ := q.Context().Value(filesKey{}).([sha256.Size]byte); was != srv.c.peer.sum(srv.p) {
			w.Header().Set("Connection", "close") // a new connection would be another
		}
		fallthrough
	default:
		rep.raftHandler.ServeHTTP(w, q)
	}
}

func allowed(w http.ResponseWriter, q *http.Request, method string) bool {
	if q.Method == method {
		return true
	}
	w.Header().Set("Allow", method)
	http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	return false
}

// clusterMembers are the members as they are told over the peer port.
func (srv *Server) clusterMembers() []*membership.Member {
	if rep := srv.several(); rep != nil {
		return rep.cl.Members()
	}
	var l []*membership.Member
	for _, m := range srv.store.Members() {
		l = append(l, membershipOf(m))
	}
	return l
}

func (srv *Server) serveMembers(w http.ResponseWriter, q *http.Request) {
	if !allowed(w, q, http.MethodGet) {
		return
	}
	w.Header().Set(clusterIDField, hexID(srv.store.Header().ClusterId))
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(srv.clusterMembers())
}

func (srv *Server) servePromote(w http.ResponseWriter, q *http.Request) {
	if !allowed(w, q, http.MethodPost) {
		return
	}
	w.Header().Set(clusterIDField, hexID(srv.store.Header().ClusterId))
	text := strings.TrimPrefix(q.URL.Path, promotePath)
	id, err := strconv.ParseUint(text, 10, 64)
	rep := srv.several()
	if err != nil || rep == nil {
		http.Error(w, fmt.Sprintf("member %s not found in cluster", text), http.StatusNotFound)
		return
	}
	l, err := rep.promoteMember(q.Context(), types.ID(id))
	if err != nil {
		code := http.StatusInternalServerError
		switch {
		case errors.Is(err, rpctypes.ErrGRPCMemberNotFound):
			code = http.StatusNotFound
		case errors.Is(err, rpctypes.ErrGRPCMemberNotLearner), errors.Is(err, rpctypes.ErrGRPCLearnerNotReady):
			code = http.StatusPreconditionFailed
		}
		http.Error(w, rpctypes.ErrorDesc(err), code)
		srv.log.warn("etcdhttp/peer.go:161", "failed to promote a member", "member-id", types.ID(id).String(), "error", rpctypes.ErrorDesc(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(l)
}

// askToPromote has the leader promote a learner.
func (r *replica) askToPromote(ctx context.Context, url string, id types.ID) ([]*membership.Member, error) {
	code, b, err := r.call(ctx, http.MethodPost, url+promotePath+strconv.FormatUint(uint64(id), 10), nil)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(b))
	switch {
	case code == http.StatusNotFound:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case code == http.StatusPreconditionFailed && text == rpctypes.ErrorDesc(rpctypes.ErrGRPCMemberNotLearner):
		return nil, rpctypes.ErrGRPCMemberNotLearner
	case code == http.StatusPreconditionFailed:
		return nil, rpctypes.ErrGRPCLearnerNotReady
	case code != http.StatusOK:
		return nil, fmt.Errorf("member promote: unknown error(%s)", text)
	}
	var l []*membership.Member
	return l, json.Unmarshal(b, &l)
}

func (srv *Server) serveDowngrade(w http.ResponseWriter, q *http.Request) {
	if !allowed(w, q, http.MethodGet) {
		return
	}
	w.Header().Set(clusterIDField, hexID(srv.store.Header().ClusterId))
	ctx, cancel := context.WithTimeout(q.Context(), srv.timeout())
	defer cancel()
	if err := srv.current(ctx); err != nil {
		http.Error(w, "failed linearized read: "+rpctypes.ErrorDesc(err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprint(w, false)
}

// checkSAN refuses a peer whose certificate does not name the address that it calls from (transport.checkCertSAN).
func checkSAN(p *kernel.Process, c *tls.Conn) error {
	certs := c.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return nil
	}
	cert := certs[0]
	if len(cert.IPAddresses) == 0 && len(cert.DNSNames) == 0 {
		return nil
	}
	from, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return err
	}
	if len(cert.IPAddresses) > 0 {
		err := cert.VerifyHostname(from)
		if err == nil {
			return nil
		}
		if len(cert.DNSNames) == 0 {
			return err
		}
	}
	why := ""
	for _, name := range cert.DNSNames {
		if strings.HasPrefix(name, "*.") {
			continue
		}
		addrs, err := network.Resolve(p.Context(), p, name)
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.String() == from }) {
			return nil
		}
		if err != nil {
			why = " (" + err.Error() + ")"
		}
	}
	return fmt.Errorf("tls: %q does not match any of DNSNames %q%s", from, cert.DNSNames, why)
}
