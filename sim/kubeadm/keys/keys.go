// Package keys holds RSA-2048 keys that were generated once and are part of the program, since making one takes a tenth of
// a second and a cluster needs two dozen. They are PUBLIC: whoever has the program has them. They may protect nothing but
// a simulated cluster; a listener that the outside can reach needs a key of its own.
package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"

	"ckadrill/sim/kernel"
)

//go:generate go run generate.go

//go:embed rsa2048.pem
var preset []byte

// Assigned is how many of the preset keys have a fixed owner: [Preset] takes indexes below it. The rest is drawn by [New].
const Assigned = 64

var blocks = sync.OnceValue(func() (l [][]byte) {
	for rest := preset; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return l
		}
		l = append(l, b.Bytes)
	}
})

func parse(i int) *rsa.PrivateKey {
	k, err := x509.ParsePKCS1PrivateKey(blocks()[i])
	if err != nil {
		panic(fmt.Sprintf("keys: preset key %d: %v", i, err))
	}
	return k
}

// Preset is the preset key with that index, which must be below [Assigned]: the same key at every call.
func Preset(i int) *rsa.PrivateKey {
	if i < 0 || i >= Assigned {
		panic(fmt.Sprintf("keys: there is no preset key %d", i))
	}
	return parse(i)
}

// New is a key for somebody who generates one while the world runs. Keys of 2048 bits are drawn from the preset by the
// world's randomness; other sizes are really generated, and then differ from run to run.
func New(w *kernel.World, bits int) (*rsa.PrivateKey, error) {
	if bits != 2048 {
		return rsa.GenerateKey(rand.Reader, bits)
	}
	free := len(blocks()) - Assigned
	return parse(Assigned + w.Rand("keys").IntN(free)), nil
}

// NewEC is a P-256 key made from the world's randomness. crypto/ecdsa would draw from the host's.
func NewEC(w *kernel.World) (*ecdsa.PrivateKey, error) {
	c := elliptic.P256()
	raw := make([]byte, 32)
	for {
		if _, err := w.Random("keys").Read(raw); err != nil {
			return nil, err
		}
		if k, err := ecdsa.ParseRawPrivateKey(c, raw); err == nil {
			return k, nil // else the number was not below the order of the curve
		}
	}
}

// Serial is a certificate's serial number of 63 bits, as Kubernetes draws them, from the world's randomness.
func Serial(w *kernel.World) *big.Int {
	return new(big.Int).SetUint64(w.Random("serials").Uint64()>>1 | 1)
}
