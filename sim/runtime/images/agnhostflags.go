package images

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// agnhostFlags are the flags of an agnhost command by name; those that were not given are not in it.
type agnhostFlags map[string]string

func (f agnhostFlags) text(name, standard string) string {
	if v, ok := f[name]; ok {
		return v
	}
	return standard
}

func (f agnhostFlags) number(name string, standard int) int {
	if n, err := strconv.Atoi(f[name]); err == nil {
		return n
	}
	return standard
}

func (f agnhostFlags) duration(name string) time.Duration {
	d, _ := time.ParseDuration(f[name])
	return d
}

func (f agnhostFlags) on(name string, standard bool) bool {
	v, ok := f[name]
	if !ok {
		return standard
	}
	return v == "" || v == "true" || v == "1"
}

// negative says whether a word is a negative number, and so no flag but the value of one.
func negative(word string) bool {
	_, err := strconv.Atoi(word)
	return err == nil && word[0] == '-'
}

// logf prints as Go's package log does.
func logf(p *kernel.Process, format string, a ...any) {
	p.Errorf("%s %s\n", time.Now().UTC().Format(goLogTime), strings.TrimSuffix(fmt.Sprintf(format, a...), "\n"))
}
