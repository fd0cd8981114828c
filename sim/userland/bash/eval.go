package bash

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts runs statements one after the other and reports whether the shell goes on.
func (sh *Shell) stmts(list []*syntax.Stmt) bool {
	for _, st := range list {
		if !sh.stmt(st) {
			return false
		}
	}
	return sh.flow == flowNone
}

// stmt runs one statement and reports whether the shell goes on with the next.
func (sh *Shell) stmt(st *syntax.Stmt) bool {
	if !sh.step() {
		return false
	}
	sh.handleSignals()
	if sh.flow != flowNone {
		return false
	}
	sh.line = int(st.Position.Line()) + sh.src.line
	if sh.opt['n'] && !sh.interactive {
		return true
	}
	if st.Background || st.Coprocess {
		sh.background(st)
		return sh.flow == flowNone
	}
	if st.Negated {
		sh.noErrexit++
	}
	sh.command1(st)
	if b, ok := st.Cmd.(*syntax.BinaryCmd); !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		sh.pipestatus = []int{sh.status}
	}
	if st.Negated {
		sh.noErrexit--
		if sh.flow == flowNone || sh.flow == flowBreak || sh.flow == flowContinue {
			sh.status = boolInt(sh.status == 0)
		}
		return sh.flow == flowNone
	}
	if sh.status != 0 && sh.flow == flowNone && sh.noErrexit == 0 && checked(st.Cmd) {
		sh.failed()
	}
	return sh.flow == flowNone
}

// failed is what a command's failure does: the ERR trap, and the end of the shell under set -e.
func (sh *Shell) failed() {
	if action := sh.traps["ERR"]; action != "" && !sh.inTrap {
		sh.runTrap(action)
	}
	if sh.opt['e'] && sh.flow == flowNone {
		sh.flow = flowExit
	}
}

// checked says whether set -e looks at the status of a command as such; the parts of a compound command are looked at
// themselves.
func checked(c syntax.Command) bool {
	switch c := c.(type) {
	case *syntax.BinaryCmd:
		return c.Op == syntax.Pipe || c.Op == syntax.PipeAll
	case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.Block, *syntax.FuncDecl, nil:
		return false
	}
	return true
}

// command1 runs a statement's command with its redirections.
func (sh *Shell) command1(st *syntax.Stmt) {
	if call, ok := st.Cmd.(*syntax.CallExpr); ok {
		sh.call(call, st.Redirs)
		return
	}
	r, ok := sh.redirect(st.Redirs)
	if !ok {
		return
	}
	defer r.undo()
	files := len(sh.substFiles)
	sh.compound(st.Cmd)
	sh.closeSubst(files)
}

func (sh *Shell) compound(cmd syntax.Command) {
	switch cmd := cmd.(type) {
	case nil:
		sh.status = 0
	case *syntax.Block:
		sh.status = 0
		sh.stmts(cmd.Stmts)
	case *syntax.Subshell:
		sh.subshell(cmd.Stmts)
	case *syntax.BinaryCmd:
		sh.binary(cmd)
	case *syntax.IfClause:
		sh.ifClause(cmd)
	case *syntax.WhileClause:
		sh.while(cmd)
	case *syntax.ForClause:
		sh.forClause(cmd)
	case *syntax.CaseClause:
		sh.caseClause(cmd)
	case *syntax.FuncDecl:
		sh.declareFunction(cmd)
	case *syntax.ArithmCmd:
		n, err := sh.arith(cmd.X)
		if sh.opt['x'] {
			sh.trace("(( " + strings.TrimSpace(sh.textOf(cmd.X)) + " ))")
		}
		if err != nil {
			sh.softError("((", err)
			return
		}
		sh.status = boolInt(n == 0)
	case *syntax.LetClause:
		sh.letClause(cmd)
	case *syntax.TestClause:
		sh.testClause(cmd)
	case *syntax.DeclClause:
		sh.declClause(cmd)
	case *syntax.TimeClause:
		sh.timeClause(cmd)
	default:
		sh.complain("ckadrill does not simulate this part of the shell's language: %s", strings.TrimPrefix(fmt.Sprintf("%T", cmd), "*syntax."))
		sh.status = 2
	}
}

