package journalctl

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"ckadrill/sim/machine/journal"
)

// show prints the entries that are asked for, through the pager on a terminal, and goes on with new ones for -f.
func (t *tool) show() int {
	var l []journal.Entry
	last := uint64(0)
	for _, e := range t.journal.After(t.start()) {
		last = e.Seq
		if t.accepts(e, t.HostName()) {
			l = append(l, e)
		}
	}
	lines := t.lines
	if t.follow && !t.noTail && lines == linesDefault && t.since.IsZero() && t.cursor == "" {
		lines = 10
	}
	if lines != linesDefault && len(l) > lines {
		if t.oldest {
			l = l[:lines]
		} else {
			l = l[len(l)-lines:]
		}
	}
	if t.reverse {
		slices.Reverse(l)
	}
	var b bytes.Buffer
	previous := ""
	for _, e := range l {
		t.entry(&b, e, &previous)
	}
	if len(l) == 0 && !t.follow && !t.quiet {
		b.WriteString("-- No entries --\n")
	}
	if t.showCursor && len(l) > 0 {
		fmt.Fprintf(&b, "-- cursor: %s\n", l[len(l)-1].Cursor())
	}
	if t.paged() {
		if _, rows := t.TTY.Size(); bytes.Count(b.Bytes(), []byte("\n")) >= rows {
			t.TTY.Page(b.Bytes())
			return 0
		}
	}
	t.Out.Write(b.Bytes())
	t.Out.Flush()
	for t.follow {
		select {
		case <-t.journal.Changed(last):
		case <-t.Done():
			return 0
		}
		for _, e := range t.journal.After(last) {
			last = e.Seq
			if t.accepts(e, t.HostName()) {
				t.entry(t.Out, e, &previous)
			}
		}
		if t.Out.Flush() != nil {
			return 0 // nobody reads any more
		}
	}
	return 0
}

// start is the number of the entry before the first one to look at.
func (t *tool) start() uint64 {
	if t.cursor == "" {
		return 0
	}
	for _, e := range t.journal.After(0) {
		if e.Cursor() == t.cursor {
			if t.after {
				return e.Seq
			}
			return e.Seq - 1
		}
	}
	return 0
}

type writer interface{ WriteString(string) (int, error) }

// entry prints one entry, with a line before it when it is of another boot than the one before.
func (t *tool) entry(w writer, e journal.Entry, boot *string) {
	if *boot != "" && *boot != e.Boot && !t.quiet && !t.merge {
		w.WriteString(t.color("0;1;39", "-- Boot "+e.Boot+" --") + "\n")
	}
	*boot = e.Boot
	host := t.HostName()
	if t.noHost {
		host = ""
	}
	line := e.Format(t.output, host)
	if strings.HasPrefix(t.output, "short") || t.output == "cat" || t.output == "with-unit" {
		switch {
		case e.Priority <= journal.Err:
			line = t.color("0;1;31", line)
		case e.Priority == journal.Warning:
			line = t.color("0;1;38:5;185", line)
		case e.Priority == journal.Notice:
			line = t.color("0;1;39", line)
		case e.Priority == journal.Debug:
			line = t.color("0;38:5;245", line)
		}
	}
	w.WriteString(line + "\n")
	if t.catalog && t.output != "cat" && !strings.HasPrefix(t.output, "json") && t.output != "export" {
		for _, l := range explain(e) {
			w.WriteString("░░ " + l + "\n")
		}
	}
}

// paged says whether output goes to a pager. With -e the pager starts at the end, which is what a terminal shows anyway.
func (t *tool) paged() bool {
	if t.noPager || t.follow || t.atEnd || !t.IsTerminal(t.Stdout) {
		return false
	}
	for _, k := range []string{"SYSTEMD_PAGER", "PAGER"} {
		if v, ok := t.LookupEnv(k); ok {
			return v != "" && v != "cat"
		}
	}
	return true
}

func (t *tool) color(code, s string) string {
	if !t.IsTerminal(t.Stdout) || t.Getenv("TERM") == "dumb" || t.Getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
