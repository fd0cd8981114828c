package bash

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// builtin is a command of the shell itself; it returns the exit status.
type builtin func(sh *Shell, args []string) int

var builtins map[string]builtin

func init() {
	builtins = map[string]builtin{
		":": builtinTrue, "true": builtinTrue, "false": builtinFalse, "echo": builtinEcho, "printf": builtinPrintf, "cd": builtinCd, "pwd": builtinPwd,
		"test": builtinTest, "[": builtinBracket, "exit": builtinExit, "return": builtinReturn, "break": builtinBreak, "continue": builtinContinue,
		"shift": builtinShift, "set": builtinSet, "shopt": builtinShopt, "unset": builtinUnset, "export": builtinExport, "readonly": builtinReadonly,
		"declare": builtinDeclare, "typeset": builtinDeclare, "local": builtinLocal, "eval": builtinEval, "source": builtinSource, ".": builtinSource,
		"alias": builtinAlias, "unalias": builtinUnalias, "type": builtinType, "command": builtinCommand, "builtin": builtinBuiltin, "hash": builtinHash,
		"read": builtinRead, "mapfile": builtinMapfile, "readarray": builtinMapfile, "getopts": builtinGetopts, "let": builtinLet, "trap": builtinTrap,
		"kill": builtinKill, "wait": builtinWait, "jobs": builtinJobs, "fg": builtinFg, "bg": builtinBg, "disown": builtinDisown, "umask": builtinUmask,
		"ulimit": builtinUlimit, "times": builtinTimes, "history": builtinHistory, "pushd": builtinPushd, "popd": builtinPopd, "dirs": builtinDirs,
		"complete": builtinComplete, "compopt": builtinTrue, "compgen": builtinCompgen, "bind": builtinTrue, "enable": builtinTrue, "logout": builtinLogout,
		"suspend": builtinSuspend, "caller": builtinCaller, "help": builtinHelp, "fc": builtinFc,
	}
}

// specialBuiltins are POSIX's: in dash and busybox their assignments stay and their errors end a script.
var specialBuiltins = map[string]bool{":": true, ".": true, "break": true, "continue": true, "eval": true, "exec": true, "exit": true, "export": true,
	"readonly": true, "return": true, "set": true, "shift": true, "times": true, "trap": true, "unset": true}

// posixOnly are bash's builtins that dash and busybox lack.
var bashOnly = map[string]bool{"shopt": true, "declare": true, "typeset": true, "mapfile": true, "readarray": true, "pushd": true, "popd": true, "dirs": true,
	"complete": true, "compopt": true, "compgen": true, "bind": true, "enable": true, "logout": true, "suspend": true, "caller": true, "disown": true,
	"builtin": true, "history": true, "help": true}

func (sh *Shell) builtin(name string) builtin {
	if sh.style == dashStyle && (bashOnly[name] || name == "source" || name == "let") || sh.style == ashStyle && bashOnly[name] {
		return nil
	}
	return builtins[name]
}

func builtinTrue(*Shell, []string) int  { return 0 }
func builtinFalse(*Shell, []string) int { return 1 }

// print writes a builtin's output. A broken pipe ends a subshell as SIGPIPE ends a process.
func (sh *Shell) print(what, s string) int {
	if s == "" {
		return 0
	}
	_, err := io.WriteString(sh.stdout(), s)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, syscall.EPIPE) && sh.goroutine:
		sh.flow, sh.kill, sh.status = flowExit, kernel.SIGPIPE, 141
		delete(sh.traps, "EXIT")
		return 141
	case errors.Is(err, kernel.ErrDead):
		return 1
	}
	sh.complain("%s: write error: %s", what, libc.Strerror(err))
	return 1
}

func builtinEcho(sh *Shell, args []string) int {
	s, newline := echoText(args, sh.shopt["xpg_echo"] || sh.style == dashStyle, sh.style == dashStyle)
	if newline {
		s += "\n"
	}
	return sh.print("echo", s)
}