// report prints an error of an expansion or assignment and decides what it ends.
func (sh *Shell) report(err error) {
	var fatal fatalError
	switch {
	case errors.Is(err, errReported):
	case errors.As(err, &fatal):
		sh.complain("%s", err)
		sh.status = 1
		if sh.style != bashStyle {
			sh.status = 2
		} else if !sh.interactive {
			if sh.command {
				sh.status = 127
			}
			if strings.HasPrefix(fatal.text, "xrealloc") {
				sh.status = 2
			}
		}
		if sh.interactive {
			sh.flow = flowAbort
		} else {
			sh.flow = flowExit
		}
		return
	default:
		sh.complain("%s", sh.styled(err.Error()))
	}
	sh.status = 1
	sh.flow = flowAbort
	if sh.style != bashStyle {
		sh.status = 2
		if !sh.interactive {
			sh.flow = flowExit
		}
	}
}

// styled turns bash's words for an error into those of the shell.
func (sh *Shell) styled(text string) string {
	if sh.style == bashStyle {
		return text
	}
	if name, ok := strings.CutSuffix(text, ": readonly variable"); ok {
		return name + ": is read only"
	}
	if expr, _, ok := strings.Cut(text, ": division by 0"); ok {
		if sh.style == ashStyle {
			return "divide by zero"
		}
		return "arithmetic expression: division by zero: \"" + expr + "\""
	}
	return text
}

// softError is an error that fails only its own command, as in (( )) and [[ ]].
func (sh *Shell) softError(what string, err error) {
	var fatal fatalError
	if errors.As(err, &fatal) {
		sh.report(err)
		return
	}
	if !errors.Is(err, errReported) {
		sh.complain("%s: %s", what, err)
	}
	sh.status = 1
}

func (sh *Shell) binary(b *syntax.BinaryCmd) {
	switch b.Op {
	case syntax.AndStmt, syntax.OrStmt:
		sh.noErrexit++
		ok := sh.stmt(b.X)
		sh.noErrexit--
		if ok && (sh.status == 0) == (b.Op == syntax.AndStmt) {
			sh.stmt(b.Y)
		}
	case syntax.Pipe, syntax.PipeAll:
		sh.pipeline(b)
	}
}

func (sh *Shell) condition(list []*syntax.Stmt) (yes, ok bool) {
	sh.noErrexit++
	ok = sh.stmts(list)
	sh.noErrexit--
	return sh.status == 0, ok
}

func (sh *Shell) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 { // else
			sh.stmts(c.Then)
			return
		}
		yes, ok := sh.condition(c.Cond)
		if !ok {
			return
		}
		if yes {
			sh.stmts(c.Then)
			return
		}
	}
	sh.status = 0
}

// loopAgain is called after the body of a loop and reports whether the loop goes on.
func (sh *Shell) loopAgain() bool {
	switch sh.flow {
	case flowNone:
		return true
	case flowBreak:
		if sh.levels--; sh.levels <= 0 {
			sh.flow = flowNone
		}
		return false
	case flowContinue:
		if sh.levels--; sh.levels <= 0 {
			sh.flow = flowNone
			return true
		}
	}
	return false
}

func (sh *Shell) while(c *syntax.WhileClause) {
	sh.loops++
	defer func() { sh.loops-- }()
	status := 0
	for {
		if !sh.step() {
			return
		}
		yes, ok := sh.condition(c.Cond)
		if !ok {
			if !sh.loopAgain() {
				if sh.flow == flowNone {
					sh.status = 0
				}
				return
			}
			continue
		}
		if yes == c.Until {
			break
		}
		sh.stmts(c.Do)
		status = sh.status
		if !sh.loopAgain() {
			return
		}
	}
	sh.status = status
}

