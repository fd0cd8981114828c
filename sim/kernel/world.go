package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// World is one simulated world: its programs, its randomness, its date and the holders of its state. A worker process has
// one world, in one bubble.
type World struct {
	Programs *Programs
	Trace    *Trace

	// Outside asks the user's side of the house for something that a world cannot do to itself: to be undone, skipped,
	// graded in a copy. It is nil where nobody is there. Time stands still until the answer comes.
	Outside func(name string, payload []byte) ([]byte, error)

	seed      uint64
	salt      string // of the random streams, see Reseed
	processes processSet
	version   atomic.Uint64

	warmUntil time.Time
	resumed   atomic.Int64 // how many processes were
	changes   atomic.Int64 // that are under way, see AwaitCalm

	mu      sync.Mutex
	sources map[string]*source
	holders []namedHolder
	routes  []logRoute
}

// NewWorld makes a world whose randomness comes from seed. It is called inside the bubble.
func NewWorld(seed uint64) *World {
	w := &World{Programs: &Programs{byName: map[string]Program{}}, seed: seed, sources: map[string]*source{}}
	w.processes.all = map[*Process]bool{}
	w.Trace = &Trace{w: w}
	w.Hold("world", worldState{w})
	w.Hold("trace", w.Trace)
	return w
}

// Seed is what all randomness of the world comes from.
func (w *World) Seed() uint64 { return w.seed }

// Version returns a number that grows with each call. Holders stamp with it what they change, see [Snapshot.Put].
func (w *World) Version() uint64 { return w.version.Add(1) }

// source is a stream of random bytes whose position is part of a freeze.
type source struct {
	mu sync.Mutex
	c  *rand.ChaCha8
	// n counts the draws, it is the version of the frozen part.
	n uint64
}

func (s *source) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return s.c.Read(b)
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return s.c.Uint64()
}

// Random returns the stream of random bytes of that name. Equal seeds and names give equal streams; streams of different
// names do not disturb each other.
func (w *World) Random(name string) interface {
	Read([]byte) (int, error)
	Uint64() uint64
} {
	return w.source(name)
}

// Rand returns a generator over the random stream of that name.
func (w *World) Rand(name string) *rand.Rand { return rand.New(w.source(name)) }

func (w *World) source(name string) *source {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sources[name]
	if !ok {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], w.seed)
		s = &source{c: rand.NewChaCha8(sha256.Sum256(append(b[:], w.salt+name...)))}
		w.sources[name] = s
	}
	return s
}

// UUID draws a random (version 4) UUID from the stream of that name.
func (w *World) UUID(name string) string {
	var b [16]byte
	w.source(name).Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Reseed gives the world another seed: what is drawn from now on comes from it. A world that was thawed from a state that
// many share gets its own this way. The streams differ from those that the state was made with, also for an equal seed: no
// id is drawn twice.
func (w *World) Reseed(seed uint64) {
	w.mu.Lock()
	w.seed, w.salt = seed, "reseeded/"
	w.sources = map[string]*source{}
	w.mu.Unlock()
	seedUpstream(w)
}

// worldState is the world's own part of a freeze: the date, the seed and the positions of the random streams.
type worldState struct{ w *World }

type frozenWorld struct {
	Date    time.Time
	Seed    uint64
	Salt    string
	Sources []frozenSource // sorted, so that equal states are equal bytes
}

type frozenSource struct {
	Name  string
	State []byte
}

func (s worldState) Freeze(snap *Snapshot) {
	snap.Put("state", 0, func() []byte {
		f := frozenWorld{Date: time.Now().UTC(), Seed: s.w.seed, Salt: s.w.salt}
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		for _, n := range slices.Sorted(maps.Keys(s.w.sources)) {
			src := s.w.sources[n]
			src.mu.Lock()
			b, _ := src.c.MarshalBinary()
			src.mu.Unlock()
			f.Sources = append(f.Sources, frozenSource{n, b})
		}
		return encode(f)
	})
}

func (s worldState) Thaw(parts Parts) error {
	b, ok := parts["state"]
	if !ok {
		return fmt.Errorf("the date is missing")
	}
	var f frozenWorld
	if err := Decode(b, &f); err != nil {
		return err
	}
	s.w.seed, s.w.salt = f.Seed, f.Salt
	for _, x := range f.Sources {
		src := s.w.source(x.Name)
		if err := src.c.UnmarshalBinary(x.State); err != nil {
			return fmt.Errorf("random stream %s: %w", x.Name, err)
		}
	}
	return nil
}

// DateOf is the date of a frozen world.
func DateOf(parts Parts) (time.Time, error) {
	var f frozenWorld
	b, ok := parts["world/state"]
	if !ok {
		return time.Time{}, fmt.Errorf("the date is missing")
	}
	err := Decode(b, &f)
	return f.Date, err
}

func encode(v any) []byte {
	b, err := Encode(v)
	if err != nil {
		panic(err) // only a type that gob cannot encode
	}
	return b
}