// Echo is what echo(1) prints for its arguments, and whether a newline follows.
func Echo(args []string) (s string, newline bool) { return echoText(args, false, false) }

func echoText(args []string, expand, onlyN bool) (s string, newline bool) {
	newline = true
options:
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		for _, c := range args[0][1:] {
			if c != 'n' && (c != 'e' && c != 'E' || onlyN) {
				break options
			}
		}
		for _, c := range args[0][1:] {
			switch c {
			case 'n':
				newline = false
			case 'e':
				expand = true
			case 'E':
				expand = false
			}
		}
		args = args[1:]
	}
	s = strings.Join(args, " ")
	if expand {
		out, stop := unescape(s, echoE)
		return out, newline && !stop
	}
	return s, newline
}

func builtinCd(sh *Shell, args []string) int {
	physical := sh.opt['P']
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		switch args[0] {
		case "-P":
			physical = true
		case "-L":
			physical = false
		case "-e", "-Pe", "-@":
		default:
			sh.complain("cd: %s: invalid option", args[0][:2])
			fmt.Fprintln(sh.stderr(), "cd: usage: cd [-L|[-P [-e]] [-@]] [dir]")
			return 2
		}
		args = args[1:]
	}
	if len(args) > 1 && sh.style == bashStyle {
		sh.complain("cd: too many arguments")
		return 1
	}
	var dir string
	show := false
	switch {
	case len(args) == 0:
		home, ok := sh.param("HOME")
		if !ok {
			sh.complain("cd: HOME not set")
			return 1
		}
		dir = home
	case args[0] == "-":
		old, ok := sh.param("OLDPWD")
		if !ok || old == "" && sh.style == bashStyle {
			sh.complain("cd: OLDPWD not set")
			return 1
		}
		dir, show = old, true
	default:
		dir = args[0]
		if cdpath := sh.getStr("CDPATH"); cdpath != "" && !path.IsAbs(dir) && !strings.HasPrefix(dir, ".") {
			for _, p := range strings.Split(cdpath, ":") {
				if full := path.Join(p, dir); p != "" && sh.isDir(full) {
					dir, show = full, true
					break
				}
			}
		}
	}
	if status := sh.chdir("cd", dir, physical); status != 0 {
		return status
	}
	if show {
		fmt.Fprintln(sh.stdout(), sh.dir)
	}
	return 0
}

// chdir changes the directory and PWD and OLDPWD.
func (sh *Shell) chdir(what, dir string, physical bool) int {
	if dir == "" {
		return 0
	}
	full := sh.abs(dir)
	if physical {
		if real, err := sh.files.EvalSymlinks(full); err == nil {
			full = real
		}
	}
	fail := func(err error) int {
		switch sh.style {
		case dashStyle:
			sh.complain("%s: can't cd to %s", what, dir)
			return 2
		case ashStyle:
			sh.complain("%s: can't cd to %s: %s", what, dir, libc.Strerror(err))
			return 1
		}
		sh.complain("%s: %s: %s", what, dir, libc.Strerror(err))
		return 1
	}
	i, err := sh.files.Stat(full)
	if err != nil {
		return fail(err)
	}
	if !i.IsDir() {
		return fail(syscall.ENOTDIR)
	}
	if !Access(sh.p.Cred, i, 1) {
		return fail(syscall.EACCES)
	}
	sh.set("OLDPWD", sh.getStr("PWD"))
	sh.dir = full
	sh.set("PWD", full)
	if !sh.goroutine {
		sh.p.Chdir(full)
	}
	return 0
}

func builtinPwd(sh *Shell, args []string) int {
	dir := sh.dir
	for _, a := range args {
		if a == "-P" {
			if real, err := sh.files.EvalSymlinks(dir); err == nil {
				dir = real
			}
		}
	}
	return sh.print("pwd", dir+"\n")
}

