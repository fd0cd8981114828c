package bash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// call runs a simple command.
func (sh *Shell) call(call *syntax.CallExpr, redirs []*syntax.Redirect) {
	if sh.shopt["expand_aliases"] && len(call.Args) > 0 {
		if stmts, src, ok := sh.expandAlias(call); ok {
			sh.runAlias(stmts, src, redirs)
			return
		}
	}
	files := len(sh.substFiles)
	defer sh.closeSubst(files)
	sh.substStatus = -1
	args, err := sh.fields(call.Args)
	if err != nil {
		sh.report(err)
		return
	}
	if len(args) > 0 && len(call.Args) > 0 && call.Args[0].Lit() == "exec" {
		sh.execBuiltin(args[1:], call, redirs)
		return
	}
	r, ok := sh.redirect(redirs)
	if !ok {
		if sh.style != bashStyle && len(args) > 0 && specialBuiltins[args[0]] && !sh.interactive {
			sh.status, sh.flow = 2, flowExit
		}
		return
	}
	defer r.undo()
	if len(args) == 0 {
		for _, a := range call.Assigns {
			if err := sh.assign(a, nil); err != nil {
				sh.assignFailed(err)
				return
			}
		}
		sh.status = max(sh.substStatus, 0)
		return
	}
	sh.dispatch(args, call.Assigns)
	if len(args) > 0 {
		sh.lastArg = args[len(args)-1]
	}
}

func (sh *Shell) assignFailed(err error) {
	var ae assignError
	if errors.As(err, &ae) {
		sh.complain("%s", sh.styled(err.Error()))
		sh.status = 1
		if sh.style != bashStyle && !sh.interactive {
			sh.status, sh.flow = 2, flowExit
			return
		}
		if !sh.interactive {
			sh.flow = flowAbort
		}
		return
	}
	sh.report(err)
}

// dispatch finds what a command's name stands for and runs it with assignments in its environment.
func (sh *Shell) dispatch(args []string, assigns []*syntax.Assign) {
	name := args[0]
	fn := sh.funcs[name]
	bi := sh.builtin(name)
	if len(assigns) > 0 {
		s := newScope()
		s.temp, s.function = true, sh.function
		for _, a := range assigns {
			if err := sh.assign(a, s); err != nil {
				sh.assignFailed(err)
				return
			}
		}
		sh.scopes = append(sh.scopes, s)
		defer func() {
			for i := len(sh.scopes) - 1; i > 0; i-- {
				if sh.scopes[i] == s {
					sh.scopes = append(sh.scopes[:i], sh.scopes[i+1:]...)
					break
				}
			}
			if sh.style != bashStyle && specialBuiltins[name] && fn == nil { // POSIX: they stay
				for k, v := range s.vars {
					sh.scopes[0].vars[k] = v
				}
			}
			if _, ok := s.vars["PATH"]; ok {
				clear(sh.hashed)
			}
		}()
		if _, ok := s.vars["PATH"]; ok {
			clear(sh.hashed)
		}
	}
	if sh.opt['x'] {
		sh.traceCall(args, assigns)
	}
	switch {
	case fn != nil && !(sh.style != bashStyle && specialBuiltins[name]):
		sh.callFunction(name, fn, args[1:])
	case bi != nil:
		sh.callBuiltin(name, bi, args[1:])
	default:
		sh.external(args)
	}
}

func (sh *Shell) callBuiltin(name string, bi builtin, args []string) {
	sh.status = bi(sh, args)
}

func (sh *Shell) traceCall(args []string, assigns []*syntax.Assign) {
	for _, a := range assigns {
		if a.Name != nil && a.Value != nil {
			sh.trace(a.Name.Value + "=" + traceQuote(sh.getStr(a.Name.Value)))
		}
	}
	q := make([]string, len(args))
	for i, a := range args {
		q[i] = traceQuote(a)
	}
	sh.trace(strings.Join(q, " "))
}

