package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/lockedfile"

	"ckadrill/sim/kernel"
)

// A session's directory holds this file and a lock. The file is the magic line and then, for each record, a big-endian
// length, the compressed gob of a Record, and the SHA-256 of the previous hash and those bytes.
const (
	fileName = "session.ckadrill"
	lockName = "lock"
	magic    = "ckadrill session 1\n"
	// maxRecord bounds what a damaged or hostile length can make us read.
	maxRecord = 1 << 30
)

// Session is an open session.
type Session struct {
	dir     string
	f       *os.File
	unlock  func()
	chain   [sha256.Size]byte
	records []Record // without their parts
	offsets []int64
	enc     *zstd.Encoder
	// Recovered says what was lost when the file ended in the middle of a record, "" if nothing was.
	Recovered string
}

// Damaged is the error for a session that was altered, or whose beginning cannot be read.
type Damaged struct {
	File   string
	Record int
	Why    string
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("%s: record %d is damaged: %s", d.File, d.Record, d.Why)
}

// Open opens the session in dir, and makes an empty one if there is none. It waits for nobody: a session that another
// process has open is an error.
func Open(dir string) (*Session, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fileName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		unlock()
		return nil, err
	}
	s := &Session{dir: dir, f: f, unlock: unlock}
	s.enc, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err := s.load(name); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// lock takes the lock without waiting.
func lock(name string) (func(), error) {
	done := make(chan struct{})
	var unlock func()
	var err error
	go func() {
		unlock, err = lockedfile.MutexAt(name).Lock()
		close(done)
	}()
	select {
	case <-done:
		return unlock, err
	case <-lockPatience():
		go func() { // give it back when it comes after all
			<-done
			if unlock != nil {
				unlock()
			}
		}()
		return nil, fmt.Errorf("the session in %s is open in another ckadrill", filepath.Dir(name))
	}
}

func (s *Session) load(name string) error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		_, err := s.f.Write([]byte(magic))
		return err
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(s.f, head); err != nil || string(head) != magic {
		return &Damaged{name, 0, "this is not a ckadrill session"}
	}
	at := int64(len(magic))
	for at < info.Size() {
		r, sum, next, err := s.read(at, s.chain)
		var cut *cutShort
		if errors.As(err, &cut) {
			// The writer was killed in the middle of this record: what was finished before it is all there.
			s.Recovered = fmt.Sprintf("%s ended in the middle of record %d; it goes on from record %d", name, len(s.records), len(s.records)-1)
			if err := s.setAside(at, info.Size()); err != nil {
				return err
			}
			if err := s.f.Truncate(at); err != nil {
				return err
			}
			break
		}
		if err != nil {
			return &Damaged{name, len(s.records), err.Error()}
		}
		if r.Seq != len(s.records) || r.Parent >= r.Seq {
			return &Damaged{name, len(s.records), "it is out of order"}
		}
		s.chain = sum
		r.Changed = nil
		s.records = append(s.records, r)
		s.offsets = append(s.offsets, at)
		at = next
	}
	_, err = s.f.Seek(0, io.SeekEnd)
	return err
}