func builtinExit(sh *Shell, args []string) int {
	status := sh.status
	if len(args) > 0 {
		n, err := strconv.Atoi(strings.TrimSpace(args[0]))
		if err != nil {
			sh.complain("exit: %s: numeric argument required", args[0])
			n = 2
		} else if len(args) > 1 {
			sh.complain("exit: too many arguments")
			return 1
		}
		status = n & 0xff
	}
	if sh.interactive && sh.subshellDepth == 0 && sh.p.TTY != nil {
		if sh.login {
			fmt.Fprintln(sh.stderr(), "logout")
		} else if sh.style == bashStyle {
			fmt.Fprintln(sh.stderr(), "exit")
		}
	}
	sh.flow = flowExit
	return status
}

func builtinLogout(sh *Shell, args []string) int {
	if !sh.login {
		sh.complain("logout: not login shell: use `exit'")
		return 1
	}
	return builtinExit(sh, args)
}

func builtinReturn(sh *Shell, args []string) int {
	if sh.function == "" && sh.sourced == 0 {
		if sh.style != bashStyle {
			sh.flow = flowExit
			return sh.status
		}
		sh.complain("return: can only `return' from a function or sourced script")
		return 2
	}
	status := sh.status
	if len(args) > 0 {
		n, err := strconv.Atoi(strings.TrimSpace(args[0]))
		if err != nil {
			sh.complain("return: %s: numeric argument required", args[0])
			n = 2
		}
		status = n & 0xff
	}
	sh.flow = flowReturn
	return status
}

func (sh *Shell) loopControl(name string, f flow, args []string) int {
	if sh.loops == 0 {
		if sh.style == bashStyle {
			sh.complain("%s: only meaningful in a `for', `while', or `until' loop", name)
		}
		return 0
	}
	n := 1
	if len(args) > 0 {
		var err error
		if n, err = strconv.Atoi(args[0]); err != nil {
			sh.complain("%s: %s: numeric argument required", name, args[0])
			sh.flow = flowExit
			return 128
		}
		if n < 1 {
			sh.complain("%s: %s: loop count out of range", name, args[0])
			sh.flow, sh.levels = flowBreak, sh.loops
			return 1
		}
	}
	sh.flow, sh.levels = f, min(n, sh.loops)
	return 0
}

func builtinBreak(sh *Shell, args []string) int { return sh.loopControl("break", flowBreak, args) }
func builtinContinue(sh *Shell, args []string) int {
	return sh.loopControl("continue", flowContinue, args)
}

func builtinShift(sh *Shell, args []string) int {
	n := 1
	if len(args) > 0 {
		var err error
		if n, err = strconv.Atoi(args[0]); err != nil {
			sh.complain("shift: %s: numeric argument required", args[0])
			return 1
		}
	}
	if n < 0 {
		sh.complain("shift: %d: shift count out of range", n)
		return 1
	}
	if n > len(sh.args) {
		if sh.style == dashStyle {
			sh.complain("shift: can't shift that many")
			sh.flow = flowExit
			return 2
		}
		return 1
	}
	sh.args = sh.args[n:]
	return 0
}

func builtinEval(sh *Shell, args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if strings.TrimSpace(text) == "" {
		return 0
	}
	leave, ok := sh.deeper("eval")
	if !ok {
		return 1
	}
	defer leave()
	sh.status = 0
	line := sh.line
	defer func() { sh.line = line }()
	return sh.runAs(text, max(line-1, 0), "eval")
}

