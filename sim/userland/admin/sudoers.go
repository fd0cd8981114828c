package admin

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// sudoers is what /etc/sudoers and the files that it includes say.
type sudoers struct {
	files      kernel.Files
	rules      []rule
	aliases    map[string][]string // kind and name to members
	securePath string
	keep       []string
	resetEnv   bool
	noAuth     []string // users of "Defaults:user !authenticate"; "" is everybody
	errors     []string
	included   int
}

// rule is one command specification; the last one that matches counts.
type rule struct {
	users, hosts         []string
	runUsers, runGroups  []string
	runGiven, noPassword bool
	setEnv               bool
	command              string
}

// defaultKeep are the variables that env_reset leaves, as sudo -V lists them.
var defaultKeep = []string{"COLORS", "DISPLAY", "HOSTNAME", "KRB5CCNAME", "LS_COLORS", "PS1", "PS2", "XAUTHORITY", "XAUTHORIZATION", "XDG_CURRENT_DESKTOP", "COLORTERM", "LANG", "LANGUAGE", "LC_*", "LINGUAS", "TERM", "TZ"}

// readSudoers reads the policy as root.
func readSudoers(files kernel.Files) (*sudoers, error) {
	s := &sudoers{files: files, aliases: map[string][]string{}, resetEnv: true, keep: slices.Clone(defaultKeep)}
	return s, s.read("/etc/sudoers")
}

// maxIncludes is sudo's own limit of nested includes.
const maxIncludes = 128

func (s *sudoers) read(file string) error {
	if s.included++; s.included > maxIncludes {
		return fmt.Errorf("%s: too many levels of includes", file)
	}
	i, err := s.files.Stat(file)
	if err != nil {
		return fmt.Errorf("unable to open %s: %s", file, libc.Strerror(err))
	}
	st := libc.Stat(i)
	switch {
	case st.UID != 0:
		return fmt.Errorf("%s is owned by uid %d, should be 0", file, st.UID)
	case i.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("%s is world writable", file)
	}
	b, err := s.files.ReadFile(file)
	if err != nil {
		return fmt.Errorf("unable to open %s: %s", file, libc.Strerror(err))
	}
	lines := strings.Split(string(b), "\n")
	for n := 0; n < len(lines); n++ {
		at, l := n+1, lines[n]
		for strings.HasSuffix(l, `\`) && n+1 < len(lines) {
			n++
			l = strings.TrimSuffix(l, `\`) + lines[n]
		}
		if !s.line(file, l) {
			s.errors = append(s.errors, fmt.Sprintf("%s:%d:%d: syntax error\n%s\n%s^", file, at, len(l)+1, l, strings.Repeat(" ", len(l))))
		}
	}
	return nil
}

func (s *sudoers) line(file, l string) bool {
	for _, d := range []string{"@includedir ", "#includedir ", "@include ", "#include "} {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), d); ok {
			name := strings.Trim(strings.TrimSpace(rest), `"`)
			if !path.IsAbs(name) {
				name = path.Join(path.Dir(file), name)
			}
			s.include(name, strings.Contains(d, "dir"))
			return true
		}
	}
	l = strings.TrimSpace(uncomment(l))
	if l == "" {
		return true
	}
	first, rest, _ := strings.Cut(strings.ReplaceAll(l, "\t", " "), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.HasPrefix(first, "Defaults"):
		s.defaults(strings.TrimPrefix(first, "Defaults"), rest)
		return true
	case first == "User_Alias" || first == "Runas_Alias" || first == "Host_Alias" || first == "Cmnd_Alias" || first == "Cmd_Alias":
		for _, a := range strings.Split(rest, ":") {
			name, members, ok := strings.Cut(a, "=")
			if !ok {
				return false
			}
			s.aliases[strings.TrimSuffix(first, "_Alias")[:1]+strings.TrimSpace(name)] = list(members)
		}
		return true
	}
	return s.specification(l)
}

