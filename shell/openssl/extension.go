package openssl

import (
	"crypto/sha1"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
)

var (
	oidSubjectKeyID     = asn1.ObjectIdentifier{2, 5, 29, 14}
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidSAN              = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidAuthorityKeyID   = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidExtKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// extensionNames are how an extension is written in configuration and on -ext, and how it is printed.
var extensionNames = []struct {
	short, long string
	oid         asn1.ObjectIdentifier
}{
	{"subjectKeyIdentifier", "X509v3 Subject Key Identifier", oidSubjectKeyID},
	{"keyUsage", "X509v3 Key Usage", oidKeyUsage},
	{"subjectAltName", "X509v3 Subject Alternative Name", oidSAN},
	{"issuerAltName", "X509v3 Issuer Alternative Name", asn1.ObjectIdentifier{2, 5, 29, 18}},
	{"basicConstraints", "X509v3 Basic Constraints", oidBasicConstraints},
	{"nameConstraints", "X509v3 Name Constraints", asn1.ObjectIdentifier{2, 5, 29, 30}},
	{"crlDistributionPoints", "X509v3 CRL Distribution Points", asn1.ObjectIdentifier{2, 5, 29, 31}},
	{"certificatePolicies", "X509v3 Certificate Policies", asn1.ObjectIdentifier{2, 5, 29, 32}},
	{"authorityKeyIdentifier", "X509v3 Authority Key Identifier", oidAuthorityKeyID},
	{"extendedKeyUsage", "X509v3 Extended Key Usage", oidExtKeyUsage},
	{"authorityInfoAccess", "Authority Information Access", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}},
}

func extensionName(oid asn1.ObjectIdentifier) (short, long string) {
	for _, e := range extensionNames {
		if e.oid.Equal(oid) {
			return e.short, e.long
		}
	}
	return oid.String(), oid.String()
}

// keyUsages in order of their bits, as printed and as configured.
var keyUsages = [][2]string{
	{"Digital Signature", "digitalSignature"}, {"Non Repudiation", "nonRepudiation"}, {"Key Encipherment", "keyEncipherment"},
	{"Data Encipherment", "dataEncipherment"}, {"Key Agreement", "keyAgreement"}, {"Certificate Sign", "keyCertSign"},
	{"CRL Sign", "cRLSign"}, {"Encipher Only", "encipherOnly"}, {"Decipher Only", "decipherOnly"},
}

var extKeyUsages = []struct {
	long, short string
	oid         asn1.ObjectIdentifier
}{
	{"TLS Web Server Authentication", "serverAuth", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}},
	{"TLS Web Client Authentication", "clientAuth", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}},
	{"Code Signing", "codeSigning", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 3}},
	{"E-mail Protection", "emailProtection", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 4}},
	{"Time Stamping", "timeStamping", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}},
	{"OCSP Signing", "OCSPSigning", asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 9}},
	{"Any Extended Key Usage", "anyExtendedKeyUsage", asn1.ObjectIdentifier{2, 5, 29, 37, 0}},
}

// extensionText is the value of an extension as it is printed, without indentation.
func extensionText(e pkix.Extension) string {
	switch {
	case e.Id.Equal(oidSubjectKeyID):
		var id []byte
		if _, err := asn1.Unmarshal(e.Value, &id); err == nil {
			return colons(id)
		}
	case e.Id.Equal(oidAuthorityKeyID):
		var a struct {
			ID     []byte        `asn1:"optional,tag:0"`
			Issuer asn1.RawValue `asn1:"optional,tag:1"`
			Serial *big.Int      `asn1:"optional,tag:2"`
		}
		if _, err := asn1.Unmarshal(e.Value, &a); err == nil {
			return colons(a.ID)
		}
	case e.Id.Equal(oidKeyUsage):
		var bits asn1.BitString
		if _, err := asn1.Unmarshal(e.Value, &bits); err == nil {
			var l []string
			for i, u := range keyUsages {
				if bits.At(i) != 0 {
					l = append(l, u[0])
				}
			}
			return strings.Join(l, ", ")
		}
	case e.Id.Equal(oidExtKeyUsage):
		var oids []asn1.ObjectIdentifier
		if _, err := asn1.Unmarshal(e.Value, &oids); err == nil {
			var l []string
			for _, o := range oids {
				name := o.String()
				for _, u := range extKeyUsages {
					if u.oid.Equal(o) {
						name = u.long
					}
				}
				l = append(l, name)
			}
			return strings.Join(l, ", ")
		}
	case e.Id.Equal(oidBasicConstraints):
		b := struct {
			CA      bool `asn1:"optional"`
			PathLen int  `asn1:"optional,default:-1"`
		}{}
		if _, err := asn1.Unmarshal(e.Value, &b); err == nil {
			s := "CA:" + strings.ToUpper(strconv.FormatBool(b.CA))
			if b.PathLen >= 0 {
				s += ", pathlen:" + strconv.Itoa(b.PathLen)
			}
			return s
		}
	case e.Id.Equal(oidSAN):
		var names []asn1.RawValue
		if _, err := asn1.Unmarshal(e.Value, &names); err == nil {
			var l []string
			for _, n := range names {
				l = append(l, generalName(n))
			}
			return strings.Join(l, ", ")
		}
	}
	return hex.EncodeToString(e.Value)
}

func generalName(n asn1.RawValue) string {
	switch n.Tag {
	case 1:
		return "email:" + string(n.Bytes)
	case 2:
		return "DNS:" + string(n.Bytes)
	case 6:
		return "URI:" + string(n.Bytes)
	case 7:
		return "IP Address:" + ipText(n.Bytes)
	case 4:
		var inner asn1.RawValue
		if _, err := asn1.Unmarshal(n.Bytes, &inner); err == nil {
			return "DirName:" + nameOptions{}.format(inner.FullBytes)
		}
	}
	return "othername:<unsupported>"
}

