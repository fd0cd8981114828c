package etcdctl

import (
	"bytes"
	"encoding/json"
	"time"
)

// log writes a line of etcdctl's own log, JSON on standard error. fields are keys and values in turn.
func (t *tool) log(level, name, caller, msg string, fields ...any) {
	var b bytes.Buffer
	b.WriteByte('{')
	add := func(k string, v any) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		for i, x := range []any{k, v} {
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(x); err != nil {
				return
			}
			b.Truncate(b.Len() - 1) // the newline
			if i == 0 {
				b.WriteByte(':')
			}
		}
	}
	add("level", level)
	add("ts", time.Now().UTC().Format(logTime))
	if name != "" {
		add("logger", name)
	}
	add("caller", caller)
	add("msg", msg)
	for i := 0; i+1 < len(fields); i += 2 {
		add(fields[i].(string), fields[i+1])
	}
	b.WriteString("}\n")
	t.Stderr.Write(b.Bytes())
}

// console writes a line of etcdutl's log, which is for people: time, level, caller, message and fields, separated by tabs.
func (t *tool) console(name, caller, msg, fields string) {
	line := time.Now().UTC().Format("2006-01-02T15:04:05Z0700") + "\tinfo\t"
	if name != "" {
		line += name + "\t"
	}
	line += caller + "\t" + msg
	if fields != "" {
		line += "\t" + fields
	}
	t.Errorf("%s\n", line)
}