func (sh *Shell) forClause(c *syntax.ForClause) {
	if c.Select {
		sh.complain("ckadrill does not simulate select yet")
		sh.status = 2
		return
	}
	sh.loops++
	defer func() { sh.loops-- }()
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		items := sh.args
		if loop.InPos.IsValid() {
			var err error
			if items, err = sh.fields(loop.Items); err != nil {
				sh.report(err)
				return
			}
		} else {
			items = append([]string(nil), items...)
		}
		sh.status = 0
		for _, item := range items {
			if !sh.step() {
				return
			}
			if sh.opt['x'] {
				sh.trace("for " + loop.Name.Value + " in " + strings.TrimSpace(sh.textOfWords(loop.Items)))
			}
			if err := sh.set(loop.Name.Value, item); err != nil {
				sh.report(err)
				return
			}
			sh.stmts(c.Do)
			if !sh.loopAgain() {
				return
			}
		}
	case *syntax.CStyleLoop:
		eval := func(x syntax.ArithmExpr) (int64, bool) {
			if x == nil {
				return 1, true
			}
			n, err := sh.arith(x)
			if err != nil {
				sh.softError("((", err)
				return 0, false
			}
			return n, true
		}
		status := 0
		if loop.Init != nil {
			if _, ok := eval(loop.Init); !ok {
				return
			}
		}
		for {
			if !sh.step() {
				return
			}
			n, ok := eval(loop.Cond)
			if !ok {
				return
			}
			if n == 0 {
				break
			}
			sh.stmts(c.Do)
			status = sh.status
			if !sh.loopAgain() {
				return
			}
			if loop.Post != nil {
				if _, ok := eval(loop.Post); !ok {
					return
				}
			}
		}
		sh.status = status
	}
}

func (sh *Shell) textOfWords(ws []*syntax.Word) string {
	l := make([]string, len(ws))
	for i, w := range ws {
		l[i] = sh.textOf(w)
	}
	return strings.Join(l, " ")
}

func (sh *Shell) caseClause(c *syntax.CaseClause) {
	subject, err := sh.literal(c.Word)
	if err != nil {
		sh.report(err)
		return
	}
	if sh.opt['x'] {
		sh.trace("case " + sh.textOf(c.Word) + " in")
	}
	sh.status = 0
	run := false
	for _, item := range c.Items {
		if !run {
			for _, p := range item.Patterns {
				pat, err := sh.patternOf(p)
				if err != nil {
					sh.report(err)
					return
				}
				if run = sh.match(pat, subject); run {
					break
				}
			}
		}
		if !run {
			continue
		}
		if !sh.stmts(item.Stmts) {
			return
		}
		switch item.Op {
		case syntax.Fallthrough:
		case syntax.Resume:
			run = false
		default:
			return
		}
	}
}

func (sh *Shell) declareFunction(d *syntax.FuncDecl) {
	if d.Name == nil {
		sh.status = 1
		return
	}
	sh.funcs[d.Name.Value] = &function{body: d.Body, text: sh.textOf(d), source: sh.src}
	sh.status = 0
}

func (sh *Shell) letClause(c *syntax.LetClause) {
	var n int64
	for _, x := range c.Exprs {
		var err error
		if n, err = sh.arith(x); err != nil {
			sh.softError("let", err)
			return
		}
	}
	sh.status = boolInt(n == 0)
}

func (sh *Shell) timeClause(c *syntax.TimeClause) {
	sh.pay()
	start := now()
	if c.Stmt != nil {
		sh.stmt(c.Stmt)
	}
	sh.pay()
	real := now().Sub(start)
	if c.PosixFormat {
		fmt.Fprintf(sh.stderr(), "real %.2f\nuser %.2f\nsys %.2f\n", real.Seconds(), 0.0, 0.0)
		return
	}
	minutes := int(real.Minutes())
	fmt.Fprintf(sh.stderr(), "\nreal\t%dm%.3fs\nuser\t0m0.000s\nsys\t0m0.000s\n", minutes, real.Seconds()-float64(minutes)*60)
}

// trace prints a line of set -x.
func (sh *Shell) trace(line string) {
	ps4, ok := sh.param("PS4")
	if !ok {
		ps4 = "+ "
	}
	if sh.style == bashStyle && strings.ContainsAny(ps4, `$\`) {
		off := sh.opt['x']
		sh.opt['x'] = false
		ps4 = sh.promptExpand(ps4)
		sh.opt['x'] = off
	}
	if ps4 != "" {
		_, n := firstRune(ps4)
		ps4 = strings.Repeat(ps4[:n], sh.traceDepth()) + ps4
	}
	fmt.Fprintf(sh.stderr(), "%s%s\n", ps4, line)
}

func firstRune(s string) (rune, int) {
	for i, r := range s {
		_ = i
		return r, len(string(r))
	}
	return 0, 0
}

func (sh *Shell) traceDepth() int { return sh.substDepth }
