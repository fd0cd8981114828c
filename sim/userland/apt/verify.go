package apt

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/openpgp"
	"golang.org/x/crypto/openpgp/clearsign"
	pgperrors "golang.org/x/crypto/openpgp/errors"
	"golang.org/x/crypto/openpgp/packet"

	"ckadrill/sim/userland/deb"
)

// signatureError is what is wrong with a signature, in gpgv's words.
type signatureError struct{ text string }

func (e *signatureError) Error() string { return e.text }

// verify checks the signature of a file InRelease and returns what is signed.
func (r *run) verify(s deb.Source, content []byte) (string, error) {
	block, _ := clearsign.Decode(content)
	if block == nil {
		return "", &signatureError{"Clearsigned file isn't valid, got 'NODATA' (does the network require authentication?)"}
	}
	text := string(block.Plaintext)
	if strings.EqualFold(s.Options["trusted"], "yes") {
		return text, nil
	}
	ring, ignored := r.keyRing(s)
	signature, err := readSignature(block)
	if err != nil {
		return "", &signatureError{"The following signatures were invalid: " + err.Error()}
	}
	id := "0"
	if signature.IssuerKeyId != nil {
		id = fmt.Sprintf("%016X", *signature.IssuerKeyId)
	}
	entity, err := openpgp.CheckDetachedSignature(ring, bytes.NewReader(block.Bytes), signatureBody(signature))
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		for _, w := range ignored {
			r.warn("%s", w)
		}
		return "", &signatureError{"The following signatures couldn't be verified because the public key is not available: NO_PUBKEY " + id}
	case err == nil && expired(entity):
		return "", &signatureError{fmt.Sprintf("The following signatures were invalid: EXPKEYSIG %s %s", id, owner(ring, id))}
	case err != nil:
		return "", &signatureError{fmt.Sprintf("The following signatures were invalid: BADSIG %s %s", id, owner(ring, id))}
	}
	return text, nil
}

// expired says that a key is not valid any more.
func expired(e *openpgp.Entity) bool {
	for _, i := range e.Identities {
		if i.SelfSignature != nil && !i.SelfSignature.KeyExpired(time.Now()) {
			return false
		}
	}
	return true
}

func readSignature(b *clearsign.Block) (*packet.Signature, error) {
	p, err := packet.Read(b.ArmoredSignature.Body)
	if err != nil {
		return nil, err
	}
	s, ok := p.(*packet.Signature)
	if !ok {
		return nil, errors.New("no signature")
	}
	return s, nil
}

// signatureBody is a signature that has been read, as bytes again.
func signatureBody(s *packet.Signature) *bytes.Buffer {
	var b bytes.Buffer
	s.Serialize(&b)
	return &b
}

func owner(ring openpgp.EntityList, id string) string {
	for _, e := range ring {
		if fmt.Sprintf("%016X", e.PrimaryKey.KeyId) != id {
			continue
		}
		for _, n := range slices.Sorted(maps.Keys(e.Identities)) {
			return n
		}
	}
	return ""
}

// keyRing are the keys that a source's files may be signed with: those that it names, else those that are trusted for all.
// Files that cannot be used are named in the warnings.
func (r *run) keyRing(s deb.Source) (ring openpgp.EntityList, ignored []string) {
	var names []string
	if by := s.Options["signed-by"]; by != "" {
		for n := range strings.SplitSeq(by, ",") {
			names = append(names, strings.Fields(n)...)
		}
	} else {
		const dir = "/etc/apt/trusted.gpg.d"
		names = append(names, "/etc/apt/trusted.gpg")
		l, _ := r.c.Files.ReadDir(dir)
		for _, e := range l {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	for _, n := range names {
		b, err := r.c.Files.ReadFile(n)
		if err != nil {
			continue
		}
		if i, err := r.c.Files.Stat(n); err == nil && i.Mode().Perm()&0o004 == 0 {
			ignored = append(ignored, fmt.Sprintf("The key(s) in the keyring %s are ignored as the file is not readable by user '_apt' executing apt-key.", n))
			continue
		}
		var l openpgp.EntityList
		switch path.Ext(n) {
		case ".asc":
			l, err = openpgp.ReadArmoredKeyRing(bytes.NewReader(b))
		case ".gpg":
			l, err = openpgp.ReadKeyRing(bytes.NewReader(b))
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			ignored = append(ignored, fmt.Sprintf("The key(s) in the keyring %s are ignored as the file has an unsupported filetype.", n))
			continue
		}
		ring = append(ring, l...)
	}
	return ring, ignored
}

// release is what a file Release says.
type release struct {
	deb.Paragraph
	date time.Time
	sums map[string]string // by name
}

func parseRelease(text string) release {
	l, err := deb.Parse(text)
	if err != nil || len(l) == 0 {
		return release{}
	}
	x := release{Paragraph: l[0], sums: map[string]string{}}
	x.date, _ = time.Parse("Mon, 02 Jan 2006 15:04:05 MST", x.Get("Date"))
	for line := range strings.Lines(x.Get("SHA256")) {
		if f := strings.Fields(line); len(f) == 3 {
			x.sums[f[2]] = f[0]
		}
	}
	return x
}

// components are those of a release; nil of one without.
func (x release) has(component string) bool {
	l := strings.Fields(x.Get("Components"))
	return len(l) == 0 || slices.Contains(l, component)
}

// signedText is what a stored file InRelease holds, whose signature was checked when it came.
func signedText(content []byte) string {
	block, _ := clearsign.Decode(content)
	if block == nil {
		return ""
	}
	return string(block.Plaintext)
}