// callFunction runs a function with its own positional parameters and variables.
func (sh *Shell) callFunction(name string, fn *function, args []string) {
	leave, ok := sh.deeper(name)
	if !ok {
		return
	}
	defer leave()
	oldArgs, oldFunction, oldLoops, oldSrc, oldLine, oldOptind := sh.args, sh.function, sh.loops, sh.src, sh.line, sh.getoptsAt
	s := newScope()
	s.function = name
	sh.scopes = append(sh.scopes, s)
	defer sh.place.enter(oldArgs)()
	sh.args, sh.function, sh.loops, sh.src = args, name, 0, fn.source
	sh.pushCallStack(name, oldLine)
	defer func() {
		sh.popCallStack()
		for i := len(sh.scopes) - 1; i > 0; i-- {
			if sh.scopes[i] == s {
				sh.scopes = append(sh.scopes[:i], sh.scopes[i+1:]...)
				break
			}
		}
		sh.args, sh.function, sh.loops, sh.src, sh.line, sh.getoptsAt = oldArgs, oldFunction, oldLoops, oldSrc, oldLine, oldOptind
		if sh.flow == flowReturn {
			sh.flow = flowNone
		}
		if action := sh.traps["RETURN"]; action != "" && sh.flow == flowNone && !sh.inTrap {
			sh.runTrap(action)
		}
	}()
	sh.stmt(fn.body)
}

// pushCallStack keeps FUNCNAME and BASH_LINENO.
func (sh *Shell) pushCallStack(name string, line int) {
	if sh.style != bashStyle {
		return
	}
	g := sh.scopes[0].vars
	push := func(array, s string) {
		v := g[array]
		if v == nil {
			v = &variable{Kind: indexed, Set: true}
			g[array] = v
		}
		v.Vals = append([]string{s}, v.Vals...)
		v.Keys = append(v.Keys, len(v.Keys))
	}
	push("FUNCNAME", name)
	push("BASH_LINENO", fmt.Sprint(line))
}

func (sh *Shell) popCallStack() {
	for _, array := range []string{"FUNCNAME", "BASH_LINENO"} {
		if v := sh.scopes[0].vars[array]; v != nil && len(v.Vals) > 0 {
			v.Vals, v.Keys = v.Vals[1:], v.Keys[:len(v.Keys)-1]
			if len(v.Vals) == 0 {
				delete(sh.scopes[0].vars, array)
			}
		}
	}
}

// assign performs one assignment, into scope s if it is not nil.
func (sh *Shell) assign(a *syntax.Assign, s *scope) error {
	if a.Name == nil {
		return nil
	}
	name := a.Name.Value
	if s != nil {
		value, err := sh.assignment(a.Value)
		if err != nil {
			return err
		}
		if old := sh.lookup(name); old != nil {
			if old.Readonly {
				return assignError{name + ": readonly variable"}
			}
			if a.Append {
				prev, _ := old.value()
				value = prev + value
			}
		}
		s.vars[name] = &variable{Set: true, Str: value, Exported: true}
		return nil
	}
	switch {
	case a.Array != nil:
		return sh.assignArray(name, a.Array, a.Append)
	case a.Index != nil:
		value, err := sh.assignment(a.Value)
		if err != nil {
			return err
		}
		sub, err := sh.subscript(sh.get(name), a.Index)
		if err != nil {
			return err
		}
		return sh.setElement(name, sub, value, a.Append)
	}
	value, err := sh.assignment(a.Value)
	if err != nil {
		return err
	}
	if sh.opt['x'] {
		sh.trace(name + map[bool]string{true: "+="}[a.Append] + map[bool]string{false: "="}[a.Append] + traceQuote(value))
	}
	if a.Append {
		if v := sh.get(name); v != nil {
			if v.Integer {
				old, err := sh.arithString(v.Str)
				if err != nil {
					return err
				}
				n, err := sh.arithString(value)
				if err != nil {
					return err
				}
				value = fmt.Sprint(old + n)
			} else {
				old, _ := v.value()
				value = old + value
			}
		}
	}
	return sh.set(name, value)
}

