package bash

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
)

// signalBox collects what came in for a shell until its evaluator looks.
type signalBox struct {
	mu          sync.Mutex
	pending     []kernel.Signal
	wake        chan struct{}
	interrupted bool
	fg          *kernel.Process // a job that fg brought back
}

func newSignalBox() *signalBox { return &signalBox{wake: make(chan struct{}, 1)} }

func (b *signalBox) add(s kernel.Signal) {
	b.mu.Lock()
	b.pending = append(b.pending, s)
	b.mu.Unlock()
	b.ring()
}

func (b *signalBox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *signalBox) interrupt() {
	b.mu.Lock()
	b.interrupted = true
	b.mu.Unlock()
	b.ring()
}

func (b *signalBox) arrived() <-chan struct{} { return b.wake }

func (b *signalBox) take() (kernel.Signal, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return 0, false
	}
	s := b.pending[0]
	b.pending = b.pending[1:]
	return s, true
}

func (b *signalBox) first() kernel.Signal {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return 0
	}
	return b.pending[0]
}

func (b *signalBox) clear() {
	b.mu.Lock()
	b.interrupted = false
	b.mu.Unlock()
}

func (b *signalBox) foreground(p *kernel.Process) {
	b.mu.Lock()
	b.fg = p
	b.mu.Unlock()
}

// checkInterrupt throws the command line of an interactive shell away after Ctrl-C.
func (sh *Shell) checkInterrupt() bool {
	b := sh.signals
	b.mu.Lock()
	yes := b.interrupted && sh.interactive
	b.mu.Unlock()
	if yes && sh.flow != flowExit {
		sh.flow, sh.status = flowAbort, 130
	}
	return yes
}

// handleSignals runs the traps of signals that came in.
func (sh *Shell) handleSignals() {
	if sh.checkInterrupt() || sh.inTrap || sh.goroutine {
		return
	}
	for sh.flow == flowNone {
		s, ok := sh.signals.take()
		if !ok {
			return
		}
		name := signalShort(s)
		action := sh.traps[name]
		if action == "" { // only an EXIT trap made us listen
			if _, exit := sh.traps["EXIT"]; exit {
				sh.status, sh.flow, sh.kill = 128+int(s), flowExit, s
			}
			return
		}
		sh.runTrap(action)
	}
}

// runTrap runs a trap's action; $? stays as it was, unless it exits.
func (sh *Shell) runTrap(action string) {
	status, oldFlow := sh.status, sh.flow
	sh.inTrap, sh.flow = true, flowNone
	line := sh.line
	sh.runAs(action, max(line-1, 0), "")
	sh.inTrap = false
	if sh.flow == flowNone || sh.flow == flowAbort {
		sh.status, sh.flow = status, oldFlow
	}
	sh.line = line
}

// finish is the end of a shell: its EXIT trap.
func (sh *Shell) finish() {
	if !sh.p.Alive() {
		return
	}
	if action := sh.traps["EXIT"]; action != "" {
		delete(sh.traps, "EXIT")
		status := sh.status
		sh.flow = flowNone
		sh.signals.clear()
		sh.inTrap = true
		sh.runAs(action, max(sh.line-1, 0), "")
		if sh.flow != flowExit {
			sh.status = status
		}
		sh.flow = flowExit
	}
	sh.pay()
}

func sortedKeys[V any](m map[string]V) []string {
	l := make([]string, 0, len(m))
	for k := range m {
		l = append(l, k)
	}
	sort.Strings(l)
	return l
}

// linuxSignals are the names of x86-64 Linux by number.
var linuxSignals = []string{
	"EXIT", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
}

func signalShort(s kernel.Signal) string {
	if int(s) < len(linuxSignals) {
		return linuxSignals[s]
	}
	return strconv.Itoa(int(s))
}

// signalByName reads a signal's name, with or without SIG, or number.
func signalByName(name string) (kernel.Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return kernel.Signal(n), n >= 0 && n <= 64
	}
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for i, s := range linuxSignals {
		if s == name {
			return kernel.Signal(i), true
		}
	}
	return 0, false
}

