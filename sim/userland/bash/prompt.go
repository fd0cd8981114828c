package bash

import (
	"path"
	"strconv"
	"strings"
)

// prompt expands the backslash sequences of a prompt string.
func (sh *Shell) prompt(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'u':
			if u, ok := sh.user(""); ok {
				b.WriteString(u.Name)
			} else {
				b.WriteString("I have no name!")
			}
		case 'h':
			host, _, _ := strings.Cut(sh.p.HostName(), ".")
			b.WriteString(host)
		case 'H':
			b.WriteString(sh.p.HostName())
		case 'w', 'W':
			dir := sh.getStr("PWD")
			home := sh.getStr("HOME")
			if home != "" && home != "/" && (dir == home || strings.HasPrefix(dir, home+"/")) {
				dir = "~" + dir[len(home):]
			}
			if c == 'W' && dir != "~" && dir != "/" {
				dir = path.Base(dir)
			}
			b.WriteString(dir)
		case '$':
			if sh.p.Cred.UID == 0 {
				b.WriteByte('#')
			} else {
				b.WriteByte('$')
			}
		case 's':
			b.WriteString(path.Base(strings.TrimPrefix(sh.zero, "-")))
		case 'v':
			b.WriteString("5.2")
		case 'V':
			b.WriteString("5.2.21")
		case 'd':
			b.WriteString(now().Format("Mon Jan 02"))
		case 't':
			b.WriteString(now().Format("15:04:05"))
		case 'T':
			b.WriteString(now().Format("03:04:05"))
		case 'A':
			b.WriteString(now().Format("15:04"))
		case '@':
			b.WriteString(now().Format("03:04 PM"))
		case 'D':
			if end := strings.IndexByte(s[i:], '}'); end > 1 && s[i+1] == '{' {
				layout := s[i+2 : i+end]
				if layout == "" {
					layout = "%X"
				}
				b.WriteString(Strftime(layout, now()))
				i += end
			}
		case '!', '#':
			b.WriteString(strconv.Itoa(len(sh.history) + 1))
		case 'j':
			b.WriteString(strconv.Itoa(len(sh.jobs.all)))
		case 'l':
			b.WriteString("0")
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'a':
			b.WriteByte('\a')
		case 'e':
			b.WriteByte(0x1b)
		case '[', ']': // they only tell readline what takes no room
		case '\\':
			b.WriteByte('\\')
		case '0', '1', '2', '3', '4', '5', '6', '7':
			seq, n := oneEscape(s[i-1:])
			b.WriteString(seq)
			i += n - 2
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// promptExpand is prompt followed by the expansion of parameters and commands, as for PS1.
func (sh *Shell) promptExpand(s string) string {
	if sh.style == bashStyle {
		s = sh.prompt(s)
	}
	if !strings.ContainsAny(s, "$`") {
		return s
	}
	w, err := sh.parser().Document(strings.NewReader(s))
	if err != nil || w == nil {
		return s
	}
	status, oldSrc := sh.status, sh.src
	sh.src = &source{text: s}
	frags, err := sh.plain(w.Parts, inHeredoc)
	sh.status, sh.src = status, oldSrc
	sh.flow = flowNone
	if err != nil {
		return s
	}
	return join(frags)
}