// assignArray is name=(...).
func (sh *Shell) assignArray(name string, x *syntax.ArrayExpr, appendTo bool) error {
	name = sh.deref(name)
	v := sh.home(name)
	if v.Readonly {
		return assignError{name + ": readonly variable"}
	}
	n := *v
	n.Set = true
	if !appendTo {
		n.Keys, n.Vals, n.Assoc = nil, nil, nil
	} else {
		n = *v.copy()
		n.Set = true
	}
	if n.Kind == scalar {
		if !appendTo {
			n.Str, n.Set = "", false
		}
		n.becomeIndexed()
		n.Set = true
	}
	if n.Kind == assoc && n.Assoc == nil {
		n.Assoc = map[string]string{}
	}
	next := n.next()
	for i := 0; i < len(x.Elems); i++ {
		e := x.Elems[i]
		if n.Kind == assoc {
			if e.Index == nil { // ( key value ... )
				if e.Value == nil {
					continue
				}
				key, err := sh.literal(e.Value)
				if err != nil {
					return err
				}
				value := ""
				if i+1 < len(x.Elems) && x.Elems[i+1].Index == nil {
					i++
					if value, err = sh.literal(x.Elems[i].Value); err != nil {
						return err
					}
				}
				n.Assoc[key] = value
				continue
			}
			key, err := sh.subscript(&n, e.Index)
			if err != nil {
				return err
			}
			value, err := sh.assignment(e.Value)
			if err != nil {
				return err
			}
			n.Assoc[key] = value
			continue
		}
		if e.Index != nil {
			k, err := sh.arith(e.Index)
			if err != nil {
				return err
			}
			if k < 0 || k > 1<<40 {
				return assignError{fmt.Sprintf("%s: bad array subscript", sh.textOf(e.Index))}
			}
			value, err := sh.assignment(e.Value)
			if err != nil {
				return err
			}
			if value, err = sh.convert(&n, value); err != nil {
				return err
			}
			n.setAt(int(k), value)
			next = int(k) + 1
			continue
		}
		fields, err := sh.fields([]*syntax.Word{e.Value})
		if err != nil {
			return err
		}
		for _, f := range fields {
			if f, err = sh.convert(&n, f); err != nil {
				return err
			}
			n.setAt(next, f)
			next++
		}
	}
	if len(n.Keys) > maxElements || len(n.Assoc) > maxElements {
		return sh.outOfMemory(len(n.Keys))
	}
	*sh.home(name) = n
	return nil
}

// find looks a command up on PATH, with the hash table of bash.
func (sh *Shell) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return sh.abs(name), nil
	}
	if f, ok := sh.hashed[name]; ok {
		if i, err := sh.files.Stat(f); err == nil && !i.IsDir() {
			return f, nil
		}
		delete(sh.hashed, name)
	}
	if sh.files == nil {
		return "", fs.ErrNotExist
	}
	f, err := kernel.LookPath(sh.files, sh.dir, sh.getStr("PATH"), name)
	if err != nil {
		return "", err
	}
	sh.hashed[name] = f
	return f, nil
}

// external runs a command that is a file.
func (sh *Shell) external(args []string) {
	sh.status = sh.runExternal(args)
}

func (sh *Shell) runExternal(args []string) int {
	p, status := sh.startExternal(args)
	if p == nil {
		return status
	}
	defer sh.place.wait(p, args, false)()
	return sh.await(p)
}

// startExternal starts a command as a process. On failure it prints why and returns the status.
func (sh *Shell) startExternal(args []string) (*kernel.Process, int) {
	main, argv, status := sh.load(args)
	if main == nil {
		return nil, status
	}
	release, ok := sh.fork()
	if !ok {
		return nil, 254
	}
	sh.cost = 0 // the command's own start takes longer
	p := sh.p.Host().Processes.Start(sh.spec(argv), main)
	p.OnExit(release)
	return p, 0
}

