package journalctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/machine/systemd"
)

// layouts are the absolute forms of systemd.time(7); those without a date are of today.
var layouts = []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02",
	"06-01-02 15:04:05", "06-01-02 15:04", "06-01-02"}

var clocks = []string{"15:04:05.999999999", "15:04:05", "15:04"}

// parseTimestamp reads a time as systemd.time(7) describes it: "2026-12-01 10:00", "10:00", "today", "-1h", "5 min ago",
// "@1764583200". Times are UTC, as the machines' zone is.
func parseTimestamp(s string, now time.Time) (time.Time, error) {
	bad := fmt.Errorf("Failed to parse timestamp: %s", s)
	now = now.UTC()
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	text := strings.TrimSpace(s)
	switch text {
	case "now":
		return now, nil
	case "today":
		return day, nil
	case "yesterday":
		return day.AddDate(0, 0, -1), nil
	case "tomorrow":
		return day.AddDate(0, 0, 1), nil
	case "":
		return time.Time{}, bad
	}
	if n, ok := strings.CutPrefix(text, "@"); ok {
		f, err := strconv.ParseFloat(n, 64)
		if err != nil || f < 0 || f > 1e11 {
			return time.Time{}, bad
		}
		return time.UnixMicro(int64(f * 1e6)).UTC(), nil
	}
	relative := func(span string, sign time.Duration) (time.Time, error) {
		d, err := systemd.ParseTimespan(span)
		if err != nil || d == systemd.Forever {
			return time.Time{}, bad
		}
		return now.Add(sign * d), nil
	}
	switch {
	case text[0] == '+':
		return relative(text[1:], 1)
	case text[0] == '-':
		return relative(text[1:], -1)
	}
	if span, ok := strings.CutSuffix(text, " ago"); ok {
		return relative(span, -1)
	}
	if span, ok := strings.CutSuffix(text, " left"); ok {
		return relative(span, 1)
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, " UTC"), "Z")
	if d, rest, ok := strings.Cut(text, " "); ok {
		if _, err := time.Parse("Mon", strings.TrimSuffix(d, ",")); err == nil {
			text = rest
		} else if _, err := time.Parse("Monday", strings.TrimSuffix(d, ",")); err == nil {
			text = rest
		}
		base, isDay := map[string]time.Time{"today": day, "yesterday": day.AddDate(0, 0, -1), "tomorrow": day.AddDate(0, 0, 1)}[d]
		if isDay {
			day, text = base, rest
		}
	}
	for _, l := range layouts {
		if at, err := time.Parse(l, text); err == nil {
			return at, nil
		}
	}
	for _, l := range clocks {
		if at, err := time.Parse(l, text); err == nil {
			return day.Add(at.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))), nil
		}
	}
	return time.Time{}, bad
}
