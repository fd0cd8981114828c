package kernel

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"reflect"
	"sync"
)

// Encode turns plain data into bytes for a [Snapshot].
//
// A state is thousands of small parts of a few types. A gob stream begins with the description of its types, and a new
// encoder or decoder compiles them each time, which costs far more than a small value. So there is one encoder for each
// type, whose description is put before each value, and one decoder for each type and description.
func Encode(v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	if t == nil || !selfContained(t) {
		var b bytes.Buffer
		err := gob.NewEncoder(&b).Encode(v)
		return b.Bytes(), err
	}
	codecs.mu.Lock()
	e := codecs.encoders[t]
	if e == nil {
		e = newEncoder()
		codecs.encoders[t] = e
	}
	codecs.mu.Unlock()
	return e.encode(v)
}

// Decode reads what [Encode] wrote into what v points to.
func Decode(b []byte, v any) error {
	t := reflect.TypeOf(v)
	head, ok := description(b)
	if t == nil || !ok || !selfContained(t) {
		return gob.NewDecoder(bytes.NewReader(b)).Decode(v)
	}
	codecs.mu.Lock()
	byHead := codecs.decoders[t]
	if byHead == nil {
		byHead = map[string]*decoder{}
		codecs.decoders[t] = byHead
	}
	d := byHead[string(b[:head])]
	if d == nil && len(byHead) < maxDescriptions {
		d = newDecoder(b[:head])
		byHead[string(b[:head])] = d
	}
	codecs.mu.Unlock()
	if d == nil {
		return gob.NewDecoder(bytes.NewReader(b)).Decode(v)
	}
	err := d.decode(b[head:], v)
	if err != nil { // what it has read no longer fits its stream
		codecs.mu.Lock()
		if byHead[string(b[:head])] == d {
			delete(byHead, string(b[:head]))
		}
		codecs.mu.Unlock()
	}
	return err
}

// maxDescriptions bounds the decoders of one type: each release of the program, and each order in which types were first
// used, numbers them otherwise.
const maxDescriptions = 16

var codecs = struct {
	mu       sync.Mutex
	encoders map[reflect.Type]*encoder
	decoders map[reflect.Type]map[string]*decoder
	plain    map[reflect.Type]bool
}{encoders: map[reflect.Type]*encoder{}, decoders: map[reflect.Type]map[string]*decoder{}, plain: map[reflect.Type]bool{}}

type encoder struct {
	mu   sync.Mutex
	out  bytes.Buffer
	enc  *gob.Encoder
	head []byte
}

func newEncoder() *encoder {
	e := &encoder{}
	e.enc = gob.NewEncoder(&e.out)
	return e
}

func (e *encoder) encode(v any) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out.Reset()
	if err := e.enc.Encode(v); err != nil {
		e.enc, e.head = gob.NewEncoder(&e.out), nil
		return nil, err
	}
	if e.head == nil {
		n, ok := description(e.out.Bytes())
		if !ok {
			return nil, errors.New("kernel: gob has no value after its types")
		}
		e.head = bytes.Clone(e.out.Bytes()[:n])
		return bytes.Clone(e.out.Bytes()), nil
	}
	b := make([]byte, 0, len(e.head)+e.out.Len())
	return append(append(b, e.head...), e.out.Bytes()...), nil
}

type decoder struct {
	mu  sync.Mutex
	in  *bytes.Reader
	dec *gob.Decoder
	// head is what the decoder has still to read before its first value.
	head []byte
}

func newDecoder(head []byte) *decoder {
	d := &decoder{in: bytes.NewReader(nil), head: bytes.Clone(head)}
	d.dec = gob.NewDecoder(d.in)
	return d
}

func (d *decoder) decode(value []byte, v any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.head != nil {
		d.in.Reset(append(d.head, value...))
		d.head = nil
	} else {
		d.in.Reset(value)
	}
	err := d.dec.Decode(v)
	if err == nil && d.in.Len() > 0 {
		err = io.ErrUnexpectedEOF
	}
	d.in.Reset(nil)
	return err
}

// description is the length of the type descriptions at the head of a gob stream, which one value follows.
func description(b []byte) (head int, ok bool) {
	for at := 0; at < len(b); {
		n, used := gobUint(b[at:])
		if used == 0 || n == 0 || n > uint64(len(b)-at-used) {
			return 0, false
		}
		id, idLen := gobUint(b[at+used:])
		if idLen == 0 {
			return 0, false
		}
		next := at + used + int(n)
		if id&1 == 0 { // gob's signed numbers have their sign in the lowest bit: a value of that type
			return at, next == len(b)
		}
		at = next
	}
	return 0, false
}

// gobUint reads an unsigned number in gob's encoding; used is 0 if there is none.
func gobUint(b []byte) (n uint64, used int) {
	if len(b) == 0 {
		return 0, 0
	}
	if b[0] <= 0x7f {
		return uint64(b[0]), 1
	}
	size := -int(int8(b[0]))
	if size > 8 || len(b) < 1+size {
		return 0, 0
	}
	for _, c := range b[1 : 1+size] {
		n = n<<8 | uint64(c)
	}
	return n, 1 + size
}

// selfContained says that all values of a type are described alike: that none of them holds an interface, whose concrete
// type is described where it occurs.
func selfContained(t reflect.Type) bool {
	codecs.mu.Lock()
	defer codecs.mu.Unlock()
	plain, ok := codecs.plain[t]
	if !ok {
		plain = !holdsInterface(t, map[reflect.Type]bool{})
		codecs.plain[t] = plain
	}
	return plain
}

func holdsInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsInterface(t.Elem(), seen)
	case reflect.Map:
		return holdsInterface(t.Key(), seen) || holdsInterface(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && holdsInterface(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
