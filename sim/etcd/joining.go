package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"ckadrill/sim/network"
)

// How a member of several begins: as one of those that found a cluster, or as one that was added to a cluster and asks its
// members who they are (etcdserver.bootstrapNewClusterNoWAL, bootstrapExistingClusterNoWAL).

const (
	// bootstrapTimeout is how long a new member asks the others whether it is one of theirs already.
	bootstrapTimeout = time.Second
	// membersTimeout is how long a joining one waits for an answer.
	membersTimeout = 10 * time.Second
	// resolveTimeout is how long names in peer URLs are looked up.
	resolveTimeout = 30 * time.Second
	// maxLearners is --max-learners.
	maxLearners = 1
)

// founding is what a bootstrap found out for the server that is going to be.
type founding struct {
	cl      *membership.RaftCluster
	remotes []*membership.Member // of a cluster that is joined
	peers   []raft.Peer          // of a cluster that is founded
}

// bootstrapSeveral sets up the store of a member whose --initial-cluster has several members, or which joins a cluster.
func (g *program) bootstrapSeveral(s *Store, members []Member) error {
	c := g.c
	rt, err := peerRoundTripper(g.p, c, 0)
	if err != nil {
		return err
	}
	defer rt.CloseIdleConnections()
	urls := types.URLsMap{}
	for _, m := range members {
		us, err := types.NewURLs(m.PeerURLs)
		if err != nil {
			return err
		}
		urls[m.Name] = us
	}
	seen := map[string]bool{}
	for _, m := range members {
		for _, u := range m.PeerURLs {
			if seen[u] {
				return fmt.Errorf("initial cluster %s has duplicate url", urls)
			}
			seen[u] = true
		}
	}
	lg := g.log.upstream(g.p)
	cl, err := membership.NewClusterFromURLsMap(lg, c.token, urls, membership.WithMaxLearners(maxLearners))
	if err != nil {
		return err
	}
	g.founding = founding{cl: cl}
	local := cl.MemberByName(c.name)
	if c.clusterState == "new" {
		if g.bootstrapped(cl, local, rt) {
			return fmt.Errorf("member %s has already been bootstrapped", local.ID)
		}
		for _, id := range cl.MemberIDs() {
			b, err := json.Marshal(cl.Member(id))
			if err != nil {
				return err
			}
			g.founding.peers = append(g.founding.peers, raft.Peer{ID: uint64(id), Context: b})
		}
	} else {
		id, existing, err := g.askMembers(peerURLsOf(cl.Members(), c.name), rt, membersTimeout, true)
		if err != nil {
			return fmt.Errorf("cannot fetch cluster info from peer urls: %w", err)
		}
		if cl, err = g.assignIDs(id, cl.Members(), existing); err != nil {
			return fmt.Errorf("error validating peerURLs %s: %w", clusterText(id, existing), err)
		}
		local = cl.MemberByName(c.name)
		if !g.compatible(cl, local.ID, rt) {
			return errors.New("incompatible with current running cluster")
		}
		g.founding.cl, g.founding.remotes = cl, existing
	}
	g.log.info("etcdserver/bootstrap.go:101", "bootstrapping storage")
	g.wait(createWAL)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = meta{MemberID: uint64(local.ID), ClusterID: uint64(cl.ID())}
	s.raft = newReplication(0, 0, raftpb.ConfState{}, raftpb.HardState{})
	s.touch()
	cl.SetID(local.ID, cl.ID())
	cl.SetBackend(backend{s})
	g.log.info("etcdserver/bootstrap.go:109", "bootstrapping raft")
	g.log.info("etcdserver/bootstrap.go:499", "starting local member", "local-member-id", local.ID.String(), "cluster-id", cl.ID().String())
	g.log.info("etcdserver/server.go:312", "bootstrap successfully")
	return nil
}

// peerURLsOf are the peer URLs of all members but one.
func peerURLsOf(l []*membership.Member, but string) []string {
	var urls []string
	for _, m := range l {
		if m.Name != but {
			urls = append(urls, m.PeerURLs...)
		}
	}
	sort.Strings(urls)
	return urls
}

// bootstrapped says whether the other members know this one as one that has been started.
func (g *program) bootstrapped(cl *membership.RaftCluster, local *membership.Member, rt http.RoundTripper) bool {
	_, l, err := g.askMembers(peerURLsOf(cl.Members(), local.Name), rt, bootstrapTimeout, false)
	if err != nil {
		return false
	}
	i := slices.IndexFunc(l, func(m *membership.Member) bool { return m.ID == local.ID })
	return i >= 0 && len(l[i].ClientURLs) > 0
}