// SignalByName reads a signal as kill(1) does: "TERM", "SIGTERM", "15".
func SignalByName(name string) (kernel.Signal, bool) { return signalByName(name) }

// SignalName is a signal's name without SIG.
func SignalName(s kernel.Signal) string { return signalShort(s) }

func builtinTrap(sh *Shell, args []string) int {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		switch args[0] {
		case "-l":
			return builtinKill(sh, []string{"-l"})
		case "-p":
			args = args[1:]
			for _, n := range sh.trapNames() {
				if len(args) == 0 || contains(args, n) || contains(args, "SIG"+n) {
					sh.printTrap(n)
				}
			}
			return 0
		case "--":
		default:
			sh.complain("trap: %s: invalid option", args[0])
			fmt.Fprintln(sh.stderr(), "trap: usage: trap [-lp] [[arg] signal_spec ...]")
			return 2
		}
		args = args[1:]
	}
	if len(args) == 0 {
		for _, n := range sh.trapNames() {
			sh.printTrap(n)
		}
		return 0
	}
	action, names := args[0], args[1:]
	if len(names) == 0 { // trap SIGNAL resets
		action, names = "-", args
	}
	status := 0
	for _, n := range names {
		name := strings.TrimPrefix(strings.ToUpper(n), "SIG")
		sig, isSignal := signalByName(n)
		if isSignal {
			name = signalShort(sig)
		} else if name != "ERR" && name != "DEBUG" && name != "RETURN" {
			sh.complain("trap: %s: invalid signal specification", n)
			status = 1
			continue
		}
		if action == "-" {
			delete(sh.traps, name)
		} else {
			sh.traps[name] = action
		}
		if isSignal && sig != 0 {
			sh.listen(sig)
		}
	}
	sh.listenForExit()
	return status
}

// listen tells the process what to do on a signal, by the traps.
func (sh *Shell) listen(sig kernel.Signal) {
	if sh.goroutine {
		return
	}
	action, set := sh.traps[signalShort(sig)]
	switch {
	case !set && sig == kernel.SIGINT && sh.interactive:
		sh.takeInterrupts()
	case !set:
		sh.p.Notify(sig, nil)
	case action == "":
		sh.p.Notify(sig, func() {})
	default:
		box := sh.signals
		sh.p.Notify(sig, func() { box.add(sig) })
	}
}

// listenForExit has signals that would end the shell run its EXIT trap first, as bash does.
func (sh *Shell) listenForExit() {
	if sh.goroutine || sh.interactive || sh.style != bashStyle {
		return
	}
	_, exit := sh.traps["EXIT"]
	for _, sig := range []kernel.Signal{kernel.SIGINT, kernel.SIGTERM, kernel.SIGHUP} {
		if _, set := sh.traps[signalShort(sig)]; !set {
			if exit && sh.p.NamespacePID != 1 {
				box := sh.signals
				sh.p.Notify(sig, func() { box.add(sig) })
			} else {
				sh.p.Notify(sig, nil)
			}
		}
	}
}

func (sh *Shell) trapNames() []string {
	l := sortedKeys(sh.traps)
	order := func(n string) int {
		if s, ok := signalByName(n); ok {
			return int(s)
		}
		return 100
	}
	sort.SliceStable(l, func(i, j int) bool { return order(l[i]) < order(l[j]) })
	return l
}

func (sh *Shell) printTrap(n string) {
	name := n
	if _, ok := signalByName(n); ok && n != "EXIT" && sh.style == bashStyle {
		name = "SIG" + n
	}
	fmt.Fprintf(sh.stdout(), "trap -- %s %s\n", singleQuoteRaw(sh.traps[n]), name)
}

