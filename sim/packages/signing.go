package packages

import (
	"bytes"
	"crypto"
	_ "embed"
	"strings"
	"sync"
	"time"

	//lint:ignore SA1019 signatures of a simulated archive
	"golang.org/x/crypto/openpgp"
	"golang.org/x/crypto/openpgp/armor"
	"golang.org/x/crypto/openpgp/clearsign"
	"golang.org/x/crypto/openpgp/packet"
)

//go:generate go run generate.go

// keyText are the private keys that the archives are signed with. They are public, as whoever has the program has them.
//
//go:embed keys.asc
var keyText string

// key is one of them, by its place in the file.
type key int

const (
	kubernetesKey key = iota
	dockerKey
	ubuntuKey
)

var keyRing = sync.OnceValue(func() (l openpgp.EntityList) {
	for _, block := range strings.SplitAfter(keyText, "-----END PGP PRIVATE KEY BLOCK-----") {
		if i := strings.Index(block, "-----BEGIN"); i >= 0 {
			one, err := openpgp.ReadArmoredKeyRing(strings.NewReader(block[i:]))
			if err != nil {
				panic("packages: keys.asc: " + err.Error())
			}
			l = append(l, one...)
		}
	}
	return l
})

func (k key) entity() *openpgp.Entity { return keyRing()[k] }

// public is the public key, as a keyring holds it.
func (k key) public() []byte {
	var b bytes.Buffer
	if err := k.entity().Serialize(&b); err != nil {
		panic(err) // to memory
	}
	return b.Bytes()
}

// armored is the public key as text, as a website offers it.
func (k key) armored() []byte {
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	if err == nil {
		_, err = w.Write(k.public())
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return append(b.Bytes(), '\n')
}

// sign is a text with a signature of a date.
func (k key) sign(text string, date time.Time) []byte {
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, k.entity().PrivateKey, &packet.Config{DefaultHash: crypto.SHA256, Time: func() time.Time { return date }})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return append(b.Bytes(), '\n')
}
