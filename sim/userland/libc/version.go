package libc

import "strings"

// CompareVersions orders digits by value and the rest by bytes, as GNU's version sort does for the usual names.
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		i, j := nonDigits(a), nonDigits(b)
		if n := compareNonDigits(a[:i], b[:j]); n != 0 {
			return n
		}
		a, b = a[i:], b[j:]
		i, j = digits(a), digits(b)
		x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if n := strings.Compare(x, y); n != 0 {
			return n
		}
		a, b = a[i:], b[j:]
	}
	return 0
}

func compareNonDigits(a, b string) int {
	weight := func(s string, i int) int {
		switch {
		case i >= len(s):
			return 0
		case s[i] == '~':
			return -1
		case s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z':
			return int(s[i])
		}
		return int(s[i]) + 256
	}
	for i := 0; i < len(a) || i < len(b); i++ {
		if n := weight(a, i) - weight(b, i); n != 0 {
			return n
		}
	}
	return 0
}

func nonDigits(s string) int {
	i := 0
	for i < len(s) && (s[i] < '0' || s[i] > '9') {
		i++
	}
	return i
}

func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
