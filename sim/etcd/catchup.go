package etcd

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// A follower that is further behind than the leader's log reaches gets the whole database: the leader sends it to the path
// /raft/snapshot of the peer port, as a raft message with the database behind it.

// maxMessage is how long the message before a database may be, in bytes.
const maxMessage = 512 << 20

// snapshotAt is the database of a member with the place in the log that it stands for.
func (s *Store) snapshotAt() ([]byte, raftpb.SnapshotMetadata) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.snapshot(), raftpb.SnapshotMetadata{Index: s.raft.applied, Term: s.meta.Term, ConfState: s.raft.conf}
}

// receiveSnapshot is rafthttp's handler of snapshots; upstream's writes the database to the host.
func (r *replica) receiveSnapshot(w http.ResponseWriter, q *http.Request) {
	began := time.Now()
	if q.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("X-Etcd-Cluster-ID", r.cl.ID().String())
	if c := q.Header.Get("X-Etcd-Cluster-ID"); c != r.cl.ID().String() {
		r.srv.log.warn("rafthttp/http.go:502", "request cluster ID mismatch", "local-member-id", r.id().String(), "local-member-cluster-id", r.cl.ID().String(),
			"local-member-server-version", Version, "local-member-server-minimum-cluster-version", version.MinClusterVersion,
			"remote-peer-server-name", q.Header.Get("X-Server-From"), "remote-peer-server-version", q.Header.Get("X-Server-Version"),
			"remote-peer-server-minimum-cluster-version", q.Header.Get("X-Min-Cluster-Version"), "remote-peer-cluster-id", c)
		http.Error(w, "cluster ID mismatch", http.StatusPreconditionFailed)
		return
	}
	m, err := readMessage(q.Body)
	from := types.ID(m.From).String()
	if err != nil {
		r.srv.log.warn("rafthttp/http.go:226", "failed to decode Raft message", "local-member-id", r.id().String(), "remote-snapshot-sender-id", from, "error", err)
		http.Error(w, fmt.Sprintf("failed to decode raft message (%v)", err), http.StatusBadRequest)
		return
	}
	if m.Type != raftpb.MsgSnap || m.Snapshot == nil {
		r.srv.log.warn("rafthttp/http.go:242", "unexpected Raft message type", "local-member-id", r.id().String(), "remote-snapshot-sender-id", from, "message-type", m.Type.String())
		http.Error(w, "wrong raft message type", http.StatusBadRequest)
		return
	}
	index := m.Snapshot.Metadata.Index
	fields := []any{"local-member-id", r.id().String(), "remote-snapshot-sender-id", from, "incoming-snapshot-index", index}
	r.srv.log.info("rafthttp/http.go:258", "receiving database snapshot", append(slices.Clone(fields),
		"incoming-snapshot-message-size-bytes", m.Size(), "incoming-snapshot-message-size", humanSize(int64(m.Size())))...)
	db, err := io.ReadAll(q.Body)
	if err == nil {
		err = r.p.Files.WriteFile(r.p.Path(r.snapshotFile(index)), db, 0o600)
	}
	if err != nil {
		r.srv.log.warn("rafthttp/http.go:272", "failed to save incoming database snapshot", append(fields, "error", err)...)
		http.Error(w, fmt.Sprintf("failed to save KV snapshot (%v)", err), http.StatusInternalServerError)
		return
	}
	r.srv.log.info("snap/db.go:65", "saved database snapshot to disk", "path", r.snapshotFile(index), "bytes", len(db), "size", humanSize(int64(len(db))))
	r.srv.log.info("rafthttp/http.go:287", "received and saved database snapshot", append(fields,
		"incoming-snapshot-size-bytes", len(db), "incoming-snapshot-size", humanSize(int64(len(db))), "download-took", time.Since(began).String())...)
	r.mu.Lock()
	r.received[index] = db
	r.mu.Unlock()
	if err := r.Process(q.Context(), m); err != nil {
		http.Error(w, fmt.Sprintf("failed to process raft message (%v)", err), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *replica) snapshotFile(index uint64) string {
	return path.Join(r.srv.c.dataDir, "member", "snap", fmt.Sprintf("%016x.snap.db", index))
}

// readMessage reads a raft message behind its length.
func readMessage(r io.Reader) (m raftpb.Message, err error) {
	var n [8]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return m, err
	}
	size := binary.BigEndian.Uint64(n[:])
	if size > maxMessage {
		return m, fmt.Errorf("error limit exceeded")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return m, err
	}
	return m, m.Unmarshal(b)
}

// applySnapshot replaces the database by one that has been received. The replica's lock and the store's are held. The peers
// are changed after it.
func (r *replica) applySnapshot(m raftpb.SnapshotMetadata) (connect func()) {
	s, log := r.s, r.srv.log
	fields := []any{"current-snapshot-index", s.raft.first() - 1, "current-applied-index", s.raft.applied, "incoming-leader-snapshot-index", m.Index, "incoming-leader-snapshot-term", m.Term}
	log.info("etcdserver/server.go:1013", "applying snapshot", fields...)
	d, err := parseSnapshot(r.received[m.Index])
	clear(r.received)
	if err == nil {
		err = s.replace(d)
	}
	if err != nil {
		r.zap.Panic("failed to open snapshot backend", zap.Error(err))
	}
	r.p.Files.Remove(r.p.Path(r.snapshotFile(m.Index)))
	s.raft.restore(m)
	s.meta.Term = m.Term
	s.touch()
	log.info("etcdserver/raft.go:276", "applied incoming Raft snapshot", "snapshot-index", m.Index)
	log.info("etcdserver/server.go:1057", "applySnapshot: opened snapshot backend")
	log.info("etcdserver/server.go:1071", "restoring lease store")
	log.info("etcdserver/server.go:1075", "restored lease store")
	log.info("etcdserver/server.go:1078", "restoring mvcc store")
	log.info("mvcc/kvstore.go:408", "kvstore restored", "current-rev", s.rev)
	log.info("etcdserver/server.go:1086", "restored mvcc store", "consistent-index", m.Index)
	log.info("etcdserver/server.go:1106", "restoring alarm store")
	log.info("etcdserver/server.go:1097", "closing old backend file")
	log.info("etcdserver/server.go:1112", "restored alarm store")
	log.info("etcdserver/server.go:1115", "restoring auth store")
	log.info("etcdserver/server.go:1119", "restored auth store")
	log.info("etcdserver/server.go:1122", "restoring v2 store")
	log.info("etcdserver/server.go:1099", "closed old backend file")
	log.info("etcdserver/server.go:1131", "restored v2 store")
	log.info("etcdserver/server.go:1135", "restoring cluster configuration")
	old := r.others()
	recoverMembers(log, s, r.cl)
	log.info("etcdserver/server.go:1139", "restored cluster configuration")
	r.committed.Store(m.Index)
	r.applied.Store(m.Index)
	return func() {
		log.info("etcdserver/server.go:1140", "removing old peers from network")
		for _, m := range old {
			r.tr.RemovePeer(m.ID)
		}
		log.info("etcdserver/server.go:1145", "removed old peers from network")
		log.info("etcdserver/server.go:1146", "adding peers from new cluster configuration")
		for _, m := range r.others() {
			r.tr.AddPeer(m.ID, m.PeerURLs)
		}
		log.info("etcdserver/server.go:1155", "added peers from new cluster configuration")
		log.info("etcdserver/server.go:1021", "applied snapshot", fields...)
	}
}
