package admin

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

const sudoUsage = `usage: sudo -h | -K | -k | -V
usage: sudo -v [-ABkNnS] [-g group] [-h host] [-p prompt] [-u user]
usage: sudo -l [-ABkNnS] [-g group] [-h host] [-p prompt] [-U user] [-u user] [command [arg ...]]
usage: sudo [-ABbEHkNnPS] [-r role] [-t type] [-C num] [-D directory] [-g group] [-h host] [-p prompt] [-R directory] [-T timeout] [-u user] [VAR=value] [-i | -s] [command [arg ...]]
usage: sudo -e [-ABkNnS] [-r role] [-t type] [-C num] [-D directory] [-g group] [-h host] [-p prompt] [-R directory] [-T timeout] [-u user] file ...
`

// sudoRun is one run of sudo.
type sudoRun struct {
	c                                                             *libc.Prog
	root                                                          kernel.Files
	policy                                                        *sudoers
	caller                                                        libc.User
	target                                                        libc.User
	cred                                                          kernel.Credential
	login, shell, nonInteractive, preserve, list, validate, stdin bool
	background, edit, setHome                                     bool
	keep                                                          []string // --preserve-env=list
	prompt, group, dir                                            string
	vars                                                          []string
}

func sudo(c *libc.Prog) int {
	r := &sudoRun{c: c, root: c.Files.As(kernel.Root), edit: c.Name == "sudoedit"}
	if !r.privileged() {
		return c.Status
	}
	opts, operands, err := libc.Getopt(c.Args, "+AbBC:D:eEg:hHiKklnNp:PR:r:ST:t:U:u:Vvs", "askpass|A", "background|b", "bell|B", "close-from:|C", "chdir:|D", "edit|e", "preserve-env::|E", "group:|g", "help", "host:", "login|i",
		"remove-timestamp|K", "reset-timestamp|k", "list|l", "non-interactive|n", "no-update|N", "prompt:|p", "preserve-groups|P", "shell|s", "stdin|S", "other-user:|U", "user:|u", "version|V", "validate|v", "set-home|H")
	if err != nil {
		c.Errorf("sudo: %s\n%s", err, sudoUsage)
		return 1
	}
	user := "root"
	for _, o := range opts {
		switch o.Name {
		case "h", "help":
			c.Put("sudo - execute a command as another user\n\n%s", sudoUsage)
			return 0
		case "V":
			c.Put("Sudo version 1.9.15p5\nSudoers policy plugin version 1.9.15p5\nSudoers file grammar version 50\nSudoers I/O plugin version 1.9.15p5\nSudoers audit plugin version 1.9.15p5\n")
			return 0
		case "K", "k":
			if len(operands) == 0 && len(opts) == 1 {
				return 0
			}
		case "E":
			if o.Value != "" {
				r.keep = append(r.keep, strings.Split(o.Value, ",")...)
			} else {
				r.preserve = true
			}
		case "b":
			r.background = true
		case "D":
			r.dir = o.Value
		case "e":
			r.edit = true
		case "g":
			r.group = o.Value
		case "H":
			r.setHome = true
		case "i":
			r.login = true
		case "l":
			r.list = true
		case "n":
			r.nonInteractive = true
		case "p":
			r.prompt = o.Value
		case "S":
			r.stdin = true
		case "s":
			r.shell = true
		case "u":
			user = o.Value
		case "v":
			r.validate = true
		}
	}
	for len(operands) > 0 && !r.edit {
		k, _, ok := strings.Cut(operands[0], "=")
		if !ok || strings.Contains(k, "/") || k == "" {
			break
		}
		r.vars, operands = append(r.vars, operands[0]), operands[1:]
	}
	if len(operands) == 0 && !r.login && !r.shell && !r.list && !r.validate {
		c.Errorf("%s", sudoUsage)
		return 1
	}
	return r.run(user, operands)
}

// privileged says whether sudo can do its work: its file must be root's and have the setuid bit.
func (r *sudoRun) privileged() bool {
	c := r.c
	if c.Cred.UID == 0 {
		return true
	}
	file := c.CommandLine()[0]
	if f, err := kernel.LookPath(r.root, c.Dir(), c.Getenv("PATH"), file); err == nil {
		file = f
	}
	i, err := r.root.Stat(file)
	if err == nil && (libc.Stat(i).UID != 0 || i.Mode()&fs.ModeSetuid == 0) {
		c.Errorf("sudo: %s must be owned by uid 0 and have the setuid bit set\n", file)
		c.Status = 1
		return false
	}
	return true
}