// spec describes a child of the shell.
func (sh *Shell) spec(argv []string) kernel.Spec {
	s := kernel.Spec{
		Argv: argv, Env: append(sh.environ(), "_="+argv[0]), Dir: sh.dir, Cred: sh.p.Cred, Hostname: sh.p.Spec.Hostname, Files: sh.childFiles(), Net: sh.p.Net,
		TTY: sh.p.TTY, Parent: sh.p,
	}
	if in := sh.fds[0]; in != nil {
		s.Stdin = in.r
	}
	if s.Stdin == nil {
		s.Stdin = badDescriptor{}
	}
	s.Stdout, s.Stderr = sh.stdout(), sh.stderr()
	return s
}

// load finds the program behind a command, or prints why there is none.
func (sh *Shell) load(args []string) (kernel.Program, []string, int) {
	name := args[0]
	file, err := sh.find(name)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			sh.complain("%s: %s", name, sh.denied())
			return nil, nil, 126
		}
		sh.notFound(name)
		return nil, nil, 127
	}
	main, argv, err := sh.p.World().Load(sh.files, file, args)
	if err == nil {
		if len(argv) != len(args) || argv[0] != args[0] { // a script: the interpreter gets the file's name as it was given
			for i := range argv {
				if argv[i] == file && strings.Contains(name, "/") {
					argv[i] = name
				}
			}
		}
		return main, argv, 0
	}
	info, statErr := sh.files.Stat(file)
	switch {
	case errors.Is(err, kernel.ErrNoExec):
		content, _ := sh.files.ReadFile(file)
		if isBinary(content) {
			sh.complain("%s: cannot execute binary file: Exec format error", name)
			return nil, nil, 126
		}
		argv := append([]string{sh.zero0(), file}, args[1:]...)
		if strings.Contains(name, "/") {
			argv[1] = name
		}
		return sh.self(), argv, 0
	case statErr == nil && info.IsDir():
		if sh.style == bashStyle {
			sh.complain("%s: Is a directory", name)
		} else {
			sh.complain("%s: Permission denied", name)
		}
		return nil, nil, 126
	case statErr == nil && errors.Is(err, fs.ErrNotExist):
		if sh.style == bashStyle {
			sh.complain("%s: cannot execute: required file not found", name)
		} else {
			sh.complain("%s: not found", name)
		}
		return nil, nil, 127
	case errors.Is(err, fs.ErrNotExist):
		if sh.style == bashStyle {
			sh.complain("%s: No such file or directory", name)
		} else {
			sh.complain("%s: not found", name)
		}
		return nil, nil, 127
	}
	sh.complain("%s: %s", name, libc.Strerror(err))
	return nil, nil, 126
}

func (sh *Shell) denied() string { return "Permission denied" }

func (sh *Shell) notFound(name string) {
	if sh.style != bashStyle {
		sh.complain("%s: not found", name)
		return
	}
	if fn := sh.funcs["command_not_found_handle"]; fn != nil {
		sh.callFunction("command_not_found_handle", fn, []string{name})
		return
	}
	sh.complain("%s: command not found", name)
}

// zero0 is the name under which the shell runs a script that has no #! line.
func (sh *Shell) zero0() string {
	switch sh.style {
	case dashStyle, ashStyle:
		return "sh"
	}
	return "/bin/bash"
}

func (sh *Shell) self() kernel.Program {
	switch sh.style {
	case dashStyle:
		return DashMain
	case ashStyle:
		return AshMain
	}
	return Main
}

func isBinary(content []byte) bool {
	if len(content) > 80 {
		content = content[:80]
	}
	for _, c := range content {
		if c == '\n' {
			return false
		}
		if c == 0 {
			return true
		}
	}
	return false
}

// await waits for a child in the foreground, or for the end of the shell.
func (sh *Shell) await(p *kernel.Process) int {
	select {
	case <-p.Done():
	case <-sh.p.Done():
		sh.flow = flowExit
		return 0
	}
	st := p.Wait()
	if st.Signal != 0 {
		sh.died(p, st.Signal)
	}
	return st.ExitCode()
}

