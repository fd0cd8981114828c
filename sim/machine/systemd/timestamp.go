package systemd

import (
	"fmt"
	"time"
)

// FormatTimestamp writes a time as systemd's tools do: "Tue 2026-12-01 10:00:05 UTC".
func FormatTimestamp(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04:05 MST") }

// FormatRelative writes how long ago a time was: "5min ago", "1h 2min ago", "3 days ago"; "... left" for one to come.
func FormatRelative(now, t time.Time) string {
	d, suffix := now.Sub(t), " ago"
	if d < 0 {
		d, suffix = -d, " left"
	}
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	plural := func(n time.Duration, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	two := func(a, b time.Duration, x, y string) string {
		if b == 0 {
			return plural(a, x) + suffix
		}
		return plural(a, x) + " " + plural(b, y) + suffix
	}
	switch {
	case d >= year:
		return two(d/year, d%year/month, "year", "month")
	case d >= month:
		return two(d/month, d%month/day, "month", "day")
	case d >= week:
		return two(d/week, d%week/day, "week", "day")
	case d >= 2*day:
		return fmt.Sprintf("%d days%s", d/day, suffix)
	case d >= 25*time.Hour:
		return fmt.Sprintf("1 day %dh%s", (d-day)/time.Hour, suffix)
	case d >= 6*time.Hour:
		return fmt.Sprintf("%dh%s", d/time.Hour, suffix)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %dmin%s", d/time.Hour, d%time.Hour/time.Minute, suffix)
	case d >= 5*time.Minute:
		return fmt.Sprintf("%dmin%s", d/time.Minute, suffix)
	case d >= time.Minute:
		return fmt.Sprintf("%dmin %ds%s", d/time.Minute, d%time.Minute/time.Second, suffix)
	case d >= time.Second:
		return fmt.Sprintf("%ds%s", d/time.Second, suffix)
	case d >= time.Millisecond:
		return fmt.Sprintf("%dms%s", d/time.Millisecond, suffix)
	case d >= time.Microsecond:
		return fmt.Sprintf("%dus%s", d/time.Microsecond, suffix)
	}
	return "now"
}