// uncomment cuts a comment off; a # before digits is a uid.
func uncomment(l string) string {
	quoted := false
	for i := 0; i < len(l); i++ {
		switch {
		case l[i] == '"':
			quoted = !quoted
		case l[i] == '\\':
			i++
		case l[i] == '#' && !quoted && (i+1 >= len(l) || l[i+1] < '0' || l[i+1] > '9'):
			return l[:i]
		}
	}
	return l
}

func list(s string) []string {
	var l []string
	for _, f := range strings.Split(s, ",") {
		if f = strings.TrimSpace(f); f != "" {
			l = append(l, strings.Trim(f, `"`))
		}
	}
	return l
}

func (s *sudoers) include(name string, dir bool) {
	if !dir {
		if err := s.read(name); err != nil {
			s.errors = append(s.errors, err.Error())
		}
		return
	}
	entries, err := s.files.ReadDir(name)
	if err != nil {
		return
	}
	for _, e := range entries { // in order of names; those with a dot or a tilde at the end are left out
		if n := e.Name(); !e.IsDir() && !strings.Contains(n, ".") && !strings.HasSuffix(n, "~") {
			if err := s.read(path.Join(name, n)); err != nil {
				s.errors = append(s.errors, err.Error())
			}
		}
	}
}

func (s *sudoers) defaults(scope, text string) {
	for _, setting := range splitSettings(text) {
		name, value, _ := strings.Cut(setting, "=")
		add := strings.HasSuffix(name, "+")
		name = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(name), "+"))
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch name {
		case "secure_path":
			s.securePath = value
		case "!secure_path":
			s.securePath = ""
		case "env_reset":
			s.resetEnv = true
		case "!env_reset":
			s.resetEnv = false
		case "env_keep":
			if !add {
				s.keep = nil
			}
			s.keep = append(s.keep, strings.Fields(value)...)
		case "!authenticate":
			s.noAuth = append(s.noAuth, strings.TrimPrefix(scope, ":"))
		}
	}
}

// splitSettings splits at commas outside of quotes.
func splitSettings(s string) []string {
	var l []string
	quoted, start := false, 0
	for i := 0; i <= len(s); i++ {
		if i == len(s) || s[i] == ',' && !quoted {
			l = append(l, strings.TrimSpace(s[start:i]))
			start = i + 1
		} else if s[i] == '"' {
			quoted = !quoted
		}
	}
	return l
}

// tags may stand before a command.
var tags = []string{"NOPASSWD:", "PASSWD:", "SETENV:", "NOSETENV:", "NOEXEC:", "EXEC:", "LOG_INPUT:", "NOLOG_INPUT:", "LOG_OUTPUT:", "NOLOG_OUTPUT:", "FOLLOW:", "NOFOLLOW:", "MAIL:", "NOMAIL:", "INTERCEPT:", "NOINTERCEPT:"}

// specification reads "users hosts = (runas) TAGS: commands".
func (s *sudoers) specification(l string) bool {
	left, right, ok := strings.Cut(l, "=")
	if !ok {
		return false
	}
	left = strings.TrimSpace(left)
	i := strings.LastIndexAny(left, " \t")
	if i < 0 {
		return false
	}
	// Around commas blanks do not separate: "a, b ALL".
	users, hosts := strings.TrimSpace(left[:i]), left[i+1:]
	for strings.HasSuffix(users, ",") {
		j := strings.LastIndexAny(users, " \t")
		if j < 0 {
			return false
		}
		hosts, users = users[j+1:]+hosts, strings.TrimSpace(users[:j])
	}
	r := rule{users: list(users), hosts: list(hosts)}
	for _, cmd := range splitCommands(right) {
		cmd = strings.TrimSpace(cmd)
		if strings.HasPrefix(cmd, "(") {
			end := strings.IndexByte(cmd, ')')
			if end < 0 {
				return false
			}
			u, g, _ := strings.Cut(cmd[1:end], ":")
			r.runUsers, r.runGroups, r.runGiven = list(u), list(g), true
			cmd = strings.TrimSpace(cmd[end+1:])
		}
		for found := true; found; {
			found = false
			for _, t := range tags {
				rest, ok := strings.CutPrefix(cmd, t)
				if !ok {
					if rest, ok = strings.CutPrefix(cmd, strings.TrimSuffix(t, ":")+" :"); !ok {
						continue
					}
				}
				found = true
				cmd = strings.TrimSpace(rest)
				switch t {
				case "NOPASSWD:":
					r.noPassword = true
				case "PASSWD:":
					r.noPassword = false
				case "SETENV:":
					r.setEnv = true
				case "NOSETENV:":
					r.setEnv = false
				}
			}
		}
		if cmd == "" {
			return false
		}
		r.command = cmd
		s.rules = append(s.rules, r)
	}
	return true
}

