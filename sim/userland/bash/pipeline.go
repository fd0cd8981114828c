package bash

import (
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
)

// subshell runs ( list ).
func (sh *Shell) subshell(list []*syntax.Stmt) {
	release, ok := sh.fork()
	if !ok {
		sh.status = 254
		return
	}
	defer release()
	child := sh.sub()
	child.goroutine = true
	child.noErrexit = sh.noErrexit
	child.stmts(list)
	child.finish()
	sh.status = child.status
	if child.kill == kernel.SIGINT || child.flow == flowAbort && child.status == 130 && sh.interactive {
		sh.flow = flowAbort
	}
	if !sh.p.Alive() {
		sh.flow = flowExit
	}
}

// pipeline runs a | b | c: every part in a subshell, all at once.
func (sh *Shell) pipeline(b *syntax.BinaryCmd) {
	var parts []*syntax.Stmt
	var all []bool // |& after the part
	var flatten func(st *syntax.Stmt)
	flatten = func(st *syntax.Stmt) {
		if bc, ok := st.Cmd.(*syntax.BinaryCmd); ok && (bc.Op == syntax.Pipe || bc.Op == syntax.PipeAll) && !st.Negated && len(st.Redirs) == 0 && !st.Background {
			flatten(bc.X)
			all[len(all)-1] = bc.Op == syntax.PipeAll
			flatten(bc.Y)
			return
		}
		parts, all = append(parts, st), append(all, false)
	}
	flatten(b.X)
	all[len(all)-1] = b.Op == syntax.PipeAll
	flatten(b.Y)

	statuses := make([]int, len(parts))
	var wg sync.WaitGroup
	in := sh.fds[0].retain()
	lastInShell := sh.shopt["lastpipe"] && !sh.opt['m']
	for i, part := range parts {
		release, ok := sh.fork()
		if !ok {
			in.release()
			statuses[i] = 254
			break
		}
		var next *stream
		out := sh.fds[1].retain()
		if i < len(parts)-1 {
			r, w := sh.newPipe()
			out.release()
			out, next = w, r
		}
		last := i == len(parts)-1
		if last && lastInShell {
			oldIn, oldOut := sh.fds[0], sh.fds[1]
			setFD(sh.fds, 0, in)
			setFD(sh.fds, 1, out)
			sh.stmt(part)
			setFD(sh.fds, 0, oldIn)
			setFD(sh.fds, 1, oldOut)
			in.release()
			out.release()
			release()
			statuses[i] = sh.status
			continue
		}
		child := sh.sub()
		child.goroutine = true
		child.noErrexit = sh.noErrexit
		setFD(child.fds, 0, in)
		setFD(child.fds, 1, out)
		if all[i] {
			setFD(child.fds, 2, out)
		}
		wg.Add(1)
		go func(in, out *stream) {
			defer wg.Done()
			defer release()
			defer out.release()
			defer in.release()
			child.stmt(part)
			child.finish()
			statuses[i] = child.status
		}(in, out)
		in = next
	}
	wg.Wait()
	if !sh.p.Alive() {
		sh.flow = flowExit
		return
	}
	sh.pipestatus = statuses
	sh.status = statuses[len(statuses)-1]
	if sh.longOpt["pipefail"] {
		for _, s := range statuses {
			if s != 0 {
				sh.status = s
			}
		}
	}
	sh.checkInterrupt()
}

func setFD(fds map[int]*stream, n int, s *stream) {
	if s == nil {
		delete(fds, n)
	} else {
		fds[n] = s
	}
}

// background runs a command with &: as a process, which is the command itself where that is simple.
func (sh *Shell) background(st *syntax.Stmt) {
	copied := *st
	copied.Background = false
	text := strings.TrimRight(sh.textOf(st), "& \t\n")
	child := sh.sub()
	for n, s := range child.fds {
		child.fds[n] = s.retain()
	}
	if !sh.opt['m'] {
		if in := child.fds[0]; in != nil && in == sh.fds[0] {
			in.release()
			child.fds[0] = opened(nullDevice{}, nil, nil)
		}
	}
	release, ok := sh.fork()
	if !ok {
		sh.status = 254
		return
	}
	releaseAll := func() {
		for _, s := range child.fds {
			s.release()
		}
		release()
	}
	spec := child.spec(sh.p.CommandLine())
	spec.Env = sh.p.Environ()
	spec.Files = sh.files
	if len(spec.Argv) == 0 {
		spec.Argv = []string{sh.zero}
	}
	p := sh.p.Host().Processes.Start(spec, func(p *kernel.Process) int {
		child.p = p
		p.SetValue(subshellProcess{}, true)
		child.interactive = false
		child.goroutine = false
		child.place = &place{}
		child.signals = newSignalBox()
		if !sh.opt['m'] {
			p.Notify(kernel.SIGINT, func() {}) // as bash has commands in the background ignore it
		}
		child.last(&copied)
		child.finish()
		if child.kill != 0 {
			p.Notify(child.kill, nil)
			p.Signal(child.kill)
		}
		return child.status
	})
	p.OnExit(releaseAll)
	j := sh.jobs.add(p, text, p.OwnPID())
	sh.lastBackground = p.OwnPID()
	sh.status = 0
	if sh.interactive && sh.subshellDepth == 0 {
		fmt.Fprintf(sh.stderr(), "[%d] %d\n", j.number, p.OwnPID())
	}
}

// last runs the last statement of a process: a simple external command takes the process over, as bash's own fork would
// have been replaced by it.
func (sh *Shell) last(st *syntax.Stmt) {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || len(call.Args) == 0 || len(sh.activeTraps()) > 0 || sh.shopt["expand_aliases"] && sh.aliases[call.Args[0].Lit()] != "" {
		sh.stmt(st)
		return
	}
	name := call.Args[0].Lit()
	if name == "" || sh.funcs[name] != nil || sh.builtin(name) != nil || len(call.Assigns) > 0 {
		sh.stmt(st)
		return
	}
	sh.line = int(st.Position.Line()) + sh.src.line
	args, err := sh.fields(call.Args)
	if err != nil {
		sh.report(err)
		return
	}
	if len(args) == 0 || len(sh.substFiles) > 0 || sh.funcs[args[0]] != nil || sh.builtin(args[0]) != nil {
		sh.closeSubst(0)
		sh.stmt(st)
		return
	}
	if _, ok := sh.redirect(st.Redirs); !ok {
		return
	}
	if sh.opt['x'] {
		sh.traceCall(args, nil)
	}
	main, argv, status := sh.load(args)
	if main == nil {
		sh.status = status
		return
	}
	spec := sh.spec(argv)
	sh.p.Exec(spec)
	sh.p.Exit(main(sh.p))
}

func (sh *Shell) activeTraps() []string {
	var l []string
	for _, n := range sortedKeys(sh.traps) {
		if sh.traps[n] != "" {
			l = append(l, n)
		}
	}
	return l
}
