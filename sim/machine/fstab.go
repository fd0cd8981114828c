package machine

import (
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
)

// FstabEntry is a line of /etc/fstab.
type FstabEntry struct {
	Spec, Target, Type string
	Options            []string
}

// Fstab reads /etc/fstab; what is no entry is left out.
func Fstab(files kernel.Files) []FstabEntry {
	b, err := files.ReadFile("/etc/fstab")
	if err != nil {
		return nil
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`)
	var l []FstabEntry
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") {
			continue
		}
		e := FstabEntry{Spec: unescape.Replace(f[0]), Target: unescape.Replace(f[1]), Type: f[2]}
		if len(f) > 3 {
			e.Options = strings.Split(f[3], ",")
		}
		l = append(l, e)
	}
	return l
}

// Option returns the value of an option ("pri" of "pri=5"), "" with ok for one without a value.
func (e FstabEntry) Option(name string) (value string, ok bool) {
	for _, o := range e.Options {
		if k, v, _ := strings.Cut(o, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// Priority is the priority of a swap area, [NoPriority] if the line names none.
func (e FstabEntry) Priority() int {
	if v, ok := e.Option("pri"); ok {
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
	}
	return NoPriority
}