// fetch asks one peer something.
func fetch(ctx context.Context, rt http.RoundTripper, url string, timeout time.Duration) (*http.Response, []byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	c := &http.Client{Transport: rt, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, b, err
}

// askMembers asks peers for the members of their cluster; the first that answers is believed.
func (g *program) askMembers(urls []string, rt http.RoundTripper, timeout time.Duration, tell bool) (id types.ID, l []*membership.Member, err error) {
	warn := func(caller, msg string, fields ...any) {
		if tell {
			g.log.warn(caller, msg, fields...)
		}
	}
	for _, u := range urls {
		u += membersPath
		res, b, err := fetch(g.p.Context(), rt, u, timeout)
		if err != nil {
			warn("etcdserver/cluster_util.go:86", "failed to get cluster response", "address", u, "error", err)
			continue
		}
		l = nil
		if err := json.Unmarshal(b, &l); err != nil {
			warn("etcdserver/cluster_util.go:101", "failed to unmarshal cluster response", "address", u, "error", err)
			continue
		}
		if id, err = types.IDFromString(res.Header.Get(clusterIDField)); err != nil {
			warn("etcdserver/cluster_util.go:108", "failed to parse cluster ID", "address", u, "header", res.Header.Get(clusterIDField), "error", err)
			continue
		}
		if len(l) == 0 {
			return 0, nil, errors.New("failed to get raft cluster member(s) from the given URLs")
		}
		return id, l, nil
	}
	return 0, nil, errors.New("could not retrieve cluster information from the given URLs")
}

// assignIDs gives the members of the command line the ids that they have in the cluster, which must have the same peer URLs.
func (g *program) assignIDs(id types.ID, local, existing []*membership.Member) (*membership.RaftCluster, error) {
	if len(local) != len(existing) {
		return nil, errors.New("member count is unequal")
	}
	for _, e := range existing {
		var why error
		i := slices.IndexFunc(local, func(m *membership.Member) bool {
			why = g.sameURLs(e.PeerURLs, m.PeerURLs)
			return why == nil
		})
		if i < 0 {
			return nil, fmt.Errorf("PeerURLs: no match found for existing member (%v, %v), last resolver error (%w)", e.ID, e.PeerURLs, why)
		}
		local[i].ID = e.ID
	}
	return membership.NewClusterFromMembers(g.log.upstream(g.p), id, local, membership.WithMaxLearners(maxLearners)), nil
}

// sameURLs says why two lists of URLs are not the same; names and the addresses that they stand for are
// (netutil.URLStringsEqual).
func (g *program) sameURLs(a, b []string) error {
	if len(a) != len(b) {
		return fmt.Errorf("len(%q) != len(%q)", a, b)
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	if slices.Equal(a, b) {
		return nil
	}
	for _, l := range [][]string{a, b} {
		for i, u := range l {
			x, err := url.Parse(u)
			if err != nil {
				return fmt.Errorf("failed to parse string to URL: %q", u)
			}
			host := x.Hostname()
			if isIP(host) || host == "localhost" {
				continue
			}
			ctx, cancel := context.WithTimeout(g.p.Context(), resolveTimeout)
			addrs, err := network.Resolve(ctx, g.p, host)
			cancel()
			if err != nil {
				return err
			}
			x.Host = net.JoinHostPort(addrs[0].String(), x.Port())
			l[i] = x.String()
		}
		sort.Strings(l)
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("resolved urls: %q != %q", a[i], b[i])
		}
	}
	return nil
}

// clusterText is how etcd prints a cluster.
func clusterText(id types.ID, l []*membership.Member) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{ClusterID:%s Members:[", id)
	for i, m := range l {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%+v", m)
	}
	b.WriteString("] RemovedMemberIDs:[]}")
	return b.String()
}

// compatible asks the members for their versions; one that is too high or too low forbids to join.
func (g *program) compatible(cl *membership.RaftCluster, local types.ID, rt http.RoundTripper) bool {
	ok := false
	low, high := semver.Must(semver.NewVersion(version.MinClusterVersion)), semver.Must(semver.NewVersion(clusterVersion+".0"))
	for _, m := range cl.Members() {
		if m.ID == local {
			continue
		}
		v, err := g.askVersion(m, rt)
		if err != nil {
			g.log.warn("etcdserver/cluster_util.go:162", "failed to get version", "remote-member-id", m.ID.String(), "error", err)
			continue
		}
		c, err := semver.NewVersion(v.Cluster)
		switch {
		case err != nil:
			g.log.warn("etcdserver/cluster_util.go:261", "failed to parse cluster version of remote member", "remote-member-id", m.ID.String(), "remote-member-cluster-version", v.Cluster, "error", err)
		case c.LessThan(*low):
			g.log.warn("etcdserver/cluster_util.go:273", "cluster version of remote member is not compatible; too low", "remote-member-id", m.ID.String(),
				"remote-member-cluster-version", c.String(), "minimum-cluster-version-supported", low.String())
			return false
		case high.LessThan(*c):
			g.log.warn("etcdserver/cluster_util.go:283", "cluster version of remote member is not compatible; too high", "remote-member-id", m.ID.String(),
				"remote-member-cluster-version", c.String(), "minimum-cluster-version-supported", low.String())
			return false
		default:
			ok = true
		}
	}
	return ok
}

func (g *program) askVersion(m *membership.Member, rt http.RoundTripper) (*version.Versions, error) {
	return askVersion(g.p.Context(), g.log, m, rt, 5*time.Second+2*time.Duration(g.c.electionMs)*time.Millisecond)
}

// askVersion asks a member for its versions.
func askVersion(ctx context.Context, log *logger, m *membership.Member, rt http.RoundTripper, timeout time.Duration) (*version.Versions, error) {
	var last error
	for _, u := range m.PeerURLs {
		u += "/version"
		_, b, err := fetch(ctx, rt, u, timeout)
		if err != nil {
			log.warn("etcdserver/cluster_util.go:211", "failed to reach the peer URL", "address", u, "remote-member-id", m.ID.String(), "error", err)
			last = err
			continue
		}
		var v version.Versions
		if err := json.Unmarshal(b, &v); err != nil {
			log.warn("etcdserver/cluster_util.go:229", "failed to unmarshal response", "address", u, "remote-member-id", m.ID.String(), "error", err)
			last = err
			continue
		}
		return &v, nil
	}
	return nil, last
}

// restartSeveral is a bootstrap from a raft log that exists.
func (g *program) restartSeveral(s *Store) {
	log := g.log
	log.info("etcdserver/bootstrap.go:90", "Bootstrapping WAL from snapshot")
	g.wait(replayWAL)
	s.mu.Lock()
	defer s.mu.Unlock()
	id, cluster := types.ID(s.meta.MemberID), types.ID(s.meta.ClusterID)
	commit := s.raft.hard().Commit
	if g.c.forceNew {
		s.alonePlease()
		log.info("etcdserver/bootstrap.go:591", "forcing restart member", "cluster-id", cluster.String(), "local-member-id", id.String(), "wal-commit-index", commit, "commit-index", s.raft.hard().Commit)
	} else {
		log.info("etcdserver/bootstrap.go:599", "restarting local member", "cluster-id", cluster.String(), "local-member-id", id.String(), "commit-index", commit)
	}
	log.info("etcdserver/bootstrap.go:94", "bootstrapping cluster")
	log.info("etcdserver/bootstrap.go:101", "bootstrapping storage")
	cl := clusterOf(log.upstream(g.p), s)
	for _, m := range s.meta.Members {
		log.info("membership/cluster.go:605", "Detected member only in v3store but missing in v2store", "member", fmt.Sprintf("%+v", *membershipOf(m)))
	}
	g.founding = founding{cl: cl}
	recoverMembers(log, s, cl)
	log.info("etcdserver/bootstrap.go:109", "bootstrapping raft")
	log.info("etcdserver/server.go:312", "bootstrap successfully")
}

// clusterOf is upstream's view of the members that a store knows. Nobody else uses the store, or its lock is held.
func clusterOf(lg *zap.Logger, s *Store) *membership.RaftCluster {
	cl := membership.NewCluster(lg, membership.WithMaxLearners(maxLearners))
	cl.SetID(types.ID(s.meta.MemberID), types.ID(s.meta.ClusterID))
	cl.SetBackend(backend{s})
	cl.Lock()
	defer cl.Unlock()
	cl.UnsafeLoad()
	return cl
}

// recoverMembers reads the members from a store, whose lock is held (membership.RaftCluster.Recover, in the order of ids).
func recoverMembers(log *logger, s *Store, cl *membership.RaftCluster) {
	cl.Lock()
	cl.UnsafeLoad()
	cl.Unlock()
	if v := s.meta.ClusterVersion; v != "" {
		log.info("api/capability.go:76", "enabled capabilities for version", "cluster-version", v)
	}
	for _, m := range s.meta.Members {
		log.info("membership/cluster.go:297", "recovered/added member from store", "cluster-id", hexID(s.meta.ClusterID), "local-member-id", hexID(s.meta.MemberID),
			"recovered-remote-peer-id", hexID(m.ID), "recovered-remote-peer-urls", m.PeerURLs, "recovered-remote-peer-is-learner", m.Learner)
	}
	if v := s.meta.ClusterVersion; v != "" {
		log.info("membership/cluster.go:307", "set cluster version from store", "cluster-version", v)
	}
}

// alonePlease makes the member the only one (--force-new-cluster). The lock is held.
func (s *Store) alonePlease() {
	s.raft = s.raft.only(s.meta.MemberID, s.version)
	var own []Member
	for _, m := range s.meta.Members {
		if m.ID == s.meta.MemberID {
			m.Learner = false
			own = append(own, m)
		} else {
			s.meta.Removed = append(slices.Clone(s.meta.Removed), m.ID)
		}
	}
	s.meta.Members = own
	s.touch()
}
