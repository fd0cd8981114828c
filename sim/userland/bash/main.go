package bash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Register adds the programs bash, dash and ash.
func Register(ps *kernel.Programs) {
	ps.Register("bash", Main)
	ps.Register("dash", DashMain)
	ps.Register("ash", AshMain)
}

// Main is /usr/bin/bash.
func Main(p *kernel.Process) int { return run(p, Options{}) }

// DashMain is dash, /bin/sh on Ubuntu and Debian.
func DashMain(p *kernel.Process) int { return run(p, Options{Dash: true}) }

// AshMain is the shell of busybox, /bin/sh in images of busybox and Alpine.
func AshMain(p *kernel.Process) int { return run(p, Options{Ash: true}) }

const version = "GNU bash, version 5.2.21(1)-release (x86_64-pc-linux-gnu)"

type invocation struct {
	o                 Options
	command           *string
	stdin             bool
	norc, noprofile   bool
	set, unset        string
	setLong           []string
	shoptOn, shoptOff []string
}

func run(p *kernel.Process, o Options) int {
	argv := p.CommandLine()
	if len(argv) == 0 {
		argv = []string{"bash"}
	}
	if p.Sleep(p.ConsumeLag(stepQuantum)) != nil {
		return 1
	}
	inv := invocation{o: o}
	inv.o.Name = argv[0]
	if strings.HasPrefix(argv[0], "-") {
		inv.o.Login = true
	}
	args, status, done := inv.options(p, argv)
	if done {
		return status
	}
	script := ""
	switch {
	case inv.command != nil:
		if len(args) > 0 {
			inv.o.Name, args = args[0], args[1:]
		}
	case !inv.stdin && len(args) > 0:
		script, args = args[0], args[1:]
		inv.o.Name = script
	default:
		inv.stdin = true
		if libc.IsTerminal(p, p.Stdin) && libc.IsTerminal(p, p.Stderr) {
			inv.o.Interactive = true
		}
	}
	inv.o.Args = args
	if n := NestOf(p.TTY); n != nil && inv.o.Interactive && inv.stdin {
		if f := n.take(); f != nil {
			return resumeShell(p, inv.o, f)
		}
	}
	sh := New(p, inv.o)
	for i := 0; i < len(inv.set); i++ {
		sh.opt[inv.set[i]] = true
	}
	for i := 0; i < len(inv.unset); i++ {
		sh.opt[inv.unset[i]] = false
	}
	for _, n := range inv.setLong {
		if !sh.setLong(n, true) {
			fmt.Fprintf(sh.stderr(), "%s: %s: invalid option name\n", sh.zero, n)
			return 2
		}
	}
	for _, n := range inv.shoptOn {
		sh.shopt[n] = true
	}
	for _, n := range inv.shoptOff {
		sh.shopt[n] = false
	}
	switch {
	case inv.command != nil:
		sh.command, sh.invocation = true, "c"
	case inv.stdin:
		sh.invocation = "s"
	}
	sh.startup(!inv.norc, !inv.noprofile)
	if sh.flow == flowExit {
		return sh.status
	}
	switch {
	case inv.command != nil:
		sh.runCommand(*inv.command)
	case script != "":
		if status := sh.runScript(script); status >= 0 {
			return status
		}
	case inv.o.Interactive && p.TTY != nil && libc.IsTerminal(p, p.Stdin):
		return sh.Interactive()
	default:
		sh.runStdin()
	}
	sh.finish()
	if sh.kill != 0 && sh.p.Alive() {
		p.Notify(sh.kill, nil)
		p.Signal(sh.kill)
	}
	return sh.status
}

// resumeShell is an interactive shell that goes on where it was before a thaw.
func resumeShell(p *kernel.Process, o Options, f *Frame) int {
	p.ConsumeLag(p.Lag())
	sh := New(p, o)
	sh.invocation = "s"
	sh.Restore(f.State)
	sh.place.before = f.Waiting
	sh.mourn(f.State.Jobs)
	return sh.Interactive()
}