// died prints what bash says about a command that a signal ended.
func (sh *Shell) died(p *kernel.Process, s kernel.Signal) {
	if s == kernel.SIGINT {
		if sh.interactive {
			sh.signals.interrupt()
		}
		return
	}
	if s == kernel.SIGPIPE || sh.subshellDepth > 0 {
		return
	}
	text := signalText(s)
	if sh.interactive {
		fmt.Fprintln(sh.stderr(), text)
		return
	}
	if sh.style == bashStyle && !sh.command {
		fmt.Fprintf(sh.stderr(), "%s%5d %-23s %s\n", sh.prefix(), p.OwnPID(), text, strings.Join(p.Argv, " "))
		return
	}
	fmt.Fprintln(sh.stderr(), text)
}

func signalText(s kernel.Signal) string {
	switch s {
	case kernel.SIGHUP:
		return "Hangup"
	case kernel.SIGKILL:
		return "Killed"
	case kernel.SIGTERM:
		return "Terminated"
	case kernel.SIGQUIT:
		return "Quit"
	case kernel.SIGABRT:
		return "Aborted"
	case kernel.SIGUSR1:
		return "User defined signal 1"
	case kernel.SIGUSR2:
		return "User defined signal 2"
	}
	return fmt.Sprintf("Unknown signal %d", int(s))
}

// execBuiltin is exec: redirections that stay, and a program that takes the shell's place.
func (sh *Shell) execBuiltin(args []string, call *syntax.CallExpr, redirs []*syntax.Redirect) {
	r, ok := sh.redirect(redirs)
	if !ok {
		if !sh.interactive {
			sh.flow = flowExit
		}
		return
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		switch {
		case args[0] == "--":
			args = args[1:]
		case args[0] == "-a" && len(args) > 1:
			args = args[2:]
			continue
		case args[0] == "-c", args[0] == "-l":
			args = args[1:]
			continue
		default:
			sh.complain("exec: %s: invalid option", args[0])
			fmt.Fprintln(sh.stderr(), "exec: usage: exec [-cl] [-a name] [command [argument ...]] [redirection ...]")
			sh.status = 2
			r.undo()
			return
		}
		break
	}
	if len(args) == 0 {
		sh.status = 0
		return // what was redirected stays so
	}
	for _, a := range call.Assigns {
		if err := sh.assign(a, nil); err != nil {
			sh.assignFailed(err)
			return
		}
		if v := sh.lookup(a.Name.Value); v != nil {
			v.Exported = true
		}
	}
	main, argv, status := sh.loadExec(args)
	if main == nil {
		sh.status = status
		r.undo()
		if !sh.interactive {
			sh.flow = flowExit
		}
		return
	}
	sh.replaceBy(main, argv)
}

// loadExec is load with the words of exec's own errors.
func (sh *Shell) loadExec(args []string) (kernel.Program, []string, int) {
	if _, err := sh.find(args[0]); err != nil && sh.style == bashStyle && !errors.Is(err, fs.ErrPermission) {
		sh.complain("exec: %s: not found", args[0])
		return nil, nil, 127
	}
	return sh.load(args)
}

// replaceBy runs a program in the shell's place: in its own process where the shell is one, else as the subshell's last
// command.
func (sh *Shell) replaceBy(main kernel.Program, argv []string) {
	if sh.subshellDepth > 0 && sh.p.Value(subshellProcess{}) == nil || sh.goroutine {
		p := sh.p.Host().Processes.Start(sh.spec(argv), main)
		done := sh.place.wait(p, argv, false)
		sh.status = sh.await(p)
		done()
		sh.flow = flowExit
		sh.traps = map[string]string{}
		return
	}
	s := sh.spec(argv)
	for _, n := range sortedKeys(sh.traps) {
		if sig, ok := signalByName(n); ok && sh.traps[n] != "" {
			sh.p.Notify(sig, nil)
		}
	}
	sh.p.Exec(s)
	sh.place.wait(sh.p, argv, true)
	sh.p.Exit(main(sh.p))
}

// subshellProcess marks a process that is a subshell of its own.
type subshellProcess struct{}

