package etcd

import (
	"encoding/binary"
	"hash"
	"hash/crc32"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// keptHistory is how many bytes of compacted versions are still kept, so that a copy of the data directory that was taken
// before a compaction can be opened at its own revision.
const keptHistory = 4 << 20

// Compact makes the revisions below one unreadable.
func (s *Store) Compact(r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alone(); err != nil {
		return nil, err
	}
	return s.compactTo(r)
}

func (s *Store) compactTo(r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	switch {
	case r.Revision <= s.compact:
		return nil, rpctypes.ErrGRPCCompacted
	case r.Revision > s.rev:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compact = r.Revision
	s.size.compacted(s)
	s.touch()
	if s.owner != nil {
		s.owner.written()
	}
	for floor := s.floor; s.size.kept-s.size.inUse > keptHistory && floor < s.compact; {
		floor += (s.compact - floor + 1) / 2
		s.prune(floor)
	}
	return &pb.CompactionResponse{Header: s.header()}, nil
}

// versionOverhead is roughly what bbolt's page adds to a version: the revision as its key and the element's header.
const versionOverhead = 17 + 16

func sizeOf(kv *mvccpb.KeyValue) int64 { return int64(kv.Size()) + versionOverhead }

// sizes is what the store would take on disk, in bytes.
type sizes struct {
	kept  int64 // versions really kept
	inUse int64 // versions that a real etcd would still keep
	file  int64 // pages are given back to the file only, which shrinks when it is defragmented
}

// emptyFile is the size of a new database: a few pages of 4 KiB.
const emptyFile = 20480

func (z *sizes) add(kv *mvccpb.KeyValue) {
	n := sizeOf(kv)
	z.kept += n
	z.inUse += n
	z.grow()
}

func (z *sizes) remove(kv *mvccpb.KeyValue) { z.kept -= sizeOf(kv) }

// grow rounds as bbolt's pages do when they are filled to nine tenths.
func (z *sizes) grow() { z.file = max(z.file, z.pages()) }

func (z *sizes) pages() int64 { return (emptyFile + z.inUse*10/9 + 4095) &^ 4095 }

// compacted counts anew what is in use: each key's version at the compacted revision and all later ones.
func (z *sizes) compacted(s *Store) {
	z.inUse = 0
	s.tree.Ascend(func(e *entry) bool {
		for i, v := range e.versions {
			last := i+1 == len(e.versions)
			if v.ModRevision > s.compact || (last || e.versions[i+1].ModRevision > s.compact) && !tombstone(v) {
				z.inUse += sizeOf(v)
			}
		}
		return true
	})
}

// Size is what the database takes on disk and how much of it is in use, in bytes.
func (s *Store) Size() (file, inUse int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return max(s.size.file, emptyFile), s.size.pages()
}

// Defragment gives unused pages back.
func (s *Store) Defragment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size.file = s.size.pages()
	s.touch()
}

// HashKV is a checksum over every readable version up to a revision (0: the latest), which is equal on members that
// agree. Its value is this store's own, not bbolt's.
func (s *Store) HashKV(rev int64) (*pb.HashKVResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.canRead(rev, s.rev); err != nil {
		return nil, err
	}
	if rev == 0 {
		rev = s.rev
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	s.tree.Ascend(func(e *entry) bool {
		for i, v := range e.versions {
			next := i+1 < len(e.versions) && e.versions[i+1].ModRevision <= s.compact
			if v.ModRevision <= rev && !next && !(tombstone(v) && v.ModRevision <= s.compact) {
				sum(h, v)
			}
		}
		return true
	})
	return &pb.HashKVResponse{Header: s.header(), Hash: h.Sum32(), CompactRevision: max(s.compact, -1), HashRevision: rev}, nil
}

func sum(h hash.Hash, kv *mvccpb.KeyValue) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(kv.ModRevision))
	h.Write(b[:])
	h.Write(kv.Key)
	h.Write(kv.Value)
}

// Sized is a request that can be too large or need room.
type sized interface{ Size() int }

// room refuses what has no place: a request that is too large, or any while the NOSPACE alarm is raised. A write that would
// exceed the quota raises it, as etcd's quota applier does.
func (s *Store) room(r sized) error {
	quota, limit := int64(DefaultQuota), int(DefaultMaxRequestBytes)
	if s.owner != nil {
		quota, limit = s.owner.quota(), s.owner.maxRequestBytes()
	}
	if r.Size() > limit {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	if s.meta.alarmed(pb.AlarmType_NOSPACE) {
		return rpctypes.ErrGRPCNoSpace
	}
	if s.over(r, quota) {
		s.meta.raise(s.meta.MemberID, pb.AlarmType_NOSPACE)
		s.touch()
		if s.owner != nil {
			s.owner.alarmRaised(pb.AlarmType_NOSPACE)
		}
		return rpctypes.ErrGRPCNoSpace
	}
	return nil
}

// over says whether a request would exceed a quota.
func (s *Store) over(r sized, quota int64) bool {
	return quota > 0 && max(s.size.file, emptyFile)+int64(r.Size()) >= quota
}