func builtinSource(sh *Shell, args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		sh.complain("source: filename argument required")
		fmt.Fprintln(sh.stderr(), "source: usage: source filename [arguments]")
		return 2
	}
	name := args[0]
	full := sh.abs(name)
	if !strings.Contains(name, "/") {
		if f, err := lookReadable(sh, name); err == nil {
			full = f
		}
	}
	content, err := sh.readScript(full)
	if err != nil {
		switch sh.style {
		case dashStyle:
			if !strings.Contains(name, "/") {
				sh.complain(".: %s: not found", name)
			} else {
				sh.complain(".: cannot open %s: %s", name, dashText(err, false))
			}
			sh.flow = flowExit
			return 2
		case ashStyle:
			sh.complain("can't open '%s': %s", name, libc.Strerror(err))
			sh.flow = flowExit
			return 2
		}
		if errors.Is(err, syscall.EISDIR) {
			sh.complain("%s: %s: is a directory", "source", name)
			return 1
		}
		sh.complain("%s: %s", name, libc.Strerror(err))
		return 1
	}
	return sh.sourceText(name, string(content), args[1:])
}

// readScript reads a file that is a script, also when it is a pipe.
func (sh *Shell) readScript(full string) ([]byte, error) {
	if s, err := sh.openFile(full, 0); err == nil {
		defer s.release()
		if f, ok := s.c.(kernel.File); ok {
			if i, err := f.Stat(); err == nil && i.IsDir() {
				return nil, syscall.EISDIR
			}
		}
		if s.r == nil {
			return nil, syscall.EBADF
		}
		return libc.ReadAll(s.r)
	} else {
		return nil, err
	}
}

func lookReadable(sh *Shell, name string) (string, error) {
	for _, d := range strings.Split(sh.getStr("PATH"), ":") {
		if d == "" {
			d = "."
		}
		f := sh.abs(path.Join(d, name))
		if i, err := sh.files.Stat(f); err == nil && i.Mode().IsRegular() {
			return f, nil
		}
	}
	return "", syscall.ENOENT
}

// sourceText runs the text of a file in this shell.
func (sh *Shell) sourceText(name, text string, args []string) int {
	leave, ok := sh.deeper("source")
	if !ok {
		return 1
	}
	defer leave()
	oldArgs, oldLine := sh.args, sh.line
	if len(args) > 0 {
		defer sh.place.enter(oldArgs)()
		sh.args = args
	}
	sh.sourced++
	v := sh.scopes[0].vars["BASH_SOURCE"]
	if sh.style == bashStyle {
		n := &variable{Kind: indexed, Set: true, Keys: []int{0}, Vals: []string{name}}
		if v != nil {
			for _, s := range v.Vals {
				n.setAt(n.next(), s)
			}
		}
		sh.scopes[0].vars["BASH_SOURCE"] = n
	}
	sh.status = 0
	sh.runAs(text, 0, "source")
	if sh.style == bashStyle {
		if v == nil {
			delete(sh.scopes[0].vars, "BASH_SOURCE")
		} else {
			sh.scopes[0].vars["BASH_SOURCE"] = v
		}
	}
	sh.sourced--
	if len(args) > 0 {
		sh.args = oldArgs
	}
	sh.line = oldLine
	if sh.flow == flowReturn {
		sh.flow = flowNone
	}
	return sh.status
}

func builtinType(sh *Shell, args []string) int {
	mode, all := "", false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		for _, c := range args[0][1:] {
			switch c {
			case 't', 'p', 'P':
				mode = string(c)
			case 'a':
				all = true
			case 'f':
			default:
				sh.complain("type: -%c: invalid option", c)
				fmt.Fprintln(sh.stderr(), "type: usage: type [-afptP] name [name ...]")
				return 2
			}
		}
		args = args[1:]
	}
	status := 0
	for _, n := range args {
		found := sh.describe(n, all)
		if mode == "P" {
			found = nil
			if f, err := sh.find(n); err == nil {
				found = []description{{"file", n + " is " + f, f}}
			}
		}
		if len(found) == 0 {
			status = 1
			if mode == "" {
				if sh.style != bashStyle {
					fmt.Fprintf(sh.stdout(), "%s: not found\n", n)
					status = 127
				} else {
					sh.complain("type: %s: not found", n)
				}
			}
			continue
		}
		if !all {
			found = found[:1]
		}
		for _, d := range found {
			switch mode {
			case "t":
				fmt.Fprintln(sh.stdout(), d.kind)
			case "p", "P":
				if d.kind == "file" {
					fmt.Fprintln(sh.stdout(), d.file)
				}
			default:
				fmt.Fprintln(sh.stdout(), d.text)
			}
		}
	}
	return status
}

