package kernel

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
)

// Parts is frozen state: small pieces of plain data by name. A whole world's names begin with their holder's.
type Parts map[string][]byte

// Holder keeps state that must survive. Freeze puts all of it into the snapshot, in pieces small enough that an unchanged
// one costs nothing; Thaw gives a new holder the pieces back, under the same names, before any process is started.
type Holder interface {
	Freeze(s *Snapshot)
	Thaw(parts Parts) error
}

type namedHolder struct {
	name string
	h    Holder
}

// Hold makes a holder part of every freeze and thaw, under a name without a trailing slash ("machine/cka-w1").
func (w *World) Hold(name string, h Holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders = append(w.holders, namedHolder{name, h})
}

// Recorder remembers the last freeze, so that the next one encodes and reports only what has changed since.
type Recorder struct {
	seen map[string]seen
}

type seen struct {
	version uint64
	sum     [sha256.Size]byte
	round   int
}

// NewRecorder makes a recorder that has seen the given state, which may be nil.
func NewRecorder(parts Parts) *Recorder {
	r := &Recorder{seen: map[string]seen{}}
	for n, b := range parts {
		r.seen[n] = seen{sum: sha256.Sum256(b)}
	}
	return r
}

// Adopt tells the recorder that the world holds the state that it has seen, unchanged: what keeps its version need not be
// encoded by the next freeze. It is called right after [World.Thaw].
func (w *World) Adopt(r *Recorder) {
	w.mu.Lock()
	holders := append([]namedHolder(nil), w.holders...)
	w.mu.Unlock()
	s := &Snapshot{r: r, adopt: true}
	for _, h := range holders {
		s.prefix = h.name + "/"
		h.h.Freeze(s)
	}
}

// Delta is what changed between two freezes.
type Delta struct {
	Changed Parts
	Removed []string
}

// Apply changes parts to the state after the delta.
func (d Delta) Apply(parts Parts) {
	for _, n := range d.Removed {
		delete(parts, n)
	}
	for n, b := range d.Changed {
		parts[n] = b
	}
}

// Snapshot collects the parts of one freeze.
type Snapshot struct {
	r      *Recorder
	prefix string
	round  int
	delta  Delta
	adopt  bool
}

// Put adds a part. encode is called only if version is 0 or differs from the last freeze's, so version must change
// whenever the bytes would ([World.Version] serves).
func (s *Snapshot) Put(name string, version uint64, encode func() []byte) {
	name = s.prefix + name
	old, ok := s.r.seen[name]
	if s.adopt {
		if ok {
			old.version = version
			s.r.seen[name] = old
		}
		return
	}
	if ok && old.round == s.round {
		panic("kernel: part " + name + " put twice")
	}
	if ok && version != 0 && old.version == version {
		old.round = s.round
		s.r.seen[name] = old
		return
	}
	b := encode()
	sum := sha256.Sum256(b)
	if !ok || sum != old.sum {
		s.delta.Changed[name] = b
	}
	s.r.seen[name] = seen{version: version, sum: sum, round: s.round}
}

// Freeze collects what has changed since the recorder's last freeze. It is called while every goroutine of the bubble is
// blocked (synctest.Wait), so that all holders are seen at one instant.
func (w *World) Freeze(r *Recorder) Delta {
	w.mu.Lock()
	holders := append([]namedHolder(nil), w.holders...)
	w.mu.Unlock()
	round := 0
	for _, e := range r.seen {
		round = max(round, e.round)
	}
	s := &Snapshot{r: r, round: round + 1, delta: Delta{Changed: Parts{}}}
	for _, h := range holders {
		s.prefix = h.name + "/"
		h.h.Freeze(s)
	}
	for n, e := range r.seen {
		if e.round != s.round {
			s.delta.Removed = append(s.delta.Removed, n)
			delete(r.seen, n)
		}
	}
	sort.Strings(s.delta.Removed)
	return s.delta
}

// Thaw hands every holder its parts. Parts of no holder are an error: they would be lost silently.
func (w *World) Thaw(parts Parts) error {
	w.mu.Lock()
	holders := append([]namedHolder(nil), w.holders...)
	w.mu.Unlock()
	byHolder := map[string]Parts{}
	for n, b := range parts {
		owner := ""
		for _, h := range holders {
			if strings.HasPrefix(n, h.name+"/") && len(h.name) > len(owner) {
				owner = h.name
			}
		}
		if owner == "" {
			return fmt.Errorf("nothing in this world holds the state %q", n)
		}
		if byHolder[owner] == nil {
			byHolder[owner] = Parts{}
		}
		byHolder[owner][n[len(owner)+1:]] = b
	}
	for _, h := range holders {
		if err := h.h.Thaw(byHolder[h.name]); err != nil {
			return fmt.Errorf("thaw %s: %w", h.name, err)
		}
	}
	return nil
}