func (r *sudoRun) findUser(name string) (libc.User, bool) {
	if n, ok := strings.CutPrefix(name, "#"); ok {
		uid, err := strconv.Atoi(n)
		if err != nil {
			return libc.User{}, false
		}
		if u, ok := libc.UserByID(r.root, uid); ok {
			return u, true
		}
		return libc.User{Name: name, UID: uid, GID: uid, Home: "/", Shell: "/bin/sh"}, true
	}
	return libc.UserByName(r.root, name)
}

func (r *sudoRun) run(user string, argv []string) int {
	c := r.c
	var ok bool
	if r.caller, ok = libc.UserByID(r.root, c.Cred.UID); !ok {
		c.Errorf("sudo: you do not exist in the passwd database\n")
		return 1
	}
	if r.target, ok = r.findUser(user); !ok {
		c.Errorf("sudo: unknown user %s\nsudo: error initializing audit plugin sudoers_audit\n", user)
		return 1
	}
	policy, err := readSudoers(r.root)
	if err != nil {
		c.Errorf("sudo: %s\nsudo: no valid sudoers sources found, quitting\nsudo: error initializing audit plugin sudoers_audit\n", err)
		return 1
	}
	r.policy = policy
	for _, e := range policy.errors {
		c.Errorf("%s\n", e)
	}
	r.cred = libc.CredentialOf(r.root, r.target)
	if r.group != "" {
		g, ok := libc.GroupByName(r.root, strings.TrimPrefix(r.group, "#"))
		if gid, err := strconv.Atoi(strings.TrimPrefix(r.group, "#")); !ok && err == nil {
			g, ok = libc.Group{Name: r.group, GID: gid}, true
		}
		if !ok {
			c.Errorf("sudo: unknown group %s\nsudo: error initializing audit plugin sudoers_audit\n", r.group)
			return 1
		}
		r.cred.GID = g.GID
	}
	shell := r.target.Shell
	if r.shell && !r.login {
		if shell = c.Getenv("SHELL"); shell == "" {
			shell = r.caller.Shell
		}
	}
	if shell == "" {
		shell = "/bin/sh"
	}
	if r.login || r.shell {
		if len(argv) > 0 {
			argv = []string{shell, "-c", escape(argv)}
		} else {
			argv = []string{shell}
		}
	}
	if r.edit {
		return r.editFiles(argv)
	}
	file := ""
	if len(argv) > 0 {
		list := policy.securePath
		if list == "" {
			list = c.Getenv("PATH")
		}
		f, err := kernel.LookPath(r.root, c.Dir(), list, argv[0])
		if err != nil {
			if r.refused(argv[0], argv) {
				return 1
			}
			c.Errorf("sudo: %s: command not found\n", argv[0])
			return 1
		}
		file = f
	}
	if r.list {
		return r.showRules(file, argv)
	}
	if _, returning := bash.Returning(c.Process); !returning && r.refused(file, argv) {
		return 1
	}
	if r.validate {
		return 0
	}
	return r.start(file, argv)
}

func (r *sudoRun) who(u libc.User) who {
	w := who{name: u.Name, uid: u.UID}
	for _, g := range libc.CredentialOf(r.root, u).Groups {
		w.groups = append(w.groups, libc.GroupName(r.root, g))
	}
	return w
}

