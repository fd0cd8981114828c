package bash

import (
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// flow says why evaluation does not simply go on with the next command.
type flow uint8

const (
	flowNone flow = iota
	flowBreak
	flowContinue
	flowReturn
	flowAbort // an error throws away the whole command line (and ends a shell that is not interactive)
	flowExit
)

// style is whose manners a shell has.
type style uint8

const (
	bashStyle style = iota
	dashStyle
	ashStyle // busybox
)

// source is a text that was parsed, kept so that messages can quote it.
type source struct {
	text string
	line int // of its first line, minus one
}

// function is a shell function with the text that it was made from.
type function struct {
	body   *syntax.Stmt
	text   string // "name() ..." as bash's declare -f would read it again
	source *source
}

// Shell is one evaluator: a shell or a subshell of it. It is used by one goroutine at a time.
type Shell struct {
	p     *kernel.Process
	files kernel.Files
	style style
	// passed is the part of the environment that no variable can hold.
	passed []string

	zero        string // $0
	args        []string
	interactive bool
	login       bool
	command     bool   // run with -c
	invocation  string // "c" or "s", the end of $-
	dir         string

	scopes   []*scope
	funcs    map[string]*function
	aliases  map[string]string
	opt      map[byte]bool
	longOpt  map[string]bool
	shopt    map[string]bool
	hashed   map[string]string
	dirStack []string
	history  []string

	status     int
	flow       flow
	levels     int // that break and continue still leave
	loops      int
	depth      int
	function   string // the running one's name
	sourced    int
	noErrexit  int
	pipestatus []int
	line       int
	src        *source
	lastArg    string
	cost       time.Duration

	fds            map[int]*stream
	jobs           *jobTable
	lastBackground int
	subshellDepth  int
	substDepth     int // nested command substitutions, for the + of set -x
	seed           uint32
	lastRandom     int
	secondsBase    int
	secondsAt      time.Time
	umask          uint32
	getoptsAt      int
	traps          map[string]string
	signals        *signalBox
	completions    map[string]string // complete -F name command
	kill           kernel.Signal     // the signal that a subshell died of
	started        time.Time
	inTrap         bool
	substStatus    int // of the last command substitution of an assignment, -1 if none
	substFiles     []*substFile
	inAlias        map[string]bool // names that the alias being run must not expand again
	goroutine      bool            // a subshell that is no process of its own
	place          *place
}

// Options says what kind of shell to make.
type Options struct {
	// Name is $0; it begins messages. "bash" if empty.
	Name string
	// Args are the positional parameters.
	Args []string
	// Login reads the profile files, Interactive reads .bashrc and turns on aliases and history.
	Login, Interactive bool
	// Dash and Ash choose the manners of dash or of busybox's shell.
	Dash, Ash bool
}

// New makes a shell of the process p, with its environment, working directory and standard streams.
func New(p *kernel.Process, o Options) *Shell {
	sh := &Shell{
		p: p, files: p.Files, zero: o.Name, args: o.Args, interactive: o.Interactive, login: o.Login, dir: p.Dir(),
		scopes: []*scope{newScope()}, funcs: map[string]*function{}, aliases: map[string]string{}, opt: map[byte]bool{'h': true, 'B': true},
		longOpt: map[string]bool{}, shopt: map[string]bool{}, hashed: map[string]string{}, completions: map[string]string{},
		fds: map[int]*stream{}, jobs: newJobTable(), secondsAt: now(), traps: map[string]string{}, started: now(), umask: 0o022,
		signals: newSignalBox(), substStatus: -1, src: &source{}, place: &place{},
	}
	if sh.zero == "" {
		sh.zero = "bash"
	}
	switch {
	case o.Dash:
		sh.style = dashStyle
		sh.opt = map[byte]bool{}
	case o.Ash:
		sh.style = ashStyle
		sh.opt = map[byte]bool{}
	}
	for k, on := range defaultShopt {
		sh.shopt[k] = on
	}
	if sh.style == bashStyle {
		sh.longOpt["interactive-comments"] = true
	}
	if o.Interactive {
		sh.opt['H'], sh.opt['m'] = sh.style == bashStyle, true
		sh.longOpt["history"], sh.longOpt["emacs"] = true, true
		sh.shopt["expand_aliases"] = true
	}
	if sh.style != bashStyle {
		sh.shopt["expand_aliases"] = true
	}
	sh.shopt["login_shell"] = o.Login
	sh.fds[0] = &stream{r: p.Stdin}
	sh.fds[1] = &stream{w: libc.Unwrap(p.Stdout)}
	sh.fds[2] = &stream{w: libc.Unwrap(p.Stderr)}
	sh.importEnvironment()
	return sh
}

var defaultShopt = map[string]bool{
	"autocd": false, "cdspell": false, "checkhash": false, "checkjobs": false, "checkwinsize": true, "cmdhist": true, "complete_fullquote": true,
	"dotglob": false, "execfail": false, "expand_aliases": false, "extdebug": false, "extglob": false, "extquote": true, "failglob": false,
	"force_fignore": true, "globasciiranges": true, "globskipdots": true, "globstar": false, "histappend": false, "histreedit": false,
	"histverify": false, "hostcomplete": true, "huponexit": false, "inherit_errexit": false, "interactive_comments": true, "lastpipe": false,
	"lithist": false, "login_shell": false, "mailwarn": false, "nocaseglob": false, "nocasematch": false, "nullglob": false,
	"patsub_replacement": true, "progcomp": true, "promptvars": true, "restricted_shell": false, "shift_verbose": false, "sourcepath": true,
	"varredir_close": false, "xpg_echo": false,
}

// importEnvironment makes variables of the environment and sets those that a shell always has.
func (sh *Shell) importEnvironment() {
	g := sh.scopes[0].vars
	for _, kv := range sh.p.Environ() {
		k, v, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
		case validName(k):
			g[k] = &variable{Set: true, Str: v, Exported: true}
		default: // no name of a variable ("data-1"), but what the shell starts gets it
			sh.passed = append(sh.passed, kv)
		}
	}
	plain := func(name, value string) {
		if g[name] == nil {
			g[name] = &variable{}
		}
		g[name].Set, g[name].Str = true, value
	}
	fallback := func(name, value string) {
		if g[name] == nil {
			plain(name, value)
		}
	}
	plain("IFS", " \t\n")
	plain("PPID", strconv.Itoa(sh.parentPID()))
	plain("OPTIND", "1")
	g["PPID"].Readonly = sh.style == bashStyle
	fallback("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if pwd := g["PWD"]; pwd == nil || !sh.sameDir(pwd.Str, sh.dir) {
		plain("PWD", sh.dir)
	}
	sh.dir = path.Clean(g["PWD"].Str)
	if sh.style != bashStyle {
		if sh.interactive {
			fallback("PS1", map[bool]string{true: "# ", false: "$ "}[sh.p.Cred.UID == 0])
		}
		fallback("PS2", "> ")
		fallback("PS4", "+ ")
		return
	}
	g["PWD"].Exported = true
	level, _ := strconv.Atoi(sh.getStr("SHLVL"))
	plain("SHLVL", strconv.Itoa(level+1))
	g["SHLVL"].Exported = true
	if g["OLDPWD"] == nil {
		g["OLDPWD"] = &variable{Exported: true}
	}
	id := func(name string, n int) {
		g[name] = &variable{Set: true, Str: strconv.Itoa(n), Readonly: true, Integer: true}
	}
	id("UID", sh.p.Cred.UID)
	id("EUID", sh.p.Cred.UID)
	plain("HOSTNAME", sh.p.HostName())
	plain("HOSTTYPE", "x86_64")
	plain("MACHTYPE", "x86_64-pc-linux-gnu")
	plain("OSTYPE", "linux-gnu")
	plain("BASH", "/usr/bin/bash")
	plain("BASH_VERSION", "5.2.21(1)-release")
	plain("OPTERR", "1")
	plain("PS4", "+ ")
	plain("_", sh.zero)
	g["BASH_VERSINFO"] = &variable{Set: true, Kind: indexed, Readonly: true, Keys: []int{0, 1, 2, 3, 4, 5},
		Vals: []string{"5", "2", "21", "1", "release", "x86_64-pc-linux-gnu"}}
	g["GROUPS"] = &variable{Set: true, Kind: indexed}
	for i, gid := range append([]int{sh.p.Cred.GID}, sh.p.Cred.Groups...) {
		if i == 0 || gid != sh.p.Cred.GID {
			g["GROUPS"].setAt(g["GROUPS"].next(), strconv.Itoa(gid))
		}
	}
	if u, ok := libc.UserByID(sh.files, sh.p.Cred.UID); ok {
		fallback("HOME", u.Home)
		fallback("SHELL", u.Shell)
	}
	if sh.interactive {
		fallback("PS1", `\s-\v\$ `)
		plain("PS2", "> ")
		plain("HISTFILE", path.Join(sh.getStr("HOME"), ".bash_history"))
		plain("HISTSIZE", "500")
		plain("HISTFILESIZE", "500")
		if sh.p.TTY != nil {
			c, r := sh.p.TTY.Size()
			plain("COLUMNS", strconv.Itoa(c))
			plain("LINES", strconv.Itoa(r))
		}
	}
}

