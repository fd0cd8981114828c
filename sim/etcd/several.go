package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
)

// serveSeveral is [program.serve] for a member of several.
func (g *program) serveSeveral(srv *Server, rep *replica) int {
	c, log := g.c, g.log
	signals := g.signals()
	h := srv.store.Header()
	id := hexID(h.MemberId)
	for _, m := range g.founding.remotes {
		if m.ID != rep.id() {
			rep.tr.AddRemote(m.ID, m.PeerURLs)
		}
	}
	for _, m := range rep.others() {
		rep.tr.AddPeer(m.ID, m.PeerURLs)
	}
	version := rep.cl.Version()
	if version != nil && c.gate("InitialCorruptCheck") && !g.p.Resumed() {
		if err := srv.checkCorruption(); err != nil {
			log.write(line{level: "error", caller: "embed/etcd.go:276", msg: "checkInitialHashKV failed", fields: []any{"error", err}})
			return g.fatal("etcdmain/etcd.go:183", "discovery failed", err, stackMain)
		}
	}
	if version != nil {
		log.info("etcdserver/server.go:589", "starting etcd server", "local-member-id", id, "local-server-version", Version, "cluster-id", hexID(h.ClusterId),
			"cluster-version", srv.clusterVersion())
	} else {
		log.info("etcdserver/server.go:598", "starting etcd server", "local-member-id", id, "local-server-version", Version, "cluster-version", "to_be_decided")
	}
	rep.begin()
	if g.p.Resumed() {
		if rep.leads() {
			srv.store.runLeases(true)
		}
	} else {
		g.p.Go(rep.speed)
	}
	g.servePeers(srv)
	if !c.client.empty() {
		log.info("embed/etcd.go:766", "starting with client TLS", "tls-info", c.client.String(), "cipher-suites", []string{})
	}
	if code := g.serveMetrics(srv); code != 0 {
		return code
	}
	if g.p.Resumed() && rep.wasPublished() {
		close(rep.published)
	} else {
		rep.setPublished(false)
		g.p.Go(rep.publish)
	}
	if g.p.Resumed() {
		g.p.Go(func() {
			if g.p.AwaitDate() == nil {
				log.silent.Store(false)
			}
		})
	}
	select {
	case <-rep.published:
	case sig := <-signals:
		return g.shutDown(srv, sig)
	case err := <-srv.failed:
		return g.leave(srv, err)
	case <-g.p.Context().Done():
		return 0
	}
	rep.setPublished(true)
	if code := g.serveClients(srv, true); code != 0 {
		return code
	}
	return g.untilEnd(srv, signals)
}

// leave ends a member that can't go on, as it has been removed.
func (g *program) leave(srv *Server, err error) int {
	g.log.warn("etcdserver/server.go:860", "server error", "error", err)
	g.log.warn("etcdserver/server.go:861", "data-dir used by this member must be removed")
	if rep := srv.several(); rep != nil {
		rep.end()
	}
	return 0
}

// begin lets the replica's goroutines run.
func (r *replica) begin() {
	for _, f := range []func(){r.run, r.confirm, r.monitorVersions, r.endLeaderless} {
		r.p.Go(f)
	}
}

// speed lets election ticks pass when the peers have been reached soon after the start, so that a cluster that is started anew
// need not wait for long for a leader (etcdserver.adjustTicks).
func (r *replica) speed() {
	c, log, ticks := r.srv.c, r.srv.log, r.electionTicks()
	dur := func(n int) string { return (time.Duration(n) * r.tick()).String() }
	if len(r.cl.Members()) == 1 {
		log.info("etcdserver/server.go:483", "started as single-node; fast-forwarding election ticks", "local-member-id", r.id().String(), "forward-ticks", ticks-1,
			"forward-duration", dur(ticks-1), "election-ticks", ticks, "election-timeout", dur(ticks))
		r.advance(ticks - 1)
		r.wake()
		return
	}
	if !c.tickAdvance {
		log.info("etcdserver/server.go:496", "skipping initial election tick advance", "election-ticks", ticks)
		return
	}
	log.info("etcdserver/server.go:499", "starting initial election tick advance", "election-ticks", ticks)
	for range int(5 * time.Second / (50 * time.Millisecond)) {
		if r.p.Sleep(50*time.Millisecond) != nil || r.over() {
			return
		}
		if n := r.tr.ActivePeers(); n > 1 {
			log.info("etcdserver/server.go:522", "initialized peer connections; fast-forwarding election ticks", "local-member-id", r.id().String(), "forward-ticks", ticks-2,
				"forward-duration", dur(ticks-2), "election-ticks", ticks, "election-timeout", dur(ticks), "active-remote-members", n)
			r.advance(ticks - 2)
			r.wake()
			return
		}
	}
}

