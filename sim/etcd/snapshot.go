package etcd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/raft/v3/raftpb"

	"ckadrill/sim/kernel"
)

// A database file is one of two things. In a running member's data directory it names the store and the revision up to
// which it was written, since the store itself is the world's state. A snapshot that was taken over the network holds the
// data, and as etcd's does ends in their SHA-256 behind a multiple of 512 bytes.
const (
	databaseMagic = "ckadrill etcd database\n"
	snapshotMagic = "ckadrill etcd snapshot\n"
	snapshotBlock = 512
)

// ErrInvalidDatabase is bbolt's error for a file that is no database.
var ErrInvalidDatabase = errors.New("invalid database")

// databaseFile is the content of a member's database file.
func databaseFile(store string, rev int64) []byte {
	return fmt.Appendf(nil, "%sstore %s\nrevision %d\n", databaseMagic, store, rev)
}

func parseDatabaseFile(b []byte) (store string, rev int64, err error) {
	rest, ok := strings.CutPrefix(string(b), databaseMagic)
	l := strings.SplitN(rest, "\n", 3)
	if !ok || len(l) < 3 {
		return "", 0, ErrInvalidDatabase
	}
	store, ok1 := strings.CutPrefix(l[0], "store ")
	n, ok2 := strings.CutPrefix(l[1], "revision ")
	rev, err = strconv.ParseInt(n, 10, 64)
	if !ok1 || !ok2 || err != nil {
		return "", 0, ErrInvalidDatabase
	}
	return store, rev, nil
}

type snapshotHead struct {
	Store  frozenStore
	Leases []frozenLease
	Length int // of the versions that follow
}

// Snapshot is the database as "etcdctl snapshot save" receives it, with the checksum at its end.
func (s *Store) Snapshot() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.snapshot()
}