// cmdSubst runs $(...) and returns its output without the trailing newlines.
func (sh *Shell) cmdSubst(c *syntax.CmdSubst) (string, error) {
	if len(c.Stmts) == 0 {
		return "", nil
	}
	if s, ok, err := sh.readSubst(c); ok {
		return s, err
	}
	leave, ok := sh.deeper("command substitution")
	if !ok {
		return "", errReported
	}
	defer leave()
	release, ok := sh.fork()
	if !ok {
		return "", errReported
	}
	defer release()
	r, w := sh.newPipe()
	child := sh.sub()
	child.fds[1] = w
	child.substDepth++
	child.goroutine = true
	if sh.style == bashStyle && !sh.shopt["inherit_errexit"] && !sh.longOpt["posix"] {
		child.opt['e'] = false
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		child.stmts(c.Stmts)
		child.finish()
		w.release()
	}()
	b, err := io.ReadAll(io.LimitReader(r.r, maxValue+1))
	r.release()
	<-done
	if !sh.p.Alive() {
		sh.flow = flowExit
		return "", errReported
	}
	if len(b) > maxValue {
		return "", sh.outOfMemory(len(b))
	}
	if err != nil {
		return "", errReported
	}
	sh.status, sh.substStatus = child.status, child.status
	if sh.interactive && child.flow == flowAbort && child.status == 130 {
		return "", errReported
	}
	return trimSubst(string(b)), nil
}

func trimSubst(s string) string {
	return strings.TrimRight(strings.ReplaceAll(s, "\x00", ""), "\n")
}

// readSubst is $(<file).
func (sh *Shell) readSubst(c *syntax.CmdSubst) (string, bool, error) {
	if len(c.Stmts) != 1 || c.Stmts[0].Cmd != nil || len(c.Stmts[0].Redirs) != 1 || c.Stmts[0].Redirs[0].Op != syntax.RdrIn {
		return "", false, nil
	}
	r, ok := sh.redirect(c.Stmts[0].Redirs)
	if !ok {
		sh.substStatus = 1
		return "", true, nil
	}
	defer r.undo()
	b, err := libc.ReadAll(sh.reader(0))
	sh.substStatus = 0
	if err != nil {
		sh.complain("%s", libc.Strerror(err))
		sh.substStatus = 1
	}
	if len(b) > maxValue {
		return "", true, sh.outOfMemory(len(b))
	}
	return trimSubst(string(b)), true, nil
}

func (sh *Shell) reader(n int) io.Reader {
	if s := sh.fds[n]; s != nil && s.r != nil {
		return s.r
	}
	return badDescriptor{}
}

// procSubst starts <(...) or >(...) and returns the name of the file at its other end.
func (sh *Shell) procSubst(c *syntax.ProcSubst) (string, error) {
	release, ok := sh.fork()
	if !ok {
		return "", errReported
	}
	r, w := sh.newPipe()
	child := sh.sub()
	child.goroutine = true
	f := &substFile{done: make(chan struct{})}
	var mine *stream
	if c.Op == syntax.CmdIn {
		f.s, mine = r, w
		child.fds[1] = w
	} else {
		f.s, mine = w, r
		child.fds[0] = r
	}
	n := 63
	for used := true; used; {
		used = sh.fds[n] != nil
		for _, other := range sh.substFiles {
			used = used || other.name == fmt.Sprintf("/dev/fd/%d", n)
		}
		if used {
			n--
		}
	}
	f.name = fmt.Sprintf("/dev/fd/%d", n)
	f.isPipe = c.Op != syntax.CmdIn
	child.substFiles = nil
	sh.substFiles = append(sh.substFiles, f)
	go func() {
		defer close(f.done)
		defer release()
		child.stmts(c.Stmts)
		child.finish()
		mine.release()
	}()
	return f.name, nil
}

// closeSubst closes the files of process substitutions that a command used.
func (sh *Shell) closeSubst(keep int) {
	for len(sh.substFiles) > keep {
		f := sh.substFiles[len(sh.substFiles)-1]
		sh.substFiles = sh.substFiles[:len(sh.substFiles)-1]
		f.s.release()
		if f.isPipe { // what reads our output should print before the next command does
			select {
			case <-f.done:
			case <-sh.p.Done():
			}
		}
	}
}