// setAside keeps a half record beside the session, since a damaged length looks like one.
func (s *Session) setAside(from, to int64) error {
	out, err := os.OpenFile(filepath.Join(s.dir, fileName+".cut"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, io.NewSectionReader(s.f, from, to-from)); err != nil {
		return err
	}
	return out.Close()
}

type cutShort struct{}

func (*cutShort) Error() string { return "cut short" }

// read reads the record at an offset and checks it against the hash before it.
func (s *Session) read(at int64, chain [sha256.Size]byte) (r Record, sum [sha256.Size]byte, next int64, err error) {
	var n [4]byte
	if _, err := s.f.ReadAt(n[:], at); err != nil {
		return r, sum, 0, &cutShort{}
	}
	size := int64(binary.BigEndian.Uint32(n[:]))
	if size > maxRecord {
		return r, sum, 0, fmt.Errorf("its length of %d bytes is not possible", size)
	}
	info, err := s.f.Stat()
	if err != nil {
		return r, sum, 0, err
	}
	next = at + 4 + size + sha256.Size
	if next > info.Size() {
		return r, sum, 0, &cutShort{}
	}
	b := make([]byte, size+sha256.Size)
	if _, err := s.f.ReadAt(b, at+4); err != nil {
		return r, sum, 0, err
	}
	body := b[:size]
	sum = link(chain, body)
	if !bytes.Equal(sum[:], b[size:]) {
		return r, sum, 0, errors.New("its hash does not follow from the record before: the session was altered")
	}
	dec, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
	if err != nil {
		return r, sum, 0, err
	}
	defer dec.Close()
	if err := gob.NewDecoder(dec).Decode(&r); err != nil {
		return r, sum, 0, fmt.Errorf("cannot be read: %w", err)
	}
	return r, sum, next, nil
}

func link(chain [sha256.Size]byte, body []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(chain[:])
	h.Write(body)
	return [sha256.Size]byte(h.Sum(nil))
}

// Append writes a record to the disk before it returns. Seq is set, and Parent if it is 0 and there is a record before.
func (s *Session) Append(r Record) error {
	r.Seq = len(s.records)
	if r.Kind != Undo && r.Seq > 0 {
		r.Parent = s.head()
	}
	if r.Seq == 0 {
		r.Parent = -1
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(r); err != nil {
		return err
	}
	body := s.enc.EncodeAll(b.Bytes(), nil)
	if len(body) > maxRecord {
		return fmt.Errorf("the state is too large for a session: %d bytes", len(body))
	}
	sum := link(s.chain, body)
	out := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	out = append(append(out, body...), sum[:]...)
	at, err := s.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := s.f.Write(out); err != nil {
		s.f.Truncate(at) // a full disk: leave no half record
		return fmt.Errorf("the session could not be written: %w", err)
	}
	s.chain = sum
	s.offsets = append(s.offsets, at)
	r.Changed = nil
	s.records = append(s.records, r)
	return nil
}

// head is the record that the current state belongs to.
func (s *Session) head() int { return len(s.records) - 1 }

// Dir is the session's directory.
func (s *Session) Dir() string { return s.dir }

// Records lists what happened, without the states.
func (s *Session) Records() []Record { return s.records }

// Empty says that no world has begun in the session.
func (s *Session) Empty() bool { return len(s.records) == 0 }

// State is the whole state after the last record.
func (s *Session) State() (kernel.Parts, error) { return s.StateAt(s.head()) }

// StateAt is the whole state after a record.
func (s *Session) StateAt(seq int) (kernel.Parts, error) {
	if seq < 0 || seq >= len(s.records) {
		return nil, fmt.Errorf("the session has no record %d", seq)
	}
	var path []int
	for n := seq; n >= 0; n = s.records[n].Parent {
		path = append(path, n)
	}
	parts := kernel.Parts{}
	for i := len(path) - 1; i >= 0; i-- {
		var n [4]byte
		at := s.offsets[path[i]]
		if _, err := s.f.ReadAt(n[:], at); err != nil {
			return nil, err
		}
		r, err := s.body(at, int64(binary.BigEndian.Uint32(n[:])))
		if err != nil {
			return nil, err
		}
		kernel.Delta{Changed: r.Changed, Removed: r.Removed}.Apply(parts)
	}
	return parts, nil
}

// body reads a record that was checked when the session was opened.
func (s *Session) body(at, size int64) (r Record, err error) {
	b := make([]byte, size)
	if _, err := s.f.ReadAt(b, at+4); err != nil {
		return r, err
	}
	dec, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
	if err != nil {
		return r, err
	}
	defer dec.Close()
	err = gob.NewDecoder(dec).Decode(&r)
	return r, err
}

// Before is the record whose state a step back from the current one leads to, that of the last command's parent, and what
// was typed in between. Commands that only look, as passive tells, are stepped over. There is none after the boot.
func (s *Session) Before(passive func(typed string) bool) (seq int, typed string, ok bool) {
	n := s.head()
	for n >= 0 {
		r := s.records[n]
		switch r.Kind {
		case Command:
			if !passive(r.Typed) {
				return r.Parent, r.Typed, true
			}
		case Boot:
			return 0, "", false
		}
		n = r.Parent
	}
	return 0, "", false
}

// Unfinished is what was typed last, if it had not finished when the session was left: nothing of it was kept. It is told
// once.
func (s *Session) Unfinished() (typed string, ok bool, err error) {
	for i := len(s.records) - 1; i >= 0; i-- {
		switch r := s.records[i]; {
		case r.Kind == Begin:
			return r.Typed, true, s.Append(Record{Kind: Note, Meta: map[string]string{unfinished: r.Typed}, Wall: now(), Date: r.Date})
		case r.Kind != Note || r.Meta[unfinished] != "":
			return "", false, nil
		}
	}
	return "", false, nil
}

// unfinished is the key of the note that a command was lost.
const unfinished = "unfinished"

// Undo records that the world went back to the state after seq.
func (s *Session) Undo(seq int) error {
	if seq < 0 || seq >= len(s.records) {
		return fmt.Errorf("the session has no record %d", seq)
	}
	return s.Append(Record{Kind: Undo, Parent: seq, Wall: now(), Date: s.records[seq].Date})
}

// Close gives the session free.
func (s *Session) Close() error {
	err := s.f.Close()
	if s.unlock != nil {
		s.unlock()
		s.unlock = nil
	}
	return err
}
