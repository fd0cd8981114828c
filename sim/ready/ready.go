// Package ready holds the state of each preset's cluster, as it was built and after it had come to rest. They are made by
// "make presets"; starting from them is thawing.
package ready

import (
	"bytes"
	"embed"
	"encoding/gob"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"ckadrill/sim/kernel"
)

//go:embed *.state
var files embed.FS

var unpacked struct {
	mu    sync.Mutex
	parts map[string]kernel.Parts
}

// State is the embedded state of a preset. The map is the caller's, the parts in it are shared and must not be changed.
func State(preset string) (kernel.Parts, error) {
	unpacked.mu.Lock()
	defer unpacked.mu.Unlock()
	if p := unpacked.parts[preset]; p != nil {
		return maps.Clone(p), nil
	}
	b, err := files.ReadFile(preset + ".state")
	if err != nil {
		return nil, fmt.Errorf("there is no embedded state of the cluster %q", preset)
	}
	p, err := unpack(b)
	if err != nil {
		return nil, err
	}
	if unpacked.parts == nil {
		unpacked.parts = map[string]kernel.Parts{}
	}
	unpacked.parts[preset] = p
	return maps.Clone(p), nil
}

type part struct {
	Name string
	Data []byte
}

// Pack makes a file of a state.
func Pack(parts kernel.Parts) ([]byte, error) {
	var l []part
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		l = append(l, part{n, parts[n]})
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(l); err != nil {
		return nil, err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	return enc.EncodeAll(b.Bytes(), nil), nil
}

func unpack(b []byte) (kernel.Parts, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(b, nil)
	if err != nil {
		return nil, err
	}
	var l []part
	if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&l); err != nil {
		return nil, err
	}
	parts := make(kernel.Parts, len(l))
	for _, p := range l {
		parts[p.Name] = p.Data
	}
	return parts, nil
}