func singleQuoteRaw(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func contains(l []string, s string) bool {
	for _, x := range l {
		if x == s {
			return true
		}
	}
	return false
}

func builtinKill(sh *Shell, args []string) int {
	sig := kernel.SIGTERM
	if len(args) == 0 {
		fmt.Fprintln(sh.stderr(), "kill: usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]")
		return 2
	}
	switch a := args[0]; {
	case a == "-l" || a == "-L":
		return sh.listSignals(args[1:])
	case (a == "-s" || a == "-n") && len(args) > 1:
		s, ok := signalByName(args[1])
		if !ok {
			sh.complain("kill: %s: invalid signal specification", args[1])
			return 1
		}
		sig, args = s, args[2:]
	case a == "--":
		args = args[1:]
	case strings.HasPrefix(a, "-") && len(a) > 1:
		s, ok := signalByName(a[1:])
		if !ok {
			sh.complain("kill: %s: invalid signal specification", a[1:])
			return 1
		}
		sig, args = s, args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(sh.stderr(), "kill: usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]")
		return 2
	}
	status := 0
	for _, a := range args {
		var p *kernel.Process
		if strings.HasPrefix(a, "%") {
			j := sh.jobs.find(a)
			if j == nil {
				sh.noJob("kill", a)
				status = 1
				continue
			}
			p = j.p
		} else {
			pid, err := strconv.Atoi(a)
			if err != nil {
				sh.complain("kill: %s: arguments must be process or job IDs", a)
				status = 1
				continue
			}
			if p = FindProcess(sh.p, pid); p == nil {
				sh.complain("kill: (%d) - No such process", pid)
				status = 1
				continue
			}
		}
		if !mayKill(sh.p, p) {
			sh.complain("kill: (%s) - Operation not permitted", a)
			status = 1
			continue
		}
		if p == sh.p && sh.traps[signalShort(sig)] != "" && sig != kernel.SIGKILL {
			sh.signals.add(sig) // its own trap runs at once
			continue
		}
		// The first process of a pid namespace is immune to what it cannot handle.
		if immune := pidSeenBy(sh.p, p) == 1 && (sig == kernel.SIGKILL || sig == kernel.SIGSTOP); sig != 0 && !immune {
			p.Signal(sig)
		}
	}
	sh.handleSignals()
	return status
}

func mayKill(from, to *kernel.Process) bool {
	return from.Cred.UID == 0 || from.Cred.UID == to.Cred.UID
}

// FindProcess finds a process by the number that p sees: in p's container those of its pid namespace, else the machine's.
func FindProcess(p *kernel.Process, pid int) *kernel.Process {
	for _, q := range VisibleProcesses(p) {
		if pidSeenBy(p, q) == pid {
			return q
		}
	}
	return nil
}

// VisibleProcesses lists the processes in p's pid namespace.
func VisibleProcesses(p *kernel.Process) []*kernel.Process {
	var l []*kernel.Process
	for _, q := range p.Host().Processes.List() {
		if p.NamespacePID == 0 || q.Container == p.Container && q.NamespacePID != 0 {
			l = append(l, q)
		}
	}
	return l
}

func pidSeenBy(p, q *kernel.Process) int {
	if p.NamespacePID == 0 {
		return q.ID()
	}
	return q.OwnPID()
}

// PIDSeenBy is the number under which p sees q.
func PIDSeenBy(p, q *kernel.Process) int { return pidSeenBy(p, q) }

func (sh *Shell) listSignals(args []string) int {
	if len(args) > 0 {
		status := 0
		for _, a := range args {
			s, ok := signalByName(a)
			if _, err := strconv.Atoi(a); err == nil && s > 128 {
				s -= 128
			}
			switch {
			case !ok:
				sh.complain("kill: %s: invalid signal specification", a)
				status = 1
			case a[0] >= '0' && a[0] <= '9':
				fmt.Fprintln(sh.stdout(), signalShort(s))
			default:
				fmt.Fprintln(sh.stdout(), int(s))
			}
		}
		return status
	}
	for i := 1; i < len(linuxSignals); i++ {
		sep := "\t"
		if i%5 == 0 || i == len(linuxSignals)-1 {
			sep = "\n"
		}
		fmt.Fprintf(sh.stdout(), "%2d) SIG%s%s", i, linuxSignals[i], sep)
	}
	return 0
}
