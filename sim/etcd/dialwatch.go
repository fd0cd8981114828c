package etcd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// directWatch is etcd's Watcher without a connection. Upstream's cannot be used in a simulated world at all: it waits on a
// channel that is made when the host process starts, so it would hold time for ever.
type directWatch struct {
	c  *Client
	mu sync.Mutex
	// watches are those that run, by the stream that upstream would put them on: progress is requested for a stream.
	watches map[string]map[*clientWatch]bool
}

type clientWatch struct {
	progress chan struct{}
}

// streamKey is upstream's: watches whose contexts carry the same metadata share a stream.
func streamKey(ctx context.Context) string {
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		return fmt.Sprintf("%+v", map[string][]string(md))
	}
	return ""
}

// settings are the options of a watch that clientv3.Op does not export. They are read by reflection: the options
// themselves are functions over Op, so there is no other way to see them.
type settings struct{ prevKV, progress, created, noPut, noDelete bool }

func settingsOf(op clientv3.Op) settings {
	v := reflect.ValueOf(op)
	f := func(name string) bool { return v.FieldByName(name).Bool() }
	return settings{f("prevKV"), f("progressNotify"), f("createdNotify"), f("filterPut"), f("filterDelete")}
}

func (d *directWatch) add(key string, w *clientWatch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watches[key] == nil {
		d.watches[key] = map[*clientWatch]bool{}
	}
	d.watches[key][w] = true
}

func (d *directWatch) remove(key string, w *clientWatch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watches[key], w)
	if len(d.watches[key]) == 0 {
		delete(d.watches, key)
	}
}

// Watch reports changes on a channel that is closed when ctx ends or the watch is cancelled. When the server goes away it
// waits for the next and goes on where it was, as upstream's does.
func (d *directWatch) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet(key, opts...)
	x := settingsOf(op)
	o := WatchOptions{Key: op.KeyBytes(), End: op.RangeBytes(), From: op.Rev(), PrevKV: x.prevKV, NoPut: x.noPut, NoDelete: x.noDelete}
	if len(o.Key) == 0 {
		o.Key = []byte{0}
	}
	out := make(chan clientv3.WatchResponse, 1)
	cw := &clientWatch{progress: make(chan struct{}, 1)}
	id := streamKey(ctx)
	d.add(id, cw)
	go func() {
		defer close(out)
		defer d.remove(id, cw)
		send := func(r clientv3.WatchResponse) bool {
			select {
			case out <- r:
				return true
			case <-ctx.Done():
			case <-d.c.Ctx().Done():
			}
			return false
		}
		created := false
		for {
			srv, err := d.c.wait(ctx)
			if err != nil {
				return
			}
			run := watchRun{d: d, srv: srv, o: &o, settings: x, w: cw, send: send, created: &created}
			if !run.until(ctx) {
				return
			}
		}
	}()
	return out
}

// watchRun is a watch on one server.
type watchRun struct {
	d        *directWatch
	srv      *Server
	o        *WatchOptions
	settings settings
	w        *clientWatch
	send     func(clientv3.WatchResponse) bool
	created  *bool
}

// until reports until the server is gone (true: try the next) or the watch has ended.
func (r watchRun) until(ctx context.Context) bool {
	s := r.srv.store
	watch := s.Watch(*r.o)
	defer watch.Close()
	if r.o.From <= 0 {
		r.o.From = s.Revision() + 1
	}
	if r.settings.created && !*r.created {
		*r.created = true
		if !r.send(clientv3.WatchResponse{Header: *s.Header(), Created: true}) {
			return false
		}
	}
	wait, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.srv.p.Context(), stop)()
	defer context.AfterFunc(r.d.c.Ctx(), stop)()
	var tick <-chan time.Time
	if r.settings.progress {
		t := time.NewTicker(r.srv.c.progress)
		defer t.Stop()
		tick = t.C
	}
	for {
		events, rev, err := watch.take()
		var compacted CompactedError
		switch {
		case errors.As(err, &compacted):
			r.send(clientv3.WatchResponse{Header: *s.Header(), CompactRevision: compacted.Revision, Canceled: true})
			return false
		case err != nil:
			return false
		case len(events) > 0:
			h := *s.Header()
			h.Revision = rev
			res := clientv3.WatchResponse{Header: h, Events: make([]*clientv3.Event, len(events))}
			for i, e := range events {
				res.Events[i] = (*clientv3.Event)(e)
			}
			r.o.From = events[len(events)-1].Kv.ModRevision + 1
			if !r.send(res) {
				return false
			}
			continue
		}
		select {
		case <-watch.wake:
		case <-r.w.progress:
			if !r.progress(watch) {
				return false
			}
		case <-tick:
			if !r.progress(watch) {
				return false
			}
		case <-wait.Done():
			return ctx.Err() == nil && r.d.c.Ctx().Err() == nil
		}
	}
}

func (r watchRun) progress(watch *Watch) bool {
	rev, ok := watch.Synced()
	if !ok {
		return true
	}
	h := *r.srv.store.Header()
	h.Revision = rev
	return r.send(clientv3.WatchResponse{Header: h})
}

// RequestProgress has every watch of the stream say how far it is.
func (d *directWatch) RequestProgress(ctx context.Context) error {
	if d.c.direct() == nil {
		return nil // upstream sends the request when the stream is open again
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watches[streamKey(ctx)] {
		select {
		case w.progress <- struct{}{}:
		default:
		}
	}
	return nil
}

// Close does nothing: watches end with the client.
func (d *directWatch) Close() error { return nil }