func (inv *invocation) options(p *kernel.Process, argv []string) (args []string, status int, done bool) {
	args = argv[1:]
	command := false
	for len(args) > 0 {
		a := args[0]
		switch {
		case a == "--" || a == "-":
			args = args[1:]
			goto end
		case strings.HasPrefix(a, "--") && !inv.o.Dash:
			switch a {
			case "--login":
				inv.o.Login = true
			case "--norc":
				inv.norc = true
			case "--noprofile":
				inv.noprofile = true
			case "--posix", "--noediting", "--verbose", "--restricted", "--debugger":
			case "--rcfile", "--init-file":
				if len(args) > 1 {
					args = args[1:]
				}
			case "--version":
				p.Printf("%s\nCopyright (C) 2022 Free Software Foundation, Inc.\nLicense GPLv3+: GNU GPL version 3 or later <http://gnu.org/licenses/gpl.html>\n\n"+
					"This is free software; you are free to change and redistribute it.\nThere is NO WARRANTY, to the extent permitted by law.\n", version)
				return nil, 0, true
			default:
				p.Errorf("%s: %s: invalid option\n", argv[0], a)
				p.Errorf("Usage:\t%s [GNU long option] [option] ...\n\t%s [GNU long option] [option] script-file ...\n", argv[0], argv[0])
				return nil, 2, true
			}
			args = args[1:]
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			args = args[1:]
			for j := 1; j < len(a); j++ {
				switch c := a[j]; {
				case c == 'c':
					command = true
				case c == 'i':
					inv.o.Interactive = true
				case c == 'l':
					inv.o.Login = true
				case c == 's':
					inv.stdin = true
				case c == 'o' || c == 'O':
					if len(args) == 0 {
						continue
					}
					switch {
					case c == 'o' && a[0] == '-':
						inv.setLong = append(inv.setLong, args[0])
					case c == 'O' && a[0] == '-':
						inv.shoptOn = append(inv.shoptOn, args[0])
					case c == 'O':
						inv.shoptOff = append(inv.shoptOff, args[0])
					}
					args = args[1:]
				case optionNames[c] != "":
					if a[0] == '-' {
						inv.set += string(c)
					} else {
						inv.unset += string(c)
					}
				default:
					if inv.o.Dash {
						p.Errorf("%s: 0: Illegal option -%c\n", argv[0], c)
					} else {
						p.Errorf("%s: -%c: invalid option\n", argv[0], c)
					}
					return nil, 2, true
				}
			}
		default:
			goto end
		}
	}
end:
	if command {
		if len(args) == 0 {
			if inv.o.Dash {
				p.Errorf("%s: 0: -c requires an argument\n", argv[0])
			} else {
				p.Errorf("%s: -c: option requires an argument\n", argv[0])
			}
			return nil, 2, true
		}
		inv.command = &args[0]
		args = args[1:]
	}
	return args, 0, false
}

// runCommand runs the text of -c; a single simple command takes the shell's place, as all of these shells do.
func (sh *Shell) runCommand(text string) {
	f, err := sh.parser().Parse(strings.NewReader(text), "")
	if err == nil && len(f.Stmts) == 1 && !f.Stmts[0].Background && !sh.interactive && !sh.opt['v'] {
		if _, ok := f.Stmts[0].Cmd.(*syntax.CallExpr); ok {
			sh.src = &source{text: text}
			sh.line = 1
			sh.last(f.Stmts[0])
			return
		}
	}
	sh.runAs(text, 0, "-c")
}

// runScript runs a file; it returns the exit status when the file cannot be read, else -1.
func (sh *Shell) runScript(name string) int {
	full := sh.abs(name)
	content, err := sh.readScript(full)
	if err != nil && !strings.Contains(name, "/") && sh.style == bashStyle {
		if f, lookErr := lookReadable(sh, name); lookErr == nil {
			content, err = sh.files.ReadFile(f)
		}
	}
	shell := path.Base(strings.TrimPrefix(sh.p.CommandLine()[0], "-"))
	if err != nil {
		shellName := sh.p.CommandLine()[0]
		switch {
		case sh.style == dashStyle:
			sh.p.Errorf("%s: 0: cannot open %s: %s\n", shellName, name, dashText(err, false))
			return 2
		case sh.style == ashStyle:
			sh.p.Errorf("%s: can't open '%s': %s\n", shell, name, libc.Strerror(err))
			return 2
		case errors.Is(err, syscall.EISDIR):
			sh.p.Errorf("%s: %s: Is a directory\n", shellName, name)
			return 126
		case errors.Is(err, syscall.EACCES):
			sh.p.Errorf("%s: %s: Permission denied\n", shellName, name)
			return 126
		}
		sh.p.Errorf("%s: %s: %s\n", shellName, name, libc.Strerror(err))
		return 127
	}
	if isBinary(content) {
		sh.p.Errorf("%s: %s: cannot execute binary file\n", name, name)
		return 126
	}
	sh.Run(string(content))
	return -1
}

// runStdin reads commands from standard input that is not a terminal: it reads and runs line by line, so that a command
// may read what follows.
func (sh *Shell) runStdin() {
	in := sh.fds[0]
	if in == nil || in.r == nil {
		return
	}
	var pending strings.Builder
	line, start := 0, 0
	for sh.flow != flowExit && sh.p.Alive() {
		l, err := readLine(in.r)
		if l == "" && err != nil {
			break
		}
		pending.WriteString(l)
		line++
		text := pending.String()
		if err == nil && incomplete(sh, text) && len(text) < maxValue {
			continue
		}
		sh.run(text, start)
		if sh.flow == flowAbort {
			if !sh.interactive && sh.style != bashStyle {
				return
			}
			sh.flow = flowNone
		}
		pending.Reset()
		start = line
		if err != nil {
			return
		}
	}
	if pending.Len() > 0 && sh.flow != flowExit {
		sh.run(pending.String(), start)
	}
}

// readLine reads up to and with a newline, one byte at a time from what others read too.
func readLine(r io.Reader) (string, error) {
	var b bytes.Buffer
	one := make([]byte, 1)
	for b.Len() < maxValue {
		n, err := r.Read(one)
		if n == 1 {
			b.WriteByte(one[0])
			if one[0] == '\n' {
				return b.String(), nil
			}
		}
		if err != nil {
			return b.String(), err
		}
	}
	return b.String(), io.ErrShortBuffer
}