// ipText prints an address as OpenSSL does: IPv6 in eight groups.
func ipText(b []byte) string {
	if len(b) == net.IPv4len {
		return net.IP(b).String()
	}
	if len(b) != net.IPv6len {
		return "<invalid>"
	}
	var l []string
	for i := 0; i < len(b); i += 2 {
		l = append(l, fmt.Sprintf("%X", int(b[i])<<8|int(b[i+1])))
	}
	return strings.Join(l, ":")
}

func colons(b []byte) string {
	l := make([]string, len(b))
	for i, c := range b {
		l[i] = fmt.Sprintf("%02X", c)
	}
	return strings.Join(l, ":")
}

// keyID is the hash that identifies a public key: SHA-1 of its bit string.
func keyID(spki []byte) []byte {
	var k struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(spki, &k); err != nil {
		return nil
	}
	h := sha1.Sum(k.Key.Bytes)
	return h[:]
}

func subjectKeyID(spki []byte) pkix.Extension {
	b, _ := asn1.Marshal(keyID(spki))
	return pkix.Extension{Id: oidSubjectKeyID, Value: b}
}

func authorityKeyID(id []byte) pkix.Extension {
	b, _ := asn1.Marshal(struct {
		ID []byte `asn1:"optional,tag:0"`
	}{id})
	return pkix.Extension{Id: oidAuthorityKeyID, Value: b}
}

// errExtension says that the configuration of an extension is wrong.
var errExtension = errors.New("Error loading extensions")

// extension makes an extension from its configuration, "keyUsage" and "critical, digitalSignature". subject and issuer are
// the public keys (SPKI) that identifiers are made from; nil is returned for what is not known yet.
func (c config) extension(name, value string, subject, issuer []byte) (*pkix.Extension, error) {
	var words []string
	for _, w := range strings.Split(value, ",") {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	e := &pkix.Extension{}
	if len(words) > 0 && words[0] == "critical" {
		e.Critical, words = true, words[1:]
	}
	var err error
	switch name {
	case "basicConstraints":
		b := struct {
			CA      bool `asn1:"optional"`
			PathLen int  `asn1:"optional,default:-1"`
		}{PathLen: -1}
		for _, w := range words {
			k, v, _ := strings.Cut(w, ":")
			switch {
			case k == "CA":
				b.CA = strings.EqualFold(v, "true") || strings.EqualFold(v, "yes")
			case k == "pathlen":
				if b.PathLen, err = strconv.Atoi(v); err != nil {
					return nil, errExtension
				}
			default:
				return nil, errExtension
			}
		}
		e.Id = oidBasicConstraints
		e.Value, err = asn1.Marshal(b)
	case "keyUsage":
		e.Id = oidKeyUsage
		e.Value, err = keyUsageBits(words)
	case "extendedKeyUsage":
		var oids []asn1.ObjectIdentifier
		for _, w := range words {
			found := false
			for _, u := range extKeyUsages {
				if u.short == w || u.long == w {
					oids, found = append(oids, u.oid), true
				}
			}
			if !found {
				return nil, errExtension
			}
		}
		e.Id = oidExtKeyUsage
		e.Value, err = asn1.Marshal(oids)
	case "subjectAltName":
		e.Id = oidSAN
		e.Value, err = c.alternativeNames(words)
	case "subjectKeyIdentifier":
		if len(words) == 1 && words[0] == "none" {
			return nil, nil
		}
		x := subjectKeyID(subject)
		x.Critical = e.Critical
		return &x, nil
	case "authorityKeyIdentifier":
		if len(words) == 1 && words[0] == "none" {
			return nil, nil
		}
		x := authorityKeyID(keyID(issuer))
		x.Critical = e.Critical
		return &x, nil
	default:
		return nil, errExtension
	}
	if err != nil {
		return nil, errExtension
	}
	return e, nil
}

func keyUsageBits(words []string) ([]byte, error) {
	bits, last := make([]byte, 2), -1
	for _, w := range words {
		found := false
		for i, u := range keyUsages {
			if u[1] == w || u[0] == w {
				bits[i/8] |= 0x80 >> (i % 8)
				found, last = true, max(last, i)
			}
		}
		if !found {
			return nil, errExtension
		}
	}
	return asn1.Marshal(asn1.BitString{Bytes: bits[:last/8+1], BitLength: last + 1})
}

// alternativeNames reads "DNS:a, IP:1.2.3.4" or "@section".
func (c config) alternativeNames(words []string) ([]byte, error) {
	var names []asn1.RawValue
	add := func(kind, v string) error {
		kind, _, _ = strings.Cut(kind, ".")
		switch kind {
		case "DNS":
			names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte(v)})
		case "email":
			names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, Bytes: []byte(v)})
		case "URI":
			names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(v)})
		case "IP":
			ip := net.ParseIP(v)
			if ip == nil {
				return errExtension
			}
			if four := ip.To4(); four != nil {
				ip = four
			}
			names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 7, Bytes: ip})
		default:
			return errExtension
		}
		return nil
	}
	for _, w := range words {
		if section, ok := strings.CutPrefix(w, "@"); ok {
			for _, kv := range c.section(section) {
				if err := add(kv[0], kv[1]); err != nil {
					return nil, err
				}
			}
			continue
		}
		k, v, ok := strings.Cut(w, ":")
		if !ok {
			return nil, errExtension
		}
		if err := add(k, v); err != nil {
			return nil, err
		}
	}
	return asn1.Marshal(names)
}
