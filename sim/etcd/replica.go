package etcd

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/idutil"
	"go.etcd.io/etcd/pkg/v3/notify"
	httptypes "go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"ckadrill/sim/kernel"
)

// Limits of etcdserver.
const (
	maxSizePerMsg   = 512 * 1024
	maxInflightMsgs = 4096 / 8
	// compactEvery is after how many entries the log is cut off.
	compactEvery = 100
	// keptEntries is how many entries are kept for followers that fell behind, if --snapshot-catchup-entries does not say less. Its
	// default is 5000; here the log is a part of each frozen world, and who is further behind gets a snapshot.
	keptEntries = 1000
	// healthInterval is how long members must have been connected to count as healthy.
	healthInterval = 5 * time.Second
	// leaveDelay is how long a member that was removed goes on, to tell the others.
	leaveDelay = time.Second
	// releaseDelay is how long the log is not cut off after a snapshot was sent.
	releaseDelay = 30 * time.Second
)

// replica is the running part of a member of a cluster of several: upstream's raft over upstream's peer transport, with the
// store as the state machine. Like etcdserver it saves what raft wants saved, applies what the cluster has agreed on, and
// sends what raft wants sent.
type replica struct {
	srv    *Server
	s      *Store
	p      *kernel.Process
	zap    *zap.Logger
	cl     *membership.RaftCluster
	tr     *rafthttp.Transport
	peerRT http.RoundTripper
	self   types.ID
	ids    *idutil.Generator

	mute atomic.Bool // raft says nothing

	mu       sync.Mutex // guards node, and comes before the store's
	node     *raft.RawNode
	in       innerRaft
	stopped  bool
	received map[uint64][]byte // databases that came with snapshots, by index

	kick chan struct{}
	done chan struct{} // closed when it has stopped
	// published is closed when the cluster knows the member, which then serves clients.
	published   chan struct{}
	raftHandler http.Handler

	lead, committed, applied atomic.Uint64
	elected                  atomic.Int64 // when this member became the leader, Unix nanoseconds
	changes                  atomic.Uint64
	sending                  atomic.Int64 // snapshots

	leaderChanged, firstCommit *notify.Notifier
	appliedMore                *notify.Notifier
	waits                      waits
	reads                      reads
	streams                    ledStreams
}

// newReplica makes the replica of a server whose store has a raft log. peers are the members of a cluster that begins. A quiet
// one carries on, see [replica.carryOn]: its raft was there before.
func newReplica(srv *Server, cl *membership.RaftCluster, peers []raft.Peer, quiet bool) *replica {
	s := srv.store
	id := s.Header().MemberId
	r := &replica{srv: srv, s: s, p: srv.p, zap: srv.log.upstream(srv.p), cl: cl, self: types.ID(id), received: map[uint64][]byte{},
		ids:  idutil.NewGenerator(uint16(id), time.Now()),
		kick: make(chan struct{}, 1), done: make(chan struct{}), published: make(chan struct{}),
		leaderChanged: notify.NewNotifier(), firstCommit: notify.NewNotifier(), appliedMore: notify.NewNotifier()}
	r.reads.init()
	c := srv.c
	lg := srv.log.upstreamUnless(&r.mute, srv.p)
	r.mute.Store(quiet)
	// Upstream panics for nothing that a configuration or a log brings about; what it panics for ends the process.
	node, err := raft.NewRawNode(&raft.Config{ID: id, ElectionTick: r.electionTicks(), HeartbeatTick: 1, Storage: s.raft, Applied: s.raft.applied,
		MaxSizePerMsg: maxSizePerMsg, MaxInflightMsgs: maxInflightMsgs, CheckQuorum: true, PreVote: c.preVote, Logger: newRaftLogger(lg)})
	must(err)
	if len(peers) > 0 {
		must(node.Bootstrap(peers))
	}
	r.node, r.in = node, inner(node)
	r.applied.Store(s.raft.applied)
	r.committed.Store(s.raft.hard().Commit)
	return r
}

// carryOn makes the replica lead, or follow whom it followed, as it did before a freeze.
func (r *replica) carryOn() {
	lead := r.s.raft.lead
	switch {
	case lead == uint64(r.id()):
		r.in.lead()
	case lead != raft.None:
		follow(r.node, lead)
	}
	*r.in.elapsed = r.s.raft.waited
	r.lead.Store(lead)
	r.mute.Store(false)
}

func (r *replica) id() types.ID { return r.self }

func (r *replica) leads() bool { return r.lead.Load() == uint64(r.self) }

func (r *replica) tick() time.Duration { return time.Duration(r.srv.c.tickMs) * time.Millisecond }

func (r *replica) electionTicks() int { return int(r.srv.c.electionMs / r.srv.c.tickMs) }

