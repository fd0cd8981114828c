package etcd

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ckadrill/sim/kernel"
)

// replication is what a store that belongs to a member of a cluster of several keeps beside its keys: upstream's raft log, term
// and vote, and how far the log has been applied to the keys. It is guarded by the store's lock.
type replication struct {
	log     *raft.MemoryStorage
	applied uint64
	conf    raftpb.ConfState // at applied
	// lead and waited are what raft forgets when a process ends, and a thaw must not: whom the member follows, itself if it
	// leads, and how many ticks it has heard nothing.
	lead   uint64
	waited int
	// published says that the cluster knows the member as it runs now, so that it serves clients.
	published bool
	// revisions are the store's revisions after each entry of the log had been applied, for a copy of the data directory.
	revisions []int64
	stamps    map[uint64]uint64 // of the log's blocks
}

// entryBlock is how many entries of the log are frozen together. The log is cut off at such a limit only.
const entryBlock = 32

// newReplication is the state of a member whose log begins after an index.
func newReplication(index, term uint64, conf raftpb.ConfState, hard raftpb.HardState) *replication {
	r := &replication{log: raft.NewMemoryStorage(), applied: index, conf: conf, stamps: map[uint64]uint64{}}
	if index > 0 {
		must(r.log.ApplySnapshot(raftpb.Snapshot{Metadata: raftpb.SnapshotMetadata{Index: index, Term: term, ConfState: conf}}))
	}
	must(r.log.SetHardState(hard))
	return r
}

// must is for errors of the log in memory that only misuse brings about.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// InitialState implements [raft.Storage]: the log has been applied up to applied, so the configuration is the one there.
func (r *replication) InitialState() (raftpb.HardState, raftpb.ConfState, error) {
	hard, _, err := r.log.InitialState()
	return hard, r.conf, err
}

// Entries implements [raft.Storage].
func (r *replication) Entries(lo, hi, maxSize uint64) ([]raftpb.Entry, error) {
	return r.log.Entries(lo, hi, maxSize)
}

// Term implements [raft.Storage].
func (r *replication) Term(i uint64) (uint64, error) { return r.log.Term(i) }

// LastIndex implements [raft.Storage].
func (r *replication) LastIndex() (uint64, error) { return r.log.LastIndex() }

// FirstIndex implements [raft.Storage].
func (r *replication) FirstIndex() (uint64, error) { return r.log.FirstIndex() }

// Snapshot implements [raft.Storage].
func (r *replication) Snapshot() (raftpb.Snapshot, error) { return r.log.Snapshot() }

func (r *replication) first() uint64 {
	i, _ := r.log.FirstIndex()
	return i
}

func (r *replication) last() uint64 {
	i, _ := r.log.LastIndex()
	return i
}

func (r *replication) hard() raftpb.HardState {
	h, _, _ := r.log.InitialState()
	return h
}

// save keeps what raft wants to be kept before it goes on.
func (r *replication) save(hard raftpb.HardState, entries []raftpb.Entry, version func() uint64) {
	if !raft.IsEmptyHardState(hard) {
		must(r.log.SetHardState(hard))
	}
	if len(entries) == 0 {
		return
	}
	must(r.log.Append(entries))
	v := version()
	for b := entries[0].Index / entryBlock; b <= r.last()/entryBlock; b++ {
		r.stamps[b] = v
	}
	r.fitRevisions()
}

// fitRevisions makes revisions as long as the log.
func (r *replication) fitRevisions() {
	n := int(r.last() + 1 - r.first())
	for len(r.revisions) < n {
		r.revisions = append(r.revisions, 0)
	}
	r.revisions = r.revisions[:n]
}

// appliedTo notes that the log has been applied up to an index.
func (r *replication) appliedTo(index uint64, rev int64, version func() uint64) {
	r.applied = index
	if i := index - r.first(); index >= r.first() && i < uint64(len(r.revisions)) {
		r.revisions[i] = rev
		r.stamps[index/entryBlock] = version()
	}
}

// compact forgets all but the last entries that were applied, and lets raft take the rest for a snapshot.
func (r *replication) compact(keep uint64) {
	if r.applied <= keep {
		return
	}
	next := (r.applied - keep) / entryBlock * entryBlock // the first one that is kept
	if next < r.first()+entryBlock {
		return
	}
	_, err := r.log.CreateSnapshot(r.applied, &r.conf, nil)
	must(err)
	r.revisions = slices.Delete(r.revisions, 0, int(next-r.first()))
	must(r.log.Compact(next - 1))
	for b := range r.stamps {
		if b < next/entryBlock {
			delete(r.stamps, b)
		}
	}
}

// restore replaces everything by a snapshot that a leader has sent.
func (r *replication) restore(m raftpb.SnapshotMetadata) {
	must(r.log.ApplySnapshot(raftpb.Snapshot{Metadata: m}))
	r.applied, r.conf, r.revisions, r.stamps = m.Index, m.ConfState, nil, map[uint64]uint64{}
}

// copyAt is the state as it was when a revision was the store's latest, as far as the log reaches back.
func (r *replication) copyAt(rev int64, latest bool, version func() uint64) *replication {
	hard := r.hard()
	at := r.last()
	if !latest {
		at = r.applied
		for at >= r.first() && r.revisions[at-r.first()] > rev {
			at--
		}
		hard.Vote = 0
	}
	base := r.first() - 1
	baseTerm, _ := r.log.Term(base)
	c := newReplication(base, baseTerm, r.conf, raftpb.HardState{})
	c.conf, c.lead = r.conf, r.lead
	if at > base {
		entries, err := r.log.Entries(base+1, at+1, 1<<63)
		must(err)
		c.save(raftpb.HardState{}, entries, version)
		copy(c.revisions, r.revisions)
	}
	c.applied = min(r.applied, at)
	hard.Commit = min(hard.Commit, at)
	must(c.log.SetHardState(hard))
	return c
}

