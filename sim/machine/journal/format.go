package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Formats are the output modes that [Entry.Format] knows.
var Formats = []string{"short", "short-full", "short-iso", "short-iso-precise", "short-precise", "short-monotonic", "short-unix", "verbose", "export", "json", "json-pretty", "cat", "with-unit"}

// Format writes the entry as journalctl -o mode does, without a newline. host is the machine's name, "" to leave it out.
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
	case "export":
		return e.export(host)
	case "with-unit":
		if source = e.Unit; source == "" {
			source = e.Identifier
		}
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
	if host != "" {
		host += " "
	}
	// further lines of a message stand below the first one's text
	head := stamp + " " + host + source + ": "
	return head + strings.ReplaceAll(e.Message, "\n", "\n"+strings.Repeat(" ", len(head)))
}

// fields are the entry's fields in journald's names, in the order in which verbose and export print them.
func (e Entry) fields(host string) [][2]string {
	l := [][2]string{{"_BOOT_ID", e.Boot}, {"_HOSTNAME", host}, {"PRIORITY", strconv.Itoa(e.Priority)}, {"SYSLOG_IDENTIFIER", e.Identifier}}
	add := func(name, value string) { l = append(l, [2]string{name, value}) }
	if e.PID != 0 {
		add("_PID", strconv.Itoa(e.PID))
	}
	add("_UID", strconv.Itoa(e.UID))
	switch {
	case e.fromSystemd():
		add("_COMM", "systemd")
		add("_TRANSPORT", "journal")
		add("_SYSTEMD_UNIT", "init.scope")
		if e.Unit != "" {
			add("UNIT", e.Unit)
		}
	default:
		add("_COMM", e.Identifier)
		add("_TRANSPORT", "stdout")
		if e.Unit != "" {
			add("_SYSTEMD_UNIT", e.Unit)
			add("_SYSTEMD_CGROUP", "/system.slice/"+e.Unit)
		}
	}
	add("MESSAGE", e.Message)
	return l
}

// fromSystemd says whether the service manager itself wrote the entry: Unit is then what it is about.
func (e Entry) fromSystemd() bool { return e.PID == 1 && e.Identifier == "systemd" }

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
		"__CURSOR":              e.Cursor(),
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

// Cursor names the entry's place in the journal.
func (e Entry) Cursor() string { return fmt.Sprintf("s=%s;i=%x", e.Boot, e.Seq) }

func (e Entry) verbose(host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%s]", e.Time.UTC().Format("Mon 2006-01-02 15:04:05.000000 MST"), e.Cursor())
	for _, f := range e.fields(host) {
		fmt.Fprintf(&b, "\n    %s=%s", f[0], f[1])
	}
	return b.String()
}

// Fields are the names and values of the entry's fields, as journald calls them.
func (e Entry) Fields(host string) [][2]string { return e.fields(host) }

// export is the format of systemd.io/JOURNAL_EXPORT_FORMATS, without the empty line at the end.
func (e Entry) export(host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "__CURSOR=%s\n__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n", e.Cursor(), e.Time.UnixMicro(), e.Monotonic.Microseconds())
	for _, f := range e.fields(host) {
		if strings.Contains(f[1], "\n") {
			var size [8]byte
			binary.LittleEndian.PutUint64(size[:], uint64(len(f[1])))
			fmt.Fprintf(&b, "%s\n%s%s\n", f[0], size[:], f[1])
			continue
		}
		fmt.Fprintf(&b, "%s=%s\n", f[0], f[1])
	}
	return b.String()
}
