package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A watcher that keeps up is handed each change; one that does not reads history instead, and is told when that has been
// compacted under it. So no reader, however slow, makes the store keep more than its history.
const (
	watchQueue = 1024
	watchBatch = 1000
)

// ErrWatchClosed is returned by a watch that has been closed.
var ErrWatchClosed = errors.New("etcd: watch closed")

// CompactedError ends a watch whose next revision has been compacted.
type CompactedError struct{ Revision int64 }

func (e CompactedError) Error() string {
	return fmt.Sprintf("etcd: revisions before %d have been compacted", e.Revision)
}

// WatchOptions says what a watch reports.
type WatchOptions struct {
	Key, End []byte // as in a range request
	From     int64  // first revision of interest, 0 for what comes next
	PrevKV   bool
	NoPut    bool
	NoDelete bool
}

// Watch reports the changes of a range of keys.
type Watch struct {
	s      *Store
	o      WatchOptions
	group  *watchGroup
	wake   chan struct{}
	queue  []*mvccpb.Event // while synced
	synced bool
	next   int64 // the first revision that it has not been told of
	closed bool
}

type watchRange struct{ key, end string }

// watchGroup is the synced watchers of one range.
type watchGroup struct {
	r  watchRange
	ws []*Watch
}

type watcherSet struct {
	groups map[watchRange]*watchGroup
	order  []*watchGroup // of the groups, by range
	n      int
}

func (ws *watcherSet) place(r watchRange) int {
	return sort.Search(len(ws.order), func(i int) bool {
		o := ws.order[i].r
		return o.key > r.key || o.key == r.key && o.end >= r.end
	})
}

func (r watchRange) contains(key []byte) bool {
	switch r.end {
	case "":
		return string(key) == r.key
	case "\x00":
		return string(key) >= r.key
	}
	return string(key) >= r.key && string(key) < r.end
}

// Watch begins to watch. Close it, or it is kept for ever.
func (s *Store) Watch(o WatchOptions) *Watch {
	w := &Watch{s: s, o: o, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers.n++
	w.next = o.From
	if w.next <= 0 {
		w.next = s.rev + 1
	}
	if w.next > s.rev { // one of the future waits for it, also in a store that was restored to an older revision
		w.sync()
	}
	return w
}

// sync makes the watch one that is handed each change.
func (w *Watch) sync() {
	r := watchRange{string(w.o.Key), string(w.o.End)}
	ws := &w.s.watchers
	g := ws.groups[r]
	if g == nil {
		g = &watchGroup{r: r}
		ws.groups[r] = g
		ws.order = slices.Insert(ws.order, ws.place(r), g)
	}
	g.ws = append(g.ws, w)
	w.group, w.synced = g, true
}

func (w *Watch) unsync() {
	g := w.group
	for i, x := range g.ws {
		if x == w {
			g.ws = append(g.ws[:i], g.ws[i+1:]...)
			break
		}
	}
	if ws := &w.s.watchers; len(g.ws) == 0 {
		delete(ws.groups, g.r)
		i := ws.place(g.r)
		ws.order = slices.Delete(ws.order, i, i+1)
	}
	w.group, w.synced = nil, false
}

// reread makes watchers that were told of everything up to a revision read on in history.
func (ws *watcherSet) reread(told int64) {
	for _, g := range append([]*watchGroup(nil), ws.order...) {
		for _, w := range append([]*Watch(nil), g.ws...) {
			w.next = max(w.next, told+1)
			if len(w.queue) > 0 {
				w.next = w.queue[0].Kv.ModRevision
				w.queue = nil
			}
			w.unsync()
			w.signal()
		}
	}
}

// Close ends the watch.
func (w *Watch) Close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.s.watchers.n--
	if w.synced {
		w.unsync()
	}
	w.signal()
}

func (w *Watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// notify hands a committed change to the watchers. Watchers of equal options share the events.
func (ws *watcherSet) notify(c *change) {
	for _, g := range append([]*watchGroup(nil), ws.order...) {
		var plain, prev []*mvccpb.Event
		for i, kv := range c.kvs {
			if g.r.contains(kv.Key) {
				e := &mvccpb.Event{Kv: kv}
				if tombstone(kv) {
					e.Type = mvccpb.DELETE
				}
				plain = append(plain, e)
				p := *e
				p.PrevKv = c.old[i]
				prev = append(prev, &p)
			}
		}
		if plain == nil {
			continue
		}
		for _, w := range append([]*Watch(nil), g.ws...) {
			if c.rev < w.next {
				continue
			}
			events := plain
			if w.o.PrevKV {
				events = prev
			}
			if len(w.queue)+len(events) > watchQueue && len(w.queue) > 0 {
				w.next = w.queue[0].Kv.ModRevision
				w.queue = nil
				w.unsync()
			} else if w.o.NoPut || w.o.NoDelete {
				for _, e := range events {
					if w.wants(e) {
						w.queue = append(w.queue, e)
					}
				}
			} else {
				w.queue = append(w.queue, events...)
			}
			w.signal()
		}
	}
}

func (w *Watch) wants(e *mvccpb.Event) bool {
	if e.Type == mvccpb.DELETE {
		return !w.o.NoDelete
	}
	return !w.o.NoPut
}

// Next waits for changes. It returns them in the order of writing, those of one revision together, and the store's
// revision up to which nothing is missing. The error is a [CompactedError], [ErrWatchClosed] or the context's.
func (w *Watch) Next(ctx context.Context) ([]*mvccpb.Event, int64, error) {
	for {
		events, rev, err := w.take()
		if len(events) > 0 || err != nil {
			return events, rev, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Synced says whether the watch has reported everything so far, and the revision that this holds for.
func (w *Watch) Synced() (int64, bool) {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	return w.s.rev, w.synced && len(w.queue) == 0
}

func (w *Watch) take() ([]*mvccpb.Event, int64, error) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.closed {
		return nil, 0, ErrWatchClosed
	}
	if w.synced {
		q := w.queue
		w.queue = nil
		return q, s.rev, nil
	}
	if w.next < s.compact {
		return nil, 0, CompactedError{s.compact}
	}
	var events []*mvccpb.Event
	full := false
	r := watchRange{string(w.o.Key), string(w.o.End)}
	s.history(w.next, func(kv *mvccpb.KeyValue) bool {
		if len(events) >= watchBatch && kv.ModRevision != events[len(events)-1].Kv.ModRevision {
			full = true
			w.next = kv.ModRevision
			return false
		}
		if r.contains(kv.Key) {
			e := &mvccpb.Event{Kv: kv}
			if tombstone(kv) {
				e.Type = mvccpb.DELETE
			}
			if !w.wants(e) {
				return true
			}
			if w.o.PrevKV {
				e.PrevKv = s.before(kv)
			}
			events = append(events, e)
		}
		return true
	})
	if full {
		return events, events[len(events)-1].Kv.ModRevision, nil
	}
	w.next = s.rev + 1
	w.sync()
	return events, s.rev, nil
}

// before is the version that a version replaced, nil if the key did not exist or that version is no longer readable.
func (s *Store) before(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	e := s.find(kv.Key)
	if e == nil || kv.ModRevision-1 < s.compact {
		return nil
	}
	i := sort.Search(len(e.versions), func(i int) bool { return e.versions[i].ModRevision >= kv.ModRevision })
	if i == 0 || tombstone(e.versions[i-1]) {
		return nil
	}
	return e.versions[i-1]
}

// prefixEnd is the end of the range of keys that begin with a prefix.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}