func splitCommands(s string) []string {
	var l []string
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == ',' && depth == 0:
			l = append(l, s[start:i])
			start = i + 1
		case s[i] == '\\':
			i++
		case s[i] == '(':
			depth++
		case s[i] == ')':
			depth--
		}
	}
	return l
}

// in says whether a list of users, hosts or the like contains something; is tests one member that is no alias.
func (s *sudoers) in(kind string, members []string, is func(m string) bool, depth int) bool {
	found := false
	for _, m := range members {
		name, negated := strings.CutPrefix(m, "!")
		yes := name == "ALL" || is(name)
		if a, ok := s.aliases[kind+name]; ok && depth < 10 {
			yes = s.in(kind, a, is, depth+1)
		}
		if yes {
			found = !negated
		}
	}
	return found
}

// who is a user as sudoers asks about one.
type who struct {
	name   string
	uid    int
	groups []string
}

func (w who) is(m string) bool {
	switch {
	case strings.HasPrefix(m, "%#"), strings.HasPrefix(m, "+"):
		return false
	case strings.HasPrefix(m, "%"):
		return slices.Contains(w.groups, m[1:])
	case strings.HasPrefix(m, "#"):
		return m[1:] == fmt.Sprint(w.uid)
	}
	return m == w.name
}

// request is what somebody wants to run.
type request struct {
	user   who
	host   string
	target who
	group  string // -g
	file   string // absolute
	args   []string
}

// find returns the rule that allows a request, and whether the user is mentioned at all.
func (s *sudoers) find(q request) (r *rule, known bool) {
	for i := range s.rules {
		x := &s.rules[i]
		short, _, _ := strings.Cut(q.host, ".")
		if !s.in("U", x.users, q.user.is, 0) || !s.in("H", x.hosts, func(m string) bool { return m == q.host || m == short }, 0) {
			continue
		}
		known = true
		runUsers := x.runUsers
		if !x.runGiven {
			runUsers = []string{"root"}
		}
		if q.group != "" && !s.in("R", x.runGroups, func(m string) bool { return m == q.group }, 0) {
			continue
		}
		if !(q.target.name == q.user.name && q.group != "") && !s.in("R", runUsers, q.target.is, 0) {
			continue
		}
		if q.file == "" {
			r = x
			continue
		}
		name, negated := strings.CutPrefix(x.command, "!")
		if s.in("C", []string{strings.TrimSpace(name)}, func(m string) bool { return commandMatches(m, q.file, q.args) }, 0) {
			r = x
			if negated {
				r = nil
			}
		}
	}
	return r, known
}

// commandMatches compares a command of sudoers, with or without arguments, with the one that is wanted.
func commandMatches(m, file string, args []string) bool {
	m = strings.TrimSpace(m)
	name, want, hasArgs := strings.Cut(m, " ")
	switch {
	case strings.HasSuffix(name, "/"):
		if path.Dir(file)+"/" != name {
			return false
		}
	case !libc.NewGlob(name, false).Match(file):
		// /bin and /usr/bin are one directory on a merged system.
		if !libc.NewGlob(name, false).Match(strings.TrimPrefix(file, "/usr")) && !libc.NewGlob("/usr"+name, false).Match(file) {
			return false
		}
	}
	if !hasArgs {
		return true
	}
	if want = strings.TrimSpace(want); want == `""` {
		return len(args) == 0
	}
	return libc.NewGlob(want, false).Match(strings.Join(args, " "))
}
