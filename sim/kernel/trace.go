package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Step is one thing that happened, and what it happened because of.
type Step struct {
	Seq     int
	Time    time.Time
	Actor   string // the program, or a user's name
	Host    string
	Verb    string // create, update, delete, bind, start, stop, kill, pull, write, fault
	Subject string // "pods/default/web-abc", "sandbox/<id>", "file/cka-w1:/etc/..."
	Detail  string
	Cause   string // the subject that it happened because of, "" where that is not known
}

const traceLimit = 20000

// Trace keeps the steps of the world, so that a chain of causes can be printed. The oldest are forgotten first.
type Trace struct {
	w     *World
	mu    sync.Mutex
	next  int
	steps []Step
}

// Reserve gives a step its place before its outcome is known, so that nothing that it causes comes before it: hand the
// number to [Trace.Add] as Seq, or forget it.
func (t *Trace) Reserve() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	return t.next
}

// Add records a step; Time, Seq unless it was reserved, and, if a process runs, Host and Actor are filled in.
func (t *Trace) Add(s Step) {
	if p := Current(); p != nil && p.host != nil {
		if s.Host == "" {
			s.Host = p.host.Name()
		}
		if s.Actor == "" {
			s.Actor = p.Name()
		}
	}
	s.Time = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Seq == 0 {
		t.next++
		s.Seq = t.next
	}
	i := len(t.steps)
	for i > 0 && t.steps[i-1].Seq > s.Seq {
		i--
	}
	t.steps = slices.Insert(t.steps, i, s)
	if len(t.steps) > traceLimit+traceLimit/4 {
		t.steps = append([]Step(nil), t.steps[len(t.steps)-traceLimit:]...)
	}
}

// Steps is a copy of all steps, oldest first.
func (t *Trace) Steps() []Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Step(nil), t.steps...)
}

// steps are frozen in blocks: a full block never changes again.
const traceBlock = 256

// Freeze implements [Holder].
func (t *Trace) Freeze(s *Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	blocks := map[int][]Step{}
	var order []int
	for _, st := range t.steps {
		b := st.Seq / traceBlock
		if blocks[b] == nil {
			order = append(order, b)
		}
		blocks[b] = append(blocks[b], st)
	}
	for _, b := range order {
		l := blocks[b]
		s.Put(strconv.Itoa(b), uint64(len(l))<<55^uint64(l[0].Seq)<<32^uint64(l[len(l)-1].Seq), func() []byte { return encode(l) })
	}
}

// Thaw implements [Holder].
func (t *Trace) Thaw(parts Parts) error {
	var numbers []int
	for n := range parts {
		i, err := strconv.Atoi(n)
		if err != nil {
			return fmt.Errorf("block %q: %w", n, err)
		}
		numbers = append(numbers, i)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		var l []Step
		if err := Decode(parts[strconv.Itoa(n)], &l); err != nil {
			return err
		}
		t.steps = append(t.steps, l...)
	}
	if len(t.steps) > 0 {
		t.next = t.steps[len(t.steps)-1].Seq
	}
	return nil
}
