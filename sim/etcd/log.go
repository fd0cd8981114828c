package etcd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// logger writes the lines that etcd's zap logger would.
type logger struct {
	mu      sync.Mutex
	w       io.Writer
	console bool
	least   int
	silent  atomic.Bool // a process that carries on after a thaw announces nothing
}

var logLevels = []string{"debug", "info", "warn", "error", "dpanic", "panic", "fatal"}

// line is what goes with a message beside its fields.
type line struct {
	level, name, caller, msg, stack string
	fields                          []any // key, value, key, value ...
}

func (l *logger) enabled(level string) bool {
	return slices.Index(logLevels, level) >= l.least && !l.silent.Load()
}

func (l *logger) write(x line) {
	if !l.enabled(x.level) {
		return
	}
	if x.stack != "" {
		x.fields = append(slices.Clone(x.fields), "stacktrace", x.stack)
	}
	var b bytes.Buffer
	now := time.Now().UTC()
	if l.console {
		fmt.Fprintf(&b, "%s\t%s\t", now.Format("2006-01-02T15:04:05.000000Z"), x.level)
		if x.name != "" {
			b.WriteString(x.name + "\t")
		}
		fmt.Fprintf(&b, "%s\t%s", x.caller, x.msg)
		if len(x.fields) > 0 {
			b.WriteString("\t{")
			writeFields(&b, x.fields, ": ", ", ")
			b.WriteString("}")
		}
	} else {
		fields := []any{"level", x.level, "ts", now.Format("2006-01-02T15:04:05.000000Z")}
		if x.name != "" {
			fields = append(fields, "logger", x.name)
		}
		b.WriteString("{")
		writeFields(&b, append(append(fields, "caller", x.caller, "msg", x.msg), x.fields...), ":", ",")
		b.WriteString("}")
	}
	b.WriteString("\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.Write(b.Bytes())
}

func writeFields(b *bytes.Buffer, fields []any, colon, comma string) {
	for i := 0; i+1 < len(fields); i += 2 {
		if i > 0 {
			b.WriteString(comma)
		}
		b.WriteString(jsonOf(fields[i]) + colon)
		if list, ok := fields[i+1].([]string); ok {
			var q []string
			for _, s := range list {
				q = append(q, jsonOf(s))
			}
			b.WriteString("[" + strings.Join(q, strings.TrimSpace(comma)) + "]")
			continue
		}
		b.WriteString(jsonOf(fields[i+1]))
	}
}

// jsonOf encodes as zap does: no HTML escapes, durations as text.
func jsonOf(v any) string {
	if d, ok := v.(time.Duration); ok {
		v = d.String()
	}
	if e, ok := v.(error); ok {
		v = e.Error()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(v))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (l *logger) info(caller, msg string, fields ...any) {
	l.write(line{level: "info", caller: caller, msg: msg, fields: fields})
}

func (l *logger) warn(caller, msg string, fields ...any) {
	l.write(line{level: "warn", caller: caller, msg: msg, fields: fields})
}

func (l *logger) raft(caller, format string, a ...any) {
	l.write(line{level: "info", name: "raft", caller: "v3@v3.6.0/" + caller, msg: fmt.Sprintf(format, a...)})
}