// refused checks the policy and the password, and says why not.
func (r *sudoRun) refused(file string, argv []string) bool {
	c := r.c
	q := request{user: r.who(r.caller), host: c.HostName(), target: r.who(r.target), group: r.group, file: file}
	if len(argv) > 1 {
		q.args = argv[1:]
	}
	rule, known := r.policy.find(q)
	if r.caller.UID == 0 || r.caller.UID == r.target.UID && r.group == "" && rule != nil {
		if rule != nil {
			return false
		}
	}
	needPassword := rule == nil || !rule.noPassword
	for _, u := range r.policy.noAuth {
		needPassword = needPassword && u != "" && u != r.caller.Name
	}
	if needPassword && r.caller.UID != 0 && !r.authenticate() {
		return true
	}
	switch {
	case rule != nil:
		if (len(r.vars) > 0 || r.preserve) && !rule.setEnv && rule.command != "ALL" {
			if len(r.vars) > 0 {
				var names []string
				for _, v := range r.vars {
					k, _, _ := strings.Cut(v, "=")
					names = append(names, k)
				}
				c.Errorf("sudo: sorry, you are not allowed to set the following environment variables: %s\n", strings.Join(names, ", "))
				return true
			}
			c.Errorf("sudo: sorry, you are not allowed to preserve the environment\n")
			return true
		}
		return false
	case !known:
		c.Errorf("%s is not in the sudoers file.\n", r.caller.Name)
		r.log("user NOT in sudoers", file, argv)
	default:
		line := strings.Join(append([]string{file}, q.args...), " ")
		c.Errorf("Sorry, user %s is not allowed to execute '%s' as %s on %s.\n", r.caller.Name, line, r.target.Name, c.HostName())
		r.log("command not allowed", file, argv)
	}
	return true
}

// authenticate asks for the caller's password. No user of the simulated machines has one that could be right.
func (r *sudoRun) authenticate() bool {
	c := r.c
	if r.nonInteractive {
		c.Errorf("sudo: a password is required\n")
		return false
	}
	if c.TTY == nil && !r.stdin {
		c.Errorf("sudo: a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper\nsudo: a password is required\n")
		return false
	}
	prompt := r.prompt
	if prompt == "" {
		prompt = "[sudo] password for " + r.caller.Name + ": "
	}
	tries := 0
	for tries < 3 {
		var err error
		if r.stdin {
			c.Errorf("%s", prompt)
			_, err = libc.ReadAnswer(c.Stdin)
			c.Errorf("\n")
		} else {
			_, err = c.TTY.ReadPassword(prompt)
		}
		if err != nil {
			break
		}
		tries++
		if c.Wait(authDelay) != nil {
			return false
		}
		if tries < 3 {
			c.Errorf("Sorry, try again.\n")
		}
	}
	switch tries {
	case 0:
		c.Errorf("sudo: no password was provided\nsudo: a password is required\n")
	case 1:
		c.Errorf("sudo: 1 incorrect password attempt\n")
	default:
		c.Errorf("sudo: %d incorrect password attempts\n", tries)
	}
	return false
}

// log writes what sudo did into the machine's journal, as syslog would.
func (r *sudoRun) log(problem, file string, argv []string) {
	m := machine.Of(r.c.Host())
	if m == nil || r.c.Container != "" {
		return
	}
	tty := ""
	if r.c.TTY != nil {
		tty = "TTY=pts/0 ; "
	}
	if problem != "" {
		problem += " ; "
	}
	line := file
	if len(argv) > 1 {
		line += " " + strings.Join(argv[1:], " ")
	}
	writeJournal(m, "sudo", r.c.ID(), sprintf("%8s : %s%sPWD=%s ; USER=%s ; COMMAND=%s", r.caller.Name, problem, tty, r.c.Dir(), r.target.Name, line))
}