// publish tells the cluster this member's name and client URLs, until it has agreed.
func (r *replica) publish() {
	c, log := r.srv.c, r.srv.log
	fields := []any{"local-member-id", r.id().String(), "local-member-attributes", fmt.Sprintf("{Name:%s ClientURLs:%v}", c.name, c.advertiseClient.strings())}
	for !r.over() {
		ctx, cancel := context.WithTimeout(r.p.Context(), r.timeout())
		_, err := r.request(ctx, &pb.InternalRaftRequest{ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{Member_ID: uint64(r.id()),
			MemberAttributes: &membershippb.Attributes{Name: c.name, ClientUrls: c.advertiseClient.strings()}}})
		cancel()
		if err == nil {
			log.info("etcdserver/server.go:1820", "published local member to cluster through raft", append(slices.Clone(fields),
				"cluster-id", r.cl.ID().String(), "publish-timeout", r.timeout())...)
			close(r.published)
			return
		}
		if r.over() {
			break
		}
		log.warn("etcdserver/server.go:1830", "failed to publish local member to cluster through raft", append(slices.Clone(fields),
			"publish-timeout", r.timeout(), "error", rpctypes.ErrorDesc(err))...)
	}
	log.warn("etcdserver/server.go:1803", "stopped publish because server is stopping", append(fields, "publish-timeout", r.timeout())...)
}

// grow is the replica of a server that is about to be one of several. The only member of a cluster has none: its log begins
// here, at the index that it has told so far, and it goes on leading in its term.
func (srv *Server) grow(peerURLs []string) (*replica, error) {
	srv.growing.Lock()
	defer srv.growing.Unlock()
	if rep := srv.several(); rep != nil {
		return rep, nil
	}
	if _, err := peerRoundTripper(srv.p, srv.c, 0); err != nil {
		return nil, err // it cannot speak to others
	}
	s := srv.store
	s.mu.Lock()
	for _, m := range s.meta.Members {
		for _, u := range m.PeerURLs {
			if slices.Contains(peerURLs, u) {
				s.mu.Unlock()
				return nil, rpctypes.ErrGRPCPeerURLExist
			}
		}
	}
	self, term, index := s.meta.MemberID, s.meta.Term, s.applied()
	r := newReplication(index, term, raftpb.ConfState{Voters: []uint64{self}}, raftpb.HardState{Term: term, Vote: self, Commit: index})
	r.lead = self
	s.raft = r
	cl := clusterOf(srv.log.upstream(srv.p), s)
	s.mu.Unlock()
	rep := newReplica(srv, cl, nil, true)
	rep.carryOn()
	rep.setPublished(true)
	close(rep.published)
	if err := rep.connect(); err != nil {
		s.mu.Lock()
		s.raft = nil
		s.mu.Unlock()
		return nil, err
	}
	srv.replica.Store(rep)
	rep.begin()
	return rep, nil
}

// expired has the cluster revoke a lease that has expired.
func (srv *Server) expired(lease int64) {
	srv.p.Go(func() {
		rep := srv.several()
		if rep == nil {
			return
		}
		ctx, cancel := context.WithTimeout(srv.p.Context(), srv.timeout())
		defer cancel()
		if _, err := rep.request(ctx, &pb.InternalRaftRequest{LeaseRevoke: &pb.LeaseRevokeRequest{ID: lease}}); err != nil && !rep.over() {
			srv.log.warn("etcdserver/server.go:900", "failed to revoke lease", "lease-id", fmt.Sprintf("%016x", lease), "error", rpctypes.ErrorDesc(err))
		}
	})
}

// wasPublished says whether the member served clients before a freeze.
func (r *replica) wasPublished() bool {
	r.s.mu.RLock()
	defer r.s.mu.RUnlock()
	return r.s.raft.published
}

func (r *replica) setPublished(yes bool) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.raft.published = yes
}

// clusterVersion is the version that all members understand, "" before it has been decided.
func (srv *Server) clusterVersion() string {
	srv.store.mu.RLock()
	defer srv.store.mu.RUnlock()
	return srv.store.meta.ClusterVersion
}
