package bash

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
)

// interactiveShell marks the process of a shell that leads a terminal: what runs below it is its own business.
type interactiveShell struct{}

// Interactive reads commands from the process's terminal until Ctrl-D or exit, and returns the exit status.
func (sh *Shell) Interactive() int {
	p := sh.p
	p.SetValue(interactiveShell{}, true)
	old := p.TTY.SetForeground(p)
	defer p.TTY.SetForeground(old)
	sh.takeSignals()
	if n := NestOf(p.TTY); n != nil {
		n.enter(sh)
	}
	sh.Continue()
	for sh.flow != flowExit && p.Alive() {
		sh.reportJobs()
		if c := sh.getStr("PROMPT_COMMAND"); c != "" {
			status := sh.status
			sh.run(c, 0)
			sh.status = status
			if sh.flow == flowExit {
				break
			}
		}
		text, err := sh.readCommand()
		switch {
		case errors.Is(err, kernel.ErrInterrupted):
			sh.status = 130
			sh.signals.clear()
			continue
		case errors.Is(err, io.EOF):
			if sh.login {
				fmt.Fprintln(sh.stderr(), "logout")
			} else if sh.style == bashStyle {
				fmt.Fprintln(sh.stderr(), "exit")
			}
			sh.flow = flowExit
			continue
		case err != nil:
			sh.flow = flowExit
			continue
		}
		sh.RunLine(text)
	}
	if sh.style == bashStyle {
		sh.saveHistory()
	}
	sh.finish()
	return sh.status
}

// RunLine runs one command as it was typed (it may span several lines) in an interactive shell: what an error throws away
// is this command alone.
func (sh *Shell) RunLine(text string) int {
	sh.signals.clear()
	sh.signals.foreground(nil)
	sh.run(text, 0)
	switch sh.flow {
	case flowExit:
	default:
		sh.flow = flowNone
	}
	sh.loops, sh.depth, sh.noErrexit, sh.inTrap = 0, 0, 0, false
	sh.scopes = sh.scopes[:1]
	sh.function = ""
	sh.inAlias = nil
	sh.pay()
	return sh.status
}

// readCommand reads lines until they are a complete command.
func (sh *Shell) readCommand() (string, error) {
	prompt := sh.promptExpand(sh.getStr("PS1"))
	var text string
	read := sh.p.TTY.ReadLine
	for {
		line, err := read(prompt, sh.Complete)
		if err != nil {
			if errors.Is(err, io.EOF) && text != "" {
				sh.complain("syntax error: unexpected end of file")
				sh.status = 2
				return "", kernel.ErrInterrupted
			}
			return "", err
		}
		if sh.style == bashStyle {
			expanded, changed, err := sh.expandHistory(line)
			if err != nil {
				sh.complain("%s", err)
				return "", kernel.ErrInterrupted
			}
			if changed {
				fmt.Fprintln(sh.stderr(), expanded)
				line = expanded
			}
		}
		text += line + "\n"
		if !incomplete(sh, text) {
			sh.remember(strings.TrimRight(text, "\n"))
			return text, nil
		}
		if len(text) > maxValue {
			return "", kernel.ErrInterrupted
		}
		prompt = sh.promptExpand(sh.getStr("PS2"))
		read = func(prompt string, c kernel.Completer) (string, error) { return kernel.ReadMore(sh.p.TTY, prompt, c) }
	}
}

// incomplete says whether a command goes on in the next line.
func incomplete(sh *Shell, text string) bool {
	if body := strings.TrimRight(text, "\n"); strings.HasSuffix(body, `\`) && !strings.HasSuffix(body, `\\`) {
		return true
	}
	_, err := sh.parser().Parse(strings.NewReader(text), "")
	if err == nil {
		return false
	}
	if _, _, ok := unclosedHereDoc(err); ok || syntax.IsIncomplete(err) {
		return true
	}
	pos, msg := errorPos(err)
	return incompleteText(msg, text, pos)
}

// takeSignals makes Ctrl-C end what runs in the foreground, and not the shell.
func (sh *Shell) takeSignals() {
	p := sh.p
	sh.takeInterrupts()
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGQUIT} {
		p.Notify(s, func() {})
	}
}

func (sh *Shell) takeInterrupts() {
	box := sh.signals
	sh.p.Notify(kernel.SIGINT, func() {
		box.interrupt()
		sh.interruptForeground()
	})
}

// interruptForeground sends SIGINT to the processes of the foreground: all that descend from the shell but the jobs in the
// background and what another interactive shell leads.
func (sh *Shell) interruptForeground() {
	sh.signals.mu.Lock()
	fg := sh.signals.fg
	sh.signals.mu.Unlock()
	background := map[*kernel.Process]bool{}
	for _, j := range append([]*job(nil), sh.jobs.all...) {
		if j.p != fg {
			background[j.p] = true
		}
	}
	for _, q := range sh.p.Host().Processes.List() {
		if q == sh.p {
			continue
		}
		for a := q; a != nil; a = a.Parent {
			if a == sh.p {
				q.Signal(kernel.SIGINT)
				break
			}
			if background[a] || a.Value(interactiveShell{}) != nil {
				break
			}
		}
	}
}

// startup runs the files that a shell reads when it begins.
func (sh *Shell) startup(rc, profile bool) {
	source := func(name string) bool {
		b, err := sh.files.ReadFile(sh.abs(name))
		if err != nil {
			return false
		}
		sh.sourceText(name, string(b), nil)
		if sh.flow == flowAbort {
			sh.flow = flowNone
		}
		return true
	}
	home := sh.getStr("HOME")
	if sh.login && profile {
		source("/etc/profile")
		for _, f := range []string{"/.bash_profile", "/.bash_login", "/.profile"} {
			if (sh.style == bashStyle || f == "/.profile") && source(home+f) {
				break
			}
		}
	}
	if sh.interactive && !sh.login && rc && sh.style == bashStyle {
		source("/etc/bash.bashrc")
		source(home + "/.bashrc")
	}
	if sh.style != bashStyle && sh.interactive {
		if env := sh.getStr("ENV"); env != "" {
			source(env)
		}
	}
	if sh.interactive && sh.style == bashStyle {
		sh.loadHistory()
	}
	sh.status = 0
}

// Startup reads /etc/profile, ~/.profile or ~/.bashrc as the kind of shell demands.
func (sh *Shell) Startup() { sh.startup(true, true) }
