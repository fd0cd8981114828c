package etcd

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"ckadrill/sim/kernel"
)

// encodeVersions writes versions one after the other, each behind its length.
func encodeVersions(b []byte, kvs []*mvccpb.KeyValue) []byte {
	for _, kv := range kvs {
		n := kv.Size()
		b = binary.AppendUvarint(b, uint64(n))
		i := len(b)
		b = append(b, make([]byte, n)...)
		if _, err := kv.MarshalToSizedBuffer(b[i:]); err != nil {
			panic(err) // a buffer of the size that was asked for
		}
	}
	return b
}

func decodeVersions(b []byte) ([]*mvccpb.KeyValue, error) {
	var kvs []*mvccpb.KeyValue
	for len(b) > 0 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, fmt.Errorf("a version of a key is cut off")
		}
		kv := &mvccpb.KeyValue{}
		if err := kv.Unmarshal(b[k : k+int(n)]); err != nil {
			return nil, err
		}
		kvs = append(kvs, kv)
		b = b[k+int(n):]
	}
	return kvs, nil
}

// frozenStore is a store without its versions and leases.
type frozenStore struct {
	Revision, Compacted, Floor int64
	File                       int64
	Meta                       meta
}

type frozenLease struct {
	ID, TTL int64
	Expiry  time.Time
	Gone    bool
}

func (s *Store) frozenLeases() []frozenLease {
	var l []frozenLease
	for _, x := range s.leases.sorted() {
		l = append(l, frozenLease{x.id, x.ttl, x.expiry.UTC(), x.gone})
	}
	return l
}

func mustEncode(v any) []byte {
	b, err := kernel.Encode(v)
	if err != nil {
		panic(err) // only a type that gob cannot encode
	}
	return b
}

// freeze puts the store's parts: "meta", "leases" and a block of versions each.
func (s *Store) freeze(prefix string, snap *kernel.Snapshot) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap.Put(prefix+"meta", s.stamp, func() []byte {
		return mustEncode(frozenStore{s.rev, s.compact, s.floor, s.size.file, s.meta})
	})
	if s.leases.stamp != 0 {
		snap.Put(prefix+"leases", s.leases.stamp, func() []byte { return mustEncode(s.frozenLeases()) })
	}
	if s.raft != nil {
		s.raft.freeze(snap, prefix)
	}
	prefix += "block/"
	for _, b := range s.blocks {
		snap.Put(prefix+strconv.FormatInt(b.number, 10), b.stamp, func() []byte { return encodeVersions(nil, b.kvs) })
	}
}

func (s *Store) thaw(parts kernel.Parts) error {
	var f frozenStore
	if err := kernel.Decode(parts["meta"], &f); err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	s.meta = f.Meta
	var leases []frozenLease
	if b, ok := parts["leases"]; ok {
		if err := kernel.Decode(b, &leases); err != nil {
			return fmt.Errorf("leases: %w", err)
		}
		s.leases.stamp = s.version()
	}
	var err error
	if s.raft, err = thawReplication(parts, s.version); err != nil {
		return err
	}
	var numbers []int64
	for n := range parts {
		if n, ok := strings.CutPrefix(n, "block/"); ok {
			i, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				return fmt.Errorf("block %q: %w", n, err)
			}
			numbers = append(numbers, i)
		}
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	var all []*mvccpb.KeyValue
	for _, n := range numbers {
		kvs, err := decodeVersions(parts["block/"+strconv.FormatInt(n, 10)])
		if err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
		all = append(all, kvs...)
	}
	return s.fill(f, leases, all)
}

// fill makes the store hold versions, which are in the order of writing.
func (s *Store) fill(f frozenStore, leases []frozenLease, all []*mvccpb.KeyValue) error {
	s.rev, s.compact, s.floor = f.Revision, f.Compacted, f.Floor
	for _, l := range leases {
		s.leases.byID[l.ID] = &lease{id: l.ID, ttl: l.TTL, expiry: l.Expiry, gone: l.Gone, keys: map[string]bool{}}
		s.leases.stamp = s.version()
	}
	s.touch()
	last := int64(0)
	for i := 0; i < len(all); {
		j := i
		for ; j < len(all) && all[j].ModRevision == all[i].ModRevision; j++ {
			kv := all[j]
			e := s.find(kv.Key)
			if e == nil {
				e = &entry{key: kv.Key}
				s.tree.ReplaceOrInsert(e)
			}
			kv.Key = e.key
			s.leases.move(kv, e.live())
			e.versions = append(e.versions, kv)
			s.size.kept += sizeOf(kv)
		}
		if all[i].ModRevision <= last || all[i].ModRevision > s.rev {
			return fmt.Errorf("revision %d follows %d, the store's is %d", all[i].ModRevision, last, s.rev)
		}
		last = all[i].ModRevision
		s.append(all[i:j])
		i = j
	}
	s.size.compacted(s)
	s.size.file = f.File
	s.size.grow()
	return nil
}
