package bash

import (
	"fmt"
	"strings"
)

// doubleQuote is a value as declare -p prints it: in double quotes, or $'...' where it has control characters.
func doubleQuote(s string) string {
	if hasControl(s) {
		return ansiQuote(s)
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("\"$`\\", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
	return b.String()
}

func hasControl(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// ansiQuote is a value in $'...'.
func ansiQuote(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\a':
			b.WriteString(`\a`)
		case '\b':
			b.WriteString(`\b`)
		case 0x1b:
			b.WriteString(`\E`)
		case '\f':
			b.WriteString(`\f`)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\v':
			b.WriteString(`\v`)
		case '\\', '\'':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			if c < ' ' || c == 0x7f {
				fmt.Fprintf(&b, `\%03o`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	b.WriteString("'")
	return b.String()
}

// singleQuote is a value as alias, export -p in dash and ${v@Q} print it.
func singleQuote(s string) string {
	if hasControl(s) {
		return ansiQuote(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const safeChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-="

func needsQuote(s string) bool {
	if s == "" {
		return true
	}
	for i := 0; i < len(s); i++ {
		if s[i] < 0x80 && strings.IndexByte(safeChars, s[i]) < 0 {
			return true
		}
	}
	return false
}

// traceQuote is a word as set -x and the list of variables of set print it.
func traceQuote(s string) string {
	switch {
	case s == "":
		return "''"
	case hasControl(s):
		return ansiQuote(s)
	case strings.ContainsAny(s, " \t\n'\"\\|&;()<>!{}*[]?^$`") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, "#"):
		return singleQuote(s)
	}
	return s
}

// backslashQuote is a word as printf %q prints it.
func backslashQuote(s string) string {
	if s == "" {
		return "''"
	}
	if hasControl(s) {
		return ansiQuote(s)
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if strings.IndexByte(" \t\n'\"\\|&;()<>!{}*[]?^$`,", c) >= 0 || i == 0 && (c == '~' || c == '#') {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

func quoteSubscript(s string) string {
	if needsQuote(s) || strings.ContainsAny(s, "=:,%+") {
		return doubleQuote(s)
	}
	return s
}