type description struct{ kind, text, file string }

var keywords = map[string]bool{"if": true, "then": true, "else": true, "elif": true, "fi": true, "case": true, "esac": true, "for": true, "select": true,
	"while": true, "until": true, "do": true, "done": true, "in": true, "function": true, "time": true, "{": true, "}": true, "!": true, "[[": true, "]]": true, "coproc": true}

// describe says what a command name stands for, in the order of lookup.
func (sh *Shell) describe(n string, all bool) []description {
	var l []description
	if a, ok := sh.aliases[n]; ok && sh.shopt["expand_aliases"] {
		l = append(l, description{"alias", n + " is aliased to `" + a + "'", ""})
	}
	if keywords[n] {
		l = append(l, description{"keyword", n + " is a shell keyword", ""})
	}
	if f := sh.funcs[n]; f != nil {
		text := n + " is a function\n" + functionText(n, f)
		if sh.style != bashStyle {
			text = n + " is a shell function"
		}
		l = append(l, description{"function", text, ""})
	}
	if sh.builtin(n) != nil || n == "exec" {
		if specialBuiltins[n] && sh.style == dashStyle {
			l = append(l, description{"builtin", n + " is a special shell builtin", ""})
		} else {
			l = append(l, description{"builtin", n + " is a shell builtin", ""})
		}
	}
	_, hashed := sh.hashed[n]
	if f, err := sh.find(n); err == nil {
		if i, err := sh.files.Stat(f); err == nil && !i.IsDir() {
			text := n + " is " + f
			if hashed && sh.style == bashStyle {
				text = n + " is hashed (" + f + ")"
			} else if !hashed {
				delete(sh.hashed, n)
			}
			if strings.Contains(n, "/") {
				f = n
				text = n + " is " + n
			}
			l = append(l, description{"file", text, f})
		}
		if all && !strings.Contains(n, "/") {
			for _, d := range strings.Split(sh.getStr("PATH"), ":") {
				g := path.Join(d, n)
				if i, err := sh.files.Stat(g); err == nil && g != f && !i.IsDir() && i.Mode()&0o111 != 0 {
					l = append(l, description{"file", n + " is " + g, g})
				}
			}
		}
	}
	return l
}

func builtinCommand(sh *Shell, args []string) int {
	mode := byte(0)
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		for i := 1; i < len(args[0]); i++ {
			switch c := args[0][i]; c {
			case 'v', 'V':
				mode = c
			case 'p':
			default:
				sh.complain("command: -%c: invalid option", c)
				fmt.Fprintln(sh.stderr(), "command: usage: command [-pVv] command [arg ...]")
				return 2
			}
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return 0
	}
	if mode == 0 {
		if bi := sh.builtin(args[0]); bi != nil {
			return bi(sh, args[1:])
		}
		return sh.runExternal(args)
	}
	status := 1
	for _, n := range args {
		found := sh.describe(n, false)
		if len(found) == 0 {
			if mode == 'V' {
				sh.complain("command: %s: not found", n)
			}
			if sh.style != bashStyle {
				status = 127
			}
			continue
		}
		status = 0
		d := found[0]
		switch {
		case mode == 'V':
			fmt.Fprintln(sh.stdout(), d.text)
		case d.kind == "alias":
			fmt.Fprintf(sh.stdout(), "alias %s=%s\n", n, singleQuoteRaw(sh.aliases[n]))
		case d.kind == "file":
			fmt.Fprintln(sh.stdout(), d.file)
		default:
			fmt.Fprintln(sh.stdout(), n)
		}
	}
	return status
}

func builtinBuiltin(sh *Shell, args []string) int {
	if len(args) == 0 {
		return 0
	}
	bi := sh.builtin(args[0])
	if bi == nil {
		sh.complain("builtin: %s: not a shell builtin", args[0])
		return 1
	}
	return bi(sh, args[1:])
}

