package systemd

import (
	"errors"
	"strings"

	"ckadrill/sim/kernel"
)

// command is one ExecStart= and the like, after splitting.
type command struct {
	path         string
	argv         []string
	ignoreResult bool // "-"
}

// parseCommand splits a command line as systemd.service(5) says: quotes, $VAR as a word of its own is split into words,
// ${VAR} is replaced within a word.
func parseCommand(line string, env []string) (command, error) {
	var c command
	line = strings.TrimSpace(line)
	argv0 := false
	for len(line) > 0 && strings.IndexByte("-@:+!", line[0]) >= 0 {
		switch line[0] {
		case '-':
			c.ignoreResult = true
		case '@':
			argv0 = true
		}
		line = line[1:]
	}
	words, err := split(line)
	if err != nil {
		return c, err
	}
	if len(words) == 0 {
		return c, errors.New("no command")
	}
	c.path = words[0]
	if argv0 {
		if len(words) < 2 {
			return c, errors.New("no argv[0] behind @")
		}
		words = words[1:]
	}
	for i, w := range words {
		if i == 0 {
			c.argv = append(c.argv, w)
			continue
		}
		if name, ok := wholeVariable(w); ok {
			v, _ := lookup(env, name)
			more, err := split(v)
			if err != nil {
				more = strings.Fields(v)
			}
			c.argv = append(c.argv, more...)
			continue
		}
		c.argv = append(c.argv, expand(w, env))
	}
	return c, nil
}

func wholeVariable(w string) (string, bool) {
	if len(w) < 2 || w[0] != '$' || w[1] == '{' || w[1] == '$' {
		return "", false
	}
	for _, r := range w[1:] {
		if r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return "", false
		}
	}
	return w[1:], true
}

func lookup(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// expand replaces ${VAR} and $$ in a word.
func expand(w string, env []string) string {
	var b strings.Builder
	for i := 0; i < len(w); i++ {
		if w[i] == '$' && i+1 < len(w) {
			if w[i+1] == '$' {
				b.WriteByte('$')
				i++
				continue
			}
			if w[i+1] == '{' {
				if end := strings.IndexByte(w[i:], '}'); end > 0 {
					v, _ := lookup(env, w[i+2:i+end])
					b.WriteString(v)
					i += end
					continue
				}
			}
		}
		b.WriteByte(w[i])
	}
	return b.String()
}

// escapes are those of systemd.syntax(7) that are one letter.
var escapes = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 's': ' ', '\\': '\\', '"': '"', '\'': '\''}

// split splits into words, with single and double quotes and backslashes.
func split(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	in := false
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			in = true
			if e, ok := escapes[s[i]]; ok {
				b.WriteByte(e)
			} else { // kept as it is
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
		case c == '"' || c == '\'':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, b.String())
				b.Reset()
				in = false
			}
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("unbalanced quoting")
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// environment is what a service's commands see: systemd's own variables, Environment= and the files, a later one wins.
func environment(files kernel.Files, d *Definition, home, user string) ([]string, error) {
	env := []string{"LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/snap/bin"}
	if user != "" {
		env = append(env, "HOME="+home, "LOGNAME="+user, "USER="+user)
	}
	for _, v := range d.all("Service", "Environment") {
		words, err := split(v)
		if err != nil {
			continue
		}
		env = append(env, words...)
	}
	for _, f := range d.all("Service", "EnvironmentFile") {
		name, optional := strings.CutPrefix(f, "-")
		b, err := files.ReadFile(name)
		if err != nil {
			if optional {
				continue
			}
			return nil, err
		}
		for _, l := range strings.Split(string(b), "\n") {
			l = strings.TrimSpace(l)
			if l == "" || l[0] == '#' || l[0] == ';' {
				continue
			}
			k, v, ok := strings.Cut(l, "=")
			if !ok {
				continue
			}
			env = append(env, strings.TrimSpace(k)+"="+unquote(strings.TrimSpace(v)))
		}
	}
	return env, nil
}

// unquote reads a value of an environment file, in which quotes may stand around a part.
func unquote(v string) string {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == '\\' && quote != '\'' && i+1 < len(v):
			i++
			b.WriteByte(v[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// strerror is the C library's text, which begins with a capital.
func strerror(err error) string {
	s := err.Error()
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
