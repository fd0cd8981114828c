package runtime

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// logger writes lines as containerd does: logrus' text format with times of nine digits.
type logger struct{ w io.Writer }

const logTime = "2006-01-02T15:04:05.000000000Z07:00"

// line writes one line; kv are keys and values, in alphabetical order of the keys as logrus sorts them.
func (l logger) line(level, msg string, kv ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "time=%q level=%s msg=%s", time.Now().UTC().Format(logTime), level, quoteField(msg))
	for i := 0; i+1 < len(kv); i += 2 {
		fmt.Fprintf(&b, " %v=%s", kv[i], quoteField(fmt.Sprint(kv[i+1])))
	}
	b.WriteByte('\n')
	io.WriteString(l.w, b.String())
}

func (l logger) infof(format string, a ...any) { l.line("info", fmt.Sprintf(format, a...)) }

// quoteField quotes a value where logrus does.
func quoteField(s string) string {
	if s == "" {
		return `""`
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._/@^+", r) {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
