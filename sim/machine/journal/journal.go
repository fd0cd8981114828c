// Package journal is a machine's systemd-journald: what its services and the system itself said, append-only and bounded.
package journal

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
)

// Entry is one line of the journal.
type Entry struct {
	Seq       uint64
	Time      time.Time
	Monotonic time.Duration // since the machine's boot
	Boot      string        // 32 hex digits
	Unit      string        // _SYSTEMD_UNIT, or the unit that a line of systemd is about
	// Identifier and PID stand before the text: "kubelet[2185]".
	Identifier string
	PID        int
	UID        int
	Priority   int // as syslog's: 3 error, 4 warning, 5 notice, 6 information
	Message    string
}

// Syslog priorities.
const (
	Err, Warning, Notice, Info, Debug = 3, 4, 5, 6, 7
)

// LineMax is the longest line that journald keeps whole; the rest becomes further lines.
const LineMax = 48 << 10

// Journal is one machine's journal.
type Journal struct {
	w     *kernel.World
	limit int64

	mu      sync.Mutex
	entries []Entry
	size    int64
	next    uint64
	boot    string
	booted  time.Time
	boots   []Boot
	bootsV  uint64
	waiters []chan struct{}
}

// Boot is one boot that the journal has lines of.
type Boot struct {
	ID    string
	Start time.Time
}

// New makes an empty journal that keeps at most limit bytes; the oldest lines go first.
func New(w *kernel.World, limit int64) *Journal {
	return &Journal{w: w, limit: limit, next: 1}
}

// Begin says that the machine has booted; lines belong to this boot from now on.
func (j *Journal) Begin(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.boot, j.booted = id, time.Now()
	j.boots = append(j.boots, Boot{id, j.booted})
	j.bootsV = j.w.Version()
}

// Boots lists the boots, oldest first.
func (j *Journal) Boots() []Boot {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.boots)
}

// Add appends a line. Time, boot and sequence are set.
func (j *Journal) Add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Seq, e.Time, e.Boot = j.next, time.Now(), j.boot
	e.Monotonic = e.Time.Sub(j.booted)
	j.next++
	j.entries = append(j.entries, e)
	j.size += int64(len(e.Message)) + entryCost
	drop := 0
	for j.limit > 0 && j.size > j.limit && drop < len(j.entries)-1 {
		j.size -= int64(len(j.entries[drop].Message)) + entryCost
		drop++
	}
	if drop > 0 {
		j.entries = append([]Entry(nil), j.entries[drop:]...)
	}
	for _, c := range j.waiters {
		close(c)
	}
	j.waiters = nil
}

// entryCost is what a line counts beside its text.
const entryCost = 200

// Size is how many bytes the journal takes.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// After returns the lines after a sequence number, oldest first; 0 is all.
func (j *Journal) After(seq uint64) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, _ := slices.BinarySearchFunc(j.entries, seq+1, func(e Entry, s uint64) int {
		switch {
		case e.Seq < s:
			return -1
		case e.Seq > s:
			return 1
		}
		return 0
	})
	return slices.Clone(j.entries[i:])
}

// Changed is closed when a line after seq is there.
func (j *Journal) Changed(seq uint64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := make(chan struct{})
	if j.next > seq+1 {
		close(c)
		return c
	}
	j.waiters = append(j.waiters, c)
	return c
}

// Writer turns what a service prints into lines of the journal. It is an io.Writer; Close adds what has no newline yet.
type Writer struct {
	j    *Journal
	mu   sync.Mutex
	rest []byte
	e    Entry
}

// Writer returns a writer for a service's standard output or error; e gives all but the text.
func (j *Journal) Writer(e Entry) *Writer { return &Writer{j: j, e: e} }

func (w *Writer) Write(b []byte) (int, error) { return w.WriteAs(0, b) }

// WriteAs writes in the name of a process; 0 is the one that was set.
func (w *Writer) WriteAs(pid int, b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid != 0 {
		w.e.PID = pid
	}
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			w.rest = append(w.rest, b...)
			b = nil
		} else {
			w.line(append(w.rest, b[:i]...))
			w.rest = nil
			b = b[i+1:]
		}
		for len(w.rest) > LineMax {
			w.line(w.rest[:LineMax])
			w.rest = append([]byte(nil), w.rest[LineMax:]...)
		}
	}
	return n, nil
}

// Close adds the last line.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.line(w.rest)
		w.rest = nil
	}
	return nil
}

func (w *Writer) line(b []byte) {
	for len(b) > LineMax {
		w.add(b[:LineMax])
		b = b[LineMax:]
	}
	w.add(b)
}

func (w *Writer) add(b []byte) {
	e := w.e
	text := strings.TrimRight(string(b), "\r")
	// sd-daemon(3): a line may begin with its priority
	if len(text) > 3 && text[0] == '<' && text[2] == '>' && text[1] >= '0' && text[1] <= '7' {
		e.Priority = int(text[1] - '0')
		text = text[3:]
	}
	if text == "" {
		return // journald drops empty lines of a stream
	}
	e.Message = text
	w.j.Add(e)
}

// entries are frozen in blocks: a full block never changes.
const block = 128

type frozenHead struct {
	Next   uint64
	Boot   string
	Booted time.Time
	Boots  []Boot
}

// Freeze implements [kernel.Holder].
func (j *Journal) Freeze(s *kernel.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Put("head", j.next<<20+j.bootsV+1, func() []byte {
		return encode(frozenHead{j.next, j.boot, j.booted, j.boots})
	})
	for i := 0; i < len(j.entries); {
		n := j.entries[i].Seq / block
		k := i
		for k < len(j.entries) && j.entries[k].Seq/block == n {
			k++
		}
		l := j.entries[i:k]
		s.Put(strconv.FormatUint(n, 10), l[0].Seq<<32|l[len(l)-1].Seq, func() []byte { return encode(l) })
		i = k
	}
}

// Thaw implements [kernel.Holder].
func (j *Journal) Thaw(parts kernel.Parts) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var h frozenHead
	if err := kernel.Decode(parts["head"], &h); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.next, j.boot, j.booted, j.boots, j.bootsV = h.Next, h.Boot, h.Booted, h.Boots, j.w.Version()
	var numbers []int
	for n := range parts {
		if n == "head" {
			continue
		}
		i, err := strconv.Atoi(n)
		if err != nil {
			return fmt.Errorf("journal: block %q", n)
		}
		numbers = append(numbers, i)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		var l []Entry
		if err := kernel.Decode(parts[strconv.Itoa(n)], &l); err != nil {
			return fmt.Errorf("journal: block %d: %w", n, err)
		}
		j.entries = append(j.entries, l...)
	}
	j.size = 0
	for _, e := range j.entries {
		j.size += int64(len(e.Message)) + entryCost
	}
	return nil
}

func encode(v any) []byte {
	b, err := kernel.Encode(v)
	if err != nil {
		panic(err)
	}
	return b
}