func builtinHash(sh *Shell, args []string) int {
	if len(args) == 0 {
		if len(sh.hashed) == 0 {
			fmt.Fprintln(sh.stdout(), "hash: hash table empty")
			return 0
		}
		fmt.Fprintln(sh.stdout(), "hits\tcommand")
		for _, n := range sortedKeys(sh.hashed) {
			fmt.Fprintf(sh.stdout(), "%4d\t%s\n", 1, sh.hashed[n])
		}
		return 0
	}
	if args[0] == "-r" {
		clear(sh.hashed)
		return 0
	}
	status := 0
	for _, n := range args {
		if strings.HasPrefix(n, "-") {
			continue
		}
		if _, err := sh.find(n); err != nil {
			sh.complain("hash: %s: not found", n)
			status = 1
		}
	}
	return status
}

func builtinAlias(sh *Shell, args []string) int {
	if len(args) > 0 && args[0] == "-p" {
		args = args[1:]
	}
	show := func(n string) {
		prefix := "alias "
		if sh.style != bashStyle {
			prefix = ""
		}
		fmt.Fprintf(sh.stdout(), "%s%s=%s\n", prefix, n, singleQuoteRaw(sh.aliases[n]))
	}
	if len(args) == 0 {
		for _, n := range sortedKeys(sh.aliases) {
			show(n)
		}
		return 0
	}
	status := 0
	for _, a := range args {
		n, v, ok := strings.Cut(a, "=")
		switch {
		case ok && n != "":
			if len(sh.aliases) < 1000 {
				sh.aliases[n] = v
			}
		case sh.aliases[a] != "":
			show(a)
		default:
			sh.complain("alias: %s: not found", a)
			status = 1
		}
	}
	return status
}

func builtinUnalias(sh *Shell, args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(sh.stderr(), "unalias: usage: unalias [-a] name [name ...]")
		return 2
	}
	status := 0
	for _, a := range args {
		if a == "-a" {
			clear(sh.aliases)
			continue
		}
		if _, ok := sh.aliases[a]; !ok {
			sh.complain("unalias: %s: not found", a)
			status = 1
		}
		delete(sh.aliases, a)
	}
	return status
}

func builtinUmask(sh *Shell, args []string) int {
	symbolic := false
	if len(args) > 0 && args[0] == "-S" {
		symbolic, args = true, args[1:]
	}
	if len(args) > 0 && args[0] == "-p" {
		args = args[1:]
	}
	if len(args) == 0 {
		if symbolic {
			perm := func(n uint32) string {
				s := ""
				for i, c := range "rwx" {
					if n&(4>>i) == 0 {
						s += string(c)
					}
				}
				return s
			}
			fmt.Fprintf(sh.stdout(), "u=%s,g=%s,o=%s\n", perm(sh.umask>>6), perm(sh.umask>>3), perm(sh.umask))
			return 0
		}
		fmt.Fprintf(sh.stdout(), "%04o\n", sh.umask)
		return 0
	}
	n, err := strconv.ParseUint(args[0], 8, 32)
	if err != nil || n > 0o777 {
		m, ok := symbolicMask(args[0], sh.umask)
		if !ok {
			if args[0][0] >= '0' && args[0][0] <= '9' {
				sh.complain("umask: %s: octal number out of range", args[0])
			} else {
				sh.complain("umask: `%c': invalid symbolic mode character", args[0][0])
			}
			return 1
		}
		n = uint64(m)
	}
	sh.setUmask(uint32(n))
	return 0
}

