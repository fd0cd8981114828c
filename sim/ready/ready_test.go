package ready

import (
	"bytes"
	"testing"

	"ckadrill/sim/kernel"
)

func TestPackAndUnpack(t *testing.T) {
	parts := kernel.Parts{"a/b": {1, 2}, "c": {}, "d": bytes.Repeat([]byte("x"), 1<<16)}
	b, err := Pack(parts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := unpack(b)
	if err != nil || len(got) != len(parts) {
		t.Fatal(len(got), err)
	}
	for n := range parts {
		if !bytes.Equal(got[n], parts[n]) {
			t.Errorf("part %s is %x", n, got[n])
		}
	}
	if _, err := unpack(b[:len(b)/2]); err == nil {
		t.Error("half of a file unpacks")
	}
}

func TestStateIsTheCallers(t *testing.T) {
	first, err := State("reference")
	if err != nil {
		t.Fatal(err)
	}
	n := len(first)
	clear(first)
	if second, err := State("reference"); err != nil || len(second) != n || n == 0 {
		t.Errorf("the second caller got %d of %d parts, %v", len(second), n, err)
	}
	if _, err := State("no-such"); err == nil {
		t.Error("a preset that does not exist has a state")
	}
}

func BenchmarkUnpack(b *testing.B) {
	file, err := files.ReadFile("reference.state")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := unpack(file)
		if err != nil {
			b.Fatal(err)
		}
		size := 0
		for _, d := range p {
			size += len(d)
		}
		b.ReportMetric(float64(size), "bytes")
		b.ReportMetric(float64(len(p)), "parts")
	}
}
