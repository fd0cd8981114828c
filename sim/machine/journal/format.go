package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Formats are the output modes that [Entry.Format] knows.
var Formats = []string{"short", "short-full", "short-iso", "short-iso-precise", "short-precise", "short-monotonic", "short-unix", "verbose", "json", "json-pretty", "cat", "with-unit"}

// Format writes the entry as journalctl -o mode does, without a newline. host is the machine's name.
func (e Entry) Format(mode, host string) string {
	source := e.Identifier
	if e.PID != 0 {
		source += "[" + strconv.Itoa(e.PID) + "]"
	}
	t := e.Time.UTC()
	switch mode {
	case "cat":
		return e.Message
	case "json", "json-pretty":
		return e.json(mode == "json-pretty", host)
	case "verbose":
		return e.verbose(host)
	case "with-unit":
		source = e.Unit
		if e.PID != 0 {
			source += "[" + strconv.Itoa(e.PID) + "]"
		}
		return t.Format("Mon 2006-01-02 15:04:05 MST") + " " + host + " " + source + ": " + e.Message
	}
	stamp := t.Format(time.Stamp)
	switch mode {
	case "short-full":
		stamp = t.Format("Mon 2006-01-02 15:04:05 MST")
	case "short-iso":
		stamp = t.Format("2006-01-02T15:04:05-07:00")
	case "short-iso-precise":
		stamp = t.Format("2006-01-02T15:04:05.000000-07:00")
	case "short-precise":
		stamp = t.Format("Jan 02 15:04:05.000000")
	case "short-monotonic":
		stamp = fmt.Sprintf("[%12.6f]", e.Monotonic.Seconds())
	case "short-unix":
		stamp = fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
	default:
		stamp = t.Format("Jan 02 15:04:05")
	}
	// further lines of a message stand below the first one's text
	head := stamp + " " + host + " " + source + ": "
	return head + strings.ReplaceAll(e.Message, "\n", "\n"+strings.Repeat(" ", len(head)))
}

func (e Entry) fields(host string) [][2]string {
	l := [][2]string{
		{"_BOOT_ID", e.Boot}, {"_HOSTNAME", host}, {"PRIORITY", strconv.Itoa(e.Priority)}, {"SYSLOG_IDENTIFIER", e.Identifier},
		{"_PID", strconv.Itoa(e.PID)}, {"_UID", strconv.Itoa(e.UID)}, {"_SYSTEMD_UNIT", e.Unit}, {"MESSAGE", e.Message},
	}
	if e.PID == 0 {
		l = append(l[:4], l[5:]...)
	}
	return l
}

// Field returns a field of the entry by journald's name of it, such as _SYSTEMD_UNIT.
func (e Entry) Field(name, host string) (string, bool) {
	for _, f := range e.fields(host) {
		if f[0] == name {
			return f[1], true
		}
	}
	return "", false
}

func (e Entry) json(pretty bool, host string) string {
	m := map[string]string{
		"__REALTIME_TIMESTAMP":  strconv.FormatInt(e.Time.UnixMicro(), 10),
		"__MONOTONIC_TIMESTAMP": strconv.FormatInt(e.Monotonic.Microseconds(), 10),
		"__CURSOR":              e.cursor(),
	}
	for _, f := range e.fields(host) {
		m[f[0]] = f[1]
	}
	b, _ := json.Marshal(m)
	if pretty {
		b, _ = json.MarshalIndent(m, "", "\t")
	}
	return string(b)
}

func (e Entry) cursor() string { return fmt.Sprintf("s=%s;i=%x", e.Boot, e.Seq) }

func (e Entry) verbose(host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%s]", e.Time.UTC().Format("Mon 2006-01-02 15:04:05.000000 MST"), e.cursor())
	for _, f := range e.fields(host) {
		fmt.Fprintf(&b, "\n    %s=%s", f[0], f[1])
	}
	return b.String()
}