// only is the state without any other voter, and without what had not been agreed on.
func (r *replication) only(id uint64, version func() uint64) *replication {
	at := max(r.hard().Commit, r.applied)
	base := r.first() - 1
	baseTerm, _ := r.log.Term(base)
	hard := r.hard()
	hard.Commit = at
	conf := raftpb.ConfState{Voters: []uint64{id}}
	c := newReplication(base, baseTerm, conf, hard)
	if at > base {
		entries, err := r.log.Entries(base+1, at+1, 1<<63)
		must(err)
		c.save(raftpb.HardState{}, entries, version)
		copy(c.revisions, r.revisions)
	}
	c.applied = r.applied
	return c
}

// frozenReplication is a replication without its log.
type frozenReplication struct {
	Term, Vote, Commit  uint64
	Applied             uint64
	Conf                []byte
	Lead                uint64
	Waited              int
	Published           bool
	BaseIndex, BaseTerm uint64 // what the log begins after
	SnapIndex           uint64
	First, Last         uint64
}

func (r *replication) freeze(snap *kernel.Snapshot, prefix string) {
	first, last, hard := r.first(), r.last(), r.hard()
	waited := r.waited
	if waited <= 1 {
		waited = 0 // as always while a leader is heard
	}
	snap.Put(prefix+"raft", 0, func() []byte {
		f := frozenReplication{Term: hard.Term, Vote: hard.Vote, Commit: hard.Commit, Applied: r.applied, Lead: r.lead, Waited: waited, Published: r.published, BaseIndex: first - 1, First: first, Last: last}
		f.Conf, _ = r.conf.Marshal()
		f.BaseTerm, _ = r.log.Term(first - 1)
		s, _ := r.log.Snapshot()
		f.SnapIndex = s.Metadata.Index
		return mustEncode(f)
	})
	for b := first / entryBlock; first <= last && b <= last/entryBlock; b++ {
		snap.Put(prefix+"log/"+strconv.FormatUint(b, 10), r.stamps[b], func() []byte { return r.encodeBlock(max(first, b*entryBlock), min(last+1, (b+1)*entryBlock)) })
	}
}

// encodeBlock writes entries one after the other, each behind the store's revision after it and its length.
func (r *replication) encodeBlock(from, to uint64) []byte {
	entries, err := r.log.Entries(from, to, 1<<63)
	must(err)
	var b []byte
	for i, e := range entries {
		b = binary.AppendUvarint(b, uint64(r.revisions[from+uint64(i)-r.first()]))
		d, err := e.Marshal()
		must(err)
		b = binary.AppendUvarint(b, uint64(len(d)))
		b = append(b, d...)
	}
	return b
}

func decodeEntries(b []byte) (entries []raftpb.Entry, revisions []int64, err error) {
	for len(b) > 0 {
		rev, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, nil, fmt.Errorf("an entry is cut off")
		}
		n, j := binary.Uvarint(b[k:])
		if j <= 0 || n > uint64(len(b)-k-j) {
			return nil, nil, fmt.Errorf("an entry is cut off")
		}
		var e raftpb.Entry
		if err := e.Unmarshal(b[k+j : k+j+int(n)]); err != nil {
			return nil, nil, err
		}
		entries, revisions = append(entries, e), append(revisions, int64(rev))
		b = b[k+j+int(n):]
	}
	return entries, revisions, nil
}

// thawReplication is nil for a store that no cluster of several has.
func thawReplication(parts kernel.Parts, version func() uint64) (*replication, error) {
	head, ok := parts["raft"]
	if !ok {
		return nil, nil
	}
	var f frozenReplication
	if err := kernel.Decode(head, &f); err != nil {
		return nil, fmt.Errorf("raft: %w", err)
	}
	var conf raftpb.ConfState
	if err := conf.Unmarshal(f.Conf); err != nil {
		return nil, fmt.Errorf("raft: %w", err)
	}
	r := newReplication(f.BaseIndex, f.BaseTerm, conf, raftpb.HardState{Term: f.Term, Vote: f.Vote, Commit: f.Commit})
	r.applied, r.lead, r.waited, r.published = f.Applied, f.Lead, f.Waited, f.Published
	var blocks []uint64
	for n := range parts {
		if n, ok := strings.CutPrefix(n, "log/"); ok {
			b, err := strconv.ParseUint(n, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("raft log %q: %w", n, err)
			}
			blocks = append(blocks, b)
		}
	}
	slices.Sort(blocks)
	for _, b := range blocks {
		entries, revisions, err := decodeEntries(parts["log/"+strconv.FormatUint(b, 10)])
		if err != nil {
			return nil, fmt.Errorf("raft log %d: %w", b, err)
		}
		if len(entries) == 0 || entries[0].Index != r.last()+1 {
			return nil, fmt.Errorf("raft log %d does not follow entry %d", b, r.last())
		}
		must(r.log.Append(entries))
		r.revisions = append(r.revisions, revisions...)
		r.stamps[b] = version()
	}
	if r.last() != f.Last || r.first() != f.First {
		return nil, fmt.Errorf("raft log: %d to %d, should be %d to %d", r.first(), r.last(), f.First, f.Last)
	}
	if f.SnapIndex > f.BaseIndex {
		if _, err := r.log.CreateSnapshot(f.SnapIndex, &conf, nil); err != nil {
			return nil, fmt.Errorf("raft log: %w", err)
		}
	}
	return r, nil
}