func (s *Store) snapshot() []byte {
	var all []*mvccpb.KeyValue
	for _, b := range s.blocks {
		for _, kv := range b.kvs {
			if kv.ModRevision > s.compact || s.visible(kv) {
				all = append(all, kv)
			}
		}
	}
	data := encodeVersions(nil, all)
	head := mustEncode(snapshotHead{Store: frozenStore{s.rev, s.compact, s.compact, s.size.file, s.meta}, Leases: s.frozenLeases(), Length: len(data)})
	b := append([]byte(snapshotMagic), binary.AppendUvarint(nil, uint64(len(head)))...)
	b = append(append(b, head...), data...)
	if n := len(b) % snapshotBlock; n != 0 {
		b = append(b, make([]byte, snapshotBlock-n)...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// visible says whether a version at or below the compacted revision can still be read there.
func (s *Store) visible(kv *mvccpb.KeyValue) bool {
	e := s.find(kv.Key)
	return e != nil && e.at(s.compact) == kv
}

// Database is what a database file holds: a snapshot, or a member's own database.
type Database struct {
	Revision  int64 // the latest revision of any key
	TotalKeys int   // versions, as "etcdutl snapshot status" counts them
	TotalSize int64 // bytes that the file would take
	Hash      uint32
	Version   string // storage version, "" if it has none

	head snapshotHead
	all  []*mvccpb.KeyValue
}

// Errors of the integrity check of a snapshot, in etcdutl's words.
var (
	ErrNoHash   = errors.New("snapshot missing hash but --skip-hash-check=false")
	errBadFrame = ErrInvalidDatabase
)

// ReadDatabase reads a database file's content. check wants the checksum that a snapshot has and a member's file lacks.
func (ss *Stores) ReadDatabase(content []byte, check bool) (*Database, error) {
	hashed := len(content)%snapshotBlock == sha256.Size
	switch {
	case check && !hashed:
		return nil, ErrNoHash
	case check:
		body := content[:len(content)-sha256.Size]
		if got, want := sha256.Sum256(body), content[len(body):]; !bytes.Equal(got[:], want) {
			return nil, fmt.Errorf("expected sha256 %v, got %v", want, got[:])
		}
	}
	if bytes.HasPrefix(content, []byte(databaseMagic)) {
		id, rev, err := parseDatabaseFile(content)
		if err != nil {
			return nil, err
		}
		s := ss.Find(id)
		if s == nil {
			return nil, ErrForgotten
		}
		s.mu.RLock()
		older := rev < s.rev
		s.mu.RUnlock()
		if older {
			if s, err = ss.fork(s, rev); err != nil {
				return nil, err
			}
			defer ss.drop(s)
		}
		content = s.Snapshot()
	}
	return parseSnapshot(content)
}

func (ss *Stores) drop(s *Store) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.byID, s.id)
}

func parseSnapshot(b []byte) (*Database, error) {
	rest, ok := bytes.CutPrefix(b, []byte(snapshotMagic))
	if !ok {
		return nil, ErrInvalidDatabase
	}
	n, k := binary.Uvarint(rest)
	if k <= 0 || n > uint64(len(rest)-k) {
		return nil, errBadFrame
	}
	d := &Database{}
	if err := kernel.Decode(rest[k:k+int(n)], &d.head); err != nil {
		return nil, errBadFrame
	}
	rest = rest[k+int(n):]
	if d.head.Length < 0 || d.head.Length > len(rest) {
		return nil, errBadFrame
	}
	var err error
	if d.all, err = decodeVersions(rest[:d.head.Length]); err != nil {
		return nil, errBadFrame
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for _, kv := range d.all {
		sum(h, kv)
		d.TotalSize += sizeOf(kv)
	}
	d.Revision, d.TotalKeys, d.Hash = d.head.Store.Revision, len(d.all), h.Sum32()
	d.TotalSize = max(d.head.Store.File, emptyFile)
	if d.head.Store.Meta.ClusterVersion != "" {
		d.Version = storageVersion
	}
	return d, nil
}

// replace makes the store hold what a snapshot holds; only who the member is stays. Watchers read on in the new history. The
// lock is held.
func (s *Store) replace(d *Database) error {
	s.watchers.reread(s.rev)
	s.tree, s.blocks, s.size = newTree(), nil, sizes{}
	s.leases.byID = map[int64]*lease{}
	self := s.meta.MemberID
	s.meta = d.head.Store.Meta.clone()
	s.meta.MemberID = self
	return s.fill(d.head.Store, d.head.Leases, d.all)
}

// RestoreOptions are those of "etcdutl snapshot restore".
type RestoreOptions struct {
	Name            string
	Members         []Member // the new cluster; ids are computed
	Token           string
	BumpRevision    uint64
	MarkCompacted   bool
	WALDir, DataDir string
}

// Restore makes a store of a database's keys in a new cluster, and the content of the files of its data directory.
func (ss *Stores) Restore(d *Database, o RestoreOptions) (*Store, error) {
	s := ss.New()
	f := d.head.Store
	f.Meta = meta{Term: 1}
	f.Revision += int64(o.BumpRevision)
	if o.MarkCompacted {
		f.Compacted = f.Revision
	}
	s.meta = f.Meta
	all := make([]*mvccpb.KeyValue, len(d.all))
	for i, kv := range d.all {
		c := *kv
		all[i] = &c
	}
	if err := s.fill(f, d.head.Leases, all); err != nil {
		ss.drop(s)
		return nil, err
	}
	var self uint64
	for i := range o.Members {
		m := &o.Members[i]
		m.ID = MemberID(m.PeerURLs, o.Token)
		if m.Name == o.Name {
			self = m.ID
		}
	}
	s.found(self, o.Members)
	if len(o.Members) > 1 {
		s.foundSeveral()
	}
	return s, nil
}

// foundSeveral gives a member of a new cluster of several the log that "etcdutl snapshot restore" writes: that the members were
// added is all that has been agreed on.
func (s *Store) foundSeveral() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var conf raftpb.ConfState
	for _, m := range s.meta.Members {
		conf.Voters = append(conf.Voters, m.ID)
	}
	n := uint64(len(conf.Voters))
	s.raft = newReplication(n, 1, conf, raftpb.HardState{Term: 1, Vote: conf.Voters[0], Commit: n})
}
