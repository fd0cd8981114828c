package deb

import (
	"cmp"
	"strings"
)

// Compare orders two versions as deb-version(7) says: by epoch, upstream version and revision.
func Compare(a, b string) int {
	ae, au, ar := split(a)
	be, bu, br := split(b)
	return cmp.Or(compareParts(ae, be), compareParts(au, bu), compareParts(ar, br))
}

func split(v string) (epoch, upstream, revision string) {
	epoch = "0"
	if e, rest, ok := strings.Cut(v, ":"); ok {
		epoch, v = e, rest
	}
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return epoch, v[:i], v[i+1:]
	}
	return epoch, v, "0"
}

// compareParts compares in turn what is no number, letter by letter, and what is one.
func compareParts(a, b string) int {
	for a != "" || b != "" {
		for a != "" && !isDigit(a[0]) || b != "" && !isDigit(b[0]) {
			if c := cmp.Compare(weight(a), weight(b)); c != 0 {
				return c
			}
			a, b = a[1:], b[1:]
		}
		an, bn := digits(a), digits(b)
		x, y := strings.TrimLeft(a[:an], "0"), strings.TrimLeft(b[:bn], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[an:], b[bn:]
	}
	return 0
}

// weight orders what a version goes on with: "~" before its end, its end before letters, letters before other signs.
func weight(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case s[0] >= 'a' && s[0] <= 'z', s[0] >= 'A' && s[0] <= 'Z':
		return int(s[0])
	}
	return int(s[0]) + 256
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func digits(s string) (n int) {
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}
