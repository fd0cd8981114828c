package sim

import (
	"bytes"
	"embed"
	"encoding/gob"
	"fmt"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"ckadrill/sim/kernel"
)

// ready holds the state of each preset's cluster, as [Cluster.Build] made it and after it had come to rest. They are made
// by "make presets"; starting from them is thawing.
//
//go:embed all:ready
var ready embed.FS

// Ready is the embedded state of a preset.
func Ready(preset string) (kernel.Parts, error) {
	b, err := ready.ReadFile("ready/" + preset + ".state")
	if err != nil {
		return nil, fmt.Errorf("there is no embedded state of the cluster %q", preset)
	}
	return UnpackState(b)
}

// PackState makes a file of a state.
func PackState(parts kernel.Parts) ([]byte, error) {
	type part struct {
		Name string
		Data []byte
	}
	var l []part
	for _, n := range sortedNames(parts) {
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

// UnpackState reads what PackState wrote.
func UnpackState(b []byte) (kernel.Parts, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(b, nil)
	if err != nil {
		return nil, err
	}
	var l []struct {
		Name string
		Data []byte
	}
	if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&l); err != nil {
		return nil, err
	}
	parts := make(kernel.Parts, len(l))
	for _, p := range l {
		parts[p.Name] = p.Data
	}
	return parts, nil
}

func sortedNames(p kernel.Parts) []string { return slices.Sorted(maps.Keys(p)) }
