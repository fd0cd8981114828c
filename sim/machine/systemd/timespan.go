package systemd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Forever is the time span "infinity".
const Forever time.Duration = 1<<63 - 1

var errTimespan = errors.New("Invalid argument")

// spanUnits are the names of systemd.time(7)'s units.
var spanUnits = map[string]time.Duration{
	"usec": time.Microsecond, "us": time.Microsecond, "µs": time.Microsecond, "msec": time.Millisecond, "ms": time.Millisecond,
	"seconds": time.Second, "second": time.Second, "sec": time.Second, "s": time.Second, "": time.Second,
	"minutes": time.Minute, "minute": time.Minute, "min": time.Minute, "m": time.Minute,
	"hours": time.Hour, "hour": time.Hour, "hr": time.Hour, "h": time.Hour,
	"days": 24 * time.Hour, "day": 24 * time.Hour, "d": 24 * time.Hour,
	"weeks": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "w": 7 * 24 * time.Hour,
	"months": month, "month": month, "M": month, "years": year, "year": year, "y": year,
}

const (
	month = 2629800 * time.Second
	year  = 31557600 * time.Second
)

// ParseTimespan reads systemd.time(7)'s spans: "10", "100ms", "1min 30s", "2h", "infinity".
func ParseTimespan(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if s == "infinity" {
		return Forever, nil
	}
	if s == "" {
		return 0, errTimespan
	}
	total := 0.0
	for s != "" {
		i := 0
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
			i++
		}
		n, err := strconv.ParseFloat(s[:i], 64)
		if err != nil {
			return 0, errTimespan
		}
		s = strings.TrimLeft(s[i:], " \t")
		j := 0
		for j < len(s) && s[j] != ' ' && s[j] != '\t' && (s[j] < '0' || s[j] > '9') {
			j++
		}
		u, ok := spanUnits[s[:j]]
		if !ok {
			return 0, errTimespan
		}
		total += n * float64(u)
		s = strings.TrimLeft(s[j:], " \t")
	}
	if total >= float64(Forever) {
		return Forever, nil
	}
	return time.Duration(total), nil
}

// duration reads a time span of a unit file, or returns the default.
func duration(s string, def time.Duration) time.Duration {
	d, err := ParseTimespan(s)
	if err != nil {
		return def
	}
	return d
}

// FormatTimespan writes a time span as systemd does, down to accuracy: "1min 30.250s", "5ms", "2d 3h".
func FormatTimespan(d, accuracy time.Duration) string {
	if d == Forever {
		return "infinity"
	}
	if d <= 0 {
		return "0"
	}
	if accuracy < time.Microsecond {
		accuracy = time.Microsecond
	}
	var parts []string
	for _, u := range []struct {
		suffix string
		d      time.Duration
	}{{"y", year}, {"month", month}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}} {
		if d <= 0 {
			break
		}
		if d < accuracy && len(parts) > 0 {
			break
		}
		if d < u.d {
			continue
		}
		n, rest := d/u.d, d%u.d
		// below a minute the rest is shown as decimals
		if d < time.Minute && rest > 0 {
			digits := -1
			for c := u.d; c > 1; c /= 10 {
				digits++
				if c/10 < accuracy || c/10 < 1 {
					break
				}
			}
			unit := u.d
			for range digits {
				unit /= 10
			}
			if frac := rest / unit; digits > 0 {
				parts = append(parts, fmt.Sprintf("%d.%0*d%s", n, digits, frac, u.suffix))
				return strings.Join(parts, " ")
			}
		}
		parts = append(parts, fmt.Sprintf("%d%s", n, u.suffix))
		d = rest
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, " ")
}
