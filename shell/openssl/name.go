package openssl

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
)

// attributes are the short and long names of the attributes of a distinguished name.
var attributes = []struct {
	short, long string
	oid         asn1.ObjectIdentifier
}{
	{"CN", "commonName", asn1.ObjectIdentifier{2, 5, 4, 3}},
	{"SN", "surname", asn1.ObjectIdentifier{2, 5, 4, 4}},
	{"serialNumber", "serialNumber", asn1.ObjectIdentifier{2, 5, 4, 5}},
	{"C", "countryName", asn1.ObjectIdentifier{2, 5, 4, 6}},
	{"L", "localityName", asn1.ObjectIdentifier{2, 5, 4, 7}},
	{"ST", "stateOrProvinceName", asn1.ObjectIdentifier{2, 5, 4, 8}},
	{"street", "streetAddress", asn1.ObjectIdentifier{2, 5, 4, 9}},
	{"O", "organizationName", asn1.ObjectIdentifier{2, 5, 4, 10}},
	{"OU", "organizationalUnitName", asn1.ObjectIdentifier{2, 5, 4, 11}},
	{"title", "title", asn1.ObjectIdentifier{2, 5, 4, 12}},
	{"GN", "givenName", asn1.ObjectIdentifier{2, 5, 4, 42}},
	{"emailAddress", "emailAddress", asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}},
	{"UID", "userId", asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}},
	{"DC", "domainComponent", asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}},
}

func attributeName(oid asn1.ObjectIdentifier) (short, long string) {
	for _, a := range attributes {
		if a.oid.Equal(oid) {
			return a.short, a.long
		}
	}
	return oid.String(), oid.String()
}

// nameOptions say how a name is printed.
type nameOptions struct {
	rfc2253, multiline, compat bool
}

func parseNameOptions(list []string) (o nameOptions) {
	for _, l := range list {
		for _, n := range strings.Split(l, ",") {
			switch strings.ToLower(n) {
			case "rfc2253":
				o = nameOptions{rfc2253: true}
			case "multiline":
				o = nameOptions{multiline: true}
			case "compat":
				o = nameOptions{compat: true}
			case "oneline":
				o = nameOptions{}
			}
		}
	}
	return o
}

// format prints a DER name.
func (o nameOptions) format(raw []byte) string {
	var rdns pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil {
		return ""
	}
	if o.rfc2253 {
		for i, j := 0, len(rdns)-1; i < j; i, j = i+1, j-1 {
			rdns[i], rdns[j] = rdns[j], rdns[i]
		}
	}
	var parts []string
	for _, set := range rdns {
		var values []string
		for _, a := range set {
			short, long := attributeName(a.Type)
			value := fmt.Sprint(a.Value)
			switch {
			case o.rfc2253:
				values = append(values, short+"="+escape(value, false))
			case o.multiline:
				values = append(values, fmt.Sprintf("    %-26s= %s", long, value))
			case o.compat:
				values = append(values, short+"="+value)
			default:
				values = append(values, short+" = "+escape(value, true))
			}
		}
		sep := " + "
		if o.rfc2253 {
			sep = "+"
		}
		parts = append(parts, strings.Join(values, sep))
	}
	switch {
	case o.rfc2253:
		return strings.Join(parts, ",")
	case o.multiline:
		return "\n" + strings.Join(parts, "\n")
	case o.compat:
		if len(parts) == 0 {
			return ""
		}
		return "/" + strings.Join(parts, "/")
	}
	return strings.Join(parts, ", ")
}

// escape protects what RFC 2253 calls special: by quotes around the value, or by backslashes.
func escape(v string, quote bool) string {
	const special = ",+\"\\<>;"
	needs := strings.ContainsAny(v, special) || strings.HasPrefix(v, " ") || strings.HasPrefix(v, "#") || strings.HasSuffix(v, " ")
	if !needs {
		return v
	}
	if quote {
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(v) + `"`
	}
	var b strings.Builder
	for i, r := range v {
		if strings.ContainsRune(special, r) || i == 0 && (r == ' ' || r == '#') || i == len(v)-1 && r == ' ' {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// parseSubject reads the argument of -subj, "/CN=jane/O=dev+OU=ops", into a DER name. skipped are attributes that OpenSSL
// warns about and leaves out.
func parseSubject(s string) (raw []byte, skipped []string, err error) {
	if !strings.HasPrefix(s, "/") {
		return nil, nil, fmt.Errorf("subject name is expected to be in the format /type0=value0/type1=value1/type2=... where characters may be escaped by \\. This name is not in that format: '%s'", s)
	}
	var rdns pkix.RDNSequence
	join := false // the next attribute belongs to the RDN before
	rest := s[1:]
	for rest != "" {
		typ, after, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, nil, fmt.Errorf("Missing '=' after RDN type string '%s' in subject name string", rest)
		}
		var value strings.Builder
		i, next := 0, byte(0)
		for i < len(after) {
			c := after[i]
			if c == '\\' && i+1 < len(after) {
				value.WriteByte(after[i+1])
				i += 2
				continue
			}
			if c == '/' || c == '+' {
				next = c
				break
			}
			value.WriteByte(c)
			i++
		}
		rest = ""
		if i < len(after) {
			rest = after[i+1:]
		}
		oid := oidOf(typ)
		switch {
		case oid == nil:
			skipped = append(skipped, fmt.Sprintf("Skipping unknown subject name attribute \"%s\"", typ))
		case value.Len() == 0:
			skipped = append(skipped, fmt.Sprintf("No value provided for subject name attribute \"%s\", skipped", typ))
		default:
			a := pkix.AttributeTypeAndValue{Type: oid, Value: value.String()}
			if join && len(rdns) > 0 {
				rdns[len(rdns)-1] = append(rdns[len(rdns)-1], a)
			} else {
				rdns = append(rdns, pkix.RelativeDistinguishedNameSET{a})
			}
		}
		join = next == '+'
	}
	raw, err = asn1.Marshal(rdns)
	return raw, skipped, err
}

func oidOf(name string) asn1.ObjectIdentifier {
	for _, a := range attributes {
		if a.short == name || a.long == name {
			return a.oid
		}
	}
	return nil
}
