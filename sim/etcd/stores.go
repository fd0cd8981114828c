package etcd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"ckadrill/sim/kernel"
)

// Stores holds every store of a world, and knows which process serves which. It is the holder "etcd".
type Stores struct {
	w *kernel.World

	mu      sync.Mutex
	byID    map[string]*Store
	servers map[string]*Server // by the token that a server shows its clients
	// sessions remembers which store a process serves: it goes on with that one after a thaw, whatever has happened to the
	// files of its data directory.
	sessions map[string]string // "host/pid" -> store
	stamp    uint64
}

var worlds sync.Map // *kernel.World -> *Stores

// Register makes the world hold etcd's stores and provides the program "etcd".
func Register(w *kernel.World) *Stores {
	ss := &Stores{w: w, byID: map[string]*Store{}, servers: map[string]*Server{}, sessions: map[string]string{}}
	worlds.Store(w, ss)
	w.Hold("etcd", ss)
	w.Programs.Register("etcd", ss.main)
	return ss
}

// Of returns the stores of a world that [Register] was called for.
func Of(w *kernel.World) *Stores {
	if ss, ok := worlds.Load(w); ok {
		return ss.(*Stores)
	}
	return nil
}

// New makes an empty store.
func (ss *Stores) New() *Store {
	s := newStore(ss.w.UUID("etcd"), ss.w.Version)
	s.draw = ss.w.Random("etcd").Uint64
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.byID[s.id] = s
	return s
}

// Find returns a store by its id, or nil.
func (ss *Stores) Find(id string) *Store {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byID[id]
}

// ErrForgotten says that a copy of a data directory is too old: the store no longer knows its revision.
var ErrForgotten = errors.New("ckadrill no longer keeps the data of this old copy of a data directory")

// At returns a store as it was at a revision. It is the store itself if it still is at that revision and nobody serves it,
// else a copy that from then on lives a life of its own.
func (ss *Stores) At(id string, rev int64) (*Store, error) {
	s := ss.Find(id)
	if s == nil {
		return nil, ErrForgotten
	}
	s.mu.RLock()
	same := s.rev <= rev && s.owner == nil
	s.mu.RUnlock()
	if same {
		return s, nil
	}
	return ss.fork(s, rev)
}

func (ss *Stores) fork(s *Store, rev int64) (*Store, error) {
	c := ss.New()
	s.mu.RLock()
	defer s.mu.RUnlock()
	rev = min(rev, s.rev)
	if rev < s.floor {
		return nil, ErrForgotten
	}
	var all []*mvccpb.KeyValue
	used := map[int64]bool{}
	s.history(0, func(kv *mvccpb.KeyValue) bool {
		if kv.ModRevision > rev {
			return false
		}
		all = append(all, kv)
		used[kv.Lease] = true
		return true
	})
	leases := s.frozenLeases()
	for i := range leases {
		leases[i].Gone = leases[i].Gone && !used[leases[i].ID]
	}
	c.meta = s.meta.clone()
	c.meta.Alarms = nil
	if s.raft != nil {
		c.raft = s.raft.copyAt(rev, rev == s.rev, c.version)
	}
	err := c.fill(frozenStore{Revision: rev, Compacted: min(s.compact, rev), Floor: s.floor}, leases, all)
	return c, err
}

// server finds the running server that showed a client its token.
func (ss *Stores) server(token string) *Server {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.servers[token]
}

func sessionOf(p *kernel.Process) string { return fmt.Sprintf("%s/%d", p.Host().Name(), p.ID()) }

func (ss *Stores) opened(srv *Server) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.servers[srv.token] = srv
	ss.sessions[sessionOf(srv.p)] = srv.store.id
	ss.stamp = ss.w.Version()
}

func (ss *Stores) closed(srv *Server) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.servers, srv.token)
	delete(ss.sessions, sessionOf(srv.p))
	ss.stamp = ss.w.Version()
}

// resumed is the store that a process served before a freeze, nil if none.
func (ss *Stores) resumed(p *kernel.Process) *Store {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byID[ss.sessions[sessionOf(p)]]
}

// Freeze implements [kernel.Holder].
func (ss *Stores) Freeze(snap *kernel.Snapshot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	// The sessions are a map in "sessions", as long as there is one of them at most: several would be written in any order.
	// Then each is a part of its own.
	if ss.stamp != 0 && len(ss.sessions) <= 1 {
		snap.Put("sessions", ss.stamp, func() []byte { return mustEncode(ss.sessions) })
	} else {
		for _, p := range slices.Sorted(maps.Keys(ss.sessions)) {
			snap.Put("session/"+p, ss.stamp, func() []byte { return []byte(ss.sessions[p]) })
		}
	}
	ids := make([]string, 0, len(ss.byID))
	for id := range ss.byID {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		ss.byID[id].freeze("store/"+id+"/", snap)
	}
}

// Thaw implements [kernel.Holder].
func (ss *Stores) Thaw(parts kernel.Parts) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if b, ok := parts["sessions"]; ok {
		if err := kernel.Decode(b, &ss.sessions); err != nil {
			return fmt.Errorf("sessions: %w", err)
		}
		ss.stamp = ss.w.Version()
	}
	byStore := map[string]kernel.Parts{}
	for n, b := range parts {
		if p, ok := strings.CutPrefix(n, "session/"); ok {
			ss.sessions[p] = string(b)
			ss.stamp = ss.w.Version()
			continue
		}
		rest, ok := strings.CutPrefix(n, "store/")
		if !ok {
			continue
		}
		id, part, _ := strings.Cut(rest, "/")
		if byStore[id] == nil {
			byStore[id] = kernel.Parts{}
		}
		byStore[id][part] = b
	}
	for id, p := range byStore {
		s := newStore(id, ss.w.Version)
		s.draw = ss.w.Random("etcd").Uint64
		if err := s.thaw(p); err != nil {
			return fmt.Errorf("store %s: %w", id, err)
		}
		ss.byID[id] = s
	}
	return nil
}