func (r *replica) electionTimeout() time.Duration { return time.Duration(r.electionTicks()) * r.tick() }

func (r *replica) timeout() time.Duration { return r.srv.timeout() }

// draw is a number that depends on the world's seed, the member and what is drawn.
func (r *replica) draw(of uint64, below int) int {
	h := fnv.New64a()
	for _, v := range []uint64{r.p.World().Seed(), uint64(r.self), of} {
		for i := range 8 {
			h.Write([]byte{byte(v >> (8 * i))})
		}
	}
	x := h.Sum64()
	x ^= x >> 31
	return int(x % uint64(below))
}

// run ticks and handles what raft has ready until the replica stops.
func (r *replica) run() {
	// Members do not tick at the same instants.
	if r.p.Sleep(time.Duration(r.draw(0, int(r.tick())))) != nil {
		return
	}
	t := time.NewTicker(r.tick())
	defer t.Stop()
	for {
		r.handle()
		select {
		case <-t.C:
			// In a thawed world's warm-up no time passes for raft: nobody loses patience because his leader is not back yet.
			if !r.p.Resumed() || !r.p.World().Warming() {
				r.advance(1)
			}
		case <-r.kick:
		case <-r.done:
			return
		}
	}
}

func (r *replica) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// advance lets ticks pass. When a follower loses patience is drawn anew for each term.
func (r *replica) advance(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range n {
		if r.stopped {
			return
		}
		*r.in.timeout = r.electionTicks() + r.draw(r.node.BasicStatus().Term, r.electionTicks())
		r.node.Tick()
	}
	r.s.mu.Lock()
	r.s.raft.waited = *r.in.elapsed
	r.s.mu.Unlock()
}

// handle handles everything that raft has ready.
func (r *replica) handle() {
	for {
		msgs, then, ok := r.ready()
		if !ok {
			return
		}
		r.tr.Send(msgs)
		for _, f := range then {
			f()
		}
		r.appliedMore.Notify()
	}
}

func (r *replica) ready() (msgs []raftpb.Message, then []func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || !r.node.HasReady() {
		return nil, nil, false
	}
	rd := r.node.Ready()
	if rd.SoftState != nil {
		r.changed(rd.SoftState)
	}
	if n := len(rd.ReadStates); n > 0 {
		r.reads.arrived(rd.ReadStates[n-1])
	}
	then = r.keep(rd)
	msgs = r.outgoing(rd.Messages)
	r.node.Advance(rd)
	return msgs, then, true
}

// keep saves and applies what is ready.
func (r *replica) keep(rd raft.Ready) (then []func()) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !raft.IsEmptySnap(rd.Snapshot) {
		then = append(then, r.applySnapshot(rd.Snapshot.Metadata))
	}
	s.raft.save(rd.HardState, rd.Entries, s.version)
	if n := len(rd.CommittedEntries); n > 0 {
		r.committed.Store(rd.CommittedEntries[n-1].Index)
	}
	for _, e := range rd.CommittedEntries {
		if f := r.apply(e); f != nil {
			then = append(then, f)
		}
	}
	if first := s.raft.first(); r.sending.Load() == 0 && s.raft.applied > first+r.kept()+compactEvery {
		s.raft.compact(r.kept())
	}
	return then
}

func (r *replica) kept() uint64 { return min(r.srv.c.catchUp, keptEntries) }

// changed notes who leads now.
func (r *replica) changed(now *raft.SoftState) {
	old := r.lead.Swap(now.Lead)
	if old == now.Lead {
		return
	}
	term, id := r.node.BasicStatus().Term, r.id()
	switch {
	case now.Lead == raft.None:
		r.srv.log.raft("node.go:376", "raft.node: %s lost leader %x at term %d", id, old, term)
	case old == raft.None:
		r.srv.log.raft("node.go:370", "raft.node: %s elected leader %x at term %d", id, now.Lead, term)
	default:
		r.srv.log.raft("node.go:372", "raft.node: %s changed leader from %x to %x at term %d", id, old, now.Lead, term)
	}
	r.s.mu.Lock()
	r.s.raft.lead = now.Lead
	r.s.mu.Unlock()
	if now.Lead != uint64(id) {
		r.s.runLeases(false)
	} else {
		r.elected.Store(time.Now().UnixNano())
	}
	if now.Lead != raft.None {
		r.changes.Add(1)
		r.leaderChanged.Notify()
	}
}

// outgoing is raftNode.processMessages: what must not be sent is left out, and snapshots take another way.
func (r *replica) outgoing(l []raftpb.Message) []raftpb.Message {
	answered := false
	for i := len(l) - 1; i >= 0; i-- {
		m := &l[i]
		switch {
		case r.cl.IsIDRemoved(types.ID(m.To)):
			m.To = 0
		case m.Type == raftpb.MsgAppResp:
			if answered {
				m.To = 0
			}
			answered = true
		case m.Type == raftpb.MsgSnap:
			go r.sendSnapshot(*m)
			m.To = 0
		}
	}
	return l
}