func symbolicMask(s string, mask uint32) (uint32, bool) {
	for _, clause := range strings.Split(s, ",") {
		i := strings.IndexAny(clause, "=+-")
		if i < 0 {
			return 0, false
		}
		var who, bits uint32
		for _, c := range clause[:i] {
			switch c {
			case 'u':
				who |= 0o700
			case 'g':
				who |= 0o070
			case 'o':
				who |= 0o007
			case 'a':
				who |= 0o777
			default:
				return 0, false
			}
		}
		if who == 0 {
			who = 0o777
		}
		for _, c := range clause[i+1:] {
			switch c {
			case 'r':
				bits |= 0o444
			case 'w':
				bits |= 0o222
			case 'x':
				bits |= 0o111
			default:
				return 0, false
			}
		}
		switch clause[i] {
		case '=':
			mask = mask&^who | who&^bits
		case '+':
			mask &^= who & bits
		case '-':
			mask |= who & bits
		}
	}
	return mask, true
}

func builtinUlimit(sh *Shell, args []string) int {
	limits := []struct {
		letter, name, unit, value string
	}{
		{"R", "real-time non-blocking time", "microseconds, -R", "unlimited"}, {"c", "core file size", "blocks, -c", "0"},
		{"d", "data seg size", "kbytes, -d", "unlimited"}, {"e", "scheduling priority", "-e", "0"}, {"f", "file size", "blocks, -f", "unlimited"},
		{"i", "pending signals", "-i", "15314"}, {"l", "max locked memory", "kbytes, -l", "500688"}, {"m", "max memory size", "kbytes, -m", "unlimited"},
		{"n", "open files", "-n", "1024"}, {"p", "pipe size", "512 bytes, -p", "8"}, {"q", "POSIX message queues", "bytes, -q", "819200"},
		{"r", "real-time priority", "-r", "0"}, {"s", "stack size", "kbytes, -s", "8192"}, {"t", "cpu time", "seconds, -t", "unlimited"},
		{"u", "max user processes", "-u", strconv.Itoa(maxProcesses)}, {"v", "virtual memory", "kbytes, -v", "unlimited"}, {"x", "file locks", "-x", "unlimited"},
	}
	// Hard limits that differ from the soft ones.
	hard := map[string]string{"c": "unlimited", "n": "1048576", "s": "unlimited"}
	letter := "f"
	for i, a := range args {
		if !strings.HasPrefix(a, "-") {
			if i == len(args)-1 && a != "unlimited" {
				if _, err := strconv.Atoi(a); err != nil {
					sh.complain("ulimit: %s: invalid number", a)
					return 1
				}
			}
			sh.complain("ulimit: ckadrill does not simulate changing limits")
			return 1
		}
		for _, c := range a[1:] {
			switch c {
			case 'S':
			case 'H':
				for k, l := range limits {
					if v := hard[l.letter]; v != "" {
						limits[k].value = v
					}
				}
			default:
				letter = string(c)
			}
		}
	}
	if letter == "a" {
		for _, l := range limits {
			fmt.Fprintf(sh.stdout(), "%-32s(%s) %s\n", l.name, l.unit, l.value)
		}
		return 0
	}
	for _, l := range limits {
		if l.letter == letter {
			fmt.Fprintln(sh.stdout(), l.value)
			return 0
		}
	}
	sh.complain("ulimit: -%s: invalid option", letter)
	fmt.Fprintln(sh.stderr(), "ulimit: usage: ulimit [-SHabcdefiklmnpqrstuvxPRT] [limit]")
	return 2
}

func builtinTimes(sh *Shell, _ []string) int {
	fmt.Fprint(sh.stdout(), "0m0.000s 0m0.000s\n0m0.000s 0m0.000s\n")
	return 0
}

func builtinSuspend(sh *Shell, _ []string) int {
	sh.complain("suspend: ckadrill does not simulate stopped processes")
	return 1
}

func builtinCaller(sh *Shell, _ []string) int {
	v := sh.scopes[0].vars["BASH_LINENO"]
	if v == nil || len(v.Vals) == 0 {
		return 1
	}
	fmt.Fprintf(sh.stdout(), "%s %s\n", v.Vals[0], sh.zero)
	return 0
}