// environment is what the command gets: little of the caller's, and what tells who became whom.
func (r *sudoRun) environment(argv []string) []string {
	c := r.c
	var env []string
	keep := func(name string) bool {
		if r.preserve || !r.policy.resetEnv || slices.Contains(r.keep, name) {
			return true
		}
		return slices.ContainsFunc(r.policy.keep, func(k string) bool {
			return k == name || strings.HasSuffix(k, "*") && strings.HasPrefix(name, strings.TrimSuffix(k, "*"))
		})
	}
	own := []string{"PATH", "MAIL", "LOGNAME", "USER", "HOME", "SHELL", "SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID", "_", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL"}
	for _, kv := range c.Environ() {
		k, _, _ := strings.Cut(kv, "=")
		if !keep(k) {
			continue
		}
		if slices.Contains(own, k) && !(r.preserve && (k == "PWD" || k == "SHLVL")) {
			continue
		}
		env = append(env, kv)
	}
	path := r.policy.securePath
	if path == "" {
		path = c.Getenv("PATH")
	}
	home := r.target.Home
	if r.preserve && !r.setHome && !r.login && c.Getenv("HOME") != "" {
		home = c.Getenv("HOME")
	}
	shell := r.target.Shell
	env = append(env, "PATH="+path, "MAIL=/var/mail/"+r.target.Name, "LOGNAME="+r.target.Name, "USER="+r.target.Name, "HOME="+home, "SHELL="+shell,
		"SUDO_COMMAND="+strings.Join(argv, " "), "SUDO_USER="+r.caller.Name, "SUDO_UID="+strconv.Itoa(r.caller.UID), "SUDO_GID="+strconv.Itoa(r.caller.GID))
	return append(env, r.vars...)
}

func (r *sudoRun) start(file string, argv []string) int {
	c := r.c
	dir := c.Dir()
	if r.dir != "" {
		dir = c.Path(r.dir)
	}
	if r.login {
		dir = r.target.Home
		if i, err := r.root.Stat(dir); err != nil || !i.IsDir() {
			c.Errorf("sudo: unable to change directory to %s: No such file or directory\n", dir)
			return 1
		}
	}
	full := append([]string{file}, argv[1:]...)
	spec := kernel.Spec{
		Argv: slices.Clone(argv), Env: r.environment(full), Dir: dir, Cred: r.cred, Hostname: c.Spec.Hostname, Files: c.Files.As(r.cred), Net: c.Net,
		Stdin: c.Stdin, Stdout: libc.Unwrap(c.Stdout), Stderr: libc.Unwrap(c.Stderr), TTY: c.TTY, Parent: c.Process,
	}
	if r.login {
		spec.Argv[0] = "-" + path.Base(file)
	}
	if !bash.Resume(c.Process, &spec) {
		r.log("", file, full)
	}
	c.Out.Flush()
	p, err := libc.ExecFile(c.World(), c.Host(), file, spec)
	if err != nil {
		c.Errorf("sudo: unable to execute %s: %s\n", file, libc.Strerror(err))
		return 1
	}
	if r.background {
		return 0
	}
	return c.Relay(p).ExitCode()
}

// escape puts backslashes before what a shell would take for its own, as sudo -i and -s do for their command.
func escape(argv []string) string {
	var b strings.Builder
	for _, ch := range strings.Join(argv, " ") {
		if !(ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || ch == '_' || ch == '-' || ch == '$' || ch == ' ' || ch > 127) {
			b.WriteByte('\\')
		}
		b.WriteRune(ch)
	}
	return b.String()
}

// showRules is sudo -l.
func (r *sudoRun) showRules(file string, argv []string) int {
	c := r.c
	if file != "" {
		if r.refused(file, argv) {
			return 1
		}
		c.Put("%s\n", strings.Join(append([]string{file}, argv[1:]...), " "))
		return 0
	}
	if r.refused("", nil) {
		return 1
	}
	c.Put("Matching Defaults entries for %s on %s:\n    env_reset, mail_badpass, secure_path=%s, use_pty\n\n", r.caller.Name, c.HostName(), strings.ReplaceAll(r.policy.securePath, ":", `\:`))
	c.Put("User %s may run the following commands on %s:\n", r.caller.Name, c.HostName())
	w := r.who(r.caller)
	for _, x := range r.policy.rules {
		if !r.policy.in("U", x.users, w.is, 0) {
			continue
		}
		as := "root"
		if x.runGiven {
			as = strings.Join(x.runUsers, ", ")
			if len(x.runGroups) > 0 {
				as += " : " + strings.Join(x.runGroups, ", ")
			}
		}
		tag := ""
		if x.noPassword {
			tag = "NOPASSWD: "
		}
		c.Put("    (%s) %s%s\n", as, tag, x.command)
	}
	return 0
}

// editFiles is sudoedit: an editor of the caller's on copies of files.
func (r *sudoRun) editFiles(files []string) int {
	c := r.c
	if len(files) == 0 {
		c.Errorf("%s", sudoUsage)
		return 1
	}
	if r.refused("sudoedit", append([]string{"sudoedit"}, files...)) {
		return 1
	}
	c.Files = c.Files.As(r.cred)
	c.Args, c.Name = files, "sudoedit"
	return editor(c)
}
