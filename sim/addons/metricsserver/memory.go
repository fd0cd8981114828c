package metricsserver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/metrics-server/pkg/scraper"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"ckadrill/sim/kernel"
)

// scraped holds what the running metrics-servers have scraped last. Upstream keeps it in memory alone: after a thaw nothing
// would be known, and the Pod would not be ready, until two more scrapes.
type scraped struct {
	mu     sync.Mutex
	living map[string]*batches // by container
	thawed map[string]*batches
}

// batches are the last scrapes of a metrics-server, oldest first. Two of them make a rate.
type batches struct {
	p  *kernel.Process
	mu sync.Mutex
	l  []batch
}

type batch struct {
	At      time.Time
	Metrics *storage.MetricsBatch
}

const kept = 2

const holderName = "metrics-server"

func hold(w *kernel.World) *scraped {
	s := &scraped{living: map[string]*batches{}, thawed: map[string]*batches{}}
	w.Hold(holderName, s)
	return s
}

// Freeze implements kernel.Holder.
func (s *scraped) Freeze(shot *kernel.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, b := range s.living {
		if b.p.Alive() {
			ids = append(ids, id)
		} else {
			delete(s.living, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		shot.Put(id, 0, s.living[id].freeze)
	}
}

func (b *batches) freeze() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, err := kernel.Encode(b.l)
	if err != nil {
		panic(err) // only a type that gob cannot encode
	}
	return data
}

// Thaw implements kernel.Holder.
func (s *scraped) Thaw(parts kernel.Parts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, data := range parts {
		b := &batches{}
		if err := kernel.Decode(data, &b.l); err != nil {
			return fmt.Errorf("what metrics-server %s has scraped: %w", id, err)
		}
		s.thawed[id] = b
	}
	return nil
}

// of is the memory of a process: a new one, or what a process that carries on had scraped.
func (s *scraped) of(p *kernel.Process) *batches {
	id := p.Host().Name() + " " + p.Container
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.thawed[id]
	delete(s.thawed, id)
	if b == nil || !p.Resumed() {
		b = &batches{}
	}
	b.p = p
	s.living[id] = b
	return b
}

// last is the last scrape, nil if there was none.
func (b *batches) last() *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.l) == 0 {
		return nil
	}
	return &b.l[len(b.l)-1]
}

// rememberedStorage is upstream's storage, whose last batches are kept.
type rememberedStorage struct {
	storage.Storage
	memory *batches
}

// Store implements storage.Storage.
func (s *rememberedStorage) Store(m *storage.MetricsBatch) {
	s.Storage.Store(m)
	if b := s.memory.last(); b != nil && b.Metrics == m {
		return
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	l := append(s.memory.l, batch{time.Now(), m})
	s.memory.l = slices.Clone(l[max(0, len(l)-kept):])
}

// replay gives a new storage what the one before the thaw had.
func (s *rememberedStorage) replay() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	for _, b := range s.memory.l {
		s.Storage.Store(b.Metrics)
	}
}

// steadyScraper keeps the beat of the process before the thaw: upstream's loop begins when the process does, in the world's
// warm-up.
type steadyScraper struct {
	scraper.Scraper
	p          *kernel.Process
	resolution time.Duration
	memory     *batches
	due        time.Time // of the next scrape, zero in a process that did not carry on
}

func newSteadyScraper(p *kernel.Process, s scraper.Scraper, resolution time.Duration, memory *batches) *steadyScraper {
	k := &steadyScraper{Scraper: s, p: p, resolution: resolution, memory: memory}
	if b := memory.last(); b != nil {
		k.due = b.At.Add(resolution)
	}
	return k
}

// Scrape implements scraper.Scraper.
func (s *steadyScraper) Scrape(ctx context.Context) *storage.MetricsBatch {
	if s.due.IsZero() {
		return s.Scraper.Scrape(ctx)
	}
	wait := time.Until(s.due)
	if wait > s.resolution { // the loop asks once more before
		return s.memory.last().Metrics
	}
	if s.p.Sleep(wait) != nil {
		return &storage.MetricsBatch{}
	}
	for !s.due.After(time.Now()) {
		s.due = s.due.Add(s.resolution)
	}
	return s.Scraper.Scrape(context.WithoutCancel(ctx)) // whose deadline is a period after the loop's call
}
