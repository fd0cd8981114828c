package bash

import (
	"fmt"
	"strconv"
	"strings"
)

func builtinHistory(sh *Shell, args []string) int {
	n := len(sh.history)
	if len(args) > 0 {
		switch a := args[0]; a {
		case "-c":
			sh.history = nil
			return 0
		case "-d":
			if len(args) < 2 {
				sh.complain("history: -d: option requires an argument")
				return 2
			}
			i, err := strconv.Atoi(args[1])
			if err != nil || i < 1 || i > n {
				sh.complain("history: %s: history position out of range", args[1])
				return 1
			}
			sh.history = append(sh.history[:i-1], sh.history[i:]...)
			return 0
		case "-w":
			sh.saveHistory()
			return 0
		case "-a", "-n", "-r", "-s", "-p":
			return 0
		default:
			k, err := strconv.Atoi(a)
			if err != nil {
				sh.complain("history: %s: numeric argument required", a)
				return 1
			}
			n = min(n, max(k, 0))
		}
	}
	var b strings.Builder
	for i := len(sh.history) - n; i < len(sh.history); i++ {
		fmt.Fprintf(&b, "%5d  %s\n", i+1, sh.history[i])
	}
	return sh.print("history", b.String())
}

// remember adds a line to the history, by HISTCONTROL and HISTSIZE.
func (sh *Shell) remember(line string) {
	control := sh.getStr("HISTCONTROL")
	has := func(s string) bool { return strings.Contains(":"+control+":", ":"+s+":") }
	if strings.TrimSpace(line) == "" {
		return
	}
	if (has("ignorespace") || has("ignoreboth")) && strings.HasPrefix(line, " ") {
		return
	}
	if (has("ignoredups") || has("ignoreboth")) && len(sh.history) > 0 && sh.history[len(sh.history)-1] == line {
		return
	}
	sh.history = append(sh.history, line)
	size := maxHistory
	if n, err := strconv.Atoi(sh.getStr("HISTSIZE")); err == nil && n >= 0 {
		size = min(n, maxHistory)
	}
	if len(sh.history) > size {
		sh.history = sh.history[len(sh.history)-size:]
	}
}

func (sh *Shell) loadHistory() {
	b, err := sh.files.ReadFile(sh.abs(sh.getStr("HISTFILE")))
	if err != nil {
		return
	}
	for _, l := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		if l != "" && !strings.HasPrefix(l, "#") {
			sh.history = append(sh.history, l)
		}
	}
	if len(sh.history) > maxHistory {
		sh.history = sh.history[len(sh.history)-maxHistory:]
	}
}

func (sh *Shell) saveHistory() {
	if f := sh.getStr("HISTFILE"); f != "" && len(sh.history) > 0 {
		sh.files.WriteFile(sh.abs(f), []byte(strings.Join(sh.history, "\n")+"\n"), 0o600)
	}
}

// expandHistory replaces !!, !n, !-n, !text, !$ and ^a^b in a line that was typed. changed says that the line must be shown.
func (sh *Shell) expandHistory(line string) (out string, changed bool, err error) {
	if !sh.opt['H'] || !strings.ContainsAny(line, "!^") {
		return line, false, nil
	}
	last := ""
	if len(sh.history) > 0 {
		last = sh.history[len(sh.history)-1]
	}
	if strings.HasPrefix(line, "^") {
		f := strings.SplitN(line[1:], "^", 3)
		if len(f) >= 2 {
			if !strings.Contains(last, f[0]) {
				return "", false, fmt.Errorf(":s%s: substitution failed", line)
			}
			return strings.Replace(last, f[0], f[1], 1), true, nil
		}
	}
	var b strings.Builder
	single, double := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && !single && i+1 < len(line):
			b.WriteString(line[i : i+2])
			i++
			continue
		case c == '\'' && !double:
			single = !single
		case c == '"' && !single:
			double = !double
		}
		if c != '!' || single || i+1 >= len(line) || strings.IndexByte(" \t\n=(\"", line[i+1]) >= 0 {
			b.WriteByte(c)
			continue
		}
		event, n, ok := sh.historyEvent(line[i+1:], last)
		if !ok {
			return "", false, fmt.Errorf("%s: event not found", "!"+line[i+1:i+1+n])
		}
		b.WriteString(event)
		i += n
		changed = true
	}
	return b.String(), changed, nil
}

func (sh *Shell) historyEvent(s, last string) (event string, n int, ok bool) {
	words := func(l string) []string { return strings.Fields(l) }
	switch s[0] {
	case '!':
		if last == "" {
			return "", 1, false
		}
		rest, n := last, 1
		if strings.HasPrefix(s[1:], ":") || strings.HasPrefix(s[1:], "$") {
			w := words(last)
			switch {
			case strings.HasPrefix(s[1:], "$"), strings.HasPrefix(s[1:], ":$"):
				return w[len(w)-1], 1 + strings.IndexByte(s[1:], '$') + 1, true
			case len(s) > 2 && s[2] >= '0' && s[2] <= '9':
				if k := int(s[2] - '0'); k < len(w) {
					return w[k], 3, true
				}
				return "", 3, false
			}
		}
		return rest, n, true
	case '$':
		w := words(last)
		if len(w) == 0 {
			return "", 1, false
		}
		return w[len(w)-1], 1, true
	case '*':
		w := words(last)
		if len(w) == 0 {
			return "", 1, false
		}
		return strings.Join(w[1:], " "), 1, true
	}
	end := strings.IndexAny(s, " \t;&|\"')")
	if end < 0 {
		end = len(s)
	}
	ref := s[:end]
	if k, err := strconv.Atoi(ref); err == nil {
		i := k - 1
		if k < 0 {
			i = len(sh.history) + k
		}
		if i >= 0 && i < len(sh.history) {
			return sh.history[i], end, true
		}
		return "", end, false
	}
	for i := len(sh.history) - 1; i >= 0; i-- {
		if strings.HasPrefix(sh.history[i], ref) || strings.HasPrefix(ref, "?") && strings.Contains(sh.history[i], strings.Trim(ref, "?")) {
			return sh.history[i], end, true
		}
	}
	return "", end, false
}
