package coreutils

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

func date(c *libc.Prog) int {
	opts, operands, ok := c.Options("d:f:I::r:Rs:uD:", "date:|d", "file:|f", "iso-8601::|I", "reference:|r", "rfc-email|R", "rfc-2822|R", "rfc-3339:", "set:|s", "utc|u", "universal|u", "debug", "resolution")
	if !ok {
		return c.Status
	}
	now := time.Now()
	t, layout := now, "%a %b %e %H:%M:%S %Z %Y"
	for _, o := range opts {
		switch o.Name {
		case "d":
			var err error
			if t, err = parseDate(o.Value, now); err != nil {
				if c.Busybox {
					return c.Fail("invalid date '%s'", o.Value)
				}
				return c.Fail("invalid date %s", c.Quote(o.Value))
			}
		case "r":
			i, err := c.Files.Stat(c.Path(o.Value))
			if err != nil {
				return c.Fail("%s: %s", libc.QuoteN(o.Value), libc.Strerror(err))
			}
			t = i.ModTime()
		case "I":
			switch o.Value {
			case "", "date":
				layout = "%Y-%m-%d"
			case "hours":
				layout = "%Y-%m-%dT%H%:z"
			case "minutes":
				layout = "%Y-%m-%dT%H:%M%:z"
			case "seconds":
				layout = "%Y-%m-%dT%H:%M:%S%:z"
			case "ns":
				layout = "%Y-%m-%dT%H:%M:%S,%N%:z"
			default:
				c.Fail("invalid argument %s for %s", c.Quote(o.Value), c.Quote("--iso-8601"))
				return c.TryHelp()
			}
		case "R":
			layout = "%a, %d %b %Y %H:%M:%S %z"
		case "rfc-3339":
			layout = map[string]string{"date": "%Y-%m-%d", "seconds": "%Y-%m-%d %H:%M:%S%:z", "ns": "%Y-%m-%d %H:%M:%S.%N%:z"}[o.Value]
			if layout == "" {
				c.Fail("invalid argument %s for %s", c.Quote(o.Value), c.Quote("--rfc-3339"))
				return c.TryHelp()
			}
		case "s":
			if c.Cred.UID != 0 {
				return c.Fail("cannot set date: Operation not permitted")
			}
			return c.Fail("ckadrill does not simulate setting the clock of one machine")
		}
	}
	for _, a := range operands {
		f, isFormat := strings.CutPrefix(a, "+")
		if !isFormat {
			c.Warn("invalid date %s", c.Quote(a))
			return 1
		}
		layout = f
	}
	c.Put("%s\n", bash.Strftime(layout, t.UTC()))
	return 0
}

var errDate = errors.New("invalid date")

// dateLayouts are the absolute dates that GNU date reads, as far as scripts write them. Zones other than UTC's are offsets.
var dateLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 MST", "2006-01-02 15:04:05", "2006-01-02 15:04 MST", "2006-01-02 15:04", "2006-01-02", "2006/01/02 15:04:05", "2006/01/02", "01/02/2006", "20060102 15:04:05", "20060102", "Jan _2 15:04:05 2006", "Jan _2 15:04:05 MST 2006",
	"Jan _2 15:04:05 2006 MST", "Jan _2 2006", "Jan _2, 2006", "_2 Jan 2006 15:04:05 -0700", "_2 Jan 2006 15:04:05 MST", "_2 Jan 2006 15:04:05", "_2 Jan 2006", "Mon Jan _2 15:04:05 MST 2006", "Mon Jan _2 15:04:05 2006", "Mon, 02 Jan 2006 15:04:05 -0700",
	"Mon, 02 Jan 2006 15:04:05 MST"}

var relativeDate = regexp.MustCompile(`^([+-]?\s*\d*)\s*(sec|secs|second|seconds|min|mins|minute|minutes|hour|hours|day|days|week|weeks|fortnight|month|months|year|years)(\s+ago)?$`)

// parseDate reads a date as GNU date -d does: an absolute date, @seconds, a word or something relative, or several of them.
func parseDate(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	now = now.UTC()
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	switch strings.ToLower(s) {
	case "":
		return midnight, nil
	case "now", "today":
		return now, nil
	case "yesterday":
		return now.AddDate(0, 0, -1), nil
	case "tomorrow":
		return now.AddDate(0, 0, 1), nil
	case "midnight":
		return midnight, nil
	}
	if n, ok := strings.CutPrefix(s, "@"); ok {
		f, err := strconv.ParseFloat(n, 64)
		if err != nil {
			return time.Time{}, errDate
		}
		sec := int64(f)
		return time.Unix(sec, int64((f-float64(sec))*1e9)).UTC(), nil
	}
	for _, l := range dateLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t.UTC(), nil
		}
	}
	for _, l := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(l, s); err == nil {
			return midnight.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second), nil
		}
	}
	if t, err := shift(strings.ToLower(s), now); err == nil {
		return t, nil
	}
	// A date followed by something relative: take the longest date at the start.
	words := strings.Fields(s)
	for i := len(words) - 1; i > 0; i-- {
		t, err := parseDate(strings.Join(words[:i], " "), now)
		if err != nil {
			continue
		}
		if r, err := shift(strings.ToLower(strings.Join(words[i:], " ")), t); err == nil {
			return r, nil
		}
		rest := strings.Join(words[i:], " ")
		for _, l := range []string{"15:04:05", "15:04"} {
			if d, err := time.Parse(l, rest); err == nil {
				return time.Date(t.Year(), t.Month(), t.Day(), d.Hour(), d.Minute(), d.Second(), 0, time.UTC), nil
			}
		}
	}
	return time.Time{}, errDate
}

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// shift applies something relative, such as "2 hours ago" or "next week".
func shift(s string, t time.Time) (time.Time, error) {
	s = strings.Replace(strings.Replace(s, "next ", "1 ", 1), "last ", "-1 ", 1)
	for n, d := range weekdays {
		if s == d || len(s) >= 3 && s == d[:3] || s == "1 "+d {
			days := (n - int(t.Weekday()) + 7) % 7
			if strings.HasPrefix(s, "1 ") && days == 0 {
				days = 7
			}
			return time.Date(t.Year(), t.Month(), t.Day()+days, 0, 0, 0, 0, time.UTC), nil
		}
	}
	m := relativeDate.FindStringSubmatch(s)
	if m == nil {
		return t, errDate
	}
	count := strings.ReplaceAll(m[1], " ", "")
	n := 1
	if strings.Trim(count, "+-") != "" {
		var err error
		if n, err = strconv.Atoi(strings.TrimPrefix(count, "+")); err != nil {
			return t, errDate
		}
	} else if count == "-" {
		n = -1
	}
	if m[3] != "" {
		n = -n
	}
	switch m[2][:3] {
	case "sec":
		return t.Add(time.Duration(n) * time.Second), nil
	case "min":
		return t.Add(time.Duration(n) * time.Minute), nil
	case "hou":
		return t.Add(time.Duration(n) * time.Hour), nil
	case "day":
		return t.AddDate(0, 0, n), nil
	case "wee":
		return t.AddDate(0, 0, 7*n), nil
	case "for":
		return t.AddDate(0, 0, 14*n), nil
	case "mon":
		return t.AddDate(0, n, 0), nil
	}
	return t.AddDate(n, 0, 0), nil
}