func (sh *Shell) parentPID() int {
	if sh.p.Parent == nil {
		if sh.p.NamespacePID != 0 {
			return 0
		}
		return 1
	}
	return sh.p.Parent.OwnPID()
}

// sameDir says whether two names are the same directory, through symbolic links.
func (sh *Shell) sameDir(a, b string) bool {
	if a == b {
		return true
	}
	if sh.files == nil || !path.IsAbs(a) {
		return false
	}
	x, err1 := sh.files.EvalSymlinks(a)
	y, err2 := sh.files.EvalSymlinks(b)
	return err1 == nil && err2 == nil && x == y
}

// abs makes a name absolute against the shell's own directory.
func (sh *Shell) abs(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(sh.dir, name)
	}
	return path.Clean(name)
}

// sub is a copy of the shell for a subshell.
func (sh *Shell) sub() *Shell {
	c := *sh
	c.scopes = make([]*scope, len(sh.scopes))
	for i, s := range sh.scopes {
		n := &scope{vars: make(map[string]*variable, len(s.vars)), temp: s.temp, function: s.function}
		for k, v := range s.vars {
			n.vars[k] = v.copy()
		}
		c.scopes[i] = n
	}
	c.funcs, c.aliases, c.opt = clone(sh.funcs), clone(sh.aliases), clone(sh.opt)
	c.longOpt, c.shopt, c.hashed, c.completions = clone(sh.longOpt), clone(sh.shopt), clone(sh.hashed), clone(sh.completions)
	c.args = append([]string(nil), sh.args...)
	c.dirStack = append([]string(nil), sh.dirStack...)
	c.history = append([]string(nil), sh.history...)
	c.fds = clone(sh.fds)
	c.jobs = newJobTable()
	c.traps = map[string]string{}
	for n, action := range sh.traps {
		if action == "" { // ignored signals stay ignored
			c.traps[n] = action
		}
	}
	c.subshellDepth++
	c.cost = 0
	c.substFiles = nil
	c.substStatus = -1
	if !sh.shopt["inherit_errexit"] && sh.opt['e'] {
		c.opt['e'] = true
	}
	return &c
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// prefix begins every message: the shell's name and, where it does not talk to a user, the line.
func (sh *Shell) prefix() string {
	switch sh.style {
	case dashStyle:
		return sh.zero + ": " + strconv.Itoa(max(sh.line, 1)) + ": "
	case ashStyle:
		if sh.command || sh.interactive {
			return sh.zero + ": "
		}
		return sh.zero + ": line " + strconv.Itoa(max(sh.line, 1)) + ": "
	}
	if sh.interactive && sh.sourced == 0 {
		return sh.zero + ": "
	}
	name := sh.zero
	if sh.command && sh.function != "" {
		name = "environment" // where bash believes a function of -c to come from
	}
	if v := sh.lookup("BASH_SOURCE"); sh.sourced > 0 && v != nil && len(v.Vals) > 0 {
		name = v.Vals[0]
	}
	return name + ": line " + strconv.Itoa(max(sh.line, 1)) + ": "
}

// complain prints a message of the shell itself.
func (sh *Shell) complain(format string, a ...any) {
	fmt.Fprintf(sh.stderr(), "%s%s\n", sh.prefix(), fmt.Sprintf(format, a...))
}

func (sh *Shell) stdout() io.Writer { return sh.writer(1) }
func (sh *Shell) stderr() io.Writer { return sh.writer(2) }

func (sh *Shell) writer(n int) io.Writer {
	if s := sh.fds[n]; s != nil && s.w != nil {
		return s.w
	}
	return badDescriptor{}
}

// Status is $?.
func (sh *Shell) Status() int { return sh.status }

// Dir is the shell's working directory.
func (sh *Shell) Dir() string { return sh.dir }

// Exited says whether the shell has been told to exit.
func (sh *Shell) Exited() bool { return sh.flow == flowExit }
