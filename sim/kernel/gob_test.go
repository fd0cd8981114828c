package kernel

import (
	"bytes"
	"encoding/gob"
	"reflect"
	"testing"
	"time"
)

type gobInner struct {
	Name string
	Data []byte
}

type gobOuter struct {
	N       int
	When    time.Time
	Inner   []gobInner
	ByName  map[string]gobInner
	Pointer *gobInner
}

type gobAny struct{ V any }

func gobSample(n int) gobOuter {
	return gobOuter{N: n, When: time.Unix(int64(n), 0).UTC(), Inner: []gobInner{{"a", []byte{1, byte(n)}}}, ByName: map[string]gobInner{"x": {Name: "y"}}, Pointer: &gobInner{Name: "p"}}
}

func TestEncodeIsGob(t *testing.T) {
	for n := range 3 {
		b, err := Encode(gobSample(n))
		if err != nil {
			t.Fatal(err)
		}
		var plain bytes.Buffer
		if err := gob.NewEncoder(&plain).Encode(gobSample(n)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, plain.Bytes()) {
			t.Errorf("value %d is not encoded as by a new encoder:\n%x\n%x", n, b, plain.Bytes())
		}
		var got gobOuter
		if err := Decode(b, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, gobSample(n)) {
			t.Errorf("got %+v, want %+v", got, gobSample(n))
		}
	}
}

func TestDecodeAfterGarbage(t *testing.T) {
	good, _ := Encode(gobSample(7))
	for _, bad := range [][]byte{nil, {}, {0xff}, good[:len(good)-1], good[:len(good)/2], append(bytes.Clone(good), 1, 2), append(bytes.Clone(good), good...)} {
		var got gobOuter
		if err := Decode(bad, &got); err == nil && !bytes.HasPrefix(bad, good) {
			t.Errorf("%x decodes", bad)
		}
		got = gobOuter{}
		if err := Decode(good, &got); err != nil || got.N != 7 {
			t.Errorf("after %x: %v %+v", bad, err, got)
		}
	}
}

func TestDecodeWhatAnOlderTypeWrote(t *testing.T) {
	type older struct {
		N    int
		Gone string
	}
	b, err := Encode(older{5, "x"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got gobOuter
		if err := Decode(b, &got); err != nil || got.N != 5 {
			t.Errorf("%v %+v", err, got)
		}
	}
}

func TestEncodeInterfaces(t *testing.T) {
	gob.Register(gobInner{})
	for n := range 2 {
		b, err := Encode(gobAny{gobInner{Name: "i"}})
		if err != nil {
			t.Fatal(err)
		}
		var got gobAny
		if err := Decode(b, &got); err != nil || got.V.(gobInner).Name != "i" {
			t.Errorf("%d: %v %+v", n, err, got)
		}
	}
}

func BenchmarkDecodeSmallParts(b *testing.B) {
	data, _ := Encode(gobSample(1))
	b.ReportAllocs()
	for b.Loop() {
		var got gobOuter
		if err := Decode(data, &got); err != nil {
			b.Fatal(err)
		}
	}
}
