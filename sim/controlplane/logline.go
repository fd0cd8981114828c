package controlplane

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// logLine writes a line that upstream's main functions would have written themselves, where these could not be run and
// what they do is done here. source is upstream's place of it, "server.go:150".
func logLine(p *kernel.Process, severity byte, source, text string) {
	if severity == 'I' && p.Resumed() && time.Since(thawed(p)) < quietAfterThaw {
		return
	}
	fmt.Fprintf(p.Log, "%c%s %7d %s] %s\n", severity, time.Now().Format("0102 15:04:05.000000"), p.OwnPID(), source, text)
}

// keysAndValues formats a structured line as klog does: "message" key="value".
func keysAndValues(message string, kv ...string) string {
	var b strings.Builder
	b.WriteString(strconv.Quote(message))
	for i := 0; i+1 < len(kv); i += 2 {
		v := strconv.Quote(kv[i+1])
		if strings.Contains(kv[i+1], "\n") {
			v = "<\n\t" + strings.ReplaceAll(strings.TrimSuffix(kv[i+1], "\n"), "\n", "\n\t") + "\n >"
		}
		b.WriteString(" " + kv[i] + "=" + v)
	}
	return b.String()
}

// golangSettings is what every component says after its version.
func golangSettings(p *kernel.Process) string {
	return keysAndValues("Golang settings", "GOGC", p.Getenv("GOGC"), "GOMAXPROCS", p.Getenv("GOMAXPROCS"), "GOTRACEBACK", p.Getenv("GOTRACEBACK"))
}