func builtinHelp(sh *Shell, _ []string) int {
	fmt.Fprintln(sh.stdout(), "ckadrill does not simulate help texts of bash. Builtins: "+strings.Join(sh.builtinNames(), " "))
	return 0
}

func builtinFc(sh *Shell, args []string) int {
	if len(args) > 0 && args[0] == "-l" {
		return builtinHistory(sh, []string{"16"})
	}
	sh.complain("fc: ckadrill does not simulate fc but -l")
	return 1
}

func (sh *Shell) builtinNames() []string {
	l := []string{"exec"}
	for n := range builtins {
		if sh.builtin(n) != nil {
			l = append(l, n)
		}
	}
	sort.Strings(l)
	return l
}

func (sh *Shell) setUmask(m uint32) {
	sh.umask = m
	if sh.files != nil {
		sh.files = sh.files.As(sh.p.Cred)
		sh.files.SetUmask(modeOf(m))
		if !sh.goroutine {
			sh.p.Files = sh.files
		}
	}
}

func builtinLet(sh *Shell, args []string) int {
	if len(args) == 0 {
		sh.complain("let: expression expected")
		return 1
	}
	var n int64
	for _, a := range args {
		var err error
		if n, err = sh.arithString(a); err != nil {
			sh.complain("let: %s", err)
			return 1
		}
	}
	return boolInt(n == 0)
}

func builtinGetopts(sh *Shell, args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(sh.stderr(), "getopts: usage: getopts optstring name [arg ...]")
		return 2
	}
	spec, name, list := args[0], args[1], sh.args
	if len(args) > 2 {
		list = args[2:]
	}
	silent := strings.HasPrefix(spec, ":")
	spec = strings.TrimPrefix(spec, ":")
	ind, _ := strconv.Atoi(sh.getStr("OPTIND"))
	ind = max(ind, 1)
	setInd := func(n int) {
		at := sh.getoptsAt
		sh.set("OPTIND", strconv.Itoa(n))
		sh.getoptsAt = at
	}
	sh.unset("OPTARG")
	if sh.getoptsAt == 0 {
		if ind > len(list) || len(list[ind-1]) < 2 || list[ind-1][0] != '-' {
			sh.set(name, "?")
			return 1
		}
		if list[ind-1] == "--" {
			setInd(ind + 1)
			sh.set(name, "?")
			return 1
		}
		sh.getoptsAt = 1
	}
	if ind > len(list) || sh.getoptsAt >= len(list[ind-1]) {
		sh.getoptsAt = 0
		sh.set(name, "?")
		return 1
	}
	word := list[ind-1]
	c := word[sh.getoptsAt]
	sh.getoptsAt++
	end := sh.getoptsAt >= len(word)
	i := strings.IndexByte(spec, c)
	switch {
	case i < 0 || c == ':':
		if end {
			sh.getoptsAt = 0
			setInd(ind + 1)
		}
		if silent {
			sh.set("OPTARG", string(c))
		} else if sh.getStr("OPTERR") != "0" {
			fmt.Fprintf(sh.stderr(), "%s: illegal option -- %c\n", sh.zero, c)
		}
		sh.set(name, "?")
	case i+1 < len(spec) && spec[i+1] == ':':
		arg := word[sh.getoptsAt:]
		sh.getoptsAt = 0
		if end {
			if ind >= len(list) {
				setInd(ind + 1)
				if silent {
					sh.set(name, ":")
					sh.set("OPTARG", string(c))
				} else {
					fmt.Fprintf(sh.stderr(), "%s: option requires an argument -- %c\n", sh.zero, c)
					sh.set(name, "?")
				}
				return 0
			}
			arg = list[ind]
			ind++
		}
		setInd(ind + 1)
		sh.set("OPTARG", arg)
		sh.set(name, string(c))
	default:
		if end {
			sh.getoptsAt = 0
			setInd(ind + 1)
		}
		sh.set(name, string(c))
	}
	return 0
}
