package etcd

import (
	"sort"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// blockRevisions is how many revisions share a block. A block is the unit of a freeze: a write changes the last one only,
// and forgetting old versions those that held them.
const blockRevisions = 32

// block holds the versions that were written in its revisions and are still kept, in the order of writing.
type block struct {
	number int64 // revision / blockRevisions
	stamp  uint64
	kvs    []*mvccpb.KeyValue
}

func (s *Store) append(kvs []*mvccpb.KeyValue) {
	n := kvs[0].ModRevision / blockRevisions
	if len(s.blocks) == 0 || s.blocks[len(s.blocks)-1].number != n {
		s.blocks = append(s.blocks, &block{number: n})
	}
	b := s.blocks[len(s.blocks)-1]
	b.kvs = append(b.kvs, kvs...)
	b.stamp = s.stamp
}

// history calls f for each kept version from a revision on, in the order of writing, until f returns false.
func (s *Store) history(from int64, f func(*mvccpb.KeyValue) bool) {
	i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].number >= from/blockRevisions })
	for ; i < len(s.blocks); i++ {
		kvs := s.blocks[i].kvs
		j := sort.Search(len(kvs), func(j int) bool { return kvs[j].ModRevision >= from })
		for ; j < len(kvs); j++ {
			if !f(kvs[j]) {
				return
			}
		}
	}
}

// prune forgets every version that no read at floor or later can see.
func (s *Store) prune(floor int64) {
	if floor <= s.floor {
		return
	}
	s.floor = floor
	s.touch()
	dead := map[*mvccpb.KeyValue]bool{}
	var empty []*entry
	s.tree.Ascend(func(e *entry) bool {
		keep := 0 // the newest version that was visible at floor
		for i, v := range e.versions {
			if v.ModRevision <= floor {
				keep = i
			}
		}
		if v := e.versions[keep]; v.ModRevision <= floor && tombstone(v) {
			keep++
		}
		if keep == 0 {
			return true
		}
		for _, v := range e.versions[:keep] {
			dead[v] = true
			s.size.remove(v)
		}
		e.versions = append([]*mvccpb.KeyValue(nil), e.versions[keep:]...)
		if len(e.versions) == 0 {
			empty = append(empty, e)
		}
		return true
	})
	for _, e := range empty {
		s.tree.Delete(e)
	}
	kept := s.blocks[:0]
	for _, b := range s.blocks {
		kvs := make([]*mvccpb.KeyValue, 0, len(b.kvs))
		for _, v := range b.kvs {
			if !dead[v] {
				kvs = append(kvs, v)
			}
		}
		if len(kvs) != len(b.kvs) {
			b.kvs, b.stamp = kvs, s.stamp
		}
		if len(kvs) > 0 {
			kept = append(kept, b)
		}
	}
	clear(s.blocks[len(kept):])
	s.blocks = kept
	s.leases.forget(s)
}