// sendSnapshot sends a follower that is too far behind the whole database as it is now.
func (r *replica) sendSnapshot(m raftpb.Message) {
	db, at := r.s.snapshotAt()
	m.Snapshot = &raftpb.Snapshot{Metadata: at}
	x := snap.NewMessage(m, io.NopCloser(bytes.NewReader(db)), int64(len(db)))
	fields := []any{"from", r.id().String(), "to", types.ID(m.To).String(), "bytes", x.TotalSize, "size", humanSize(x.TotalSize)}
	began := time.Now()
	r.sending.Add(1)
	defer r.sending.Add(-1)
	r.tr.SendSnapshot(*x)
	r.srv.log.info("etcdserver/server.go:1854", "sending merged snapshot", fields...)
	select {
	case ok := <-x.CloseNotify():
		if ok {
			if r.p.Sleep(releaseDelay) != nil {
				return
			}
		}
		r.srv.log.info("etcdserver/server.go:1872", "sent merged snapshot", append(fields, "took", time.Since(began))...)
	case <-r.done:
		r.srv.log.warn("etcdserver/server.go:1875", "canceled sending merged snapshot; server stopping", fields...)
	}
}

// Process implements [rafthttp.Raft].
func (r *replica) Process(ctx context.Context, m raftpb.Message) error {
	switch {
	case r.cl.IsIDRemoved(types.ID(m.From)):
		r.srv.log.warn("etcdserver/server.go:718", "rejected Raft message from removed member", "local-member-id", r.id().String(), "removed-member-id", types.ID(m.From).String())
		return httptypes.NewHTTPError(http.StatusForbidden, "cannot process message from removed member")
	case m.To != uint64(r.id()):
		r.srv.log.warn("etcdserver/server.go:726", "rejected Raft message to mismatch member", "local-member-id", r.id().String(), "mismatch-member-id", types.ID(m.To).String())
		return httptypes.NewHTTPError(http.StatusForbidden, "cannot process message to mismatch member")
	case m.Type == raftpb.MsgProp:
		return r.underLeader(ctx, func(n *raft.RawNode) error { return n.Step(m) })
	}
	return r.with(func(n *raft.RawNode) error {
		n.Step(m) // its errors are for proposals and for answers from strangers
		return nil
	})
}

// with does something to raft.
func (r *replica) with(f func(n *raft.RawNode) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return rpctypes.ErrGRPCStopped
	}
	defer r.wake()
	return f(r.node)
}

// underLeader does something to raft as soon as there is a leader (raft.Node takes no proposals without).
func (r *replica) underLeader(ctx context.Context, f func(n *raft.RawNode) error) error {
	for {
		changed := r.leaderChanged.Receive()
		if r.lead.Load() != raft.None {
			return r.with(f)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.done:
			return rpctypes.ErrGRPCStopped
		}
	}
}

// IsIDRemoved implements [rafthttp.Raft].
func (r *replica) IsIDRemoved(id uint64) bool { return r.cl.IsIDRemoved(types.ID(id)) }

// ReportUnreachable implements [rafthttp.Raft].
func (r *replica) ReportUnreachable(id uint64) {
	r.with(func(n *raft.RawNode) error { n.ReportUnreachable(id); return nil })
}

// ReportSnapshot implements [rafthttp.Raft].
func (r *replica) ReportSnapshot(id uint64, status raft.SnapshotStatus) {
	r.with(func(n *raft.RawNode) error { n.ReportSnapshot(id, status); return nil })
}

// leave ends a member that has been removed, after a while.
func (r *replica) leave() {
	time.AfterFunc(leaveDelay, func() {
		select {
		case r.srv.failed <- errRemoved:
		default:
		}
	})
}

// stop ends the replica; nothing changes its store any more. The transport ends by itself.
func (r *replica) stop() {
	if r.halt() {
		go r.tr.Stop()
	}
}

// end ends the replica and then its transport, peer after peer.
func (r *replica) end() {
	if !r.halt() {
		return
	}
	peers := field[map[types.ID]rafthttp.Peer](reflect.ValueOf(r.tr), "peers")
	all := *peers
	for _, id := range slices.Sorted(maps.Keys(all)) {
		*peers = map[types.ID]rafthttp.Peer{id: all[id]}
		r.tr.Stop()
	}
	r.tr.Stop()
}

func (r *replica) halt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.stopped = true
	close(r.done)
	return true
}

// errRemoved ends a member that the others have removed.
var errRemoved = errors.New("the member has been permanently removed from the cluster")
