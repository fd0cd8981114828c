package coreutils

import (
	"testing"
	"time"
)

// FuzzOperands reads modes, dates, intervals and sizes as somebody may type them.
func FuzzOperands(f *testing.F) {
	for _, s := range []string{"u+x,g=r", "4755", "a=rwX,o-t", "2024-01-01 10:00 UTC + 1 day", "@1.5", "next monday", "1.5h", "infinity", "5K", "3MB", "yesterday 10:00"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 100 {
			return
		}
		if change, err := parseMode(s, 0o022); err == nil {
			if m := change(0o644, false); m&^0o7777 != 0 {
				t.Errorf("%q gives mode %o", s, m)
			}
		}
		parseDate(s, now)
		parseStamp(s, now)
		if d, ok := interval(s); ok && d < 0 {
			t.Errorf("%q is the interval %v", s, d)
		}
		if n, ok := byteCount(s); ok && n < 0 {
			t.Errorf("%q is %d bytes", s, n)
		}
	})
}
