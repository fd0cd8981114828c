package openssl

import (
	"bytes"
	"crypto"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

var digests = map[string]struct {
	label string
	hash  crypto.Hash
	make  func() hash.Hash
}{
	"md5": {"MD5", crypto.MD5, md5.New}, "sha1": {"SHA1", crypto.SHA1, sha1.New}, "sha224": {"SHA2-224", crypto.SHA224, sha256.New224},
	"sha256": {"SHA2-256", crypto.SHA256, sha256.New}, "sha384": {"SHA2-384", crypto.SHA384, sha512.New384}, "sha512": {"SHA2-512", crypto.SHA512, sha512.New},
}

const digestNames = "md5 sha1 sha224 sha256 sha384 sha512"

// digestCommand is "openssl sha256 FILE".
func (t *tool) digestCommand(args []string) int {
	return t.dgst(append([]string{"-" + t.cmd}, args...))
}

func (t *tool) dgst(args []string) int {
	o, code := t.parse(args, digestNames+" hex binary r c", "out sign verify signature hmac")
	if o == nil {
		return code
	}
	d := digests["sha256"]
	for _, n := range o.order {
		if x, ok := digests[n]; ok {
			d = x
		}
	}
	if o.has("verify") || o.has("hmac") {
		t.Errorf("ckadrill does not simulate `openssl dgst -verify` and `-hmac` yet\n")
		return 1
	}
	files := o.args
	if len(files) == 0 {
		files = []string{""}
	}
	var out bytes.Buffer
	exit := 0
	for _, f := range files {
		data, err := t.input(f)
		if err != nil {
			text, errno := reason(err)
			t.Errorf("%s: %s\n", f, text)
			t.stack(errno+":system library:file_ctrl:"+text+":../crypto/bio/bss_file.c:297:calling fopen("+f+", r)", "10080002:BIO routines:file_ctrl:system lib:../crypto/bio/bss_file.c:300:")
			exit = 1
			continue
		}
		h := d.make()
		h.Write(data)
		sum := h.Sum(nil)
		name := "stdin"
		if f != "" {
			name = f
		}
		label := d.label
		if o.has("sign") {
			k := t.loadPrivateKey("private key", o.get("sign"))
			if k == nil {
				return 1
			}
			if sum, err = k.Sign(rand.Reader, sum, d.hash); err != nil {
				t.Errorf("%v\n", err)
				return 1
			}
			if _, ok := k.(*rsa.PrivateKey); ok {
				label = "RSA-" + label
			}
		}
		switch {
		case o.has("binary") || o.has("sign") && !o.has("hex"):
			out.Write(sum)
		case o.has("r"):
			fmt.Fprintf(&out, "%x *%s\n", sum, name)
		case o.has("c"):
			fmt.Fprintf(&out, "%s(%s)= %s\n", label, name, strings.ToLower(colons(sum)))
		default:
			fmt.Fprintf(&out, "%s(%s)= %x\n", label, name, sum)
		}
	}
	if code := t.output(o.get("out"), out.Bytes(), false); code != 0 {
		return code
	}
	return exit
}

func (t *tool) rand(args []string) int {
	o, code := t.parse(args, "hex base64", "out rand writerand")
	if o == nil {
		return code
	}
	n := 0
	if len(o.args) > 0 {
		v, err := strconv.Atoi(o.args[0])
		if err != nil || v < 0 || v > 1<<24 {
			return t.usage("Can't parse \"%s\" as a number", o.args[0])
		}
		n = v
	}
	b := make([]byte, n)
	t.World().Random("openssl").Read(b)
	switch {
	case o.has("hex"):
		b = append([]byte(hex.EncodeToString(b)), '\n')
	case o.has("base64"):
		b = wrap64(b, false)
	}
	return t.output(o.get("out"), b, true)
}

// wrap64 encodes in lines of 64 characters, or in a single one.
func wrap64(b []byte, single bool) []byte {
	s := base64.StdEncoding.EncodeToString(b)
	if single {
		return []byte(s)
	}
	var out bytes.Buffer
	for len(s) > 64 {
		out.WriteString(s[:64] + "\n")
		s = s[64:]
	}
	if s != "" {
		out.WriteString(s + "\n")
	}
	return out.Bytes()
}

func (t *tool) base64(args []string) int {
	o, code := t.parse(args, "d e A a", "in out")
	if o == nil {
		return code
	}
	if len(o.args) > 0 {
		return t.usage("Extra option: \"%s\"", o.args[0])
	}
	data, err := t.input(o.get("in"))
	if err != nil {
		t.bioError(o.get("in"), "reading", "rb", err)
		return 1
	}
	if !o.has("d") {
		return t.output(o.get("out"), wrap64(data, o.has("A")), false)
	}
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' {
			return -1
		}
		return r
	}, string(data))
	plain, err := base64.StdEncoding.DecodeString(clean)
	if err != nil {
		plain = nil // OpenSSL prints nothing, and fails only for some inputs
	}
	return t.output(o.get("out"), plain, false)
}

func (t *tool) enc(args []string) int {
	for _, a := range args {
		if a == "-base64" || a == "-a" {
			var rest []string
			for _, b := range args {
				if b != "-base64" && b != "-a" {
					rest = append(rest, b)
				}
			}
			return t.base64(rest)
		}
	}
	t.Errorf("ckadrill does not simulate `openssl enc` with ciphers yet\n")
	return 1
}
